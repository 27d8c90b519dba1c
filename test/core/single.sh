#!/bin/sh
# SPDX-License-Identifier: MIT
# single.sh: the two files that `make single` writes are complete. They compile
# alone, without warnings, for C and C++ programs, which run; their code is that
# of the library. usched.c without core/ stops, and says what to do. Planted
# errors are found.

cd "$(dirname "$0")/../.." || exit 1
. test/run/count
top=$PWD
warn='-Wall -Wextra -Wconversion -Werror'
unset MAKEFLAGS

single() { # tree, folder
	${MAKE:-make} -s -C "$1" single TO="$2"
}

# Compiles the files alone, in an empty folder, for each kind of library.
alone() { # folder, compiler
	mkdir -p "$dir/empty" && cp "$1"/usched.[ch] "$dir/empty" || return 1
	for kind in '' -DUSCHED_HARD -DUSCHED_PORTABLE; do
		(cd "$dir/empty" && $2 -O2 $warn $kind -c usched.c -o o) ||
			return 1
	done
}

# Prints the instructions of an object, and their addresses.
code() { # object
	objdump -d --no-show-raw-insn "$1" | sed 1,3d
}

# Compares the code with that of the tree, as the library has it.
same_code() { # folder, compiler
	for level in -O0 -O2; do
		$2 $level -I"$1" -c "$1/usched.c" -o "$dir/one.o" &&
		$2 $level -I. -c usched.c -o "$dir/parts.o" || return 1
		code "$dir/one.o" >"$dir/one" && code "$dir/parts.o" >"$dir/parts"
		[ "$(wc -l <"$dir/parts")" -gt 1000 ] || return 1
		cmp "$dir/one" "$dir/parts" || return 1
	done
}

# The three call-backs of hello.c need nothing else.
hello() { # folder, compiler
	printf '#include "usched.h"\n%s\n' '#include "usched.h"' \
		'int f(void); int f(void) { return usched_block(); }' >"$dir/f.c"
	$2 -O2 $warn -I"$1" -c "$dir/f.c" -o "$dir/o" &&
		$2 -O2 -Wall -Wextra -Werror -I"$1" examples/hello.c \
			"$1/usched.c" -o "$dir/hello" &&
		timeout 60 "$dir/hello" >"$dir/got" &&
		diff examples/hello.expected "$dir/got"
}

# A C++ program, with the header twice, links with the C object.
hello_cxx() { # folder, C++ compiler, C compiler
	$3 -O2 -I"$1" -c "$1/usched.c" -o "$dir/c.o" || return 1
	cat >"$dir/hello.cc" <<-'END'
		#include "usched.h"
		#include "usched.h"
		#include <cstdio>
		#include <cstdlib>

		static struct usched s;
		static struct ustack u;
		static int rounds;

		static struct ustack *next(struct usched *)
		{
			return rounds < 3 ? &u : NULL;
		}

		static void *get(struct usched *, int size)
		{
			return malloc(static_cast<size_t>(size));
		}

		static void put(struct usched *, void *buf, int)
		{
			free(buf);
		}

		static void f(void *)
		{
			while (++rounds < 3)
				(void)usched_block();
		}

		int main()
		{
			s.s_next  = next;
			s.s_alloc = get;
			s.s_free  = put;
			ustack_init(&u, &s, f, NULL, NULL, 0);
			usched_run(&s);
			printf("%d\n", rounds);
			free(u.u_stack);
			return rounds != 3;
		}
	END
	$2 -O2 $warn -I"$1" "$dir/hello.cc" "$dir/c.o" -o "$dir/cxx" &&
		timeout 60 "$dir/cxx" >"$dir/got"
}

# Nothing else is included, and nothing else was written.
complete() { # folder
	! grep -n 'include "[^"]*/' "$1"/usched.[ch] &&
	[ "$(grep -c '^/\* SPDX' "$1/usched.c")" = 1 ] &&
	[ "$(cd "$1" && echo *)" = 'usched.c usched.h' ]
}

# The tree itself is no place for the two files.
own_tree() {
	rm -rf "$dir/own" && mkdir "$dir/own" &&
	cp -r Makefile usched.[ch] core "$dir/own" &&
	! single "$dir/own" . >"$dir/log" 2>&1 && cmp usched.c "$dir/own/usched.c" &&
	cmp usched.h "$dir/own/usched.h"
}

# usched.c, or usched.h, without core/.
stops() { # file, compiler
	rm -rf "$dir/lone" && mkdir "$dir/lone" && cp usched.[ch] "$dir/lone" &&
	! $2 -c -x c "$dir/lone/$1" -o "$dir/o" 2>"$dir/said" &&
	grep -q '#error.*make single' "$dir/said" &&
	[ "$(wc -l <"$dir/said")" -lt 20 ]
}

single "$top" "$dir/two" || exit 1
try 'complete' silent complete "$dir/two"
try 'into the tree itself' silent own_tree
for cc in gcc clang musl-gcc; do
	if have $cc; then
		try "alone, $cc" silent alone "$dir/two" $cc
		try "hello.c, $cc" silent hello "$dir/two" $cc
		try "usched.c without core/, $cc" silent stops usched.c $cc
		try "usched.h without core/, $cc" silent stops usched.h $cc
		try "the code of the library, $cc" silent same_code "$dir/two" $cc
	else
		skip "no $cc"
	fi
done
for pair in 'g++ gcc' 'clang++ clang'; do
	if have ${pair% *} && have ${pair#* }; then
		try "C++, ${pair% *}" silent hello_cxx "$dir/two" $pair
	else
		skip "no ${pair% *}"
	fi
done

# Planted: sed changes a file of a copy, and the command must fail.
wrong() { # what, file, sed script, command ...
	what=$1 file=$2 script=$3; shift 3
	rm -rf "$dir/tree" "$dir/bad" && mkdir "$dir/tree" &&
	cp -r Makefile usched.[ch] core "$dir/tree" &&
	sed "$script" "$file" >"$dir/tree/$file" || exit 1
	if cmp -s "$file" "$dir/tree/$file"; then
		fail "$what: nothing was changed"
	elif single "$dir/tree" "$dir/bad" >"$dir/log" 2>&1 &&
	     "$@" >"$dir/log" 2>&1; then
		fail "not seen: $what"
	else
		pass
	fi
}

cc=${CC:-cc}
wrong 'a part that is not there' usched.c 's,core/deep.h,core/none.h,' true
wrong 'a part by another way' usched.c 's,^#include "core/deep.h",# include "core/deep.h",' \
	complete "$dir/bad"
wrong 'a part is left out' core/single.awk 's,seen\[name\]++,name ~ /ask/,' \
	same_code "$dir/bad" $cc
wrong 'other code' usched.c 's/^#define USCHED_SLACK.*/#define USCHED_SLACK 8192/' \
	same_code "$dir/bad" $cc
wrong 'a warning' core/deep.h '$a\
static int planted(long a) { return a; }' alone "$dir/bad" $cc
wrong 'no call of s_next()' usched.c 's/u = s->s_next(s);/u = NULL;/' \
	hello "$dir/bad" $cc
counted
