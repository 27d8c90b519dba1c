/* SPDX-License-Identifier: MIT */
/* vcopy.c: a consistent copy of the file of a recorder. */

/*
 * The file may be changing while it is read, may be torn, or made by an enemy.
 * So each number is read once, compared with the size of the file, and used from
 * the reader's own memory only. A file that becomes shorter meanwhile is an
 * error of pread(), and not a SIGBUS of a mapping.
 *
 *	C1 header, rings		compared with the size
 *	C2 records of each ring		vring.h says which are whole
 *	C3 names, texts, stacks		after the records, which may name them
 *	C4 the census
 *	C5 times			from one zero on, and never wrapping; clocks of
 *					the file are subtracted without a sign
 *
 * What the numbers of records mean is not looked at here: readers of a copy take
 * a name or stack that is not there for none.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* pread() under -std=c11 */
#endif

#include "vcopy.h"
#include "vring.h"
#include "usched.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define MOST	((uint64_t)1 << 31)	/* bytes of a copy */
#define AGE	((int64_t)1 << 47)	/* ticks of a copy */
#define TRIES	8			/* to read a census */
#define TURNS_MOST	48		/* records of turns behind each other */

UPREEMPT_NEVER;

static const uint32_t each[UVIEW_PARTS] = {
	[UVIEW_PART_RINGS]   = sizeof(struct uview_ring),
	[UVIEW_PART_NAMES]   = sizeof(struct uview_name),
	[UVIEW_PART_TEXTS]   = 1,
	[UVIEW_PART_STACKS]  = sizeof(struct uview_stack),
	[UVIEW_PART_CENSUS]  = sizeof(struct uview_census),
	[UVIEW_PART_RECORDS] = sizeof(struct uview_record)
};

/* What is known of a ring. */
struct part_of_ring {
	uint64_t g_at, g_room, g_begin, g_end;	/* in the source */
	uint64_t g_lost;
	int64_t  g_newest, g_oldest;		/* ticks in full */
	struct uview_record *g_to;
};

struct work {
	const struct uview_source *k_from;
	bool                k_lives;
	struct uview_file   k_file;		/* C1 */
	struct uview_ring   k_ring[UVIEW_RINGS];
	struct part_of_ring k_part[UVIEW_RINGS];
	int                 k_rings;
	uint64_t            k_records;
	struct uview_record *k_to;
	int64_t             k_zero, k_newest;	/* ticks */
	uint64_t            k_tick, k_ns;	/* the newest CLOCK */
	struct uview_file  *k_copy;
	uint64_t            k_size;		/* of it, so far */
};

/* Reads nob bytes at an offset. Words are read whole. False: not all are there. */
static bool get(const struct uview_source *u, uint64_t at, void *to, uint64_t nob)
{
	char *end = to;

	if (at > u->u_size || nob > u->u_size - at)
		return false;
	if (u->u_map != NULL) {
		const uint64_t *from = (const void *)((const char *)u->u_map + at);
		uint64_t i, *word = to;

		for (i = 0; i < nob / 8; i++)
			word[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
		memcpy(&word[i], &from[i], nob % 8);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		return true;
	}
	while (nob > 0) {
		ssize_t rc = pread(u->u_fd, end, nob, (off_t)at);

		if (rc <= 0)
			return false;
		end += rc;
		at  += (uint64_t)rc;
		nob -= (uint64_t)rc;
	}
	return true;
}

/* Returns why the header cannot be used, or NULL (C1). */
static const char *header_check(struct work *k)
{
	const struct uview_part *p = k->k_file.vf_part;
	int i;

	if (k->k_file.vf_magic != UVIEW_MAGIC)
		return "this is no file of a recorder, or of another version";
	if (k->k_file.vf_state < UVIEW_LIVE || k->k_file.vf_state > UVIEW_COPY)
		return "the file was not finished";
	for (i = 0; i < UVIEW_PARTS; i++) {
		if (p[i].vp_each != each[i] || p[i].vp_at % 8 != 0 ||
		    p[i].vp_at > k->k_from->u_size ||
		    p[i].vp_room > (k->k_from->u_size - p[i].vp_at) / each[i])
			return "a part lies outside of the file";
		if (p[i].vp_nr > p[i].vp_room)
			return "a part has more entries than room";
	}
	if (p[UVIEW_PART_RINGS].vp_nr > UVIEW_RINGS)
		return "there are too many rings";
	return NULL;
}

static const char *ring_check(const struct work *k, const struct uview_ring *r)
{
	if (r->vr_at % 8 != 0 || r->vr_at > k->k_from->u_size ||
	    r->vr_room > (k->k_from->u_size - r->vr_at) /
			 sizeof(struct uview_record))
		return "a ring lies outside of the file";
	if (k->k_file.vf_state == UVIEW_COPY)
		return r->vr_head > r->vr_room ?
			"a ring of a copy has more records than room" : NULL;
	return r->vr_room & (r->vr_room - 1) ? "a ring has no room" : NULL;
}

/* Reads header and rings. */
static const char *rings_get(struct work *k)
{
	const struct uview_part *p = &k->k_file.vf_part[UVIEW_PART_RINGS];
	const char *why;
	unsigned i;

	if (!get(k->k_from, 0, &k->k_file, sizeof k->k_file))
		return "the file is too short";
	why = header_check(k);
	if (why == NULL && !get(k->k_from, p->vp_at, k->k_ring,
				(uint64_t)p->vp_nr * sizeof k->k_ring[0]))
		why = "the file has become shorter";
	for (i = 0; why == NULL && i < p->vp_nr; i++) {
		why = ring_check(k, &k->k_ring[i]);
		k->k_records += k->k_ring[i].vr_head < k->k_ring[i].vr_room ?
			k->k_ring[i].vr_head : k->k_ring[i].vr_room;
		if (k->k_records > MOST / sizeof(struct uview_record))
			why = "the file has more records than a page can show";
	}
	k->k_rings = (int)p->vp_nr;
	return why;
}

/* Reads the records of ring i to where there is room for most (C2). */
static bool records_get(struct work *k, int i, struct uview_record *to)
{
	struct uview_ring *r = &k->k_ring[i];
	struct part_of_ring *g = &k->k_part[i];
	uint64_t each_ = sizeof *to, room = r->vr_room, now, first, n;
	uint64_t head_at = k->k_file.vf_part[UVIEW_PART_RINGS].vp_at +
		(uint64_t)i * sizeof *r;
	uint64_t begin = room == 0 ? r->vr_head :
		uring_begin(r->vr_head, room, r->vr_from);	/* vring R1 before */

	n = r->vr_head - begin;
	first = room == 0 || n < room - begin % room ? n : room - begin % room;
	if (!get(k->k_from, r->vr_at + (room ? begin % room : 0) * each_, to,
		 first * each_) ||				/* vring R2, R3 */
	    !get(k->k_from, r->vr_at, to + first, (n - first) * each_) ||
	    !get(k->k_from, head_at, &now, sizeof now))		/* vring R4 */
		return false;
	g->g_begin = k->k_lives && room ?
		uring_whole(begin, r->vr_head, room, now) : begin; /* vring R5 */
	g->g_end  = r->vr_head;
	g->g_to   = to + (g->g_begin - begin);
	g->g_lost = g->g_begin + (k->k_file.vf_state == UVIEW_COPY ?
				  r->vr_lost : 0);
	return true;
}

static uint64_t time_of(const struct uview_record *e)
{
	return e->ve_word[0] >> 16;
}

static unsigned kind_of(const struct uview_record *e)
{
	return e->ve_word[0] >> 12 & 15;
}

/* Returns whether word 1 of e is a time in ticks. */
static bool is_last_turn(const struct uview_record *e)
{
	return kind_of(e) == UVIEW_NOTE &&
	       (e->ve_word[0] & 0xfff) == UVIEW_TURN_LAST;
}

/* Returns the time in full that is nearest to near. */
static int64_t unwrap(uint64_t time, int64_t near)
{
	return (int64_t)((uint64_t)near + (uint64_t)
			 ((int64_t)((time - (uint64_t)near) << 16) >> 16));
}

/* Returns when the last record of a ring of n, or the last turn there, was. */
static int64_t newest_of(const struct uview_record *to, uint64_t n, int64_t near)
{
	int64_t newest = unwrap(time_of(&to[n - 1]), near);
	uint64_t i;

	for (i = n; i > 0 && kind_of(&to[i - 1]) == UVIEW_NOTE && n - i < TURNS_MOST; i--)
		if (is_last_turn(&to[i - 1])) {
			int64_t t = unwrap(to[i - 1].ve_word[1], near);

			newest = t > newest ? t : newest;
		}
	return newest;
}

/* Returns where a ring ends, from a time in full that is near there. */
static void ends_find(struct work *k)
{
	int i;

	for (i = 0; i < k->k_rings; i++) {
		struct part_of_ring *g = &k->k_part[i];
		uint64_t n = g->g_end - g->g_begin;

		if (n == 0)
			continue;
		g->g_newest = newest_of(g->g_to, n, (int64_t)k->k_ring[i].vr_tick);
		if (k->k_newest < g->g_newest)
			k->k_newest = g->g_newest;
	}
}

/* Finds where ring g begins: goes back to what is too old. Notes clocks. */
static void begin_find(struct work *k, struct part_of_ring *g)
{
	uint64_t n = g->g_end - g->g_begin;
	int64_t at = g->g_newest;
	uint64_t i;

	for (i = n; i > 0; i--) {
		const struct uview_record *e = &g->g_to[i - 1];
		int64_t t = unwrap(time_of(e), at);

		if (t < 0 || k->k_newest - t >= AGE)
			break;
		at = t;
		if (kind_of(e) == UVIEW_CLOCK && (uint64_t)t > k->k_tick) {
			k->k_tick = (uint64_t)t;
			k->k_ns   = e->ve_word[1];
		}
	}
	g->g_to    += i;
	g->g_begin += i;
	g->g_lost  += i;
	g->g_oldest = at;
}

/* Returns ns as a word; 0: they are more than a clock has. */
static uint64_t whole(double ns)
{
	return ns > -1e18 && ns < 1e18 ? (uint64_t)(int64_t)ns : 0;
}

/* Sets zero and the rate of all times. */
static void clock_find(struct work *k)
{
	struct uview_file *f = &k->k_file;
	double ticks, ns;
	int i;

	k->k_zero = k->k_newest;
	for (i = 0; i < k->k_rings; i++) {
		struct part_of_ring *g = &k->k_part[i];

		if (g->g_end == g->g_begin)
			continue;
		begin_find(k, g);
		if (g->g_end > g->g_begin && g->g_oldest < k->k_zero)
			k->k_zero = g->g_oldest;
	}
	if (f->vf_state == UVIEW_COPY) {	/* its times are as they shall be */
		k->k_zero  = 0;
		f->vf_rate = f->vf_rate > 0 && f->vf_rate < 1e9 ? f->vf_rate : 1;
		return;
	}
	ticks = (double)(int64_t)(k->k_tick - f->vf_tick);
	ns    = (double)(int64_t)(k->k_ns - f->vf_ns);
	f->vf_rate = ticks > 0 && ns > 0 ? ns / ticks : 1;
	ticks = (double)(int64_t)((uint64_t)k->k_zero - f->vf_tick);
	f->vf_ns  += whole(ticks * f->vf_rate);
	f->vf_tick = (uint64_t)k->k_zero;
}

/* Returns a deadline, of which there are 48 bits, since base; 0: it was before. */
static uint64_t deadline(uint64_t ns, uint64_t base)
{
	uint64_t since = (ns - base) << 16 >> 16;

	return since < (uint64_t)1 << 47 ? since : 0;
}

/* Sets the times of a ring (C5). */
static void times_set(const struct work *k, const struct part_of_ring *g)
{
	uint64_t n = g->g_end - g->g_begin, i;
	uint64_t base = k->k_file.vf_state != UVIEW_COPY ? k->k_file.vf_ns : 0;
	int64_t at = g->g_oldest;

	for (i = 0; i < n; i++) {
		struct uview_record *e = &g->g_to[i];
		unsigned kind = kind_of(e);
		uint64_t ns = e->ve_word[1];
		int64_t t;

		at = unwrap(time_of(e), at);
		t  = at > k->k_zero ? at - k->k_zero : 0;
		e->ve_word[0] = (uint64_t)t << 16 | (e->ve_word[0] & 0xffff);
		if (kind == UVIEW_CLOCK || (kind == UVIEW_PARK && ns + 1 != 0))
			e->ve_word[1] = ns > base ? ns - base : 0;
		else if (kind == UVIEW_NOTE &&
			 (e->ve_word[0] & 0xfff) == UVIEW_DEADLINE)
			e->ve_word[1] = deadline(ns, base);
		else if (is_last_turn(e)) {
			t = unwrap(ns, at) - k->k_zero;
			e->ve_word[1] = t > 0 ? (uint64_t)t : 0;
		}
	}
}

/* Reserves room for a part in the copy. */
static void part_lay(struct work *k, enum uview_part_nr nr, uint64_t entries)
{
	struct uview_part *p = &k->k_file.vf_part[nr];

	p->vp_at   = (k->k_size + 7) & ~(uint64_t)7;
	p->vp_nr   = p->vp_room = (uint32_t)entries;
	p->vp_size = entries * each[nr];
	k->k_size  = p->vp_at + p->vp_size;
}

/* Reads a part, which was checked, into the copy. */
static bool part_get(struct work *k, const struct uview_part *was,
		     enum uview_part_nr nr)
{
	return get(k->k_from, was->vp_at, (char *)k->k_copy +
		   k->k_file.vf_part[nr].vp_at, (uint64_t)was->vp_nr * each[nr]);
}

/* Names whose text is not there become empty, and stacks lose such frames. */
static void names_check(struct work *k)
{
	const struct uview_part *p = k->k_file.vf_part;
	struct uview_name *n = (void *)((char *)k->k_copy +
					p[UVIEW_PART_NAMES].vp_at);
	struct uview_stack *s = (void *)((char *)k->k_copy +
					 p[UVIEW_PART_STACKS].vp_at);
	uint32_t texts = p[UVIEW_PART_TEXTS].vp_nr, i, j;

	for (i = 0; i < p[UVIEW_PART_NAMES].vp_nr; i++)
		if (n[i].vn_text > texts || n[i].vn_len > texts - n[i].vn_text)
			n[i].vn_text = n[i].vn_len = 0;
	for (i = 0; i < p[UVIEW_PART_STACKS].vp_nr; i++) {
		if (s[i].vk_nr > UVIEW_FRAMES)
			s[i].vk_nr = UVIEW_FRAMES;
		for (j = 0; j < s[i].vk_nr; j++)
			if (s[i].vk_frame[j] >= p[UVIEW_PART_NAMES].vp_nr)
				s[i].vk_frame[j] = 0;
	}
}

/* Leaves it out if it changes all the time, or lies about its rows (C4). */
static void census_get(struct work *k, const struct uview_part *was)
{
	struct uview_census *c = (void *)((char *)k->k_copy +
			k->k_file.vf_part[UVIEW_PART_CENSUS].vp_at);
	uint64_t at = offsetof(struct uview_file, vf_ask);
	uint32_t words[2], nr;		/* vf_ask, vf_census */
	int tries;

	k->k_file.vf_census = 0;
	for (tries = 0; tries < TRIES; tries++) {
		if (!get(k->k_from, at, words, sizeof words))
			return;
		nr = words[1];
		if (nr == 0 || (nr & 1) >= was->vp_nr ||
		    !get(k->k_from, was->vp_at + (nr & 1) * sizeof *c, c,
			 sizeof *c) ||
		    !get(k->k_from, at, words, sizeof words))
			return;
		if (words[1] == nr && c->vc_nr <= UVIEW_ROWS) {
			k->k_file.vf_census = 2;
			c->vc_tick -= (uint64_t)k->k_zero;
			return;
		}
	}
}

/* Puts rings with their records into the copy. */
static void rings_put(struct work *k)
{
	struct uview_ring *r = uview_part_at(k->k_copy, UVIEW_PART_RINGS);
	uint64_t at = k->k_file.vf_part[UVIEW_PART_RECORDS].vp_at, n;
	int i;

	for (i = 0; i < k->k_rings; i++) {
		struct part_of_ring *g = &k->k_part[i];

		n = g->g_end - g->g_begin;
		if (n == 0)
			continue;
		times_set(k, g);
		memcpy((char *)k->k_copy + at, g->g_to, n * sizeof *g->g_to);
		*r = k->k_ring[i];
		r->vr_name[sizeof r->vr_name - 1] = 0;
		r->vr_head   = n;
		r->vr_room   = (uint32_t)n;
		r->vr_at     = at;
		r->vr_from   = 0;
		r->vr_lost   = g->g_lost;
		r->vr_oldest = (uint64_t)(g->g_oldest - k->k_zero);
		r->vr_tick   = (uint64_t)(g->g_newest - k->k_zero);
		r->vr_ns     = k->k_file.vf_ns +
			whole((double)r->vr_tick * k->k_file.vf_rate);
		at += n * sizeof *g->g_to;
		r++;
	}
}

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Lays out the copy: all sizes are known but that of the names. */
static const char *lay_out(struct work *k, struct uview_part *was)
{
	struct uview_file now;
	uint64_t rings = 0, records = 0;
	int i;

	if (!get(k->k_from, 0, &now, sizeof now))
		return "the file has become shorter";
	for (i = 0; i < UVIEW_PARTS; i++)	/* names have been added since */
		was[i].vp_nr = now.vf_part[i].vp_nr < was[i].vp_room ?
			now.vf_part[i].vp_nr : was[i].vp_room;
	for (i = 0; i < k->k_rings; i++) {
		rings   += k->k_part[i].g_end != k->k_part[i].g_begin;
		records += k->k_part[i].g_end - k->k_part[i].g_begin;
	}
	k->k_size = sizeof(struct uview_file);
	part_lay(k, UVIEW_PART_RINGS, rings);
	part_lay(k, UVIEW_PART_NAMES, was[UVIEW_PART_NAMES].vp_nr);
	part_lay(k, UVIEW_PART_TEXTS, was[UVIEW_PART_TEXTS].vp_nr);
	part_lay(k, UVIEW_PART_STACKS, was[UVIEW_PART_STACKS].vp_nr);
	part_lay(k, UVIEW_PART_CENSUS, 1);
	part_lay(k, UVIEW_PART_RECORDS, records);
	if (k->k_size > MOST)
		return "the file is larger than a page can show";
	k->k_copy = calloc(1, k->k_size);
	return k->k_copy == NULL ? "there is no memory" : NULL;
}

/* Fills the copy in: C3 to C5. */
static const char *fill_in(struct work *k, const struct uview_part *was)
{
	struct uview_file *f = &k->k_file;

	*k->k_copy = *f;			/* for uview_part_at() */
	if (!part_get(k, &was[UVIEW_PART_TEXTS], UVIEW_PART_TEXTS) ||
	    !part_get(k, &was[UVIEW_PART_NAMES], UVIEW_PART_NAMES) ||
	    !part_get(k, &was[UVIEW_PART_STACKS], UVIEW_PART_STACKS))
		return "the file has become shorter";
	names_check(k);
	census_get(k, &was[UVIEW_PART_CENSUS]);
	rings_put(k);
	f->vf_end = f->vf_ns + whole((double)(k->k_newest - k->k_zero) * f->vf_rate);
	if (k->k_lives && f->vf_state == UVIEW_LIVE && now_ns() > f->vf_end)
		f->vf_end = now_ns();
	f->vf_state = UVIEW_COPY;
	f->vf_name[sizeof f->vf_name - 1] = 0;
	*k->k_copy = *f;
	return NULL;
}

static const char *copy(struct work *k)
{
	struct uview_part was[UVIEW_PARTS];
	uint64_t at = 0;
	const char *why = rings_get(k);
	int i;

	if (why != NULL)
		return why;
	memcpy(was, k->k_file.vf_part, sizeof was);
	k->k_to = malloc((k->k_records + 1) * sizeof *k->k_to);
	if (k->k_to == NULL)
		return "there is no memory";
	for (i = 0; i < k->k_rings; i++) {
		if (!records_get(k, i, k->k_to + at))
			return "the file has become shorter";
		at = (uint64_t)(k->k_part[i].g_to - k->k_to) +
			k->k_part[i].g_end - k->k_part[i].g_begin;
	}
	ends_find(k);
	clock_find(k);
	why = lay_out(k, was);
	return why != NULL ? why : fill_in(k, was);
}

struct uview_file *uview_copy(const struct uview_source *source, bool lives,
			      size_t *size, const char **why)
{
	struct work *k = calloc(1, sizeof *k);
	struct uview_file *made = NULL;

	*why = "there is no memory";
	if (k == NULL)
		return NULL;
	k->k_from  = source;
	k->k_lives = lives;
	*why = copy(k);
	if (*why == NULL) {
		made  = k->k_copy;
		*size = k->k_size;
	} else
		free(k->k_copy);
	free(k->k_to);
	free(k);
	return made;
}

const char *uview_name_text(const struct uview_file *copy_, unsigned nr,
			    unsigned *len)
{
	const struct uview_name *n = uview_part_at(copy_, UVIEW_PART_NAMES);

	*len = 0;
	if (nr >= copy_->vf_part[UVIEW_PART_NAMES].vp_nr)
		return "";
	*len = n[nr].vn_len;
	return (const char *)uview_part_at(copy_, UVIEW_PART_TEXTS) +
		n[nr].vn_text;
}
