/* SPDX-License-Identifier: MIT */
/* VARIANTS: RR LL WS */
/*
 * law: a thread that uses the stack of another thread, which waits, ends the
 * program with a message, whether there is one such thread or thousands. The
 * message names the thread whose stack it is, its function and argument, and
 * the address. With the handler of faults it comes at once, also to a thread that
 * only reads a number, or gives a buffer there to u_read(); without, when the
 * thread whose stack it is goes on. With USCHED_LAW=warn the program goes on with what was written;
 * with off the library does not look. A program that keeps the law is never accused:
 * what is only a guess, as an argument that may never be used, has one line, and
 * the program goes on; bytes that are sent are not looked at.
 *
 * A thread that uses a pointer or a function it has read there, also on another
 * processor, or overflows its lane, ends the program with a message, and so does
 * a native thread that runs no thread: by a handler of SIGSEGV that is there
 * while the scheduler runs, if the program has none. A frame that is larger than
 * the guard, and ends on the stack of a thread that waits, is not taken for the
 * use of a pointer. One that destroys what is below all lanes has a message, too.
 */
#include "either.h"
#include "uchan.h"
#include "ugen.h"
#include "uio.h"
#include "uscope.h"
#include "usync.h"
#include "uthread.h"
#include <sys/resource.h>

#define MOST	2000
#define WROTE	0x5eed
#define SAYS	"its stack was written to while it waited (a frame "
#define WHY	" is on the stack of a thread, which is moved"
#define USED	" has used the stack of thread 0x"

/* Parents hand pointers to children in static storage: no maker sees them. */
static int many;
static int *handed[MOST];
static struct usem told[MOST];
static const char *how;		/* USCHED_LAW; with USCHED_GUARD read once a process */

static int bare;			/* no handler of faults */

static void set_how(void)
{
	CHECK(!bare || setenv("USCHED_GUARD", "0", 1) == 0);
	CHECK(how == NULL ? unsetenv("USCHED_LAW") == 0 :
	      setenv("USCHED_LAW", how, 1) == 0);
}

static void writes(void *arg)
{
	int nr = (int)((struct usem *)arg - told);

	*handed[nr] = WROTE;
	CHECK_IS(usem_post(arg), 0);
}

static void parent(void *arg)
{
	volatile int local = 1;
	int nr = (int)((struct usem *)arg - told);

	handed[nr] = (int *)&local;
	make(0, writes, arg);
	CHECK_IS(usem_wait(arg, UNEVER), 0);
	CHECK(local == WROTE || many > 1);
}

static void parents(void)
{
	int i;

	set_how();
	begin(1, 0);
	for (i = 0; i < many; i++)
		make(0, parent, &told[i]);
	start_and_finish();
}

/* The message names the parent: function and argument. */
static int by_number(int nr)
{
	char name[32], text[4096], function[64], argument[64];
	int status;

	many = nr;
	snprintf(name, sizeof name, "%d parents", nr);
	snprintf(function, sizeof function, "%p, ", (void *)parent);
	snprintf(argument, sizeof argument, "argument %p)%s", (void *)told,
		 bare ? ": " SAYS : ", which waits: 0x");
	status = check_child(parents, text, sizeof text);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
	    strstr(text, function) != NULL &&
	    strstr(text, bare ? SAYS : USED) != NULL &&
	    (nr > 1 || strstr(text, argument) != NULL))
		return 0;
	fprintf(stderr, "%s: status %#x, \"%s\"\n", name, (unsigned)status,
		text);
	return 1;
}

/* What was written is there, and one line says so. */
static void warned(void)
{
	char text[4096];
	int status;

	many = 1;
	how = "warn";
	status = check_child(parents, text, sizeof text);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(strstr(text, SAYS) != NULL);
	how = "off";
	status = check_child(parents, text, sizeof text);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0 && text[0] == 0);
	how = NULL;
}

/* The wait in a loop at which the child writes, and lawful threads before. */
static int at_turn, before;

static void writes_late(void *arg)
{
	int i;

	for (i = 0; i <= at_turn; i++) {
		if (i == at_turn)
			*handed[0] = WROTE;
		CHECK_IS(usem_post(arg), 0);
		yield();
	}
}

static void parent_late(void *arg)
{
	volatile int local = 1;
	int i;

	handed[0] = (int *)&local;
	make(0, writes_late, arg);
	for (i = 0; i <= at_turn; i++)
		CHECK_IS(usem_wait(arg, UNEVER), 0);
	CHECK_IS(usem_post(&told[2]), 0);
}

static void yields(void *arg)
{
	yield();
	CHECK_IS(usem_post(arg), 0);
}

static void boss(void *arg)
{
	int i, nr = before == 0 ? 1 : 200;

	for (i = 0; i < before; i++) {
		make(0, yields, &told[1]);
		if (i % 4 == 3) {	/* they take turns on some lanes */
			int j;

			for (j = 0; j < 4; j++)
				CHECK_IS(usem_wait(&told[1], UNEVER), 0);
		}
	}
	for (i = 0; i < nr; i++) {
		make(0, parent_late, arg);
		CHECK_IS(usem_wait(&told[2], UNEVER), 0);
	}
}

static void late(void)
{
	one_thread(1, boss, &told[0]);
}

static int at_later_blocks(void)
{
	int bad;

	before  = 0;
	at_turn = 5;
	bad = check_dies("sixth wait", late, WHY);
	before  = 2000;
	at_turn = 0;
	return bad + check_dies("after 2000 threads", late, WHY);
}

/* Looks at nothing first, as the start of a scheduler would. */
static void word(void)
{
	int local = 0;

	CHECK_IS(setenv("USCHED_LAW", "maybe", 1), 0);
	usched_law("a test", &local);
}

/* Who only reads gets no value that could be right, or a message. */
static volatile int read_there;

static void reads(void *arg)
{
	int nr = (int)((struct usem *)arg - told);

	read_there = *handed[nr];
	CHECK_IS(usem_post(arg), 0);
}

static void parent_read(void *arg)
{
	volatile int local = 1;

	handed[0] = (int *)&local;
	make(0, reads, arg);
	CHECK_IS(usem_wait(arg, UNEVER), 0);
	CHECK(local == 1 && read_there == (int)USCHED_LAW_FILL);
}

static void readers(void)
{
	set_how();
	one_thread(1, parent_read, &told[0]);
}

/* With a limit of data no lane is shut. */
static void readers_limited(void)
{
	const struct rlimit data = { (rlim_t)1 << 32, (rlim_t)1 << 32 };

	CHECK_IS(setrlimit(RLIMIT_DATA, &data), 0);
	readers();
	_exit(0);
}

/* Nor without the handler. */
static void readers_bare(void)
{
	bare = 1;
	readers();
}

/* The kernel is given a buffer there, by each call of lib/io/ that is a read or write. */
static int by_call;

static void gives(void *arg)
{
	struct iovec v = { handed[0], 4 };
	int ends[2];

	CHECK(pipe(ends) == 0 && write(ends[1], "word", 4) == 4);
	switch (by_call) {
	case 0: CHECK_IS(u_read(ends[0], handed[0], 4, UNEVER), 4); break;
	case 1: CHECK_IS(u_write(ends[1], handed[0], 4, UNEVER), 4); break;
	case 2: CHECK_IS(u_readv(ends[0], &v, 1, UNEVER), 4); break;
	case 3: CHECK_IS(u_writev(ends[1], &v, 1, UNEVER), 4); break;
	}
	CHECK_IS(usem_post(arg), 0);
}

static void parent_gives(void *arg)
{
	volatile int local = 1;

	handed[0] = (int *)&local;
	make(0, gives, arg);
	CHECK_IS(usem_wait(arg, UNEVER), 0);
}

static void givers(void)
{
	one_thread(1, parent_gives, &told[0]);
}

static int buffers(void)
{
	static const char *const call[] = {
		"u_read", "u_write", "u_readv", "u_writev"
	};
	char text[64];
	int bad = 0;

	for (by_call = 0; by_call < 4; by_call++) {
		snprintf(text, sizeof text, "): %s: the buffer: 0x",
			 call[by_call]);
		bad += check_dies("buffer", givers, text);
	}
	return bad;
}

/* Makers look at their argument: a guess, since these threads do not use it. */
static void nothing(void *arg)
{
}

static int nothing_int(void *arg)
{
	return arg == NULL;
}

static void *nothing_pointer(void *arg)
{
	return arg;
}

static void hands_to_thread(void *arg)
{
	int local = arg == NULL;

	make(0, nothing, &local);
}

static void hands_to_scope(void *arg)
{
	struct uscope *scope;
	int local = arg == NULL;

	CHECK_IS(uscope_begin(&scope, UNEVER), 0);
	CHECK_IS(uscope_go(scope, nothing_int, &local), 0);
	CHECK_IS(uscope_end(&scope), 0);
}

static void hands_to_uthread(void *arg)
{
	int local = arg == NULL;

	CHECK_IS(uthread_make(NULL, nothing_pointer, &local, NULL), 0);
}

/* A value that looks like an address there: unset bytes, perhaps. */
static void sends(void *arg)
{
	struct uchan *c = uchan_make(sizeof(void *), 1);
	int local = arg == NULL, *at = &local;

	CHECK_IS(uchan_send(c, &at, UNOW), 0);
	uchan_free(c);
}

#if defined(WS)
static void hands_to_task(void *arg)
{
	int local = arg == NULL;

	CHECK_IS(ws_spawn(nothing, &local), 0);
}

static void hands_to_any(void *arg)
{
	int local = arg == NULL;

	CHECK(ws_thread_init(nothing, &local) != NULL);
}
#endif

/* Waits look at their object. */
static void waits_for_sem(void *arg)
{
	struct usem sem = USEM(0);

	CHECK_IS(usem_wait(&sem, uafter(UTIME_MS)), -ETIMEDOUT);
}

static void waits_for_group(void *arg)
{
	struct ugroup group = { .gr_sync = { .y_state = 0 } };

	CHECK_IS(ugroup_add(&group, 1), 0);
	CHECK_IS(ugroup_wait(&group, uafter(UTIME_MS)), -ETIMEDOUT);
}

/* One line for all. */
static void guesses(void *arg)
{
	int i;

	for (i = 0; i < 20; i++)
		waits_for_sem(arg);
	waits_for_group(arg);
}

/* Faults. */
struct box {
	int  *at;
	void (*f)(void);
};

static struct box *volatile box;
static int value;
static int *volatile far;
static enum {
	READ, READ_FAR, CALL, DEEP, READ_ELSEWHERE, READ_NATIVE, OTHER
} as_told;				/* what the child does */
static int waits;			/* of the parent, before */
#define SHUT		4		/* blocks that shut a new lane */

static void empty(void)
{
}

/* As deep as the stack goes. */
static NOINLINE unsigned deep(unsigned n)
{
	volatile char frame[5000];

	frame[0] = (char)n;
	return n == ~0u ? 0 : check_hash(deep(n + 1), (unsigned)frame[0]);
}

static void *reads_box(void *arg)
{
	value = *box->at;
	return arg;
}

static void faults(void *arg)
{
	switch (as_told) {
	case READ:
		value = *box->at;
		break;
	case READ_FAR:
		far = box->at + 1000;
		yield();		/* so that no register has box->at */
		value = *far;
		break;
	case CALL:
		box->f();
		break;
	case DEEP:
		value = (int)deep(0);
		break;
	case READ_ELSEWHERE:		/* until the parent waits */
		for (;;)
			value = *box->at;
	case READ_NATIVE:
		native_join(native(reads_box, NULL));
		break;
	case OTHER:
		value = *(volatile int *)(uintptr_t)strtoul("16", NULL, 10);
	}
	CHECK_IS(usem_post(&told[0]), 0);
}

/*
 * Keeps its processor from resting, which makes the place of the parent zeros. It
 * does not block, so that no other place was left, and the parent has its name.
 */
static void turns(void *arg)
{
	for (;;)
		sched_yield();
}

static void parent_box(void *arg)
{
	struct box own = { &value, empty };
	int i;

	for (i = 0; i < waits; i++)
		yield();
	box = &own;
	if (as_told == READ_ELSEWHERE)
		make(0, turns, NULL);
	make(as_told == READ_ELSEWHERE, faults, &told[1]);
	CHECK_IS(usem_wait(&told[0], UNEVER), 0);
}

static void box_up(void)
{
	begin(as_told == READ_ELSEWHERE ? 2 : 1, 0);
	make(0, parent_box, &told[2]);
	start_and_finish();
}

static void box_up_bare(void)
{
	CHECK_IS(setenv("USCHED_GUARD", "0", 1), 0);
	box_up();
}

static void own_handler(int signo)
{
	_exit(42);
}

static void box_up_own(void)
{
	signal(SIGSEGV, own_handler);
	box_up();
}

static void looks(void *arg)
{
	struct sigaction now;

	CHECK_IS(sigaction(SIGSEGV, NULL, &now), 0);
	*(int *)arg = now.sa_flags & SA_SIGINFO || now.sa_handler != SIG_DFL;
}

/* All messages, while the lane of the parent is shut, or after its first blocks. */
static int boxes(int shut)
{
	const char *told_so = shut ? " has used the stack of" :
		" has used a word read from a stack that was moved";
	char victim[96], native[96];
	int failed = 0;

	waits = shut ? 0 : SHUT;
	snprintf(native, sizeof native, "usched: a native thread%s", told_so);
	snprintf(victim, sizeof victim, "(function parent_box() at %p, argument %p)%s",
		 (void *)parent_box, (void *)&told[2],
		 shut ? ", which waits: 0x" : ". What");
	for (as_told = READ; as_told <= READ_NATIVE; as_told++) {
		failed += check_dies("box", box_up, as_told == DEEP ?
			" has run out of its stack " :
			as_told == READ_NATIVE ? native : told_so);
		if (as_told != DEEP && (shut || as_told >= CALL))
			failed += check_dies("victim", box_up, victim);
	}
	return failed;
}

/* Over the guard, to the upper end of the lane below: its low end alone is written. */
static size_t over = (256 << 10) + USCHED_GUARD + (32 << 10);

static NOINLINE void leaps(size_t nob)
{
	volatile char frame[nob];

	if (nob == over)
		frame[0] = 1;
	else
		memset((char *)frame, 1, nob);
	CHECK(check_hash((unsigned char)frame[0], 0) != 0);
}

static void leaps_over(void *arg)
{
	leaps(over);
	CHECK_IS(usem_post(arg), 0);
}

static void leaps_far(void *arg)
{
	leaps((size_t)8 << 20);
	CHECK_IS(usem_post(arg), 0);
}

static void parent_leapt(void *arg)
{
	make(0, at_turn ? leaps_far : leaps_over, arg);
	CHECK_IS(usem_wait(arg, UNEVER), 0);
}

static void leapt(void)
{
	one_thread(1, parent_leapt, &told[3]);
}

static int leap_tests(void)
{
	char text[4096];
	int bad, nr = 0;

	at_turn = 0;
	bad = check_dies("leap", leapt, " has run out of its stack (lane ");
	at_turn = 1;
	do		/* the kernel kills what is preempted without its TLS */
		CHECK(WIFSIGNALED(check_child(leapt, text, sizeof text)));
	while (strstr(text, "larger stacks: USCHED_STACK_SIZE") == NULL &&
	       ++nr < 20);
	return bad + (nr == 20);
}

static void fault_tests(void)
{
	static int there;
	char text[4096];
	int status, failed = boxes(0) + boxes(1);

	as_told = READ;
	status = check_child(box_up_bare, text, sizeof text);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV && !text[0]);
	as_told = OTHER;
	status = check_child(box_up, text, sizeof text);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV && !text[0]);
	status = check_child(box_up_own, text, sizeof text);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
	CHECK_IS(failed, 0);
	one_thread(2, looks, &there);
	CHECK_IS(there, 1);
	looks(&there);
	CHECK_IS(there, 0);
}

static void (*does)(void *);

static void one(void)
{
	one_thread(1, does, NULL);
}

static int says(const char *name, void (*f)(void *), const char *text)
{
	does = f;
	return check_says(name, one, text);
}

/*
 * A program that keeps the law: locals that are its own, arguments and objects
 * on the heap, and the stack of a thread that runs a dispatcher meanwhile.
 */
static int sum;

static void adds(void *arg)
{
	int own[8], i;

	for (i = 0; i < 8; i++) {
		own[i] = i;
		yield();
	}
	for (i = 0; i < 8; i++)
		*(int *)arg += own[i] == i;
	free(arg);
}

static void squares(void *arg)
{
	int i;

	for (i = 0; i < 100; i++) {
		*(int *)arg += i;	/* the consumer's, which stays */
		CHECK_IS(ugen_yield(&i), 0);
	}
}

static void lawful(void *arg)
{
	struct umutex *mutex = calloc(1, sizeof *mutex);
	struct uchan *c = uchan_make(sizeof mutex, 2);
	int seen = 0, nr = 0, i;
	struct ugen *g;
	const int *at;

	CHECK(mutex != NULL && c != NULL);
	CHECK(uchan_send(c, &mutex, UNOW) == 0 && uchan_send(c, &arg, UNOW) == 0);
	uchan_free(c);
	for (i = 0; i < 20; i++) {
		int *number = calloc(1, sizeof *number);

		CHECK(number != NULL);
		make(0, adds, number);
		CHECK_IS(umutex_lock(mutex, UNEVER), 0);
		yield();
		umutex_unlock(mutex);
	}
	g = ugen_make(squares, &seen, sizeof(int));
	while ((at = ugen_next(g)) != NULL)
		CHECK_IS(*at, nr++);
	CHECK(ugen_free(g) == 0 && nr == 100 && seen == 4950);
	free(mutex);
	__atomic_add_fetch(&sum, 1, __ATOMIC_RELAXED);
}

static void innocent(void)
{
	int i;

	begin(2, 0);
	for (i = 0; i < 300; i++)
		make(i, lawful, NULL);
	start_and_finish();
	CHECK_IS(sum, 300);
}

int main(int argc, char **argv)
{
	char text[4096];
	int failed = 0, i;

	check_start(argc, argv);
	check_forks();
#if defined(USCHED_HARD) || defined(USCHED_PORTABLE)
	innocent();
	check_skip("the hard mode looks itself; a portable build has no lanes");
#endif
	for (i = 0; i < 2; i++) {
		bare = !i;
		failed += by_number(1) + by_number(2) + by_number(140) +
			by_number(MOST);
	}
	failed += at_later_blocks();
	failed += check_dies("word", word,
			     "USCHED_LAW: \"maybe\" is none of: abort, warn, off\n");
	failed += says("thread", hands_to_thread, "thread_init: the argument") +
		says("scope", hands_to_scope, "uscope_go: the argument") +
		says("uthread", hands_to_uthread, "uthread_make: the argument") +
		says("channel", sends, NULL);
#if defined(WS)
	failed += says("task", hands_to_task, "ws_spawn: the argument") +
		says("any", hands_to_any, "thread_init: the argument");
#endif
	failed += says("sem", waits_for_sem, "): usem_wait: 0x") +
		says("group", waits_for_group, "): ugroup_wait: 0x") +
		says("each", guesses, "usem_wait: 0x");
	CHECK_IS(failed, 0);
	CHECK_IS(check_dies("number", readers, USED), 0);
	i = check_child(readers_limited, text, sizeof text);
	CHECK(WIFEXITED(i) && WEXITSTATUS(i) == 0);
	i = check_child(readers_bare, text, sizeof text);
	CHECK(WIFEXITED(i) && WEXITSTATUS(i) == 0);
	CHECK_IS(buffers(), 0);
	CHECK_IS(leap_tests(), 0);
	warned();
	fault_tests();
	innocent();
	return 0;
}
