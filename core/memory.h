/* SPDX-License-Identifier: MIT */
/* core/memory.h: memory of lanes. */

/*
 * MEMORY OF LANES
 *
 * One mapping has the descriptors of all lanes, then the lanes. The bottoms of
 * lanes are staggered, so that slices do not fight for the same cache sets. The
 * USCHED_GUARD bytes below each lane cannot be touched, from its first thread on.
 *
 * The pages that a deep thread has touched stay when the thread has become
 * shallow, or has ended. usched_trim() gives back those below the slice, or all
 * of them if the lane has no owner: nothing below a slice is in use.
 *
 * REJECTED
 *
 * Lanes closer together, 8 to 76 KB apart: a ring is 2 % faster with up to 2,000
 * threads, and 7 % with 4,000. Lanes that share pages would make it 15 to 35 %
 * faster, but have no guards.
 */

/* Does s run, or has it threads that have begun, as far as is known? */
static int has_threads(const struct usched *s)
{
	int i;

	for (i = 1; s->s_mapped != 0 &&
	     i <= s->s_lane_nr + private_nr(s->s_private); i++) {
		if (s->s_lane[i].l_bound > 0)
			return 1;
	}
	return s->s_base != NULL || s->s_native.l_bound > 0;
}

void usched_fini(struct usched *s)
{
	CONTRACT(s->s_base == NULL, "usched_fini: the dispatcher is running; "
		 "after a longjmp() out of it call usched_left() first");
	UHARD(fini(s));
	if (s->s_mapped != 0) {
		lent_drop(s->s_lane[1].l_low);
		private_unmap(s);
		munmap(s->s_lane, s->s_mapped);
	}
	s->s_private = NULL;
	s->s_warm    = NULL;
	s->s_lane    = NULL;
	s->s_lane_nr = s->s_shared_last = s->s_free_lane = 0;
	s->s_mapped  = 0;
	s->s_native_stack    = NULL;
	memset(&s->s_native, 0, sizeof s->s_native);
}

/* Maps nr lanes of so many bytes, behind a head for their descriptors. */
static int lanes_map(struct usched *s, int nr, size_t head, size_t lane)
{
	size_t nob = head + (size_t)nr * lane;
	struct usched_private *p;
	struct usched_lane *l;
	char *map;
	int i;

	map = pages_map(nob);
	if (map == NULL)
		return -ENOMEM;
	l = (struct usched_lane *)map;
	for (i = 1; i <= nr; i++) {
		char *at = map + head + (size_t)(i - 1) * lane;

		l[i].l_low    = at + GUARD;
		l[i].l_bottom = staggered(at + lane, i);
		l[i].l_free   = (short)(i < nr ? i + 1 : 0);
		l[i].l_sample = BARE;
	}
	if (guard_make(&l[1], nr == 1) != 0) {	/* a system may refuse that */
		munmap(map, nob);
		return -ENOMEM;
	}
	usched_fini(s);
	s->s_lane    = l;
	s->s_lane_nr = nr;
	s->s_free_lane = 1;	/* all; those that are put back come before */
	s->s_mapped  = nob;
	p = (struct usched_private *)(((uintptr_t)(l + nr + 1 +
		private_most(nr)) + LINE - 1) & -(uintptr_t)LINE);
	p->pl_size   = lane;
	p->pl_credit = (struct usched_credit *)(p + 1);
	p->pl_lane   = (struct usched_private_lane *)(p->pl_credit + DEEP_NR);
	private_begin(s, p);
	law_lanes(s);
	UHARD(lanes(s));
	return 0;
}

/* Looks at the environment, unless threads run. 0 or -EINVAL. */
static int lanes_env(const struct usched *s)
{
	if (s->s_coroutine)
		return 0;
	if (usched_env_check() != 0)				/* env E2 */
		return -EINVAL;
	(void)guard_off();
	return 0;
}

int usched_lanes(struct usched *s, int nr, size_t size)
{
	size_t page = page_size();
	size_t head, lane;

	if (lanes_env(s) != 0 ||
	    nr < 1 || nr > USCHED_LANE_MAX || size == 0 || size > INT_MAX)
		return -EINVAL;
	if (usched_private_most(nr) == 0)
		return -ENOSYS;
	if (has_threads(s))
		return -EBUSY;
	/* The descriptors; then for each lane: guard, size, stagger. */
	head = (size_t)(nr + 1) * sizeof *s->s_lane + (size_t)private_most(nr) *
		(sizeof *s->s_lane + sizeof *s->s_private->pl_lane) +
		LINE + sizeof *s->s_private +
		DEEP_NR * sizeof *s->s_private->pl_credit;
	head = (head + page - 1) & -page;
	lane = GUARD + ((size + page - 1) & -page) + page;
	if (lane / page % 2 == 0)
		lane += page;	/* odd: else lanes share half of the TLB sets */
	if (lane > (PTRDIFF_MAX - head) / (size_t)nr)
		return -EINVAL;
	return lanes_map(s, nr, head, lane);
}

int usched_lanes_share(struct usched *s, const struct usched *other)
{
	if (other == s || other->s_lane_nr == 0)
		return -EINVAL;
	if (has_threads(s))
		return -EBUSY;
	usched_fini(s);
	s->s_lane    = other->s_lane;
	s->s_lane_nr = other->s_lane_nr;
	private_begin(s, other->s_private);
	return 0;
}

/* Pages in one call of pages_there(). */
#define SPARE_PAGES	256

/* Returns the bytes of resident pages from low to high; 0: unknown. */
static size_t resident(char *low, char *high, size_t page)
{
	unsigned char pages[SPARE_PAGES];
	size_t sum = 0;
	size_t i, nr;

	for (; low < high; low += nr * page) {
		nr = (size_t)(high - low) / page;
		nr = nr < SPARE_PAGES ? nr : SPARE_PAGES;
		if (pages_there(low, nr * page, pages) != 0)
			return 0;
		for (i = 0; i < nr; i++)
			sum += pages[i] & 1 ? page : 0;
	}
	return sum;
}

/* Returns where the spare pages of a lane end, with a margin below the slice. */
static char *spare_end(const struct usched_lane *l, size_t margin, size_t page)
{
	char *end = l->l_owner != NULL ? slice(l->l_owner) : l->l_bottom;

	if ((size_t)(end - l->l_low) <= margin)
		return l->l_low;
	return (char *)((uintptr_t)(end - margin) & -page);
}

/* Fails if a thread of s runs, since its u_top does not tell its depth then. */
static void none_runs(const struct usched *s)
{
	const struct ustack *u = usched_current;
	const struct usched_frame *f = usched_here;

	for (; f != NULL; f = f->f_up) {
		CONTRACT(u == NULL || u->u_sched != s,
			 "usched_spare, usched_trim: called while a thread of "
			 "the dispatcher runs");
		u = f->f_self;
	}
}

size_t usched_spare(const struct usched *s)
{
	size_t page = page_size();
	int nr = s->s_lane_nr + private_nr(s->s_private);
	size_t sum = 0;
	int i;

	none_runs(s);
	for (i = 1; i <= nr && s->s_mapped != 0; i++) {
		const struct usched_lane *l = &s->s_lane[i];

		sum += resident(l->l_low, spare_end(l, 0, page), page);
	}
	return sum;
}

void usched_trim_lane(struct usched *s, int i, size_t margin)
{
	size_t page = page_size();
	struct usched_lane *l = &s->s_lane[i];
	char *end = spare_end(l, margin, page);

	none_runs(s);
	if (HARD)
		return;
	if (l->l_sole)
		law_drop(l);	/* its place becomes zeros */
	if (resident(l->l_low, end, page) != 0)
		cool(l, end);
}

void usched_trim(struct usched *s, size_t margin)
{
	int nr = s->s_lane_nr + private_nr(s->s_private);
	int i;

	none_runs(s);
	for (i = 1; i <= nr && s->s_mapped != 0; i++)
		usched_trim_lane(s, i, margin);
}
