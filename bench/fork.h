/* SPDX-License-Identifier: MIT */
/* fork.h: the questions about forks and joins, and plain answers to them. */

#ifndef FORK_H
#define FORK_H

/*
 * Each program, ours and those in peers/, answers one of six questions:
 *
 *	empty NR P		make NR empty threads, all at once
 *	batches NR B P		the same, B at a time
 *	fib N CUT P		the Fibonacci number N
 *	queens N CUT P		in how many ways N queens stand on N * N squares
 *	uts T1|T5 CUT P		the nodes of an unbalanced tree
 *	skynet P		the sum of 1,000,000 leaves
 *
 * The answer is one number on stdout, the seconds. If something goes wrong, the
 * program says so on stderr, and exits with 1; or with 2 if it was asked
 * anything else. It knows the right result; a wrong result is a failure. There
 * are P native threads.
 *
 * THE TIME goes from before the first thread of the problem is made to when the
 * result is there. Before that, the scheduler has started, all P native threads
 * run (if the language allows that: Go and tokio start theirs as they please),
 * and the first thread, the root of the problem, runs. Work after the result,
 * to stop the native threads and to free memory, is not included. There is no
 * run to warm up, so memory is touched for the first time within the time.
 *
 * A THREAD is a thread of the language: one of ours, a goroutine, a task, a
 * coroutine. Each can be stopped in the middle. A thread that has children
 * makes all of them, then waits for all, then takes their results. It does no
 * part of their work itself.
 *
 * EMPTY. The root makes the threads. Its first wait comes after the last is
 * made, though some may have ended by then. Each thread only says that it has
 * ended. The result is there when all have said so.
 *
 * BATCHES. The same, but whenever B threads are made (or fewer, at the end),
 * the root waits until they have ended before it makes more. So a scheduler
 * that keeps the memory of ended threads needs memory for B threads only, and
 * all P native threads must meet NR / B times.
 *
 * FIB. fib(n) is n if n < 2, else fib(n - 1) + fib(n - 2). Each call with n >=
 * CUT is a thread, so both calls in it may be threads, and the root is the
 * first. Below CUT it is plain recursion. For CUT >= 1 there are fib(N - CUT +
 * 3) - 1 threads. A compiler may make a loop of one of the two calls, but must
 * not inline the other.
 *
 * QUEENS. Row by row, with three bit sets for attacked squares. There is a
 * thread for each safe square in the first CUT rows. Below them it is plain
 * recursion.
 *
 * UTS. Olivier, Huan, Liu, Prins, Dinan, Sadayappan, Tseng: UTS: an unbalanced
 * tree search benchmark (LCPC 2006). A node is a hash of 20 bytes: SHA-1 of its
 * parent's hash and its own number among its siblings. The number of its
 * children is drawn from that hash and its depth, so the size of a subtree is
 * unknown until the subtree has been searched. uts T1 (-t 1 -a 3 -d 10 -b 4 -r
 * 19) has 4,130,071 nodes, uts T5 (-t 1 -a 0 -d 20 -b 4 -r 34) has 4,147,582. The
 * root has depth 0. There is a thread for each node of depth 1 to CUT, which
 * computes its own hash; a leaf is a thread, too. Below CUT it is plain
 * recursion. uts T1 ends at depth 10, uts T5 at 20: with this CUT or more, each
 * node is a thread. A hash took 85 to 90 ns in gcc's and Go's code, and 1.4
 * times that in LLVM's (clang, Rust), so compare with the plain recursion, too.
 *
 * SKYNET. Threads with ten children each, in six levels. Leaf i, from 0 on, has
 * the result i; the result of any other thread is the sum of its children's.
 * There are 1,111,111 threads with the root.
 *
 * PLAIN. fib with CUT > N, and queens and uts with CUT 0, make no thread. They
 * are the plain recursion of the language, without its scheduler, and P must be
 * 1. The cost of threads is the time of a run beyond that, so the bodies are
 * the same.
 *
 * This header is for one source file of a program, in C or C++. It needs -lm.
 */

#include "bench.h"

#include <math.h>

enum fork_what {
	FORK_EMPTY, FORK_BATCHES, FORK_FIB, FORK_QUEENS, FORK_UTS, FORK_SKYNET,
	FORK_NR
};

enum {
	FORK_FIB_MAX    = 90,	/* fits into a long */
	FORK_QUEENS_MAX = 16,
	FORK_SKY_LEAVES = 1000000,
	FORK_SKY_FAN    = 10,
	FORK_HASH       = 5	/* words of SHA-1 */
};

/* The parameters of a geometric tree of UTS. */
struct fork_tree {
	const char *ft_name;
	int         ft_linear;	/* -a 0: fewer when deeper; else -a 3 */
	int         ft_depth;	/* -d: nodes at this depth have no children */
	int         ft_fan;	/* -b: children of the root, on average */
	int         ft_seed;	/* -r */
	long        ft_nodes;
};

/* A question. */
struct fork_ask {
	enum fork_what          fk_what;
	int                     fk_n;		/* NR or N */
	int                     fk_batch;	/* NR, if not in batches */
	int                     fk_cut;
	const struct fork_tree *fk_tree;
	struct bench            fk_bench;	/* only b_p and b_name */
};

static inline int fork_usage(const char *name, const char *why)
{
	fprintf(stderr, "%s: %s\nusage:\n"
		"  %s empty NR P\n  %s batches NR B P\n  %s fib N CUT P\n"
		"  %s queens N CUT P\n  %s uts T1|T5 CUT P\n  %s skynet P\n"
		"seconds. NR threads, at once or B at a time; N to %d (fib) or "
		"%d (queens);\nCUT: see fork.h; P native threads, 1 if no "
		"thread is made\n", name, why, name, name, name, name, name,
		name, FORK_FIB_MAX, FORK_QUEENS_MAX);
	return BENCH_USAGE;
}

/* Tells whether the question is a plain recursion. */
static inline int fork_plain(const struct fork_ask *a)
{
	return (a->fk_what == FORK_FIB && a->fk_cut > a->fk_n) ||
		((a->fk_what == FORK_QUEENS || a->fk_what == FORK_UTS) &&
		 a->fk_cut == 0);
}

static inline const char *fork_range(const struct fork_ask *a)
{
	if (a->fk_what == FORK_FIB && a->fk_n > FORK_FIB_MAX)
		return "N is too large";
	if (a->fk_what == FORK_QUEENS && a->fk_n > FORK_QUEENS_MAX)
		return "N is too large";
	if (a->fk_what == FORK_QUEENS && a->fk_cut > a->fk_n)
		return "there are no CUT rows";
	if (fork_plain(a) && a->fk_bench.b_p != 1)
		return "no thread is made: P is 1";
	return NULL;
}

static inline const struct fork_tree *fork_tree_of(const char *name)
{
	static const struct fork_tree tree[] = {
		{ "T1", 0, 10, 4, 19, 4130071 },
		{ "T5", 1, 20, 4, 34, 4147582 }
	};
	int i;

	for (i = 0; i < (int)(sizeof tree / sizeof tree[0]); i++)
		if (strcmp(name, tree[i].ft_name) == 0)
			return &tree[i];
	return NULL;
}

/* Reads the numbers of this question, which must be all arguments. */
static inline int fork_numbers(struct fork_ask *a, int argc, char **argv)
{
	int *const n = &a->fk_n, *const b = &a->fk_batch;
	int *const cut = &a->fk_cut, *const p = &a->fk_bench.b_p;
	/* The numbers of each form, in order. */
	int *const form[][4] = {
		{ n, p }, { n, b, p }, { n, cut, p }, { n, cut, p }, { cut, p },
		{ p }
	};
	int i;

	for (i = 0; i < 4 && form[a->fk_what][i] != NULL; i++) {
		int *at = form[a->fk_what][i];
		int min = at != cut && (at != n || a->fk_what != FORK_FIB);

		if (i >= argc || !bench_number(argv[i], min, at))
			return 0;
	}
	return i == argc;
}

/* Reads a question. Returns what is wrong with it, or NULL. */
static inline const char *fork_read(struct fork_ask *a, int argc, char **argv)
{
	static const char *const word[] = {
		"empty", "batches", "fib", "queens", "uts", "skynet"
	};
	int what = 0;

	while (what < FORK_NR && (argc < 2 || strcmp(argv[1], word[what]) != 0))
		what++;
	if (what == FORK_NR)
		return "what?";
	a->fk_what = (enum fork_what)what;
	argv += 2;
	argc -= 2;
	if (what == FORK_UTS) {
		a->fk_tree = argc > 0 ? fork_tree_of(argv[0]) : NULL;
		if (a->fk_tree == NULL)
			return "which tree?";
		argv++;
		argc--;
	}
	if (!fork_numbers(a, argc, argv))
		return "too few or too many arguments, or out of range";
	if (what == FORK_EMPTY)
		a->fk_batch = a->fk_n;
	return fork_range(a);
}

/* Reads the question. Returns 0, or BENCH_USAGE, having printed why. */
static inline int fork_args(struct fork_ask *a, int argc, char **argv)
{
	const char *why;

	memset(a, 0, sizeof *a);
	a->fk_bench.b_name = argv[0];
	why = fork_read(a, argc, argv);
	return why == NULL ? 0 : fork_usage(argv[0], why);
}

static inline long fork_fib_known(int n)
{
	long a = 0;
	long b = 1;

	while (n-- > 0) {
		b += a;
		a  = b - a;
	}
	return a;
}

/* Returns the right result. */
static inline long fork_known(const struct fork_ask *a)
{
	static const long queens[FORK_QUEENS_MAX + 1] = {
		1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200, 73712,
		365596, 2279184, 14772512
	};

	switch (a->fk_what) {
	case FORK_FIB:
		return fork_fib_known(a->fk_n);
	case FORK_QUEENS:
		return queens[a->fk_n];
	case FORK_UTS:
		return a->fk_tree->ft_nodes;
	case FORK_SKYNET:
		return FORK_SKY_LEAVES * (FORK_SKY_LEAVES - 1L) / 2;
	default:
		return a->fk_n;
	}
}

/* Prints the seconds, if the result is right. Returns the exit status. */
static inline int fork_report(const struct fork_ask *a, long result,
			      double seconds)
{
	if (result != fork_known(a)) {
		fprintf(stderr, "%s: the result is %ld, and should be %ld\n",
			a->fk_bench.b_name, result, fork_known(a));
		return BENCH_FAILED;
	}
	printf("%f\n", seconds);
	return 0;
}

/* Not inlined: gcc would inline ten levels, and other compilers would not. */
static __attribute__((noinline)) long fork_fib(int n)
{
	return n < 2 ? n : fork_fib(n - 1) + fork_fib(n - 2);
}

/* Squares that queens attack in this row: by columns, and by two diagonals. */
struct fork_board {
	unsigned fb_free;	/* squares that are not attacked */
	unsigned fb_column;
	unsigned fb_left;
	unsigned fb_right;
};

/*
 * fork_no_queens(): an empty board of n columns. Next, b with a queen at bit.
 */
static inline struct fork_board fork_no_queens(int n)
{
	struct fork_board b = { (1U << n) - 1, 0, 0, 0 };

	return b;
}

static inline struct fork_board fork_place(struct fork_board b, int n,
					   unsigned bit)
{
	b.fb_column |= bit;
	b.fb_left    = (b.fb_left | bit) << 1;
	b.fb_right   = (b.fb_right | bit) >> 1;
	b.fb_free    = ~(b.fb_column | b.fb_left | b.fb_right) &
		((1U << n) - 1);
	return b;
}

/* Returns in how many ways this row and the rows below can be filled. */
static long fork_queens(struct fork_board b, int n, int row)
{
	unsigned left;
	long sum = 0;

	if (row == n)
		return 1;
	for (left = b.fb_free; left != 0; left &= left - 1)
		sum += fork_queens(fork_place(b, n, left & -left), n, row + 1);
	return sum;
}

static inline uint32_t fork_rotate(uint32_t x, int bits)
{
	return x << bits | x >> (32 - bits);
}

/* Returns word i of the schedule; the last sixteen words are kept. */
static inline uint32_t fork_word(uint32_t *w, int i)
{
	if (i >= 16)
		w[i & 15] = fork_rotate(w[(i + 13) & 15] ^ w[(i + 8) & 15] ^
					w[(i + 2) & 15] ^ w[i & 15], 1);
	return w[i & 15];
}

/*
 * A round on h[0] to h[4], which FIPS 180-4, 6.1.2, calls a to e. Instead of
 * moving all words, each round gives them other names, shifted by i.
 */
#define FORK_AT(k)	h[((k) + 80 - i) % 5]
#define FORK_ROUND(F, K) do {						\
	uint32_t b = FORK_AT(1), c = FORK_AT(2), d = FORK_AT(3);	\
									\
	FORK_AT(4) += fork_rotate(FORK_AT(0), 5) + (F) + (K) +		\
		fork_word(w, i);					\
	FORK_AT(1)  = fork_rotate(b, 30);				\
} while (0)
#define FORK_UNROLL	_Pragma("GCC unroll 20")

/* SHA-1 of nr words of text, at most 13, so there is one block. Unrolled. */
static inline void fork_sha1(uint32_t *hash, const uint32_t *text, int nr)
{
	static const uint32_t first[FORK_HASH] = {
		0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0
	};
	uint32_t h[FORK_HASH];
	uint32_t w[16] = { 0 };
	int i;

	memcpy(h, first, sizeof h);
	memcpy(w, text, nr * sizeof w[0]);
	w[nr] = 0x80000000;
	w[15] = nr * 32;
	FORK_UNROLL
	for (i = 0; i < 20; i++)
		FORK_ROUND((b & c) | (~b & d), 0x5a827999);
	FORK_UNROLL
	for (i = 20; i < 40; i++)
		FORK_ROUND(b ^ c ^ d, 0x6ed9eba1);
	FORK_UNROLL
	for (i = 40; i < 60; i++)
		FORK_ROUND((b & c) | (b & d) | (c & d), 0x8f1bbcdc);
	FORK_UNROLL
	for (i = 60; i < 80; i++)
		FORK_ROUND(b ^ c ^ d, 0xca62c1d6);
	for (i = 0; i < FORK_HASH; i++)
		hash[i] = h[i] + first[i];
}

/* The tree that fork_uts() searches. */
static double fork_log[32];	/* by depth: the logarithm of 1 - p */

/* Prepares a search, before all other calls. hash becomes the root's. */
static inline void fork_uts_root(const struct fork_tree *t, uint32_t *hash)
{
	uint32_t text[FORK_HASH] = { 0, 0, 0, 0, (uint32_t)t->ft_seed };
	int d;

	for (d = 0; d <= t->ft_depth; d++) {
		double fan = t->ft_linear ?
			t->ft_fan * (1.0 - (double)d / t->ft_depth) :
			d < t->ft_depth ? t->ft_fan : 0;

		fork_log[d] = log(1 - 1 / (1 + fan));	/* or -infinity */
	}
	fork_sha1(hash, text, FORK_HASH);
}

/* Computes the hash of child i. */
static inline void fork_uts_child(uint32_t *hash, const uint32_t *parent, int i)
{
	uint32_t text[FORK_HASH + 1];

	memcpy(text, parent, FORK_HASH * sizeof text[0]);
	text[FORK_HASH] = (uint32_t)i;
	fork_sha1(hash, text, FORK_HASH + 1);
}

/*
 * Returns the number of children, geometrically distributed; never too large
 * here.
 */
static inline int fork_uts_fan(const uint32_t *hash, int depth)
{
	double u = (hash[FORK_HASH - 1] & INT32_MAX) / 2147483648.0;

	return (int)(log(1 - u) / fork_log[depth]);
}

/* Returns the number of nodes in the subtree of this node. */
static long fork_uts(const uint32_t *hash, int depth)
{
	int  nr  = fork_uts_fan(hash, depth);
	long sum = 1;
	int  i;

	for (i = 0; i < nr; i++) {
		uint32_t child[FORK_HASH];

		fork_uts_child(child, hash, i);
		sum += fork_uts(child, depth + 1);
	}
	return sum;
}

/* Runs the plain recursion. Returns the exit status. */
static inline int fork_run_plain(const struct fork_ask *a)
{
	uint32_t hash[FORK_HASH];
	double start = bench_now();
	long result;

	switch (a->fk_what) {
	case FORK_FIB:
		result = fork_fib(a->fk_n);
		break;
	case FORK_QUEENS:
		result = fork_queens(fork_no_queens(a->fk_n), a->fk_n, 0);
		break;
	default:
		fork_uts_root(a->fk_tree, hash);
		result = fork_uts(hash, 0);
		break;
	}
	return fork_report(a, result, bench_now() - start);
}

#endif /* FORK_H */
