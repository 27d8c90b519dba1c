/* SPDX-License-Identifier: MIT */
/* attack.c: attacks on a web server, while a good client is answered. */

/*
 *	attack files FOLDER		writes the files that are asked for
 *	attack get ADDRESS PATH		prints the body of an answer
 *	attack NAME ADDRESS NUMBER
 *
 * NAME		NUMBER		what is done
 *
 * load		requests	only good requests; some connections are reset
 * good		requests	only the good client, for attacks by others
 * resets	rounds		a connection is reset after each byte of a
 *				request, and within a large answer
 * cuts		rounds		a request comes in two pieces, cut at each byte,
 *				and byte by byte: the answer is right
 * half		rounds		the client shuts down its half of the stream
 *				after each byte: a whole request is answered,
 *				and the server ends the connection in any case
 * long		rounds		lines, heads and bodies that are too large, and
 *				what is no request: each gets its status, and
 *				no reset, unless it is endless
 * garbage	requests	random bytes, and requests that were changed:
 *				each gets an answer or an end
 * flood	connections	more than the server accepts at a time: each is
 *				answered at last, and the good client always
 * readers	connections	large answers are read late: all bytes come
 * unread	connections	requests are sent as long as the server takes
 *				them, and only then answers are read, in order
 *
 * ADDRESS is 127.0.0.1:PORT. During each attack the good client runs in a
 * process of its own (peer.h). The server must answer it, in order and with the right
 * bytes; but for flood, it also connects all the time. No time is asserted, but
 * a server that does not answer for PATIENCE seconds has failed.
 */
#include "peer.h"

#include <limits.h>
#include <sys/prctl.h>

enum { GOOD_REQUESTS = 300, LARGE = 1 << 20, PAUSE = 1000, TRIES = 20,
       UNREAD = 100000, SMALL = 3 };

static const char head[] =
	"GET /n3 HTTP/1.1\r\nHost: a.example\r\nUser-Agent: none\r\n"
	"Accept: */*\r\n\r\n";

/* The size of the request, and of two requests. */
static const size_t head_size = sizeof head - 1;

static void resets(long rounds)
{
	struct peer p;
	size_t i;

	for (; rounds > 0; rounds--) {
		for (i = 0; i <= head_size; i++) {
			peer_dial(&p, 0);
			peer_send(&p, head, i);
			peer_reset(&p);
		}
		for (i = 0; i < PEER_LONG; i += PEER_LONG / 20) {
			char text[64];

			peer_dial(&p, 1);
			peer_send(&p, text, peer_request(text, PEER_BIG));
			if (i > 0)
				CHECK_THAT(recv(p.p_fd, p.p_room, 1 + i %
					   PEER_ROOM, 0), >, 0);
			peer_reset(&p);
		}
	}
}

static void cuts(long rounds)
{
	struct peer p;
	size_t i;

	peer_dial(&p, 0);
	for (; rounds > 0; rounds--) {
		for (i = 1; i < head_size; i++) {
			CHECK(peer_send(&p, head, i));
			usleep(PAUSE);
			CHECK(peer_send(&p, head + i, head_size - i));
			CHECK_IS(peer_answer(&p, 3), 200);
		}
		for (i = 0; i < head_size; i++) {
			CHECK(peer_send(&p, head + i, 1));
			usleep(PAUSE);
		}
		CHECK_IS(peer_answer(&p, 3), 200);
	}
	peer_close(&p);
}

static void half(long rounds)
{
	struct peer p;
	size_t i;
	int status;

	for (; rounds > 0; rounds--) {
		for (i = 0; i < head_size; i++) {
			peer_dial(&p, 0);
			status = peer_exchange(&p, head, i);
			CHECK(status != 200 && status < 500);
			peer_close(&p);
		}
		for (i = 0; i < PEER_FILES; i++) {
			peer_dial(&p, 0);
			CHECK(peer_send(&p, head, head_size));
			CHECK_IS(shutdown(p.p_fd, SHUT_WR), 0);
			CHECK_IS(peer_answer(&p, 3), 200);
			CHECK_IS(peer_answer(&p, PEER_NONE), PEER_END);
			peer_close(&p);
		}
	}
}

/* A request with a part that is repeated, and the statuses that are right. */
static const struct {
	const char *b_begin, *b_part;
	long        b_bytes;		/* of all parts */
	const char *b_end;
	int         b_status[5];
} bad[] = {
	{ "GET /", "a", 20000, " HTTP/1.1\r\nHost: a\r\n\r\n", { 414 } },
	{ "GET /", "a", LARGE, " HTTP/1.1\r\nHost: a\r\n\r\n", { 414 } },
	{ "GET /n1 HTTP/1.1\r\nHost: a\r\nX: ", "a", 20000, "\r\n\r\n",
	  { 431 } },
	{ "GET /n1 HTTP/1.1\r\nHost: a\r\nX: ", "a", LARGE, "\r\n\r\n",
	  { 431 } },
	{ "GET /n1 HTTP/1.1\r\nHost: a\r\n", "X: a\r\n", LARGE, "\r\n",
	  { 431 } },
	{ "POST /n1 HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n",
	  "a", LARGE, "", { 413, 405 } },
	{ "GET /n1 HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n",
	  "a", LARGE, "", { 413 } },
	{ "GET /n1 HTTP/1.1\r\nHost: a\r\nContent-Length: 9", "9", 5000,
	  "\r\n\r\n", { 413, 400 } },
	{ "GET /n1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
	  "1\r\na\r\n", 1 << 23, "0\r\n\r\n", { 411, 413, 400, 501 } },
	{ "GET /n1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
	  "f", 100, "\r\n", { 411, 413, 400, 501 } },
	{ "GET /n1 HTTP/1.1\r\n", "", 0, "\r\n", { 400 } },
	{ "GET /n1 HTTP/1.1\r\nHost: a\r\n", "Host: a\r\n", 9, "\r\n",
	  { 400 } },
	{ "GET /n1 HTTP/1.1\r\nHost : a\r\n", "", 0, "\r\n", { 400 } },
	{ "GET /n1 HTTP/1.1\r\nHost: a\r\n b: c\r\n", "", 0, "\r\n", { 400 } },
	{ "GET /n1 HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n", "", 0,
	  "\r\n", { 400 } },
	{ "GET /n1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n",
	  "Content-Length: 2\r\n", 19, "\r\na", { 400 } },
	{ "GET /n1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n"
	  "Transfer-Encoding: chunked\r\n", "", 0, "\r\n0\r\n\r\n",
	  { 400, 411, 501 } },
	{ "GET /n1 HTTP/2.0\r\nHost: a\r\n", "", 0, "\r\n", { 505 } },
	{ "GET n1 HTTP/1.1\r\nHost: a\r\n", "", 0, "\r\n", { 400 } },
	{ "GET /n1\r\n", "", 0, "\r\n", { 400, 505 } },
	{ "DELETE /n1 HTTP/1.1\r\nHost: a\r\n", "", 0, "\r\n", { 405, 501 } },
	{ "GET /none HTTP/1.1\r\nHost: a\r\n", "", 0, "\r\n", { 404 } },
	{ "GET /../attack HTTP/1.1\r\nHost: a\r\n", "", 0, "\r\n",
	  { 400, 403, 404 } },
	{ "GET /%2e%2e/attack HTTP/1.1\r\nHost: a\r\n", "", 0, "\r\n",
	  { 400, 403, 404 } },
	{ "GET /n1%00 HTTP/1.1\r\nHost: a\r\n", "", 0, "\r\n",
	  { 400, 404 } },
	{ "\r\n\r\n\r\n", "\r\n", 20000, "", { 400, 414, 431 } },
	{ "\x16\x03\x01\x02", "\xff", 500, "\r\n\r\n", { 400 } }
};

static char *bad_text(int i, size_t *n)
{
	size_t part = strlen(bad[i].b_part);
	char *text = malloc(strlen(bad[i].b_begin) + bad[i].b_bytes + part +
			    strlen(bad[i].b_end) + 1);
	char *p;

	CHECK(text != NULL);
	p = stpcpy(text, bad[i].b_begin);
	for (; p - text < (long)strlen(bad[i].b_begin) + bad[i].b_bytes;
	     p += part)
		memcpy(p, bad[i].b_part, part);
	*n = stpcpy(p, bad[i].b_end) - text;
	return text;
}

static bool allowed(int i, int status)
{
	int j;

	for (j = 0; j < COUNT(bad[i].b_status); j++)
		if (status == bad[i].b_status[j])
			return true;
	return false;
}

static void long_ones(long rounds)
{
	int i, status;
	struct peer p;
	char *text;
	size_t n;

	for (; rounds > 0; rounds--)
		for (i = 0; i < COUNT(bad); i++) {
			text = bad_text(i, &n);
			peer_dial(&p, 0);
			status = peer_exchange(&p, text, n);
			if (!allowed(i, status))
				fprintf(stderr, "%.40s... (%zu bytes): status "
					"%d\n", text, n, status);
			CHECK(allowed(i, status));
			CHECK(n >= LARGE || !p.p_reset);
			peer_close(&p);
			free(text);
		}
}

/* Changes a request at random. Returns its new length, at most twice n. */
static size_t change(char *text, size_t n, unsigned *state)
{
	size_t at = check_random(state) % n, len = check_random(state) % 9;

	switch (check_random(state) % 5) {
	case 0:
		text[at] = check_random(state);
		return n;
	case 1:
		text[at] ^= 1 << check_random(state) % 8;
		return n;
	case 2:
		return at > 0 ? at : n;
	case 3:
		len = at + len < n ? len : n - at;
		memmove(text + at, text + at + len, n - at - len);
		return n > len ? n - len : n;
	default:
		len = at + len < n ? len : n - at;
		memmove(text + at + len, text + at, n - at);
		return n + len;
	}
}

static void garbage(long requests)
{
	char text[4 * sizeof head];
	unsigned state = check_seed;
	struct peer p;
	size_t n, i;
	int status;

	for (; requests > 0; requests--) {
		n = head_size;
		memcpy(text, head, n);
		for (i = check_random(&state) % 6; i > 0; i--)
			n = change(text, n, &state);
		for (i = 0; requests % 8 == 0 && i < n; i++)
			text[i] = check_random(&state);
		peer_dial(&p, 0);
		status = peer_exchange(&p, text, n);
		CHECK(status < 500 || status == 501 || status == 505);
		peer_close(&p);
	}
}

/* Each sends a request, and none waits for its answer. */
static void flood(long connections)
{
	struct peer *all = calloc(connections, sizeof *all);
	char text[64];
	int i;

	CHECK(all != NULL);
	for (i = 0; i < connections; i++) {
		peer_dial(&all[i], 0);
		CHECK(peer_send(&all[i], text, peer_request(text, i % 10)));
	}
	good_wait(GOOD_REQUESTS);
	for (i = 0; i < connections; i++) {
		CHECK_IS(peer_answer(&all[i], i % 10), 200);
		peer_close(&all[i]);
	}
	free(all);
}

static void readers(long connections)
{
	struct peer *all = calloc(connections, sizeof *all);
	char text[64];
	long i, rc;

	CHECK(all != NULL);
	for (i = 0; i < connections; i++) {
		peer_dial(&all[i], 8192);
		CHECK(peer_send(&all[i], text, peer_request(text, PEER_BIG)));
		CHECK(peer_send(&all[i], text, peer_request(text, 1)));
	}
	good_wait(GOOD_REQUESTS);
	for (i = 0; i < connections; i++) {
		rc = peer_answer(&all[i], PEER_BIG);
		CHECK(rc == 200 && peer_answer(&all[i], 1) == 200);
		peer_close(&all[i]);
	}
	free(all);
}

/*
 * Sends requests until the server takes no more. Returns how many; *left bytes
 * of the last are still to be sent.
 */
static long send_all(struct peer *p, long most, size_t *left)
{
	char text[64];
	size_t n, at = 0;
	ssize_t did;
	long nr;
	int tries;

	for (nr = 0; nr < most; nr++, at = 0) {
		n = peer_request(text, nr % SMALL);
		for (tries = 0; at < n && tries < TRIES; tries++) {
			did = send(p->p_fd, text + at, n - at,
				   MSG_NOSIGNAL | MSG_DONTWAIT);
			CHECK(did > 0 || errno == EAGAIN);
			at += did > 0 ? did : 0;
			if (did < 0)
				usleep(PAUSE);
		}
		if (at < n) {
			*left = n - at;
			return nr + 1;
		}
	}
	*left = 0;
	return nr;
}

static void unread(long connections)
{
	struct peer p;
	char text[64];
	long nr, i;
	size_t n, left;

	for (; connections > 0; connections--) {
		peer_dial(&p, 4096);
		nr = send_all(&p, UNREAD, &left);
		good_wait(GOOD_REQUESTS);
		for (i = 0; i < nr; i++) {
			n = peer_request(text, i % SMALL);
			if (i == nr - 1)
				CHECK(peer_send(&p, text + n - left, left));
			CHECK_IS(peer_answer(&p, i % SMALL), 200);
		}
		peer_close(&p);
	}
}

static const struct {
	const char *a_name;
	void      (*a_run)(long);
	bool        a_stays;		/* the good client */
} table[] = {
	{ "resets",  resets,    false },
	{ "cuts",    cuts,      false },
	{ "half",    half,      false },
	{ "long",    long_ones, false },
	{ "garbage", garbage,   false },
	{ "flood",   flood,     true  },
	{ "readers", readers,   false },
	{ "unread",  unread,    false }
};

static void attack(const char *name, long number)
{
	long nr = 0;
	int i;

	for (i = 0; i < COUNT(table); i++)
		if (strcmp(name, table[i].a_name) == 0) {
			good_start(table[i].a_stays);
			table[i].a_run(number);
			good_wait(GOOD_REQUESTS);
			nr = good_stop();
			printf("%s %ld, and %ld good requests\n", name, number,
			       nr);
			return;
		}
	if (strcmp(name, "load") != 0 && strcmp(name, "good") != 0) {
		fprintf(stderr, "attack: there is no %s\n", name);
		exit(IO_USAGE);
	}
	good_load(64, number, strcmp(name, "good") == 0, &nr, NULL);
	printf("%s: %ld good requests\n", name, nr);
}

static void get(const char *path)
{
	struct http_head h;
	struct peer p;
	char text[256];
	ssize_t n;

	peer_dial(&p, 0);
	n = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\n"
		     "Connection: close\r\n\r\n", path);
	CHECK(peer_send(&p, text, n));
	while ((n = recv(p.p_fd, p.p_room + p.p_nr, PEER_ROOM - p.p_nr, 0)) > 0)
		p.p_nr += n;
	n = http_head(&h, p.p_room, p.p_nr);
	CHECK(n > 0 && h.h_status == 200);
	fwrite(p.p_room + n, p.p_nr - n, 1, stdout);
}

int main(int argc, char **argv)
{
	long number = 0;

	if (argc == 3 && strcmp(argv[1], "files") == 0) {
		peer_make_files(argv[2]);
		return 0;
	}
	if (argc != 4 || (peer_server_len = io_address(&peer_server, argv[2]))
	    == 0 || (strcmp(argv[1], "get") != 0 &&
		     !io_number(argv[3], 1, 100 * 1000 * 1000, &number))) {
		fprintf(stderr, "usage: attack NAME ADDRESS NUMBER\n"
			"       attack get ADDRESS PATH\n"
			"       attack files FOLDER\n");
		return IO_USAGE;
	}
	check_start(1, argv);
	peer_start(check_seed);
	signal(SIGPIPE, SIG_IGN);
	if (strcmp(argv[1], "get") == 0)
		get(argv[3]);
	else
		attack(argv[1], number);
	return 0;
}
