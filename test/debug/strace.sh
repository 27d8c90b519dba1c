#!/bin/sh
# SPDX-License-Identifier: MIT
# strace.sh: strace -k and perf show the stack of a thread on a lane, from its
# function to its system call, or to what it computes: doc/guide.md says so. The
# same with a private stack. All native threads have the name of the program.
#
# CC is the compiler, CFLAGS are more options for it, LIBRARY is libusched.a.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
unset USCHED_DEBUG USCHED_SEED

cat >"$dir/seen.c" <<'END'
#include <usched/all.h>

static volatile long sum;

__attribute__((noinline)) void computes(void)
{
	for (long i = 0; i < 20000000; i++)
		sum += i;
}

__attribute__((noinline)) ssize_t reads(int fd)
{
	char c;
	ssize_t n = u_read(fd, &c, 1, UNEVER);

	return n + sum - sum;
}

void seen(void *fd)
{
	while (reads(*(int *)fd) == 1)
		;
	for (int i = 0; i < 10; i++)
		computes();
}

static int run(void *arg)
{
	static int fd[2];

	(void)arg;
	if (pipe(fd) != 0 || usched_go(seen, fd) != 0)
		return 1;
	for (int i = 0; i < 3; i++)
		if (u_sleep(uafter(UTIME_MS)) != 0 ||
		    u_write_all(fd[1], "x", 1, UNEVER) != 1)
			return 1;
	return u_close(fd[1]) != 0;
}

int main(void)
{
	return usched_main(run, NULL);
}
END

stacks() {
	strace -f -k -e trace=readv,preadv2 -o "$dir/calls" "$dir/seen" || return 1
	awk '/readv/	{ in_call = 1; reads = 0; next }
	!/^ >/		{ in_call = 0 }
	in_call && /\(reads\+/	{ reads = 1 }
	in_call && /\(seen\+/ && reads { found++ }
	END		{ exit !found }' "$dir/calls" ||
		{ head -n 60 "$dir/calls"; return 1; }
}

samples() {
	perf record -q -e cpu-clock -F 500 --call-graph dwarf -o "$dir/data" \
		"$dir/seen" >"$dir/said" 2>&1 || { cat "$dir/said"; return 1; }
	perf script -i "$dir/data" -F comm,ip,sym 2>/dev/null >"$dir/samples"
	awk '/ computes/	{ inner = 1; next }
	/^$/			{ inner = 0 }
	inner && / seen/	{ found++ }
	/^[^ 	]/ && !/^seen/	{ others++ }
	END			{ exit !found || others }' "$dir/samples" ||
		{ head -n 60 "$dir/samples"; return 1; }
}

each() { # what, function
	for USCHED_STACKS in shared private; do
		export USCHED_STACKS
		try "$1, $USCHED_STACKS" "$2"
	done
}

try builds ${CC:-cc} -std=gnu11 -O1 -g -Wall -Wextra -Werror ${CFLAGS:-} -Iinclude \
	"$dir/seen.c" "${LIBRARY:-libusched.a}" -o "$dir/seen" -pthread
if strace -k -o "$dir/calls" true 2>/dev/null; then
	each 'strace -k' stacks
else
	skip 'no strace -k here (package strace)'
fi
if perf record -q -e cpu-clock -o "$dir/data" true >/dev/null 2>&1; then
	each perf samples
else
	skip 'no perf here (package linux-perf)'
fi
counted
