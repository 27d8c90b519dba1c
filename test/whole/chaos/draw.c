/* SPDX-License-Identifier: MIT */
/* draw.c: makes a program from a seed. */

#include "chaos.h"

struct program program;
struct actor   actor[ACTORS];
struct note    note[NOTES];
struct child   child[CHILDREN];

static unsigned state;
static bool     off[THING_NR];
static int      lives;		/* actors 0 to lives - 1 */
static int      notes;

static const char *const names[] = {
#define T(name)	#name,
	THINGS(T)
#undef T
};

/* CHAOS_OFF=name,name,... */
static void read_off(void)
{
	const char *env = getenv("CHAOS_OFF");
	char text[300], *word, *rest;
	int i;

	snprintf(text, sizeof text, "%s", env != NULL ? env : "");
	for (word = strtok_r(text, ", ", &rest); word != NULL;
	     word = strtok_r(NULL, ", ", &rest))
		for (i = 0; i < THING_NR; i++)
			if (strcmp(word, names[i]) == 0)
				off[i] = true;
}

/* Draws what the program may do. Things that slow it down are rare. */
static void draw_things(void)
{
	int i;

	read_off();
	for (i = 0; i < THING_NR; i++)
		program.p_may[i] = (i < T_lock ? any(&state, 4) :
			check_hash(program.p_seed, (unsigned)i) % 3) != 0;
	program.p_may[T_fail]   = any(&state, 4) == 0;
	program.p_may[T_lanes]  = any(&state, 4) == 0;
	program.p_may[T_many]   = any(&state, 16) == 0;
	program.p_may[T_slice]  = check_hash(program.p_seed, T_slice) % 4 == 0;
	for (i = 0; i < THING_NR; i++)
		program.p_may[i] = program.p_may[i] && !off[i];
}

static void draw_sets(void)
{
	unsigned which = 1 + any(&state, 7);
	int s;

	if (any(&state, 2) == 0)
		which = 7;
	for (s = 0; s < SETS; s++) {
		program.p_has[s]   = which >> s & 1;
		program.p_procs[s] = 1 + (int)any(&state, s == WS ? 4 : 3);
	}
}

static int some_set(void)
{
	int s;

	do
		s = (int)any(&state, SETS);
	while (!program.p_has[s]);
	return s;
}

static struct actor *draw_actor(int kind, int set)
{
	struct actor *a = &actor[program.p_actors++];

	a->a_kind   = kind;
	a->a_set    = set;
	a->a_proc   = (int)any(&state, 5);
	a->a_random = check_hash(state, (unsigned)program.p_actors) | 1;
	a->a_first  = -1;
	a->a_pinned = -1;
	a->a_doing  = "nothing yet";
	a->a_stays  = program.p_may[T_pin] && any(&state, 8) == 0;
	return a;
}

/* Draws an actor to wake: of the same set, or of any set. */
static int some_target(const struct actor *a)
{
	int tries, to = 0;

	for (tries = 0; tries < 100; tries++) {
		to = (int)any(&state, (unsigned)lives);
		if (program.p_may[T_cross] || a->a_set == OUTSIDE ||
		    actor[to].a_set == a->a_set)
			break;
	}
	return to;
}

static void owe(struct actor *a, int set)
{
	if (a->a_set != set)
		a->a_owes[set]++;
}

static void draw_notes(struct actor *a, int most)
{
	int i, to;

	a->a_note = &note[notes];
	a->a_nr   = (int)any(&state, (unsigned)most + 1);
	if (a->a_kind == HANDLER && !program.p_may[T_signal])
		a->a_nr = 0;
	for (i = 0; i < a->a_nr; i++) {
		to = some_target(a);
		note[notes + i].n_to   = to;
		note[notes + i].n_next = actor[to].a_first;
		actor[to].a_first = notes + i;
		actor[to].a_due++;
		actor[to].a_sure += a->a_kind != LIVES;
		owe(a, actor[to].a_set);
	}
	notes += a->a_nr;
}

/* A child is mostly in the set of its mother. */
static void draw_child(struct actor *a, struct child *b)
{
	bool own = a->a_set != OUTSIDE &&
		(!program.p_may[T_cross] || any(&state, 4) != 0);

	b->b_set    = own ? a->a_set : some_set();
	b->b_join   = b->b_set == a->a_set && a->a_kind == LIVES &&
		program.p_may[T_join] && any(&state, 2) == 0;
	b->b_random = check_random(&state) | 1;
	b->b_waits  = (int)any(&state, 4);
	b->b_wakes  = b->b_waits + (any(&state, 2) ? any(&state, 4) : 0);
	owe(a, b->b_set);
}

static void draw_children(struct actor *a)
{
	int i, nr = (int)any(&state, program.p_may[T_many] ? 4 : 12);

	a->a_child = &child[program.p_children];
	if (!program.p_may[T_child] || a->a_kind == HANDLER ||
	    program.p_children + nr > CHILDREN)
		return;
	for (i = 0; i < nr; i++)
		draw_child(a, &a->a_child[i]);
	a->a_children = nr;
	program.p_children += nr;
}

static void draw_actors(void)
{
	int i, nr = 1 + (int)any(&state, program.p_may[T_many] ? 900 : 60);

	for (i = 0; i < nr; i++)
		draw_actor(LIVES, some_set());
	lives = nr;
	for (i = (int)any(&state, 5); i > 0; i--)
		draw_actor(PURE, some_set());
	program.p_natives = 1 + (int)any(&state, 3);
	for (i = 0; i < program.p_natives; i++)
		draw_actor(NATIVE, OUTSIDE);
	for (i = (int)any(&state, 6); i > 0; i--)
		draw_actor(BARE, OUTSIDE);
	draw_actor(HANDLER, OUTSIDE);
}

void draw(unsigned seed)
{
	int i, most;

	memset(&program, 0, sizeof program);
	memset(actor, 0, sizeof actor);
	memset(note, 0, sizeof note);
	memset(child, 0, sizeof child);
	notes = 0;
	program.p_seed = seed;
	state = check_hash(seed, 1) | 1;
	draw_things();
	draw_sets();
	draw_actors();
	for (i = 0; i < program.p_actors; i++) {
		most = i < lives ? NOTES / 3 / lives : NOTES / 2 / 20;
		draw_notes(&actor[i], most < 40 ? most : i < lives ? 40 : most);
		draw_children(&actor[i]);
	}
	program.p_random = check_random(&state) | 1;
}
