/* SPDX-License-Identifier: MIT */
/*
 * qsort: threads sort arrays, on their stack and on the heap, with a comparator
 * that blocks now and then. The result is the same, byte for byte, as without
 * threads.
 */

/*
 * While the comparator is blocked, qsort() of the C library is half done. Its
 * frames hold addresses of the array and of the parts that are still to be
 * sorted, or of a temporary copy. In glibc the copy is on the stack up to 1024
 * bytes, and from malloc() beyond; elements larger than 32 bytes are sorted by
 * pointers to them. qsort() has no lock, and no state outside of its frames.
 * Sizes and elements are chosen so that all this happens.
 *
 * There are few different keys, so many are equal. The order of equal elements
 * depends on the order of all comparisons, which must be the same as in the
 * plain run.
 */
#include "others.h"

#define THREADS		250
#define STACK_MAX	(128 << 10)	/* bytes of an array: half a lane */
#define FAT		48

struct job {
	struct other j_other;
	int          j_nr;		/* elements */
	int          j_kind;		/* of kinds[] */
	int          j_until;		/* comparisons before it blocks */
	char        *j_plain;		/* what the plain run made */
	char        *j_got;		/* what the thread made */
};

static struct job jobs[THREADS];

/* Each begins with a key; the rest tells equal keys apart. */
struct thin { short e_key, e_nr; };
struct pair { int e_key, e_nr; double e_more; };
struct fat  { int e_key, e_nr; char e_more[FAT - 2 * sizeof(int)]; };

static void maybe_block(void)
{
	struct job *j = (struct job *)others_self();

	if (j == NULL || --j->j_until > 0)
		return;
	j->j_until = 1 + (int)(check_random(&j->j_other.o_random) %
			       (unsigned)(j->j_nr / 4 + 8));
	others_block();
}

static int order_thin(const void *a, const void *b)
{
	const struct thin *x = a, *y = b;

	maybe_block();
	return x->e_key - y->e_key;
}

/* Reads one key before the block and the other key after it. */
static int order_pair(const void *a, const void *b)
{
	int key = ((const struct pair *)a)->e_key;

	maybe_block();
	return key - ((const struct pair *)b)->e_key;
}

static int order_fat(const void *a, const void *b)
{
	const struct fat *x = a, *y = b;
	int rc = x->e_key - y->e_key;

	maybe_block();
	return rc;
}

static void fill_thin(void *at, int key, int nr)
{
	struct thin *e = at;

	e->e_key = (short)key;
	e->e_nr  = (short)nr;
}

static void fill_pair(void *at, int key, int nr)
{
	struct pair *e = at;

	e->e_key  = key;
	e->e_nr   = nr;
	e->e_more = nr / 3.0;
}

static void fill_fat(void *at, int key, int nr)
{
	struct fat *e = at;

	memset(e, nr, sizeof *e);
	e->e_key = key;
	e->e_nr  = nr;
}

static const struct kind {
	size_t k_size;
	int  (*k_order)(const void *, const void *);
	void (*k_fill)(void *at, int key, int nr);
} kinds[] = {
	{ sizeof(struct thin), order_thin, fill_thin },
	{ sizeof(struct pair), order_pair, fill_pair },
	{ sizeof(struct fat),  order_fat,  fill_fat },
};

/* Sizes around 1024 bytes, of elements and of pointers; a few are large. */
static const int sizes[] = {
	2, 3, 7, 16, 21, 22, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129,
	255, 256, 257, 500, 1000, 2000
};
static const int large[] = { 8000, 30000, 100000 };

static size_t bytes(const struct job *j)
{
	return (size_t)j->j_nr * kinds[j->j_kind].k_size;
}

static void fill(const struct job *j, char *array)
{
	const struct kind *k = &kinds[j->j_kind];
	unsigned random = check_hash(check_seed, (unsigned)(j - jobs));
	unsigned keys = (unsigned)j->j_nr / 2 + 1;
	int i;

	keys = keys < 30000 ? keys : 30000;	/* fits in a short */
	for (i = 0; i < j->j_nr; i++)
		k->k_fill(array + i * k->k_size,
			  (int)(check_random(&random) % keys), i);
}

static NOINLINE void sort(struct job *j, char *array)
{
	const struct kind *k = &kinds[j->j_kind];

	fill(j, array);
	qsort(array, (size_t)j->j_nr, k->k_size, k->k_order);
	memcpy(j->j_got, array, bytes(j));
}

static void on_heap(struct other *o)
{
	struct job *j = (struct job *)o;
	char *array = malloc(bytes(j));

	CHECK(array != NULL);
	sort(j, array);
	free(array);
}

static void on_stack(struct other *o)
{
	struct job *j = (struct job *)o;

	sort(j, __builtin_alloca(bytes(j)));
}

static void make_job(struct job *j, int nr)
{
	j->j_kind = nr % COUNT(kinds);
	j->j_nr   = nr % 10 != 9 ? sizes[nr / 3 % COUNT(sizes)] :
		nr % 20 != 19 ? sizes[COUNT(sizes) - 1] :
		large[nr / 20 % COUNT(large)];
	j->j_other.o_f = nr % 4 != 0 && bytes(j) <= STACK_MAX ? on_stack :
		on_heap;
	j->j_got   = malloc(bytes(j));
	j->j_plain = malloc(bytes(j));
	CHECK(j->j_got != NULL && j->j_plain != NULL);
}

/* The plain run. Its result must be sorted, by any qsort(). */
static void plain(struct job *j)
{
	const struct kind *k = &kinds[j->j_kind];
	int i;

	j->j_other.o_f(&j->j_other);
	memcpy(j->j_plain, j->j_got, bytes(j));
	for (i = 1; i < j->j_nr; i++)
		CHECK_THAT(k->k_order(j->j_plain + (i - 1) * k->k_size,
			   j->j_plain + i * k->k_size), <=, 0);
}

static void prepare(void)
{
	struct job *j;

	for (j = jobs; j < jobs + THREADS; j++) {
		j->j_other.o_random = check_hash(check_seed,
						 ~(unsigned)(j - jobs));
		j->j_until = 0;			/* the first call blocks */
		memset(j->j_got, 0x77, bytes(j));
	}
}

static void compare(void)
{
	struct job *j;

	for (j = jobs; j < jobs + THREADS; j++)
		CHECK(memcmp(j->j_got, j->j_plain, bytes(j)) == 0);
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	for (i = 0; i < THREADS; i++) {
		make_job(&jobs[i], i);
		plain(&jobs[i]);
	}
	for (i = 0; i < COUNT(ways); i++) {
		prepare();
		if (others_run(&ways[i], jobs, THREADS, sizeof jobs[0], 1))
			compare();
	}
	for (i = 0; i < THREADS; i++) {
		free(jobs[i].j_got);
		free(jobs[i].j_plain);
	}
	return 0;
}
