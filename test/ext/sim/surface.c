/* SPDX-License-Identifier: MIT */
/*
 * surface.c: what truth.c cannot compare, since it waits, or belongs to a host:
 * Unix sockets that block, calls of lib/io/ with deadlines, threads of pthreads,
 * stdio, counters, timers, select(), names, chance, locks and maps of files,
 * signals. Each host is a claim; all run under faults, and none may touch the
 * machine.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <usched/usim.h>
#include <usched/ufile.h>
#include <usched/uio.h>
#include <usched/unet.h>
#include <usched/uscope.h>
#include <usched/usignal.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 500000 };

/* Threads of pthreads: a counter under a lock, a condition, a semaphore. */

struct shared {
	pthread_mutex_t lock;
	pthread_cond_t  changed;
	sem_t           done;
	int             count, host;
};

static void *adder(void *arg)
{
	struct shared *s = arg;
	int i;

	for (i = 0; i < 100; i++) {
		USIM_CHECK(usim_self() == s->host);
		pthread_mutex_lock(&s->lock);
		usleep(usim_random(1000));
		s->count++;
		pthread_cond_broadcast(&s->changed);
		pthread_mutex_unlock(&s->lock);
	}
	sem_post(&s->done);
	return arg;
}

static int threads(void *unused)
{
	struct shared *s = calloc(1, sizeof *s);
	struct timespec until;
	pthread_t t[3];
	void *result;
	int i;

	(void)unused;
	s->host = usim_self();
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	sem_init(&s->done, 0, 0);
	for (i = 0; i < 3; i++)
		USIM_CHECK(pthread_create(&t[i], NULL, adder, s) == 0);
	pthread_mutex_lock(&s->lock);
	while (s->count < 300)
		pthread_cond_wait(&s->changed, &s->lock);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	USIM_CHECK(pthread_cond_timedwait(&s->changed, &s->lock, &until) == ETIMEDOUT);
	pthread_mutex_unlock(&s->lock);
	for (i = 0; i < 3; i++) {
		sem_wait(&s->done);
		USIM_CHECK(pthread_join(t[i], &result) == 0 && result == s);
	}
	USIM_CHECK(s->count == 300);
	return 0;
}

/* Unix sockets that block: more than a buffer, in both kinds of calls. */

static void *pour(void *arg)
{
	static const char data[1000];
	struct sockaddr_un at = { AF_UNIX, "/socket" };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), nr;
	ssize_t put;

	(void)arg;
	while (connect(fd, (struct sockaddr *)&at, sizeof at) != 0)
		usleep(1000);
	for (nr = 0; nr < BYTES; nr += (int)put) {
		put = write(fd, data, sizeof data);
		USIM_CHECK(put > 0);
	}
	close(fd);
	return NULL;
}

static int unixes(void *unused)
{
	char data[3000];
	pthread_t t;
	int listener, fd, nr = 0, pair[2], other;
	ssize_t got;

	(void)unused;
	unlink("/socket");
	USIM_CHECK(pthread_create(&t, NULL, pour, NULL) == 0);
	listener = u_listen_unix("/socket", 4);
	USIM_CHECK(listener >= 0);
	USIM_CHECK(u_accept(listener, NULL, NULL, 0, UNOW) == -EAGAIN);
	fd = u_accept(listener, NULL, NULL, 0, uafter(UTIME_S));
	USIM_CHECK(fd >= 0);
	usleep(100000);		/* the other end fills its buffer, and waits */
	while ((got = u_read(fd, data, sizeof data, uafter(UTIME_S))) > 0)
		nr += (int)got;
	USIM_CHECK(got == 0 && nr == BYTES);
	USIM_CHECK(pthread_join(t, NULL) == 0);
	USIM_CHECK(u_close(fd) == 0 && u_close(listener) == 0);

	USIM_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	USIM_CHECK(u_read(pair[0], data, 1, uafter(50 * UTIME_MS)) == -ETIMEDOUT);
	USIM_CHECK(u_wait_fd(pair[0], UREAD, UNOW) == -EAGAIN);
	fd = eventfd(7, 0);
	USIM_CHECK(u_send_fd(pair[0], fd, UNEVER) == 0);
	other = u_recv_fd(pair[1], UNEVER);
	USIM_CHECK(other > fd && close(fd) == 0);
	USIM_CHECK(read(other, data, 8) == 8 && data[0] == 7);
	close(other);
	close(pair[0]);
	close(pair[1]);
	return 0;
}

/* The same on a host that crashes, with a descriptor on its way. */
static int mortal(void *unused)
{
	int pair[2], fd;

	for (;;) {
		USIM_CHECK(unixes(unused) == 0);
		USIM_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
		fd = eventfd(0, 0);
		USIM_CHECK(u_send_fd(pair[0], fd, UNEVER) == 0 && close(fd) == 0);
		usleep(500000);
		close(pair[0]);
		close(pair[1]);
	}
}

/* Files by stdio, and what is known of them. */

static int files(void *unused)
{
	struct stat st;
	char line[100];
	FILE *f;
	int i, fd;

	(void)unused;
	f = fopen("/notes", "w");
	USIM_CHECK(f != NULL && fileno(f) >= 3);
	for (i = 0; i < 1000; i++)
		USIM_CHECK(fprintf(f, "note %d\n", i) > 0);
	USIM_CHECK(stat("/notes", &st) == 0 && st.st_size < 8900);
	USIM_CHECK(fclose(f) == 0);
	USIM_CHECK(stat("/notes", &st) == 0 && st.st_size == 8890 &&
		   S_ISREG(st.st_mode));
	f = fopen("/notes", "r+");
	USIM_CHECK(f != NULL);
	for (i = 0; fgets(line, sizeof line, f) != NULL; i++)
		USIM_CHECK(atoi(line + 5) == i);
	USIM_CHECK(i == 1000 && fseek(f, 5, SEEK_SET) == 0 && fgetc(f) == '0');
	USIM_CHECK(fclose(f) == 0);
	USIM_CHECK(fopen("/none", "r") == NULL && errno == ENOENT);
	f = fopen("/etc/passwd", "r");
	USIM_CHECK(f == NULL && errno == ENOENT);
	fd = open("/dev/urandom", O_RDONLY);
	USIM_CHECK(read(fd, line, sizeof line) == sizeof line && close(fd) == 0);
	USIM_CHECK(u_stat("/notes", &st, UNEVER) == 0 && st.st_size == 8890);
	USIM_CHECK(remove("/notes") == 0 && access("/notes", F_OK) != 0);
	return 0;
}

/* A line of text each way, by fdopen(). */

static int speaker(void *unused)
{
	FILE *f;
	int listener = u_listen_tcp(NULL, 7, 4, 0), fd;
	char line[100];

	(void)unused;
	USIM_CHECK(listener >= 0);
	while ((fd = u_accept(listener, NULL, NULL, 0, UNEVER)) >= 0) {
		f = fdopen(fd, "r+");
		if (fgets(line, sizeof line, f) != NULL) {
			fprintf(f, "you said %s", line);
			fflush(f);
		}
		fclose(f);
	}
	return 1;
}

static int listener(void *unused)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *at;
	char line[100] = "", name[40], number[20];
	int heard = 0, fd;
	ssize_t nr;

	(void)unused;
	USIM_CHECK(u_getaddrinfo("speaker", "7", &hints, &at, UNEVER) == 0);
	USIM_CHECK(getnameinfo(at->ai_addr, at->ai_addrlen, name, sizeof name,
			       number, sizeof number, 0) == 0);
	USIM_CHECK(strcmp(name, "speaker") == 0 && strcmp(number, "7") == 0);
	while (heard < 30) {
		fd = u_dial(at->ai_addr, at->ai_addrlen, uafter(UTIME_S));
		usleep(300000);
		if (fd < 0)
			continue;
		USIM_CHECK(u_unlisten(fd) == -EINVAL);
		nr = u_write_all(fd, "hello\n", 6, uafter(UTIME_S)) == 6 ?
			u_read_all(fd, line, 15, uafter(UTIME_S)) : -1;
		USIM_CHECK(nr < 15 || memcmp(line, "you said hello\n", 15) == 0);
		heard += nr == 15;
		u_close(fd);
	}
	freeaddrinfo(at);
	return 0;
}

/* Counters and timers that block, and select(). */

static void *later(void *arg)
{
	usleep(20000);
	USIM_CHECK(eventfd_write(*(int *)arg, 5) == 0);
	return NULL;
}

static int events(void *unused)
{
	struct itimerspec by = { { 0, 10000000 }, { 0, 30000000 } };
	struct timeval t = { 0, 5000 };
	static int counter;	/* another thread reads it */
	int timer = timerfd_create(CLOCK_MONOTONIC, 0);
	utime_ns start = usim_time();
	uint64_t nr;
	pthread_t thread;
	fd_set in;

	(void)unused;
	counter = eventfd(0, 0);
	FD_ZERO(&in);
	FD_SET(counter, &in);
	USIM_CHECK(select(counter + 1, &in, NULL, NULL, &t) == 0);
	USIM_CHECK(!FD_ISSET(counter, &in) && usim_time() == start + 5 * UTIME_MS);
	USIM_CHECK(pthread_create(&thread, NULL, later, &counter) == 0);
	FD_SET(counter, &in);
	USIM_CHECK(select(counter + 1, &in, NULL, NULL, NULL) == 1);
	USIM_CHECK(usim_time() == start + 25 * UTIME_MS);
	USIM_CHECK(eventfd_read(counter, &nr) == 0 && nr == 5);
	USIM_CHECK(pthread_join(thread, NULL) == 0);
	USIM_CHECK(timerfd_settime(timer, 0, &by, NULL) == 0);
	USIM_CHECK(read(timer, &nr, 8) == 8 && nr == 1);
	USIM_CHECK(usim_time() == start + 55 * UTIME_MS);
	usleep(35000);
	USIM_CHECK(read(timer, &nr, 8) == 8 && nr == 3);
	return 0;
}

/* Locks of files, which block; files in memory; the order of a folder. */

static void *unlocks(void *fd)
{
	usleep(30000);
	USIM_CHECK(flock(*(int *)fd, LOCK_UN) == 0);
	return NULL;
}

static int locks(void *unused)
{
	static int a;		/* another thread has it */
	int b, in_order = 0, i;
	utime_ns start = usim_time();
	struct flock by = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct dirent **list;
	pthread_t t;
	char *memory;

	(void)unused;
	a = open("lock", O_RDWR | O_CREAT, 0644);
	b = open("lock", O_RDWR);
	USIM_CHECK(flock(a, LOCK_EX) == 0);
	USIM_CHECK(flock(b, LOCK_SH | LOCK_NB) == -1 && errno == EWOULDBLOCK);
	USIM_CHECK(pthread_create(&t, NULL, unlocks, &a) == 0);
	USIM_CHECK(flock(b, LOCK_EX) == 0);
	USIM_CHECK(usim_time() == start + 30 * UTIME_MS);
	USIM_CHECK(pthread_join(t, NULL) == 0);
	USIM_CHECK(fcntl(a, F_SETLK, &by) == 0 && fcntl(b, F_GETLK, &by) == 0);
	USIM_CHECK(by.l_type == F_UNLCK && lockf(a, F_LOCK, 0) == 0);

	USIM_CHECK(write(a, "here", 4) == 4);
	memory = mmap(NULL, 4, PROT_READ, MAP_SHARED, a, 0);
	USIM_CHECK(memory != MAP_FAILED && memcmp(memory, "here", 4) == 0);
	USIM_CHECK(munmap(memory, 4) == 0 && write(a, "more", 4) == 4);

	USIM_CHECK(close(open("other", O_WRONLY | O_CREAT, 0644)) == 0);
	for (i = 0; i < 30; i++) {
		USIM_CHECK(scandir(".", &list, NULL, NULL) == 4);
		in_order += strcmp(list[0]->d_name, ".") == 0;
	}
	USIM_CHECK(in_order > 0 && in_order < 30);
	USIM_CHECK(chdir("/none") == -1 && errno == ENOENT);
	USIM_CHECK(mkdir("folder", 0755) == 0 && chdir("folder") == 0);
	USIM_CHECK(access("../lock", F_OK) == 0 && access("lock", F_OK) == -1);
	return 0;
}

/* Signals: a handler, a mask, waits. */

static int handled;

static void handler(int signo)
{
	handled = signo;
}

static void *kills(void *signo)
{
	usleep(20000);
	USIM_CHECK(kill(getpid(), (int)(intptr_t)signo) == 0);
	return NULL;
}

static void later_kill(int signo)
{
	pthread_t t;

	USIM_CHECK(pthread_create(&t, NULL, kills, (void *)(intptr_t)signo) == 0);
	USIM_CHECK(pthread_detach(t) == 0);
}

/*
 * kill() by another thread interrupts calls of the first, by libc's names. Those of
 * lib/io/ go on. A handler that closes the file ends a call that goes on.
 */

static int closes[2];

static void closer(int signo)
{
	handled = signo;
	close(closes[0]);
}

static void interrupts(void)
{
	struct sigaction a = { .sa_handler = handler };
	int fds[2], first, second;
	char byte;

	USIM_CHECK(pipe(fds) == 0 && sigaction(SIGUSR1, &a, NULL) == 0);
	later_kill(SIGUSR1);
	USIM_CHECK(read(fds[0], &byte, 1) == -1 && errno == EINTR);
	later_kill(SIGUSR1);
	handled = 0;
	USIM_CHECK(u_read(fds[0], &byte, 1, uafter(50 * UTIME_MS)) == -ETIMEDOUT);
	USIM_CHECK(handled == SIGUSR1);
	later_kill(SIGUSR1);
	handled = 0;
	USIM_CHECK(u_wait_fd(fds[0], UREAD, uafter(50 * UTIME_MS)) == -ETIMEDOUT);
	USIM_CHECK(handled == SIGUSR1);
	first = open("file", O_RDWR | O_CREAT, 0600);
	second = open("file", O_RDWR);
	USIM_CHECK(flock(first, LOCK_EX) == 0);
	later_kill(SIGUSR1);
	USIM_CHECK(flock(second, LOCK_EX) == -1 && errno == EINTR);
	/* An alarm, while the first thread waits for a lock, comes all the same. */
	signal(SIGALRM, handler);
	alarm(1);
	USIM_CHECK(u_sleep(uafter(2 * UTIME_S)) == 0 && handled == SIGALRM);
	signal(SIGUSR1, closer);
	closes[0] = fds[0];
	later_kill(SIGUSR1);
	USIM_CHECK(read(fds[0], &byte, 1) == -1 && errno == EBADF);
	close(fds[1]);
	close(first);
	close(second);
}

/* A close() with SO_LINGER waits for the other end to read, or for its seconds. */

static void *drains(void *fd)
{
	char data[5000];

	usleep(20000);
	while (read((int)(intptr_t)fd, data, sizeof data) > 0)
		;
	return NULL;
}

static void full_pair(int listener, int fds[2])
{
	struct sockaddr_in at;
	socklen_t n = sizeof at;
	struct linger l = { 1, 1 };
	static char data[100000];

	USIM_CHECK(getsockname(listener, (struct sockaddr *)&at, &n) == 0);
	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	USIM_CHECK(connect(fds[0], (struct sockaddr *)&at, n) == 0);
	fds[1] = accept(listener, NULL, NULL);
	USIM_CHECK(fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0);
	USIM_CHECK(write(fds[0], data, sizeof data) < (ssize_t)sizeof data);
	USIM_CHECK(setsockopt(fds[0], SOL_SOCKET, SO_LINGER, &l, sizeof l) == 0);
}

static void lingers(void)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), fds[2];
	struct sockaddr_in at = { .sin_family = AF_INET };
	utime_ns start;
	pthread_t t;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	USIM_CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 &&
		   listen(listener, 1) == 0);
	full_pair(listener, fds);
	start = usim_time();
	USIM_CHECK(close(fds[0]) == 0 && usim_time() == start + UTIME_S);
	close(fds[1]);
	full_pair(listener, fds);
	start = usim_time();
	USIM_CHECK(pthread_create(&t, NULL, drains, (void *)(intptr_t)fds[1]) == 0);
	USIM_CHECK(close(fds[0]) == 0);
	USIM_CHECK(usim_time() - start >= 20 * UTIME_MS);
	USIM_CHECK(usim_time() - start < 21 * UTIME_MS);
	USIM_CHECK(pthread_join(t, NULL) == 0);
	close(fds[1]);
	close(listener);
}

static int sleeps_long(void *unused)
{
	(void)unused;
	return u_sleep(uafter(100 * UTIME_S));
}

static int sleeps_not(void *unused)
{
	return unused == NULL ? 3 : 0;
}

static int signals(void *unused)
{
	utime_ns start = usim_time();
	sigset_t set;
	int signo;

	(void)unused;
	USIM_CHECK(signal(SIGUSR1, handler) == SIG_DFL);
	later_kill(SIGUSR1);
	USIM_CHECK(pause() == -1 && errno == EINTR && handled == SIGUSR1);
	USIM_CHECK(usim_time() == start + 20 * UTIME_MS);
	interrupts();
	lingers();
	start = usim_time() - 20 * UTIME_MS;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	USIM_CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	later_kill(SIGTERM);
	USIM_CHECK(sigwait(&set, &signo) == 0 && signo == SIGTERM);
	USIM_CHECK(usim_time() == start + 40 * UTIME_MS);
	USIM_CHECK(usignal_wait(UNOW) == -EINVAL);
	USIM_CHECK(usignal_watch(SIGKILL) == -EINVAL && usignal_watch(SIGHUP) == 0);
	USIM_CHECK(usignal_wait(UNOW) == -EAGAIN);
	USIM_CHECK(usignal_wait(uafter(5 * UTIME_MS)) == -ETIMEDOUT);
	later_kill(SIGHUP);
	USIM_CHECK(usignal_wait(UNEVER) == SIGHUP);
	USIM_CHECK(usim_time() == start + 65 * UTIME_MS);
	USIM_CHECK(usignal_unwatch(SIGHUP) == 0);
	later_kill(SIGHUP);
	USIM_CHECK(usignal_until(SIGHUP, sleeps_long, NULL) == 0);
	USIM_CHECK(usim_time() == start + 85 * UTIME_MS);
	USIM_CHECK(usignal_until(SIGHUP, sleeps_not, NULL) == 3);
	USIM_CHECK(usignal_until(SIGKILL, sleeps_not, NULL) == -EINVAL);
	USIM_CHECK(usignal_wait(UNOW) == -EINVAL);
	USIM_CHECK(kill(getpid() + 1, 0) == -1 && errno == ESRCH);
	return 0;
}

/*
 * Threads that wait at the same time, each with a mask of its own: a signal comes to that
 * which lets it in. Outside of the calls it is blocked, and stays so.
 */

static volatile int caught[2];

static void catches(int signo)
{
	caught[signo == SIGUSR2]++;
}

static long wait_for(int signo, utime_ns ns)
{
	struct timespec t = { 0, ns };
	sigset_t but;

	sigfillset(&but);
	sigdelset(&but, signo);
	return ppoll(NULL, 0, &t, &but);
}

static void *second(void *unused)
{
	(void)unused;
	USIM_CHECK(wait_for(SIGUSR2, 500 * UTIME_MS) == -1 && errno == EINTR);
	USIM_CHECK(caught[0] == 0 && caught[1] == 1);
	USIM_CHECK(wait_for(SIGUSR2, 100 * UTIME_MS) == 0);
	return NULL;
}

static int masks(void *unused)
{
	utime_ns start = usim_time();
	sigset_t all, now;
	pthread_t t;

	(void)unused;
	USIM_CHECK(signal(SIGUSR1, catches) == SIG_DFL && signal(SIGUSR2, catches) == SIG_DFL);
	sigfillset(&all);
	USIM_CHECK(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
	USIM_CHECK(pthread_create(&t, NULL, second, NULL) == 0);
	later_kill(SIGUSR2);
	USIM_CHECK(wait_for(SIGUSR1, 70 * UTIME_MS) == 0);
	USIM_CHECK(usim_time() == start + 70 * UTIME_MS && caught[1] == 1);
	later_kill(SIGUSR1);
	USIM_CHECK(wait_for(SIGUSR1, 500 * UTIME_MS) == -1 && errno == EINTR);
	USIM_CHECK(usim_time() == start + 90 * UTIME_MS && caught[0] == 1);
	USIM_CHECK(kill(getpid(), SIGUSR1) == 0);
	USIM_CHECK(pthread_join(t, NULL) == 0 && caught[0] == 1);
	USIM_CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0);
	USIM_CHECK(sigismember(&now, SIGUSR1) == 1 && sigismember(&now, SIGUSR2) == 1);
	USIM_CHECK(sigprocmask(SIG_UNBLOCK, &all, NULL) == 0 && caught[0] == 2);
	return 0;
}

/* SIGPIPE ends a host that has not said otherwise. */
static int piper(void *unused)
{
	static int boots;
	int fds[2];

	USIM_CHECK(pipe(fds) == 0 && close(fds[0]) == 0);
	if (boots++ == 0) {
		(void)!write(fds[1], unused, 1);
		usim_fail("SIGPIPE does not end it");
	}
	usim_sometimes(1, "a host boots again after SIGPIPE");
	USIM_CHECK(signal(SIGPIPE, SIG_IGN) == SIG_DFL);
	USIM_CHECK(write(fds[1], &fds, 1) == -1 && errno == EPIPE);
	return 0;
}

/* Names, by the older calls; the user. */
static int names(void *unused)
{
	struct hostent *h = gethostbyname("speaker"), at;
	struct in_addr ip;
	char room[400];
	int error;

	(void)unused;
	USIM_CHECK(h != NULL && h->h_length == 4);
	memcpy(&ip, h->h_addr_list[0], 4);
	USIM_CHECK(ntohl(ip.s_addr) == 0x0a000005);
	h = gethostbyaddr(&ip, 4, AF_INET);
	USIM_CHECK(h != NULL && strcmp(h->h_name, "speaker") == 0);
	USIM_CHECK(gethostbyname_r("none", &at, room, sizeof room, &h, &error) == 0);
	USIM_CHECK(h == NULL && error == HOST_NOT_FOUND);
	USIM_CHECK(gethostbyname_r("piper", &at, room, 10, &h, &error) == ERANGE);
	USIM_CHECK(gethostbyname_r("piper", &at, room + 1, 300, &h, &error) == 0);
	USIM_CHECK(h == &at && strcmp(at.h_name, "piper") == 0);
	USIM_CHECK(strcmp(getpwuid(getuid())->pw_dir, "/") == 0);
	USIM_CHECK(sysconf(_SC_NPROCESSORS_ONLN) == 1);
	return 0;
}

/* Threads of a scope: the first error cancels the waits of the others. */

static int waits(void *fd)
{
	char byte;

	return (int)u_read(*(int *)fd, &byte, 1, UNEVER);
}

static int errs(void *unused)
{
	(void)unused;
	usleep(1000);
	return -EIO;
}

static int scopes(void *unused)
{
	static int fds[2];
	struct uscope *s;

	(void)unused;
	USIM_CHECK(pipe(fds) == 0 && uscope_begin(&s, UNEVER) == 0);
	USIM_CHECK(uscope_go(s, waits, &fds[0]) == 0 && uscope_go(s, errs, NULL) == 0);
	USIM_CHECK(uscope_end(&s) == -EIO);
	return 0;
}

/* Each claim runs to its end, which exit() would hide. */

typedef int claim(void *unused);

static int completed;

static int complete(void *f)
{
	int rc = ((claim *)(intptr_t)f)(NULL);

	completed++;
	return rc;
}

static void claims(const char *name, claim *f)
{
	usim_client(name, complete, (void *)(intptr_t)f);
}

static int all(void *nr)
{
	while (completed < (int)(intptr_t)nr)
		sleep(1);
	return 0;
}

/* A first thread that leaves: its handlers run, and its host ends with the last thread. */

static int left;

static void leaves(void *unused)
{
	(void)unused;
	left++;
}

static void ends_last(void)
{
	USIM_CHECK(left == 3);
	completed++;
}

static void *stays(void *first)
{
	void *result;

	USIM_CHECK(pthread_join(*(pthread_t *)first, &result) == 0);
	USIM_CHECK(result == first && left == 2);
	usleep(10000);
	left++;
	return NULL;
}

static int leaver(void *unused)
{
	static pthread_t first, t;
	pthread_key_t key;

	(void)unused;
	first = pthread_self();
	USIM_CHECK(atexit(ends_last) == 0 && pthread_key_create(&key, leaves) == 0);
	USIM_CHECK(pthread_setspecific(key, &left) == 0);
	USIM_CHECK(pthread_create(&t, NULL, stays, &first) == 0);
	USIM_CHECK(gettid() == getpid());
	pthread_cleanup_push(leaves, NULL);
	pthread_exit(&first);
	pthread_cleanup_pop(0);
	return 1;
}

static void setup(struct usim_world *w)
{
	w->w_faults = 30;
	claims("threads", threads);
	claims("unixes", unixes);
	claims("files", files);
	usim_host("mortal", mortal, NULL);
	usim_host("speaker", speaker, NULL);
	claims("listener", listener);
	claims("events", events);
	claims("scopes", scopes);
	claims("locks", locks);
	claims("signals", signals);
	claims("masks", masks);
	usim_host("piper", piper, NULL);
	claims("names", names);
	usim_client("leaver", leaver, NULL);
	usim_client("all", all, (void *)11);
}

int main(int argc, char **argv)
{
	return usim_main(argc, argv, setup);
}
