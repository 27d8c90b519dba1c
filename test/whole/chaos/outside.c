/* SPDX-License-Identifier: MIT */
/* outside.c: actors that are not threads of a scheduler. */

#include "chaos.h"

#define PROCS		16
#define NESTED		3
#define BARES		8

/* Signal handlers. */

static struct actor *hand;		/* the actor HANDLER, or NULL */
static long          hand_next, handled;
static pthread_t     proc_id[PROCS];

static void on_signal(int signo)
{
	struct actor *to;
	struct note *n;
	long i;

	i = __atomic_fetch_add(&hand_next, 1, __ATOMIC_SEQ_CST);
	if (i >= hand->a_nr)
		return;
	n = &hand->a_note[i];
	to = &actor[n->n_to];
	n->n_word = check_hash(program.p_seed, (unsigned)(n - note));
	__atomic_fetch_add(&to->a_sent, 1, __ATOMIC_RELAXED);
	sched[to->a_set].c_post(to->a_thread);
	add(&handled, 1);
}

/*
 * Called by a thread, which stays on this native thread until the handler has
 * ended.
 */
void raise_here(struct actor *a)
{
	is_doing(a, "raise");
	CHECK(pthread_kill(pthread_self(), SIGUSR1) == 0);
}

static void registers(void *at)
{
	*(pthread_t *)at = pthread_self();
	add(&registered, 1);
}

/* Notes the native thread of each processor. */
void register_all(void)
{
	int s, p, at = 0;

	for (s = 0; s < SETS; s++)
		for (p = 0; program.p_has[s] && p < program.p_procs[s]; p++)
			CHECK(sched[s].c_stays(p, registers, &proc_id[at++]));
	CHECK(at <= PROCS);
}

static int processors(void)
{
	int s, nr = 0;

	for (s = 0; s < SETS; s++)
		nr += program.p_has[s] ? program.p_procs[s] : 0;
	return nr;
}

static void release_all(void)
{
	int s;

	for (s = 0; s < SETS; s++)
		if (program.p_has[s])
			sched[s].c_release();
}

/*
 * Interrupts processors until the handler has sent all its wakes; their sets
 * are held meanwhile. With ThreadSanitizer a processor that sleeps handles no
 * signal, so the kicker also interrupts itself.
 */
static void *kicker(void *arg)
{
	struct actor *a = arg;

	is_doing(a, "wait for processors");
	while (get(&registered) < processors())
		usleep(100);
	is_doing(a, "kick");
	while (get(&handled) < a->a_nr) {
		int at = (int)any(&a->a_random, (unsigned)processors());
		bool self = any(&a->a_random, 8) == 0;

		CHECK(pthread_kill(self ? pthread_self() : proc_id[at],
				   SIGUSR1) == 0);
		if (any(&a->a_random, 4) == 0)
			usleep(any(&a->a_random, 100));
	}
	release_all();
	a->a_ended++;
	is_doing(a, "end");
	return NULL;
}

/* Native threads. */

static void *native_main(void *arg)
{
	struct actor *a = arg;

	while (a->a_nr > 0 || a->a_children > 0) {
		unsigned r = any(&a->a_random, 16);

		if (r < 10 && a->a_nr > 0)
			send_one(a, program.p_may[T_post] && r % 2);
		else if (r < 12 && a->a_children > 0)
			bear(a);
		else if (r == 12)
			usleep(any(&a->a_random, 200));
		else if (r == 13 && shares())
			share(a);
		else
			(void)errand();
	}
	a->a_ended++;
	add(&alive, -1);
	is_doing(a, "run errands");
	while (get(&alive) > 0 || errands_left()) {
		if (shares())
			share(a);
		if (!errand())
			usleep(20 + any(&a->a_random, 100));
	}
	if (shares())
		release_all();
	is_doing(a, "end");
	return NULL;
}

/* A dispatcher that no scheduler knows. */

static void *bare_main(void *arg)
{
	static struct tiny_thread thread[BARES];
	unsigned random = program.p_seed | 1;
	struct tiny t;
	int i, nr = 0;

	if (tiny_init(&t, (int)any(&random, 4)) != 0)
		CHECK(tiny_init(&t, 0) == 0);
	for (i = 0; i < program.p_actors; i++)
		if (actor[i].a_kind == BARE)
			tiny_start(&t, &thread[nr++], pure_main, &actor[i]);
	tiny_run(&t);
	tiny_fini(&t);
	return NULL;
}

/*
 * Dispatchers inside of threads: a few threads each, which wake for their
 * actor.
 */

static void nested(void *arg)
{
	struct actor *a = arg;
	volatile unsigned frame[16];
	int i;

	for (i = 0; i < COUNT(frame); i++)
		frame[i] = (unsigned)i ^ program.p_seed;
	tiny_yield();
	if (a->a_nr > 0)
		send_one(a, false);
	tiny_yield();
	for (i = 0; i < COUNT(frame); i++)
		CHECK(frame[i] == ((unsigned)i ^ program.p_seed));
}

/* Runs a dispatcher within a. Its threads cannot wait in the set of a. */
NOINLINE void nest(struct actor *a)
{
	struct tiny_thread thread[NESTED];
	const struct ustack *self = ustack_self();
	struct tiny t;
	int i;

	is_doing(a, "nest");
	CHECK(tiny_init(&t, 0) == 0);
	for (i = 0; i < COUNT(thread); i++)
		tiny_start(&t, &thread[i], nested, a);
	tiny_run(&t);
	CHECK(self == ustack_self() || self == NULL);
	t.t_sched.s_next = NULL;
	for (i = 0; i < COUNT(thread); i++)
		CHECK(thread[i].tt_done == 1);
	CHECK(t.t_live == 0 && t.t_held == 0);
	usched_fini(&t.t_sched);
}

/* The native threads of all these actors. */

static pthread_t id[NATIVES];
static int       ids;

static void native(void *(*f)(void *), void *arg)
{
	CHECK(ids < NATIVES);
	CHECK(pthread_create(&id[ids++], NULL, f, arg) == 0);
}

/* Called before anything runs. */
void handler_set(void)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	int i;

	hand_next = handled = 0;
	for (i = 0; i < program.p_actors; i++)
		if (actor[i].a_kind == HANDLER)
			hand = &actor[i];
	CHECK(sigaction(SIGUSR1, &sa, NULL) == 0);
}

void natives_start(void)
{
	int i;

	ids = 0;
	for (i = 0; i < program.p_actors; i++)
		if (actor[i].a_kind == NATIVE)
			native(native_main, &actor[i]);
	native(bare_main, NULL);
	native(kicker, hand);
}

void natives_join(void)
{
	while (ids > 0)
		CHECK(pthread_join(id[--ids], NULL) == 0);
}
