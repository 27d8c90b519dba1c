/* SPDX-License-Identifier: MIT */
/* umail.c: mail between threads that move. */

/*
 * OVERVIEW
 *
 * A thread of umove_make() has a box, once it sends or gets mail. umove_send()
 * puts a letter into the box of a thread of this process. A thread that is
 * elsewhere gets its letters by umove_far, if ranks.c is there. A box goes with
 * its thread: pack() puts it behind the heap, and usave.c into the file.
 *
 * ORDER. A letter may overtake another on the way, since both threads move. So
 * the sender numbers its letters to each thread, from 0 on, and a box counts those
 * that have come from each thread. A letter that comes too early waits in bx_early
 * for those before it:
 *
 *	sender: 4 were sent				box of the receiver
 *	pt_sent 4   --- 2 --->   on the way   --- 1 --->   pt_got 1
 *	                                                   bx_first: 0
 *	                                                   bx_early: 3
 *
 * So letters arrive in order, and each once, by whatever ways. Both counts stand
 * in a table by the number of the other thread, with 24 bytes for each that the
 * thread had mail from or to. The table goes with the thread, too.
 *
 * WAITS. A thread that waits for mail is at a safe point. Otherwise a save would
 * wait for this thread, and the sender of the letter for the end of the save. So
 * a save that begins wakes all that wait. Each goes to umove_point(), and looks
 * into its box again afterwards.
 *
 * INVARIANTS
 *
 * MB1. The letters of a thread in bx_first have orders without a gap, and the last
 *      has pt_got - 1. Those in bx_early have larger orders.
 * MB2. A frame that has passed umove_point() looks up its box again: umove V1.
 */

#include "umove_inside.h"

#include "usched.h"
#include "usync.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PARTNERS_FEW	8
#define NONE		(-1)

struct mail {
	struct mail        *ma_next;
	struct umove_letter ma_letter;
	char                ma_bytes[];
};

/* Mail from or to this thread; NONE: a free slot. */
struct partner {
	int64_t  pt_number;
	uint64_t pt_sent;
	uint64_t pt_got;	/* those that are early do not count */
};

struct umove_box {
	struct mail    *bx_first, **bx_last;	/* to be received */
	struct mail    *bx_early;
	struct partner *bx_partner;		/* a hash table */
	size_t          bx_slots;		/* a power of two, or 0 */
	size_t          bx_partners;
	struct usem     bx_sem;
	bool            bx_waits;		/* it waits for mail of bx_from */
	long            bx_from;
};

/* A box as bytes: this, partners, letters, each filled up to words. */
struct boxed {
	uint64_t bo_partners;
	uint64_t bo_letters;
};

const struct umove_far *umove_far;

/*
 * PARTNERS
 */

static struct partner *slot_of(const struct umove_box *b, int64_t number)
{
	size_t i = umove_slot(number, b->bx_slots);

	while (b->bx_partner[i].pt_number != number &&
	       b->bx_partner[i].pt_number != NONE)
		i = (i + 1) & (b->bx_slots - 1);
	return &b->bx_partner[i];
}

/* Doubles the table. False: no memory. */
static bool partners_grow(struct umove_box *b)
{
	struct partner *old = b->bx_partner, *p;
	size_t nr = b->bx_slots, i;
	size_t slots = nr == 0 ? PARTNERS_FEW : 2 * nr;

	p = malloc(slots * sizeof *p);
	if (p == NULL)
		return false;
	for (i = 0; i < slots; i++)
		p[i].pt_number = NONE;
	b->bx_partner = p;
	b->bx_slots   = slots;
	for (i = 0; i < nr; i++) {
		if (old[i].pt_number != NONE)
			*slot_of(b, old[i].pt_number) = old[i];
	}
	free(old);
	return true;
}

/* Returns the counts of a thread, which may be new; NULL: no memory. */
static struct partner *partner(struct umove_box *b, int64_t number)
{
	struct partner *p;

	if (b->bx_partners >= b->bx_slots / 2 && !partners_grow(b))
		return NULL;
	p = slot_of(b, number);
	if (p->pt_number == NONE) {
		*p = (struct partner) { .pt_number = number };
		b->bx_partners++;
	}
	return p;
}

/*
 * BOXES
 */

/* Returns the box of t, which may be new; NULL: no memory. */
static struct umove_box *box_of(struct umove_thread *t)
{
	struct umove_box *b = t->th_box;

	if (b != NULL)
		return b;
	b = calloc(1, sizeof *b);
	if (b == NULL)
		return NULL;
	b->bx_last = &b->bx_first;
	b->bx_sem  = (struct usem)USEM_LOCAL(0);
	return t->th_box = b;
}

static void mails_free(struct mail *m)
{
	while (m != NULL) {
		struct mail *next = m->ma_next;

		free(m);
		m = next;
	}
}

void umove_box_free(struct umove_thread *t)
{
	struct umove_box *b = t->th_box;

	if (b == NULL)
		return;
	mails_free(b->bx_first);
	mails_free(b->bx_early);
	free(b->bx_partner);
	free(b);
	t->th_box = NULL;
}

static void box_wake(struct umove_box *b)
{
	if (!b->bx_waits)
		return;
	b->bx_waits = false;
	(void)usem_post(&b->bx_sem);
}

void umove_box_wake(struct umove_thread *t)
{
	if (t->th_box != NULL)
		box_wake(t->th_box);
}

static struct mail *mail_make(const struct umove_letter *l, const void *bytes)
{
	struct mail *m = malloc(sizeof *m + l->le_nob);

	if (m == NULL)
		return NULL;
	m->ma_next   = NULL;
	m->ma_letter = *l;
	if (l->le_nob > 0)
		memcpy(m->ma_bytes, bytes, l->le_nob);
	return m;
}

static void append(struct umove_box *b, struct mail *m)
{
	m->ma_next  = NULL;
	*b->bx_last = m;
	b->bx_last  = &m->ma_next;
}

/* Appends those that were early, and are next. */
static void early_append(struct umove_box *b, struct partner *p)
{
	struct mail **at = &b->bx_early, *m;

	while ((m = *at) != NULL) {
		if (m->ma_letter.le_from != p->pt_number ||
		    m->ma_letter.le_order != p->pt_got) {
			at = &m->ma_next;
			continue;
		}
		*at = m->ma_next;
		append(b, m);
		p->pt_got++;
		at = &b->bx_early;
	}
}

int umove_deliver(struct umove_thread *t, const struct umove_letter *l,
		  const void *bytes)
{
	struct umove_box *b = box_of(t);
	struct partner *p = b != NULL ? partner(b, l->le_from) : NULL;
	struct mail *m = p != NULL ? mail_make(l, bytes) : NULL;

	if (m == NULL)
		return -ENOMEM;
	if (l->le_order != p->pt_got) {
		m->ma_next  = b->bx_early;
		b->bx_early = m;
		return 0;
	}
	append(b, m);
	p->pt_got++;
	early_append(b, p);
	if (b->bx_from == UMOVE_ANY || b->bx_from == l->le_from)
		box_wake(b);
	return 0;
}

/*
 * BOXES AS BYTES
 */

static size_t words(size_t nob)
{
	return (nob + sizeof(uint64_t) - 1) & -sizeof(uint64_t);
}

static size_t mails_nob(const struct mail *m, uint64_t *nr)
{
	size_t nob = 0;

	for (; m != NULL; m = m->ma_next) {
		nob += sizeof m->ma_letter + words(m->ma_letter.le_nob);
		++*nr;
	}
	return nob;
}

size_t umove_box(const struct umove_thread *t)
{
	const struct umove_box *b = t->th_box;
	uint64_t nr = 0;

	if (b == NULL)
		return 0;
	return sizeof(struct boxed) + b->bx_partners * sizeof(struct partner) +
		mails_nob(b->bx_first, &nr) + mails_nob(b->bx_early, &nr);
}

static char *mails_put(const struct mail *m, char *to)
{
	for (; m != NULL; m = m->ma_next) {
		size_t nob = m->ma_letter.le_nob;

		memcpy(to, &m->ma_letter, sizeof m->ma_letter);
		to += sizeof m->ma_letter;
		memcpy(to, m->ma_bytes, nob);
		memset(to + nob, 0, words(nob) - nob);
		to += words(nob);
	}
	return to;
}

void umove_box_put(const struct umove_thread *t, char *to)
{
	const struct umove_box *b = t->th_box;
	struct boxed head = { 0, 0 };
	size_t i;

	if (b == NULL)
		return;
	head.bo_partners = b->bx_partners;
	(void)mails_nob(b->bx_first, &head.bo_letters);
	(void)mails_nob(b->bx_early, &head.bo_letters);
	memcpy(to, &head, sizeof head);
	to += sizeof head;
	for (i = 0; i < b->bx_slots; i++) {
		if (b->bx_partner[i].pt_number == NONE)
			continue;
		memcpy(to, &b->bx_partner[i], sizeof *b->bx_partner);
		to += sizeof *b->bx_partner;
	}
	(void)mails_put(b->bx_early, mails_put(b->bx_first, to));
}

bool umove_box_valid(const char *at, size_t nob)
{
	struct boxed head;
	struct umove_letter l;

	if (nob == 0)
		return true;
	if (nob < sizeof head)
		return false;
	memcpy(&head, at, sizeof head);
	at  += sizeof head;
	nob -= sizeof head;
	if (head.bo_partners > nob / sizeof(struct partner))
		return false;
	at  += head.bo_partners * sizeof(struct partner);
	nob -= head.bo_partners * sizeof(struct partner);
	for (; head.bo_letters > 0; head.bo_letters--) {
		if (nob < sizeof l)
			return false;
		memcpy(&l, at, sizeof l);
		nob -= sizeof l;
		if (l.le_nob > UMOVE_MAIL_MOST || words(l.le_nob) > nob)
			return false;
		at  += sizeof l + words(l.le_nob);
		nob -= words(l.le_nob);
	}
	return nob == 0;
}

/* Puts a letter that has come before, or was early: MB1. */
static bool letter_fill(struct umove_box *b, const struct umove_letter *l,
			const char *bytes)
{
	struct partner *p = partner(b, l->le_from);
	struct mail *m = p != NULL ? mail_make(l, bytes) : NULL;

	if (m == NULL)
		return false;
	if (l->le_order < p->pt_got) {
		append(b, m);
	} else {
		m->ma_next  = b->bx_early;
		b->bx_early = m;
	}
	return true;
}

bool umove_box_fill(struct umove_thread *t, const char *at, size_t nob)
{
	const char *end = at + nob;
	struct umove_letter l;
	struct boxed head;
	struct umove_box *b;

	if (nob == 0)
		return true;
	b = box_of(t);
	if (b == NULL)
		return false;
	memcpy(&head, at, sizeof head);
	at += sizeof head;
	for (; head.bo_partners > 0; head.bo_partners--) {
		struct partner from, *p;

		memcpy(&from, at, sizeof from);
		p = partner(b, from.pt_number);
		if (p == NULL)
			return false;
		*p  = from;
		at += sizeof from;
	}
	for (; at < end; at += words(l.le_nob)) {
		memcpy(&l, at, sizeof l);
		at += sizeof l;
		if (!letter_fill(b, &l, at))
			return false;
	}
	return true;
}

/*
 * SENDING
 */

int umove_send(long to, const void *bytes, size_t nob)
{
	struct umove_thread *t = umove_caller("umove_send"), *other;
	struct umove_letter l = { to, 0, 0, nob };
	struct umove_box *b;
	struct partner *p;
	int rc;

	if (t == NULL || to < 0 || nob > UMOVE_MAIL_MOST ||
	    (bytes == NULL && nob > 0))
		return -EINVAL;
	b = box_of(t);
	p = b != NULL ? partner(b, to) : NULL;
	if (p == NULL)
		return -ENOMEM;
	l.le_from  = t->th_number;
	l.le_order = p->pt_sent;
	other = umove_find(to);
	if (other != NULL && !other->th_leaves)
		rc = umove_deliver(other, &l, bytes);
	else
		rc = umove_far != NULL ? umove_far->fa_send(&l, bytes) : -ESRCH;
	if (rc == 0)
		slot_of(b, to)->pt_sent++;	/* the table may have grown */
	return rc;
}

/*
 * RECEIVING
 */

/* Returns where the first mail of a thread is, or of any; *: NULL. */
static struct mail **first_of(struct umove_box *b, long from)
{
	struct mail **at = &b->bx_first;

	while (*at != NULL && from != UMOVE_ANY && (*at)->ma_letter.le_from != from)
		at = &(*at)->ma_next;
	return at;
}

static void take_out(struct umove_box *b, struct mail **at)
{
	struct mail *m = *at;

	*at = m->ma_next;
	if (b->bx_last == &m->ma_next)
		b->bx_last = at;
}

/* Waits for mail, or for the end of a save: MB2. 0 or -errno. */
static NOINLINE int box_wait(long from, utime_ns *until)
{
	struct umove_box *b = umove_mine()->th_box;
	int rc;

	if (umove_saving()) {
		utime_ns left = *until - unow();

		rc = umove_point();
		if (rc == 1 && *until != UNEVER && *until != UNOW)
			*until = uafter(left > 0 ? left : 0);
		return rc < 0 ? rc : 0;
	}
	b->bx_waits = true;
	b->bx_from  = from;
	rc = usem_wait(&b->bx_sem, *until);
	b->bx_waits = false;
	return rc;
}

/* Receives the mail at a place. */
static long take(struct umove_box *b, struct mail **at, void *bytes, size_t room,
		 long *sender)
{
	struct mail *m = *at;
	size_t nob = m->ma_letter.le_nob;

	if (sender != NULL)
		*sender = m->ma_letter.le_from;
	if (nob > room)
		return -EMSGSIZE;
	if (nob > 0)
		memcpy(bytes, m->ma_bytes, nob);
	take_out(b, at);
	free(m);
	return (long)nob;
}

long umove_recv(long from, void *bytes, size_t room, long *sender, utime_ns until)
{
	struct umove_thread *t = umove_caller("umove_recv");
	int rc = 0;

	if (t == NULL || from < UMOVE_ANY || (bytes == NULL && room > 0) || until < 0)
		return -EINVAL;
	if (box_of(t) == NULL)
		return -ENOMEM;
	while (rc == 0) {
		struct umove_box *b = umove_mine()->th_box;	/* MB2 */
		struct mail **at = first_of(b, from);

		if (*at != NULL)
			return take(b, at, bytes, room, sender);
		rc = box_wait(from, &until);
	}
	return rc;
}
