/* SPDX-License-Identifier: MIT */
/* limits: with few mappings or many processors, start() works or says why. */
/* VARIANTS: RR LL WS PR */
/* LIBS: -Wl,--wrap=pthread_create */

/*
 * If the process has few mappings left, lanes leave some for native threads and
 * for calls. If there are too few even for those, start() returns an error,
 * nothing has run, and start() works as soon as there are more. Native threads
 * that are refused are tried again with fewer lanes. Up to 1,000 processors
 * start; lanes are made for any number up to UPROC_MOST. (maps P6.)
 */
#include "either.h"
#include "ucall.h"
#include "uproc_set.h"
#include <sys/mman.h>

#if !defined(__linux__)
int main(void)
{
	check_skip("no /proc/self/maps");
}
#else

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TOOL	1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TOOL	1
#endif
#endif
#if !defined(TOOL)
#define TOOL	0
#endif

#define THREADS	20
#define ENOUGH	40		/* mappings with which two processors work */
#define CALLS	(4 * UCALL_LIMIT) /* mappings that calls may take */
#define PAGE	((size_t)sysconf(_SC_PAGESIZE))

static long ran, called, refused;

/* After refuse_after native threads, refuse_nr are refused. */
static long refuse_after, refuse_nr, refused_nr;

WRAP(int, pthread_create, pthread_t *id, const pthread_attr_t *attr,
     void *(*f)(void *), void *arg)
{
	if (refuse_after > 0)
		refuse_after--;
	else if (refuse_nr > 0) {
		refuse_nr--;
		refused_nr++;
		return EAGAIN;
	}
	return __real_pthread_create(id, attr, f, arg);
}

/* Mappings. */

static int maps(void)
{
	FILE *in = fopen("/proc/self/maps", "r");
	int c, nr = 0;

	CHECK(in != NULL);
	while ((c = getc(in)) != EOF)
		nr += c == '\n';
	fclose(in);
	return nr;
}

static int maps_most(void)
{
	FILE *in = fopen("/proc/sys/vm/max_map_count", "r");
	int nr = 0;

	if (in == NULL || fscanf(in, "%d", &nr) != 1)
		nr = 0;
	if (in != NULL)
		fclose(in);
	return nr;
}

/* Takes all mappings except room. */
static char *fill(int room, size_t *nob)
{
	size_t nr = maps_most() - room - maps();
	size_t i;
	char *at;

	*nob = nr * PAGE;
	at = mmap(NULL, *nob, PROT_NONE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK_THAT(at, !=, MAP_FAILED);
	for (i = 1; i < nr; i += 2)
		CHECK_IS(mprotect(at + i * PAGE, PAGE, PROT_READ), 0);
	return at;
}

static void job(void *arg)
{
	free(malloc(100));
	add(arg, 1);
}

/* With few mappings left, a block may find no memory. */
static void caller(void *arg)
{
	int rc = SCHED(yield)();

	CHECK(rc == 0 || rc == -ENOMEM);
	if (ucall(job, &called) != 0)
		add(&refused, 1);
	add(&ran, 1);
}

static int room;

static int lanes_of(int p)
{
	return SCHED(sched)(p)->s_lane_nr;
}

/* Returns how many mappings the lanes of two processors take. */
static int maps_of_lanes(void)
{
#if defined(WS)				/* they share lanes */
	return 2 * lanes_of(0);
#else
	return 2 * (lanes_of(0) + lanes_of(1));
#endif
}

/*
 * Two processors leave mappings for calls, if there are more. Runs in a child,
 * whose mappings end with it.
 */
static void with_room(void)
{
	size_t nob;
	char *filled;
	int i, rc;

	ran = 0;
	begin(2, 0);
	for (i = 0; i < THREADS; i++)
		make(i, caller, NULL);
	filled = fill(room, &nob);
	rc = SCHED(start)();
	if (rc != 0) {
		CHECK(rc == -ENOMEM || rc == -EAGAIN);
		CHECK(room < ENOUGH && ran == 0);
		munmap(filled, nob);
		CHECK_IS(SCHED(start)(), 0);
	} else if (room > CALLS)
		CHECK_THAT(maps_of_lanes() + CALLS, <=, room);
	finish();
	CHECK(ran == THREADS && called + refused == THREADS);
	CHECK(refused == 0 || (rc == 0 && room < ENOUGH));
}

static void rooms(void)
{
	static const int some[] = {
		2, 6, 12, 20, ENOUGH, 150, 340, 1030, 1036, 1042, 1048, 1400
	};
	char text[4096];
	int i;

	for (i = 0; i < COUNT(some); i++) {
		room = some[i];
		doing("room %d", room);
		if (check_child(with_room, text, sizeof text) != 0)
			check_fail(__FILE__, __LINE__, text);
	}
}

/* After a start that has failed for lack of mappings, calls fini() alone. */
static void gives_up(void)
{
	size_t nob;

	begin(2, 0);
	make(0, caller, NULL);
	fill(2, &nob);
	CHECK(SCHED(start)() != 0);
	CHECK(SCHED(fini)() == -EDEADLK && SCHED(stuck)() == 1);
}

/* Native threads. */

static void runs(void *arg)
{
	yield();
	add(arg, 1);
}

/* Tells whether this build has lanes. */
static bool has_lanes(void)
{
	int nr;

	begin(1, 0);
	CHECK_IS(SCHED(init)(1, 0), -EBUSY);
	CHECK_IS(SCHED(start)(), 0);
	nr = lanes_of(0);
	finish();
	return nr > 0;
}

/* Starts while, after some native threads, nr are refused. */
static void refuses(int after, int nr, bool works)
{
	int i, rc, lanes;

	ran = 0;
	begin(2, 0);
	for (i = 0; i < THREADS; i++)
		make(i, runs, &ran);
	refuse_after = after;
	refuse_nr    = nr;
	rc = SCHED(start)();
	lanes = lanes_of(0);
	refuse_nr = 0;
	CHECK(works ? rc == 0 : rc == -EAGAIN && get(&ran) == 0 && lanes == 0);
	if (!works)
		CHECK_IS(SCHED(start)(), 0);
	finish();
	CHECK_IS(ran, THREADS);
}

/* Makes lanes for procs. The native threads are refused, which saves time. */
static void lanes_for(int procs)
{
	doing("procs %d", procs);
	begin(procs, 0);
	refuse_after = refused_nr = 0;
	refuse_nr = 1000;
	CHECK(SCHED(start)() == -EAGAIN && refused_nr > 0);
	refuse_nr = 0;
	CHECK_IS(SCHED(fini)(), 0);
}

/* Beside other programs hundreds of workers of ws rob each other for a minute. */
#if TOOL || defined(WS)
#define MANY	100
#else
#define MANY	1000
#endif

static void many(int procs)
{
	int i;

	doing("procs %d", procs);
	ran = 0;
	begin(procs, 2 * procs);
	for (i = 0; i < 2 * procs; i++)
		make(i, runs, &ran);
	start_and_finish();
	CHECK_IS(ran, 2 * procs);
}

int main(int argc, char **argv)
{
	char text[4096];
	bool lanes;

	check_start(argc, argv);
	check_quiet();
	CHECK_IS(SCHED(init)(UPROC_MOST + 1, 0), -EINVAL);
	lanes = has_lanes();
	refuses(0, 1, lanes);
	refuses(1, 2, lanes);
	refuses(0, 100, false);
	refuses(1, 100, false);
	lanes_for(513);
	lanes_for(2001);
	lanes_for(UPROC_MOST);
	many(MANY);
	if (!TOOL && maps_most() > 10000 && maps_most() < 200000) {
		rooms();
		CHECK_IS(check_child(gives_up, text, sizeof text), 0);
	}
	return 0;
}
#endif
