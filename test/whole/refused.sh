#!/bin/sh
# SPDX-License-Identifier: MIT
# refused.sh: compilers that keep parts of the stack elsewhere are refused by
# name. Files with SafeStack or ShadowCallStack do not compile; a program that
# is linked with SafeStack is stopped by usched_run(); code with -fsplit-stack
# is stopped by its block. Files with AddressSanitizer or ThreadSanitizer compile
# only with -DUSCHED_HARD, and a program with ThreadSanitizer is stopped unless the
# library has it, too.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

# The last command must have failed, with this message.
must() { # what, status, words
	if [ "$2" != 0 ] && grep -q -- "$3" "$dir/log"; then
		pass
	else
		fail "$1: status $2, not \"$3\":" "$dir/log"
	fi
}

compile() { # what, words, command ...
	what=$1 words=$2; shift 2
	"$@" $includes -c "$dir/header.c" -o "$dir/o" >"$dir/log" 2>&1
	must "$what" $? "$words"
}

# Files compile with a sanitizer in the hard mode only.
sanitizers() { # compiler
	for san in address thread; do
		if ! $1 -fsanitize=$san -S "$dir/empty.c" -o "$dir/s" \
		    >/dev/null 2>&1; then
			skip "$1: no -fsanitize=$san"
			continue
		fi
		compile "$1, $san" 'usched: .* need -DUSCHED_HARD' \
			$1 -fsanitize=$san
		if $1 -fsanitize=$san -DUSCHED_HARD $includes \
		    -c "$dir/header.c" -o "$dir/o" >"$dir/log" 2>&1; then
			pass
		else
			must "$1, $san, in the hard mode" 0 'no error'
		fi
	done
	return 0
}

# The hard mode is compiled without a sanitizer, as in the debug library, and the
# program with ThreadSanitizer.
races() { # compiler
	makes $1 -fsanitize=thread || { skip "$1: no program with it"; return; }
	for src in usched.c lib/debug/uhard.c; do
		$1 -g -DUSCHED_HARD $includes -c $src -o "$dir/$(basename $src .c).o"
	done
	$1 -g -DUSCHED_HARD -fsanitize=thread $includes -c "$dir/main.c" \
		-o "$dir/main.o"
	program "$1, thread, over a library without" 'ThreadSanitizer is in the' \
		$1 -fsanitize=thread "$dir/uhard.o"
}

# Succeeds if this compiler can make any program with these flags.
makes() { # command ...
	"$@" "$dir/empty.c" -o "$dir/empty" >/dev/null 2>&1 && "$dir/empty"
}

program() { # what, words, command ...
	what=$1 words=$2; shift 2
	"$@" "$dir/main.o" "$dir/usched.o" -o "$dir/main" -lpthread \
		>"$dir/log" 2>&1 || { must "$what" 0 "$words"; return; }
	(ulimit -c 0; exec timeout 60 "$dir/main") >"$dir/log" 2>&1
	must "$what" $? "$words"
}

echo '#include "usched.h"' >"$dir/header.c"
echo 'int main(void) { return 0; }' >"$dir/empty.c"
cat >"$dir/main.c" <<'END'
#include "tiny.h"

static struct tiny t;
static struct tiny_thread tt;

static NOINLINE void down(int n, volatile char *up)
{
	volatile char local[3000];

	local[0] = (char)n;
	if (n > 0)
		down(n - 1, local);
	else
		tiny_yield();
	up[1] = local[0];
}

static void thread(void *arg)
{
	volatile char local[200];

	(void)arg;
	down(5, local);
}

int main(void)
{
	CHECK(tiny_init(&t, 2) == 0 || tiny_init(&t, 0) == 0);
	tiny_start(&t, &tt, thread, NULL);
	tiny_run(&t);
	tiny_fini(&t);
	return 0;
}
END

apart='usched: copied stacks and'
for cc in gcc clang clang-19; do
	have $cc && sanitizers $cc && races $cc
done
for cc in clang clang-19; do
	if ! have $cc; then
		skip "$cc: not there (Debian: $cc)"
		continue
	fi
	compile "$cc, safe-stack" "$apart" $cc -fsanitize=safe-stack
	compile "$cc, shadow-call-stack" "$apart" $cc --target=aarch64-linux-gnu \
		-ffixed-x18 -fsanitize=shadow-call-stack
	if ! makes $cc -fsanitize=safe-stack; then
		skip "$cc: no program with SafeStack"
		continue
	fi
	$cc -g $includes -c usched.c -o "$dir/usched.o" &&
	$cc -g $includes -c "$dir/main.c" -o "$dir/main.o"
	program "$cc, linked with safe-stack" 'usched_run: .*safe-stack do not' \
		$cc -fsanitize=safe-stack
done

if makes gcc -fsplit-stack; then
	gcc -g $includes -c usched.c -o "$dir/usched.o" &&
	gcc -g $includes -fsplit-stack -c "$dir/main.c" -o "$dir/main.o"
	program "gcc, split-stack" 'ustack_block: .*split-stack' gcc -fsplit-stack
else
	skip "gcc: no program with -fsplit-stack"
fi
counted
