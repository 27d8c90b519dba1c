/* SPDX-License-Identifier: MIT */
/*
 * cancel.c: pthread_cancel() of a thread of a host does what it does on Linux: in each
 * call that waits, before each call that is a cancellation point, and not in others. Clean-up
 * handlers run, and destructors of keys, as threads of their host. Prints what happened;
 * calls.sh compares this machine with a host. SIMULATED: as a host.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#if defined(SIMULATED)
#include <usched/usim.h>
#endif

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* What threads of a test share. */
static struct {
	int             in[2];		/* a pipe without bytes */
	int             out[2];		/* one without room */
	int             pair[2];	/* sockets; the first has no room to send */
	int             listener;
	int             full;		/* a listener whose queue is full */
	int             set, counter, timer;
	int             file, locked;
	pthread_mutex_t lock;
	pthread_cond_t  cond;
	sem_t           sem;
	pthread_t       forever;
} w;

static char byte[1];
static struct iovec v = { byte, 1 };
static const struct timespec hour = { 3600, 0 };

/* Waits without an end. */

static void by_sleep(void) { sleep(3600); }
static void by_usleep(void) { usleep(3000000); }
static void by_nanosleep(void) { nanosleep(&hour, NULL); }
static void by_clock(void) { clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, NULL); }
static void by_read(void) { (void)!read(w.in[0], byte, 1); }
static void by_readv(void) { (void)!readv(w.in[0], &v, 1); }
static void by_recv(void) { recv(w.pair[0], byte, 1, 0); }
static void by_recvfrom(void) { recvfrom(w.pair[0], byte, 1, 0, NULL, NULL); }
static void by_write(void) { (void)!write(w.out[1], byte, 1); }
static void by_writev(void) { (void)!writev(w.out[1], &v, 1); }
static void by_send(void) { send(w.pair[0], byte, 1, 0); }
static void by_sendto(void) { sendto(w.pair[0], byte, 1, 0, NULL, 0); }
static void by_accept(void) { accept(w.listener, NULL, NULL); }
static void by_accept4(void) { accept4(w.listener, NULL, NULL, SOCK_CLOEXEC); }
static void by_counter(void) { eventfd_t nr; (void)!read(w.counter, &nr, sizeof nr); }
static void by_timer(void) { eventfd_t nr; (void)!read(w.timer, &nr, sizeof nr); }
static void by_pause(void) { pause(); }
static void by_join(void) { pthread_join(w.forever, NULL); }
static void by_sem(void) { sem_wait(&w.sem); }

static void by_recvmsg(void)
{
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	recvmsg(w.pair[0], &m, 0);
}

static void by_sendmsg(void)
{
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	sendmsg(w.pair[0], &m, 0);
}

static void by_connect(void)
{
	struct sockaddr_un at = { AF_UNIX, "full" };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	connect(fd, (struct sockaddr *)&at, sizeof at);
	close(fd);
}

static void by_poll(void)
{
	struct pollfd p = { w.in[0], POLLIN, 0 };

	poll(&p, 1, -1);
}

static void by_ppoll(void)
{
	struct pollfd p = { w.in[0], POLLIN, 0 };

	ppoll(&p, 1, &hour, NULL);
}

static void by_select(void)
{
	fd_set in;

	FD_ZERO(&in);
	FD_SET(w.in[0], &in);
	select(w.in[0] + 1, &in, NULL, NULL, NULL);
}

static void by_pselect(void)
{
	sigset_t none;

	sigemptyset(&none);
	pselect(0, NULL, NULL, NULL, &hour, &none);
}

static void by_epoll(void)
{
	struct epoll_event e;

	epoll_wait(w.set, &e, 1, -1);
}

static void by_epoll_masked(void)
{
	struct epoll_event e;
	sigset_t none;

	sigemptyset(&none);
	epoll_pwait(w.set, &e, 1, -1, &none);
}

static void by_sigsuspend(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigsuspend(&none);
}

static void by_sigwait(void)
{
	sigset_t set;
	int signo;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigwait(&set, &signo);
}

static void by_sigwaitinfo(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigwaitinfo(&set, NULL);
}

static void by_sigtimedwait(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigtimedwait(&set, NULL, &hour);
}

static void unlock(void *lock)
{
	pthread_mutex_unlock(lock);
}

static void by_cond(void)
{
	pthread_mutex_lock(&w.lock);
	pthread_cleanup_push(unlock, &w.lock);
	pthread_cond_wait(&w.cond, &w.lock);
	pthread_cleanup_pop(1);
}

static void by_cond_timed(void)
{
	struct timespec until = { time(NULL) + 3600, 0 };

	pthread_mutex_lock(&w.lock);
	pthread_cleanup_push(unlock, &w.lock);
	pthread_cond_timedwait(&w.cond, &w.lock, &until);
	pthread_cleanup_pop(1);
}

static void by_sem_timed(void)
{
	struct timespec until = { time(NULL) + 3600, 0 };

	sem_timedwait(&w.sem, &until);
}

/* Waits that are no cancellation points. */

static void by_mutex(void)
{
	pthread_mutex_lock(&w.lock);
	pthread_mutex_unlock(&w.lock);
}

static void by_flock(void)
{
	flock(w.locked, LOCK_EX);
	flock(w.locked, LOCK_UN);
}

/* Calls that need not wait. Those in the second list are no points. */

static void to_write(void) { (void)!write(w.in[1], byte, 1); }
static void to_read(void) { (void)!read(w.counter, byte, 0); }
static void to_open(void) { close(open("new", O_RDWR | O_CREAT, 0600)); }
static void to_creat(void) { close(creat("new", 0600)); }
static void to_openat(void) { close(openat(AT_FDCWD, "new", O_RDWR | O_CREAT, 0600)); }
static void to_close(void) { close(w.file); }
static void to_pread(void) { (void)!pread(w.file, byte, 1, 0); }
static void to_pwrite(void) { (void)!pwrite(w.file, byte, 1, 0); }
static void to_fsync(void) { fsync(w.file); }
static void to_fdatasync(void) { fdatasync(w.file); }
static void to_lockf(void) { (void)!lockf(w.file, F_LOCK, 0); }
static void to_poll(void) { poll(NULL, 0, 0); }
static void to_usleep(void) { usleep(0); }
static void to_send(void) { send(w.pair[1], byte, 1, 0); }
static void to_test(void) { pthread_testcancel(); }

static void to_yield(void) { sched_yield(); }
static void to_seek(void) { lseek(w.file, 0, SEEK_SET); }
static void to_stat(void) { (void)access("file", F_OK); }
static void to_rename(void) { rename("file", "file"); }
static void to_trylock(void) { pthread_mutex_trylock(&w.lock); }

struct test {
	const char *name;
	void      (*f)(void);
};

#define TEST(name)	{ #name, name }

static const struct test waits[] = {
	TEST(by_sleep), TEST(by_usleep), TEST(by_nanosleep), TEST(by_clock),
	TEST(by_read), TEST(by_readv), TEST(by_recv), TEST(by_recvfrom),
	TEST(by_recvmsg), TEST(by_write), TEST(by_writev), TEST(by_send),
	TEST(by_sendto), TEST(by_sendmsg), TEST(by_accept), TEST(by_accept4),
	TEST(by_connect), TEST(by_counter), TEST(by_timer), TEST(by_poll), TEST(by_ppoll),
	TEST(by_select), TEST(by_pselect), TEST(by_epoll), TEST(by_epoll_masked),
	TEST(by_pause), TEST(by_sigsuspend), TEST(by_sigwait), TEST(by_sigwaitinfo),
	TEST(by_sigtimedwait), TEST(by_join), TEST(by_cond), TEST(by_cond_timed),
	TEST(by_sem), TEST(by_sem_timed), { NULL, NULL }
};

static const struct test others[] = {
	TEST(by_mutex), TEST(by_flock), { NULL, NULL }
};

static const struct test quick[] = {
	TEST(to_write), TEST(to_read), TEST(to_open), TEST(to_creat), TEST(to_openat),
	TEST(to_close), TEST(to_pread), TEST(to_pwrite), TEST(to_fsync),
	TEST(to_fdatasync), TEST(to_lockf), TEST(to_poll), TEST(to_usleep), TEST(to_send),
	TEST(to_test), TEST(to_yield), TEST(to_seek), TEST(to_stat), TEST(to_rename),
	TEST(to_trylock), { NULL, NULL }
};

/* One test: a thread that calls it, with a handler and a key. */

struct run {
	const struct test *test;
	bool               is_pending;	/* it is cancelled before its call */
	bool               is_disabled;
	bool               goes_on;	/* the call has returned */
	int                cleaned, destroyed;
	sem_t              ready;
};

static pthread_key_t key;

static void clean(void *run)
{
	((struct run *)run)->cleaned++;
}

static void destroy(void *run)
{
	struct run *r = run;

	usleep(1);		/* a host's thread still */
	r->destroyed++;
}

static void *body(void *arg)
{
	struct run *r = arg;
	int was;

	pthread_setspecific(key, r);
	pthread_cleanup_push(clean, r);
	if (r->is_pending || r->is_disabled)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	sem_post(&r->ready);
	if (r->is_pending || r->is_disabled)
		usleep(20000);			/* meanwhile it is cancelled */
	if (r->is_pending)
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
	r->test->f();
	r->goes_on = true;
	if (!r->is_disabled)
		pthread_testcancel();
	pthread_cleanup_pop(0);
	return NULL;
}

/* The run lies on the heap, as stacks of hosts' threads are moved. */
static void try(const struct test *t, const char *how, struct run as)
{
	struct run *r = malloc(sizeof *r);
	void *result = NULL;
	pthread_t thread;

	*r = as;
	r->test = t;
	sem_init(&r->ready, 0, 0);
	if (pthread_create(&thread, NULL, body, r) != 0)
		abort();
	sem_wait(&r->ready);
	if (!r->is_pending && !r->is_disabled)
		usleep(5000);			/* it waits now */
	printf("%s, %s: %d", t->name, how, pthread_cancel(thread));
	if (t->f == by_mutex || t->f == by_flock)
		usleep(5000);
	if (t->f == by_mutex)
		pthread_mutex_unlock(&w.lock);
	if (t->f == by_flock)
		flock(w.file, LOCK_UN);
	if (pthread_join(thread, &result) != 0)
		abort();
	printf(", %s, it has %s, cleaned %d, destroyed %d\n",
	       result == PTHREAD_CANCELED ? "canceled" : "not canceled",
	       r->goes_on ? "returned" : "not returned", r->cleaned, r->destroyed);
	sem_destroy(&r->ready);
	free(r);
}

static void *pauses(void *unused)
{
	for (;;)
		sleep(3600);
	return unused;
}

/* The queue of a listener of Unix has one more place than it was told. */
static void fill_listener(void)
{
	struct sockaddr_un at = { AF_UNIX, "full" };
	int i, fd;

	w.full = socket(AF_UNIX, SOCK_STREAM, 0);
	unlink(at.sun_path);
	if (bind(w.full, (struct sockaddr *)&at, sizeof at) != 0 || listen(w.full, 0) != 0)
		abort();
	for (i = 0; i < 3; i++) {
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		if (connect(fd, (struct sockaddr *)&at, sizeof at) != 0)
			break;
	}
}

static void fill(int fd)
{
	static const char data[65536];
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	while (write(fd, data, sizeof data) > 0)
		;
	while (write(fd, data, 1) > 0)
		;
	fcntl(fd, F_SETFL, flags);
}

static void make(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	w.listener = socket(AF_INET, SOCK_STREAM, 0);
	if (pipe(w.in) != 0 || pipe(w.out) != 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, w.pair) != 0 ||
	    bind(w.listener, (struct sockaddr *)&at, sizeof at) != 0 ||
	    listen(w.listener, 1) != 0 || pthread_key_create(&key, destroy) != 0)
		abort();
	fill(w.out[1]);
	fill(w.pair[0]);
	fill_listener();
	w.set = epoll_create1(0);
	w.counter = eventfd(0, 0);
	w.timer = timerfd_create(CLOCK_MONOTONIC, 0);
	w.file = open("file", O_RDWR | O_CREAT, 0600);
	w.locked = open("file", O_RDWR);
	pthread_mutex_init(&w.lock, NULL);
	pthread_cond_init(&w.cond, NULL);
	sem_init(&w.sem, 0, 0);
	pthread_create(&w.forever, NULL, pauses, NULL);
}

static int tests(void *unused)
{
	const struct test *t;

	(void)unused;
	make();
	for (t = waits; t->name != NULL; t++)
		try(t, "waits", (struct run) { .goes_on = false });
	for (t = others; t->name != NULL; t++) {
		if (t->f == by_mutex)
			pthread_mutex_lock(&w.lock);
		else
			flock(w.file, LOCK_EX);
		try(t, "waits", (struct run) { .goes_on = false });
	}
	for (t = quick; t->name != NULL; t++)
		try(t, "pending", (struct run) { .is_pending = true });
	for (t = quick; t->name != NULL; t++)
		if (t->f != to_close && t->f != to_test)
			try(t, "disabled", (struct run) { .is_disabled = true });
	return 0;
}

#if defined(SIMULATED)
static void setup(struct usim_world *world)
{
	world->w_faults = 0;
	usim_client("tests", tests, NULL);
}
#endif

int main(int argc, char **argv)
{
	(void)argc, (void)argv;
	setvbuf(stdout, NULL, _IOLBF, 0);
#if defined(SIMULATED)
	return usim_main(argc, argv, setup);
#else
	return tests(NULL);
#endif
}
