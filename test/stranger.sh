#!/bin/sh
# SPDX-License-Identifier: MIT
# A stranger copies usched.c and usched.h beside a program and says cc *.c. That
# builds, without options and without warnings, and runs: for the program of the
# README, and for a program that was written for the usched of the article.
# The README is short, and its commands work in a fresh clone as they are
# printed; but make only says how the benchmark and the tests would run. The
# server of the README builds and runs from the README alone, and is echo.c.
#
# CC is the compiler, CFLAGS are more options for it, RUN goes before each
# program (an emulator).

set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
. "$top/test/blocks"
passed=0 failed=0
unset MAKEFLAGS

main() {
	cd "$top" || exit 1
	mkdir "$tmp/hello" "$tmp/article" || exit 1
	cp "$top/examples/hello.c" "$tmp/hello/main.c" || exit 1
	cp "$top/examples/hello.expected" "$tmp/hello/expected" || exit 1
	article >"$tmp/article/main.c"
	echo '15 passes, 0 bytes left' >"$tmp/article/expected"
	for name in hello article; do
		count "$name" stranger ''
		count "$name -Wall" stranger '-Wall -Wextra -Werror'
	done
	[ -n "${RUN:-}" ] || count commands readme_commands
	[ -n "${RUN:-}" ] || count server readme_server
	count length [ "$(wc -l <README.md)" -le 150 ]
	echo "$passed passed, $failed failed"
	[ $failed -eq 0 ]
}

count() { # what, command ...
	what=$1; shift
	if ("$@") >"$tmp/log" 2>&1; then
		echo "ok $what"
		passed=$((passed + 1))
	else
		cat "$tmp/log"
		echo "FAILED $what"
		failed=$((failed + 1))
	fi
}

readme_commands() {
	clone "$tmp/clone" && tools "$tmp/tools" || return 1
	row_commands README.md >"$tmp/printed"
	sed 's/^make bench/& -n/; s/^make test/& -n/' "$tmp/printed" \
		>"$tmp/commands"
	grep -q 'make bench -n' "$tmp/commands" &&
		grep -q 'make test -n' "$tmp/commands" &&
		grep -q libusched.a "$tmp/commands" || return 1
	(cd "$tmp/clone" && PATH=$tmp/tools:$PATH run_commands "$tmp/commands")
}

# The first block is echo.c. The lines that begin with a tab build and run it.
readme_server() {
	awk '/^```/ { n++; next } n == 1' README.md >"$tmp/clone/echo.c" &&
		commands README.md >"$tmp/commands" &&
		grep -q echo.c "$tmp/commands" || return 1
	(cd "$tmp/clone" && PATH=$tmp/tools:$PATH run_commands \
		"$tmp/commands") >"$tmp/got" &&
		diff "$top/examples/echo.expected" "$tmp/got"
}

# Copies what a clone would have after a commit of all files.
clone() { # directory
	mkdir "$1" || return 1
	git ls-files -co --exclude-standard >"$tmp/files" ||
		find . -type f ! -path './build/*' >"$tmp/files"
	while read -r file; do
		[ ! -e "$file" ] || echo "$file"
	done <"$tmp/files" | tar cf - -T - | tar xf - -C "$1"
}

# stranger FLAGS: runs cc FLAGS *.c in the directory of $name. The compiler must
# say nothing.
stranger() {
	cd "$tmp/$name" && rm -f a.out &&
	cp "$top/usched.c" "$top/usched.h" . || return 1
	${CC:-cc} $1 ${CFLAGS:-} ./*.c 2>log || { cat log; return 1; }
	[ ! -s log ] || { cat log; return 1; }
	timeout 20 ${RUN:-} ./a.out >got && diff expected got
}

# In the article ustack_block() returns nothing, so its result is not used.
article() {
	cat <<'END'
/* Threads hand on a baton; each blocks deeper in the stack than the last. */
#include <stdio.h>
#include <stdlib.h>
#include "usched.h"

enum { NR = 5, ROUNDS = 3 };

static struct track {
	struct usched  t_sched; /* Must go first. */
	struct ustack  t_runner[NR];
	struct ustack *t_ready;
	int            t_passes;
	int            t_bytes;
} track;

static struct ustack *next(struct usched *s)
{
	struct ustack *u = ((struct track *)s)->t_ready;
	((struct track *)s)->t_ready = NULL;
	return u;
}

static void *alloc(struct usched *s, int size)
{
	((struct track *)s)->t_bytes += size;
	return malloc(size);
}

static void dealloc(struct usched *s, void *addr, int size)
{
	((struct track *)s)->t_bytes -= size;
	free(addr);
}

static void pass(int depth)
{
	if (depth > 0)
		pass(depth - 1);
	else if (++track.t_passes < NR * ROUNDS) {
		track.t_ready = &track.t_runner[track.t_passes % NR];
		ustack_block();
	}
}

static void run(void *arg)
{
	int i;
	for (i = 0; i < ROUNDS; ++i)
		pass(i * *(int *)arg);
}

int main(void)
{
	static int depth[NR] = { 0, 1, 10, 100, 1000 };
	struct ustack *u = track.t_runner;
	int i;
	track.t_sched.s_next  = &next;
	track.t_sched.s_alloc = &alloc;
	track.t_sched.s_free  = &dealloc;
	for (i = 0; i < NR; ++i)
		ustack_init(&u[i], &track.t_sched, &run, &depth[i],
			    alloc(&track.t_sched, 64), 64);
	track.t_ready = u;
	usched_run(&track.t_sched);
	for (i = 0; i < NR; ++i)
		dealloc(&track.t_sched, u[i].u_stack, u[i].u_len);
	printf("%d passes, %d bytes left\n", track.t_passes, track.t_bytes);
	return 0;
}
END
}

main
