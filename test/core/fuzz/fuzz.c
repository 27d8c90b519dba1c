/* SPDX-License-Identifier: MIT */
/* fuzz.c: cases: made from a seed, a line, or a corpus; and their failures. */

/*
 *	fuzz run SECONDS SEED [JOBS]	new cases; 0 seconds: forever
 *	fuzz corpus FILE		the lines of the file
 *	fuzz replay LINE [TIMES]	one case
 *	fuzz kinds FILE			kinds of events in the lines of the file
 *
 * A case is a line of words, name=value. A word that is missing is 0, or all
 * kinds.
 *
 *	seed	of all random numbers		lives	that are there at first
 *	sched	fifo lifo random rr ll		len	bytes of a program
 *	lanes	bare: 0 is the native lane;	kinds	mask of allowed kinds
 *		rr, ll: not 0 is few		skip	mask of lives left out
 *	procs	of rr, ll			with	flags, by commas
 *
 * Cases run in children, so a crash or a hang is a result like any other. A
 * case that fails is made smaller, by trying shorter lines. In the environment:
 * FUZZ_FOUND, a file to which the line is appended; FUZZ_REPLAY, text to print
 * before the line; WATCHDOG, seconds after which a case hangs.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "fuzz.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <fcntl.h>
#include <unistd.h>

#define JOBS_MAX	64
#define TEXT		640
#define HANG		60		/* seconds */
#define HANG_SMALL	5		/* when a case is made smaller */
#define SMALLER		20		/* seconds to make a case smaller */
#define TICK		100		/* microseconds */
#define COUNT(array)	((int)(sizeof(array) / sizeof((array)[0])))

const char *const fuzz_name[] = {
#define K(name)	#name,
	KINDS(K) EVENTS(K)
#undef K
};

static const char *const sched_name[] = {
	"fifo", "lifo", "random", "rr", "ll"
};

static const char *const flag_name[] = {
#define K(name)	#name,
	FLAGS(K)
#undef K
};

/* The case of a child, and its message. */
struct slot {
	long s_cases;
	char s_line[TEXT];
	char s_why[TEXT];
};

/* Memory that the children share. */
static struct shared {
	long        count[COUNT_NR];
	struct slot slot[JOBS_MAX];
} *shared;

static struct slot *mine;	/* of this child */

static void usage(void)
{
	fprintf(stderr, "usage: see the head of fuzz.c\n");
	exit(2);
}

/* Calls for the other files. */

void fuzz_count(int kind)
{
	__atomic_add_fetch(&shared->count[kind], 1, __ATOMIC_RELAXED);
}

void fuzz_fail(const char *what)
{
	if (mine->s_why[0] == 0)
		snprintf(mine->s_why, TEXT, "%s", what);
	_exit(1);
}

/* Signals: their handler uses much stack, and writes to all of it. */

static __thread volatile int levels;
static __thread volatile unsigned much;

static NOINLINE void dirty(unsigned nob)
{
	volatile unsigned char array[nob];
	unsigned i;

	for (i = 0; i < nob; i += 4)
		array[i] = 0xdd;
	MUST(array[0] == 0xdd);
}

static long now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_nsec;
}

static void handler(int signo)
{
	int err = errno;
	unsigned how = much;

	much = 0;		/* so a signal raises at most one more */
	levels++;
	if (signo == SIGALRM) {
		fuzz_count(K_tick);
		how = (unsigned)now_ns();
	}
	dirty(64 + how % 64 * 100);
	if (levels > 1)
		fuzz_count(K_nested_signal);
	else if (how % 4 == 1)
		raise(SIGUSR2);
	else if (how % 4 == 2)
		raise(SIGUSR1);
	levels--;
	errno = err;
}

void fuzz_signal(unsigned how)
{
	much = how;
	raise(SIGUSR1);
}

static void handlers(void)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof sa);
	sa.sa_handler = handler;
	sa.sa_flags   = SA_RESTART | SA_NODEFER;
	MUST(sigaction(SIGUSR1, &sa, NULL) == 0);
	MUST(sigaction(SIGUSR2, &sa, NULL) == 0);
	MUST(sigaction(SIGALRM, &sa, NULL) == 0);
}

static void ticks(int period)
{
	struct itimerval it;

	memset(&it, 0, sizeof it);
	it.it_interval.tv_usec = it.it_value.tv_usec = period;
	MUST(setitimer(ITIMER_REAL, &it, NULL) == 0);
}

/* Lines. */

static void flags_print(char *text, size_t nob, unsigned flags)
{
	const char *before = "";
	size_t at = 0;
	int i;

	text[0] = 0;
	for (i = 0; i < FLAG_NR; i++) {
		if ((flags >> i & 1) == 0)
			continue;
		at += snprintf(text + at, nob - at, "%s%s", before,
			       flag_name[i]);
		before = ",";
	}
}

static void print(char *text, size_t nob, const struct trace *c)
{
	char flags[128];

	flags_print(flags, sizeof flags, c->c_flags);
	snprintf(text, nob, "seed=%#llx sched=%s lanes=%d procs=%d lives=%d "
		 "len=%d kinds=%#llx skip=%#llx with=%s",
		 (unsigned long long)c->c_seed, sched_name[c->c_sched],
		 c->c_lanes, c->c_procs, c->c_lives, c->c_len,
		 (unsigned long long)c->c_kinds, (unsigned long long)c->c_skip,
		 flags);
}

static int find(const char *const *names, int nr, const char *name, size_t len)
{
	int i;

	for (i = 0; i < nr; i++) {
		if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
			return i;
	}
	fprintf(stderr, "fuzz: what is \"%.*s\"?\n", (int)len, name);
	exit(2);
}

static unsigned flags_parse(const char *text)
{
	unsigned flags = 0;
	size_t len;

	for (; *text != 0; text += len + (text[len] != 0)) {
		len = strcspn(text, ",");
		flags |= 1u << find(flag_name, FLAG_NR, text, len);
	}
	return flags;
}

static void word(struct trace *c, const char *name, const char *value)
{
	unsigned long long nr = strtoull(value, NULL, 0);

	if (strcmp(name, "seed") == 0)
		c->c_seed = nr;
	else if (strcmp(name, "sched") == 0)
		c->c_sched = find(sched_name, SCHED_NR, value, strlen(value));
	else if (strcmp(name, "lanes") == 0)
		c->c_lanes = (int)nr;
	else if (strcmp(name, "procs") == 0)
		c->c_procs = (int)nr;
	else if (strcmp(name, "lives") == 0)
		c->c_lives = (int)nr;
	else if (strcmp(name, "len") == 0)
		c->c_len = (int)nr;
	else if (strcmp(name, "kinds") == 0)
		c->c_kinds = nr;
	else if (strcmp(name, "skip") == 0)
		c->c_skip = nr;
	else if (strcmp(name, "with") == 0)
		c->c_flags = flags_parse(value);
	else
		(void)find(NULL, 0, name, strlen(name));
}

/* Reads a line. False: it is only a comment. */
static int parse(struct trace *c, const char *line)
{
	char text[TEXT], *at, *value, *more = NULL;

	memset(c, 0, sizeof *c);
	c->c_kinds = ~0ull;
	c->c_procs = c->c_lives = 1;
	snprintf(text, sizeof text, "%s", line);
	text[strcspn(text, "#\n")] = 0;
	at = strtok_r(text, " \t", &more);
	if (at == NULL)
		return 0;
	for (; at != NULL; at = strtok_r(NULL, " \t", &more)) {
		value = strchr(at, '=');
		if (value == NULL)
			usage();
		*value = 0;
		word(c, at, value + 1);
	}
	return 1;
}

/* Random cases. */

static unsigned flags_any(unsigned *state)
{
	unsigned flags = 0;

	if (pick(state, 3) == 0)
		flags |= F_nomem;
	if (pick(state, 3) == 0)
		flags |= F_reenter;
	if (pick(state, 8) == 0)
		flags |= F_timer;
	if (pick(state, 3) == 0)
		flags |= F_noise;
	if (pick(state, 4) == 0)
		flags |= F_pin;
	if (pick(state, 4) == 0)
		flags |= F_drop;
	if (pick(state, 4) == 0)
		flags |= F_outer;
	if (pick(state, 4) == 0)
		flags |= F_private;
	return flags;
}

static void any(struct trace *c, uint64_t seed)
{
	static const int lanes[] = { 0, 0, 1, 1, 2, 3, 16, 64 };
	unsigned s = (unsigned)mix(seed, 4242);

	memset(c, 0, sizeof *c);
	c->c_seed  = seed;
	c->c_kinds = ~0ull;
	if (pick(&s, 4) == 0)
		c->c_kinds = mix(seed, 1) | mix(seed, 2) | 1;
	c->c_sched = (int)pick(&s, 3);
	c->c_lanes = lanes[pick(&s, COUNT(lanes))];
	c->c_procs = 1;
	c->c_flags = flags_any(&s);
	if (pick(&s, 5) == 0) {
		c->c_sched  = S_RR + (int)pick(&s, 2);
		c->c_lanes  = pick(&s, 3) == 0;
		c->c_procs  = 1 + (int)pick(&s, 2);
		c->c_flags &= F_timer | F_outer | F_private;
	} else
		c->c_flags &= ~F_outer;
	c->c_lives = 1 + (int)pick(&s, pick(&s, 4) != 0 ? 12 : 60);
	c->c_len   = 4 << pick(&s, c->c_lives < 20 ? 8 : 5);
	/* More lives than rr and ll first have room for, or than lanes. */
	if (pick(&s, c->c_sched < S_RR ? 64 : 8) == 0) {
		c->c_lives = 70 + (int)pick(&s, 300);
		c->c_len   = 4 << pick(&s, 5);
	}
}

/* Runs a case. */

static struct life *root(struct world *w, int nr)
{
	const struct trace *c = w->w_trace;
	uint64_t seed = mix(c->c_seed, nr);
	struct life *l;

	if (nr < 64 && (c->c_skip >> nr & 1))
		return NULL;
	l = life_new(w, seed, 1 + (int)(mix(seed, 3) % (unsigned)c->c_len));
	l->l_doomed = (c->c_flags & F_drop) && mix(seed, 8) % 2 == 0;
	return l;
}

static void compare(const struct life *l, int nr)
{
	int i;

	if (l->l_ended != 1 || l->l_result != l->l_want ||
	    l->l_blocks != l->l_want_blocks) {
		snprintf(mine->s_why, TEXT, "life %d, generation %d: ended %d "
			 "times, with %#llx, not %#llx, after %ld blocks, not "
			 "%ld", nr, l->l_generation, l->l_ended,
			 (unsigned long long)l->l_result,
			 (unsigned long long)l->l_want, l->l_blocks,
			 l->l_want_blocks);
		_exit(1);
	}
	for (i = 0; i < CHILDREN && l->l_child[i] != NULL; i++)
		compare(l->l_child[i], nr);
}

static void world_open(struct world *w, const struct trace *c)
{
	int i;

	memset(w, 0, sizeof *w);
	w->w_trace  = c;
	w->w_random = (unsigned)mix(c->c_seed, 7);
	w->w_life   = (struct life **)calloc(c->c_lives, sizeof *w->w_life);
	MUST(w->w_life != NULL);
	for (i = 0; i < c->c_lives; i++) {
		w->w_life[i] = root(w, i);
		if (w->w_life[i] != NULL)
			life_plain(w->w_life[i]);
	}
	w->w_pending_max = 8 * w->w_total;
	w->w_pending = (struct life **)calloc(w->w_pending_max + 1,
					      sizeof *w->w_pending);
	MUST(w->w_pending != NULL);
	w->w_alive = w->w_total;
}

static void world_close(struct world *w)
{
	int i;

	MUST(w->w_pending_nr == 0);
	for (i = 0; i < w->w_trace->c_lives; i++) {
		if (w->w_life[i] == NULL)
			continue;
		compare(w->w_life[i], i);
		life_free(w->w_life[i]);
	}
	free(w->w_life);
	free(w->w_pending);
}

static void run(const struct trace *c)
{
	struct world w;
	unsigned fp = fp_now();

	world_open(&w, c);
	if (c->c_flags & F_timer)
		ticks(TICK);
	if (c->c_sched < S_RR)
		bare_run(&w);
	else
		procs_run(&w);
	ticks(0);
	MUST(fp_now() == fp);
	MUST(ustack_self() == NULL);
	world_close(&w);
}

/* Children. */

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static int hang(void)
{
	const char *env = getenv("WATCHDOG");

	return env != NULL && atoi(env) > 0 ? atoi(env) : HANG;
}

static pid_t child(struct slot *s)
{
	const struct rlimit none = { 0, 0 };
	pid_t pid;

	s->s_cases = 0;
	s->s_why[0] = 0;
	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		perror("fuzz: fork");
		exit(2);
	}
	if (pid == 0) {
		mine = s;
		setrlimit(RLIMIT_CORE, &none);
		handlers();
	}
	return pid;
}

/* Explains the status of a child that has left no message. */
static void explain(struct slot *s, int status)
{
	if (s->s_why[0] != 0)
		return;
	if (WIFSIGNALED(status))
		snprintf(s->s_why, TEXT, "died by signal %d",
			 WTERMSIG(status));
	else
		snprintf(s->s_why, TEXT, "exited with %d", WEXITSTATUS(status));
}

static void nap(void)
{
	struct timespec ts = { 0, 2000000 };

	nanosleep(&ts, NULL);
}

/* Waits for a child. 0: it has ended well. */
static int wait_for(pid_t pid, struct slot *s, double seconds)
{
	double end = now() + seconds;
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (now() > end) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			snprintf(s->s_why, TEXT, "hangs");
			return 1;
		}
		nap();
	}
	if (status == 0)
		return 0;
	explain(s, status);
	return 1;
}

static void quiet(void)
{
	int fd = open("/dev/null", O_WRONLY);

	if (fd >= 0)
		dup2(fd, STDERR_FILENO);
}

/* Tells whether the case fails, in any of so many runs. */
static int fails(const struct trace *c, int times, double seconds, int loud)
{
	struct slot *s = &shared->slot[JOBS_MAX - 1];
	pid_t pid = child(s);
	int i;

	if (pid == 0) {
		if (!loud)
			quiet();
		for (i = 0; i < times; i++)
			run(c);
		_exit(0);
	}
	return wait_for(pid, s, seconds);
}

/* Smaller cases. */

static struct trace best;
static double smaller_end;

static int try_less(const struct trace *c)
{
	int times = best.c_sched >= S_RR || (best.c_flags & F_timer) ? 20 : 1;

	if (now() > smaller_end || memcmp(c, &best, sizeof best) == 0 ||
	    !fails(c, times, HANG_SMALL, 0))
		return 0;
	best = *c;
	return 1;
}

static void less_flags(void)
{
	struct trace c;
	int i;

	for (i = 0; i < FLAG_NR; i++) {
		c = best;
		c.c_flags &= ~(1u << i);
		(void)try_less(&c);
	}
	c = best;
	c.c_procs = 1;
	(void)try_less(&c);
}

static void less_lives(void)
{
	struct trace c = best;
	int i;

	while (c.c_lives > 1) {
		c.c_lives /= 2;
		if (!try_less(&c))
			break;
	}
	for (i = 0; i < best.c_lives && i < 64; i++) {
		c = best;
		c.c_skip |= (uint64_t)1 << i;
		(void)try_less(&c);
	}
}

/* A shorter length makes other programs, so this is only a try. */
static void less_bytes(void)
{
	struct trace c = best;

	for (; c.c_len > 1; ) {
		c.c_len /= 2;
		if (!try_less(&c))
			break;
	}
}

static void less_kinds(void)
{
	struct trace c;
	int i;

	c = best;
	c.c_kinds &= ((uint64_t)1 << KIND_NR) - 1;
	best = c;
	for (i = 0; i < KIND_NR; i++) {
		c = best;
		c.c_kinds &= ~((uint64_t)1 << i);
		(void)try_less(&c);
	}
}

static void smaller(const struct trace *c)
{
	best = *c;
	smaller_end = now() + SMALLER;
	if (!fails(c, 20, HANG_SMALL, 0)) {
		printf("it does not fail each time\n");
		return;
	}
	less_flags();
	less_lives();
	less_bytes();
	less_kinds();
	less_lives();
}

static void failed(const char *line, const char *why)
{
	const char *found = getenv("FUZZ_FOUND");
	const char *replay = getenv("FUZZ_REPLAY");
	char less[TEXT];
	struct trace c;
	FILE *file;

	printf("FAILED: %s\ncase: %s\n", why, line);
	fflush(stdout);
	if (!parse(&c, line))
		return;
	smaller(&c);
	print(less, sizeof less, &best);
	printf("smaller: %s\n", less);
	printf("replay: %s '%s'\n", replay ? replay : "fuzz replay", less);
	file = found != NULL ? fopen(found, "a") : NULL;
	if (file == NULL)
		return;
	fprintf(file, "%s # %s\n%s # smaller\n", line, why, less);
	fclose(file);
}

/* New cases. */

static void work(struct slot *s, uint64_t seed, double end, pid_t parent)
{
	struct trace c;

	while ((end == 0 || now() < end) && getppid() == parent) {
		any(&c, mix(seed, s->s_cases));
		print(s->s_line, TEXT, &c);
		run(&c);
		s->s_cases++;
	}
	_exit(0);
}

struct job {
	pid_t  j_pid;
	long   j_cases;
	double j_since;		/* when j_cases last changed */
};

/* Looks at a job. 1: it has failed; -1: it has ended; 0: it goes on. */
static int look(struct job *j, struct slot *s, int watchdog)
{
	int status;

	if (waitpid(j->j_pid, &status, WNOHANG) == j->j_pid) {
		j->j_pid = 0;
		if (status != 0)
			explain(s, status);
		return status != 0 ? 1 : -1;
	}
	if (s->s_cases != j->j_cases) {
		j->j_cases = s->s_cases;
		j->j_since = now();
	}
	if (now() - j->j_since < watchdog)
		return 0;
	snprintf(s->s_why, TEXT, "hangs");
	return 1;
}

static void end_all(struct job *job, int nr)
{
	while (nr-- > 0) {
		if (job[nr].j_pid == 0)
			continue;
		kill(job[nr].j_pid, SIGKILL);
		waitpid(job[nr].j_pid, NULL, 0);
	}
}

static int random_cases(double seconds, uint64_t seed, int jobs)
{
	struct job job[JOBS_MAX] = { { 0, 0, 0 } };
	double end = seconds > 0 ? now() + seconds : 0;
	int watchdog = hang(), left = jobs, i, rc;
	pid_t self = getpid();
	long cases = 0;

	printf("fuzz: seed %llu, %d jobs\n", (unsigned long long)seed, jobs);
	for (i = 0; i < jobs; i++) {
		job[i].j_since = now();
		job[i].j_pid = child(&shared->slot[i]);
		if (job[i].j_pid == 0)
			work(&shared->slot[i], mix(seed, i), end, self);
	}
	for (i = 0; left > 0; i = (i + 1) % jobs) {
		if (i == 0)
			nap();
		rc = job[i].j_pid != 0 ? look(&job[i], &shared->slot[i],
					      watchdog) : 0;
		left -= rc < 0;
		if (rc > 0) {
			end_all(job, jobs);
			failed(shared->slot[i].s_line, shared->slot[i].s_why);
			return 1;
		}
	}
	for (i = 0; i < jobs; i++)
		cases += shared->slot[i].s_cases;
	printf("%ld cases, %ld blocks, %ld copies\n", cases,
	       shared->count[K_block], shared->count[K_copy]);
	return cases == 0;
}

/* A corpus. */

/* Tells whether this kind of event is possible in this build. */
static int possible(int kind)
{
	struct usched s;
	int lanes;

	memset(&s, 0, sizeof s);
	lanes = usched_lanes(&s, 1, 65536) == 0;
	usched_fini(&s);
	switch (kind) {
#if defined(__SANITIZE_THREAD__)	/* which masks all signals in handlers */
	case K_nested_signal:	return 0;
#endif
	case K_throw:		return fuzz_cxx;
	case K_moved:		return lanes;
	case K_private_lane:	return lanes && usched_private_most(1) > 0;
	case K_few_lanes:
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
		return 0;
#endif
		return lanes && sizeof(void *) == 8;
	case K_prologue_words:
#if defined(USCHED_HARD) || !defined(__OPTIMIZE__) || !defined(__x86_64__)
		return 0;
#endif
		return lanes;
	default:		return 1;
	}
}

/* Returns how many kinds never happened, and so were not tested. */
static int vacuous(void)
{
	int i, nr = 0;

	for (i = 0; i < COUNT_NR; i++) {
		if (shared->count[i] != 0 || !possible(i))
			continue;
		printf("FAILED: never in the corpus: %s\n", fuzz_name[i]);
		nr++;
	}
	return nr;
}

static int corpus(const char *path)
{
	FILE *file = fopen(path, "r");
	int passed = 0, failures = 0;
	char line[TEXT];
	struct trace c;

	if (file == NULL) {
		perror(path);
		return 2;
	}
	while (fgets(line, sizeof line, file) != NULL) {
		if (!parse(&c, line))
			continue;
		if (!fails(&c, 1, hang(), 1)) {
			passed++;
			continue;
		}
		if (failures++ == 0)
			failed(line, shared->slot[JOBS_MAX - 1].s_why);
		else
			printf("FAILED, too: %s", line);
	}
	fclose(file);
	if (failures == 0)
		failures = vacuous();
	printf("%d passed, %d failed\n", passed, failures);
	return failures != 0;
}

static int kinds(const char *path)
{
	int rc = corpus(path), i;

	for (i = 0; i < COUNT_NR; i++)
		printf("%9ld %s\n", shared->count[i], fuzz_name[i]);
	return rc;
}

static int replay(const char *line, int times)
{
	struct trace c;

	if (!parse(&c, line))
		usage();
	if (!fails(&c, times, hang(), 1)) {
		printf("passed\n");
		return 0;
	}
	printf("FAILED: %s\n", shared->slot[JOBS_MAX - 1].s_why);
	return 1;
}

int main(int argc, char **argv)
{
	shared = (struct shared *)mmap(NULL, sizeof *shared,
				       PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) {
		perror("fuzz: mmap");
		return 2;
	}
	mine = &shared->slot[JOBS_MAX - 1];
	if (argc >= 4 && strcmp(argv[1], "run") == 0)
		return random_cases(atof(argv[2]), strtoull(argv[3], NULL, 0),
				    argc > 4 ? atoi(argv[4]) : 2);
	if (argc == 3 && strcmp(argv[1], "corpus") == 0)
		return corpus(argv[2]);
	if (argc == 3 && strcmp(argv[1], "kinds") == 0)
		return kinds(argv[2]);
	if (argc >= 3 && strcmp(argv[1], "replay") == 0)
		return replay(argv[2], argc > 3 ? atoi(argv[3]) : 20);
	usage();
}
