/* SPDX-License-Identifier: MIT */
/*
 * c-ares, unmodified, with select(): a server of names answers when all have
 * asked. Its time-outs hold.
 */
#include "server.h"
#include <arpa/inet.h>
#include <ares.h>
#include <netdb.h>
#include <string.h>
#include <sys/select.h>

#define HEAD	12			/* bytes before the question */
#define ADDRESS	0x0a010203

static int udp;

/* Makes the answer of a question of n bytes, and returns its length. */
static int answer(unsigned char *m, int n)
{
	static const unsigned char record[] = {
		0xc0, HEAD, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 1, 2, 3
	};
	int end = HEAD;

	while (end < n && m[end] != 0)
		end += m[end] + 1;
	end += 5;
	m[2] = 0x81;			/* an answer, without an error */
	m[3] = 0x80;
	m[7] = 1;			/* one record, and no more */
	m[10] = m[11] = 0;
	memcpy(m + end, record, sizeof record);
	return end + (int)sizeof record;
}

static void names(void *arg)
{
	struct sockaddr_in from;
	socklen_t len = sizeof from;
	unsigned char m[512];
	int n = (int)u_recvfrom(udp, m, sizeof m / 2, 0, (struct sockaddr *)&from,
				&len, UNEVER);

	CHECK_THAT(n, >, HEAD);
	meet();
	n = answer(m, n);
	CHECK_IS(u_sendto(udp, m, (size_t)n, 0, (struct sockaddr *)&from, len,
			  UNEVER), n);
	(void)arg;
}

static void found(void *arg, int status, int again, struct hostent *h)
{
	struct in_addr a = { 0 };
	int *result = arg;

	if (status == ARES_SUCCESS)
		memcpy(&a, h->h_addr_list[0], sizeof a);
	*result = status != ARES_SUCCESS ? status :
		a.s_addr == htonl(ADDRESS) ? 0 : -1;
	(void)again;
}

/* Asks for a name. Returns the result. */
static int ask(const char *name, int timeout)
{
	struct ares_options o = { .timeout = timeout, .tries = 1 };
	struct timeval t;
	int *result = malloc(sizeof *result), rc, fds;
	ares_channel c;
	fd_set reads, writes;
	char at[40];

	CHECK(result != NULL);
	*result = INT32_MAX;
	CHECK_IS(ares_init_options(&c, &o, ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES),
		 ARES_SUCCESS);
	snprintf(at, sizeof at, "127.0.0.1:%d", port);
	CHECK_IS(ares_set_servers_ports_csv(c, at), ARES_SUCCESS);
	ares_gethostbyname(c, name, AF_INET, found, result);
	while (*result == INT32_MAX) {
		FD_ZERO(&reads);
		FD_ZERO(&writes);
		fds = ares_fds(c, &reads, &writes);
		CHECK_THAT(select(fds, &reads, &writes, NULL,
				  ares_timeout(c, NULL, &t)), >=, 0);
		ares_process(c, &reads, &writes);
	}
	ares_destroy(c);
	rc = *result;
	free(result);
	return rc;
}

static void client(int number)
{
	char name[40];

	make(0, names, NULL);
	snprintf(name, sizeof name, "host%d.example.org.", number);
	CHECK_IS(ask(name, 20000), 0);
}

static void impatient(void)
{
	port = u_port(udp);		/* which no thread reads any more */
	CHECK_IS(ask("nothing.example.org.", 50), ARES_ETIMEOUT);
}

static void serve(int fd, void *arg)
{
	CHECK(!"a connection");
	(void)fd;
	(void)arg;
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET };

	check_start(argc, argv);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	CHECK_IS(bind(udp, (struct sockaddr *)&a, sizeof a), 0);
	port = u_port(udp);
	CHECK_IS(ares_library_init(ARES_LIB_INIT_ALL), ARES_SUCCESS);
	run_all();
	return 0;
}
