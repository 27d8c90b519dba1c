/* SPDX-License-Identifier: MIT */
/* peer.c: a client of a web server, which checks each byte that it gets. */

#include "peer.h"

#include <limits.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>

enum { DEPTH = 8, GOOD = 8, PATIENCE = 40 };

union io_address peer_server;
socklen_t peer_server_len;

void peer_start(unsigned seed)
{
	check_seed = seed;
}

/* Files. */

static char byte_of(int file, long at)
{
	return 'a' + (file + at) % 26;
}

long peer_file_size(int file)
{
	return file == PEER_BIG ? PEER_LONG : 1 + file * 977;
}

static void name_of(char *text, size_t room, int file)
{
	if (file == PEER_BIG)
		snprintf(text, room, "/big");
	else
		snprintf(text, room, "/n%d", file);
}

void peer_make_files(const char *folder)
{
	char path[4096], name[8];
	int file;
	long i;
	FILE *f;

	for (file = 0; file <= PEER_BIG; file++) {
		name_of(name, sizeof name, file);
		snprintf(path, sizeof path, "%s%s", folder, name);
		CHECK((f = fopen(path, "w")) != NULL);
		for (i = 0; i < peer_file_size(file); i++)
			putc(byte_of(file, i), f);
		CHECK_IS(fclose(f), 0);
	}
}

size_t peer_request(char *text, int file)
{
	char name[8];

	name_of(name, sizeof name, file);
	return sprintf(text, "GET %s HTTP/1.1\r\nHost: a.example\r\n\r\n", name);
}

/* Connections. */

void peer_dial(struct peer *p, int room)
{
	struct timeval patience = { PATIENCE, 0 };

	p->p_at = p->p_nr = 0;
	p->p_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_THAT(p->p_fd, >=, 0);
	io_nodelay(p->p_fd, AF_INET);
	if (room > 0) {
		setsockopt(p->p_fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
		setsockopt(p->p_fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
	}
	CHECK_IS(setsockopt(p->p_fd, SOL_SOCKET, SO_RCVTIMEO, &patience,
		 sizeof patience), 0);
	CHECK_IS(setsockopt(p->p_fd, SOL_SOCKET, SO_SNDTIMEO, &patience,
		 sizeof patience), 0);
	CHECK_IS(connect(p->p_fd, &peer_server.a_any, peer_server_len), 0);
}

void peer_close(struct peer *p)
{
	CHECK_IS(close(p->p_fd), 0);
	p->p_fd = -1;
}

void peer_reset(struct peer *p)
{
	struct linger reset = { 1, 0 };

	CHECK_IS(setsockopt(p->p_fd, SOL_SOCKET, SO_LINGER, &reset,
		 sizeof reset), 0);
	peer_close(p);
}

static bool was_reset(void)
{
	return errno == ECONNRESET || errno == EPIPE;
}

bool peer_send(struct peer *p, const char *bytes, size_t n)
{
	ssize_t did;

	for (; n > 0; bytes += did, n -= did) {
		did = send(p->p_fd, bytes, n, MSG_NOSIGNAL);
		if (did < 0 && was_reset())
			return false;
		CHECK_THAT(did, >, 0);	/* else the server takes no bytes */
	}
	return true;
}

/* Reads more bytes. Returns how many, PEER_END or PEER_RESET. */
static ssize_t more(struct peer *p)
{
	ssize_t did;

	memmove(p->p_room, p->p_room + p->p_at, p->p_nr);
	p->p_at = 0;
	CHECK_THAT(p->p_nr, <, PEER_ROOM);
	did = recv(p->p_fd, p->p_room + p->p_nr, PEER_ROOM - p->p_nr, 0);
	if (did < 0 && was_reset())
		return PEER_RESET;
	CHECK_THAT(did, >=, 0);		/* else the server does not answer */
	p->p_nr += did;
	return did;
}

/* Takes the rest of a body. Returns 1, PEER_END or PEER_RESET. */
static int take_body(struct peer *p, int file, long length)
{
	long at = 0, n, i;
	ssize_t did;

	while (at < length) {
		if (p->p_nr == 0 && (did = more(p)) <= 0)
			return did;
		n = length - at < (long)p->p_nr ? length - at : (long)p->p_nr;
		for (i = 0; i < n && file != PEER_NONE; i++)
			CHECK_IS(p->p_room[p->p_at + i], byte_of(file, at + i));
		at += n;
		p->p_at += n;
		p->p_nr -= n;
	}
	return 1;
}

int peer_answer(struct peer *p, int file)
{
	struct http_head h;
	ssize_t n, did;

	while ((n = http_head(&h, p->p_room + p->p_at, p->p_nr)) == 0) {
		did = more(p);
		CHECK(did != PEER_END || p->p_nr == 0);
		if (did <= 0)
			return did;
	}
	CHECK(n > 0 && h.h_length >= 0);
	p->p_at += n;
	p->p_nr -= n;
	if (h.h_status == 200 && file != PEER_NONE)
		CHECK_IS(h.h_length, peer_file_size(file));
	did = take_body(p, h.h_status == 200 ? file : PEER_NONE, h.h_length);
	CHECK_THAT(did, !=, PEER_END);
	return did == PEER_RESET ? PEER_RESET : h.h_status;
}

/* Looks at all answers that have come. The last may not be complete. */
static int last_answer(struct peer *p, int status)
{
	struct http_head h;
	ssize_t n;

	while ((n = http_head(&h, p->p_room + p->p_at, p->p_nr)) > 0 &&
	       n + h.h_length <= (long)p->p_nr) {
		CHECK(h.h_status >= 100 && h.h_status <= 599);
		n += h.h_length > 0 ? h.h_length : 0;
		p->p_at += n;
		p->p_nr -= n;
		status = h.h_status;
	}
	CHECK(p->p_nr == 0 || n >= 0);
	return status;
}

int peer_exchange(struct peer *p, const char *bytes, size_t n)
{
	struct pollfd f = { .fd = p->p_fd, .events = POLLIN | POLLOUT };
	int status = PEER_END;
	ssize_t did = 1;

	while (did > 0) {
		CHECK_THAT(poll(&f, 1, PATIENCE * 1000), >, 0);
		if (f.revents & POLLOUT && n > 0) {
			did = send(p->p_fd, bytes, n,
				   MSG_NOSIGNAL | MSG_DONTWAIT);
			n -= did > 0 ? did : did < 0 && was_reset() ? (ssize_t)n
				: 0;
			bytes += did > 0 ? did : 0;
			did = 1;
		}
		if (n == 0 && f.events & POLLOUT) {
			shutdown(p->p_fd, SHUT_WR);
			f.events = POLLIN;
		}
		if (f.revents & ~POLLOUT)
			did = more(p);
		if (did >= 0)
			status = last_answer(p, status);
	}
	p->p_reset = did == PEER_RESET;
	return status != PEER_END ? status : did;
}

/* The good client. */

static void good_dial(struct peer *p)
{
	char text[64];

	peer_dial(p, 0);
	CHECK(peer_send(p, text, peer_request(text, 0)));
	CHECK_IS(peer_answer(p, 0), 200);
}

static bool is_set(const bool *flag)
{
	return flag != NULL && __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

/* Sends some requests at once on each connection; then reads the answers. */
static long batch(struct peer *all, int connections, unsigned *state)
{
	char text[DEPTH * 64];
	unsigned char file[connections][DEPTH], depth[connections];
	long nr = 0;
	int i, j;
	size_t n;

	for (i = 0; i < connections; i++) {
		depth[i] = 1 + check_random(state) % DEPTH;
		for (j = 0, n = 0; j < depth[i]; j++) {
			file[i][j] = check_random(state) % PEER_FILES;
			n += peer_request(text + n, file[i][j]);
		}
		CHECK(peer_send(&all[i], text, n));
	}
	for (i = 0; i < connections; nr += depth[i++])
		for (j = 0; j < depth[i]; j++)
			CHECK_IS(peer_answer(&all[i], file[i][j]), 200);
	return nr;
}

void good_load(int connections, long requests, bool stays, long *count,
	       const bool *stop)
{
	struct peer *all = calloc(connections, sizeof *all), *p;
	unsigned state = check_seed + 1, turn;
	int i;

	CHECK(all != NULL);
	for (i = 0; i < connections; i++)
		good_dial(&all[i]);
	for (turn = 0; *count < requests && !is_set(stop); turn++) {
		__atomic_fetch_add(count, batch(all, connections, &state),
				   __ATOMIC_RELEASE);
		if (stays)
			continue;
		p = &all[turn % connections];
		if (turn % 2 != 0)
			peer_reset(p);
		else
			peer_close(p);
		good_dial(p);
	}
	for (i = 0; i < connections; i++)
		peer_close(&all[i]);
	free(all);
}

static struct shared {
	long s_count;
	bool s_begun, s_stop;
} *shared;
static pid_t good;

/* Fails if the good client has failed. */
static void good_runs(void)
{
	int status;

	if (waitpid(good, &status, WNOHANG) != 0)
		CHECK(!"the good client: an answer was wrong, or missing");
}

void good_start(bool stays)
{
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK_THAT(shared, !=, MAP_FAILED);
	good = fork();
	CHECK_THAT(good, >=, 0);
	if (good == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(0);	/* its parent has the watchdog */
		good_load(GOOD, LONG_MAX, stays, &shared->s_count,
			  &shared->s_stop);
		_exit(0);
	}
	good_wait(1);
}

void good_wait(long requests)
{
	long from = __atomic_load_n(&shared->s_count, __ATOMIC_ACQUIRE);

	while (__atomic_load_n(&shared->s_count, __ATOMIC_ACQUIRE) <
	       from + requests) {
		good_runs();
		usleep(1000);
	}
}

long good_stop(void)
{
	int status;
	long nr;

	__atomic_store_n(&shared->s_stop, true, __ATOMIC_RELEASE);
	CHECK(waitpid(good, &status, 0) == good && status == 0);
	nr = shared->s_count;
	munmap(shared, sizeof *shared);
	return nr;
}
