#!/bin/sh
# SPDX-License-Identifier: MIT
# list.sh: USCHED_LIST in the environment makes lists of a program that knows
# nothing of them: linked with the shared library, or with -u. Without it
# nothing is written. Names are read from the program, also of static functions;
# of a stripped program, addr2line and its debug information give the line. With
# preemption, whichever was started first, threads are still preempted, listed,
# and reported if they forbid it for too long.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

case $(uname -s) in
Linux)	;;
*)	echo "skipped: signals to native threads are those of Linux"; exit 77;;
esac
sources="rr.c usched.c $(where $waits uproc.c umem.c ucall.c upreempt.c \
	uchain.c ustats.c utrace.c usymbol.c ulook.c ulist.c)"

build() { # program, flags, files
	${CC:-cc} -std=gnu11 -g -O1 -Wall -Wextra $includes "$dir/$1.c" \
		-o "$dir/$1" $2 $3 -pthread >"$dir/log" 2>&1 && return
	cat "$dir/log"
	exit 1
}

# has FILE LINE: a line begins so.
has() {
	grep -q "^$2" "$1"
}

check() { # what, command
	what=$1; shift
	"$@"
	judge $? "$what: $*" "$dir/out"
}

cat >"$dir/plain.c" <<'END'
#include "rr.h"
#include "uwait.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static long here;

static void w_wait(void *arg)
{
	int rc = rr_wait();

	(void)arg;
	printf("%d\n", rc);
}

static void w_sleep(void *arg)
{
	int rc = u_sleep(UNEVER);

	(void)arg;
	printf("%d\n", rc);
}

static void w_busy(void *arg)
{
	(void)arg;
	while (getppid() != 1 && here >= 0)
		here++;
}

int main(int argc, char **argv)
{
	(void)argv;
	if (rr_init(1, 0) != 0)
		return 1;
	rr_thread_init(w_wait, &here);
	rr_thread_init(w_sleep, NULL);
	if (argc > 1)
		rr_thread_init(w_busy, NULL);
	return rr_start() != 0 || rr_fini() != -EDEADLK;
}
END

root=$PWD
(cd "$dir" && for source in $sources; do
	${CC:-cc} -std=gnu11 -g -O1 -fPIC $(echo "$includes" |
		sed "s,-I,-I$root/,g") -c "$root/$source" || exit 1
done && ar rcs libusched.a ./*.o &&
	${CC:-cc} -shared -o libusched.so ./*.o -pthread) || exit 1
build plain "-Wl,-rpath,$dir" "$dir/libusched.so"
cp "$dir/plain.c" "$dir/alone.c"
build alone "-Wl,-u,ulist_start" "$dir/libusched.a"

for program in plain alone; do
	for no in "" 0; do
		USCHED_QUIET=1 USCHED_LIST=$no "$dir/$program" 2>"$dir/out"
		check "$program, not asked" test ! -s "$dir/out"
	done
	USCHED_LIST=stuck "$dir/$program" 2>"$dir/out"
	check "$program" has "$dir/out" "usched: list: 2 threads are left, and"
	check "$program" has "$dir/out" \
		"thread 0x[0-9a-f]* w_wait(0x[0-9a-f]*): waits: wake, [0-9]* ms\$"
	check "$program" has "$dir/out" \
		"thread 0x[0-9a-f]* w_sleep(0x0): waits: sleep, [0-9]* ms\$"
	check "$program" grep -q \
		"^	#[0-9] 0x[0-9a-f]* w_sleep+0x[0-9a-f]* ($program+0x[0-9a-f]*)\$" \
		"$dir/out"
	check "$program" has "$dir/out" "usched: end of list: 2 threads, 2 wait\$"
done

# The wait is in the line that addr2line gives; the name is gone.
cp "$dir/alone" "$dir/stripped"
strip "$dir/stripped"
USCHED_LIST=1 "$dir/stripped" 2>"$dir/out"
at=$(sed -n 's/^	#.*(stripped+\(0x[0-9a-f]*\))$/\1/p' "$dir/out" |
	while read -r at; do
		addr2line -fe "$dir/alone" "$at" | tr '\n' ' '
	done)
line=$(grep -n 'u_sleep(UNEVER)' "$dir/plain.c" | cut -d : -f 1)
echo "$at" >>"$dir/out"
check "stripped" test "$(echo "$at" | grep -c "alone.c:$line")" = 1
check "stripped" test "$(grep -c 'w_sleep(' "$dir/out")" = 0

# list FUNCTION PROGRAM ARG: asks by SIGQUIT once the program has reported a long
# run of FUNCTION. The shell empties the file only in the child that it has forked,
# so what a program before has said is removed first.
list() {
	who=$1; shift
	: >"$dir/out"
	"$@" 2>"$dir/out" &
	pid=$!
	n=0
	until grep -q "^usched: run: .* $who(" "$dir/out" ||
			[ $((n += 1)) -gt 300 ]; do
		sleep 0.1
	done
	kill -QUIT $pid
	n=0
	until grep -q '^usched: end' "$dir/out" || [ $((n += 1)) -gt 300 ]; do
		sleep 0.1
	done
	kill $pid
	wait $pid 2>/dev/null
}

USCHED_LIST=signal,run=50 list w_busy "$dir/plain" busy
check "busy" test "$(grep -c '^usched: run: ' "$dir/out")" = 1
check "busy" has "$dir/out" \
	"usched: run: thread 0x[0-9a-f]* w_busy(0x0) has not given way for [0-9]* ms\$"
check "busy" has "$dir/out" "thread 0x[0-9a-f]* w_busy(0x0): runs\$"
check "busy" test "$(grep -c '^	#[0-9] 0x[0-9a-f]* w_busy' "$dir/out")" = 2
check "busy" has "$dir/out" \
	"usched: end of list: 3 threads, 2 wait, 1 run\$"

cat >"$dir/preempt.c" <<'END'
#include "rr.h"
#include "upreempt.h"
#include "ulist.h"
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile long rounds[4];
static volatile int end;

static void w_busy(void *arg)
{
	volatile long *mine = arg;

	while (!end)
		(*mine)++;
}

static void w_forbid(void *arg)
{
	volatile long *mine = arg;

	while (rounds[0] == 0 || rounds[1] == 0)
		;
	upreempt_forbid();
	for (;;)
		(*mine)++;
}

static int waits(void)
{
	return ulist_on_signal(SIGQUIT) || ulist_on_run(200000000);
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1 && waits())
		return 1;
	if (rr_init(1, 0) || rr_preempt())
		return 1;
	if (upreempt_start(1000000) != 0)
		return 77;
	if (argc == 1 && waits())
		return 1;
	rr_thread_init(w_busy, (void *)&rounds[0]);
	rr_thread_init(w_busy, (void *)&rounds[1]);
	rr_thread_init(w_forbid, (void *)&rounds[2]);
	return rr_start() || rr_fini();
}
END
build preempt "-DUSCHED_PREEMPT" "$dir/libusched.a"
for first in "" waits; do
	list w_forbid "$dir/preempt" $first
	check "preempt $first" has "$dir/out" \
		"usched: run: thread 0x[0-9a-f]* w_forbid(0x[0-9a-f]*) has not given way"
	check "preempt $first" test \
		"$(grep -c -e '^thread .* w_busy(0x[0-9a-f]*): ready, ' \
			-e '^	and 1 more like it, ' "$dir/out")" = 2
	check "preempt $first" has "$dir/out" \
		"thread 0x[0-9a-f]* w_forbid(0x[0-9a-f]*): runs\$"
	check "preempt $first" has "$dir/out" \
		"usched: end of list: 3 threads, 2 ready, 1 run\$"
done

counted
