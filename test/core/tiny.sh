#!/bin/sh
# SPDX-License-Identifier: MIT
# tiny.sh: doc/tiny.c does what usched.c does. Random programs (tiny/programs.c)
# leave the same trace on both: with each compiler, at each level, with
# _FORTIFY_SOURCE, and with musl, whose longjmp() checks nothing. Examples that
# need nothing else run on tiny.c, too. A tiny.c that copies from where it
# stands, or not all, is found.
#
# PROGRAMS is their number. In environ also: SEED of the first program.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

first=${SEED:-$((${RANDOM:-0} + $$))} number=${PROGRAMS:-60}

result() { # status, words
	judge $(($1 != 0)) "$2 (SEED=$first)" "$dir/log"
}

# The header that tiny.c would have.
header() {
	echo '#ifndef TINY_USCHED_H'
	echo '#define TINY_USCHED_H'
	sed -n '/^#include/,/^#define NOINLINE/{/NOINLINE/!p;}' doc/tiny.c
	sed -n 's/^\([^#/* \t].* \**us[a-z]*_[a-z]*(void)\)$/\1;/p
		s/^\(void usched_run(.*)\)$/\1;/p
		/^void ustack_init(/,/)$/{s/)$/);/;p;}' doc/tiny.c
	echo '#endif'
}

# Prints the traces of a program on standard output; the rest goes to the log.
traces() { # fails, program
	timeout 120 "$2" "$first" "$number" "$1" 2>>"$dir/log"
}

# Builds programs.c on usched.c, with more options, and keeps the traces.
real() { # name, fails, options
	name=$1 fails=$2; shift 2
	${CC:-cc} -std=c11 -O2 -g -Wall -Wextra -Werror $includes "$@" \
		test/core/tiny/programs.c usched.c -o "$dir/real" >"$dir/log" 2>&1 &&
		traces "$fails" "$dir/real" >"$dir/$name"
	result $? "usched.c: $name"
}

# Builds a program on tiny.c, or on a copy of it.
tiny() { # program, copy, command ...
	file=$1 copy=$2; shift 2
	"$@" -std=gnu11 -Wall -Wextra -Werror -Dmain=tiny_main -c "$copy" \
		-o "$dir/tiny.o" &&
	"$@" -std=gnu11 -Wall -Wextra -Werror -I"$dir" -Itest/run "$file" \
		"$dir/tiny.o" -o "$dir/prog"
}

same() { # fails, name
	traces "$1" "$dir/prog" >"$dir/got" && cmp -s "$dir/got" "$dir/$2" ||
		{ diff "$dir/$2" "$dir/got" | head -n 6 >>"$dir/log"; false; }
}

example() { # name, command ...
	example=examples/$1; shift
	tiny "$example.c" doc/tiny.c "$@" >"$dir/log" 2>&1 &&
		timeout 20 "$dir/prog" | diff "$example.expected" - >>"$dir/log"
	result $? "$example.c on tiny.c: $*"
}

compiler() { # command
	for flags in -O0 -O1 -O2 -O3 '-O2 -D_FORTIFY_SOURCE=3' \
	    '-O3 -D_FORTIFY_SOURCE=3 -fstack-protector-all'; do
		case $1:$flags in
		musl-gcc:*FORTIFY*)	continue ;;
		esac
		tiny test/core/tiny/programs.c doc/tiny.c $1 $flags >"$dir/log" 2>&1 &&
			same 0 plain && same 1 refused
		result $? "tiny.c: $1 $flags"
	done
	example hello $1 -O2
	example generator $1 -O2
}

# What is wrong is seen: sed changes tiny.c.
wrong() { # expression
	sed "$1" doc/tiny.c >"$dir/wrong.c"
	! cmp -s doc/tiny.c "$dir/wrong.c" &&
	tiny test/core/tiny/programs.c "$dir/wrong.c" ${CC:-cc} -O2 -w >"$dir/log" 2>&1 &&
	! (ulimit -c 0; WATCHDOG=5; export WATCHDOG; same 1 refused)
	result $? "not seen: $1"
}

header >"$dir/usched.h"
real plain 0
real refused 1
for more in -DUSCHED_PORTABLE -DLANES=1 -DLANES=3; do
	real again 0 $more
	cmp -s "$dir/plain" "$dir/again"
	result $? "usched.c $more: the traces differ"
done
for cc in gcc clang clang-19 musl-gcc; do
	if have $cc; then
		compiler $cc
	else
		skip "$cc: not there"
	fi
done
wrong 's/if (HERE > u->u_top)/if (0)/'
wrong 's/\(memcpy(u->u_stack, u->u_top, size\))/\1 - 64)/'
wrong 's/s->s_free(s, u->u_stack, u->u_len);/;/'
wrong 's/return -ENOMEM/return 0/'
counted
