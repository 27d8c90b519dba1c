/* SPDX-License-Identifier: MIT */
/* VARIANTS: once */
/*
 * view_plain: runs of a plain dispatcher in a thread nest in the run of the thread.
 * Names stay while records are overwritten. A recorder, a list and counters come
 * and go before one s_next(), in any order. The child of a thread goes on with its
 * plain dispatcher, and has no recorder. A copy of a file that is torn or hostile
 * is refused with a sentence, or can be read without harm; so can a copy of a ring
 * that is being written.
 */
#include "tiny.h"
#include "rr.h"
#include "ulist.h"
#include "ustats.h"
#include "uthread.h"
#include "uview.h"
#include "walk.c"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#define INNER	4		/* threads of the plain dispatcher */
#define TURNS	20
#define FILES	3000		/* hostile */
#define COPIES	3000		/* copies, while the ring may be written */
#define DURING	100		/* copies during which it was written */

static char path[64];

static struct tiny t;
static struct tiny_thread inner[INNER];
static struct usched_stats st, outer_st;

static void turns(void *arg)
{
	int i;

	for (i = 0; i < TURNS; i++)
		tiny_yield();
}

/* Counting begins before the recorder, and ends while that goes on. */
static void runs_inner(void *arg)
{
	int i;

	CHECK_IS(rr_yield(), 0);
	for (i = 0; i < 2; i++) {
		tiny_init(&t, 4);
		CHECK(i == 0 || usched_stats(&t.t_sched, &st) == 0);
		tiny_start(&t, &inner[0], turns, NULL);
		tiny_start(&t, &inner[1], turns, NULL);
		tiny_run(&t);
		usched_stats_end(&t.t_sched);
		CHECK(t.t_sched.s_links == NULL && t.t_sched.s_next == tiny_next);
		CHECK(t.t_live == 0 && t.t_held == 0);
		usched_fini(&t.t_sched);
	}
	CHECK_IS(usched_stats(ustack_self()->u_sched, &outer_st), 0);
	CHECK_IS(usched_stats(ustack_self()->u_sched, &st), -EBUSY);
	CHECK_IS(rr_yield(), 0);
	CHECK_IS(outer_st.dispatches, 1);
	usched_stats_end(ustack_self()->u_sched);
	CHECK_IS(rr_yield(), 0);
	CHECK_IS(outer_st.dispatches, 1);
}

static int outer_runs, inner_runs;

static void count_run(struct walk *w, const struct walk_run *r)
{
	CHECK(r->wr_depth < 2 && r->wr_ring == 0);
	if (r->wr_depth == 0) {
		outer_runs++;
		return;
	}
	inner_runs++;
	CHECK_IS(w->w_ring[0].wl_depth, 1);
	CHECK_THAT(r->wr_from, >=, w->w_ring[0].wl_run[0].wr_from);
}

/* Returns the file of this name, and its size. */
static char *slurp(const char *name, size_t *size)
{
	int fd = open(name, O_RDONLY);
	struct stat is;
	char *text;

	CHECK(fd >= 0 && fstat(fd, &is) == 0);
	text = malloc((size_t)is.st_size);
	CHECK(text != NULL && read(fd, text, (size_t)is.st_size) == is.st_size);
	close(fd);
	*size = (size_t)is.st_size;
	return text;
}

static struct uview_file *copy_of(const void *map, size_t size, bool lives)
{
	struct uview_source source = { map, -1, size };
	struct uview_file *copy;
	const char *why = NULL;
	size_t nob = 0;

	copy = uview_copy(&source, lives, &nob, &why);
	CHECK(copy != NULL ? why == NULL && nob >= sizeof *copy :
	      why != NULL && strlen(why) > 10);
	return copy;
}

/* Walks over the file that was saved at path. */
static void walk_saved(void (*f)(struct walk *w, const struct walk_run *r))
{
	struct walk w = { .w_run = f };
	size_t size;
	char *text = slurp(path, &size);
	struct uview_file *copy = copy_of(text, size, false);

	CHECK(copy != NULL && walk(&w, copy));
	walk_end(&w);
	free(copy);
	free(text);
}

static void nests(void)
{
	CHECK_IS(rr_init(1, 0), 0);
	CHECK(rr_thread_init(runs_inner, NULL) != NULL);
	CHECK(rr_start() == 0 && rr_fini() == 0);
	CHECK_IS(uview_save(path), 0);
	walk_saved(count_run);
	CHECK(outer_runs == 4 && inner_runs == 2 * 2 * (TURNS + 1));
}

/* A thread that has run for longer than the ring reaches back still has its name. */

static void *stays(void *arg)
{
	int i;

	for (i = 0; i < 3000; i++) {
		uview_mark("no turn");
		CHECK_IS(rr_yield(), 0);
	}
	CHECK_IS(uview_save(path), 0);
	return NULL;
}

static void makes_named(void *arg)
{
	CHECK_IS(uthread_make(NULL, stays, NULL, "stays here"), 0);
}

static long named_runs;

static void count_named(struct walk *w, const struct walk_run *r)
{
	unsigned len;
	const char *name = uview_name_text(w->w_copy, r->wr_thread->wt_name, &len);

	named_runs += len == 10 && memcmp(name, "stays here", len) == 0;
}

static void keeps_names(void)
{
	CHECK_IS(rr_init(1, 0), 0);
	CHECK(rr_thread_init(makes_named, NULL) != NULL);
	CHECK(rr_start() == 0 && rr_fini() == 0);
	walk_saved(count_named);
	CHECK_IS(unlink(path), 0);
	CHECK_THAT(named_runs, >, 100);
}

/* A child goes on. */

static void forks(void *arg)
{
	pid_t child = fork();
	int status;

	CHECK_THAT(child, >=, 0);
	if (child == 0) {
		CHECK_IS(uview_start(NULL), -EBUSY);
		turns(NULL);
		return;
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void goes_on(void)
{
	pid_t me = getpid();

	tiny_init(&t, 4);
	tiny_start(&t, &inner[0], forks, NULL);
	tiny_start(&t, &inner[1], turns, NULL);
	tiny_run(&t);
	CHECK(t.t_live == 0 && t.t_held == 0);
	usched_fini(&t.t_sched);
	if (getpid() != me)
		_exit(0);
}

/* Hostile files. */

static unsigned state;

static uint64_t drawn(void)
{
	static const uint64_t odd[] = {
		0, 1, 7, 0xffff, 0x10000, 0x7fffffff, 0xffffffff,
		0x8000000000000000u, 0xffffffffffffffffu, 0xfffffffffffff000u
	};
	unsigned i = check_random(&state) % 16;

	return i < COUNT(odd) ? odd[i] : check_random(&state);
}

/* Changes some words; most in the header, or in the rings. */
static void change(char *text, size_t size)
{
	int i, nr = 1 + (int)(check_random(&state) % 4);

	for (i = 0; i < nr; i++) {
		size_t most = check_random(&state) % 3 == 0 ? size : 4096 + 512;
		size_t at = check_random(&state) % (most / 4 - 1) * 4;
		uint64_t word = drawn();

		if (at + 8 > size)
			continue;
		memcpy(text + at, &word, check_random(&state) % 2 ? 4 : 8);
	}
}

static long reads, refusals;

/* Sets a word of the file to what is wrong: the sentence has this text. */
static void refuses(const char *text, size_t size, size_t at, uint64_t word,
		    const char *what)
{
	struct uview_source source = { NULL, -1, size };
	char *bad = malloc(size);
	const char *why = NULL;
	size_t nob;

	CHECK(bad != NULL);
	memcpy(bad, text, size);
	memcpy(bad + at, &word, sizeof word);
	source.u_map = bad;
	CHECK_IS(uview_copy(&source, false, &nob, &why), NULL);
	CHECK(why != NULL && strstr(why, what) != NULL);
	free(bad);
}

/* Reads all that a tool would. */
static void read_all(struct uview_file *copy)
{
	const struct uview_census *c = uview_part_at(copy, UVIEW_PART_CENSUS);
	const struct uview_stack *k = uview_part_at(copy, UVIEW_PART_STACKS);
	const struct uview_name *n = uview_part_at(copy, UVIEW_PART_NAMES);
	struct walk w = { .w_run = NULL };
	unsigned i, j, len, sum = 0;
	const char *text;

	CHECK(walk(&w, copy));
	walk_end(&w);
	for (i = 0; i < copy->vf_part[UVIEW_PART_NAMES].vp_nr; i++)
		CHECK_THAT((uint64_t)n[i].vn_text + n[i].vn_len, <=,
			   copy->vf_part[UVIEW_PART_TEXTS].vp_nr);
	for (i = 0; i < 0x10000; i += 97) {
		text = uview_name_text(copy, i, &len);
		for (j = 0; j < len; j++)
			sum += (unsigned char)text[j];
	}
	for (i = 0; i < copy->vf_part[UVIEW_PART_STACKS].vp_nr; i++)
		for (j = 0; j < k[i].vk_nr; j++)
			CHECK_THAT(k[i].vk_frame[j], <,
				   copy->vf_part[UVIEW_PART_NAMES].vp_nr);
	for (i = 0; copy->vf_census != 0 && i < c->vc_nr; i++)
		sum += c->vc_row[i].vw_nr;
	__asm__ volatile("" : : "r"(sum));
}

/* Checks that times of a copy begin at zero, and never go back. */
static void times_check(const struct uview_file *copy)
{
	const struct uview_ring *r = uview_part_at(copy, UVIEW_PART_RINGS);
	uint64_t first = UINT64_MAX, time, last, i;
	unsigned k;

	for (k = 0; k < copy->vf_part[UVIEW_PART_RINGS].vp_nr; k++) {
		const struct uview_record *e = uview_records(copy, &r[k]);

		for (i = last = 0; i < r[k].vr_head; i++, last = time) {
			time = e[i].ve_word[0] >> 16;
			CHECK_THAT(time, >=, last);
			first = time < first ? time : first;
		}
	}
	CHECK(first == 0 || first == UINT64_MAX);
}

/* Sets the clocks of the file, and of its first ring, to the ends of words. */
static void clocks(const char *text, size_t size)
{
	static const uint64_t ends[] = { 0, INT64_MAX, 1ull << 63, UINT64_MAX };
	struct uview_file *bad = malloc(size), *copy;
	struct uview_ring *r;
	unsigned i;

	CHECK(bad != NULL);
	for (i = 0; i < 64; i++) {
		memcpy(bad, text, size);
		r = (void *)((char *)bad + bad->vf_part[UVIEW_PART_RINGS].vp_at);
		bad->vf_tick = ends[i % 4];
		bad->vf_ns   = ends[i / 4 % 4];
		r->vr_tick   = ends[i / 16];
		bad->vf_state = UVIEW_CLOSED;	/* a copy has no clocks */
		r->vr_room = r->vr_head = 64;
		copy = copy_of((char *)bad, size, i % 2);
		CHECK(copy != NULL);
		times_check(copy);
		read_all(copy);
		free(copy);
	}
	free(bad);
}

static void hostile(const char *name)
{
	size_t size, cut;
	char *text = slurp(name, &size);
	char *bad = malloc(size);
	int i;

	CHECK(bad != NULL);
	i = (int)offsetof(struct uview_file, vf_part) +
		UVIEW_PART_NAMES * (int)sizeof(struct uview_part);
	refuses(text, size, 0, 1, "no file of a recorder");
	refuses(text, size, offsetof(struct uview_file, vf_state), 0, "finished");
	refuses(text, size, i, size + 8, "a part lies outside");
	refuses(text, size, i + 16, 0xffffffff, "a part lies outside");
	refuses(text, size, 4096 + 8, size + 8, "a ring lies outside");
	refuses(text, size, 4096 + 8, size - 8, "a ring lies outside");
	clocks(text, size);
	for (i = 0; i < FILES; i++) {
		struct uview_file *copy;
		char *exact;

		doing("file %d", i);
		memcpy(bad, text, size);
		change(bad, size);
		cut = check_random(&state) % 4 == 0 ?
			check_random(&state) % size : size;
		exact = malloc(cut + 8);	/* sanitizers see its end */
		CHECK(exact != NULL);
		memcpy(exact, bad, cut);
		copy = copy_of(exact, cut, check_random(&state) % 2);
		reads    += copy != NULL;
		refusals += copy == NULL;
		if (copy != NULL)
			read_all(copy);
		free(copy);
		free(exact);
	}
	free(text);
	free(bad);
}

/* A ring that is being written: the times of its records never go back. */

static long stop;

static void spins(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		CHECK_IS(rr_yield(), 0);
}

static void check_ring(const struct uview_file *copy, const struct uview_ring *r)
{
	const struct uview_record *e = uview_records(copy, r);
	uint64_t i;

	for (i = 0; i < r->vr_head; i++) {
		CHECK_THAT(walk_kind(&e[i]), !=, UVIEW_NONE);
		CHECK(i == 0 || e[i].ve_word[0] >> 16 >= e[i - 1].ve_word[0] >> 16);
	}
}

/* Returns how many records were written to all rings of a file. */
static uint64_t heads(int fd, const struct uview_part *rings)
{
	struct uview_ring r;
	uint64_t sum = 0;
	unsigned k;

	for (k = 0; k < rings->vp_nr; k++) {
		CHECK(pread(fd, &r, sizeof r, (off_t)(rings->vp_at +
			    k * sizeof r)) == sizeof r);
		sum += r.vr_head;
	}
	return sum;
}

static void *copies(void *arg)
{
	char file[64];
	struct uview_source source = { .u_map = NULL };
	struct uview_file *copy, head;
	const struct uview_ring *r;
	const char *why;
	struct stat is;
	size_t size;
	uint64_t before;
	unsigned k;
	int i, during = 0;

	snprintf(file, sizeof file, UVIEW_PATH, (long)getpid());
	source.u_fd = open(file, O_RDONLY);
	CHECK(source.u_fd >= 0 && fstat(source.u_fd, &is) == 0);
	source.u_size = (uint64_t)is.st_size;
	for (i = 0; i < COPIES || during < DURING; i++) {
		CHECK(pread(source.u_fd, &head, sizeof head, 0) == sizeof head);
		before = heads(source.u_fd, &head.vf_part[UVIEW_PART_RINGS]);
		copy = uview_copy(&source, true, &size, &why);
		CHECK(copy != NULL);
		during += heads(source.u_fd, &head.vf_part[UVIEW_PART_RINGS]) !=
			before;
		r = uview_part_at(copy, UVIEW_PART_RINGS);
		for (k = 0; k < copy->vf_part[UVIEW_PART_RINGS].vp_nr; k++)
			check_ring(copy, &r[k]);
		free(copy);
	}
	close(source.u_fd);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	return arg;
}

static void written(void)
{
	pthread_t reader;
	int i;

	CHECK_IS(rr_init(1, 0), 0);
	for (i = 0; i < 3; i++)
		CHECK(rr_thread_init(spins, NULL) != NULL);
	CHECK_IS(pthread_create(&reader, NULL, copies, NULL), 0);
	CHECK(rr_start() == 0 && rr_fini() == 0);
	CHECK_IS(pthread_join(reader, NULL), 0);
}

int main(int argc, char **argv)
{
	char file[64];

	check_start(argc, argv);
	state = check_seed;
	snprintf(path, sizeof path, "/tmp/t_view.%ld", (long)getpid());
	CHECK_IS(ulist_start(), 0);
	if (uview_start("10") != 0)
		check_skip("no space in /dev/shm");
	nests();
	goes_on();
	snprintf(file, sizeof file, UVIEW_PATH, (long)getpid());
	hostile(path);
	CHECK_IS(unlink(path), 0);
	keeps_names();
	written();
	CHECK(reads > 100 && refusals > 100);
	return 0;
}
