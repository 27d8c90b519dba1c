/* SPDX-License-Identifier: MIT */
/*
 * What does not work, as ext/wrap/README.md lists it. If one of these tests fails,
 * that list is longer than it has to be.
 */
#include "either.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <termios.h>

static int fd[2];		/* static: threads share it */
static long ran, saw;

static void partner(void *arg)
{
	add(&ran, 1);
}

/* A native thread lets the call return, and tells whether others had run. */
static void *after_some_time(void *arg)
{
	struct timespec t = { 0, 50000000 };

	nanosleep(&t, NULL);
	saw = get(&ran);
	CHECK_IS(write(fd[1], "x", 1), 1);
	return arg;
}

static void *after_partner(void *arg)
{
	until(&ran, 1);
	CHECK_IS(write(fd[1], "x", 1), 1);
	return arg;
}

/* Makes the call f(), which returns when fd[0] has a byte. */
static void run(const char *what, void (*f)(void), void *(*release)(void *))
{
	pthread_t id;

	doing("%s", what);
	CHECK_IS(pipe(fd), 0);
	set(&ran, 0);
	make(0, partner, NULL);
	id = native(release, NULL);
	f();
	native_join(id);
	close(fd[0]);
	close(fd[1]);
	while (get(&ran) == 0)
		yield();
}

static void stops(const char *what, void (*f)(void))
{
	run(what, f, after_some_time);
	CHECK_IS(saw, 0);
}

static void read_it(void)
{
	char c;

	CHECK_IS(read(fd[0], &c, 1), 1);
}

static void stream(void)
{
	FILE *f = fdopen(dup(fd[0]), "r");

	CHECK_IS(fgetc(f), 'x');
	fclose(f);
}

static void epoll_masked(void)
{
	struct epoll_event e = { .events = EPOLLIN };
	int p = epoll_create1(0);
	sigset_t none;

	sigemptyset(&none);
	CHECK_IS(epoll_ctl(p, EPOLL_CTL_ADD, fd[0], &e), 0);
	CHECK_IS(epoll_pwait(p, &e, 1, -1, &none), 1);
	close(p);
}

static void masked(void)
{
	struct pollfd p = { .fd = fd[0], .events = POLLIN };
	sigset_t none;

	sigemptyset(&none);
	CHECK_IS(ppoll(&p, 1, NULL, &none), 1);
}

static void raw(void)
{
	char c;

	CHECK_IS(syscall(SYS_read, fd[0], &c, 1), 1);
}

static void child(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		read_it();
		_exit(3);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void holder(void *arg)
{
	CHECK_IS(pthread_mutex_lock(&lock), 0);
	usleep(1000);
	CHECK_IS(pthread_mutex_unlock(&lock), 0);
	partner(arg);
}

/* The holder cannot run while another thread stops the processor. */
static void mutex(void)
{
	struct timespec t;

	doing("mutex");
	set(&ran, 0);
	make(0, holder, NULL);
	yield();
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_nsec += 200000000;
	t.tv_sec  += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	CHECK_IS(pthread_mutex_timedlock(&lock, &t), ETIMEDOUT);
	while (get(&ran) == 0)
		yield();
}

static __thread int own;

static void changes(void *arg)
{
	own = 2;
}

/* Stands for the error queue of OpenSSL, the locale, and the like. */
static void native_state(void)
{
	doing("native state");
	own = 1;
	make(0, changes, NULL);
	usleep(1000);
	CHECK_IS(own, 2);
}

static void on_alarm(int signo)
{
	partner(NULL);
}

/* In libc a signal ends the call with EINTR. */
static void interrupt(void)
{
	struct sigaction a = { .sa_handler = on_alarm };
	struct itimerval t = { .it_value = { 0, 1000 } };

	doing("interrupt");
	set(&ran, 0);
	CHECK_IS(sigaction(SIGVTALRM, &a, NULL), 0);
	CHECK_IS(sigaction(SIGPROF, &a, NULL), 0);
	CHECK_IS(setitimer(ITIMER_PROF, &t, NULL), 0);
	while (get(&ran) == 0)
		CHECK_IS(usleep(1), 0);
	t.it_value.tv_usec = 0;
	CHECK_IS(setitimer(ITIMER_PROF, &t, NULL), 0);
}

/* MSG_PEEK with MSG_WAITALL, and SO_RCVLOWAT: libc waits for two bytes. */
static void minimum(void)
{
	int two = 2;
	char buf[2];

	doing("minimum");
	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	CHECK_IS(write(fd[1], "x", 1), 1);
	CHECK_IS(recv(fd[0], buf, 2, MSG_PEEK | MSG_WAITALL), 1);
	setsockopt(fd[0], SOL_SOCKET, SO_RCVLOWAT, &two, sizeof two);
	CHECK_IS(recv(fd[0], buf, 2, 0), 1);
	close(fd[0]);
	close(fd[1]);
}

static void sends_urgent(void *arg)
{
	CHECK_IS(send(fd[1], "ux", 2, MSG_OOB), 2);
	CHECK_IS(send(fd[1], "yz", 2, 0), 2);
}

static void urgent(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t len = sizeof in;
	char buf[8];
	int s;

	doing("urgent");
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_THAT((s = socket(AF_INET, SOCK_STREAM, 0)), >=, 0);
	CHECK_THAT((fd[1] = socket(AF_INET, SOCK_STREAM, 0)), >=, 0);
	CHECK(bind(s, (void *)&in, len) == 0 && listen(s, 1) == 0);
	CHECK_IS(getsockname(s, (void *)&in, &len), 0);
	CHECK_IS(connect(fd[1], (void *)&in, len), 0);
	CHECK((fd[0] = accept(s, NULL, NULL)) >= 0 && close(s) == 0);
	CHECK_IS(send(fd[1], "a", 1, 0), 1);
	make(0, sends_urgent, NULL);
	CHECK_IS(recv(fd[0], buf, 4, MSG_WAITALL), 4);	/* libc: 2 */
	CHECK(memcmp(buf, "auyz", 4) == 0);
	close(fd[0]);
	close(fd[1]);
}

static void other_clock(void)
{
	struct timespec t = { 0, 20000000 };

	doing("other clocks");
	set(&ran, 0);
	make(0, partner, NULL);
	CHECK_IS(clock_nanosleep(CLOCK_BOOTTIME, 0, &t, NULL), 0);
	CHECK_IS(get(&ran), 0);
	yield();
}

#define MUCH	400000

static int odd;			/* bytes before: pieces of a write may just fill it */

static void *reads_late(void *arg)
{
	struct timespec t = { 0, 50000000 };
	static char buf[4096];
	long got = 0;
	ssize_t n;

	nanosleep(&t, NULL);
	saw = get(&ran);
	for (; got < MUCH + odd; got += n)
		CHECK_THAT((n = read(fd[0], buf, sizeof buf)), >, 0);
	return arg;
}

/* Writes to a terminal that takes less than it is given. */
static void terminal(void)
{
	static char much[MUCH];
	struct termios t;
	char name[32];
	pthread_t id;

	doing("terminal");
	set(&ran, 0);
	CHECK_THAT((fd[0] = posix_openpt(O_RDWR | O_NOCTTY)), >=, 0);
	CHECK(grantpt(fd[0]) == 0 && unlockpt(fd[0]) == 0);
	CHECK_IS(ptsname_r(fd[0], name, sizeof name), 0);
	CHECK_THAT((fd[1] = open(name, O_RDWR | O_NOCTTY)), >=, 0);
	CHECK_IS(tcgetattr(fd[1], &t), 0);
	cfmakeraw(&t);
	CHECK_IS(tcsetattr(fd[1], TCSANOW, &t), 0);
	CHECK_IS(write(fd[1], much, odd), odd);
	make(0, partner, NULL);
	id = native(reads_late, NULL);
	CHECK_IS(write(fd[1], much, MUCH), MUCH);
	native_join(id);
	close(fd[0]);
	close(fd[1]);
	yield();
}

/* It stops the processor unless it is full when it is asked. */
static void terminals(void)
{
	saw = 1;
	for (odd = 1; odd < 4096 && saw != 0; odd += 200)
		terminal();
	CHECK_IS(saw, 0);
}

static int server, waits[2];
static struct sockaddr_un at = { .sun_family = AF_UNIX };

static void connects(void *arg)
{
	CHECK_IS(connect(waits[1], (void *)&at, sizeof at), 0);
	partner(arg);
}

/* While connect() waits, others see O_NONBLOCK. */
static void flags(void)
{
	doing("flags");
	set(&ran, 0);
	snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "l%d", getpid());
	CHECK_THAT((server = socket(AF_UNIX, SOCK_STREAM, 0)), >=, 0);
	CHECK_IS(bind(server, (void *)&at, sizeof at), 0);
	CHECK_IS(listen(server, 0), 0);
	CHECK_THAT((waits[0] = socket(AF_UNIX, SOCK_STREAM, 0)), >=, 0);
	CHECK_THAT((waits[1] = socket(AF_UNIX, SOCK_STREAM, 0)), >=, 0);
	CHECK_IS(connect(waits[0], (void *)&at, sizeof at), 0);
	make(0, connects, NULL);
	yield();
	CHECK(get(&ran) == 0 && fcntl(waits[1], F_GETFL) & O_NONBLOCK);
	close(accept(server, NULL, NULL));
	while (get(&ran) == 0)
		usleep(1000);
	CHECK(!(fcntl(waits[1], F_GETFL) & O_NONBLOCK));
	close(waits[0]);
	close(waits[1]);
	close(server);
}

#if !defined(USCHED_HARD)		/* there it ends the program */
static void reader(void *arg)
{
	char c;

	CHECK(read(waits[0], &c, 1) == -1 && errno == EBADF);
	partner(arg);
}

/* A number that is used again while a thread waits for the former file. */
static void reuse(void)
{
	struct pollfd p = { .events = POLLIN };

	doing("reuse");
	set(&ran, 0);
	CHECK(pipe(waits) == 0 && pipe(fd) == 0);
	make(0, reader, NULL);
	yield();
	p.fd = waits[0];
	CHECK(close(waits[0]) == 0 && dup(fd[0]) == p.fd);
	CHECK(get(&ran) == 0 && poll(&p, 1, 1) == 0);
	while (get(&ran) == 0)
		yield();
	close(waits[0]);
	close(waits[1]);
	close(fd[0]);
	close(fd[1]);
}
#endif

static void each(void *arg)
{
	run("read", read_it, after_partner);	/* does work */
	stops("stdio", stream);
	stops("epoll_pwait with a mask", epoll_masked);
	stops("ppoll with a mask", masked);
	stops("raw system calls", raw);
	stops("waitpid", child);
	mutex();
	native_state();
	interrupt();
	minimum();
	urgent();
	other_clock();
	terminals();
	flags();
#if !defined(USCHED_HARD)
	reuse();
#endif
}

#if defined(WS)
static void hog(void *arg)
{
	long begun;

	while (get(&ran) == 0) {
		for (begun = check_us(); check_us() - begun < 1000; )
			;
		yield();
	}
}

/*
 * A thread of ws goes on in another native thread, with another errno. But
 * compilers keep the address of errno over calls, as they may in C.
 */
static void moves(void *arg)
{
	long before = syscall(SYS_gettid);

	while (syscall(SYS_gettid) == before)
		usleep(100);
	set(&ran, 1);
}
#endif

int main(int argc, char **argv)
{
	check_start(argc, argv);
	begin(1, 0);
	make(0, each, NULL);
	start_and_finish();
#if defined(WS)
	int i;

	doing("errno");
	set(&ran, 0);
	begin(2, 0);
	make(0, moves, NULL);
	for (i = 0; i < 3; i++)
		make_pinned(0, hog, NULL);
	start_and_finish();
#endif
	return 0;
}
