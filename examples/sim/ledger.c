/* SPDX-License-Identifier: MIT */
/* ledger.c: a server that loses no money, and a client that asks again. */

/*
 * A client sends amounts to a server, which adds them up. The server writes each
 * amount to a log, and syncs the log, before it answers. Every 16 amounts it
 * writes its state to a file of its own, puts that in place by rename(), and
 * empties the log. So it can crash at any time: state and log give the sum again.
 *
 * The client has time-outs. When no answer comes it connects again and sends the
 * same amount with the same number. The server must not add it twice. After each
 * answer the client knows what the sum must be.
 *
 * A disk that is full, or fails, ends the server. After a sync that has failed it
 * must not go on with what it has in memory, since no later sync stores that. It
 * starts again, from what the disk has.
 *
 * In both there is nothing of a simulator but the calls of usim.h. LEDGER_BUG in
 * the environment plants an error, as people have made it:
 *
 *	1	the folder is not synced after rename()
 *	2	an amount that comes again is added again
 *	3	the log is not synced before the answer
 *	4	an error of a sync is ignored
 *	5	after such an error the server trusts what it reads, which the
 *		kernel has in memory, and never stores
 *
 *	LEDGER_BUG=1 ./ledger --seeds 2000
 */

#include <usched/usim.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { PORT = 7000, AMOUNTS = 60, KEEP = 16 };

/* A record of the log, and what is sent. All of it is written at once. */
struct amount {
	uint32_t number;	/* from 1 on */
	uint32_t amount;
	uint32_t check;
};

/* The state, in memory and in its file; an answer, too. */
struct state {
	uint32_t number;	/* the last that was added */
	uint32_t sum;
	uint32_t check;
};

static int bug(void)
{
	const char *text = getenv("LEDGER_BUG");

	return text != NULL ? atoi(text) : 0;
}

/* Ends the server, which begins again by what is stored. */
static void give_up(const char *why)
{
	usim_sometimes(1, "the disk fails");
	usim_log("%s", why);
	exit(1);
}

static uint32_t check_of(uint32_t a, uint32_t b)
{
	return (a * 2654435761u ^ b) * 2246822519u + 1;
}

/* Reads size bytes. Returns whether all have come. */
static int read_whole(int fd, void *to, size_t size)
{
	size_t at = 0;
	ssize_t nr;

	while (at < size) {
		nr = read(fd, (char *)to + at, size - at);
		if (nr <= 0)
			return 0;
		at += (size_t)nr;
	}
	return 1;
}

/* The server. */

struct server {
	struct state state;
	int          log;
	int          logged;	/* records in it */
};

static int synced(int fd)
{
	return fsync(fd) == 0 || bug() == 4;
}

static void sync_folder(void)
{
	int fd = open(".", O_RDONLY | O_DIRECTORY);

	if (fd < 0 || (bug() != 1 && !synced(fd)) || close(fd) != 0)
		give_up("the folder cannot be synced");
}

static void save_state(struct server *s)
{
	int fd = open("state.new", O_WRONLY | O_CREAT | O_TRUNC, 0644);

	s->state.check = check_of(s->state.number, s->state.sum);
	if (fd < 0 || write(fd, &s->state, sizeof s->state) !=
	    (ssize_t)sizeof s->state || !synced(fd) || close(fd) != 0 ||
	    rename("state.new", "state") != 0)
		give_up("the state cannot be saved");
	sync_folder();
	if (ftruncate(s->log, 0) != 0 || !synced(s->log) ||
	    lseek(s->log, 0, SEEK_SET) != 0)
		give_up("the log cannot be emptied");
	s->logged = 0;
}

/* Keeps the log, and cuts it behind the last whole record. */
static void mend(struct server *s)
{
	if (ftruncate(s->log, s->logged * (off_t)sizeof(struct amount)) != 0 ||
	    !synced(s->log) || lseek(s->log, 0, SEEK_END) < 0)
		give_up("the log cannot be mended");
}

/* Takes the state from its file, and what the log has beyond it. */
static void recover(struct server *s)
{
	int fd = open("state", O_RDONLY);
	struct amount a;
	int replayed = 0;

	s->state = (struct state) { 0, 0, 0 };
	if (fd >= 0) {
		if (!read_whole(fd, &s->state, sizeof s->state) ||
		    s->state.check != check_of(s->state.number, s->state.sum))
			usim_fail("the state is broken");
		close(fd);
	}
	s->log = open("log", O_RDWR | O_CREAT, 0644);
	if (s->log < 0)
		give_up("no log");
	sync_folder();
	for (s->logged = 0; read_whole(s->log, &a, sizeof a) &&
	     a.check == check_of(a.number, a.amount); s->logged++)
		if (a.number == s->state.number + 1) {
			s->state.number = a.number;
			s->state.sum += a.amount;
			replayed++;
		}
	usim_sometimes(replayed > 0, "the log has what the state has not");
	/*
	 * What was read may be in memory only, if a sync has failed before, and no
	 * sync would store it. So it is written again. Bytes behind the last
	 * whole record are from a crash, and go.
	 */
	if (bug() == 5)
		mend(s);
	else
		save_state(s);
	usim_log("has %u in %u amounts, %d from the log", s->state.sum,
		 s->state.number, replayed);
}

static void add(struct server *s, const struct amount *a)
{
	if (write(s->log, a, sizeof *a) != (ssize_t)sizeof *a ||
	    (bug() != 3 && !synced(s->log)))
		give_up("the log cannot be written");
	s->state.number = a->number;
	s->state.sum += a->amount;
	if (++s->logged == KEEP || usim_maybe("save the state early"))
		save_state(s);
}

static void serve(struct server *s, int fd)
{
	struct state answer;
	struct amount a;

	while (read_whole(fd, &a, sizeof a)) {
		usim_sometimes(a.number == s->state.number,
			       "an amount comes again");
		if (a.number == s->state.number + 1 ||
		    (bug() == 2 && a.number == s->state.number))
			add(s, &a);
		answer = s->state;
		answer.check = check_of(answer.number, answer.sum);
		if (write(fd, &answer, sizeof answer) != (ssize_t)sizeof answer)
			break;
	}
	close(fd);
}

static int server(void *unused)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct timeval patience = { 2, 0 };
	int fd = socket(AF_INET, SOCK_STREAM, 0), client;
	struct server s;

	(void)unused;
	recover(&s);
	if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 8) != 0)
		usim_fail("no port");
	for (;;) {
		client = accept(fd, NULL, NULL);
		if (client < 0 || setsockopt(client, SOL_SOCKET, SO_RCVTIMEO,
					     &patience, sizeof patience) != 0)
			usim_fail("no client");
		serve(&s, client);
	}
}

/* The client. */

static int dial(void)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *at;
	struct timeval patience = { 0, 400000 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (getaddrinfo("server", "7000", &hints, &at) != 0)
		usim_fail("no server");
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience,
		       sizeof patience) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience,
		       sizeof patience) != 0)
		usim_fail("no time-out");
	if (connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
		close(fd);
		fd = -1;
	}
	freeaddrinfo(at);
	return fd;
}

/* Asks until an answer to this amount comes. Returns the connection. */
static int ask(int fd, const struct amount *a, struct state *answer)
{
	for (;;) {
		if (fd < 0)
			fd = dial();
		if (fd >= 0 && write(fd, a, sizeof *a) == (ssize_t)sizeof *a &&
		    read_whole(fd, answer, sizeof *answer) &&
		    answer->check == check_of(answer->number, answer->sum))
			return fd;
		if (fd >= 0)
			close(fd);
		fd = -1;
		usleep(50000 + usim_random(50000));
	}
}

static int client(void *unused)
{
	struct amount a = { 0, 0, 0 };
	struct state answer;
	uint32_t sum = 0;
	int fd = -1;

	(void)unused;
	while (a.number < AMOUNTS) {
		a.number++;
		a.amount = 1 + usim_random(100);
		a.check = check_of(a.number, a.amount);
		sum += a.amount;
		fd = ask(fd, &a, &answer);
		if (answer.number != a.number || answer.sum != sum)
			usim_fail("amount %u: the sum is %u of %u amounts, "
				  "and should be %u", a.number, answer.sum,
				  answer.number, sum);
		usleep(usim_random(400000));
	}
	return 0;
}

static void setup(struct usim_world *w)
{
	w->w_run = 20 * UTIME_S;
	usim_host("server", server, NULL);
	usim_client("client", client, NULL);
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);	/* a connection may be gone: write() says so */
	return usim_main(argc, argv, setup);
}
