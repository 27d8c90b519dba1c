/* SPDX-License-Identifier: MIT */
/* chan: each value that is sent is received once, in order, and whole. */
/* VARIANTS: RR LL WS PR */

/*
 * Between threads of all processors and native threads, with room and without,
 * of all sizes. Close ends all waits. A send that fails has sent nothing. A
 * channel may be freed when no call can begin any more, also while the calls of
 * others have not returned yet. Misuse returns an error, or fails a contract.
 */
#include "either.h"
#include "uchan.h"

#define MANY	20000
#define PARTIES	8
#define SOON	uafter(UTIME_MS)

static struct uchan *c, *d;
static long sent, received, ended;

/* What a single thread sees. */

static void fifo(void *arg)
{
	int i, v = -1;

	c = uchan_make(sizeof v, 3);
	CHECK(c != NULL && uchan_count(c) == 0);
	for (i = 0; i < 10; i++) {
		CHECK_IS(uchan_send(c, &(int){ 3 * i }, UNEVER), 0);
		CHECK_IS(uchan_send(c, &(int){ 3 * i + 1 }, UNOW), 0);
		CHECK_IS(uchan_send(c, &(int){ 3 * i + 2 }, UNEVER), 0);
		CHECK_IS(uchan_send(c, &v, UNOW), -EAGAIN);
		CHECK_IS(uchan_send(c, &v, SOON), -ETIMEDOUT);
		CHECK_IS(uchan_count(c), 3);
		CHECK(uchan_recv(c, &v, UNEVER) == 0 && v == 3 * i);
		CHECK(uchan_recv(c, &v, UNOW) == 0 && v == 3 * i + 1);
		CHECK(uchan_recv(c, &v, SOON) == 0 && v == 3 * i + 2);
		v = -1;
		CHECK(uchan_recv(c, &v, UNOW) == -EAGAIN && v == -1);
		CHECK(uchan_recv(c, &v, SOON) == -ETIMEDOUT && v == -1);
	}
	uchan_free(c);
	uchan_free(NULL);
}

static void closed(void *arg)
{
	int v = 7;

	c = uchan_make(sizeof v, 2);
	CHECK_IS(uchan_send(c, &v, UNOW), 0);
	CHECK_IS(uchan_close(c), 0);
	CHECK_IS(uchan_close(c), -EINVAL);
	CHECK_IS(uchan_send(c, &v, UNEVER), -EPIPE);
	CHECK_IS(uchan_send(c, &v, UNOW), -EPIPE);
	v = 0;
	CHECK(uchan_recv(c, &v, UNEVER) == 0 && v == 7);
	CHECK(uchan_recv(c, &v, UNEVER) == -EPIPE && v == 7);
	CHECK_IS(uchan_recv(c, NULL, UNOW), -EPIPE);
	uchan_free(c);
	c = uchan_make(0, 0);
	CHECK_IS(uchan_close(c), 0);
	CHECK_IS(uchan_recv(c, NULL, UNOW), -EPIPE);
	CHECK_IS(uchan_send(c, NULL, UNEVER), -EPIPE);
	uchan_free(c);
}

static void bad(void *arg)
{
	int v = 0;

	CHECK_IS(uchan_make(-1, 0), NULL);
	CHECK_IS(uchan_make(UCHAN_SIZE_MOST + 1, 0), NULL);
	CHECK_IS(uchan_send(NULL, &v, UNOW), -EINVAL);
	CHECK_IS(uchan_recv(NULL, &v, UNOW), -EINVAL);
	CHECK_IS(uchan_close(NULL), -EINVAL);
	c = uchan_make(sizeof v, 1);
	CHECK_IS(uchan_send(c, &v, -1), -EINVAL);
	CHECK_IS(uchan_recv(c, &v, -1), -EINVAL);
	uchan_free(c);
}

/* Sizes: the values go through ring and records as they are. */

static void fill(unsigned char *v, int size, unsigned tag)
{
	int i;

	for (i = 0; i < size; i++)
		v[i] = (unsigned char)check_hash(tag, (unsigned)i);
}

static void sends_sized(void *arg)
{
	int size = (int)(intptr_t)arg;
	unsigned char *v = malloc((size_t)size + 1);
	unsigned i;

	CHECK(v != NULL);
	for (i = 0; i < 10; i++) {
		fill(v, size, i);
		CHECK_IS(uchan_send(c, v, UNEVER), 0);
		memset(v, 0xee, (size_t)size);
		if (i % 3 == 0)
			yield();
	}
	free(v);
}

static void receives_sized(void *arg)
{
	int size = (int)(intptr_t)arg;
	unsigned char *v = malloc((size_t)size + 1);
	unsigned char *wanted = malloc((size_t)size + 1);
	unsigned i;

	CHECK(v != NULL && wanted != NULL);
	v[size] = 0x55;
	for (i = 0; i < 10; i++) {
		if (i % 4 == 0)
			yield();
		CHECK_IS(uchan_recv(c, v, UNEVER), 0);
		fill(wanted, size, i);
		CHECK(memcmp(v, wanted, (size_t)size) == 0);
		CHECK_IS(v[size], 0x55);
	}
	free(v);
	free(wanted);
}

static void sizes(int p)
{
	static const int size[] = { 0, 1, 2, 4, 7, 8, 9, 16, 24, 100, 5000,
				    UCHAN_SIZE_MOST };
	unsigned room;
	int i;

	for (i = 0; i < COUNT(size); i++) {
		for (room = 0; room < 4; room++) {
			c = uchan_make(size[i], room);
			CHECK(c != NULL);
			begin(p, 0);
			make(0, sends_sized, (void *)(intptr_t)size[i]);
			make(1, receives_sized, (void *)(intptr_t)size[i]);
			start_and_finish();
			uchan_free(c);
		}
	}
}

/*
 * Parties of senders and receivers. A value names its sender, and counts up; so
 * each receiver sees the values of each sender in their order.
 */

static unsigned char seen[PARTIES * MANY];

static void sends(long party, long nr)
{
	long i, v;

	for (i = 0; i < nr; i++) {
		v = party * MANY + i;
		CHECK_IS(uchan_send(c, &v, UNEVER), 0);
		v = -1;
	}
	add(&sent, nr);
	if (add(&ended, 1) == PARTIES)
		CHECK_IS(uchan_close(c), 0);
}

static void receives(void)
{
	long last[PARTIES];
	long v = -1, nr = 0;
	int i, rc;

	for (i = 0; i < PARTIES; i++)
		last[i] = -1;
	while ((rc = uchan_recv(c, &v, UNEVER)) == 0) {
		CHECK(v >= 0 && v < PARTIES * MANY);
		CHECK_THAT(v % MANY, >, last[v / MANY]);
		last[v / MANY] = v % MANY;
		CHECK_IS(__atomic_fetch_add(&seen[v], 1, __ATOMIC_RELAXED), 0);
		v = -1;
		nr++;
	}
	CHECK(rc == -EPIPE && v == -1);
	add(&received, nr);
}

static void sender(void *arg)
{
	sends((long)(intptr_t)arg, MANY / PARTIES);
}

static void receiver(void *arg)
{
	receives();
}

static void *native_sender(void *arg)
{
	sender(arg);
	SCHED(release)();
	return NULL;
}

static void *native_receiver(void *arg)
{
	receiver(arg);
	SCHED(release)();
	return NULL;
}

/* natives: how many of the senders, and of the receivers, are native threads */
static void parties(int p, unsigned room, int receiver_nr, int natives)
{
	pthread_t id[2 * PARTIES];
	int i, nr = 0;

	sent = received = ended = 0;
	memset(seen, 0, sizeof seen);
	c = uchan_make(sizeof(long), room);
	CHECK(c != NULL);
	begin(p, 0);
	for (i = 0; i < PARTIES; i++) {
		if (i < natives) {
			SCHED(hold)();
			id[nr++] = native(native_sender, (void *)(intptr_t)i);
		} else
			make(i, sender, (void *)(intptr_t)i);
	}
	for (i = 0; i < receiver_nr; i++) {
		if (i < natives) {
			SCHED(hold)();
			id[nr++] = native(native_receiver, NULL);
		} else
			make(i + 1, receiver, NULL);
	}
	start_and_finish();
	while (nr > 0)
		native_join(id[--nr]);
	CHECK(sent == MANY / PARTIES * PARTIES && received == sent);
	uchan_free(c);
}

/* Lets all others run until they wait. */
static void let_run(void)
{
	int i;

	for (i = 0; i < 50; i++)
		yield();
}

/* Close ends the waits of both sides; what failed was not sent. */

static int result[6];

static void waits_to_send(void *arg)
{
	long v = (long)(intptr_t)arg;

	result[v] = uchan_send(c, &v, UNEVER);
	CHECK(result[v] == 0 || result[v] == -EPIPE);
	ended++;
}

static void waits_to_receive(void *arg)
{
	long v = -5;

	CHECK(uchan_recv(d, &v, UNEVER) == -EPIPE && v == -5);
	ended++;
}

static void closer(void *arg)
{
	long v = 0;
	int i;

	let_run();
	CHECK(ended == 2 && uchan_count(c) == 2);
	CHECK(uchan_close(c) == 0 && uchan_close(d) == 0);
	let_run();
	CHECK_IS(ended, 12);
	for (i = 0; i < 2; i++) {
		CHECK(uchan_recv(c, &v, UNEVER) == 0 && result[v] == 0);
		result[v] = -EPIPE;
	}
	CHECK_IS(uchan_recv(c, &v, UNEVER), -EPIPE);
	for (i = 0; i < 6; i++)
		CHECK_IS(result[i], -EPIPE);
	uchan_free(c);
	uchan_free(d);
}

static void close_all(void)
{
	int i;

	ended = 0;
	c = uchan_make(sizeof(long), 2);
	d = uchan_make(sizeof(long), 2);
	begin(1, 0);
	for (i = 0; i < 6; i++)
		make(0, waits_to_send, (void *)(intptr_t)i);
	for (i = 0; i < 6; i++)
		make(0, waits_to_receive, NULL);
	make(0, closer, NULL);
	start_and_finish();
}

/* Waits end in their order. Another order is possible if points yield. */

static long first, second;

static void receives_in_turn(void *arg)
{
	long mine = first++, v;

	CHECK(uchan_recv(c, &v, UNEVER) == 0 && v == mine);
}

static void sends_in_turn(void *arg)
{
	long mine = second++;

	CHECK_IS(uchan_send(d, &mine, UNEVER), 0);
}

static void takes_turns(void *arg)
{
	long i, v;

	let_run();
	for (i = 0; i < 5; i++) {
		CHECK_IS(uchan_send(c, &i, UNOW), 0);
		CHECK(uchan_recv(d, &v, UNOW) == 0 && v == i);
	}
}

static void in_turn(void)
{
	int i;

	if (getenv("USCHED_DEBUG") != NULL)
		return;
	first = second = 0;
	c = uchan_make(sizeof(long), 0);
	d = uchan_make(sizeof(long), 0);
	begin(1, 0);
	for (i = 0; i < 5; i++) {
		make(0, receives_in_turn, NULL);
		make(0, sends_in_turn, NULL);
	}
	make(0, takes_turns, NULL);
	start_and_finish();
	uchan_free(c);
	uchan_free(d);
}

/*
 * A link whose record was claimed elsewhere is passed over, and the channel is
 * freed only after the waiter has left it.
 */

static void selects_both(void *arg)
{
	long v = -1, w = -1;
	struct ucase k[2] = { UCASE_RECV(c, &v), UCASE_RECV(d, &w) };

	CHECK_IS(uselect(k, 2, UNEVER), 0);
	CHECK(k[0].cs_result == 0 && v == 1 && w == -1);
	ended |= 1;
}

static void receives_late(void *arg)
{
	long v;

	CHECK(uchan_recv(d, &v, UNEVER) == 0 && v == 2);
	ended |= 2;
}

static void late_sender(void *arg)
{
	let_run();
	CHECK_IS(uchan_send(c, &(long){ 1 }, UNOW), 0);
	CHECK_IS(ended, 0);		/* its link in d is still there */
	CHECK_IS(uchan_send(d, &(long){ 2 }, UNOW), 0);
	CHECK_IS(uchan_send(d, &(long){ 3 }, UNOW), -EAGAIN);
	CHECK_IS(uchan_close(d), 0);
	uchan_free(d);
	uchan_free(c);
}

/* The same, if nothing has met the link before uchan_free(). */
static void unmet_sender(void *arg)
{
	let_run();
	CHECK_IS(uchan_send(c, &(long){ 1 }, UNOW), 0);
	uchan_free(d);
	uchan_free(c);
}

static void late(void (*sends)(void *), void (*third)(void *), long wanted)
{
	ended = 0;
	c = uchan_make(sizeof(long), 0);
	d = uchan_make(sizeof(long), 0);
	begin(1, 0);
	make(0, selects_both, NULL);
	if (third != NULL)
		make(0, third, NULL);
	make(0, sends, NULL);
	start_and_finish();
	CHECK_IS(ended, wanted);
}

/* The receiver frees the channel while the sender may be in its call. */

static void receives_and_frees(void *arg)
{
	struct uchan *own = arg;
	long v;

	CHECK(uchan_recv(own, &v, UNEVER) == 0 && v == 4);
	uchan_free(own);
	add(&ended, 1);
}

static void sends_once(void *arg)
{
	CHECK_IS(uchan_send(arg, &(long){ 4 }, UNEVER), 0);
}

static void *sends_natively(void *arg)
{
	int i;

	for (i = 0; i < 500; i++) {
		struct uchan *own = uchan_make(sizeof(long), i % 2);

		CHECK(own != NULL);
		make(i, receives_and_frees, own);
		sends_once(own);
	}
	SCHED(release)();
	return arg;
}

static void freed(int p)
{
	int i;

	ended = 0;
	begin(p, 0);
	for (i = 0; i < 500; i++) {
		struct uchan *own = uchan_make(sizeof(long), i / 2 % 2);

		CHECK(own != NULL);
		make(i, i % 3 ? sends_once : receives_and_frees, own);
		make(i / 2, i % 3 ? receives_and_frees : sends_once, own);
	}
	start_and_finish_with(sends_natively, NULL);
	CHECK_IS(ended, 1000);
}

/* Natively, without any thread. */

static void *echoes(void *arg)
{
	long v;

	while (uchan_recv(c, &v, UNEVER) == 0)
		CHECK_IS(uchan_send(d, &v, UNEVER), 0);
	CHECK_IS(uchan_close(d), 0);
	return NULL;
}

static void natively(void)
{
	pthread_t id;
	long i, v;

	c = uchan_make(sizeof v, 0);
	d = uchan_make(sizeof v, 1);
	CHECK_IS(uchan_recv(c, &v, SOON), -ETIMEDOUT);
	CHECK_IS(uchan_send(c, &v, SOON), -ETIMEDOUT);
	id = native(echoes, NULL);
	for (i = 0; i < 1000; i++) {
		struct ucase k[2] = { UCASE_RECV(d, &v), UCASE_SEND(c, &i) };

		CHECK_IS(uselect(k, 2, UNEVER), 1);
		CHECK(uselect(k, 1, UNEVER) == 0 && v == i);
	}
	CHECK_IS(uchan_close(c), 0);
	CHECK_IS(uchan_recv(d, &v, UNEVER), -EPIPE);
	native_join(id);
	uchan_free(c);
	uchan_free(d);
}

/* A channel of one processor. */

static void local_sender(void *arg)
{
	long i;

	for (i = 0; i < MANY; i++)
		CHECK_IS(uchan_send(arg, &i, UNEVER), 0);
	CHECK_IS(uchan_close(arg), 0);
}

static void local_receiver(void *arg)
{
	long i = 0, v;
	int rc;

	while ((rc = uchan_recv(arg, &v, i % 9 ? UNEVER : SOON)) != -EPIPE) {
		CHECK(rc == -ETIMEDOUT || (rc == 0 && v == i));
		i += rc == 0;
	}
	CHECK_IS(i, MANY);
	uchan_free(arg);
}

static void local(void)
{
	unsigned room;

	for (room = 0; room < 3; room++) {
		c = uchan_make_local(sizeof(long), room);
		CHECK(c != NULL);
		begin(1, 0);
		make(0, local_sender, c);
		make(0, local_receiver, c);
		start_and_finish();
	}
}

/* Broken contracts. */

static void frees_used(void *arg)
{
	let_run();
	uchan_free(c);
}

static void free_with_receiver(void)
{
	c = d = uchan_make(sizeof(long), 0);
	begin(1, 0);
	make(0, waits_to_receive, NULL);
	make(0, frees_used, NULL);
	start_and_finish();
}

static void free_with_sender(void)
{
	c = uchan_make(sizeof(long), 0);
	begin(1, 0);
	make(0, sends_once, c);
	make(0, frees_used, NULL);
	start_and_finish();
}

#if defined(USCHED_HARD)
static void stranger(void)
{
	c = uchan_make_local(sizeof(long), 5);
	begin(2, 0);
	make(0, sends_once, c);
	make(1, sends_once, c);
	start_and_finish();
}

static void native_stranger(void)
{
	sends_once(uchan_make_local(sizeof(long), 5));
}
#endif

static void misuse(void)
{
	int failed = 0;

	failed += check_dies("receiver", free_with_receiver, "uchan_free");
	failed += check_dies("sender", free_with_sender, "uchan_free");
#if defined(USCHED_HARD)
#if !defined(WS)			/* there a worker may take both */
	failed += check_dies("stranger", stranger, "local channel");
#endif
	failed += check_dies("native", native_stranger, "local channel");
	(void)stranger;
#endif
	CHECK_IS(failed, 0);
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	one_thread(1, fifo, NULL);
	one_thread(1, closed, NULL);
	one_thread(1, bad, NULL);
	close_all();
	in_turn();
	late(late_sender, receives_late, 3);
	late(unmet_sender, NULL, 1);
	natively();
	local();
	misuse();
	for (p = 1; p <= 2; p++) {
		doing("sizes");
		sizes(p);
		doing("parties");
		parties(p, 0, 1, 0);
		parties(p, 0, PARTIES, 0);
		parties(p, 1, PARTIES, 0);
		parties(p, 10, 3, 0);
		parties(p, 1000, PARTIES, 0);
		parties(p, 0, PARTIES, 2);
		parties(p, 3, PARTIES, 2);
		doing("freed");
		freed(p);
	}
	return 0;
}
