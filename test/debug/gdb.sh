#!/bin/sh
# SPDX-License-Identifier: MIT
# gdb.sh: a debugger walks from a running thread to its bottom, and stops there,
# on a lane and on the native stack. usched-gdb.py lists all threads with state
# and backtrace, of rr and of a dispatcher alone, in a process and in a core:
# threads in lanes, in buffers (with bare and other bottoms, frame pointers,
# realigned stacks, frames of libc), and in inner dispatchers; and threads of
# uthread.h by the names that they have by then. It leaves the process as it was.
# It also works after an attach to a process whose main thread is in a system
# call. It works in any language that gdb is set to, and leaves that set.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
command -v gdb >/dev/null || { echo "skipped: no gdb (package gdb)"; exit 77; }

# The text says where slices lie, and the check of the law takes some away.
USCHED_LAW=off
export USCHED_LAW

rr="rr.c $(where $waits) lib/proc/umem.c lib/proc/uproc.c usched.c"
deep=" w_block w_plain w_alloca w_aligned w_registers t_deep"

build() { # program, flags, files
	${CC:-cc} -std=gnu11 -g -fno-optimize-sibling-calls -w $includes $2 \
		"$dir/$1.c" $3 -o "$dir/$1" -pthread -lm
}

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

# Threads of all kinds, on a dispatcher alone. Threads of rr use the same code.
cat >"$dir/kinds.h" <<'END'
#include <alloca.h>
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTION __attribute__((noinline)) static
#define END __asm__ volatile("" : : : "memory")

static volatile int w_sum;
FUNCTION void w_block(void);

FUNCTION void w_plain(int n)
{
	w_sum += n;
	w_block();
	END;
}

FUNCTION void w_alloca(int n)
{
	volatile char *space = alloca(n * 48);

	space[0] = space[n * 48 - 1] = 1;
	w_plain(n);
	w_sum += space[0];
}

FUNCTION void w_aligned(int n)
{
	volatile char space[100] __attribute__((aligned(64)));
	volatile char *more = alloca(n * 32);

	space[0] = more[0] = 1;
	w_alloca(n);
	w_sum += space[0] + more[0];
}

FUNCTION void w_registers(int a, int b, int c, int d, int e, int f)
{
	int g = a * b, h = c * d, i = e * f;

	w_aligned(a);
	w_sum += a + b + c + d + e + f + g + h + i;
	END;
}

FUNCTION int w_compare(const void *a, const void *b)
{
	static int once;

	if (!once++)
		w_alloca(3);
	return *(const int *)a - *(const int *)b;
}

FUNCTION void t_plain(void *n)
{
	w_plain((int)(long)n);
	END;
}

FUNCTION void t_deep(void *n)
{
	w_registers((int)(long)n, 2, 3, 4, 5, 6);
	END;
}

FUNCTION void t_sort(void *n)
{
	int nr[4] = { 3, 1, 2, (int)(long)n };

	qsort(nr, 4, sizeof nr[0], w_compare);
	w_sum += nr[0];
}

FUNCTION void t_round(void *n)
{
	fesetround(FE_UPWARD);
	w_alloca((int)(long)n);
	END;
}

/* Its last words are zero. */
FUNCTION void t_bare(void *n)
{
	volatile long word[8] = { 0 };

	w_plain((int)(long)n);
	w_sum += (int)word[0] + (int)word[7];
}

FUNCTION void t_end(void *n)
{
	w_sum += (int)(long)n;
}

FUNCTION void w_stop(void)
{
	END;
}

#if defined(RR_H)
FUNCTION void w_block(void)
{
	if (rr_wait() != 0)
		abort();
	END;
}
#endif

/* Memory of a dispatcher alone. */
static void *get(struct usched *d, int size)
{
	return malloc(size);
}

static void put(struct usched *d, void *buf, int size)
{
	free(buf);
}
END

cat >"$dir/bare.c" <<'END'
#include "usched.h"
#include "kinds.h"

#define NR 9

static struct usched s, in;
static struct ustack u[NR], v[2];
struct ustack fake[4];			/* not listed */
static int queue, lanes, turn;

static struct ustack *next(struct usched *d)
{
	if (d == &in)
		return turn < 3 ? &v[turn++ % 2] : NULL;
	return queue < NR - 1 ? &u[queue++] : NULL;
}

FUNCTION void w_block(void)
{
	if (ustack_block() != 0)
		abort();
	END;
}

FUNCTION void t_inner(void *n)
{
	if (n != NULL)
		w_plain(9);
	else
		w_stop();
	END;
}

FUNCTION void w_nest(void)
{
	int i;

	for (i = 0; i < 4; i++)
		fake[i] = u[0];
	fake[0].u_top = s.s_lane[u[0].u_lane].l_bottom + 8 + 4;
	fake[1].u_f   = (void (*)(void *))1;
	fake[2].u_len = 0;
	fake[2].u_top = (char *)2;	/* new */
	if (lanes < 9)		/* else it is not the owner of its lane */
		fake[3].u_lane = 10;
	usched_run(&in);
	END;
}

FUNCTION void t_outer(void *n)
{
	w_nest();
	END;
}

int main(int argc, char **argv)
{
	static void (*const f[NR])(void *) = {
		t_plain, t_deep, t_sort, t_round, t_bare, t_bare, t_end,
		t_outer, t_plain
	};
	long i;

	lanes = atoi(argv[1]);
	s.s_next = in.s_next = next;
	s.s_alloc = in.s_alloc = get;
	s.s_free = in.s_free = put;
	if (lanes > 0 && usched_lanes(&s, lanes, 65536) != 0)
		return 77;
	for (i = 0; i < NR; i++)
		ustack_init(&u[i], &s, f[i], (void *)(i + 1), NULL, 0);
	ustack_init(&v[0], &in, t_inner, (void *)1L, NULL, 0);
	ustack_init(&v[1], &in, t_inner, NULL, NULL, 0);
	usched_run(&s);
	w_stop();
	queue = 0;
	u[6] = u[8];	/* t_end and t_outer have ended */
	u[7] = u[8];
	for (i = 6; i < NR - 1; i++)
		ustack_init(&u[i], &s, t_end, NULL, NULL, 0);
	usched_run(&s);
	for (i = 0; i < NR; i++)
		free(u[i].u_stack);
	for (i = 0; i < 2; i++)
		free(v[i].u_stack);
	return printf("sum %d\n", w_sum) < 0;
}
END

cat >"$dir/procs.c" <<'END'
#include <sys/resource.h>
#include "rr.h"
#include "kinds.h"

#define NR 300		/* more than there are lanes */

static struct rr_thread *all[NR], *joinable;

/* The second of these has a private lane, and no buffer. */
FUNCTION void t_huge(void *n)
{
	volatile char space[3000];

	space[0] = 1;
	w_plain((int)(long)n);
	w_sum += space[0];
}

FUNCTION void t_run(void *n)
{
	long i;

	joinable = rr_thread_joinable(t_end, NULL);
	rr_yield();
	rr_thread_init(t_end, (void *)7L);
	rr_wake(all[3]);
	w_stop();
	for (i = 0; i < NR; i++) {
		if (i != 3)
			rr_wake(all[i]);
	}
	rr_join(joinable);
	END;
}

int main(void)
{
	/* With a limit, threads share lanes also if they are few. */
	struct rlimit most = { RLIM_INFINITY - 1, RLIM_INFINITY };
	long i;

	if (setrlimit(RLIMIT_AS, &most) != 0 || rr_init(1, 0) != 0)
		return 1;
	for (i = 0; i < NR; i++)
		all[i] = rr_thread_init(i == 1 ? t_deep : i == 2 ? t_bare :
					i == 4 || i == 5 ? t_huge : t_plain, (void *)(i + 1));
	rr_thread_init(t_run, NULL);
	if (rr_start() != 0 || rr_fini() != 0)
		return 1;
	return printf("sum %d\n", w_sum) < 0;
}
END

# Threads that wait by records: in memory of a set, and of a bare dispatcher.
cat >"$dir/reasons.c" <<'END'
#include "rr.h"
#include "uwait.h"
#include "kinds.h"

static struct uwait_kind mutex = { .wk_name = "mutex" };

/* As of a library that is no longer there. */
static struct uwait_kind lost = { .wk_name = (const char *)16 };

#define NR 300		/* more than there are lanes */

static int lock, more[4];
static struct rr_thread *joined;
static struct usched s;
static struct ustack u[2];

FUNCTION void w_record(void *object, utime_ns until)
{
	int rc;
	struct uwait *w = uwait_make(object != NULL ? &mutex :
				    &lost, object, sizeof *w);

	if (w == NULL)
		abort();
	w_sum += uwait_for(w, until);
	uwait_free(w);
}

FUNCTION void t_mutex(void *object)
{
	w_record(object, UNEVER);
	END;
}

/* Its record is freed when it waits again. */
FUNCTION void t_again(void *object)
{
	w_record(object, uafter(UTIME_MS));
	w_block();
	END;
}

FUNCTION void t_sleep(void *n)
{
	(void)n;
	u_sleep(9000000000000000000);
	END;
}

FUNCTION void t_join(void *n)
{
	(void)n;
	rr_join(joined);
	END;
}

static struct ustack *next(struct usched *d)
{
	static int turn;

	return d == &s && turn < 2 ? &u[turn++] : NULL;
}

static int bare_wait(struct usched *d)
{
	return ustack_block();
}

static void bare_wake(struct usched *d, struct ustack *v)
{
}

FUNCTION void t_run(void *n)
{
	(void)n;
	u_sleep(uafter(50 * UTIME_MS));
	s.s_next  = next;
	s.s_alloc = get;
	s.s_free  = put;
	s.s_wait  = bare_wait;
	s.s_wake  = bare_wake;
	ustack_init(&u[0], &s, t_mutex, &more[1], NULL, 0);
	ustack_init(&u[1], &s, t_end, NULL, NULL, 0);
	usched_run(&s);
	w_stop();
	exit(0);
}

int main(void)
{
	long i;

	if (rr_init(1, 0) != 0)
		return 1;
	joined = rr_thread_joinable(t_plain, (void *)1L);
	rr_thread_init(t_mutex, &lock);
	rr_thread_init(t_mutex, NULL);
	rr_thread_init(t_again, &lock);
	rr_thread_init(t_sleep, (void *)2L);
	rr_thread_init(t_join, (void *)3L);
	for (i = 0; i < NR; i++)
		rr_thread_init(t_mutex, &more[3]);
	rr_thread_init(t_run, NULL);
	return rr_start() != 0 || rr_fini() != 0;
}
END

# Threads of uthread.h, of which one takes another name while it runs.
cat >"$dir/names.c" <<'END'
#include "rr.h"
#include "uthread.h"
#include "kinds.h"

static void *t_named(void *arg)
{
	if (arg != NULL)
		uthread_set_name("later");
	rr_wait();
	return NULL;
}

static void t_run(void *arg)
{
	static int renamed;

	(void)arg;
	uthread_make(NULL, t_named, NULL, "given");
	uthread_make(NULL, t_named, NULL, NULL);
	uthread_make(NULL, t_named, &renamed, "before");
	rr_yield();
	w_stop();
	exit(0);
}

int main(void)
{
	return rr_init(1, 0) != 0 || rr_thread_init(t_run, NULL) == NULL ||
		rr_start() != 0 || rr_fini() != 0;
}
END

# The native thread that makes the call sleeps in assembly, as in libc. gdb's
# language is that of the selected frame.
cat >"$dir/live.c" <<'END'
#include "rr.h"
#include "kinds.h"

void stop(void);

FUNCTION void t_run(void *n)
{
	puts("up");
	fflush(stdout);
	rr_wait();
}

int main(void)
{
	if (rr_init(1, 0) != 0)
		return 1;
	rr_hold();
	rr_thread_init(t_plain, (void *)1L);
	rr_thread_init(t_deep, (void *)2L);
	rr_thread_init(t_run, NULL);
	if (rr_start() != 0)
		return 1;
	for (;;)
		stop();
}
END
cat >"$dir/stop.S" <<'END'
	.text
	.globl stop
	.type stop, %function
stop:				/* ppoll(NULL, 0, NULL, NULL, 0) */
#if defined(__x86_64__)
	xor %edi, %edi
	xor %esi, %esi
	xor %edx, %edx
	xor %r10d, %r10d
	xor %r8d, %r8d
	mov $271, %eax
	syscall
	ret
#elif defined(__aarch64__)
	mov x0, #0
	mov x1, #0
	mov x2, #0
	mov x3, #0
	mov x4, #0
	mov x8, #73
	svc #0
	ret
#else
	li a0, 0
	li a1, 0
	li a2, 0
	li a3, 0
	li a4, 0
	li a7, 73
	ecall
	ret
#endif
	.size stop, . - stop
	.section .note.GNU-stack,"",%progbits
END

# One line for each thread: function, argument, state, and the program's own
# frames, innermost first.
brief() {
	awk '
	function flush() { if (line != "") print line; line = "" }
	/^Dispatcher / { flush(); d++; next }
	/^  0x/ {
		flush(); sub(/^  0x[0-9a-f]+  /, "")
		sub(/ on native thread [0-9]+/, "")
		sub(/, [0-9]+ bytes/, ""); sub(/ 0x[0-9a-f]+/, "")
		line = $0 ":"; next
	}
	/^  [0-9]+ threads/ { flush(); print; next }
	/^    no backtrace/ { line = line " none"; next }
	/^    #/ {
		for (i = 2; i <= 4; i++)
			if ($i ~ /^([wt]_[a-z]+|\?\?)$/)
				line = line " " $i
		next
	}
	END { flush() }' "$1"
}

# with_script OPTION...: runs gdb with the script; its output is in $dir/out
with_script() {
	timeout 120 gdb -nx -batch -iex 'set debuginfod enabled off' \
		-ex 'set width 0' -ex 'source lib/debug/usched-gdb.py' "$@" \
		>"$dir/out" 2>&1
}

debug() { # program, option ...
	program=$1; shift
	with_script "$@" --args "$dir/$program" $args
}

# same WHAT: compares $dir/out with $dir/want
same() {
	brief "$dir/out" >"$dir/got"
	diff "$dir/want" "$dir/got" >"$dir/diff" && pass && return
	fail "$1" "$dir/diff" "$dir/out"
}

walk() { # flags
	build walk "$1" "$rr" || { fail "walk $1"; return; }
	args=
	timeout 60 gdb -nx -batch -ex 'break puts' -ex run -ex bt "$dir/walk" \
		>"$dir/out" 2>&1
	grep -q 'Breakpoint 1, ' "$dir/out" || {
		echo "skipped: gdb cannot run programs here"; exit 77; }
	[ "$(grep -c ' in deep ' "$dir/out")" = 4 ] &&
	grep -q ' in first ' "$dir/out" &&
	! grep -q 'corrupt\|previous frame' "$dir/out" && pass && return
	fail "walk $1" "$dir/out"
}

# The expected output of usched bt for the first seven threads of bare.
bare_want() { # lanes, portable
	case $1 in
	0)	at='blocked, away from lane 0';;
	1)	at='blocked, away from lane 1';;
	*)	at='blocked in lane N';;
	esac
	port=$2
	bt() { [ "$port" ] && echo " none" || echo "$1"; }
	cat <<-END
	t_plain(0x1)  $at:$(bt " w_block w_plain t_plain")
	t_deep(0x2)  $at:$(bt "$deep")
	t_sort(0x3)  $at:$(bt " w_block w_plain w_alloca w_compare t_sort")
	t_round(0x4)  $at:$(bt " w_block w_plain w_alloca t_round")
	t_bare(0x5)  $at:$(bt " w_block w_plain t_bare")
	t_bare(0x6)  $at:$(bt " w_block w_plain t_bare")
	t_end(0x7)  ended:
	END
}

bare() { # lanes, flags, portable
	build bare "$2" usched.c || { fail "bare $2"; return; }
	args=$1
	debug bare -ex 'break w_stop' -ex run -ex 'usched bt' \
		-ex "generate-core-file $dir/core" -ex continue \
		-ex 'usched bt s' -ex delete -ex continue
	if ! grep -q 'exited normally' "$dir/out"; then
		fail "bare $1 $2" "$dir/out"
		return
	fi
	[ "$1" -gt 1 ] && sub='s/lane [1-9][0-9]*/lane N/' || sub=
	sed -i "$sub" "$dir/out"
	{
		bare_want "$1" "$3"
		echo "t_outer(0x8)  running, runs dispatcher:$(bt \
			" w_nest t_outer")"
		echo 't_plain(0x9)  new:'
		echo '  9 threads, 6 blocked, 1 ended, 1 new, 1 running'
	} >"$dir/outer"
	{
		echo "t_inner(0x1)  blocked, away from lane 0:$([ "$3" ] &&
			echo " none" || echo " w_block w_plain t_inner")"
		echo "t_inner(0x0)  running: w_stop t_inner$([ "$3" ] &&
			echo " w_nest t_outer")"
		echo '  2 threads, 1 blocked, 1 running'
	} >"$dir/inner"
	{
		bare_want "$1" "$3"
		echo 't_outer(0x8)  ended:'
		echo 't_plain(0x9)  new:'
		echo '  9 threads, 6 blocked, 2 ended, 1 new'
	} >"$dir/later"
	cat "$dir/inner" "$dir/outer" "$dir/later" >"$dir/want"
	same "bare $1 $2"
	[ -z "$3" ] || return
	cat "$dir/inner" "$dir/outer" >"$dir/want"
	with_script -ex 'usched bt' "$dir/bare" "$dir/core"
	sed -i "$sub" "$dir/out"
	same "bare $1 $2, core"
}

procs() { # flags
	build procs "$1" "$rr" || { fail "procs $1"; return; }
	args=
	debug procs -ex 'break w_stop' -ex run -ex 'usched' \
		-ex 'usched bt all[0] all[1] all[2] all[3] all[4] all[5] all[299]' \
		-ex "generate-core-file $dir/core" -ex delete -ex continue
	grep -q 'exited normally' "$dir/out" || fail "procs $1" "$dir/out"
	procs_check "$1"
	with_script -ex usched \
		-ex 'usched bt all[0] all[1] all[2] all[3] all[4] all[5] all[299]' \
		"$dir/procs" "$dir/core"
	procs_check "$1, core"
}

# Of 300 threads, those in lanes 17 and up stay there.
procs_check() {
	brief "$dir/out" >"$dir/brief"
	sed -n '/threads,/,$p' "$dir/brief" >"$dir/got"
	cat >"$dir/want" <<-END
	  303 threads, 300 blocked, 1 ended, 1 new, 1 running
	t_plain(0x1)  blocked, away from lane 1, waits: w_block w_plain t_plain
	t_deep(0x2)  blocked, away from lane 2, waits:$deep
	t_bare(0x3)  blocked, away from lane 3, waits: w_block w_plain t_bare
	t_plain(0x4)  blocked, away from lane 4, ready: w_block w_plain t_plain
	t_huge(0x5)  blocked, away from lane 5, waits: w_block w_plain t_huge
	t_huge(0x6)  blocked in lane 257, waits: w_block w_plain t_huge
	t_plain(0x12c)  LAST
	END
	last=$(grep '^t_plain(0x12c)' "$dir/brief" | tail -n 1)
	case $last in
	*": w_block w_plain t_plain")
		sed -i "s/^\(t_plain(0x12c)  \).*/\1LAST/" "$dir/got";;
	esac
	diff "$dir/want" "$dir/got" >"$dir/diff" &&
	[ "$(grep -c '^t_plain.*blocked in lane .*waits' "$dir/brief")" \
		-ge 240 ] &&
	[ "$(grep -c '^t_end(0x0)  ended, to be joined' "$dir/brief")" = 1 ] &&
	[ "$(grep -c '^t_end(0x7)  new, ready' "$dir/brief")" = 1 ] &&
	[ "$(grep -c '^t_run(0x0)  running' "$dir/brief")" = 1 ] && pass && return
	fail "procs $1" "$dir/diff" "$dir/out"
}

# What threads wait for, where their slices are away, too; and in the core.
reasons() { # flags
	build reasons "$1" "$rr" || { fail "reasons $1"; return; }
	args=
	debug reasons -ex 'break w_stop' -ex run -ex usched -ex 'usched &s' \
		-ex 'usched bt u[0]' -ex 'usched bt joined' \
		-ex "generate-core-file $dir/core" -ex continue
	grep -q 'exited normally' "$dir/out" || fail "reasons $1" "$dir/out"
	reasons_check "$1"
	with_script -ex usched -ex 'usched &s' -ex 'usched bt u[0]' \
		-ex 'usched bt joined' "$dir/reasons" "$dir/core"
	reasons_check "$1, core"
}

reasons_check() {
	sed -n 's/^  0x[0-9a-f]*  \(.*\)(0x[0-9a-f]*)  .*bytes, \(waits.*\)/\1 \2/p' \
		"$dir/out" | sed 's/ 0x[0-9a-f]*//' | sort | uniq -c |
		sed 's/^ *//' >"$dir/got"
	cat >"$dir/want" <<-END
	1 t_again waits
	1 t_join waits: join
	1 t_mutex waits: mutex (lock)
	1 t_mutex waits: other
	2 t_mutex waits: mutex (more + 4)
	300 t_mutex waits: mutex (more + 12)
	2 t_plain waits
	1 t_sleep waits: sleep, until 9000000000.000 s
	END
	LC_ALL=C sort "$dir/want" >"$dir/sorted"
	LC_ALL=C sort "$dir/got" | diff "$dir/sorted" - >"$dir/diff" && pass &&
		return
	fail "reasons $1" "$dir/diff" "$dir/out"
}

# Functions inside of shells, and names.
names() { # flags
	build names "$1" "rr.c $(where $waits) lib/wait/uthread.c lib/proc/umem.c
		lib/proc/uproc.c usched.c" || { fail "names $1"; return; }
	args=
	debug names -ex 'break w_stop' -ex run -ex usched
	sed -n 's/^  0x[0-9a-f]*  \(t_named(.*\)  blocked.*/\1/p' "$dir/out" |
		sed 's/(0x[1-9a-f][0-9a-f]*)/(RENAMED)/' | LC_ALL=C sort >"$dir/got"
	printf '%s\n' 't_named(0x0)' 't_named(0x0) "given"' \
		't_named(RENAMED) "later"' | diff - "$dir/got" >"$dir/diff" &&
		pass && return
	fail "names $1" "$dir/diff" "$dir/out"
}

# attached LANGUAGE [DIRECTORY of debug information]: attaches to the process
# $live; false if that is refused.
attached() {
	timeout 120 gdb -nx -batch -iex 'set debuginfod enabled off' \
		${2:+-iex "set debug-file-directory $2"} \
		-ex 'set width 0' -p "$live" -ex "set language $1" \
		-ex 'source lib/debug/usched-gdb.py' -ex 'show language' \
		-ex 'usched bt' -ex 'show language' >"$dir/out" 2>&1
	! grep -q 'Operation not permitted\|Could not attach' "$dir/out" ||
		return 1
	{
		echo "t_plain(0x1)  blocked in lane N, waits: w_block w_plain t_plain"
		echo "t_deep(0x2)  blocked in lane N, waits:$deep"
		echo "t_run(0x0)  blocked in lane N, waits: t_run"
		echo '  3 threads, 3 blocked'
	} >"$dir/want"
	sed -i 's/lane [1-9][0-9]*/lane N/' "$dir/out"
	grep '^The current source language' "$dir/out" | sort | uniq -c >"$dir/set"
	if ! grep -q "^ *2 The.* \"$1[\";]" "$dir/set"; then
		fail "language $1 $2 does not stay" "$dir/set" "$dir/out"
	elif ! grep -q '^Dispatcher .* (rr, processor 0)' "$dir/out"; then
		fail "language $1 $2: no set" "$dir/out"
	else
		same "language $1 $2"
	fi
}

live() {
	${CC:-cc} -g -c "$dir/stop.S" -o "$dir/stop.o" &&
	build live "-O0" "rr.c $(where $waits) lib/proc/umem.c lib/proc/uproc.c usched.c
		$dir/stop.o" ||
		{ fail live; return; }
	"$dir/live" >"$dir/up" &
	live=$!
	n=0
	until [ -s "$dir/up" ] || [ $((n += 1)) -gt 600 ]; do sleep 0.1; done
	sleep 0.2
	for language in auto asm ada fortran pascal c++ modula-2; do
		attached $language && continue
		skip "attach: $(grep -m 1 ptrace "$dir/out")"
		break
	done
	[ "$skipped" != 0 ] || attached auto "$dir"	# libc without information
	kill "$live"
	wait "$live" 2>/dev/null
}

walk "-O1"
walk "-O0 -DUSCHED_PORTABLE"
gdb -nx -batch -ex 'python print(1)' 2>&1 | grep -q '^1$' || {
	skip "this gdb has no python (package gdb)"
	counted; }
case $(uname -m) in
x86_64|aarch64|riscv64)
	for flags in "-O0" "-O2"; do
		bare 0 "$flags"
		bare 1 "$flags"
		bare 9 "$flags"
	done
	bare 1 "-O2 -fno-omit-frame-pointer"
	procs "-O0"
	procs "-O2"
	reasons "-O0"
	reasons "-O2"
	names "-O0"
	names "-O2"
	live;;
*)	skip "threads by name on $(uname -m)";;
esac
bare 0 "-O1 -DUSCHED_PORTABLE" portable
counted
