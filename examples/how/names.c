/* SPDX-License-Identifier: MIT */
/* names.c: looks up names, each for half a second at most. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <usched/all.h>

static void look_up(const char *host)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM };
	struct addrinfo *list;
	char text[INET_ADDRSTRLEN];
	int rc = u_getaddrinfo(host, "80", &hints, &list, uafter(500 * UTIME_MS));

	if (rc != 0) {
		printf("%s: %s\n", host, rc < 0 ? strerror(-rc) : gai_strerror(U_EAI(rc)));
		return;
	}
	inet_ntop(AF_INET, &((struct sockaddr_in *)list->ai_addr)->sin_addr,
		  text, sizeof text);
	printf("%s: %s\n", host, text);		/* u_dial() takes list->ai_addr */
	freeaddrinfo(list);
}

static int run(void *arg)
{
	(void)arg;
	look_up("localhost");
	look_up("deaf.example");
	return 0;
}

int main(void)
{
	return usched_main(run, NULL);
}
