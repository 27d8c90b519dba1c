#!/bin/sh
# SPDX-License-Identifier: MIT
# syscalls.sh: a message costs a read in vain, an epoll_ctl, a read, a write, and a
# small part of an epoll_wait, if many are ready at the same time: doc/io.md.
# Of an owned stream it costs no epoll_ctl, and no read in vain.
# Time is virtual, since calls that strace sees take so long that looks would come
# by time. Nothing is paid before the first wait for a descriptor. A wake of a processor
# that sleeps for descriptors is one system call, also beside hooks of libc.
#
# CC is the compiler, CFLAGS are more options for it.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

command -v strace >/dev/null && strace -o "$dir/calls" true 2>/dev/null ||
	{ echo 'no strace'; exit 77; }

cat >"$dir/a.c" <<'END'
#include <stdlib.h>
#include <sys/socket.h>
#include "rr.h"
#include "uio.h"

static int rounds;

static void echo(void *fd)
{
	char buf[64];
	ssize_t n;

	while ((n = u_read((int)(long)fd, buf, 64, uafter(UTIME_S * 60))) > 0)
		u_write_all((int)(long)fd, buf, n, UNEVER);
}

/* Without a descriptor it sleeps instead. */
static void ask(void *fd)
{
	char buf[64];
	int i;

	for (i = 0; i < rounds; i++)
		if (fd == NULL)
			u_sleep(uafter(UTIME_MS));
		else if (u_write_all((int)(long)fd, "0123456789", 10, UNEVER)
			 != 10 || u_read((int)(long)fd, buf, 64, UNEVER) != 10)
			abort();
	if (fd != NULL)
		u_close((int)(long)fd);
}

int main(int argc, char **argv)
{
	int pairs = atoi(argv[1]), fd[2];

	rounds = atoi(argv[2]);
	utime_virtual(0);
	if (rr_init(1, 0) != 0)
		return 1;
	if (pairs == 0)
		rr_thread_init(ask, NULL);
	for (; pairs > 0; pairs--) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) != 0)
			return 1;
		if (argc > 3 && (u_trust(fd[0]) != 0 || u_trust(fd[1]) != 0))
			return 1;
		rr_thread_init(echo, (void *)(long)fd[0]);
		rr_thread_init(ask, (void *)(long)fd[1]);
	}
	return rr_start() || rr_fini();
}
END
sources="usched.c rr.c $(where $waits) lib/wait/uscope.c lib/wait/uthread.c lib/io/uio.c
	lib/io/upoll.c lib/proc/umem.c lib/proc/uproc.c"

# count CALL PAIRS ROUNDS [trust]: prints how often the program makes the call.
count() {
	strace -f -o "$dir/calls" "$dir/a" "$2" "$3" $4 >/dev/null || exit 1
	grep -cE "^[0-9]+ +$1\(" "$dir/calls"
}

# within WHAT LEAST COUNT MOST
within() {
	if [ "$3" -ge "$2" ] && [ "$3" -le "$4" ]; then
		pass
	else
		fail "$1: $3, not $2 to $4"
	fi
}

${CC:-cc} -O2 -std=gnu11 $includes ${CFLAGS:-} "$dir/a.c" $sources -o "$dir/a" \
	-pthread || exit 1
within 'before a wait for a descriptor' 0 \
	"$(count '(epoll|eventfd|socket|recv|send)[a-z0-9_]*' 0 5)" 0
# Each message: a wait by each side, after a try in vain.
all=$(count '[a-z0-9_]+' 50 60)
for call in recvfrom sendto epoll_ctl 'epoll_p?wait2?'; do
	nr=$(grep -cE "^[0-9]+ +$call\(" "$dir/calls")
	case $call in
	sendto)		within $call 6000 "$nr" 6000 ;;
	epoll_ctl)	within $call 6000 "$nr" 6400 ;;
	epoll_p*)	within $call 1 "$nr" 600 ;;
	*)		within $call 12000 "$nr" 12400 ;;
	esac
done
within 'all calls' 24000 "$all" 28000
# Each side waits first.
all=$(count '[a-z0-9_]+' 50 60 trust)
for call in recvmsg sendto epoll_ctl; do
	nr=$(grep -cE "^[0-9]+ +$call\(" "$dir/calls")
	case $call in
	sendto)		within "$call, owned" 6000 "$nr" 6000 ;;
	epoll_ctl)	within "$call, owned" 100 "$nr" 200 ;;
	*)		within "$call, owned" 6000 "$nr" 6300 ;;
	esac
done

# A thread wakes another, whose processor sleeps for descriptors.
cat >"$dir/b.c" <<'END'
#include <unistd.h>
#include "rr.h"
#include "uio.h"
#include "usync.h"

static struct usem woken = USEM(0);
static int fd[2];

static void reads(void *arg)
{
	char c;

	(void)arg;
	u_read(fd[0], &c, 1, UNEVER);
}

static void waits(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 20; i++)
		usem_wait(&woken, UNEVER);
}

static void wakes(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 20; i++) {
		u_sleep(uafter(5 * UTIME_MS));
		usem_post(&woken);
	}
	u_write(fd[1], "", 1, UNEVER);
}

int main(void)
{
	if (pipe(fd) != 0 || rr_init(2, 0) != 0)
		return 1;
	rr_thread_on(0, reads, NULL);
	rr_thread_on(0, waits, NULL);
	rr_thread_on(1, wakes, NULL);
	return rr_start() || rr_fini();
}
END
${CC:-cc} -O2 -std=gnu11 $includes ${CFLAGS:-} "$dir/b.c" $sources \
	$(where $syncs) lib/io/ufile.c lib/proc/ucall.c ext/wrap/uwrap.c -o "$dir/b" \
	-pthread -ldl || exit 1
strace -f -o "$dir/calls" "$dir/b" >/dev/null || exit 1
# Beside other programs strace sees the end of a call later.
within 'writes that wake' 1 \
	"$(grep -cE 'write\([0-9]+, .*, 8(\) *= 8| <unfinished)' "$dir/calls")" 60
within 'calls of hooks' 0 \
	"$(grep -cE ' (sendmsg|fcntl)\(' "$dir/calls")" 0
counted
