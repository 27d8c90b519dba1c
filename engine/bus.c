/* SPDX-License-Identifier: MIT */
/* bus.c: named memory, which tasks share. */

/*
 * A piece of memory has a name or none, and a number of pins. It is freed as it
 * loses the last of these. Names are in a hash table.
 *
 *	bucket -> [name, data, size, pins] -> ...
 *	                 ^
 *	task -> [pin] ---+     pins of a task; all others are in a list of the
 *	        [pin]          program
 *
 * A pin is a record of its own, so a task that ends, fails or is cancelled gives
 * back exactly its own pins, and a pin that is given back twice is found out.
 *
 * A lock of its own protects all of this. Memory is allocated before, and copied
 * and released outside of it. The bytes of a push are counted first, so no two
 * callers can pass the limit together.
 *
 * M1. p_mem of a pin is counted in m_pins. m_pins + named > 0 for each piece,
 *     unless its last holder just frees it.
 * M2. b_used is the sum of m_size of all pieces, and of pushes under way.
 * M3. The list of a task is touched only by the thread that runs the task, or
 *     ends it, and by engine_bus_pinned() under the lock.
 *
 * REJECTED
 *
 * A table without a lock. A get would need a count in the piece, and may touch
 * it only if the piece still is there. Hazard pointers or the like would save
 * some ten nanoseconds of a call that hands over kilobytes.
 *
 * A region mapped at setup: it would fragment, and malloc() does not.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "inside.h"

#include <stdlib.h>
#include <string.h>

UPREEMPT_NEVER;

#define BUCKETS	256

struct mem {
	struct mem *m_next;		/* in its bucket */
	void       *m_data;
	size_t      m_size;
	long        m_pins;
	bool        m_named;
	void      (*m_release)(void *data, void *arg);
	void       *m_arg;
	char        m_name[];		/* and then the copy */
};

struct pin {
	struct pin *p_next;
	struct mem *p_mem;
};

static struct {
	struct ulock b_lock;
	size_t       b_limit;
	size_t       b_used;
	long         b_names;
	long         b_pins;
	struct pin  *b_own;		/* of the program */
	struct mem  *b_bucket[BUCKETS];
} bus;

static struct mem **bucket(const char *name)
{
	unsigned h = 2166136261u;

	for (; *name != '\0'; name++)
		h = (h ^ (unsigned char)*name) * 16777619u;
	return &bus.b_bucket[(h ^ h >> 16) % BUCKETS];
}

/* Returns the place of the named memory, or of NULL. Caller holds the lock. */
static struct mem **find(const char *name)
{
	struct mem **at = bucket(name);

	while (*at != NULL && strcmp((*at)->m_name, name) != 0)
		at = &(*at)->m_next;
	return at;
}

/* 0, -ENODEV, -ECHILD: there is an engine, also if it was shut down. */
static int enter(void)
{
	int rc = engine_enter();

	if (rc != 0)
		return rc;
	engine_leave();
	ulock_get(&bus.b_lock);
	return 0;
}

static void mem_free(struct mem *m)
{
	USCHED_RACE(78);
	if (m->m_release != NULL)
		m->m_release(m->m_data, m->m_arg);
	free(m);
}

/* Returns m if it has no holder left: to be freed. Caller holds the lock. */
static struct mem *last(struct mem *m)
{
	if (m->m_named || m->m_pins > 0)
		return NULL;
	bus.b_used -= m->m_size;
	return m;
}

/* Takes the name of *at away. Caller holds the lock. */
static struct mem *unname(struct mem **at)
{
	struct mem *m = *at;

	*at = m->m_next;
	m->m_named = false;
	bus.b_names--;
	return m;
}

/* Makes a piece that holds data, or a copy. NULL: no memory. */
static struct mem *mem_make(const char *name, void *data, size_t size,
			    void (*release)(void *data, void *arg), void *arg)
{
	size_t length = strlen(name) + 1;
	size_t at = (sizeof(struct mem) + length + 15) & ~(size_t)15;
	struct mem *m;

	m = size > SIZE_MAX - at ? NULL :
		malloc(release != NULL ? at : at + size);
	if (m == NULL)
		return NULL;
	m->m_data = release != NULL ? data : (char *)m + at;
	m->m_size = size;
	m->m_pins = 0;
	m->m_named   = true;
	m->m_release = release;
	m->m_arg     = arg;
	memcpy(m->m_name, name, length);
	if (release == NULL && size != 0)
		memcpy(m->m_data, data, size);
	return m;
}

/* Counts size bytes. 0, -ENOSPC, -EEXIST. */
static int reserve(const char *name, size_t size)
{
	int rc = enter();

	if (rc != 0)
		return rc;
	if (*find(name) != NULL)
		rc = -EEXIST;
	else if (size > bus.b_limit - bus.b_used)
		rc = -ENOSPC;
	else
		bus.b_used += size;
	ulock_put(&bus.b_lock);
	return rc;
}

int engine_bus_push(const char *name, void *data, size_t size,
		    void (*release)(void *data, void *arg), void *arg)
{
	struct mem **at, *m;
	int rc;

	if (name == NULL || name[0] == '\0' || (data == NULL && size != 0))
		return -EINVAL;
	rc = reserve(name, size);
	if (rc != 0)
		return rc;
	m = mem_make(name, data, size, release, arg);
	USCHED_RACE(77);
	ulock_get(&bus.b_lock);
	at = find(name);
	rc = m == NULL ? -ENOMEM : *at != NULL ? -EEXIST : 0;
	if (rc == 0) {
		m->m_next = NULL;
		*at = m;
		bus.b_names++;
	} else
		bus.b_used -= size;
	ulock_put(&bus.b_lock);
	if (rc != 0)
		free(m);		/* the data are still the caller's */
	return rc;
}

/* Returns the list of pins of the caller. */
static struct pin **pins(void)
{
	struct runner *r = engine_here();

	return r != NULL && r->r_task != NULL ? &r->r_task->t_pins : &bus.b_own;
}

static int get(const char *name, void **data, size_t *size, bool pop)
{
	struct mem **at, *m;
	struct pin *p;
	int rc;

	if (name == NULL)
		return -EINVAL;
	p = malloc(sizeof *p);
	if (p == NULL)
		return -ENOMEM;
	rc = enter();
	if (rc == 0) {
		struct pin **mine = pins();

		at = find(name);
		m  = *at;
		rc = m != NULL ? 0 : -ENOENT;
		if (m != NULL) {
			if (pop)
				(void)unname(at);
			m->m_pins++;
			bus.b_pins++;
			p->p_mem  = m;
			p->p_next = *mine;
			*mine = p;
			if (data != NULL)
				*data = m->m_data;
			if (size != NULL)
				*size = m->m_size;
		}
		ulock_put(&bus.b_lock);
	}
	if (rc != 0)
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

/* Takes the pin *at away. Returns what is to be freed. Caller holds the lock. */
static struct mem *unpin(struct pin **at)
{
	struct pin *p = *at;
	struct mem *m = p->p_mem;

	*at = p->p_next;
	free(p);
	m->m_pins--;
	bus.b_pins--;
	return last(m);
}

int engine_bus_unpin(const void *data)
{
	struct mem *m = NULL;
	struct pin **at;
	int rc = enter();

	if (rc != 0)
		return rc;
	at = pins();
	while (*at != NULL && (*at)->p_mem->m_data != data)
		at = &(*at)->p_next;
	if (*at != NULL)
		m = unpin(at);
	else
		rc = -ESRCH;
	ulock_put(&bus.b_lock);
	if (m != NULL)
		mem_free(m);
	return rc;
}

long engine_bus_clear(void)
{
	struct mem *m, *free_them = NULL;
	long nr = 0;
	int i, rc = enter();

	if (rc != 0)
		return rc;
	for (i = 0; i < BUCKETS; i++)
		while (bus.b_bucket[i] != NULL) {
			m = unname(&bus.b_bucket[i]);
			nr++;
			if (last(m) == NULL)
				continue;
			m->m_next = free_them;
			free_them = m;
		}
	ulock_put(&bus.b_lock);
	while ((m = free_them) != NULL) {
		free_them = m->m_next;
		mem_free(m);
	}
	return nr;
}

void engine_bus_drop(struct task *t)
{
	struct mem *m;

	while (t->t_pins != NULL) {
		ulock_get(&bus.b_lock);
		m = unpin(&t->t_pins);
		ulock_put(&bus.b_lock);
		if (m != NULL)
			mem_free(m);
	}
}

void engine_bus_begin(size_t limit)
{
	bus.b_limit = limit;
}

/* Frees all. Called while the engine is being freed: other callers are gone. */
int engine_bus_end(void)
{
	if (bus.b_pins > 0)
		return -EBUSY;
	while (engine_bus_clear() > 0)
		;			/* a release may have pushed */
	bus.b_limit = 0;
	return 0;
}

void engine_bus_forked(void)
{
	memset(&bus, 0, sizeof bus);
}

void engine_bus_count(struct engine_stats *s)
{
	ulock_get(&bus.b_lock);
	s->shared_memory_used      = bus.b_used;
	s->shared_memory_available = bus.b_limit - bus.b_used;
	s->shared_memory_names     = bus.b_names;
	s->shared_memory_pins      = bus.b_pins;
	ulock_put(&bus.b_lock);
}

void engine_bus_pinned(const struct task *t, size_t *size, int *nr)
{
	const struct pin *p;

	*size = 0;
	*nr   = 0;
	ulock_get(&bus.b_lock);
	for (p = t->t_pins; p != NULL; p = p->p_next) {
		*size += p->p_mem->m_size;
		++*nr;
	}
	ulock_put(&bus.b_lock);
}
