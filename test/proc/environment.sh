#!/bin/sh
# SPDX-License-Identifier: MIT
# environment.sh: a value that a variable of the environment does not know ends in
# one line, which names the variable, the word, and what doc/guide.md says that
# it knows; and in the result that core/env.h promises, where nothing has begun.
# Values that it knows, and an empty one, do not. So it is for each scheduler,
# lanes and runs of a plain dispatcher, with each library, also if the program has
# set the variable itself. A program without the list of threads or the recorder
# says what to link, once; then that is there. uview says so, too. In a setuid
# program USCHED_VIEW is not read.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
unset MAKEFLAGS
for variable in $(env | sed -n 's/^\(USCHED[A-Z_]*\)=.*/\1/p'); do
	unset "$variable"
done
cc=${CC:-cc}
ulimit -c 0

# Prints "NAME KNOWN" for each row of the guide's table.
known() {
	sed -n '/^## In the environment/,/^## /s/^| `\(USCHED[A-Z_]*\)` | `\([^`]*\)` |.*/\1 \2/p' \
		doc/guide.md
}

# The program ends with what a call returns: 0, or an errno. "first" comes first.
cat >"$dir/p.c" <<'END'
#include <usched/all.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int first(void *arg) { return arg != NULL; }

static void nothing(void *arg) { (void)arg; }

static struct ustack *none(struct usched *s) { return (void)s, NULL; }

static void *alloc(struct usched *s, int size) { return (void)s, malloc(size); }

static void freed(struct usched *s, void *at, int size)
{
	(void)s, (void)size;
	free(at);
}

static int plain(int lanes)
{
	struct usched s = { .s_next = none, .s_alloc = alloc, .s_free = freed };
	int rc = lanes ? usched_lanes(&s, 2, 65536) : 0;

	if (rc == 0) {
		usched_run(&s);
		usched_fini(&s);
	}
	return -rc;
}

#define RUN(x) (x##_init(1, 0) != 0 ? EINVAL :				\
	x##_sched(0)->s_make(x##_sched(0), nothing, NULL, 0) != 0 ||	\
	x##_start() != 0 || x##_fini() != 0)

int main(int argc, char **argv)
{
	const char *what = argv[1];

	if (argc > 2 && putenv(argv[2]) != 0)
		return 1;
	if (strcmp(what, "main") == 0)
		return usched_main(first, NULL);
	if (strcmp(what, "rr") == 0)
		return RUN(rr);
	if (strcmp(what, "ll") == 0)
		return RUN(ll);
	if (strcmp(what, "ws") == 0)
		return RUN(ws);
	if (strcmp(what, "sleep") == 0)
		return sleep(60);
	if (strcmp(what, "seed") == 0) {
		utime_virtual(5);
		return utime_seed() == 5 ? 5 : (int)(utime_seed() % 100);
	}
	return plain(strcmp(what, "lanes") == 0);
}
END

good() { # variable
	case $1 in
	USCHED)		echo rr ll ws rr:2 ll:0x2 ws:1 ;;
	USCHED_DEBUG)	echo evict=always,poison,fault check=never,yield=3 ,check, \
				evict=never evict=0x7,yield=4294967295 ;;
	USCHED_GUARD | USCHED_PIN | USCHED_QUIET) echo 0 1 ;;
	USCHED_LAW)	echo abort warn off ;;
	USCHED_LIST)	echo 0 1 stuck signal,run=100 signal=10 ,stuck, run=86400000 ;;
	USCHED_SEED)	echo 0 17 0xff 18446744073709551615 ;;
	USCHED_STACKS)	echo private shared ;;
	USCHED_STACK_SIZE) echo 16384 65536 16k 600k 0x100k 1M ;;
	USCHED_VIEW)	echo 0 1 stacks ,10,stacks 0xc ;;
	esac
}

wrong() { # variable
	echo foo -1 +1 1x 0x 99999999999999999999999 stuck=
	case $1 in
	USCHED)		echo rr: rr:0 rr:4097 RR ws:-1 rr:2,ll ;;
	USCHED_DEBUG)	echo evict= evict=-1 evict=4294967296 check=0 Poison poisonous ;;
	USCHED_LAW)	echo aborts warn,off ;;
	USCHED_LIST)	echo signal=0 signal=65 run=0 run= run=86400001 run=1s 2 ;;
	USCHED_STACKS)	echo privat ;;
	USCHED_STACK_SIZE) echo 1 16383 15k 2097152k 2048M 2G 1m 1Mk 18446744073709551617M ;;
	USCHED_VIEW)	echo 9 25 stack ;;
	*)		echo 2- yes no ;;
	esac
}

# Runs the program with name=value from outside, or set by itself.
run() { # program, call, name=value, by
	case $4 in
	outside)	env "$3" "$dir/$1" "$2" ;;
	itself)		"$dir/$1" "$2" "$3" ;;
	esac >"$dir/said" 2>&1
}

accepts() { # program, call, name, value, by
	run "$1" "$2" "$3=$4" "$5"
	rc=$?
	[ $rc = 0 ] && [ ! -s "$dir/said" ] && return
	echo "$1 $2, $3=$4 $5: status $rc"
	cat "$dir/said"
	return 1
}

# Compares the line. The shell says of some programs that they were aborted.
refuses() { # program, call, name, value, word in the line, status, by
	run "$1" "$2" "$3=$4" "$7"
	rc=$?
	echo "usched: $3: \"$5\" is none of: $knows" >"$dir/line"
	sed '/^Aborted/d' "$dir/said" | cmp -s - "$dir/line" && [ $rc = "$6" ] && return
	echo "$1 $2, $3=$4 $7: status $rc, not $6"
	cat "$dir/said"
	return 1
}

of_calls() { # program, variable
	for call in main rr ll ws lanes; do
		status=22
		[ $call != main ] || status=125
		accepts "$1" $call "$2" '' outside || return
		for value in $(good "$2"); do
			accepts "$1" $call "$2" "$value" outside || return
		done
		for value in $(wrong "$2"); do
			refuses "$1" $call "$2" "$value" "$(shown "$2" "$value")" \
				$status outside || return
		done
		refuses "$1" $call "$2" foo foo $status itself || return
	done
	refuses "$1" main "$2" "  $esc" '  ????' 125 outside || return
	refuses "$1" main "$2" "$huge" "$(echo "$huge" | cut -c 1-40)..." 125 outside
}

# The first word of a list that is unknown.
shown() { # variable, value
	case $1 in
	USCHED_DEBUG | USCHED_LIST | USCHED_VIEW) echo "${2%%,*}" ;;
	*)	echo "$2" ;;
	esac
}

esc=$(printf '\033\t\001\377')
huge=$(head -c 100000 /dev/zero | tr '\0' y)

${MAKE:-make} -s CC="$cc" libusched.a libusched.so libusched-debug.a uview \
	>"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
build() { # program, flags and library
	program=$1
	shift
	$cc -O1 -Wall -Wextra -Iinclude "$dir/p.c" "$@" -pthread -o "$dir/$program" \
		>"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
}
build bare libusched.a
build static -Wl,-u,ulist_start,-u,uview_start libusched.a
build debug -DUSCHED_HARD -Wl,-u,uview_start libusched-debug.a
build shared libusched.so "-Wl,-rpath,$PWD"

known >"$dir/known"
empty 'the table of doc/guide.md has few variables' \
	"$([ "$(wc -l <"$dir/known")" -ge 11 ] || cat "$dir/known")"
while read -r name knows; do
	empty "$name: no value to try" "$([ "$(good "$name")" ] || echo x)"
	for program in static shared debug; do
		[ "$name/$program" = USCHED_DEBUG/static ] && continue
		[ "$name/$program" = USCHED_DEBUG/shared ] && continue
		try "$program, $name" of_calls $program "$name"
	done
	# Read without a call that could fail.
	case $name in
	USCHED_LIST | USCHED_VIEW | USCHED_STACKS)
		try "static, $name, a run" refuses static run "$name" foo foo 134 outside
		try "static, $name is empty, a run" accepts static run "$name" '' outside ;;
	USCHED_DEBUG)
		try 'debug, a run' refuses debug run "$name" foo foo 134 itself ;;
	USCHED_SEED)
		for by in outside itself; do
			try "a seed, $by" refuses static seed "$name" 1x 1x 134 $by
			run static seed "$name=17" $by
			try "the seed, $by" [ $? = 17 -a ! -s "$dir/said" ]
		done
		run static seed "$name=" outside
		try 'no seed' [ $? = 5 ] ;;
	esac
done <"$dir/known"

# Several at a time: a line for each, also if the program wants to be quiet.
USCHED_PIN=2 USCHED_LAW=no USCHED_QUIET=1 "$dir/bare" main >"$dir/said" 2>&1
try 'two lines' [ $? = 125 -a "$(sort "$dir/said" | cut -d : -f 2 | tr -d '\n')" = \
	' USCHED_LAW USCHED_PIN' ]

# What is not in the program: a line, once, and it runs.
lacks() { # name, what it is linked by
	for call in main rr ll ws lanes; do
		echo "usched: $1 is set, and what reads it is not in this program:" \
			"link it with -Wl,-u,$2, before the library" >"$dir/line"
		run bare $call "$1=stuck" outside || return
		cmp "$dir/line" "$dir/said" || return
		for value in '' 0; do
			accepts bare $call "$1" "$value" outside || return
		done
		USCHED_QUIET=1 accepts bare $call "$1" stuck outside || return
		accepts static $call "$1" 1 outside || return
	done
}
try 'no list' lacks USCHED_LIST ulist_start
try 'no recorder' lacks USCHED_VIEW uview_start

# uview names what is missing, whatever was done before.
advises() {
	USCHED_VIEW=1 "$dir/bare" sleep & pid=$!
	./uview $pid "$dir/none.html" >"$dir/said" 2>&1
	rc=$?
	kill $pid
	wait $pid 2>/dev/null
	[ $rc = 1 ] && grep -q 'no recorder: link it with -Wl,-u,uview_start .*USCHED_VIEW=1' \
		"$dir/said" && [ "$(wc -l <"$dir/said")" = 1 ] && return
	cat "$dir/said"
	return 1
}
try 'uview' advises

# Set for another user: a word of the caller neither starts nor ends it.
set_user() {
	chmod 755 "$dir" && chown nobody "$dir/static" && chmod 4755 "$dir/static" ||
		return
	USCHED_VIEW=foo "$dir/static" main >"$dir/said" 2>&1 && [ ! -s "$dir/said" ]
}
if [ "$(id -u)" = 0 ]; then
	try 'setuid' set_user
else
	skip 'setuid: not root'
fi
counted
