/* SPDX-License-Identifier: MIT */
/* inbox: inbox.h delivers each node once, in the order of its producer. */
/* VARIANTS: once */

/*
 * Three native threads and a signal handler post nodes to one owner. The
 * handler interrupts the native threads during their posts, and the owner
 * during a take. The owner sees all that a producer wrote to a node before the
 * post. All are delayed at random between their steps.
 */
#include "window.h"
#include "inbox.h"
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#define PRODUCERS	3
#define EACH		150000
#define HANDLER		PRODUCERS	/* the handler posts, too */
#define SIGNALS		6000
#define ALL		((long)PRODUCERS * EACH + SIGNALS)

struct item {
	long               it_before;	/* plain data before the node */
	struct uinbox_node it_node;
	int                it_from;	/* plain data after the node */
	int                it_nr;
};

static struct uinbox inbox;
static struct item *items[PRODUCERS + 1];
static int next_signal;
static int over;

static void post(int from, int nr)
{
	struct item *it = &items[from][nr];

	it->it_before = nr ^ 12345;
	it->it_from   = from;
	it->it_nr     = nr;
	uinbox_post(&inbox, &it->it_node);
}

/* Runs on any native thread: its posts follow next_signal only roughly. */
static void handler(int signo)
{
	int nr = __atomic_fetch_add(&next_signal, 1, __ATOMIC_RELAXED);

	if (nr < SIGNALS)
		post(HANDLER, nr);
}

static void *producer(void *arg)
{
	int me = (int)(intptr_t)arg;
	int i;

	for (i = 0; i < EACH; i++) {
		post(me, i);
		if (i % 1000 == 0)
			check_yield();
	}
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
		check_yield();
	return NULL;
}

struct kicks {
	pthread_t k_id[PRODUCERS + 1];
};

static void *kicker(void *arg)
{
	struct kicks *k = arg;
	int i;

	for (i = 0; __atomic_load_n(&next_signal, __ATOMIC_RELAXED) < SIGNALS;
	     i++) {
		CHECK_IS(pthread_kill(k->k_id[i % (PRODUCERS + 1)], SIGUSR1),
			 0);
		if (i % 16 == 0)
			check_yield();
	}
	return NULL;
}

static struct item *take(void)
{
	struct uinbox_node *n = uinbox_take(&inbox);

	if (n == NULL)
		return NULL;
	return (struct item *)((char *)n - offsetof(struct item, it_node));
}

static void drain(void)
{
	static bool seen[SIGNALS];
	int next[PRODUCERS] = { 0 };
	long nr;

	for (nr = 0; nr < ALL; ) {
		struct item *it = take();

		if (it == NULL) {
			check_yield();
			continue;
		}
		nr++;
		CHECK_IS(it->it_before, it->it_nr ^ 12345);
		if (it->it_from == HANDLER) {
			CHECK(!seen[it->it_nr]);
			seen[it->it_nr] = true;
		} else
			CHECK_IS(it->it_nr, next[it->it_from]++);
		memset(it, 0x5a, sizeof *it);	/* no producer looks any more */
	}
	CHECK(take() == NULL && uinbox_empty(&inbox));
}

static void stress(void)
{
	pthread_t kick;
	struct kicks k;
	intptr_t i;

	uinbox_init(&inbox);
	CHECK(uinbox_empty(&inbox) && uinbox_take(&inbox) == NULL);
	for (i = 0; i <= PRODUCERS; i++) {
		items[i] = calloc(i == HANDLER ? SIGNALS : EACH,
				  sizeof *items[i]);
		CHECK(items[i] != NULL);
	}
	k.k_id[PRODUCERS] = pthread_self();
	for (i = 0; i < PRODUCERS; i++)
		CHECK_IS(pthread_create(&k.k_id[i], NULL, producer, (void *)i),
			 0);
	CHECK_IS(pthread_create(&kick, NULL, kicker, &k), 0);
	drain();
	CHECK_IS(pthread_join(kick, NULL), 0);
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	for (i = 0; i < PRODUCERS; i++)
		CHECK_IS(pthread_join(k.k_id[i], NULL), 0);
	for (i = 0; i <= PRODUCERS; i++)
		free(items[i]);
}

/* One native thread posts and takes in any order. Nodes are used again. */
static void alone(void)
{
	static struct item pool[64];
	unsigned state = check_seed;
	int sent = 0, got = 0;
	long i;

	uinbox_init(&inbox);
	for (i = 0; i < 300000; i++) {
		if (check_random(&state) % 2 && sent - got < COUNT(pool)) {
			struct item *it = &pool[sent % COUNT(pool)];

			it->it_nr = sent++;
			uinbox_post(&inbox, &it->it_node);
		} else {
			struct item *it = take();

			CHECK_IS(it == NULL, sent == got);
			CHECK(it == NULL || it->it_nr == got++);
		}
		CHECK_IS(uinbox_empty(&inbox), sent == got);
	}
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_RESTART };

	check_start(argc, argv);
	alone();
	CHECK_IS(sigaction(SIGUSR1, &sa, NULL), 0);
	stress();
	window_check("inbox_R2 inbox_R1 inbox_last inbox_stub inbox_A1");
	return 0;
}
