/* SPDX-License-Identifier: MIT */
/* VARIANTS: once */
/* LIBS: -lm */
/*
 * known: some things do not work, or differ from native threads, as
 * HACKING.md and usched.h say. The state of the native thread is shared by all
 * its threads. A native lock does not keep threads of the same native thread
 * apart. A pointer into a frame is valid only while its thread runs. A block
 * that is not on the stack of the thread is refused.
 */
#include "tiny.h"
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <ucontext.h>

static struct tiny tiny;
static struct tiny_thread first, second;

static void run(int lanes, void (*f)(void *), void (*g)(void *))
{
	int rc = tiny_init(&tiny, lanes);

	if (rc == -ENOSYS)
		CHECK_IS(tiny_init(&tiny, 0), 0);
	tiny_start(&tiny, &first, f, NULL);
	tiny_start(&tiny, &second, g, NULL);
	tiny_run(&tiny);
	tiny_fini(&tiny);
}

/* errno, other thread-local storage, the signal mask, sticky flags. */

static __thread int local;

static void leaves_state(void *arg)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK_IS(sigprocmask(SIG_BLOCK, &set, NULL), 0);
	feraiseexcept(FE_DIVBYZERO);
	local = 7;
	errno = EDOM;
	tiny_yield();
	CHECK_IS(errno, ERANGE);
	CHECK_IS(local, 8);
	CHECK_IS(sigprocmask(SIG_BLOCK, NULL, &set), 0);
	CHECK(!sigismember(&set, SIGUSR1));
	CHECK(!fetestexcept(FE_DIVBYZERO));
}

static void finds_state(void *arg)
{
	sigset_t set;

	CHECK_IS(errno, EDOM);
	CHECK_IS(local, 7);
	CHECK_IS(sigprocmask(SIG_BLOCK, NULL, &set), 0);
	CHECK(sigismember(&set, SIGUSR1));
	CHECK(fetestexcept(FE_DIVBYZERO));
	feclearexcept(FE_ALL_EXCEPT);
	sigdelset(&set, SIGUSR1);
	CHECK_IS(sigprocmask(SIG_SETMASK, &set, NULL), 0);
	local = 8;
	errno = ERANGE;
}

/* Native locks. */

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive;

static void holds_locks(void *arg)
{
	CHECK_IS(pthread_mutex_lock(&plain), 0);
	CHECK_IS(pthread_mutex_lock(&recursive), 0);
	tiny_yield();
	CHECK_IS(pthread_mutex_unlock(&recursive), 0);
	CHECK_IS(pthread_mutex_unlock(&plain), 0);
}

/*
 * To lock the plain mutex would stop all threads; the recursive one stops none.
 */
static void wants_locks(void *arg)
{
	CHECK_IS(pthread_mutex_trylock(&plain), EBUSY);
	CHECK_IS(pthread_mutex_lock(&recursive), 0);
	CHECK_IS(pthread_mutex_unlock(&recursive), 0);
}

static void locks(void)
{
	pthread_mutexattr_t attr;

	CHECK_IS(pthread_mutexattr_init(&attr), 0);
	CHECK_IS(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE), 0);
	CHECK_IS(pthread_mutex_init(&recursive, &attr), 0);
	run(2, holds_locks, wants_locks);
}

/* A pointer to a local variable of a thread that was copied away. */

static int *volatile shared;

static void shares(void *arg)
{
	volatile int mine = 1;

	shared = (int *)&mine;
	tiny_yield();
	CHECK_IS(mine, 1);	/* the other thread's write is lost */
}

static void writes(void *arg)
{
	volatile char room[4096];	/* so no other frame is written */

	room[0] = 0;
	room[4095] = 0;
	if ((char *)shared >= (char *)room && (char *)shared < room + 4096)
		*shared = 2;
}

/* A copy of the process has a copy of its threads. */

static void forks(void *arg)
{
	pid_t pid = fork();
	int status;

	CHECK_THAT(pid, >=, 0);
	tiny_yield();
	if (pid > 0)
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void counts(void *arg)
{
	local++;
}

static void forked(void)
{
	pid_t self = getpid();

	local = 0;
	run(1, forks, counts);
	CHECK_IS(local, 1);
	if (getpid() != self)
		_exit(0);
}

/*
 * pthread_exit() ends the native thread, and all other threads stay where they
 * are.
 */

static void exits(void *arg)
{
	tiny_yield();
	pthread_exit(&tiny);
}

static void goes_on(void *arg)
{
	tiny_yield();
	_exit(1);
}

static void *native(void *arg)
{
	run(2, exits, goes_on);
	return arg;
}

static void exited(void)
{
	pthread_t id;
	void *with;

	CHECK_IS(pthread_create(&id, NULL, native, NULL), 0);
	CHECK_IS(pthread_join(id, &with), 0);
	CHECK_IS(with, &tiny);
	CHECK(first.tt_done == 0 && second.tt_done == 0);
}

/*
 * Blocks on another stack: detected on lanes; on the native stack it is too
 * far.
 */

static int elsewhere_rc;

static void block_in_handler(int signo)
{
	elsewhere_rc = ustack_block();
}

static void on_alternate_stack(void *arg)
{
	static char elsewhere[65536];
	const stack_t alt = { .ss_sp = elsewhere, .ss_size = sizeof elsewhere };
	const struct sigaction action = {
		.sa_handler = block_in_handler, .sa_flags = SA_ONSTACK
	};

	CHECK_IS(sigaltstack(&alt, NULL), 0);
	CHECK_IS(sigaction(SIGUSR1, &action, NULL), 0);
	raise(SIGUSR1);
}

static void nothing(void *arg)
{
}

static void alternate(void)
{
	run(2, on_alternate_stack, nothing);
}

static void alternate_native(void)
{
	run(0, on_alternate_stack, nothing);
	CHECK_IS(elsewhere_rc, -ENOMEM);
}

#if defined(__GLIBC__)
static ucontext_t here, there;

static void other(void)
{
	elsewhere_rc = ustack_block();
}

static void on_context(void *arg)
{
	static char elsewhere[65536];

	CHECK_IS(getcontext(&there), 0);
	there.uc_link = &here;
	there.uc_stack.ss_sp   = elsewhere;
	there.uc_stack.ss_size = sizeof elsewhere;
	makecontext(&there, other, 0);
	swapcontext(&here, &there);
}

static void context(void)
{
	run(2, on_context, nothing);
}
#endif

int main(int argc, char **argv)
{
	const char *refused = "ustack_block: not on the stack of the thread";
	char text[256];
	int bad = 0;

	check_start(argc, argv);
	run(2, leaves_state, finds_state);
	locks();
#if !defined(USCHED_HARD)
	run(1, shares, writes);
#endif
	forked();
	CHECK_IS(check_child(exited, text, sizeof text), 0);
	alternate_native();
	if (!tiny_has_lanes())
		return 0;
	bad += check_dies("alternate", alternate, refused);
#if defined(__GLIBC__)
	bad += check_dies("context", context, refused);
#endif
	return bad != 0;
}
