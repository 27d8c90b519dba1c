/* SPDX-License-Identifier: MIT */
/*
 * libcurl, unmodified: NR transfers at once, in as many threads. The server
 * answers only when all requests have come, so a transfer that stopped its
 * processor would stop all.
 */
#include "either.h"
#include <curl/curl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define BODY	20000

static int listener, nr;
static char url[64];
static long done;

static int listen_here(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t len = sizeof in;

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_THAT((listener = socket(AF_INET, SOCK_STREAM, 0)), >=, 0);
	CHECK_IS(bind(listener, (void *)&in, sizeof in), 0);
	CHECK_IS(listen(listener, 1024), 0);
	CHECK_IS(getsockname(listener, (void *)&in, &len), 0);
	return ntohs(in.sin_port);
}

/* Reads a request, whose path is a number. */
static int request(int fd)
{
	char buf[4096];
	size_t at = 0;
	ssize_t n;

	do {
		CHECK_THAT((n = read(fd, buf + at, sizeof buf - 1 - at)), >, 0);
		buf[at += n] = 0;
	} while (strstr(buf, "\r\n\r\n") == NULL);
	return atoi(strstr(buf, "/") + 1);
}

static void answer(int fd, int number)
{
	static char body[BODY];
	char head[128];
	int size = sprintf(head, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n"
			   "Connection: close\r\n\r\n", BODY);

	memset(body, 'a' + number % 26, sizeof body);
	CHECK_IS(write(fd, head, size), size);
	CHECK_IS(write(fd, body, BODY), BODY);
	close(fd);
}

/* A process of its own, with a single native thread. */
static void serve(void)
{
	int *fd = calloc(nr, sizeof *fd), *number = calloc(nr, sizeof *number);
	int i;

	for (i = 0; i < nr; i++)
		CHECK_THAT((fd[i] = accept(listener, NULL, NULL)), >=, 0);
	for (i = 0; i < nr; i++)
		number[i] = request(fd[i]);
	for (i = 0; i < nr; i++)
		answer(fd[i], number[i]);
}

struct got {
	long count;
	char wanted;
};

static size_t take(char *data, size_t size, size_t items, void *arg)
{
	struct got *g = arg;
	size_t i;

	for (i = 0; i < size * items; i++)
		CHECK_IS(data[i], g->wanted);
	g->count += (long)(size * items);
	return size * items;
}

/* Other threads do not use g, so its place is on the stack. */
static void transfer(void *number)
{
	struct got g = { 0, (char)('a' + (long)number % 26) };
	CURL *c = curl_easy_init();
	char here[80];
	CURLcode rc;
	long code = 0;

	CHECK(c != NULL);
	snprintf(here, sizeof here, "%s%ld", url, (long)number);
	curl_easy_setopt(c, CURLOPT_URL, here);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1l);
	curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, &g);
	rc = curl_easy_perform(c);
	if (rc != CURLE_OK)
		fprintf(stderr, "%s: %s\n", here, curl_easy_strerror(rc));
	CHECK(rc == CURLE_OK && g.count == BODY);
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &code);
	CHECK_IS(code, 200);
	curl_easy_cleanup(c);
	add(&done, 1);
}

int main(int argc, char **argv)
{
	int i, status;
	pid_t pid;

	check_start(argc, argv);
	nr = getenv("NR") != NULL ? atoi(getenv("NR")) : 500;
	snprintf(url, sizeof url, "http://127.0.0.1:%d/", listen_here());
	CHECK_THAT((pid = fork()), >=, 0);
	if (pid == 0) {
		check_watch(1);
		serve();
		_exit(0);
	}
	CHECK_IS(curl_global_init(CURL_GLOBAL_DEFAULT), CURLE_OK);
	begin(2, 0);
	for (i = 0; i < nr; i++)
		make_pinned(i, transfer, (void *)(long)i);
	start_and_finish();
	CHECK_IS(get(&done), nr);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	curl_global_cleanup();
	return 0;
}
