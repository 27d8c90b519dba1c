/* SPDX-License-Identifier: MIT */
/* core/law.h: the first law, checked: no other touches the stack of a waiter. */

/*
 * THE LAW
 *
 * Nothing that another thread or the kernel touches may lie on the stack of a
 * thread that waits: the slice may be moved meanwhile. A program that breaks
 * the law runs well as long as each thread has a lane for itself, and fails
 * with some hundred threads. So the dispatcher moves slices before it has to,
 * where that costs little, and looks where pointers are handed over:
 *
 *	what			when			who
 *	the argument of a	it is made, by a	makers, by
 *	thread			thread			ustack_moves()
 *	the object of a wait	the waiter queues	uwait_make(), by
 *							usched_lent()
 *	the place of a slice	the thread goes on	law_enter()
 *
 * The first two are guesses: the new thread may never use its argument, and the
 * thread whose stack that is may not wait. So they write a line, the first in
 * the process, and the program goes on. Only an access to a place while its
 * thread waits proves a breach, and ends the program.
 *
 * A thread that is alone in its lane (l_bound is 1) is evicted at some of its
 * blocks, although no thread needs the lane, and its place is filled with
 * LAW_FILL. If no other thread has entered the lane when the thread goes on,
 * each word must still be there: another word breaks the law. A reader gets
 * LAW_FILL, which is no address and no small number, so the first use of it
 * fails. The handler of faults (core/guard.h) knows the word, and says where it
 * was read. The first word holds the thread, for that message.
 *
 * A program that has read LAW_FILL as a number does not fail at once, but goes
 * on with it. So for the first SHUT_EACH blocks of a lane, and SHUT_MOST of the
 * process, the lane is shut in place of being filled, if the handler of faults
 * is there: it cannot be accessed, and any access has a message that names both
 * threads. That is done on the stack of the dispatcher, since the thread blocks
 * on the lane. The lowest page stays accessible. The kernel joins it with the
 * rest when the lane is opened, so that cannot fail for lack of a mapping. The
 * last word holds the thread. A system call that is given an address there
 * returns EFAULT. For u_read() and its like that has a message, too.
 *
 * l_law counts the blocks of a lane that will be checked: the first LAW_FIRST
 * when the lane is made, and one more for each LAW_SAMPLE threads that begin
 * there. A block is checked only where the dispatcher has to look at the buffer
 * anyway: at another depth than before. So after a check u_top is set one word
 * off, as long as l_law lasts, and the next block of the thread is at another
 * depth, too. A check costs some 30 ns, and the end of a short thread a
 * small part of that. Threads of private lanes are never moved, so never
 * checked. Nor are coroutines in lanes that a dispatcher of coroutines has
 * mapped: each generator has a lane to itself and only the address of a buffer
 * (ugen.c). To shut a lane and open it takes two system calls, some 3 us.
 *
 * Between the check and the return the lane is as follows; test/core/law_orders.c tries
 * all short orders.
 *
 * F1. l_sole implies that the lane has no owner, and that since the check no
 *     thread has entered it, ended there, or lost its place (trim): each of
 *     these clears l_sole.
 * F2. So if the thread that enters is AWAY, it has left the place, and is
 *     compared.
 * F3. A check runs below the slice (usched I4).
 * F4. Where l_sole is not set no word of LAW_FILL is left. So a thread that
 *     reads a word that it has never written does not get it, and the gaps in
 *     frames stay prologue words (core/buffer.h), as in a fresh lane.
 * F5. l_shut implies l_sole. A lane is opened before it is entered or written
 *     to. l_shut is set before the lane is shut, cleared after it is opened, and
 *     before the last word changes. So the handler finds it set, unless the lane
 *     was opened meanwhile; and if it is set, the last word is the thread.
 *
 * USCHED_LAW in the environment (env.h) is read with the first lanes: "abort"
 * (the default) ends the program with a message if a breach is proven; "warn"
 * writes the message for the first LAW_WARNINGS places, guesses too, and only
 * compares: nothing is filled; "off" looks at nothing. -DUSCHED_LAW_STORM=1, for
 * tests, checks each block of a thread that is alone; =2 also shuts the lane at
 * each sixteenth.
 *
 * NOT FOUND
 *
 *   - What happens only among threads that share lanes (beyond the first 256
 *     of rr), or only after a thread's first blocks. The hard mode moves all.
 *   - A write of what was there: LAW_FILL, or with "warn" the same value.
 *   - What happens after the processor has slept for long (usched_trim()): the
 *     memory of the place was given back, and is zeros.
 *   - Bytes that the kernel reads from a place that is filled: write() sends
 *     LAW_FILL. And numbers that the program reads there: 0x6b, 'k'.
 *   - What the kernel reads or writes in a lane that is shut, by a system call
 *     of the program: the call returns EFAULT.
 *   - An object of a wait for several things, or one made of atomics by hand.
 *   - In an argument: a pointer within the struct to which the argument points.
 *   - A pointer that is sent as a value. A word that looks like an address may
 *     be unset bytes. The hard mode says so once (uchan_send()).
 *
 * REJECTED
 *
 *   - A test of l_law where a thread blocks at the same place, too: 7 to 9 % of
 *     a switch at 2,000 to 16,000 threads, and it found no more.
 *   - To shut the lane at each check, as the hard mode does: 3 us, or 7 to 12
 *     while another native thread runs, where filling takes 30 ns.
 *   - Guards in the page tables (MADV_GUARD_INSTALL) for that: they need no
 *     mapping on any way, but take 5 and 20 us, and a new kernel.
 */

/* No address, on any machine, and no small number. */
#define LAW_FILL	((uintptr_t)USCHED_LAW_FILL)
/* Blocks of a new lane that are checked. */
#define LAW_FIRST	63
/* For so many of them the lane is shut, and for so many of a process. */
#define SHUT_EACH	4
#define SHUT_MOST	64
/* Threads that begin in a lane, until that adds a block. */
#define LAW_SAMPLE	32
#define LAW_SAYS							\
	"%p is on the stack of a thread, which is moved while the thread waits. " \
	LAW_ADVICE
#define LAW_ADVICE							\
	"What others use lies on the heap, in static storage, or on a private " \
	"stack (USCHED_STACKS=private); see \"Sharing\" in doc/guide.md"
/* Messages with USCHED_LAW=warn; else, where nothing is sure. */
#define LAW_WARNINGS	10
#define LAW_LINES	1
#if defined(USCHED_LAW_STORM)
#define STORM		USCHED_LAW_STORM
#else
#define STORM		0
#endif

enum { LAW_UNREAD, LAW_OFF, LAW_WARN, LAW_ABORT };

/* Returns what USCHED_LAW says: in the order of env_law. */
static int law_read(void)
{
	static const int hows[] = { LAW_ABORT, LAW_WARN, LAW_OFF };
	const char *value = usched_env(&env_law);
	unsigned long long nr;
	int i = usched_env_word(&env_law, &value, &nr);

	return i < 0 ? LAW_ABORT : hows[i];
}

static int law_how(void)
{
	static int known;		/* atomic */
	int how = __atomic_load_n(&known, __ATOMIC_RELAXED);

	if (unlikely(how == LAW_UNREAD)) {
		how = law_read();
		__atomic_store_n(&known, how, __ATOMIC_RELAXED);
	}
	return how;
}

static void (*name_look)(char *, size_t, const void *);	/* atomic */

void usched_name_by(void (*look)(char *text, size_t size, const void *at))
{
	__atomic_store_n(&name_look, look, __ATOMIC_RELAXED);
}

/* For uguard.c and uhard.c. */
HIDDEN void usched_name(char *text, size_t size, const void *at);

void usched_name(char *text, size_t size, const void *at)
{
	void (*look)(char *, size_t, const void *) =
		__atomic_load_n(&name_look, __ATOMIC_RELAXED);

	*text = 0;
	if (look != NULL)
		look(text, size, at);
}

/* Adds the name of a thread to m. */
static void law_name(struct message *m, const struct ustack *u)
{
	void *f = (void *)(uintptr_t)f_of(u);
	void *arg = ustack_arg(u->u_f, u->u_arg);
	char name[80];

	usched_name(name, sizeof name, f);
	message_add(m, "thread %p (function %s%s%p, argument %p)",
		    (const void *)u, name, name[0] != 0 ? "() at " : "", f, arg);
}

/*
 * Reports what u, or whoever calls, has done, which concerns the address at.
 * sure: it is no guess.
 */
static NOINLINE void law_broken(const struct ustack *u, const char *what,
				const void *at, int sure)
{
	static int warned;		/* atomic */
	struct message m = { .ms_nob = 0 };
	int how = law_how();
	int most = how == LAW_WARN ? LAW_WARNINGS : LAW_LINES;

	if (how == LAW_OFF)
		return;
	if (u != NULL)
		law_name(&m, u);
	else
		message_add(&m, "the caller");
	message_add(&m, ": %s: " LAW_SAYS, what, at);
	if (how == LAW_ABORT && sure)
		usched_fail(m.ms_text);
	if (__atomic_fetch_add(&warned, 1, __ATOMIC_RELAXED) < most)
		usched_message("%s", m.ms_text);
}

void usched_law(const char *what, const void *p)
{
	law_broken(usched_current, what, p, usched_shut(p));
}

NOINLINE int usched_may_move(void)
{
	const struct ustack *u = usched_current;

	return !ustack_is_private(u);
}

/*
 * Where lanes are that threads share, of all dispatchers, and lane 0 of these.
 * A place is free if t_low is NULL; a range counts once t_high is set.
 * [lent_low, lent_high) is around all that there ever were.
 */
#define LENT_NR		1024
static struct {
	char *t_low, *t_high;
	const struct usched_lane *t_lane;
} lent[LENT_NR];					/* atomic */
static int lent_used;					/* atomic, only grows */
static char *lent_low = (char *)UINTPTR_MAX, *lent_high;	/* atomic */

/* Moves *edge to at, unless it is beyond. */
static void edge_move(char **edge, char *at, int up)
{
	char *now = __atomic_load_n(edge, __ATOMIC_RELAXED);

	while ((up ? now < at : now > at) &&
	       !__atomic_compare_exchange_n(edge, &now, at, 0, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
}

/* Notes the shared lanes of s. Beyond LENT_NR ranges: nothing. */
static void lent_add(const struct usched *s)
{
	char *low = s->s_lane[1].l_low;
	char *high = s->s_lane[s->s_lane_nr].l_bottom;
	int used, i;

	for (i = 0; i < LENT_NR; i++) {
		char *none = NULL;

		if (__atomic_compare_exchange_n(&lent[i].t_low, &none, low, 0,
				__ATOMIC_RELAXED, __ATOMIC_RELAXED))
			break;
	}
	if (i == LENT_NR)
		return;
	__atomic_store_n(&lent[i].t_lane, s->s_lane, __ATOMIC_RELAXED);
	__atomic_store_n(&lent[i].t_high, high, __ATOMIC_RELEASE);
	used = __atomic_load_n(&lent_used, __ATOMIC_RELAXED);
	while (used <= i && !__atomic_compare_exchange_n(&lent_used, &used,
				i + 1, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
	edge_move(&lent_low, low, 0);
	edge_move(&lent_high, high, 1);
}

/* Forgets the lanes that begin at low. */
static void lent_drop(const char *low)
{
	int i;

	for (i = 0; i < __atomic_load_n(&lent_used, __ATOMIC_ACQUIRE); i++) {
		if (__atomic_load_n(&lent[i].t_low, __ATOMIC_RELAXED) != low)
			continue;
		__atomic_store_n(&lent[i].t_high, NULL, __ATOMIC_RELAXED);
		__atomic_store_n(&lent[i].t_low, NULL, __ATOMIC_RELEASE);
		return;
	}
}

/* Is at in range i, unless that is changed meanwhile? */
static int lent_in(const char *at, int i)
{
	const char *low = __atomic_load_n(&lent[i].t_low, __ATOMIC_ACQUIRE);
	const char *high = __atomic_load_n(&lent[i].t_high, __ATOMIC_ACQUIRE);

	return low != NULL && at >= low && at < high &&
	       __atomic_load_n(&lent[i].t_low, __ATOMIC_RELAXED) == low;
}

/* Returns the lane, of any dispatcher, in which threads share at, or NULL. */
static const struct usched_lane *lent_lane(const char *at)
{
	int used = __atomic_load_n(&lent_used, __ATOMIC_ACQUIRE);
	const struct usched_lane *l;
	int i;

	for (i = 0; i < used; i++) {
		l = __atomic_load_n(&lent[i].t_lane, __ATOMIC_RELAXED);
		if (!lent_in(at, i))
			continue;
		do
			l++;
		while (at >= l->l_bottom);	/* the last ends at t_high */
		return at >= l->l_low ? l : NULL;
	}
	return NULL;
}

int usched_shut(const void *p)
{
	const struct usched_lane *l = lent_lane(p);

#if defined(USCHED_HARD)
	if (l != NULL && __atomic_load_n(&l->l_hard.k_shut, __ATOMIC_RELAXED))
		return 1;
#endif
	return l != NULL && l->l_shut;
}

/* Is at on the stack of a thread that runs a dispatcher, and us within it? */
static int stays(const char *at)
{
	const struct usched_frame *f;

	for (f = usched_here; f != NULL; f = f->f_up) {
		const struct ustack *u = f->f_self;
		const struct usched_lane *l = u != NULL ?
			&u->u_sched->s_lane[u->u_lane] : NULL;

		if (l != NULL && at >= l->l_low && at < l->l_bottom)
			return 1;
	}
	return 0;
}

int usched_lent(const void *p)
{
	const char *at = p;
	int used, i;

	if (likely(at < __atomic_load_n(&lent_low, __ATOMIC_RELAXED) ||
		   at >= __atomic_load_n(&lent_high, __ATOMIC_RELAXED)))
		return 0;
	used = __atomic_load_n(&lent_used, __ATOMIC_ACQUIRE);
	for (i = 0; i < used; i++) {
		if (lent_in(at, i))
			return !stays(at);
	}
	return 0;
}

/* Called when one of LAW_SAMPLE threads begins in l: a block of it may be due. */
static void law_sample(const struct usched *s, struct usched_lane *l)
{
	if (l->l_low != NULL && !is_private(s, (int)(l - s->s_lane)) &&
	    !s->s_coroutine && l->l_law < LAW_FIRST && law_how() != LAW_OFF)
		l->l_law++;
}

/* Sets up the law for the lanes of s, which are new. */
static void law_lanes(const struct usched *s)
{
	int i;

	if (s->s_coroutine)
		return;
	lent_add(s);
	for (i = 1; i <= s->s_lane_nr && !HARD && law_how() != LAW_OFF; i++)
		s->s_lane[i].l_law = LAW_FIRST;
}

static int law_guarded;			/* the handler is there (atomic) */

/*
 * May lanes be opened again? Memory that cannot be written does not count for a
 * limit of data, which might be used up meanwhile.
 */
static int law_opens(void)
{
	struct rlimit data;

	return getrlimit(RLIMIT_DATA, &data) == 0 &&
	       data.rlim_cur == RLIM_INFINITY;
}

/* Is l to be shut for this check? At most SHUT_MOST times. */
static int law_shuts(const struct usched_lane *l)
{
	static unsigned shuts, asked;	/* so far (atomic) */

	if (!__atomic_load_n(&law_guarded, __ATOMIC_RELAXED))
		return 0;
	if (STORM == 2 &&
	    __atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED) % 16 == 0)
		return law_opens();
	return l->l_law >= LAW_FIRST - SHUT_EACH &&
	       __atomic_load_n(&shuts, __ATOMIC_RELAXED) < SHUT_MOST &&
	       law_opens() &&
	       __atomic_fetch_add(&shuts, 1, __ATOMIC_RELAXED) < SHUT_MOST;
}

/* Sets the access to l, but for its lowest page. 0, or -1. */
static int law_access(const struct usched_lane *l, int how)
{
	uintptr_t low = (uintptr_t)l->l_low + page_size();
	uintptr_t end = ((uintptr_t)l->l_bottom + page_size() - 1) &
		-(uintptr_t)page_size();

	return mprotect((void *)low, end - low, how);
}

/* Returns where a lane that is shut holds its thread. */
static struct ustack **law_thread(const struct usched_lane *l)
{
	return (struct ustack **)l->l_bottom - 1;
}

/* Opens l. */
static void law_open(struct usched_lane *l)
{
	if (law_access(l, PROT_READ | PROT_WRITE) != 0)
		usched_fail("law: a lane that was shut cannot be opened");
	l->l_shut = 0;
	__atomic_store_n(law_thread(l), NULL, __ATOMIC_RELEASE);	/* F5 */
}

/* Fills the place of u in l, which it has left. */
static UNCHECKED void law_fill(const struct usched_lane *l, struct ustack *u)
{
	char *at = slice(u);
	const char *end = at + stored(l, u);

	*(struct ustack **)at = u;
	/* Volatile, so no call of memset(): what preempts there walks up here. */
	while ((at += WORD) < end)
		*(volatile uintptr_t *)at = LAW_FILL;
}

/* Shuts the lane of u, which has left it. Runs at s_base. */
static UNCHECKED void law_shut(struct ustack *u)
{
	struct usched_lane *l = &u->u_sched->s_lane[u->u_lane];

	*law_thread(l) = u;
	l->l_shut = 1;						/* F5 */
	if (law_access(l, PROT_NONE) == 0)
		return;
	l->l_shut = 0;
	law_fill(l, u);
}

/*
 * Checks a block of u, the owner of l, whose buffer is as it must be: if the
 * thread is alone, its slice goes to the buffer. Runs below the slice. Returns
 * whether the caller has to shut the lane.
 */
static NOINLINE UNCHECKED int law_take(struct usched_lane *l, struct ustack *u)
{
	if (STORM == 0 || l->l_law > 1)
		l->l_law--;
	if (l->l_bound != 1 || u->u_stack == NULL)
		return 0;
	evict(l);
	l->l_sole = 1;
	if (law_how() == LAW_WARN)
		return 0;
	if (law_shuts(l))
		return 1;
	law_fill(l, u);
	return 0;
}

/* Notes that the place in l belongs to no thread now, and clears it (F4). */
static NOINLINE UNCHECKED void law_drop(struct usched_lane *l)
{
	uintptr_t *at = (uintptr_t *)l->l_bottom;

	l->l_sole = 0;
	if (l->l_shut)
		law_open(l);
	while ((char *)at > l->l_low && at[-1] == LAW_FILL)
		*--at = 0;
}

/* Returns the first word of the place of u that was written to, or NULL. */
static UNCHECKED const char *law_look(const struct usched_lane *l,
				      const struct ustack *u)
{
	const char *at = slice(u);
	const char *buf = u->u_stack;
	ptrdiff_t nob = stored(l, u);
	int filled = law_how() != LAW_WARN;
	ptrdiff_t i;

	if (filled && *(struct ustack *const *)at != u)
		return at;
	for (i = filled ? WORD : 0; i < nob; i += WORD) {
		if (*(const uintptr_t *)(at + i) !=
		    (filled ? LAW_FILL : *(const uintptr_t *)(buf + i)))
			return at + i;
	}
	return NULL;
}

/*
 * Notes that u is about to enter l, where l_sole is set. Compares its place. If
 * further blocks are due, copies the slice in and returns its top, where u goes
 * on. Else NULL: the caller does that.
 */
static NOINLINE UNCHECKED char *law_enter(struct usched_lane *l,
					  struct ustack *u)
{
	char *top = slice(u);
	const char *at = NULL;

	if (bits(u) & NO_SLICE || !(bits(u) & AWAY)) {
		law_drop(l);
		return NULL;
	}
	l->l_sole = 0;
	if (l->l_shut)
		law_open(l);
	else
		at = law_look(l, u);
	if (unlikely(at != NULL)) {
		law_broken(u, "its stack was written to while it waited (a frame "
			   "larger than the guard does that, too: "
			   "-fstack-clash-protection)", at, 1);
		copy(u->u_stack, top, stored(l, u));	/* "warn": as it is */
	}
	if (bits(u) != AWAY || l->l_law == 0)
		return NULL;
	l->l_owner = u;
	restore(l, u);
	u->u_top = top + TOP;	/* the next block is at another depth */
	return top;
}
