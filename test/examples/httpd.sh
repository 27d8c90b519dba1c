#!/bin/sh
# SPDX-License-Identifier: MIT
# httpd.sh: the server of examples/httpd answers good requests rightly, and bad
# ones by their status; it goes to no file outside of its root; it keeps its
# limits; and its stop loses no answer. So it does in the hard mode, too, where
# each thread that blocks is evicted. Its parser finds the same in a head however
# it is cut. It has at most 960 lines, the parser 260. Planted bugs are found.
#
# CC is the compiler, CFLAGS are more options for it. FUZZ_SECONDS: for the
# parser.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
unset USCHED_SEED USCHED_DEBUG
ulimit -c 0

sources="usched.c $waits $syncs uscope.c uthread.c uio.c upoll.c unet.c
	userve.c usignal.c umem.c uproc.c ucall.c rr.c"
parser=examples/httpd/http.c serve=examples/httpd/serve.c
main=examples/httpd/httpd.c userve=lib/io/userve.c

compile() { # unquoted: several words
	${CC:-cc} -std=gnu11 -g -Wall -Wextra -Werror ${CFLAGS:-} $includes \
		-Iexamples/httpd "$@" -pthread
}

build() { # name, flags ...
	name=$1; shift
	more=
	case $* in *HARD*) more=uhard.c;; esac
	mkdir "$dir/$name" || return
	for source in $(where $sources $more) examples/httpd/*.c; do
		compile "$@" -c "$source" -o "$dir/$name/${source##*/}.o" ||
			touch "$dir/$name/failed" &
	done
	wait
	[ ! -e "$dir/$name/failed" ] &&
		compile "$@" "$dir/$name"/*.o -o "$dir/$name/httpd"
}

# Asks a server. It mostly waits, so this runs beside others.
check() { # name of the build, what
	mkdir "$dir/$1-files" && timeout 120 python3 test/examples/httpd/check.py \
		"$dir/$1/httpd" "$dir/$1-files" $2 >"$dir/$1.log" 2>&1
	echo $? >"$dir/$1.status"
}

checked() { # name of the build
	cat "$dir/$1.log"
	return "$(cat "$dir/$1.status")"
}

lines() {
	cat examples/httpd/*.[ch] | wc -l
	[ "$(cat examples/httpd/*.[ch] | wc -l)" -le 960 ] &&
		[ "$(cat $parser ${parser%c}h | wc -l)" -le 260 ]
}

fuzz() { # name, parser, seconds
	sanitize='-fsanitize=address,undefined -fno-sanitize-recover=all'
	compile -O1 $sanitize test/examples/httpd/fuzz.c "$2" -o "$dir/fuzz-$1" ||
		compile -O1 test/examples/httpd/fuzz.c "$2" -o "$dir/fuzz-$1" || return 1
	"$dir/fuzz-$1" "$3"
}

# The parser with a bug fails: a sed script makes it.
planted() {
	sed "$1" $parser >"$dir/planted.c"
	cmp -s $parser "$dir/planted.c" && echo 'changes nothing' && return 1
	! fuzz planted "$dir/planted.c" 1
}

# Makes a server with a bug, by a sed script for a file, and asks it, beside
# others. what: finds the bug.
plant_server() { # name, file, script, what
	mkdir "$dir/$1"
	sed "$3" "$2" >"$dir/$1/${2##*/}"
	cmp -s "$2" "$dir/$1/${2##*/}" && echo 'changes nothing' && return 1
	cp "$dir"/plain/*.o "$dir/$1" &&
		compile -O2 -Wno-unused -c "$dir/$1/${2##*/}" \
			-o "$dir/$1/${2##*/}.o" &&
		compile -O2 "$dir/$1"/*.o -o "$dir/$1/httpd" || return 1
	check "$1" $4 &
}

found() { # name
	! checked "$1" && grep -q ^FAIL "$dir/$1.log"
}

try '960 lines' lines
try 'builds' build plain -O2
try 'builds, hard' build hard -O1 -DUSCHED_HARD
if command -v python3 >/dev/null; then
	check plain &
	USCHED_DEBUG=evict=always,poison,fault check hard &
	# A close that does not wait for the client.
	try 'plant' plant_server close $serve 's/if (c.c_linger)/if (0)/' last
	# A way out of the root.
	try 'plant' plant_server root $serve 's/0, BENEATH | NO_LINKS/0, 0/' \
		escapes
	# A path that leads back into the root.
	try 'plant' plant_server climbs $serve 's/else if (climbs(path))/else if (0)/' \
		escapes
	# A client that asks before it sends, and is waited for.
	try 'plant' plant_server expects $serve 's/return h->h_expects .*/return false;/' \
		expect
	# A client that takes nothing, and is waited for.
	try 'plant' plant_server silent $serve 's/return first || .*/return true;/' \
		times
	# Steady clients that are taken for silent: to take, and to send.
	try 'plant' plant_server queue $serve 's/^.*ioctl(c->c_fd, TIOCOUTQ.*//' steady
	try 'plant' plant_server goal $serve 's/goal > 0 ? goal : 0/0/' steady
	# Places for each processor.
	try 'plant' plant_server each $main \
		's/share = &places/limit = (number[CONNS] + nr - 1) \/ nr/' \
		places
	# A place that is held without a client.
	try 'plant' plant_server held $userve \
		's/accept_one(s, true)) != 0/& \&\& rc != -EAGAIN/' places
	# A backlog that is not accepted.
	try 'plant' plant_server backlog $userve 's/^	drain(s, until);//' \
		stop_full
	# A listener that stays open.
	try 'plant' plant_server open $userve 's/^	(void)u_close(fd);//' \
		stop_full
	# A last answer that does not say that it is the last.
	try 'plant' plant_server says $serve \
		's/if (!c->c_close && stops()/if (0/' stop_coming
	# A last answer that a request resets.
	try 'plant' plant_server late $serve \
		'/c_close && stops()/{n;s/c->c_linger = //;}' stop_late
fi
try 'the parser' fuzz parser $parser "${FUZZ_SECONDS:-8}"
try 'planted: reads on at a wrong place' \
	planted 's/h->h_seen = n;/h->h_seen = n + 1;/'
try 'planted: forgets where a line begins' \
	planted 's/h->h_line = h->h_seen;//'
try 'planted: refuses a part of a head that would fit' \
	planted 's/too_far(h, n + 1)/too_far(h, n + 9)/'
try 'planted: takes a bare LF' planted "s/\*--q != '.r'/*--q == 0/"
wait
for run in plain hard; do
	if command -v python3 >/dev/null; then
		try "$run" checked $run
	else
		skip "$run: no python3"
	fi
done
if command -v python3 >/dev/null; then
	for bug in close root climbs expects silent queue goal each held backlog open \
			says late; do
		try "planted: $bug" found $bug
	done
fi
counted
