#!/bin/sh
# SPDX-License-Identifier: MIT
# gdb.sh: a debugger walks from a running thread to its bottom, and stops there,
# on a lane and on the native stack.

command -v gdb >/dev/null || { echo "no gdb (package gdb)"; exit 77; }
cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT || exit 1

cat >"$dir/walk.c" <<'END'
#include <stdio.h>
#include "rr.h"

__attribute__((noinline)) static int deep(int n)
{
	return n == 0 ? rr_yield() + puts("end") : deep(n - 1) + 1;
}

static void first(void *arg)
{
	printf("%d\n", deep(*(int *)arg));
}

int main(void)
{
	static int depth = 3;

	return rr_init(1, 0) || !rr_thread_init(first, &depth) || rr_start() ||
		rr_fini();
}
END

failed=0
for flags in "-O1" "-O0 -DUSCHED_PORTABLE"; do
	${CC:-cc} $flags -g -fno-optimize-sibling-calls -I. "$dir/walk.c" \
		rr.c uproc.c usched.c -o "$dir/walk" -pthread || exit 1
	timeout 60 gdb -nx -batch -ex 'break puts' -ex run -ex bt "$dir/walk" \
		>"$dir/out" 2>&1
	grep -q 'Breakpoint 1, ' "$dir/out" || {
		echo "gdb cannot run programs here"; exit 77; }
	[ "$(grep -c ' in deep ' "$dir/out")" = 4 ] &&
	grep -q ' in first ' "$dir/out" &&
	! grep -q 'corrupt\|previous frame' "$dir/out" && continue
	echo "$flags:"
	cat "$dir/out"
	failed=1
done
exit $failed
