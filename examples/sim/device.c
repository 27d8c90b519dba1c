/* SPDX-License-Identifier: MIT */
/* device.c: a device that hands each message on once, though it may lose power. */

/*
 * A device measures, and keeps each message on its disk until a broker has it. It
 * may lose power at any time. The broker hands each message on, exactly once and
 * in order. They speak as MQTT does by quality of service 2:
 *
 *	device				broker
 *	PUBLISH id, message	--->	hands it on, unless it knows the id
 *				<---	the same, as an answer
 *	RELEASE id		--->	forgets the id
 *				<---	the same
 *
 * Ids are few and come again, so the broker forgets them. A device must not publish
 * a message again whose id it has released.
 *
 * THE STORE is a file of records: a MESSAGE, that its id is RELEASED, that it is
 * DONE. Each is synced before the device goes on by it. Samples come first in a
 * record, and a check over all of it last. Power that is lost before a sync may leave
 * any sectors of what was written, so a record without its check, and all behind it,
 * was not stored. Now and then, and after each start, the device writes what it still
 * needs to a new file, syncs that, and puts it in place.
 *
 * A full disk, or an error of it, starts the device again.
 *
 * DEVICE_BUG in the environment plants an error, as people have made it:
 *
 *	1	a message is DONE when it is sent, before any answer
 *	2	a record is taken without a look at its check
 *	3	that an id is RELEASED is not stored
 *	4	the new file is put in place before it is synced
 *
 *	DEVICE_BUG=1 ./device --seeds 2000
 */

#include <usched/usim.h>
#include <usched/usync.h>
#include <usched/uthread.h>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { PORT = 1883, MESSAGES = 60, BATCH = 3, SAMPLES = 250, IDS = 8,
       RECORDS = 15 };

enum kind { NONE, MESSAGE, RELEASED, DONE };
enum what { PUBLISH, RELEASE };

/* A record of the store. A message is one, too. */
struct record {
	uint32_t samples[SAMPLES];
	uint32_t number;	/* of the message, from 1 on */
	uint32_t kind;
	uint32_t check;
};

struct packet {
	uint32_t      what;
	uint32_t      id;
	struct record message;
};

struct device {
	struct umutex lock;		/* also while it waits for the disk */
	struct ucond  measured;
	int           store;
	uint32_t      records;		/* in the store */
	uint32_t      last;		/* number of the message measured last */
	uint32_t      done;		/* messages up to this number are done */
	int           is_released;	/* the id of message done + 1 is released */
	struct record messages[MESSAGES + 1];
};

static int bug(void)
{
	const char *text = getenv("DEVICE_BUG");

	return text != NULL ? atoi(text) : 0;
}

/* What there is to measure. */
static uint32_t sample(uint32_t number, uint32_t i)
{
	return (number * 100 + i) * 2654435761u;
}

static uint32_t check_of(const struct record *r)
{
	const unsigned char *at = (const unsigned char *)r;
	uint32_t sum = 2166136261u;
	size_t i;

	for (i = 0; i < offsetof(struct record, check); i++)
		sum = (sum ^ at[i]) * 16777619u;
	return sum;
}

static uint32_t id_of(uint32_t number)
{
	return number % IDS;
}

/* The store. */

static void must(int ok, const char *what)
{
	if (ok)
		return;
	usim_sometimes(1, "the disk of the device fails");
	usim_log("%s", what);
	exit(1);
}

static void record_put(int fd, const struct record *r)
{
	struct record copy = *r;

	copy.check = check_of(&copy);
	must(write(fd, &copy, sizeof copy) == (ssize_t)sizeof copy,
	     "the store cannot be written");
}

/* Writes what the device still needs to a new file. */
static void compact(struct device *d)
{
	struct record done = { .number = d->done, .kind = DONE };
	struct record released = { .number = d->done + 1, .kind = RELEASED };
	uint32_t nr;
	int folder;

	if (d->store >= 0)
		close(d->store);
	d->store = open("store.new", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	must(d->store >= 0, "no new store");
	record_put(d->store, &done);
	for (nr = d->done + 1; nr <= d->last; nr++)
		record_put(d->store, &d->messages[nr]);
	if (d->is_released)
		record_put(d->store, &released);
	d->records = 0;
	folder = open(".", O_RDONLY | O_DIRECTORY);
	must((bug() == 4 || fsync(d->store) == 0) &&
	     rename("store.new", "store") == 0 && folder >= 0 &&
	     fsync(folder) == 0 && close(folder) == 0,
	     "the store cannot be put in place");
}

/* Adds records, and waits until they are stored. */
static void store(struct device *d, const struct record *r, uint32_t nr)
{
	uint32_t i;

	for (i = 0; i < nr; i++)
		record_put(d->store, &r[i]);
	must(fsync(d->store) == 0, "the store cannot be synced");
	d->records += nr;
	if (d->records >= RECORDS)
		compact(d);
}

static void record_take(struct device *d, const struct record *r)
{
	if (r->kind == MESSAGE && r->number <= MESSAGES) {
		d->messages[r->number] = *r;
		d->last = r->number;
	} else if (r->kind == RELEASED) {
		d->is_released = 1;
	} else if (r->kind == DONE) {
		d->done = r->number;
		d->is_released = 0;
	}
}

/* Reads the store up to its last whole record. */
static void recover(struct device *d)
{
	int fd = open("store", O_RDONLY), whole = 1;
	struct record r;
	ssize_t nr = 0;

	d->store = -1;
	while (fd >= 0 && whole && (nr = read(fd, &r, sizeof r)) > 0) {
		whole = nr == (ssize_t)sizeof r &&
			(r.check == check_of(&r) || bug() == 2);
		if (whole)
			record_take(d, &r);
	}
	if (fd >= 0)
		close(fd);
	d->last = d->last < d->done ? d->done : d->last;
	usim_sometimes(!whole, "a record is torn");
	compact(d);
	usim_log("has %u to %u%s", d->done + 1, d->last,
		 d->is_released ? ", released" : "");
}

/* The device. */

static void lock(struct device *d)
{
	USIM_CHECK(umutex_lock(&d->lock, UNEVER) == 0);
}

static void measure_one(struct record *r, uint32_t number)
{
	uint32_t i;

	r->kind = MESSAGE;
	r->number = number;
	for (i = 0; i < SAMPLES; i++)
		r->samples[i] = sample(number, i);
}

/* The thread that measures: some messages in a row, which a single sync stores. */
static void *measure(void *arg)
{
	struct device *d = arg;
	uint32_t nr, first;

	for (lock(d); d->last < MESSAGES; lock(d)) {
		first = d->last + 1;
		for (nr = 0; nr < BATCH && d->last < MESSAGES; nr++) {
			d->last++;
			measure_one(&d->messages[d->last], d->last);
		}
		store(d, &d->messages[first], nr);
		ucond_signal(&d->measured);
		umutex_unlock(&d->lock);
		usleep(300000 + usim_random(1200000));
	}
	umutex_unlock(&d->lock);
	return NULL;
}

static int receive(int fd, struct packet *p)
{
	return recv(fd, p, sizeof *p, MSG_WAITALL) == (ssize_t)sizeof *p;
}

static void patience(int fd, int ms)
{
	struct timeval t = { ms / 1000, ms % 1000 * 1000 };

	USIM_CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t) == 0);
	USIM_CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t) == 0);
}

static int dial(void)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *at;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	USIM_CHECK(getaddrinfo("broker", "1883", &hints, &at) == 0);
	patience(fd, 400);
	if (connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
		close(fd);
		fd = -1;
	}
	freeaddrinfo(at);
	return fd;
}

/* Sends, and waits for the same as an answer. Returns the connection, which has it. */
static int ask(int fd, enum what what, const struct record *message)
{
	struct packet p = { what, id_of(message->number), *message }, answer;

	for (;;) {
		if (fd < 0)
			fd = dial();
		if (fd >= 0 && write(fd, &p, sizeof p) == (ssize_t)sizeof p &&
		    receive(fd, &answer) && answer.what == p.what &&
		    answer.id == p.id)
			return fd;
		if (fd >= 0)
			close(fd);
		fd = -1;
		usleep(50000 + usim_random(50000));
	}
}

/*
 * Sends the first message that is not done. Caller holds the lock, which is released
 * meanwhile.
 */
static int send_first(struct device *d, int fd)
{
	struct record r = d->messages[d->done + 1];
	struct record released = { .number = r.number, .kind = RELEASED };
	struct record done = { .number = r.number, .kind = DONE };
	int was_released = d->is_released;

	r.number = d->done + 1;
	if (bug() == 1)
		store(d, &done, 1);
	umutex_unlock(&d->lock);
	if (!was_released)
		fd = ask(fd, PUBLISH, &r);
	lock(d);
	d->is_released = bug() != 3;
	if (!was_released && bug() != 3)
		store(d, &released, 1);
	umutex_unlock(&d->lock);
	fd = ask(fd, RELEASE, &r);
	lock(d);
	d->done = r.number;
	d->is_released = 0;
	store(d, &done, 1);
	return fd;
}

static int device(void *unused)
{
	struct device *d = calloc(1, sizeof *d);
	int fd = -1;

	(void)unused;
	USIM_CHECK(d != NULL);
	recover(d);
	USIM_CHECK(uthread_make(NULL, measure, d, "measure") == 0);
	for (lock(d); d->done < MESSAGES; )
		if (d->done < d->last)
			fd = send_first(d, fd);
		else
			USIM_CHECK(ucond_wait(&d->measured, &d->lock,
					      UNEVER) == 0);
	umutex_unlock(&d->lock);
	return 0;
}

/* The broker. Its power does not fail. */

struct broker {
	int      known[IDS];
	uint32_t handed_on;
};

static void hand_on(struct broker *k, const struct record *m)
{
	uint32_t i;

	if (m->number <= k->handed_on)
		usim_fail("message %u comes again", m->number);
	if (m->number != k->handed_on + 1)
		usim_fail("message %u is lost", k->handed_on + 1);
	for (i = 0; i < SAMPLES; i++)
		if (m->samples[i] != sample(m->number, i))
			usim_fail("message %u was never measured", m->number);
	k->handed_on = m->number;
	usim_log("hands on %u", m->number);
}

static void serve(struct broker *k, int fd)
{
	struct packet p;

	while (receive(fd, &p)) {
		USIM_CHECK(p.id < IDS);
		usim_sometimes(p.what == PUBLISH && k->known[p.id],
			       "a message is published again");
		usim_sometimes(p.what == RELEASE && !k->known[p.id],
			       "an id is released again");
		if (p.what == PUBLISH && !k->known[p.id])
			hand_on(k, &p.message);
		k->known[p.id] = p.what == PUBLISH;
		if (write(fd, &p, sizeof p) != (ssize_t)sizeof p)
			break;
	}
	close(fd);
}

static int broker(void *unused)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd;
	struct broker k = { .handed_on = 0 };

	(void)unused;
	USIM_CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0);
	USIM_CHECK(listen(listener, 8) == 0);
	while (k.handed_on < MESSAGES) {
		fd = accept(listener, NULL, NULL);
		USIM_CHECK(fd >= 0);
		patience(fd, 1000);
		serve(&k, fd);
	}
	return 0;
}

static void setup(struct usim_world *w)
{
	w->w_run = 20 * UTIME_S;
	usim_host("device", device, NULL);
	usim_client("broker", broker, NULL);
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);	/* a connection may be gone: write() says so */
	return usim_main(argc, argv, setup);
}
