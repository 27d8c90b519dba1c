/* SPDX-License-Identifier: MIT */
/* halfway: a processor that waits for the rest of a post gives up the cpu. */
/* VARIANTS: RR LL WS PR */

/*
 * A poster stops between the exchange and the store of uinbox_post(). It goes
 * on only after it has seen the native thread of the processor asleep in the
 * kernel: only then can a poster of lower priority get the cpu. The thread that
 * is posted to has blocked before, and waits only for this store. The same is
 * shown for the owner of a struct ws_stop, while another thread stops it.
 */
static void race_window(const char *step);

#define USCHED_RACE(step)	race_window(#step)
#include "either.h"
#include "idle.h"
#include "uproc_set.h"
#if defined(WS)
#include "worker.h"
#endif
#include <sys/syscall.h>

#define ROUNDS	20

static long half;		/* posts that are, or were, half-way */
static long waiting;		/* number of the awaited post */
static pid_t sleeper;
static __thread bool posts;

/* Returns the state of a native thread, as in proc(5): R runs, S sleeps. */
static char state_of(pid_t tid)
{
	char name[64], text[256];
	char *at;
	FILE *f;

	snprintf(name, sizeof name, "/proc/self/task/%d/stat", (int)tid);
	f = fopen(name, "r");
	if (f == NULL)
		return 0;
	text[fread(text, 1, sizeof text - 1, f)] = 0;
	CHECK_IS(fclose(f), 0);
	at = strrchr(text, ')');
	return at != NULL ? at[2] : 0;
}

static void until_asleep(pid_t tid)
{
	while (state_of(tid) != 'S')
		check_yield();
}

static void race_window(const char *step)
{
	if (strcmp(step, "inbox_R1") != 0 || !posts)
		return;
	add(&half, 1);
	until_asleep(sleeper);
}

/* Posts as the scheduler does, but stops in the window. */
static void post(thread *t)
{
	struct uproc_thread *u = STRUCT(t);
	struct uproc *p = uproc_of(u);

#if defined(WS)
	if (!ws_mail_post(&u->t_wakes))
		return;
	p = &ws_home(u)->w_proc;
	uinbox_post(&p->p_inbox, &u->t_wakes.w_node);
#else
	CHECK(uwakes_post(&u->t_wakes, &p->p_inbox));
#endif
	uidle_wake(&p->p_set->set_idle, &p->p_asleep);
}

static void *poster(void *arg)
{
	long i;

	posts = true;
	for (i = 1; i <= ROUNDS; i++) {
		until(&waiting, i);
		post(*(thread **)arg);
	}
	SCHED(release)();
	return arg;
}

#if defined(WS)
static void wakes(void *arg)
{
	SCHED(wake)(arg);
}

/* Blocks for a wake. After that, wakes from elsewhere are posted. */
static void settle(void)
{
	thread *me = SCHED(self)();

	ws_pin();
	while (!ws_mail_settled(&STRUCT(me)->t_wakes)) {
		make(0, wakes, me);
		wait_one();
	}
}
#else
static void settle(void)
{
}
#endif

/* Keeps its native thread running until the post is half-way. */
static void posted_to(void *arg)
{
	long i;

	settle();
	sleeper = (pid_t)syscall(SYS_gettid);
	for (i = 1; i <= ROUNDS; i++) {
		set(&waiting, i);
		until(&half, i);
		wait_one();
	}
}

static void look(int proc_nr)
{
	static thread *t;

	set(&half, 0);
	set(&waiting, 0);
	begin(proc_nr, 0);
	t = make(0, posted_to, NULL);
	start_and_finish_with(poster, &t);
	CHECK_IS(half, ROUNDS);
}

#if defined(WS)
static struct ws_stop stopped;

static void *owner(void *arg)
{
	set(arg, syscall(SYS_gettid));
	ws_stop_enter(&stopped);
	ws_stop_leave(&stopped);
	return arg;
}

static void stops(void)
{
	long tid = 0;
	pthread_t id;

	CHECK(ws_stop_ask(&stopped) != 0 && ws_stop_force(&stopped));
	id = native(owner, &tid);
	until(&tid, 1);
	until_asleep((pid_t)get(&tid));
	ws_stop_end(&stopped);
	native_join(id);
}
#else
static void stops(void)
{
}
#endif

int main(int argc, char **argv)
{
	check_start(argc, argv);
	if (state_of((pid_t)syscall(SYS_gettid)) != 'R')
		check_skip("no states of native threads in /proc");
	look(1);
	look(2);
	stops();
	return 0;
}
