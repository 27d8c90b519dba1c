#!/bin/sh
# SPDX-License-Identifier: MIT
# httpd.sh: the server of examples/httpd answers good requests rightly, and bad
# ones by their status; it goes to no file outside of its root; it keeps its
# limits; and its stop loses no answer. So it does in the hard mode, too, where
# each thread that blocks is evicted. Its parser finds the same in a head however
# it is cut. It has at most 800 lines, the parser 200. Planted bugs are found.
#
# CC is the compiler, CFLAGS are more options for it. FUZZ_SECONDS: for the
# parser.

cd "$(dirname "$0")/.." || exit 1
. test/layout
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
unset USCHED_SEED USCHED_DEBUG
ulimit -c 0
passed=0 failed=0 skipped=0
sources='usched.c uwait.c usync.c uscope.c uthread.c uio.c upoll.c unet.c
	userve.c usignal.c umem.c uproc.c ucall.c rr.c'
parser=examples/httpd/http.c serve=examples/httpd/serve.c

try() { # what, command ...
	what=$1; shift
	"$@" >"$dir/log" 2>&1
	case $? in
	0)	passed=$((passed + 1));;
	77)	skipped=$((skipped + 1))
		echo "skip $what: $(tail -n 1 "$dir/log")";;
	*)	failed=$((failed + 1))
		echo "FAIL  $what"; cat "$dir/log";;
	esac
}

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
	mkdir "$dir/$1-files" && timeout 120 python3 test/httpd/check.py \
		"$dir/$1/httpd" "$dir/$1-files" $2 >"$dir/$1.log" 2>&1
	echo $? >"$dir/$1.status"
}

checked() { # name of the build
	cat "$dir/$1.log"
	return "$(cat "$dir/$1.status")"
}

lines() {
	cat examples/httpd/*.[ch] | wc -l
	[ "$(cat examples/httpd/*.[ch] | wc -l)" -le 800 ] &&
		[ "$(cat $parser ${parser%c}h | wc -l)" -le 200 ]
}

fuzz() { # name, parser, seconds
	sanitize='-fsanitize=address,undefined -fno-sanitize-recover=all'
	compile -O1 $sanitize test/httpd/fuzz.c "$2" -o "$dir/fuzz-$1" ||
		compile -O1 test/httpd/fuzz.c "$2" -o "$dir/fuzz-$1" || return 1
	"$dir/fuzz-$1" "$3"
}

# The parser with a bug fails: a sed script makes it.
planted() {
	sed "$1" $parser >"$dir/planted.c"
	cmp -s $parser "$dir/planted.c" && echo 'changes nothing' && return 1
	! fuzz planted "$dir/planted.c" 1
}

# The server with a bug fails: a sed script makes it; what finds it.
planted_server() { # name, script, what
	mkdir "$dir/$1"
	sed "$2" $serve >"$dir/$1/serve.c"
	cmp -s $serve "$dir/$1/serve.c" && echo 'changes nothing' && return 1
	cp "$dir"/plain/*.o "$dir/$1" &&
		compile -O2 -c "$dir/$1/serve.c" -o "$dir/$1/serve.c.o" &&
		compile -O2 "$dir/$1"/*.o -o "$dir/$1/httpd" || return 1
	check "$1" $3
	! checked "$1" && grep -q ^FAIL "$dir/$1.log"
}

try '800 lines' lines
try 'builds' build plain -O2
try 'builds, hard' build hard -O1 -DUSCHED_HARD
if command -v python3 >/dev/null; then
	check plain &
	USCHED_DEBUG=evict=always,poison,fault check hard &
	try 'planted: a close that does not wait for the client' \
		planted_server close 's/if (c.c_linger)/if (0)/' last
	try 'planted: a way out of the root' planted_server root \
		's/0, BENEATH | NO_LINKS/0, 0/' escapes
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
		echo "skip $run: no python3"
		skipped=$((skipped + 1))
	fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && [ $passed != 0 ]
