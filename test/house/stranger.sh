#!/bin/sh
# SPDX-License-Identifier: MIT
# A stranger puts usched.c and usched.h, as `make single` writes them, beside a
# program and says cc *.c. That
# builds, without options and without warnings, and runs: for the program of the
# README, and for a program that was written for the usched of the article.
# The README is short, and its commands work in a fresh clone as they are
# printed. Its programs are those of examples/first, which compile without a
# warning, and run: the server answers, and libcurl fetches from a server.
#
# CC is the compiler, CFLAGS are more options for it, RUN goes before each
# program (an emulator).

set -u
top=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
. "$top/test/run/layout"
. "$top/test/run/blocks"
. "$top/test/run/count"

unset MAKEFLAGS

main() {
	cd "$top" || exit 1
	mkdir "$dir/hello" "$dir/article" || exit 1
	cp "$top/examples/hello.c" "$dir/hello/main.c" || exit 1
	cp "$top/examples/hello.expected" "$dir/hello/expected" || exit 1
	article >"$dir/article/main.c"
	echo '15 passes, 0 bytes left' >"$dir/article/expected"
	for name in hello article; do
		try "$name" apart stranger ''
		try "$name -Wall" apart stranger '-Wall -Wextra -Werror'
	done
	try 'programs of the README' apart blocks_stand README.md 3 \
		examples/first/*.c
	[ -n "${RUN:-}" ] || first
	try length apart [ "$(wc -l <README.md)" -le 120 ]
	counted
}

# In a clone, with a client and a server in a program of our own.
first() {
	commands README.md >"$dir/commands"
	try 'a command for each program' apart [ "$(grep -c \
		'examples/first/[a-z]*.c' "$dir/commands")" = 3 ]
	programs=$(ls examples/first/*.c) package=libcurl4-openssl-dev
	clone "$dir/clone" && tools "$dir/tools" || exit 1
	if ! echo '#include <curl/curl.h>' | ${CC:-cc} -E - >/dev/null 2>&1; then
		sed -i '/-lcurl/d' "$dir/commands"
		programs=$(ls examples/first/*.c | grep -v /get.c)
		skip "get.c: no curl/curl.h (package $package)"
	fi
	try 'README names the package of get.c' grep -q "$package" README.md
	try 'commands of the README' apart readme_commands
	cp "$dir/log" "$dir/got"
	try 'workers.c: the sum' grep -qx 49995000 "$dir/got"
	for cc in ${CC:-gcc} clang; do
		have "$cc" || continue
		for file in $programs; do
			try "$cc $file" silent $cc -O2 -Wall -Wextra -Werror \
				-Iinclude -fsyntax-only "$file"
		done
	done
	peer >"$dir/peer.c"
	try 'peer' ${CC:-cc} -O2 -Wall -Wextra -Werror -Iinclude "$dir/peer.c" \
		"$dir/clone/libusched.a" -pthread -o "$dir/peer"
	try 'echo.c answers' timeout 60 "$dir/peer" "$dir/clone/echo"
	[ ! -e "$dir/clone/get" ] ||
		try 'get.c fetches' timeout 60 "$dir/peer" - "$dir/clone/get"
}

readme_commands() {
	(cd "$dir/clone" && PATH=$dir/tools:$PATH run_commands "$dir/commands")
}

# Starts a program. For a server, connects to its port until that answers; for a
# client, is the server, and looks at what the client prints.
peer() {
	cat <<'END'
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <usched/all.h>

static char **args;
static pid_t child;

static int asks(void *unused)
{
	char reply[6] = "";
	int fd = -1, i;

	for (i = 0; fd < 0 && i < 2000; i++)
		if ((fd = u_dial_tcp("127.0.0.1", 7777, uafter(UTIME_S))) < 0 &&
		    u_sleep(uafter(10 * UTIME_MS)) != 0)
			return 1;
	if (u_write_all(fd, "hello", 5, uafter(UTIME_S)) != 5 ||
	    u_read_all(fd, reply, 5, uafter(20 * UTIME_S)) != 5)
		return 1;
	u_close(fd);
	return unused != NULL || strcmp(reply, "hello") != 0;
}

static int answers(int listener)
{
	static const char page[] = "HTTP/1.0 200 OK\r\n\r\n<page>\n";
	char text[4096], url[64], *both = text;
	int out[2], fd, nr = 0;
	ssize_t n;

	snprintf(url, sizeof url, "http://127.0.0.1:%d/", u_port(listener));
	if (pipe(out) != 0)
		return 1;
	child = fork();
	if (child == 0) {
		dup2(out[1], 1);
		execl(args[2], args[2], url, url, (char *)NULL);
		_exit(1);
	}
	close(out[1]);
	for (; nr < 2; nr++) {
		fd = u_accept(listener, NULL, NULL, 0, uafter(30 * UTIME_S));
		if (fd < 0 || u_read(fd, text, sizeof text, UNEVER) <= 0 ||
		    u_write_all(fd, page, sizeof page - 1, UNEVER) < 0)
			return 1;
		u_close(fd);
	}
	memset(text, 0, sizeof text);
	while ((n = u_read(out[0], both, 100, uafter(20 * UTIME_S))) > 0)
		both += n;
	return n != 0 || strcmp(text, "<page>\n<page>\n") != 0;
}

static int serves(void *unused)
{
	return answers(u_listen_tcp("127.0.0.1", 0, 0, 0)) || unused != NULL;
}

int main(int argc, char **argv)
{
	int rc;

	args = argv;
	if (argc > 2)
		return usched_main(serves, NULL);
	if ((child = fork()) == 0) {
		execl(argv[1], argv[1], (char *)NULL);
		_exit(1);
	}
	rc = usched_main(asks, NULL);
	kill(child, SIGTERM);
	return rc != 0 || waitpid(child, &argc, 0) != child;
}
END
}

# stranger FLAGS: runs cc FLAGS *.c in the directory of $name. The compiler must
# say nothing.
stranger() {
	cd "$dir/$name" && rm -f a.out &&
	${MAKE:-make} -s -C "$top" single TO="$PWD" || return 1
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
