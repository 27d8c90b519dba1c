/* SPDX-License-Identifier: MIT */
/* core/openmp.h: ends a program whose thread waits within a region of OpenMP. */

/*
 * OPENMP
 *
 * A runtime of OpenMP keeps for each native thread in which parallel region that
 * is: its team, its number there, the level of nesting. A thread that waits within
 * a region leaves this state to the next thread of its processor. That thread, or
 * a thread of ws that goes on in another native thread, then works with the wrong
 * team, and sums are wrong without a word.
 *
 * omp_get_level() tells how many regions are around the caller. So a run of a
 * dispatcher notes the level at which it begins (s_region), and each block
 * compares. If the level is higher, the frames of the thread that blocks hold the
 * region: the program ends with a message, which names the thread, on the stack of
 * that thread. That is a proof:
 *
 *   - The regions around the run are there until the run ends, so the level is
 *     never lower than at its begin.
 *   - What has raised the level since has run on this native thread. Of the threads
 *     that have blocked there none was in a region, or the program would have ended.
 *     A thread that has returned had left its regions, as OpenMP permits no jump out
 *     of a region. ustack_abort() is such a jump, and asks, too. A longjmp() out of
 *     a region, within a thread, breaks the same rule; if the level stays high after
 *     that, the message names the next thread that blocks.
 *   - Native threads of a team have a level of their own. If they run dispatchers,
 *     these begin at that level, and their threads may block. So may the threads of
 *     a dispatcher that a thread runs within its region: the outer thread does not
 *     block meanwhile.
 *
 * The timer of upreempt.h asks, too, and does not preempt a thread in a region.
 *
 * COST
 *
 * Without OpenMP there is none in a block where the thread blocked before. A block
 * that ends in block_special() loads s_openmp. If a dispatcher has found a runtime, no
 * control words are as expected (fp_never()), so that each block ends there, or in
 * block_unexpected(), and asks.
 *
 * WHICH RUNTIMES
 *
 * The first run of each dispatcher looks for objects that export omp_get_level(), by
 * the tables that the loader has of all that is loaded, also by dlopen() with
 * RTLD_LOCAL. The loader counts what it has loaded. If that has not changed the look
 * is a call of the loader. A runtime that is found is never unloaded. If there is
 * none, the program itself may have the function (-static).
 *
 * A question lets libomp begin to work, and it fails if another libomp has begun
 * before. So it is asked only when it has begun: __kmpc_global_num_threads() is not 0.
 * It then notes each native thread that asks for the first time, which stays on its
 * cpus until it begins a region.
 *
 * NOT FOUND
 *
 *   - A runtime that comes by dlopen() after the first run of the dispatcher.
 *   - A wait within a task, or a loop that is shared dynamically, outside of any
 *     parallel region: the level is 0. A wait within `omp critical': it is a native
 *     lock.
 *   - A runtime without DT_GNU_HASH.
 *   - What clang keeps over a wait under ws: functions with a region ask for the
 *     number of their native thread as they begin, and give that to each call.
 *
 * REJECTED
 *
 *   - A link before s_next() (uchain.h): it ends the preparation of threads, sees
 *     neither steps nor plain dispatchers, and knows only that some thread has
 *     stopped.
 *   - A look in the calls that wait, next to UWAIT_WATCHED: yields, and waits of
 *     schedulers and programs of their own, have no such load.
 *   - OMPT, which calls a tool as regions begin: libgomp does not have it.
 *   - dlsym(): in older glibc in a library of its own, and with RTLD_LOCAL it wants
 *     a handle, whose name would have to be guessed.
 */

/* Runtimes in a process, at most. */
#define OPENMP_MOST	4

struct openmp {
	int (*o_level)(void);		/* omp_get_level() */
	int (*o_begun)(void *);		/* __kmpc_global_num_threads(), or NULL */
};

static struct openmp openmp[OPENMP_MOST];
static int openmp_nr;			/* only grows (atomic) */

/* Returns how many regions of the first nr runtimes are around the caller. */
static int openmp_level(int nr)
{
	const struct openmp *o;
	int level = 0;

	for (o = openmp; o < openmp + nr; o++) {
		if (o->o_begun == NULL || o->o_begun(NULL) > 0)
			level += o->o_level();
	}
	return level;
}

/* For upreempt.c. */
HIDDEN int usched_in_region(const struct usched *s);

/* Does the running thread, of s, hold a region? */
NOINLINE int usched_in_region(const struct usched *s)
{
	return s->s_openmp != 0 && openmp_level(s->s_openmp) > s->s_region;
}

static NOINLINE NORETURN void openmp_fail(const struct ustack *u,
					  const char *what)
{
	struct message m = { .ms_nob = 0 };

	law_name(&m, u);
	message_add(&m, ": %s within a parallel region of OpenMP, which keeps its "
		    "state in the native thread, where other threads run meanwhile: "
		    "wait outside of the region, or put the region into ucall(); "
		    "see \"OpenMP\" in doc/guide.md", what);
	usched_fail(m.ms_text);
}

/* Fails if u, which runs, is in a region. */
static NOINLINE UNCHECKED void openmp_check(const struct ustack *u,
					    const char *what)
{
	if (usched_in_region(u->u_sched))
		openmp_fail(u, what);
}

static void openmp_begin(struct usched *s)
{
	int nr = __atomic_load_n(&openmp_nr, __ATOMIC_ACQUIRE);

	s->s_region = (short)openmp_level(nr);
	s->s_openmp = (short)nr;
}

static void openmp_end(struct usched *s)
{
	s->s_openmp = 0;
}

/* Adds a runtime, unless it is there. */
static void openmp_add(const struct openmp *o)
{
	static struct usched_hook hook = { openmp_begin, openmp_end, NULL, NULL };
	static int lock;			/* protects all of these */
	int i, nr;

	private_lock(&lock);
	nr = openmp_nr;
	for (i = 0; i < nr && openmp[i].o_level != o->o_level; i++)
		;
	if (i == nr && nr < OPENMP_MOST) {
		openmp[nr] = *o;
		__atomic_store_n(&openmp_nr, nr + 1, __ATOMIC_RELEASE);
		if (nr == 0) {
			fp_never();
			usched_hook(&hook);
		}
	}
	private_unlock(&lock);
}

#if defined(__ELF__)

#include <dlfcn.h>

__attribute__((weak)) extern int omp_get_level(void);
__attribute__((weak)) extern int __kmpc_global_num_threads(void *);
#pragma weak dlopen

/* What a look has found. */
struct openmp_look {
	unsigned long long ok_loads;	/* as the loader counts */
	int                ok_nr;
	char               ok_name[OPENMP_MOST][PATH_MAX / 8];
	struct openmp      ok_found[OPENMP_MOST];
};

static unsigned long long openmp_loads;	/* at the last look (atomic) */

/* Returns what an entry of the dynamic section points to: some are offsets. */
static const void *openmp_at(const struct dl_phdr_info *o, uintptr_t at)
{
	return (const void *)(at < o->dlpi_addr ? o->dlpi_addr + at : at);
}

/* Sets the tables of symbols, of their names, and of hashes, if o has them. */
static void openmp_tables(const struct dl_phdr_info *o, const void *table[3])
{
	const ElfW(Dyn) *d = NULL;
	int i;

	for (i = 0; i < o->dlpi_phnum; i++) {
		if (o->dlpi_phdr[i].p_type == PT_DYNAMIC)
			d = (const void *)(o->dlpi_addr + o->dlpi_phdr[i].p_vaddr);
	}
	for (; d != NULL && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			table[0] = openmp_at(o, d->d_un.d_ptr);
		else if (d->d_tag == DT_STRTAB)
			table[1] = openmp_at(o, d->d_un.d_ptr);
		else if (d->d_tag == DT_GNU_HASH)
			table[2] = openmp_at(o, d->d_un.d_ptr);
	}
}

/*
 * Returns the address of a function that o exports, or 0. The table of hashes:
 *
 *	| buckets, first symbol, words, shift | words of a filter | buckets | chains |
 *
 * A bucket has the number of its first symbol; the last of a chain is odd.
 */
static uintptr_t openmp_symbol(const struct dl_phdr_info *o, const char *name)
{
	const void *table[3] = { NULL, NULL, NULL };
	const ElfW(Sym) *symbol;
	const uint32_t *head, *bucket, *chain;
	const char *at;
	uint32_t hash = 5381, i;

	openmp_tables(o, table);
	symbol = table[0];
	head   = table[2];
	if (symbol == NULL || table[1] == NULL || head == NULL || head[0] == 0)
		return 0;
	for (at = name; *at != 0; at++)
		hash = hash * 33 + (unsigned char)*at;
	bucket = head + 4 + head[2] * (sizeof(uintptr_t) / sizeof *head);
	chain  = bucket + head[0];
	i = bucket[hash % head[0]];
	if (i < head[1])
		return 0;
	for (;; i++) {
		uint32_t have = chain[i - head[1]];

		if ((have | 1) == (hash | 1) &&
		    strcmp((const char *)table[1] + symbol[i].st_name, name) == 0)
			return o->dlpi_addr + symbol[i].st_value;
		if (have & 1)
			return 0;
	}
}

/* Called for all that is loaded, unless that is as at the last look. */
static int openmp_in(struct dl_phdr_info *o, size_t size, void *arg)
{
	struct openmp_look *k = arg;
	uintptr_t level;

	if (size >= offsetof(struct dl_phdr_info, dlpi_adds) + sizeof o->dlpi_adds)
		k->ok_loads = o->dlpi_adds;
	if (k->ok_loads != 0 && k->ok_loads ==
	    __atomic_load_n(&openmp_loads, __ATOMIC_RELAXED))
		return 1;
	level = openmp_symbol(o, "omp_get_level");
	if (level == 0 || strlen(o->dlpi_name) >= sizeof k->ok_name[0])
		return 0;
	k->ok_found[k->ok_nr] = (struct openmp) {
		(int (*)(void))level,
		(int (*)(void *))openmp_symbol(o, "__kmpc_global_num_threads")
	};
	strcpy(k->ok_name[k->ok_nr++], o->dlpi_name);
	return k->ok_nr == OPENMP_MOST;
}

/* Keeps an object from being unloaded. Returns whether it is still there. */
static int openmp_keep(const char *name)
{
	return *name == 0 || dlopen == NULL ||
	       dlopen(name, RTLD_LAZY | RTLD_NOLOAD) != NULL;
}

/* Looks for runtimes, if objects were loaded since the last look. */
static NOINLINE void openmp_look(void)
{
	struct openmp_look k = { .ok_loads = 0 };
	int i;

	if (getpid() != loaded_in || dl_iterate_phdr(openmp_in, &k) < 0)
		return;
	for (i = 0; i < k.ok_nr; i++) {
		if (openmp_keep(k.ok_name[i]))
			openmp_add(&k.ok_found[i]);
	}
	__atomic_store_n(&openmp_loads, k.ok_loads, __ATOMIC_RELAXED);
	if (omp_get_level != NULL && openmp_nr == 0)
		openmp_add(&(struct openmp) {
			omp_get_level, __kmpc_global_num_threads
		});
}

#elif defined(__APPLE__)

#include <dlfcn.h>

/* Looks for a runtime. */
static NOINLINE void openmp_look(void)
{
	const struct openmp o = {
		(int (*)(void))dlsym(RTLD_DEFAULT, "omp_get_level"),
		(int (*)(void *))dlsym(RTLD_DEFAULT, "__kmpc_global_num_threads")
	};

	if (o.o_level != NULL)
		openmp_add(&o);
}

#else

static void openmp_look(void)
{
}

#endif
