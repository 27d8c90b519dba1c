/* SPDX-License-Identifier: MIT */
/* bus.c: named memory, which tasks share. */

/*
 * A piece of memory has a name or none, and a number of pins. It is freed as it
 * loses the last of these. Names and pins are in two hash tables.
 *
 *	names:  bucket -> [name, data, size, pins] -> ...
 *	                       ^
 *	pins:   bucket -> [pin, nr] -> ...     by address of the data
 *	                       ^
 *	task -> [pin] ---------+               all pins of a task
 *
 * A pin belongs to a task or to the program, and counts how often its owner has
 * pinned the piece. So a task that ends, fails or is cancelled gives back
 * exactly its own pins, and to give back a pin twice is an error.
 *
 * A table grows by a bucket with each record that it has not had before (linear
 * hashing): bucket b is split, whose upper half becomes bucket b + half. So no
 * caller moves more than a bucket. The buckets lie in segments, each as large
 * as all before. Segments are allocated without the lock; if there is no memory
 * for one, the table stays as it is, and becomes slower. Tables never shrink
 * while there is an engine.
 *
 * A lock of its own protects all of this. Memory is allocated before, and copied
 * and released outside of it. The bytes of a push are counted first, so no two
 * callers can pass the limit together. A piece counts with its name and its
 * record, or a million empty pieces would cost nothing.
 *
 * EM1. Pins of a piece are counted in m_pins. m_pins + named > 0 for each
 *	piece, unless its last holder just frees it.
 * EM2. bu_used is the sum of m_cost of all pieces, and of pushes under way.
 * EM3. The list of a task is touched only by the thread that runs the task, or
 *	ends it, and by engine_bus_pinned() under the lock.
 *
 * REJECTED
 *
 * A table without a lock. A get would need a count in the piece, and may touch
 * it only if the piece still is there. Hazard pointers or the like would save
 * some ten nanoseconds of a call that hands over kilobytes.
 *
 * Several locks, by hash: it is held for a walk of a few records, and a task
 * hands over kilobytes. The sum of all bytes would need a lock of its own.
 *
 * A region mapped at setup: it would fragment, and malloc() does not.
 */

#include "inside.h"
#include "ufork.h"

#include <limits.h>
#include <stdlib.h>

#define FIRST		256		/* buckets of the first segment */
#define SEGMENTS	40

/* In each record, first. */
struct link {
	struct link *ln_next;		/* in its bucket */
	size_t       ln_hash;
};

struct table {
	struct link **tb_segment[SEGMENTS];
	size_t        tb_buckets;	/* in use; 0: the table is empty */
	size_t        tb_nr;		/* records */
};

struct mem {
	struct link m_link;		/* first */
	void       *m_data;
	size_t      m_size;
	size_t      m_cost;		/* bytes, with all that belongs to it */
	long        m_pins;
	bool        m_named;
	void      (*m_release)(void *data, void *arg);
	void       *m_arg;
	char        m_name[];		/* the copy follows behind it */
};

struct pin {
	struct link  pn_link;		/* first */
	struct pin  *pn_next, **pn_at;	/* of a task: its list */
	struct task *pn_task;		/* NULL: of the program */
	struct mem  *pn_mem;
	long         pn_nr;
};

static struct {
	struct ulock bu_lock;
	size_t       bu_limit;
	size_t       bu_used;
	long         bu_names;
	long         bu_pins;
	long         bu_steps;		/* records looked at, for tests */
	struct table bu_named;
	struct table bu_pinned;
} bus;

static struct ufork at_fork = {
	.f_rank = UFORK_BUS, .f_lock = &bus.bu_lock, .f_nr = 1
};
UFORK(at_fork)

/*
 * Takes the lock of the bus, if there is an engine, even after its shutdown. 0;
 * -ENODEV, -ECHILD: the lock is not taken.
 */
static int enter(void)
{
	int rc = engine_enter();

	if (rc != 0)
		return rc;
	engine_unlock();
	ulock_get(&bus.bu_lock);
	return 0;
}

/* Tables. Caller holds the lock of the bus, except where the text differs. */

static size_t hash_name(const char *name)
{
	uint64_t h = 1469598103934665603ull;

	for (; *name != '\0'; name++)
		h = (h ^ (unsigned char)*name) * 1099511628211ull;
	return (size_t)(h ^ h >> 29);
}

static size_t hash_pin(const struct task *t, const void *data)
{
	uint64_t h = (uintptr_t)data * 0x9e3779b97f4a7c15ull + (uintptr_t)t;

	h *= 0xbf58476d1ce4e5b9ull;
	return (size_t)(h ^ h >> 31);
}

/* Returns the segment of bucket b: 0 has FIRST, others as all before. */
static int segment_of(size_t b)
{
	int n = 0;

	for (b /= FIRST; b != 0; b /= 2)
		n++;
	return n;
}

static struct link **bucket_at(struct table *h, size_t b)
{
	int n = segment_of(b);
	size_t first = n == 0 ? 0 : (size_t)FIRST << (n - 1);

	return &h->tb_segment[n][b - first];
}

/* Returns how many of the buckets a full table would have, half of it. */
static size_t half_of(const struct table *h)
{
	int n = segment_of(h->tb_buckets);

	return n == 0 ? 0 : (size_t)FIRST << (n - 1);
}

/* Returns the head of the bucket of a hash. The table has buckets. */
static struct link **bucket(struct table *h, size_t hash)
{
	size_t half = half_of(h), b = hash & (2 * half - 1);

	return bucket_at(h, b < h->tb_buckets ? b : b - half);
}

/* Returns whether the next bucket has a segment. */
static bool has_segment(const struct table *h)
{
	return h->tb_segment[segment_of(h->tb_buckets)] != NULL;
}

/* Splits a bucket, if there are more records than buckets. */
static void grow(struct table *h)
{
	size_t half = half_of(h), b = h->tb_buckets;
	struct link **from, **to, *l;

	if (b == 0 || h->tb_nr <= b || !has_segment(h))
		return;
	from = bucket_at(h, b - half);
	to = bucket_at(h, b);
	while ((l = *from) != NULL) {
		bus.bu_steps++;
		if ((l->ln_hash & (2 * half - 1)) != b) {
			from = &l->ln_next;
			continue;
		}
		*from = l->ln_next;
		l->ln_next = *to;
		*to = l;
	}
	h->tb_buckets++;
}

/*
 * Gives a table the segment that it needs next. 0, -ENODEV, -ECHILD; -ENOMEM:
 * the table has no buckets. Caller does not hold the lock.
 */
static int prepare(struct table *h)
{
	struct link **segment = NULL;
	int n, rc = enter();
	bool has;

	if (rc != 0)
		return rc;
	n   = segment_of(h->tb_buckets);
	has = h->tb_segment[n] != NULL || h->tb_nr < h->tb_buckets;
	ulock_put(&bus.bu_lock);
	if (has)
		return 0;
	segment = calloc(n == 0 ? FIRST : (size_t)FIRST << (n - 1),
			 sizeof *segment);
	ulock_get(&bus.bu_lock);
	if (segment != NULL && h->tb_segment[n] == NULL) {
		h->tb_segment[n] = segment;
		segment = NULL;
		if (n == 0)
			h->tb_buckets = FIRST;
	}
	rc = h->tb_buckets != 0 ? 0 : -ENOMEM;
	ulock_put(&bus.bu_lock);
	free(segment);
	return rc;
}

static void add(struct table *h, struct link *l, size_t hash)
{
	struct link **at = bucket(h, hash);

	l->ln_hash = hash;
	l->ln_next = *at;
	*at = l;
	h->tb_nr++;
	grow(h);
}

/* Takes *at away. */
static struct link *take(struct table *h, struct link **at)
{
	struct link *l = *at;

	*at = l->ln_next;
	h->tb_nr--;
	return l;
}

static void table_end(struct table *h)
{
	int n;

	for (n = 0; n < SEGMENTS; n++)
		free(h->tb_segment[n]);
	memset(h, 0, sizeof *h);
}

/* Returns the place of the named memory, or NULL. */
static struct link **find(const char *name, size_t hash)
{
	struct link **at;

	if (bus.bu_named.tb_buckets == 0)
		return NULL;
	for (at = bucket(&bus.bu_named, hash); *at != NULL;
	     at = &(*at)->ln_next) {
		bus.bu_steps++;
		if ((*at)->ln_hash == hash &&
		    strcmp(((struct mem *)*at)->m_name, name) == 0)
			return at;
	}
	return NULL;
}

/* Returns the place of a pin of t, or of the program, on data; or NULL. */
static struct link **find_pin(const struct task *t, const void *data,
			      const struct mem *m)
{
	size_t hash = hash_pin(t, data);
	struct link **at;
	struct pin *p;

	if (bus.bu_pinned.tb_buckets == 0)
		return NULL;
	for (at = bucket(&bus.bu_pinned, hash); *at != NULL;
	     at = &(*at)->ln_next) {
		bus.bu_steps++;
		p = (struct pin *)*at;
		if (p->pn_task == t && p->pn_mem->m_data == data &&
		    (m == NULL || p->pn_mem == m))
			return at;
	}
	return NULL;
}

static void mem_free(struct mem *m)
{
	USCHED_RACE(engine_mem_free);
	if (m->m_release != NULL)
		m->m_release(m->m_data, m->m_arg);
	free(m);
}

/* Returns m if it has no holder left: to be freed. Caller holds the lock. */
static struct mem *last(struct mem *m)
{
	if (m->m_named || m->m_pins > 0)
		return NULL;
	bus.bu_used -= m->m_cost;
	return m;
}

/* Takes the name of *at away. Caller holds the lock. */
static struct mem *unname(struct link **at)
{
	struct mem *m = (struct mem *)take(&bus.bu_named, at);

	m->m_named = false;
	bus.bu_names--;
	return m;
}

/* Returns the bytes of a record with its name, before a copy. */
static size_t head(const char *name)
{
	return (sizeof(struct mem) + strlen(name) + 16) & ~(size_t)15;
}

/* Makes a piece that holds data, or a copy. NULL: no memory. */
static struct mem *mem_make(const char *name, void *data, size_t size,
			    void (*release)(void *data, void *arg), void *arg)
{
	size_t at = head(name);
	struct mem *m;

	m = size > SIZE_MAX - at ? NULL :
		malloc(release != NULL ? at : at + size);
	if (m == NULL)
		return NULL;
	m->m_data = release != NULL ? data : (char *)m + at;
	m->m_size = size;
	m->m_cost = at + size;
	m->m_pins = 0;
	m->m_named   = true;
	m->m_release = release;
	m->m_arg     = arg;
	strcpy(m->m_name, name);
	if (release == NULL && size != 0)
		memcpy(m->m_data, data, size);
	return m;
}

/* Counts size bytes and a record. 0, -ENOSPC, -EEXIST. */
static int reserve(const char *name, size_t hash, size_t size)
{
	int rc = enter();
	size_t room;

	if (rc != 0)
		return rc;
	room = bus.bu_limit - bus.bu_used;
	if (find(name, hash) != NULL)
		rc = -EEXIST;
	else if (size > room || head(name) > room - size)
		rc = -ENOSPC;
	else
		bus.bu_used += head(name) + size;
	ulock_put(&bus.bu_lock);
	return rc;
}

int engine_bus_push(const char *name, void *data, size_t size,
		    void (*release)(void *data, void *arg), void *arg)
{
	struct mem *m = NULL;
	size_t hash;
	int rc;

	if (name == NULL || name[0] == '\0' || (data == NULL && size != 0))
		return -EINVAL;
	hash = hash_name(name);
	rc = reserve(name, hash, size);
	if (rc != 0)
		return rc;
	rc = prepare(&bus.bu_named);
	if (rc == 0)
		m = mem_make(name, data, size, release, arg);
	USCHED_RACE(engine_put);
	ulock_get(&bus.bu_lock);
	rc = m == NULL ? -ENOMEM : find(name, hash) != NULL ? -EEXIST : 0;
	if (rc == 0) {
		add(&bus.bu_named, &m->m_link, hash);
		bus.bu_names++;
	} else
		bus.bu_used -= head(name) + size;
	ulock_put(&bus.bu_lock);
	if (rc != 0)
		free(m);		/* the data are still the caller's */
	return rc;
}

/* Returns the task that calls, or NULL: the program. */
static struct task *owner(void)
{
	struct runner *r = engine_here();

	return r != NULL ? r->r_task : NULL;
}

/* Pins m. *p is used, and becomes NULL, if t has not pinned m before. */
static void pin(struct task *t, struct mem *m, struct pin **p)
{
	struct link **at = find_pin(t, m->m_data, m);
	struct pin *n = at != NULL ? (struct pin *)*at : *p;

	m->m_pins++;
	bus.bu_pins++;
	if (at != NULL) {
		n->pn_nr++;
		return;
	}
	*p = NULL;
	*n = (struct pin){ .pn_task = t, .pn_mem = m, .pn_nr = 1 };
	if (t != NULL) {
		n->pn_next = t->t_pins;
		n->pn_at = &t->t_pins;
		if (n->pn_next != NULL)
			n->pn_next->pn_at = &n->pn_next;
		t->t_pins = n;
		t->t_more = true;
	}
	add(&bus.bu_pinned, &n->pn_link, hash_pin(t, m->m_data));
}

/* 0, -ENOENT, -EOVERFLOW. Caller holds the lock. */
static int get_named(const char *name, size_t hash, struct pin **p, bool pop,
		     struct mem **m)
{
	struct link **at = find(name, hash);

	if (at == NULL)
		return -ENOENT;
	if (bus.bu_pins == LONG_MAX)
		return -EOVERFLOW;
	*m = pop ? unname(at) : (struct mem *)*at;
	pin(owner(), *m, p);
	return 0;
}

static int get(const char *name, void **data, size_t *size, bool pop)
{
	size_t hash = name != NULL ? hash_name(name) : 0;
	struct mem *m = NULL;
	struct pin *p;
	int rc;

	if (name == NULL)
		return -EINVAL;
	p = malloc(sizeof *p);
	rc = p == NULL ? -ENOMEM : prepare(&bus.bu_pinned);
	if (rc == 0)
		rc = enter();
	if (rc == 0) {
		rc = get_named(name, hash, &p, pop, &m);
		if (rc == 0 && data != NULL)
			*data = m->m_data;
		if (rc == 0 && size != NULL)
			*size = m->m_size;
		ulock_put(&bus.bu_lock);
	}
	free(p);
	return rc;
}

int engine_bus_get(const char *name, void **data, size_t *size)
{
	return get(name, data, size, false);
}

int engine_bus_pop(const char *name, void **data, size_t *size)
{
	return get(name, data, size, true);
}

/*
 * Ends nr pins of *at. Returns what is to be freed, and sets *free_it if the
 * record is. Caller holds the lock.
 */
static struct mem *unpin(struct link **at, long nr, struct pin **free_it)
{
	struct pin *p = (struct pin *)*at;
	struct mem *m = p->pn_mem;

	m->m_pins   -= nr;
	bus.bu_pins  -= nr;
	p->pn_nr     -= nr;
	if (p->pn_nr == 0) {
		(void)take(&bus.bu_pinned, at);
		if (p->pn_task != NULL) {
			*p->pn_at = p->pn_next;
			if (p->pn_next != NULL)
				p->pn_next->pn_at = p->pn_at;
		}
		*free_it = p;
	}
	return last(m);
}

int engine_bus_unpin(const void *data)
{
	struct pin *p = NULL;
	struct mem *m = NULL;
	struct link **at;
	int rc = enter();

	if (rc != 0)
		return rc;
	at = find_pin(owner(), data, NULL);
	if (at != NULL)
		m = unpin(at, 1, &p);
	else
		rc = -ESRCH;
	ulock_put(&bus.bu_lock);
	free(p);
	if (m != NULL)
		mem_free(m);
	return rc;
}

/* Takes the names of bucket b away. Returns how many; -1: no such bucket. */
static long clear_bucket(size_t b)
{
	struct link *free_them = NULL, **at;
	struct mem *m;
	long nr = -1;

	ulock_get(&bus.bu_lock);
	if (b < bus.bu_named.tb_buckets) {
		at = bucket_at(&bus.bu_named, b);
		for (nr = 0; *at != NULL; nr++) {
			m = last(unname(at));
			if (m == NULL)
				continue;
			m->m_link.ln_next = free_them;
			free_them = &m->m_link;
		}
	}
	ulock_put(&bus.bu_lock);
	while ((m = (struct mem *)free_them) != NULL) {
		free_them = free_them->ln_next;
		mem_free(m);
	}
	return nr;
}

/* A split moves names to higher buckets only, so none is missed. */
long engine_bus_clear(void)
{
	long nr = 0, more;
	size_t b = 0;
	int rc = enter();

	if (rc != 0)
		return rc;
	ulock_put(&bus.bu_lock);
	while ((more = clear_bucket(b++)) >= 0)
		nr += more;
	return nr;
}

void engine_bus_drop(struct task *t)
{
	struct pin *p;
	struct mem *m;

	while (t->t_pins != NULL) {
		ulock_get(&bus.bu_lock);
		p = t->t_pins;
		m = unpin(find_pin(t, p->pn_mem->m_data, p->pn_mem), p->pn_nr,
			  &p);
		ulock_put(&bus.bu_lock);
		free(p);
		if (m != NULL)
			mem_free(m);
	}
}

void engine_bus_begin(size_t limit)
{
	bus.bu_limit = limit;
}

/* Frees all. Called while the engine is being freed: other callers are gone. */
int engine_bus_end(void)
{
	if (bus.bu_pins > 0)
		return -EBUSY;
	while (engine_bus_clear() > 0)
		;			/* a release may have pushed */
	table_end(&bus.bu_named);
	table_end(&bus.bu_pinned);
	bus.bu_limit = 0;
	return 0;
}

void engine_bus_forked(void)
{
	memset(&bus, 0, sizeof bus);
}

void engine_bus_count(struct engine_stats *s)
{
	ulock_get(&bus.bu_lock);
	s->shared_memory_used      = bus.bu_used;
	s->shared_memory_available = bus.bu_limit - bus.bu_used;
	s->shared_memory_names     = bus.bu_names;
	s->shared_memory_pins      = bus.bu_pins;
	ulock_put(&bus.bu_lock);
}

void engine_bus_pinned(const struct task *t, size_t *size, int *nr)
{
	const struct pin *p;
	size_t bytes;

	*size = 0;
	*nr   = 0;
	ulock_get(&bus.bu_lock);
	for (p = t->t_pins; p != NULL; p = p->pn_next) {
		bytes = (size_t)p->pn_nr;
		if (__builtin_mul_overflow(bytes, p->pn_mem->m_size, &bytes) ||
		    __builtin_add_overflow(*size, bytes, size))
			*size = SIZE_MAX;
		*nr = p->pn_nr < INT_MAX - *nr ? *nr + (int)p->pn_nr : INT_MAX;
	}
	ulock_put(&bus.bu_lock);
}

long engine_bus_steps(void)
{
	long steps;

	ulock_get(&bus.bu_lock);
	steps = bus.bu_steps;
	ulock_put(&bus.bu_lock);
	return steps;
}
