/* SPDX-License-Identifier: MIT */
/* VARIANTS: once */
/*
 * look: looking does not touch. Threads stand in system calls, each of which
 * has its full result, while lists are asked for again and again by a signal,
 * and long runs are reported. Both name the call; where the system does not
 * tell, or an emulator tells of calls of its own, they say "in a call". The
 * frames of a call are right, and are not shown if the thread has moved while
 * its stack was copied.
 */
#include "check.h"
#include "rr.h"
#include "ulist.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define TEXT	(4 << 20)
#define MS	300			/* of a call */
#define RUN	(20 * 1000000L)		/* that is reported */

static char text[TEXT];

/* What the library is told of /proc. */
static enum { TRUE_FILES, FOREIGN, ABSENT, NONE } files;
static int moving;			/* (atomic) a copy comes too late */
static int moves;			/* of the thread (atomic) */
static int late;			/* copies (atomic) */

/* Stands in for that of libc, in ulook.c. */
int open(const char *path, int flags, ...)
{
	const char *name = strrchr(path, '/');
	static const char line[] = "63 0x3 0x1000 0xff 0x0 0x0 0x0 "
		"0x7ffd00001000 0x7f0000001000\n";
	int pair[2];

	if (strncmp(path, "/proc/self/task/", 16) != 0 || name == NULL)
		return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
	if (files == NONE || (files == ABSENT && strcmp(name, "/syscall") == 0))
		return errno = ENOENT, -1;
	if (files == FOREIGN && strcmp(name, "/syscall") == 0) {
		CHECK_IS(pipe(pair), 0);
		CHECK_THAT(write(pair[1], line, sizeof line - 1), >, 0);
		close(pair[1]);
		return pair[0];
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags);
}

/* Likewise. If so wanted, the thread has moved before its stack is copied. */
ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long nr,
			 const struct iovec *from, unsigned long from_nr,
			 unsigned long flags)
{
	int from_move = __atomic_load_n(&moves, __ATOMIC_RELAXED);

	while (__atomic_load_n(&moving, __ATOMIC_RELAXED) &&
	       __atomic_load_n(&moves, __ATOMIC_RELAXED) < from_move + 2)
		usleep(100);
	__atomic_fetch_add(&late, 1, __ATOMIC_RELAXED);
	return syscall(SYS_process_vm_readv, pid, to, nr, from, from_nr, flags);
}

/* Tells whether this system tells which call a native thread is in. */
static int has_names(void)
{
	char path[64], line[256] = "", want[32];
	int fd;

	snprintf(path, sizeof path, "/proc/self/task/%ld/syscall",
		 (long)syscall(SYS_gettid));
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
	if (fd < 0)
		return 0;
	if (syscall(SYS_read, fd, line, sizeof line - 1) < 0)
		*line = 0;
	close(fd);
	snprintf(want, sizeof want, "%ld 0x%x %p", (long)SYS_read, fd,
		 (void *)line);
	return strncmp(line, want, strlen(want)) == 0;
}

/* Calls, which last for MS and have their full result then. */

static int c_poll(void)
{
	return poll(NULL, 0, MS) == 0;
}

static int c_select(void)
{
	struct timeval t = { 0, MS * 1000 };

	return select(0, NULL, NULL, NULL, &t) == 0;
}

static int c_epoll(void)
{
	struct epoll_event e;
	int fd = epoll_create1(0), rc = epoll_wait(fd, &e, 1, MS);

	close(fd);
	return rc == 0;
}

static int c_sleep(void)
{
	const struct timespec t = { 0, MS * 1000000L };

	return nanosleep(&t, NULL) == 0;
}

static int c_sem(void)
{
	struct timespec t;
	sem_t sem;
	int rc;

	CHECK(sem_init(&sem, 0, 0) == 0 &&
	      clock_gettime(CLOCK_REALTIME, &t) == 0);
	t.tv_sec++;
	rc = sem_timedwait(&sem, &t);
	return rc == -1 && errno == ETIMEDOUT;
}

static int c_sigwait(void)
{
	const struct timespec t = { 0, MS * 1000000L };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return sigtimedwait(&set, NULL, &t) == -1 && errno == EAGAIN;
}

/* The other side, which answers later. */
static int side[2];
static void (*answers)(void);

static void *answer_late(void *arg)
{
	usleep(MS * 1000);
	answers();
	return arg;
}

static pthread_t later(void (*f)(void))
{
	pthread_t native;

	answers = f;
	CHECK_IS(pthread_create(&native, NULL, answer_late, NULL), 0);
	return native;
}

static void a_write(void)
{
	CHECK_IS(write(side[1], "a", 1), 1);
}

static int c_read(void)
{
	pthread_t native;
	char c = 0;
	int rc;

	CHECK_IS(pipe(side), 0);
	native = later(a_write);
	rc = read(side[0], &c, 1) == 1 && c == 'a';
	CHECK_IS(pthread_join(native, NULL), 0);
	close(side[0]);
	close(side[1]);
	return rc;
}

/* With a timeout, such a call is not restarted behind a signal. */
static int c_recv(void)
{
	const struct timeval t = { 60, 0 };
	pthread_t native;
	char c = 0;
	int rc;

	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, side), 0);
	CHECK_IS(setsockopt(side[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t), 0);
	native = later(a_write);
	rc = recv(side[0], &c, 1, 0) == 1 && c == 'a';
	CHECK_IS(pthread_join(native, NULL), 0);
	close(side[0]);
	close(side[1]);
	return rc;
}

static struct sockaddr_storage at;
static socklen_t at_len;

static void a_connect(void)
{
	CHECK_IS(connect(side[1], (struct sockaddr *)&at, at_len), 0);
}

static int c_accept(void)
{
	const struct timeval t = { 60, 0 };
	pthread_t native;
	int i, fd;

	for (i = 0; i < 2; i++)
		CHECK_THAT((side[i] = socket(AF_UNIX, SOCK_STREAM, 0)), >=, 0);
	memset(&at, 0, sizeof at);
	at.ss_family = AF_UNIX;
	CHECK_IS(bind(side[0], (struct sockaddr *)&at, sizeof at.ss_family), 0);
	at_len = sizeof at;
	CHECK_IS(getsockname(side[0], (struct sockaddr *)&at, &at_len), 0);
	CHECK_IS(setsockopt(side[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t), 0);
	CHECK_IS(listen(side[0], 1), 0);
	native = later(a_connect);
	fd = accept(side[0], NULL, NULL);
	CHECK_IS(pthread_join(native, NULL), 0);
	close(fd);
	close(side[0]);
	close(side[1]);
	return fd >= 0;
}

static void a_unlock(void)
{
	CHECK_IS(flock(side[1], LOCK_UN), 0);
}

static int c_flock(void)
{
	char name[] = "/tmp/t_look.XXXXXX";
	pthread_t native;
	int rc;

	CHECK_THAT((side[0] = mkstemp(name)), >=, 0);
	CHECK_THAT((side[1] = open(name, O_RDWR)), >=, 0);
	unlink(name);
	CHECK_IS(flock(side[1], LOCK_EX), 0);
	native = later(a_unlock);
	rc = flock(side[0], LOCK_EX);
	CHECK_IS(pthread_join(native, NULL), 0);
	close(side[0]);
	close(side[1]);
	return rc == 0;
}

/* The system call, in a function that has no frame pointer. */
#if defined(__x86_64__) && defined(__LP64__) && defined(__ELF__) &&	\
	!defined(USCHED_PORTABLE)
#define FRAMES	1
int raw_poll(void *fd, long nr, long ms);
__asm__(".text\n.globl raw_poll\n.type raw_poll, @function\nraw_poll:\n"
	".cfi_startproc\nmov $7, %eax\nsyscall\nret\n.cfi_endproc\n"
	".size raw_poll, . - raw_poll\n");
#else
#define FRAMES	0
static NOINLINE int raw_poll(void *fd, long nr, long ms)
{
	return poll(fd, (nfds_t)nr, (int)ms);
}
#endif

static NOINLINE int c_raw(void)
{
	int rc = raw_poll(NULL, 0, MS);

	__asm__ volatile("" : : : "memory");
	return rc == 0;
}

static const struct call {
	const char *c_name, *c_other;	/* as kernels name it */
	int (*c_f)(void);
} calls[] = {
	{ "poll", "ppoll", c_poll }, { "select", "pselect6", c_select },
	{ "epoll_wait", "epoll_pwait", c_epoll },
	{ "nanosleep", "clock_nanosleep", c_sleep }, { "futex", "", c_sem },
	{ "rt_sigtimedwait", "", c_sigwait }, { "read", "", c_read },
	{ "recvfrom", "recv", c_recv }, { "accept", "accept4", c_accept },
	{ "flock", "", c_flock }, { "poll", "ppoll", c_raw }
};

/* What was written to the file that stderr is now. */

static size_t seen;			/* bytes of it, before a call */

static void read_text(void)
{
	ssize_t nob = pread(STDERR_FILENO, text, TEXT - 1, (off_t)seen);

	CHECK_THAT(nob, >=, 0);
	text[nob] = 0;
}

static int has(const char *format, const char *name)
{
	char want[80];

	snprintf(want, sizeof want, format, name);
	return strstr(text, want) != NULL;
}

static int told(const struct call *c, const char *format)
{
	return has(format, c->c_name) || has(format, c->c_other);
}

/* Tells whether a report and a list have said where the thread is. */
static int all_told(const struct call *c, int names)
{
	read_text();
	if (!names)
		return has(" ms, %s\n", "in a call") &&
			has(": runs, %s\n", "in a call");
	return told(c, " ms, in %s()\n") && told(c, ": runs, in %s()\n");
}

static int ended;

/* Asks for lists, as long as the processor runs. */
static void *asks(void *arg)
{
	while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE)) {
		CHECK_IS(kill(getpid(), SIGQUIT), 0);
		usleep(5000);
	}
	return arg;
}

/* Blocks SIGQUIT here, or unblocks it. */
static void quits(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGQUIT);
	CHECK_IS(pthread_sigmask(how, &set, NULL), 0);
}

/* The processor does not inherit that the signal is blocked. */
static void start(void (*f)(void *), void *arg)
{
	char name[] = "/tmp/t_look.XXXXXX";
	pthread_t native;

	CHECK_IS(dup2(mkstemp(name), STDERR_FILENO), STDERR_FILENO);
	unlink(name);
	CHECK_IS(ulist_on_signal(SIGQUIT), 0);
	CHECK_IS(ulist_on_run(RUN), 0);
	CHECK_IS(rr_init(1, 0), 0);
	CHECK(rr_thread_init(f, arg) != NULL);
	CHECK_IS(pthread_create(&native, NULL, asks, NULL), 0);
	quits(SIG_UNBLOCK);
	CHECK_IS(rr_start(), 0);
	quits(SIG_BLOCK);
	CHECK_IS(rr_fini(), 0);
	__atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
	CHECK_IS(pthread_join(native, NULL), 0);
}

/* The kernel cannot choose this native thread for SIGQUIT. */
static void is_blocked(void)
{
	sigset_t set;

	CHECK_IS(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
	CHECK_IS(sigismember(&set, SIGQUIT), 1);
}

/* Each call, until it was told, has its full result. */
static void t_calls(void *arg)
{
	int names = arg != NULL;
	const struct call *c;

	is_blocked();
	for (c = calls; c < calls + COUNT(calls); c++) {
		struct stat st;

		CHECK_IS(rr_yield(), 0);
		CHECK_IS(fstat(STDERR_FILENO, &st), 0);
		seen = (size_t)st.st_size;
		do {
			CHECK(c->c_f());
			CHECK_IS(rr_yield(), 0);
		} while (!all_told(c, names));
		if (names && FRAMES && c->c_f == c_raw)
			CHECK(strstr(text, " raw_poll+") != NULL &&
			      strstr(text, " c_raw+") != NULL &&
			      strstr(text, " t_calls+") != NULL);
	}
}

/* Without names, two calls suffice. */
static void t_nameless(void *arg)
{
	do {
		CHECK(c_poll() && c_sleep());
		CHECK_IS(rr_yield(), 0);
	} while (files == NONE ? (read_text(), !has(": %s\n", "runs")) :
		 !all_told(&calls[0], 0));
	CHECK_IS(strstr(text, "()\n"), NULL);
	CHECK_IS(strstr(text, "in call"), NULL);
}

/* A thread that computes is sampled, or nothing is said of its frames. */

static NOINLINE void w_compute(void)
{
	volatile long i;

	for (i = 0; i < 20000000; i++)
		;
}

static void t_compute(void *arg)
{
	do {
		w_compute();
		read_text();
	} while (strstr(text, "end of list") == NULL ||
		 !has(" has not given way for %s", ""));
	CHECK(strstr(text, " w_compute+") != NULL ||
	      strstr(text, " t_compute+") != NULL ||
	      strstr(text, "(no backtrace") != NULL);
	CHECK_IS(rr_yield(), 0);
}

/* Calls again and again, from the same place, and never stands still. */
static void t_moves(void *arg)
{
	const char *at;
	int i;

	__atomic_store_n(&moving, 1, __ATOMIC_RELAXED);
	do {
		for (i = 0; i < 300; i++) {
			__atomic_fetch_add(&moves, 1, __ATOMIC_RELAXED);
			CHECK_IS(raw_poll(NULL, 0, 1), 0);
		}
		read_text();
	} while (!has(" has not given way for %s", "") ||
		 __atomic_load_n(&late, __ATOMIC_RELAXED) < 4);
	__atomic_store_n(&moving, 0, __ATOMIC_RELAXED);
	for (at = text; (at = strstr(at, ", in ")) != NULL; at++) {
		at = strchr(at, '\n');
		CHECK(at != NULL);
		CHECK(at[1] == 0 || strncmp(at, "\n\t(no backtrace", 15) == 0);
	}
	CHECK_IS(rr_yield(), 0);
}

static void names_run(void)
{
	start(t_calls, &text);
}

static void nameless_run(void)
{
	start(t_nameless, NULL);
}

static void compute_run(void)
{
	start(t_compute, NULL);
}

static void moves_run(void)
{
	start(t_moves, NULL);
}

static void run(const char *what, void (*f)(void))
{
	static char said[1 << 16];

	doing("%s", what);
	if (check_child(f, said, sizeof said) != 0) {
		fprintf(stderr, "%s: %s\n", what, said);
		CHECK(!"the child has ended well");
	}
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	if (has_names())
		run("names", names_run);
	else
		printf("skipped: names (the system does not tell of calls)\n");
	for (files = FOREIGN; files <= NONE; files++)
		run("nameless", nameless_run);
	files = TRUE_FILES;
	run("computes", compute_run);
	if (has_names() && FRAMES)
		run("moves", moves_run);
	else
		printf("skipped: moves\n");
	return 0;
}
