/* SPDX-License-Identifier: MIT */
/* udp.c: datagrams. A lost question is asked again, after a while. */

#include <netinet/in.h>
#include "loop.h"

/* Answers all but each second datagram, until it is cancelled. */
static int answer(void *arg)
{
	int fd = *(int *)arg;
	struct sockaddr_storage from;
	char buf[64];
	ssize_t n;

	for (unsigned i = 1; ; i++) {
		socklen_t len = sizeof from;

		n = u_recvfrom(fd, buf, sizeof buf, 0,
			       (struct sockaddr *)&from, &len, UNEVER);
		if (n < 0)
			return 0;
		if (i % 2 == 0)
			u_sendto(fd, buf, n, 0, (struct sockaddr *)&from, len,
				 UNEVER);
	}
}

/* Asks until there is an answer. */
static void ask(int fd, const struct sockaddr_in *to, const char *text)
{
	char reply[64];

	for (int i = 1; i <= 9; i++) {
		u_sendto(fd, text, 5, 0, (const struct sockaddr *)to,
			 sizeof *to, UNEVER);
		if (u_recv(fd, reply, sizeof reply, 0,
			   uafter(100 * UTIME_MS)) == 5) {
			printf("%.5s, %s\n", reply,
			       i > 1 ? "after a while" : "at once");
			return;
		}
	}
}

static void talk(void)
{
	static int server;
	int client = u_bind_udp("127.0.0.1", 0, 0);
	struct sockaddr_in to = { .sin_family = AF_INET };

	server = u_bind_udp("127.0.0.1", 0, 0);
	to.sin_port = htons(u_port(server));
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (uscope_go(uscope_self(), answer, &server) == 0)
		ask(client, &to, "hello");
	u_close(client);
}

int main(void)
{
	return run(talk);
}
