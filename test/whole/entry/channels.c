/* SPDX-License-Identifier: MIT */
/* channels.c: threads on two channels do what a plain queue says, for any bytes. */

/*
 * An entry point for libFuzzer (test/whole/entry.sh). The first byte is the room of the
 * channels. Each byte that follows is a step: bit 3 is the channel, and the bits
 * below are the operation. A step makes a thread that may have to wait, or asks
 * at once. Then all threads run until they wait or have ended, and each channel
 * and each thread must be as in the model: a ring, and two lists of waiters, first
 * in first out.
 */
#include "check.h"
#include "rr.h"
#include "uchan.h"
#include <errno.h>
#include <stdint.h>

enum { STEPS = 40, WAITS = 1 };
enum operation { SEND, RECV, SELECT, TRY_SEND, TRY_RECV, CLOSE, SEND_TWO, RECV_TWO };

/* A thread, as it is and as the model has it. A result of WAITS: none yet. */
struct actor {
	enum operation a_does;
	int            a_at;		/* the channel */
	int            a_value, a_rc;
	int            a_model_value, a_model_rc;
};

/* A channel of the model. */
struct model {
	int m_ring[4], m_nr, m_closed;
	int m_wait[2 * STEPS], m_waiting;	/* actors, in their order */
};

static struct actor actor[2 * STEPS];
static int actors, room, next_value;
static struct uchan *chan[2];
static struct model model[2];
static const unsigned char *step;
static size_t steps;

static void acts(void *arg)
{
	struct actor *a = arg;
	int value = a->a_value, rc;
	struct ucase cases[2] = {
		UCASE_RECV(chan[0], &value), UCASE_RECV(chan[1], &value)
	};

	switch (a->a_does) {
	case SEND:
		rc = uchan_send(chan[a->a_at], &value, UNEVER);
		break;
	case RECV:
		rc = uchan_recv(chan[a->a_at], &value, UNEVER);
		break;
	default:
		rc = uselect_ordered(cases, 2, UNEVER);
		CHECK(rc == 0 || rc == 1);
		rc = cases[rc].cs_result;
	}
	a->a_value = value;
	a->a_rc = rc;
}

/* The model. A wait, or a try, may find a value at once. */

static void ends(int nr, int value, int rc)
{
	struct model *m;
	int i, k, to;

	actor[nr].a_model_value = value;
	actor[nr].a_model_rc = rc;
	for (k = 0; k < 2; k++) {
		m = &model[k];
		for (i = to = 0; i < m->m_waiting; i++)
			if (m->m_wait[i] != nr)
				m->m_wait[to++] = m->m_wait[i];
		m->m_waiting = to;
	}
}

/* Returns the first thread that waits to send, or to receive; -1: none does. */
static int first(struct model *m, int sends)
{
	int nr = m->m_waiting > 0 ? m->m_wait[0] : -1;

	return nr >= 0 && (actor[nr].a_does == SEND) == sends ? nr : -1;
}

static int model_send(struct model *m, int value)
{
	int nr = first(m, 0);

	if (m->m_closed)
		return -EPIPE;
	if (nr >= 0)
		ends(nr, value, 0);
	else if (m->m_nr < room)
		m->m_ring[m->m_nr++] = value;
	else
		return -EAGAIN;
	return 0;
}

static int model_recv(struct model *m, int *value)
{
	int nr = first(m, 1);

	if (m->m_nr > 0) {
		*value = m->m_ring[0];
		memmove(m->m_ring, m->m_ring + 1, sizeof m->m_ring - sizeof *value);
		if (nr >= 0) {
			m->m_ring[m->m_nr - 1] = actor[nr].a_value;
			ends(nr, actor[nr].a_value, 0);
		} else {
			m->m_nr--;
		}
	} else if (nr >= 0) {
		*value = actor[nr].a_value;
		ends(nr, *value, 0);
	} else {
		return m->m_closed ? -EPIPE : -EAGAIN;
	}
	return 0;
}

static int model_close(struct model *m)
{
	int nr;

	if (m->m_closed)
		return -EINVAL;
	m->m_closed = 1;
	while (m->m_waiting > 0) {
		nr = m->m_wait[0];
		ends(nr, actor[nr].a_value, -EPIPE);
	}
	return 0;
}

static void model_wait(int at, int nr)
{
	model[at].m_wait[model[at].m_waiting++] = nr;
}

static void model_act(int nr)
{
	struct actor *a = &actor[nr];
	int rc = -EAGAIN, value = a->a_value, k;

	if (a->a_does == SEND)
		rc = model_send(&model[a->a_at], value);
	for (k = 0; k < 2 && a->a_does != SEND && rc == -EAGAIN; k++)
		if (a->a_does == SELECT || k == a->a_at)
			rc = model_recv(&model[k], &value);
	if (rc != -EAGAIN) {
		ends(nr, value, rc);
		return;
	}
	a->a_model_rc = WAITS;
	for (k = 0; k < 2; k++)
		if (a->a_does == SELECT || k == a->a_at)
			model_wait(k, nr);
}

/* The steps. */

static void act(enum operation does, int at)
{
	struct actor *a = &actor[actors];

	*a = (struct actor){ .a_does = does, .a_at = at, .a_rc = WAITS };
	a->a_value = does == SEND ? next_value++ : -1;
	CHECK(rr_thread_init(acts, a) != NULL);
	model_act(actors++);
}

static void try_send(int at)
{
	int value = next_value++;

	CHECK_IS(uchan_send(chan[at], &value, UNOW),
		 model_send(&model[at], value));
}

static void try_recv(int at)
{
	int value = -1, wanted = -1;

	CHECK_IS(uchan_recv(chan[at], &value, UNOW),
		 model_recv(&model[at], &wanted));
	CHECK_IS(value, wanted);
}

static void do_step(enum operation does, int at)
{
	switch (does) {
	case SEND: case RECV: case SELECT:
		act(does, at);
		break;
	case TRY_SEND:
		try_send(at);
		break;
	case TRY_RECV:
		try_recv(at);
		break;
	case CLOSE:
		CHECK_IS(uchan_close(chan[at]), model_close(&model[at]));
		break;
	default:
		act(does == SEND_TWO ? SEND : RECV, at);
		act(does == SEND_TWO ? SEND : RECV, at);
	}
}

/* A thread that a step has made, or woken, runs before the caller runs again. */
static void agree(void)
{
	int i;

	for (i = 0; i < 4; i++)
		CHECK_IS(rr_yield(), 0);
	for (i = 0; i < 2; i++)
		CHECK_IS((int)uchan_count(chan[i]), model[i].m_nr);
	for (i = 0; i < actors; i++) {
		CHECK_IS(actor[i].a_rc, actor[i].a_model_rc);
		CHECK(actor[i].a_rc != 0 ||
		      actor[i].a_value == actor[i].a_model_value);
	}
}

static void run(void *unused)
{
	size_t i;

	(void)unused;
	for (i = 0; i < steps; i++) {
		do_step(step[i] & 7, step[i] >> 3 & 1);
		agree();
	}
	for (i = 0; i < 2; i++)
		if (!model[i].m_closed)
			do_step(CLOSE, i);
	agree();
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);
int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
	int i;

	if (n < 2)
		return 0;
	room = bytes[0] & 3;
	step = bytes + 1;
	steps = n - 1 < STEPS ? n - 1 : STEPS;
	actors = next_value = 0;
	memset(model, 0, sizeof model);
	for (i = 0; i < 2; i++)
		CHECK((chan[i] = uchan_make(sizeof(int), room)) != NULL);
	CHECK(rr_init(1, 0) == 0 && rr_thread_init(run, NULL) != NULL);
	CHECK(rr_start() == 0 && rr_fini() == 0);
	for (i = 0; i < 2; i++)
		uchan_free(chan[i]);
	return 0;
}
