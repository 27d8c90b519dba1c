/* SPDX-License-Identifier: MIT */
/*
 * damage.c: what disks do wrong, if a program asks for it, hits, and a store that has
 * copies survives it. FAULT in the environment is the kind, which comes with crashes.
 *
 * unread, damage, stale, astray: a host keeps numbers in two files. A record has its
 * number and a check. What one file has lost is taken from the other, and both are
 * written once more at each boot. A number is acknowledged when both are synced.
 *
 * empty: three hosts keep a number, and two of them acknowledge it. A host whose disk is
 * empty asks both others before it answers.
 */

#include <usched/usim.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { PORT = 9, RECORDS = 400, HOSTS = 3, FILLED = 25 };

struct record {
	uint32_t number;
	uint32_t filled[FILLED];	/* so that records lie over the ends of sectors */
	uint32_t check;
};

static struct record record_of(uint32_t number)
{
	struct record r = { .number = number };
	int i;

	r.check = number * 2654435761u + 1;
	for (i = 0; i < FILLED; i++) {
		r.filled[i] = number * 31 + (uint32_t)i;
		r.check = (r.check ^ r.filled[i]) * 16777619u;
	}
	return r;
}

/* Connections. */

static int listens(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	USIM_CHECK(bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
		   listen(fd, 16) == 0);
	return fd;
}

/* Asks a host, which answers with a number. -1: it does not. */
static int ask(int host, uint32_t question)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct timeval patience = { 1, 0 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	uint32_t answer;

	at.sin_addr.s_addr = htonl(0x0a000000u + (unsigned)host);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	if (connect(fd, (struct sockaddr *)&at, sizeof at) != 0 ||
	    write(fd, &question, sizeof question) != sizeof question ||
	    recv(fd, &answer, sizeof answer, MSG_WAITALL) != sizeof answer)
		answer = (uint32_t)-1;
	close(fd);
	return (int)answer;
}

/* Answers questions by f. */
static int serve(uint32_t (*f)(void *store, uint32_t question), void *store)
{
	struct timeval patience = { 1, 0 };
	int listener = listens(), fd;
	uint32_t question;

	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
		if (recv(fd, &question, sizeof question, MSG_WAITALL) == sizeof question) {
			question = f(store, question);
			(void)!write(fd, &question, sizeof question);
		}
		close(fd);
	}
	return 1;
}

/* A store with two files. */

struct store {
	int           files[2];
	uint32_t      nr;
	struct record records[RECORDS];
};

static bool is_fault(const char *name)
{
	return strcmp(getenv("FAULT"), name) == 0;
}

/* Damage is in one read, or stays. */
static void reads_again(int file, const struct record *first, const struct record *right)
{
	struct record r;
	off_t at = (off_t)((right->number - 1) * sizeof r);

	if (!is_fault("damage") || pread(file, &r, sizeof r, at) != sizeof r)
		return;
	usim_sometimes(memcmp(&r, right, sizeof r) == 0, "damage in one read");
	usim_sometimes(memcmp(&r, first, sizeof r) == 0, "damage that stays");
}

static bool is_there(int file, uint32_t number)
{
	struct record r, right = record_of(number);
	ssize_t rc = pread(file, &r, sizeof r, (off_t)((number - 1) * sizeof r));

	if (is_fault("unread"))
		usim_sometimes(rc < 0, "a read fails");
	else
		USIM_CHECK(rc >= 0);
	if (rc == sizeof r && memcmp(&r, &right, sizeof r) != 0)
		reads_again(file, &r, &right);
	return rc == sizeof r && memcmp(&r, &right, sizeof r) == 0;
}

static void recover(struct store *s)
{
	bool there[2], lost = false;
	int i;

	for (;; s->nr++) {
		for (i = 0; i < 2; i++)
			there[i] = is_there(s->files[i], s->nr + 1);
		if (!there[0] && !there[1])
			break;
		/* A crash alone may take the last from a file, and no other. */
		if (!is_fault("stale"))
			usim_sometimes(lost, "one file has what the other has lost");
		lost |= there[0] != there[1];
		usim_sometimes(lost, "one file has more");
		s->records[s->nr] = record_of(s->nr + 1);
	}
	for (i = 0; i < 2; i++) {
		if (s->nr > 0)
			USIM_CHECK(pwrite(s->files[i], s->records, s->nr * sizeof *s->records,
					  0) == (ssize_t)(s->nr * sizeof *s->records));
		USIM_CHECK(ftruncate(s->files[i], (off_t)(s->nr * sizeof *s->records)) == 0);
		USIM_CHECK(fsync(s->files[i]) == 0);
	}
}

/* Takes a number if it is the next. Returns how many there are. */
static uint32_t keep(void *store, uint32_t number)
{
	struct store *s = store;
	int i;

	if (number != s->nr + 1)
		return s->nr;
	s->records[s->nr] = record_of(number);
	for (i = 0; i < 2; i++)
		USIM_CHECK(pwrite(s->files[i], &s->records[s->nr], sizeof *s->records,
				  (off_t)(s->nr * sizeof *s->records)) ==
			   sizeof *s->records && fsync(s->files[i]) == 0);
	return ++s->nr;
}

static int keeper(void *unused)
{
	struct store *s = calloc(1, sizeof *s);
	int folder = open("/", O_RDONLY | O_DIRECTORY);

	(void)unused;
	s->files[0] = open("one", O_RDWR | O_CREAT, 0644);
	s->files[1] = open("two", O_RDWR | O_CREAT, 0644);
	USIM_CHECK(s->files[0] >= 0 && s->files[1] >= 0 && fsync(folder) == 0);
	recover(s);
	return serve(keep, s);
}

static int counts(void *unused)
{
	int number = 0, answer;

	(void)unused;
	while (usim_time() < 21 * UTIME_S && number < RECORDS) {
		answer = ask(1, (uint32_t)number + 1);
		USIM_CHECK(answer == -1 || answer == number || answer == number + 1);
		number += answer == number + 1;
		usleep(20000);
	}
	return 0;
}

/* Three hosts that keep a number. */

static bool has_begun[HOSTS + 1];	/* its disk has had a number */

struct copy {
	int      file;
	uint32_t number;
};

/* Question 0 only asks. */
static uint32_t copy(void *store, uint32_t number)
{
	struct copy *c = store;

	if (number > c->number) {
		USIM_CHECK(pwrite(c->file, &number, sizeof number, 0) == sizeof number &&
			   fsync(c->file) == 0);
		c->number = number;
	}
	return c->number;
}

/* Asks both others for what they have. */
static uint32_t learn(int me)
{
	uint32_t most = 0;
	int host, answer;

	for (host = 1; host <= HOSTS; host++) {
		if (host == me)
			continue;
		while ((answer = ask(host, 0)) == -1)
			usleep(50000);
		most = (uint32_t)answer > most ? (uint32_t)answer : most;
	}
	return most;
}

static int copies(void *unused)
{
	struct copy c = { open("number", O_RDWR), 0 };
	int me = usim_self(), folder;
	uint32_t most = 0;

	(void)unused;
	usim_sometimes(c.file < 0 && has_begun[me], "a host has an empty disk");
	if (c.file >= 0) {
		USIM_CHECK(pread(c.file, &c.number, sizeof c.number, 0) ==
			   sizeof c.number || !has_begun[me]);
	} else {
		most = has_begun[me] ? learn(me) : 0;
		folder = open("/", O_RDONLY | O_DIRECTORY);
		c.file = open("new", O_RDWR | O_CREAT, 0644);
		USIM_CHECK(c.file >= 0 &&
			   pwrite(c.file, &most, sizeof most, 0) == sizeof most &&
			   fsync(c.file) == 0 && rename("new", "number") == 0 &&
			   fsync(folder) == 0);
		c.number = most;
	}
	has_begun[me] = true;
	return serve(copy, &c);
}

/* Writes to all, and reads from all: of each, two hosts must answer. */
static int writes(void *unused)
{
	int number, host, acknowledged, answer, most, known = 0;

	(void)unused;
	for (number = 1; usim_time() < 21 * UTIME_S; number++) {
		for (host = 1, acknowledged = 0; host <= HOSTS; host++)
			acknowledged += ask(host, (uint32_t)number) >= number;
		if (acknowledged >= 2)
			known = number;
		for (host = 1, acknowledged = 0, most = 0; host <= HOSTS; host++) {
			answer = ask(host, 0);
			acknowledged += answer >= 0;
			most = answer > most ? answer : most;
		}
		USIM_CHECK(acknowledged < 2 || most >= known);
		usleep(20000);
	}
	return 0;
}

static void setup(struct usim_world *w)
{
	static const char *const names[HOSTS] = { "a", "b", "c" };
	const char *fault = getenv("FAULT");
	bool is_empty = is_fault("empty");
	int i;

	w->w_only = "crash";
	w->w_also = fault;
	w->w_faults = 20;
	for (i = 0; i < (is_empty ? HOSTS : 1); i++)
		usim_host(names[i], is_empty ? copies : keeper, NULL);
	usim_client("client", is_empty ? writes : counts, NULL);
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	return usim_main(argc, argv, setup);
}
