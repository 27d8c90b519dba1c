/* SPDX-License-Identifier: MIT */
/* file: calls for files and names wait elsewhere, and lose nothing. */
/* VARIANTS: RR LL WS PR */

/*
 * All buffers lie on stacks of threads, which move while they wait, in a file
 * system that can tell what is cached, and in another that cannot. A FIFO can
 * only be opened by two at once, so a processor goes on while a thread opens
 * it. A call that has not begun does nothing, and ends at its deadline or by a
 * cancellation also while it waits its turn. A call that has begun does not.
 */

#include "either.h"
#include "ucall.h"
#include "ufile.h"
#include "uio.h"
#include "uscope.h"
#include "uthread.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <sys/stat.h>

#define SIZE	(UFILE_PART + 5000)
#define WRITERS	4

static char dir[64], fifo[80];
static const char *const places[] = { "/tmp", "/dev/shm" };
static long ended;

static const char *name(char *at, const char *what, int i)
{
	sprintf(at, "%s/%s%d", dir, what, i);
	return at;
}

static char byte(int writer, long at)
{
	return (char)check_hash((unsigned)writer, (unsigned)at);
}

static void fill(char *buf, int writer, long from, long nr)
{
	long i;

	for (i = 0; i < nr; i++)
		buf[i] = byte(writer, from + i);
}

static bool same(const char *buf, int writer, long from, long nr)
{
	long i;

	for (i = 0; i < nr && buf[i] == byte(writer, from + i); i++)
		;
	return i == nr;
}

/* Writes and reads back pieces of its file, of any size. */

static void piece(int fd, int writer, long at, long nr)
{
	char buf[6000];

	CHECK_THAT(nr, <=, (long)sizeof buf);
	fill(buf, writer, at, nr);
	CHECK_IS(u_pwrite(fd, buf, (size_t)nr, at, UNEVER), nr);
	memset(buf, 0, sizeof buf);
	CHECK_IS(u_pread(fd, buf, (size_t)nr, at, UNEVER), nr);
	CHECK(same(buf, writer, at, nr));
}

static void whole(int fd, int writer)
{
	char *buf = malloc(SIZE + 1);
	ssize_t rc;
	int i;

	CHECK(buf != NULL);
	fill(buf, writer, 0, SIZE);
	CHECK_IS(u_pwrite(fd, buf, SIZE, 0, UNEVER), SIZE);
	memset(buf, 0, SIZE);
	CHECK_IS(u_fsync(fd, UNEVER), 0);
	for (i = 0; i < 2; i++) {	/* from the disk; from memory */
#if defined(POSIX_FADV_DONTNEED)
		if (i == 0)
			(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
#endif
		CHECK_IS(u_pread(fd, buf, SIZE + 1, 0, UNEVER), SIZE);
		CHECK(same(buf, writer, 0, SIZE));
		CHECK_IS(u_pread(fd, buf, 1, SIZE, UNEVER), 0);
	}
	CHECK_IS(u_pread(fd, buf, 1, -1, UNEVER), -EINVAL);
	CHECK_IS(u_pwrite(fd, buf, 1, -1, UNEVER), -EINVAL);
	rc = u_pread(fd, buf, 10, 20, UNOW);
	CHECK(rc == -EAGAIN || (rc == 10 && same(buf, writer, 20, 10)));
	free(buf);
}

static void writer(void *arg)
{
	int i, fd, me = (int)(intptr_t)arg;
	unsigned random = check_seed + (unsigned)me;
	char from[80], to[80];
	struct stat st;

	name(from, "from", me);
	name(to, "to", me);
	fd = u_open(from, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, UNEVER);
	CHECK_THAT(fd, >=, 0);
	for (i = 0; i < 10; i++)
		piece(fd, me, check_random(&random) % 9000,
		      check_random(&random) % 6000);
	whole(fd, me);
	CHECK_IS(u_close(fd), 0);
	CHECK_IS(u_rename(from, to, UNEVER), 0);
	CHECK_IS(u_stat(from, &st, UNEVER), -ENOENT);
	CHECK(u_stat(to, &st, UNEVER) == 0 && st.st_size == SIZE);
	CHECK_IS(u_unlink(to, UNEVER), 0);
	CHECK_IS(u_unlink(to, UNEVER), -ENOENT);
	add(&ended, 1);
}

/* A FIFO. */

static void opener(void *arg)
{
	int flags = (int)(intptr_t)arg;
	int fd = u_open(fifo, flags, 0, UNEVER);
	char c = 'x';

	CHECK_THAT(fd, >=, 0);
	if (flags == O_WRONLY)
		CHECK_IS(u_write(fd, &c, 1, UNEVER), 1);
	else
		CHECK(u_read(fd, &c, 1, UNEVER) == 1 && c == 'x');
	CHECK_THAT(u_pread(fd, &c, 1, 0, UNEVER), <, 0); /* ESPIPE, EBADF */
	CHECK_IS(u_close(fd), 0);
	add(&ended, 1);
}

/* Calls that do not begin. */

static void none(const char *path, utime_ns until, int error)
{
	struct addrinfo *list;
	char buf[10] = "unchanged";
	struct stat st;
	int rc;

	CHECK_IS(u_open(path, O_CREAT | O_RDWR, 0600, until), error);
	CHECK_IS(u_rename(fifo, path, until), error);
	CHECK_IS(u_unlink(fifo, until), error);
	CHECK_IS(u_stat(fifo, &st, until), error);
	CHECK_IS(u_fsync(0, until), error);
	rc = u_pwrite(1000000, buf, 1, 0, until);
	CHECK(rc == error || (rc == -EBADF &&	/* tried at once: RWF_NOWAIT */
	      (error == -EAGAIN || error == -ETIMEDOUT)));
	CHECK_IS(u_getaddrinfo("localhost", NULL, NULL, &list, until), error);
	CHECK_STR(buf, "unchanged");
	CHECK(stat(path, &st) != 0 && stat(fifo, &st) == 0);
}

static void begins_not(void *arg)
{
	char path[80];
	struct uscope *s;

	name(path, "never", 0);
	none(path, UNOW, -EAGAIN);
	none(path, 1, -ETIMEDOUT);
	none(path, -1, -EINVAL);
	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	uscope_cancel(s);
	none(path, UNEVER, -ECANCELED);
	CHECK_IS(uscope_end(&s), -ECANCELED);
	add(&ended, 1);
}

/* A call that has begun goes on after a cancellation. */

static long begun;

static void late(void *arg)
{
	struct uscope *s;
	int fd;

	CHECK_IS(uscope_begin(&s, uafter(UTIME_MS)), 0);
	set(&begun, 1);
	fd = u_open(fifo, O_RDONLY, 0, uafter(10 * UTIME_S));
	CHECK(fd >= 0 || fd == -ECANCELED);
	if (fd >= 0)
		CHECK_IS(u_close(fd), 0);
	CHECK_IS(uscope_end(&s), -ETIMEDOUT);
	set(&begun, 2);
}

static void after_that(void *arg)
{
	int fd;

	yield_until(&begun, 1);
	CHECK_IS(u_sleep(uafter(3 * UTIME_MS)), 0);
	if (get(&begun) == 1) {
		fd = u_open(fifo, O_RDWR, 0, UNEVER);
		CHECK_THAT(fd, >=, 0);
		yield_until(&begun, 2);
		CHECK_IS(u_close(fd), 0);
	}
	add(&ended, 1);
}

/*
 * Two calls are all that run, and do not return. Others wait their turn, in vain:
 * until their deadline, a cancellation, or an interrupt. Those that have waited
 * longer are made all the same, after the first two, but for them.
 */

#define DEAD	2

static long dead, gate, in_vain, made;

static void returns_not(void *arg)
{
	add(&dead, 1);
	while (get(&gate) == 0)
		usleep(100);
}

static void calls_dead(void *arg)
{
	CHECK_IS(ucall(returns_not, NULL), 0);
	add(&ended, 1);
}

static void waits_its_turn(void *arg)
{
	char path[80];

	CHECK_IS(u_unlink(name(path, "never", 0), UNEVER), -ENOENT);
	CHECK_IS(get(&gate), 1);
	add(&made, 1);
}

static void cancels(void *scope)
{
	yield();
	uscope_cancel(scope);
}

static void *is_interrupted(void *arg)
{
	CHECK_IS(u_unlink(fifo, UNEVER), -ECANCELED);
	add(&in_vain, 1);
	return arg;
}

static void turn_comes_not(void *arg)
{
	char path[80];
	struct uthread *t;
	struct uscope *s;
	struct stat st;

	yield_until(&dead, DEAD);
	make(0, waits_its_turn, NULL);
	yield();
	CHECK_IS(u_open(name(path, "never", 0), O_CREAT | O_RDWR, 0600,
		 uafter(5 * UTIME_MS)), -ETIMEDOUT);
	CHECK_IS(u_unlink(fifo, uafter(UTIME_MS)), -ETIMEDOUT);
	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	make(0, cancels, s);
	CHECK_IS(u_stat(fifo, &st, UNEVER), -ECANCELED);
	CHECK_IS(uscope_end(&s), -ECANCELED);
	CHECK_IS(uthread_make(&t, is_interrupted, NULL, NULL), 0);
	CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	CHECK(uthread_interrupt(t) == 0 && uthread_join(t, NULL, UNEVER) == 0);
	CHECK(get(&in_vain) == 1 && get(&made) == 0 && get(&ended) == 0);
	set(&gate, 1);
	yield_until(&ended, DEAD);
	yield_until(&made, 1);
	CHECK(stat(path, &st) != 0 && stat(fifo, &st) == 0);
	add(&ended, 1);
}

static void turns(int proc_nr)
{
	int i;

	ended = dead = gate = in_vain = made = 0;
	CHECK_IS(ucall_limit(DEAD), 0);
	begin(proc_nr, 0);
	for (i = 0; i < DEAD; i++)
		make(i, calls_dead, NULL);
	make(0, turn_comes_not, NULL);
	start_and_finish();
	CHECK_IS(ended, DEAD + 1);
	CHECK_IS(ucall_limit(UCALL_LIMIT), 0);
}

/* Names. */

/* Neither name is wanted: libc knows whether that is an error. */
static void neither(const struct addrinfo *at)
{
	const int flags[] = { NI_NUMERICHOST | NI_NUMERICSERV, NI_NAMEREQD };
	int i, rc;

	for (i = 0; i < COUNT(flags); i++) {
		rc = u_getnameinfo(at->ai_addr, at->ai_addrlen, NULL, 1, NULL, 1,
				   flags[i], UNEVER);
		CHECK_IS(U_EAI(rc),
			 getnameinfo(at->ai_addr, at->ai_addrlen, NULL, 0, NULL,
			 0, flags[i]));
	}
}

static void names(void *arg)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST,
				  .ai_socktype = SOCK_STREAM };
	struct addrinfo *list = NULL;
	struct sockaddr_in a;
	char host[64], service[16];
	int rc;

	CHECK_IS(u_getaddrinfo("127.1.2.3", "80", &hints, &list, UNEVER), 0);
	memcpy(&a, list->ai_addr, sizeof a);
	CHECK(a.sin_family == AF_INET && a.sin_port == htons(80));
	CHECK(a.sin_addr.s_addr == htonl(0x7f010203) && list->ai_next == NULL);
	CHECK_IS(u_getnameinfo(list->ai_addr, list->ai_addrlen, host,
		 sizeof host, service, sizeof service, NI_NUMERICHOST |
		 NI_NUMERICSERV, UNEVER), 0);
	CHECK(strcmp(host, "127.1.2.3") == 0 && strcmp(service, "80") == 0);
	rc = u_getnameinfo(list->ai_addr, list->ai_addrlen, host, 2, NULL, 0,
			   NI_NUMERICHOST, UNEVER);
	CHECK_IS(U_EAI(rc), EAI_OVERFLOW);
	rc = u_getnameinfo(list->ai_addr, list->ai_addrlen, NULL, sizeof host,
			   service, sizeof service, NI_NUMERICSERV, UNEVER);
	CHECK(rc == 0 && strcmp(service, "80") == 0);
	rc = u_getnameinfo(list->ai_addr, list->ai_addrlen, host, sizeof host,
			   NULL, UINT_MAX, NI_NUMERICHOST, UNEVER);
	CHECK(rc == 0 && strcmp(host, "127.1.2.3") == 0);
	neither(list);
	freeaddrinfo(list);
	rc = u_getaddrinfo("no number", NULL, &hints, &list, UNEVER);
	CHECK(rc > 0 && U_EAI(rc) == EAI_NONAME);
	CHECK_IS(u_getaddrinfo(NULL, "80", NULL, &list, UNEVER), 0);
	freeaddrinfo(list);
	CHECK_IS(u_getnameinfo((struct sockaddr *)&a, 100000, host, sizeof host,
		 NULL, 0, 0, UNEVER), -EINVAL);
	CHECK_IS(u_getnameinfo((struct sockaddr *)&a, sizeof a, host, UINT_MAX,
		 service, 1, 0, UNEVER), -EINVAL);
	CHECK_IS(u_getnameinfo((struct sockaddr *)&a, sizeof a, host, 1,
		 service, UINT_MAX, 0, UNEVER), -EINVAL);
	add(&ended, 1);
}

static void *native_all(void *arg)
{
	writer((void *)(intptr_t)WRITERS);
	names(arg);
	return NULL;
}

static void run(int proc_nr)
{
	pthread_t id;
	int i;

	ended = begun = 0;
	id = native(native_all, NULL);
	begin(proc_nr, 0);
	for (i = 0; i < WRITERS; i++)
		make(i, writer, (void *)(intptr_t)i);
	make(0, opener, (void *)(intptr_t)O_RDONLY);
	make(0, opener, (void *)(intptr_t)O_WRONLY);
	make(1, names, NULL);
	start_and_finish();
	native_join(id);
	CHECK_IS(ended, WRITERS + 5);
	one_thread(proc_nr, begins_not, NULL);
	begin(proc_nr, 0);
	make(0, late, NULL);
	make(0, after_that, NULL);
	start_and_finish();
	CHECK_IS(ended, WRITERS + 7);
	turns(proc_nr);
}

int main(int argc, char **argv)
{
	int i, p;

	check_start(argc, argv);
	for (i = 0; i < COUNT(places); i++) {
		sprintf(dir, "%s/s_file-%d", places[i], (int)getpid());
		if (mkdir(dir, 0700) != 0)
			continue;
		sprintf(fifo, "%s/fifo", dir);
		CHECK_IS(mkfifo(fifo, 0600), 0);
		for (p = 1; p <= 2; p++)
			run(p);
		CHECK(unlink(fifo) == 0 && rmdir(dir) == 0);
	}
	return 0;
}
