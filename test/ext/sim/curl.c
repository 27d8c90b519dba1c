/* SPDX-License-Identifier: MIT */
/*
 * curl.c: libcurl of Debian, unmodified, relinked with sim.flags and the pthread
 * face: its resolver is a thread. A small server that is written with the calls of
 * lib/io/ sends pages with a length, in chunks, or by a redirection, and takes uploads;
 * now and then it ends within an answer. A transfer that says it is done is whole.
 */

#include <usched/usim.h>
#include <usched/uio.h>
#include <usched/unet.h>
#include <usched/userve.h>

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PORT = 80, ROUNDS = 40, HEAD = 2000, BLOCK = 997 };

#define PATIENCE	(5 * UTIME_S)

/* The server. Page n has n blocks of bytes, which follow from n and the place. */

static char byte_of(int n, size_t i)
{
	return (char)('a' + (i * 7 + (size_t)n) % 26);
}

static int put(int fd, const char *text, size_t size)
{
	return u_write_all(fd, text, size, uafter(PATIENCE)) == (ssize_t)size;
}

static int say(int fd, const char *text)
{
	return put(fd, text, strlen(text));
}

static int page(int fd, int n, int chunked)
{
	char head[100], block[BLOCK];
	int end = usim_maybe("an answer is cut short") ? (int)usim_random((unsigned)n) : n;
	int i, k;

	snprintf(head, sizeof head, chunked ?
		 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" :
		 "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", n * BLOCK);
	if (!say(fd, head))
		return 0;
	for (i = 0; i < n; i++) {
		for (k = 0; k < BLOCK; k++)
			block[k] = byte_of(n, (size_t)(i * BLOCK + k));
		if (i == end)
			return 0;
		snprintf(head, sizeof head, "%x\r\n", BLOCK);
		if ((chunked && !say(fd, head)) || !put(fd, block, BLOCK) ||
		    (chunked && !say(fd, "\r\n")))
			return 0;
	}
	return !chunked || say(fd, "0\r\n\r\n");
}

/* Takes a body, of which some is in the buffer, and answers with its sum. */
static int take(int fd, const char *head, char *rest, size_t nr)
{
	const char *length = strstr(head, "Content-Length: ");
	size_t size, all, i;
	unsigned sum = 0;
	ssize_t got;
	char text[100];

	USIM_CHECK(length != NULL);
	size = strtoul(length + 16, NULL, 10);
	for (all = 0; all < size; all += nr, nr = (size_t)got) {
		for (i = 0; i < nr; i++)
			sum = sum * 31 + (unsigned char)rest[i];
		if (all + nr == size)
			break;
		got = u_read(fd, rest, 500, uafter(PATIENCE));
		if (got <= 0)
			return 0;
	}
	snprintf(text, sizeof text, "%u", sum);
	i = strlen(text);
	snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%u",
		 i, sum);
	return say(fd, text);
}

static int request(int fd, char *data, char *end, size_t nr)
{
	int n;

	end[2] = 0;
	if (strncmp(data, "PUT ", 4) == 0)
		return take(fd, data, end + 4, nr);
	USIM_CHECK(strncmp(data, "GET /", 5) == 0);
	n = atoi(data + 6);
	switch (data[5]) {
	case 'r':
		snprintf(data, HEAD, "HTTP/1.1 302 Found\r\nLocation: /p%d\r\n"
			 "Content-Length: 0\r\n\r\n", n);
		return say(fd, data);
	default:
		return page(fd, n, data[5] == 'c');
	}
}

static void serve(int fd, void *unused)
{
	char data[HEAD + 501], *end;
	size_t nr;
	ssize_t got;

	(void)unused;
	do {
		for (nr = 0, end = NULL; end == NULL; nr += (size_t)got) {
			got = u_read(fd, data + nr, HEAD - nr, uafter(20 * UTIME_S));
			if (got <= 0)
				return;
			data[nr + (size_t)got] = 0;
			end = strstr(data, "\r\n\r\n");
		}
	} while (request(fd, data, end, nr - (size_t)(end + 4 - data)));
}

static int server(void *unused)
{
	static struct userve s;

	(void)unused;
	s = (struct userve) { .sv_f = serve,
		.sv_fd = u_listen_tcp(NULL, PORT, 0, 0), .sv_limit = 10 };
	return userve(&s);
}

/* A client. */

struct got {
	int    n;
	size_t size;
};

static size_t check(char *data, size_t size, size_t nr, void *arg)
{
	struct got *g = arg;
	size_t i;

	for (i = 0; i < size * nr; i++)
		USIM_CHECK(data[i] == byte_of(g->n, g->size + i));
	g->size += i;
	return i;
}

struct upload {
	size_t   left;
	unsigned sum;
	char     answer[20];
	size_t   got;		/* of the answer, which may come in parts */
};

static size_t give(char *to, size_t size, size_t nr, void *arg)
{
	struct upload *u = arg;
	size_t i, part = size * nr < u->left ? size * nr : u->left;

	for (i = 0; i < part; i++) {
		to[i] = (char)(u->left-- % 251);
		u->sum = u->sum * 31 + (unsigned char)to[i];
	}
	return part;
}

static size_t read_sum(char *data, size_t size, size_t nr, void *arg)
{
	struct upload *u = arg;

	USIM_CHECK(u->got + size * nr < sizeof u->answer);
	memcpy(u->answer + u->got, data, size * nr);
	u->got += size * nr;
	return size * nr;
}

static CURL *handle(CURL *c, const char *path)
{
	char url[100];

	snprintf(url, sizeof url, "http://web/%s", path);
	curl_easy_reset(c);
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, 4000L);
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
	curl_easy_setopt(c, CURLOPT_PROXY, "");
	return c;
}

static int gets(CURL *c, int n)
{
	static const char kinds[] = "pcr";
	struct got g = { n, 0 };
	char path[20];
	long status = 0;

	snprintf(path, sizeof path, "%c%d", kinds[usim_random(3)], n);
	handle(c, path);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, check);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, &g);
	if (curl_easy_perform(c) != CURLE_OK)
		return 0;
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	USIM_CHECK(status == 200 && g.size == (size_t)n * BLOCK);
	return 1;
}

static int puts_sum(CURL *c, size_t size)
{
	struct upload u = { .left = size };

	handle(c, "sum");
	curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
	curl_easy_setopt(c, CURLOPT_INFILESIZE, (long)size);
	curl_easy_setopt(c, CURLOPT_READFUNCTION, give);
	curl_easy_setopt(c, CURLOPT_READDATA, &u);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, read_sum);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, &u);
	if (curl_easy_perform(c) != CURLE_OK)
		return 0;
	USIM_CHECK(u.left == 0 && strtoul(u.answer, NULL, 10) == u.sum);
	return 1;
}

static int client(void *unused)
{
	CURL *c = curl_easy_init();
	int done = 0;

	(void)unused;
	USIM_CHECK(c != NULL);
	while (done < ROUNDS) {
		int ok = usim_random(4) == 0 ? puts_sum(c, 1 + usim_random(40000)) :
			gets(c, 1 + (int)usim_random(150));

		usim_sometimes(!ok, "a transfer fails");
		done += ok;
		usleep(usim_random(500000));
	}
	curl_easy_cleanup(c);
	return 0;
}

static void setup(struct usim_world *w)
{
	w->w_faults = 20;
	usim_host("web", server, NULL);
	usim_client("ann", client, NULL);
	usim_client("bob", client, NULL);
}

/* OpenSSL reads files of the machine when it begins: before the run. */
int main(int argc, char **argv)
{
	if (curl_global_init(CURL_GLOBAL_ALL) != 0)
		return 2;
	return usim_main(argc, argv, setup);
}
