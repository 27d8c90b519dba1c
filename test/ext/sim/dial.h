/* SPDX-License-Identifier: MIT */
/* dial.h: how clients of hosts connect. */

#ifndef DIAL_H
#define DIAL_H

#include <usched/usim.h>

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* Connects, reads and writes for that many seconds at most. -1: there is no answer. */
static int dial(const char *host, const char *port, int seconds)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *at;
	struct timeval patience = { seconds, 0 };
	int fd = socket(AF_INET, SOCK_STREAM, 0), rc;

	USIM_CHECK(getaddrinfo(host, port, &hints, &at) == 0);
	USIM_CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience,
			      sizeof patience) == 0 &&
		   setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience,
			      sizeof patience) == 0);
	rc = connect(fd, at->ai_addr, at->ai_addrlen);
	freeaddrinfo(at);
	if (rc == 0)
		return fd;
	close(fd);
	return -1;
}

#endif /* DIAL_H */
