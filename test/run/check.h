/* SPDX-License-Identifier: MIT */
/*
 * check.h: common parts of test programs. Exit: 0 passed, 1 failed, 77 skipped.
 */

#ifndef CHECK_H
#define CHECK_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* so include this file, or tiny.h, first */
#endif
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* Functions of threads, handlers and call-backs leave parameters alone. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define WATCHDOG	60		/* seconds of cpu, unless WATCHDOG is set */
#define WATCHDOGS_MOST	20		/* watchdogs: the longest test, on the wall */
#define ASLEEP		2000		/* less than this part of a cpu: asleep */
#define UNUSED		__attribute__((unused))
#define NOINLINE	__attribute__((noinline))
#define COUNT(array)	((int)(sizeof(array) / sizeof((array)[0])))

/*
 * Begins a function that the linker calls for name(), with -Wl,--wrap=name. The
 * real function is __real_name(). Used: compilers may drop what only the linker
 * refers to.
 */
#define WRAP(type, name, ...)						\
	type __real_##name(__VA_ARGS__);				\
	type __wrap_##name(__VA_ARGS__);				\
	__attribute__((used)) type __wrap_##name(__VA_ARGS__)

/* Never compiled out. */
#define CHECK(cond)							\
	do {								\
		if (!(cond))						\
			check_fail(__FILE__, __LINE__, #cond);		\
	} while (0)

/*
 * CHECK(got == want), and CHECK(got >= want) as CHECK_THAT(got, >=, want). These
 * also say what they got. Each argument is evaluated once.
 */
#define CHECK_IS(got, want)						\
	CHECK_VALUES(got, ==, want, #got " == " #want, "")
#define CHECK_THAT(got, is, want)					\
	CHECK_VALUES(got, is, want, #got " " #is " " #want, #is " ")

/*
 * Both values get the type of 1 ? got : want. In that type C compares them. It
 * is never that of a bit-field or an atomic object, and a constant 0 may be a
 * pointer.
 */
#if !defined(__cplusplus)
#define CHECK_VALUES(got, is, want, what, than)				\
	do {								\
		__typeof__(1 ? (got) : (want))				\
			check_got = (got), check_want = (want);		\
									\
		if (!(check_got is check_want))				\
			_Generic(check_got, CHECK_KINDS)(__FILE__,	\
				__LINE__, what, than, check_got,	\
				check_want);				\
	} while (0)
#else
#define CHECK_VALUES(got, is, want, what, than)				\
	do {								\
		if (!((got) is (want)))					\
			check_fail(__FILE__, __LINE__, what);		\
	} while (0)
#endif

/* Smaller integers are compared as int. */
#define CHECK_KINDS							\
	int: check_signed, long: check_signed,				\
	long long: check_signed, unsigned: check_unsigned,		\
	unsigned long: check_unsigned,					\
	unsigned long long: check_unsigned, float: check_real,		\
	double: check_real, long double: check_real,			\
	default: check_pointers

/* Checks that strcmp(got, want) == 0. NULL differs from all strings. */
#define CHECK_STR(got, want)						\
	check_strings(__FILE__, __LINE__,				\
		      "strcmp(" #got ", " #want ") == 0", got, want)

extern char **environ;			/* which macOS and the BSDs do not declare */

static unsigned check_seed;
static long check_begun;		/* us */
static int  check_limit = WATCHDOG;	/* the watchdog's, in seconds */
static long check_since;		/* us of the wall, when check_limit was set */
static long check_cpu_since;		/* us of cpu, when check_limit was set */
static long check_cpu_seen;		/* us of cpu, when the watchdog last looked */
static char check_doing[64];		/* which part of the test runs */
static char check_command[512];		/* which runs this test again */

/* Writes a line to stderr. A thread that fails may have a small stack. */
static UNUSED __attribute__((format(printf, 1, 2)))
void check_tell(const char *format, ...)
{
	char line[512];
	va_list args;
	int nob;

	va_start(args, format);
	nob = vsnprintf(line, sizeof line, format, args);
	va_end(args);
	if (nob >= (int)sizeof line) {
		nob = sizeof line;
		line[nob - 1] = '\n';
	}
	(void)!write(STDERR_FILENO, line, nob);
}

/* Returns the next comment of a text that begins a line, but for VARIANTS and LIBS. */
static char *check_comment(char *text)
{
	do
		text = strstr(text + 1, "\n/*");
	while (text != NULL && (strncmp(text + 3, " VARIANTS: ", 11) == 0 ||
				strncmp(text + 3, " LIBS: ", 7) == 0));
	return text;
}

/*
 * Tells the claim, which is the first comment of the test behind its licence. The
 * source may be elsewhere, and the call may fail: then there is no line.
 */
static void check_claim(void)
{
	char text[512], next, *end, *to, *from;
	int fd = open(__BASE_FILE__, O_RDONLY | O_CLOEXEC);
	ssize_t nob = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;

	if (nob <= 0)
		return;
	text[nob] = 0;
	from = check_comment(text);
	if (from == NULL)
		return;
	from += 3;
	end = strstr(from, "*/");
	if (end != NULL)
		*end = 0;
	/* Its lines become a single line. An empty line ends it. */
	for (to = text; *from != 0 && strncmp(from, "\n *\n", 4) != 0; from++) {
		next = *from == '\n' ? ' ' : *from;
		if (next != ' ' || (to > text && to[-1] != ' '))
			*to++ = next;
		if (strncmp(from, "\n *", 3) == 0)
			from += 2;
	}
	*to = 0;
	if (to > text && to[-1] == ' ')
		to[-1] = 0;
	check_tell("\tclaim: %s\n", text);
}

/*
 * Ends a test that has failed. The first line comes first, whatever happens to
 * those that say more.
 */
static NOINLINE void check_failed(const char *file, int line, const char *what,
				  const char *than, const char *got,
				  const char *want)
{
	check_tell("%s:%d: CHECK(%s) failed %s%s(seed %u)\n", file, line, what,
		   check_doing, *check_doing != 0 ? " " : "", check_seed);
	if (got != NULL)
		check_tell("\tgot %s, want %s%s\n", got, than, want);
	if (*check_command != 0)
		check_tell("\tagain: %s\n", check_command);
	check_claim();
	_exit(1);
}

static UNUSED NOINLINE void check_fail(const char *file, int line,
				       const char *what)
{
	check_failed(file, line, what, "", NULL, NULL);
}

/* Returns the name of an error, or NULL. Libraries of C have none in common. */
static UNUSED const char *check_error(long long nr)
{
#define CHECK_ERROR(name)	{ name, #name }
	static const struct {
		int	    e_nr;
		const char *e_name;
	} errors[] = {
		CHECK_ERROR(E2BIG), CHECK_ERROR(EACCES),
		CHECK_ERROR(EADDRINUSE), CHECK_ERROR(EAFNOSUPPORT),
		CHECK_ERROR(EAGAIN), CHECK_ERROR(EALREADY),
		CHECK_ERROR(EBADF), CHECK_ERROR(EBADMSG), CHECK_ERROR(EBUSY),
		CHECK_ERROR(ECANCELED), CHECK_ERROR(ECHILD),
		CHECK_ERROR(ECONNABORTED), CHECK_ERROR(ECONNREFUSED),
		CHECK_ERROR(ECONNRESET), CHECK_ERROR(EDEADLK),
		CHECK_ERROR(EDOM), CHECK_ERROR(EEXIST), CHECK_ERROR(EFAULT),
		CHECK_ERROR(EFBIG), CHECK_ERROR(EHOSTUNREACH),
		CHECK_ERROR(EINPROGRESS), CHECK_ERROR(EINTR),
		CHECK_ERROR(EINVAL), CHECK_ERROR(EIO), CHECK_ERROR(EISCONN),
		CHECK_ERROR(EISDIR), CHECK_ERROR(EMFILE),
		CHECK_ERROR(EMSGSIZE), CHECK_ERROR(ENAMETOOLONG),
		CHECK_ERROR(ENETUNREACH), CHECK_ERROR(ENFILE),
		CHECK_ERROR(ENOBUFS), CHECK_ERROR(ENODEV), CHECK_ERROR(ENOENT),
		CHECK_ERROR(ENOMEM), CHECK_ERROR(ENOSPC), CHECK_ERROR(ENOSYS),
		CHECK_ERROR(ENOTCONN), CHECK_ERROR(ENOTDIR),
		CHECK_ERROR(ENOTSOCK), CHECK_ERROR(ENOTSUP),
		CHECK_ERROR(ENOTTY), CHECK_ERROR(ENXIO), CHECK_ERROR(EOVERFLOW),
		CHECK_ERROR(EPERM), CHECK_ERROR(EPIPE), CHECK_ERROR(EPROTO),
		CHECK_ERROR(ERANGE), CHECK_ERROR(EROFS), CHECK_ERROR(ESHUTDOWN),
		CHECK_ERROR(ESPIPE), CHECK_ERROR(ESRCH), CHECK_ERROR(ETIMEDOUT),
		CHECK_ERROR(EXDEV),
	};
	int i;

	for (i = 0; i < COUNT(errors); i++)
		if (errors[i].e_nr == nr)
			return errors[i].e_name;
	return NULL;
#undef CHECK_ERROR
}

enum { CHECK_VALUE = 64 };	/* bytes of a value */

/* Writes -11 (-EAGAIN). A -1 may also say that the error is in errno. */
static UNUSED void check_number(char *to, long long value, int error)
{
	const char *name = check_error(-value), *other = check_error(error);

	if (value >= 0 || name == NULL)
		snprintf(to, CHECK_VALUE, "%lld", value);
	else if (value == -1 && other != NULL)
		snprintf(to, CHECK_VALUE, "-1 (-EPERM, or errno %s)", other);
	else
		snprintf(to, CHECK_VALUE, "%lld (-%s)", value, name);
}

/* Writes 11 (EAGAIN) for a value of errno. */
static UNUSED void check_positive(char *to, long long value)
{
	const char *name = check_error(value);

	if (name != NULL)
		snprintf(to, CHECK_VALUE, "%lld (%s)", value, name);
}

static UNUSED NOINLINE void check_signed(const char *file, int line,
					 const char *what, const char *than,
					 long long got, long long want)
{
	char value[2][CHECK_VALUE];

	check_number(value[0], got, errno);
	check_number(value[1], want, 0);
	if (strncmp(what, "errno ", 6) == 0) {
		check_positive(value[0], got);
		check_positive(value[1], want);
	}
	check_failed(file, line, what, than, value[0], value[1]);
}

static UNUSED NOINLINE void check_unsigned(const char *file, int line,
					   const char *what, const char *than,
					   unsigned long long got,
					   unsigned long long want)
{
	const char *format = got > 99999 || want > 99999 ? "%llu (%#llx)" :
		"%llu";
	char value[2][CHECK_VALUE];

	snprintf(value[0], CHECK_VALUE, format, got, got);
	snprintf(value[1], CHECK_VALUE, format, want, want);
	check_failed(file, line, what, than, value[0], value[1]);
}

static UNUSED NOINLINE void check_real(const char *file, int line,
				       const char *what, const char *than,
				       long double got, long double want)
{
	char value[2][CHECK_VALUE];

	snprintf(value[0], CHECK_VALUE, "%.17Lg", got);
	snprintf(value[1], CHECK_VALUE, "%.17Lg", want);
	check_failed(file, line, what, than, value[0], value[1]);
}

static UNUSED NOINLINE void check_pointers(const char *file, int line,
					   const char *what, const char *than,
					   const volatile void *got,
					   const volatile void *want)
{
	char value[2][CHECK_VALUE];

	snprintf(value[0], CHECK_VALUE, "%#lx", (unsigned long)got);
	snprintf(value[1], CHECK_VALUE, "%#lx", (unsigned long)want);
	check_failed(file, line, what, than, got != NULL ? value[0] : "NULL",
		     want != NULL ? value[1] : "NULL");
}

/* Writes a string as in C from a byte on, as far as there is room. */
static UNUSED void check_quote(char *to, int room, const char *from, int skip)
{
	int at;

	if (from == NULL) {
		snprintf(to, room, "NULL");
		return;
	}
	from += skip;
	at = snprintf(to, room, "%s\"", skip > 0 ? "..." : "");
	for (; *from != 0 && at < room - 6; from++)
		if (*from == '\n')
			at += snprintf(to + at, 3, "\\n");
		else if (*from == '\t')
			at += snprintf(to + at, 3, "\\t");
		else if (*from == '"' || *from == '\\')
			at += snprintf(to + at, 3, "\\%c", *from);
		else if ((unsigned char)*from < ' ' || *from == 127)
			at += snprintf(to + at, 5, "\\%03o", *from);
		else
			to[at++] = *from;
	snprintf(to + at, room - at, "%s", *from == 0 ? "\"" : "...");
}

static UNUSED NOINLINE void check_strings(const char *file, int line,
					  const char *what, const char *got,
					  const char *want)
{
	char value[2][200];
	int same = 0;

	if (got != NULL && want != NULL) {
		if (strcmp(got, want) == 0)
			return;
		while (got[same] == want[same])
			same++;
	}
	same = same > 60 ? same - 20 : 0;	/* shows where they differ */
	check_quote(value[0], sizeof value[0], got, same);
	check_quote(value[1], sizeof value[1], want, same);
	check_failed(file, line, what, "", value[0], value[1]);
}

/* Says which part of the test runs from now on. */
static UNUSED __attribute__((format(printf, 1, 2)))
void doing(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(check_doing, sizeof check_doing, format, args);
	va_end(args);
}

static UNUSED void check_skip(const char *why)
{
	printf("skipped: %s\n", why);
	exit(77);
}

/*
 * Tells whether a sanitizer holds locks of its own over fork(), or forbids
 * threads after it.
 */
static UNUSED int check_sanitized(void)
{
	int is_sanitized = 0;

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
	is_sanitized = 1;
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	is_sanitized = 1;
#endif
	return is_sanitized;
}

/* Skips a test that forks under such a sanitizer. */
static UNUSED void check_forks(void)
{
	if (check_sanitized())
		check_skip("ASan and TSan have locks that outlive fork()");
}

static UNUSED long check_us(void)
{
	struct timeval now;

	gettimeofday(&now, NULL);	/* fail.h wraps clock_gettime() */
	return now.tv_sec * 1000000l + now.tv_usec;
}

/*
 * True until this many percent of a minute are over, or of CHECK_MINUTES. For
 * tests that repeat something as often as they can, after a minimum of
 * repetitions.
 */
static UNUSED int check_time(int percent)
{
	const char *env = getenv("CHECK_MINUTES");
	int minutes = env != NULL && atoi(env) > 0 ? atoi(env) : 1;

	return check_us() - check_begun < minutes * 600000l * percent;
}

/* Returns the cpu time of this process, and of its children that have ended. */
static long check_cpu(void)
{
	const int who[] = { RUSAGE_SELF, RUSAGE_CHILDREN };
	struct rusage used;
	long us = 0;
	int i;

	for (i = 0; i < COUNT(who); i++) {
		getrusage(who[i], &used);
		us += (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000l +
			used.ru_utime.tv_usec + used.ru_stime.tv_usec;
	}
	return us;
}

/*
 * Looks whether the test hangs; called about every check_limit seconds. Beside
 * other programs it gets only a part of a cpu. So it fails if it has used these
 * seconds of cpu, if it has slept since the last look, or if it never ends.
 */
static UNUSED void check_look(void)
{
	long limit = check_limit * 1000000l, cpu = check_cpu();

	if (cpu - check_cpu_since >= limit)
		check_fail(__FILE__, __LINE__, "the watchdog: it runs on");
	if (cpu - check_cpu_seen < limit / ASLEEP)
		check_fail(__FILE__, __LINE__, "the watchdog: it sleeps on");
	if (check_us() - check_since >= limit * WATCHDOGS_MOST)
		check_fail(__FILE__, __LINE__, "the watchdog: it has no end");
	check_cpu_seen = cpu;
}

static void check_alarm(int signo)
{
	int saved = errno;

	check_look();
	alarm((unsigned)check_limit);
	errno = saved;
}

/*
 * Starts the watchdog again: for a part of a long test, or in a child, which
 * inherits no alarm. The watchdog first looks after so many times its seconds.
 */
static UNUSED void check_watch(int times)
{
	check_since = check_us();
	check_cpu_since = check_cpu_seen = check_cpu();
	alarm((unsigned)(times * check_limit));
}

/* Adds a word to the command. Its value is in quotes if a shell needs them. */
static void check_word(const char *word)
{
	int at = (int)strlen(check_command), room = sizeof check_command - at;
	const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"0123456789_=-+/.,:@%";
	const char *quote = word[strspn(word, plain)] != 0 ? "'" : "";
	int name = strchr(word, '=') ? (int)strcspn(word, "=") + 1 : 0;

	snprintf(check_command + at, room, "%s%.*s%s%s%s", at > 0 ? " " : "",
		 name, word, quote, word + name, quote);
}

/*
 * Notes how this program was called, before it changes its environment or its
 * folder.
 */
static void check_called(char **argv, bool is_argument)
{
	char seed[32];
	char **env;

	*check_command = 0;
	for (env = environ; env != NULL && *env != NULL; env++)
		if (strncmp(*env, "USCHED_", 7) == 0)
			check_word(*env);
	snprintf(seed, sizeof seed, "SEED=%u", check_seed);
	if (!is_argument)
		check_word(seed);
	for (; *argv != NULL; argv++)
		check_word(*argv);
}

/* For programs with other arguments: says how to run what runs from now on. */
static UNUSED __attribute__((format(printf, 1, 2)))
void check_again(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(check_command, sizeof check_command, format, args);
	va_end(args);
}

/*
 * Begins each main(). The seed is argv[1], or SEED in the environment, or any.
 */
static UNUSED void check_start(int argc, char **argv)
{
	const char *env = argc > 1 ? argv[1] : getenv("SEED");
	const char *watchdog = getenv("WATCHDOG");

	check_seed = env != NULL && *env != 0 ?
		(unsigned)strtoul(env, NULL, 0) : (unsigned)getpid() * 7919u;
	check_called(argv, argc > 1);
	check_limit = watchdog != NULL && atoi(watchdog) > 0 ?
		atoi(watchdog) : WATCHDOG;
	check_begun = check_us();
	signal(SIGALRM, check_alarm);
	check_watch(1);
}

/* For tests whose mistakes have messages, after which a program goes on. */
static UNUSED void check_quiet(void)
{
	setenv("USCHED_QUIET", "1", 1);
}

/*
 * Gives the cpu away, mostly in a loop that waits for another native thread. If
 * other programs only compute, a sched_yield() lets each of them run for its
 * whole time slice. On Linux 6.18 a hand-over took 4100 us, but 43 us with a
 * sleep. So when yields turn out to be slow, the caller sleeps instead.
 */
#define CHECK_SLOW	1000		/* us: a yield that is slow */
#define CHECK_SLOW_NR	8		/* slow yields, then sleep */

static UNUSED NOINLINE void check_yield(void)
{
	static int slow;
	int saved = errno;
	long begun;

	if (__atomic_load_n(&slow, __ATOMIC_RELAXED) >= CHECK_SLOW_NR) {
		usleep(1);
		errno = saved;
		return;
	}
	begun = check_us();
	sched_yield();
	if (check_us() - begun > CHECK_SLOW)
		__atomic_fetch_add(&slow, 1, __ATOMIC_RELAXED);
}

/* xorshift. Gives the same numbers on all machines. */
static UNUSED unsigned check_random(unsigned *state)
{
	unsigned x = *state != 0 ? *state : 2463534242u;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return *state = x;
}

/* Keeps all of an array in its frame. Clang keeps only the bytes in use. */
static UNUSED void check_used(volatile void *array)
{
	__asm__ volatile("" : : "r"(array) : "memory");
}

/* Returns a value that the compiler cannot know. */
static UNUSED NOINLINE unsigned check_hash(unsigned a, unsigned b)
{
	__asm__ volatile("" : "+r"(a));
	a = (a ^ b * 2654435761u) * 2246822519u;
	return a ^ a >> 15;
}

/*
 * Runs f() in a child. Returns its wait status; text is what it wrote to
 * stderr.
 */
static UNUSED int check_child(void (*f)(void), char *text, int len)
{
	const struct rlimit none = { 0, 0 };
	int fd[2], status, at = 0;
	ssize_t nob;
	pid_t pid;

	CHECK(pipe(fd) == 0);
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &none);
		dup2(fd[1], STDERR_FILENO);
		close(fd[0]);
		f();
		_exit(0);
	}
	close(fd[1]);
	while (at < len - 1 && (nob = read(fd[0], text + at, len - 1 - at)) > 0)
		at += (int)nob;
	text[at] = 0;
	close(fd[0]);
	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

/* Checks that f() dies by usched_fail(), with the name of the contract. */
static UNUSED int check_dies(const char *name, void (*f)(void),
			     const char *contract)
{
	char text[4096];
	int status = check_child(f, text, sizeof text);

	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
	    strstr(text, "usched: ") != NULL && strstr(text, contract) != NULL)
		return 0;
	fprintf(stderr, "%s: wanted SIGABRT and \"%s\", got status %#x and "
		"\"%s\"\n", name, contract, (unsigned)status, text);
	return 1;
}

/* Is text one line with this in it; NULL: no line? */
static UNUSED bool check_line(const char *text, const char *what)
{
	const char *end = strchr(text, '\n');

	return what == NULL ? text[0] == 0 :
		end != NULL && end[1] == 0 && strstr(text, what) != NULL;
}

/* f(), in a child, must go on, after such a line. Returns 0 or 1. */
static UNUSED int check_says(const char *name, void (*f)(void),
			     const char *what)
{
	char text[4096];
	int status = check_child(f, text, sizeof text);

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
	    check_line(text, what))
		return 0;
	fprintf(stderr, "%s: wanted status 0 and \"%s\", got status %#x and "
		"\"%s\"\n", name, what != NULL ? what : "", (unsigned)status,
		text);
	return 1;
}

#endif /* CHECK_H */
