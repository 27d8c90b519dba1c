/* SPDX-License-Identifier: MIT */
/* core/private.h: private lanes, with one thread each. */

/*
 * PRIVATE LANES
 *
 * In a private lane no other thread ever runs. Its thread is not copied and needs
 * no buffer: u_stack is NULL, or a buffer that is long enough. Only if it was promised
 * no lane, and waits for long, is it copied out for a while (core/cool.h). Three
 * kinds of threads get one: those that were promised one (usched_private()),
 * whose stack must stay where it is, since others use it; and, if there is a
 * lane, those whose function is deep (core/deep.h), and those for which no other
 * lane is free, while there are few threads (s_few). The last are threads like
 * any other, for the law (core/law.h) and for what is learned of their function.
 *
 * u_len is set above the depth, so that a block at the same place looks like
 * any other to usched_blocked(), and private_fit() is called only after the
 * depth has changed much.
 *
 * Private lanes have the numbers above s_lane_nr: PRIVATE_EACH for each other
 * lane, up to SHRT_MAX in all. They are mapped PRIVATE_NR at a time, as they
 * are needed, and belong to all dispatchers that share lanes. If no more can be
 * mapped, a maker is refused, and a thread of a deep function takes a shared
 * lane.
 *
 *	s_warm   lanes that this dispatcher's threads have left ("warm"), with
 *	         their memory: WARM bytes at most
 *	pl_free  all others that have no thread (under pl_lock)
 *
 * The lane of a thread that ends goes to s_warm. If there are too many, some
 * give their memory to the system and go to pl_free. The lane that came last
 * stays, but without its memory if that is more than WARM / 4. A maker that
 * finds no other lane takes the warm lanes of all dispatchers. Lanes of few
 * threads count with what these have touched, or else 1,000 threads that begin and
 * end together would take twenty times as long.
 *
 * PV1. At least pl_promised lanes are in pl_free. So a thread that was promised
 *      a lane finds one, whatever fails meanwhile.
 * PV2. A promise is counted from usched_private() until its thread takes a
 *      lane, or is forgotten before (ustack_fini()), or its maker fails.
 *
 * A thread that becomes shallow gives back the pages below its slice, at once
 * the first time. If the thread is deep again later, that was wrong. So the
 * next time it gives them back at its fourth shallow block, then at the 16th,
 * and so on, up to PATIENCE. Meanwhile its blocks are COUNTED.
 *
 * The first private lanes (GUARDS_FEW) have a mapping as guard. Further guards
 * are in the page tables, where the kernel can do that (Linux 6.13), and cost
 * no mapping. Where it cannot, guards may take an eighth of the mappings that a
 * process may have, and no more private lanes are made. With 16,000 lanes of
 * 256 KiB a thread with 10,000 bytes took 14.4 KiB, and 670 bytes of page
 * tables; with buffers 10.7 KiB, with stacks from malloc() 12.4.
 *
 * In the hard mode deep threads with private lanes have buffers, too, since the
 * mode moves all slices, but for those of threads that were promised a lane.
 *
 * REJECTED
 *
 *   - A mapping for all private lanes at once: 5 to 10 GiB of addresses, which
 *     a limit (RLIMIT_AS) refuses, or leaves nothing of for the program.
 *   - Lanes for makers to take instead of promises: threads are made before
 *     there are lanes, and in ws the worker that runs a thread first chooses.
 *   - Private stacks for some threads and shared lanes for the rest, without
 *     being asked: a program that needs private stacks would be wrong with more than
 *     some number of threads. (So for the law few threads have none.)
 */

#define GUARD		((size_t)USCHED_GUARD)
/* Bytes by which the bottom of one lane is higher than that of the next. */
#define STAGGER		((size_t)128)
/* Private lanes for each other lane, at most. */
#define PRIVATE_EACH	64
/* Private lanes that are mapped at once. */
#define PRIVATE_NR	16
/* Private lanes of a process whose guard is a mapping, on any kernel. */
#define GUARDS_FEW	1024
/* Threads that are given none after a mapping has failed. */
#define PRIVATE_REST	64
/* Most bytes in private lanes without a thread; the least that each counts. */
#define WARM		((size_t)4 << 20)
#define WARM_LEAST	((size_t)16 << 10)
/* Most blocks with spare pages below the slice before they are given back. */
#define PATIENCE	1024
/* Bytes below a slice for the frames of a block, and a red zone. */
#define FRAMES		1024

/* A lane of one thread. */
struct usched_private_lane {
	size_t pv_mapped;	/* bytes of its mapping, if it is first there */
	size_t pv_touched;	/* bytes above its lowest slice */
	short  pv_patience;	/* shallow blocks until it is cooled */
	short  pv_left;		/* blocks of pv_patience that are to come */
	char   pv_was;		/* how deep its thread has blocked: core/deep.h */
	char   pv_guard;	/* its guard is a mapping */
	char   pv_promised;	/* promised to its thread, which stays here */
	char   pv_few;	/* its thread is here since there were few */
	char   pv_warm;		/* in which list of warm lanes it is, or 0 (atomic) */
	char   pv_idle;		/* what the last look did: core/cool.h */
};

/* Returns how many private lanes there may be beside nr others. */
static int private_most(int nr)
{
	return nr < SHRT_MAX / (PRIVATE_EACH + 1) ? nr * PRIVATE_EACH :
		SHRT_MAX - nr;
}

int usched_private_most(int nr)
{
#if defined(USCHED_PORTABLE)
	return (void)nr, 0;
#else
	return RUNNING_ON_VALGRIND ? 0 : private_most(nr);
#endif
}

/* Is usched_private_nr(), inlined: of a shared library a program may replace that. */
static inline int private_nr(const struct usched_private *p)
{
	return p != NULL ? __atomic_load_n(&p->pl_used, __ATOMIC_ACQUIRE) : 0;
}

int usched_private_nr(const struct usched_private *p)
{
	return private_nr(p);
}

static inline int is_private(const struct usched *s, int lane)
{
	return lane > s->s_lane_nr && lane <= s->s_lane_nr +
	       private_nr(s->s_private);
}

/*
 * Is the lane of u, whose number is above s_lane_nr, a private lane where u has
 * begun, or that no thread has?
 */
static int is_private_of(const struct usched *s, const struct ustack *u)
{
	return is_private(s, u->u_lane) &&
	       ((u->u_top != NEW && u->u_top != NULL) ||
		s->s_lane[u->u_lane].l_bound == 0);
}

static inline struct usched_private_lane *private_of(const struct usched *s,
						     int lane)
{
	return &s->s_private->pl_lane[lane - s->s_lane_nr - 1];
}

/* By the marks of ext/wrap/uwrap.c and ext/mpi/uprofile.c */
int usched_is_wrapped(void)
{
	return IS_LINKED(uwrap_linked) || IS_LINKED(uprofile_linked);
}

int usched_lane_promised(const struct usched_private *p, int nr)
{
	return nr > 0 && p->pl_lane[nr - 1].pv_promised;
}

int ustack_is_private(const struct ustack *u)
{
	const struct usched *s = u->u_sched;

	return is_private(s, u->u_lane) && private_of(s, u->u_lane)->pv_promised;
}

/* Does u, which has begun, block without a buffer? In the hard mode most move. */
static int needs_no_buffer(const struct ustack *u)
{
	return HARD ? ustack_is_private(u) : is_private(u->u_sched, u->u_lane);
}

static void (*f_of(const struct ustack *u))(void *)
{
	return ustack_f(u->u_f, u->u_arg);
}

/*
 * Notes that u blocks with need bytes, for the first time or with a length that
 * differs. Returns whether its lane is private.
 */
static int note_depth(struct usched *s, const struct ustack *u, ptrdiff_t need)
{
	int deep = need >= USCHED_DEEP;
	struct usched_private_lane *w;

	if (!is_private(s, u->u_lane)) {
		if (deep && u->u_len < USCHED_DEEP && s->s_private != NULL)
			learn(s->s_private, f_of(u), DEEP_EARNS);
		return 0;
	}
	w = private_of(s, u->u_lane);
	if (w->pv_touched < (size_t)need)
		w->pv_touched = (size_t)need;
	if (deep || !w->pv_few)
		learn_private(s->s_private, f_of(u), &w->pv_was, deep);
	return 1;
}

/* Returns for how many private lanes of a process there are mappings to spare. */
static int guards_most(void)
{
	static int known;		/* atomic */
	int most = __atomic_load_n(&known, __ATOMIC_RELAXED);
	char text[16] = "";
	int fd, nob = -1;

	if (most != 0)
		return most;
	fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		nob = (int)read(fd, text, sizeof text - 1);
		close(fd);
	}
	/* A part of all mappings. Each lane with a guard takes two. */
	most = (nob > 0 ? atoi(text) : 65530) / 8 / 2;
	__atomic_store_n(&known, most, __ATOMIC_RELAXED);
	return most;
}

/* Guards that are mappings, of all dispatchers (atomic). */
static int guards;

/* Maps a guard, unless there are already most of them. 0, or -1. */
static int guard_map(struct usched_private_lane *w, char *low, int most)
{
	if (most > guards_most())
		most = guards_most();
	if (__atomic_add_fetch(&guards, 1, __ATOMIC_RELAXED) <= most &&
	    mprotect(low - GUARD, GUARD, PROT_NONE) == 0) {
		w->pv_guard = 1;
		return 0;
	}
	__atomic_fetch_sub(&guards, 1, __ATOMIC_RELAXED);
	return -1;
}

/*
 * Sets the guard of a lane. In page tables it is only for programs with many:
 * a part of a mapping that cannot be read stops gdb's gcore, and LSan.
 */
static int guard_set(struct usched_private_lane *w, char *low)
{
	if (guard_map(w, low, GUARDS_FEW) == 0)
		return 0;
	if (!HARD && pages_guard(low - GUARD, GUARD) == 0)
		return 0;
	return guard_map(w, low, INT_MAX);
}

/* Returns the bottom of lane i, whose memory ends at end. */
static char *staggered(char *end, int i)
{
	return end - (size_t)i * STAGGER % page_size();
}

/* Makes lane i of the memory at map. 0; -1: no guard could be set. */
static int private_make(struct usched *s, int i, char *map)
{
	struct usched_private *p = s->s_private;
	struct usched_lane *l = &s->s_lane[i];

	if (guard_set(private_of(s, i), map + GUARD) != 0)
		return -1;
	memset(l, 0, sizeof *l);	/* a frame of lane 1 may be here */
	l->l_low    = map + GUARD;
	l->l_bottom = staggered(map + p->pl_size, i);
	return 0;
}

/* Caller holds pl_lock. */
static void free_push(struct usched *s, int i)
{
	struct usched_private *p = s->s_private;

	s->s_lane[i].l_free = (short)p->pl_free;
	p->pl_free = i;
	p->pl_free_nr++;
}

/* Caller holds pl_lock. There is a lane. */
static int free_pop(struct usched *s)
{
	struct usched_private *p = s->s_private;
	int i = p->pl_free;

	p->pl_free = s->s_lane[i].l_free;
	p->pl_free_nr--;
	return i;
}

/* Caller holds pl_lock. Maps some more lanes. 0, -EAGAIN, -ENOMEM. */
static NOINLINE int private_map(struct usched *s)
{
	struct usched_private *p = s->s_private;
	int first = s->s_lane_nr + p->pl_used + 1;
	int most = private_most(s->s_lane_nr) - p->pl_used;
	int i, nr = 0;
	size_t nob;
	char *map;

	if (most <= 0)
		return -EAGAIN;
	if (most > PRIVATE_NR)
		most = PRIVATE_NR;
	nob = (size_t)most * p->pl_size;
	map = pages_map(nob);
	if (map == NULL)
		return -ENOMEM;
	while (nr < most &&
	       private_make(s, first + nr, map + (size_t)nr * p->pl_size) == 0)
		nr++;
	if (nr == 0) {
		munmap(map, nob);
		return -EAGAIN;
	}
	private_of(s, first)->pv_mapped = nob;
	UHARD(private(map, nob, 1));
	for (i = first + nr; i-- > first; )
		free_push(s, i);
	__atomic_store_n(&p->pl_used, p->pl_used + nr, __ATOMIC_RELEASE);
	return 0;
}

static void private_unmap(struct usched *s)
{
	int last = s->s_lane_nr + private_nr(s->s_private);
	int i;

	for (i = s->s_lane_nr + 1; i <= last; i++) {
		struct usched_private_lane *w = private_of(s, i);
		char *map = s->s_lane[i].l_low - GUARD;

		if (w->pv_guard)
			__atomic_fetch_sub(&guards, 1, __ATOMIC_RELAXED);
		if (w->pv_mapped == 0)
			continue;
		UHARD(private(map, w->pv_mapped, 0));
		munmap(map, w->pv_mapped);
	}
}

static void private_lock(int *lock)
{
	while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) != 0)
		sched_yield();
}

static void private_unlock(int *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/* Lets s use the lanes of p, with a list of its own for those it has left. */
static void private_begin(struct usched *s, struct usched_private *p)
{
	int nr = __atomic_fetch_add(&p->pl_dispatchers, 1, __ATOMIC_RELAXED);

	s->s_private = p;
	s->s_warm    = &p->pl_warm[nr % USCHED_WARM_NR];
}

/* Gives back the memory of a lane below high. */
static void cool(struct usched_lane *l, char *high)
{
	char *to = (char *)((uintptr_t)high & -page_size());

	UHARD(cooled(l));
	if (to > l->l_low)
		(void)madvise(l->l_low, (size_t)(to - l->l_low), MADV_DONTNEED);
}

/* Gives back all memory of a lane that has no thread. */
static void cool_all(struct usched_lane *l, struct usched_private_lane *w)
{
	cool(l, l->l_bottom + page_size() - 1);
	w->pv_touched = 0;
}

/* Returns how many bytes a warm lane adds to wm_nob. */
static size_t warmth(const struct usched_private_lane *w)
{
	return w->pv_touched + (w->pv_few ? 0 : WARM_LEAST);
}

/* Returns the number of the list of s, from 1. */
static int warm_nr(const struct usched *s)
{
	return (int)(s->s_warm - s->s_private->pl_warm) + 1;
}

/* Notes in which list lane w is. A dispatcher without its lock may read that. */
static void warm_set(struct usched_private_lane *w, int list)
{
	__atomic_store_n(&w->pv_warm, (char)list, __ATOMIC_RELAXED);
}

/* Caller holds the lock of s_warm. Is lane w there? */
static int is_warm(const struct usched *s, const struct usched_private_lane *w)
{
	return __atomic_load_n(&w->pv_warm, __ATOMIC_RELAXED) == warm_nr(s);
}

/* Caller holds wm_lock. Takes the first warm lane of a list, or returns 0. */
static int warm_pop(const struct usched *s, struct usched_warm *m)
{
	int i = m->wm_first;

	if (i != 0) {
		warm_set(private_of(s, i), 0);
		m->wm_first = s->s_lane[i].l_free;
		m->wm_nob  -= warmth(private_of(s, i));
	}
	return i;
}

/* Takes a warm lane of s, or returns 0. */
static int warm_get(struct usched *s)
{
	int i;

	private_lock(&s->s_warm->wm_lock);
	i = warm_pop(s, s->s_warm);
	private_unlock(&s->s_warm->wm_lock);
	return i;
}

/* Caller holds pl_lock. Takes the warm lanes of all dispatchers. */
static void warm_collect(struct usched *s)
{
	struct usched_private *p = s->s_private;
	int i, lane;

	for (i = 0; i < USCHED_WARM_NR; i++) {
		private_lock(&p->pl_warm[i].wm_lock);
		while ((lane = warm_pop(s, &p->pl_warm[i])) != 0)
			free_push(s, lane);
		private_unlock(&p->pl_warm[i].wm_lock);
	}
}

/*
 * Caller holds pl_lock. Lets pl_free have nr lanes that are not promised. 0,
 * -EAGAIN, -ENOMEM.
 */
static NOINLINE int private_room(struct usched *s, int nr)
{
	struct usched_private *p = s->s_private;
	int rc = 0;

	if (nr > private_most(s->s_lane_nr))
		return -EAGAIN;
	while (rc == 0 && p->pl_free_nr - p->pl_promised < nr)
		rc = private_map(s);
	if (rc != 0)
		warm_collect(s);
	return p->pl_free_nr - p->pl_promised >= nr ? 0 : rc;
}

NOINLINE int usched_private(struct usched *s, int nr)
{
	struct usched_private *p = s->s_private;
	int rc = 0;

	if (p == NULL)
		return -EAGAIN;
	private_lock(&p->pl_lock);
	if (nr > p->pl_free_nr - p->pl_promised)
		rc = private_room(s, nr);
	if (rc == 0)
		p->pl_promised += nr;
	private_unlock(&p->pl_lock);
	return rc;
}

/* Begins lane i, which was free or warm. promised: its thread stays there. */
static int private_take(struct usched *s, int i, int promised)
{
	struct usched_private_lane *w = private_of(s, i);

	s->s_lane[i].l_free = NOT_FREE;
	w->pv_was      = NEVER_BLOCKED;
	w->pv_promised = (char)promised;
	w->pv_few    = w->pv_idle = 0;
	w->pv_patience = w->pv_left = 0;
	return i;
}

NOINLINE int usched_lane_private(struct usched *s)
{
	struct usched_private *p = s->s_private;
	int i;

	CONTRACT(p != NULL, "s_next: returned a thread for a private lane "
		 "of a dispatcher that has no lanes");
	i = warm_get(s);
	private_lock(&p->pl_lock);
	CONTRACT(p->pl_promised > 0, "s_next: returned a thread for a private "
		 "lane that usched_private() has not promised");
	p->pl_promised--;
	if (i == 0)
		i = free_pop(s);			/* PV1 */
	private_unlock(&p->pl_lock);
	return private_take(s, i, 1);
}

/* Returns a lane that was not promised, free or warm; or 0. */
static int private_find(struct usched *s)
{
	struct usched_private *p = s->s_private;
	int i = warm_get(s);

	if (i != 0)
		return i;
	private_lock(&p->pl_lock);
	if (p->pl_free_nr > p->pl_promised)
		i = free_pop(s);
	else if (p->pl_rest > 0)
		p->pl_rest--;
	else if (private_room(s, 1) == 0)
		i = free_pop(s);
	else
		p->pl_rest = PRIVATE_REST;
	private_unlock(&p->pl_lock);
	return i;
}

/* Returns a lane for a thread that was promised none; or 0. */
static NOINLINE int private_get(struct usched *s, int few)
{
	int i = private_find(s);

	if (i != 0) {
		(void)private_take(s, i, 0);
		private_of(s, i)->pv_few = (char)few;
	}
	return i;
}

/* Gives the memory of lane i to the system, and the lane to all dispatchers. */
static void private_cool(struct usched *s, int i)
{
	cool_all(&s->s_lane[i], private_of(s, i));
	private_lock(&s->s_private->pl_lock);
	free_push(s, i);
	private_unlock(&s->s_private->pl_lock);
}

/* Puts lane i, which no thread has, with the warm lanes of s. */
static void warm_put(struct usched *s, int i)
{
	struct usched_warm *m = s->s_warm;
	size_t nob = warmth(private_of(s, i));
	int other;

	private_lock(&m->wm_lock);
	while (m->wm_nob + nob > WARM) {
		other = warm_pop(s, m);
		private_unlock(&m->wm_lock);
		private_cool(s, other);
		private_lock(&m->wm_lock);
	}
	s->s_lane[i].l_free = (short)m->wm_first;
	warm_set(private_of(s, i), warm_nr(s));
	private_of(s, i)->pv_idle = 0;
	m->wm_first = i;
	m->wm_nob  += nob;
	private_unlock(&m->wm_lock);
}

/* Takes u, which has ended or is forgotten, from its private lane. */
static NOINLINE void private_put(struct usched *s, struct ustack *u)
{
	struct usched_private_lane *w = private_of(s, u->u_lane);

	if (!w->pv_few)
		learn_end(s->s_private, f_of(u), w->pv_was);
	if (u->u_stack == NULL)
		u->u_len = 0;
	w->pv_promised = 0;
	if (warmth(w) > WARM / 4)
		cool_all(&s->s_lane[u->u_lane], w);
	warm_put(s, u->u_lane);
}

/* Takes from u, which has not begun and never will, its lane or promise. */
static void private_unused(struct ustack *u)
{
	struct usched *s = u->u_sched;

	if (s->s_private == NULL)
		return;
	if (u->u_lane == USCHED_PRIVATE)
		(void)usched_private(s, -1);
	else if (is_private(s, u->u_lane) &&
		 s->s_lane[u->u_lane].l_free == NOT_FREE)
		private_put(s, u);
}

/*
 * Gives back the pages below high of a lane whose thread has become shallow. 0:
 * not yet, in case the thread becomes deep again.
 */
static int shallow(struct usched_lane *l, struct usched_private_lane *w,
		   char *high)
{
	if (w->pv_left > 0 && w->pv_left-- > 1)
		return 0;
	cool(l, high);
	w->pv_patience = w->pv_patience == 0 ? 4 : w->pv_patience * 4;
	if (w->pv_patience > PATIENCE)
		w->pv_patience = PATIENCE;
	w->pv_left = w->pv_patience;
	return 1;
}

/*
 * Does what buffer_fit() does for a thread in its private lane, which needs no
 * buffer: so it cannot fail. Runs on the lane, below a slice of need bytes,
 * after note_depth(). u_len is such that the next call comes when the depth has
 * changed much.
 */
static NOINLINE void private_fit(struct ustack *u, struct usched_lane *l,
				 ptrdiff_t need)
{
	struct usched *s = u->u_sched;
	struct usched_private_lane *w = private_of(s, u->u_lane);
	ptrdiff_t most = l->l_bottom - l->l_low;
	void *old = u->u_stack;
	int len = u->u_len;

	if (old == NULL && (size_t)need + USCHED_SLACK < w->pv_touched) {
		if (!shallow(l, w, (char *)__builtin_frame_address(0) - FRAMES)) {
			u->u_len |= COUNTED;
			return;
		}
		w->pv_touched = (size_t)need;
	}
	need += USCHED_SLACK / 2;
	if (most > INT_MAX)
		most = INT_MAX;
	u->u_stack = NULL;
	u->u_len   = (int)(need < most ? need : most) & -TOP;
	if (old != NULL)
		s->s_free(s, old, buffer_size(len));	/* may jump: usched I8 */
}

NOINLINE int usched_lane_deep_slow(struct usched *s, void (*f)(void *))
{
	return wanted(s->s_private->pl_credit, f) ? private_get(s, 0) : 0;
}
