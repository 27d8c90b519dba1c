/* SPDX-License-Identifier: MIT */
/*
 * libmariadb, unmodified: each client logs in, and runs a statement. Its
 * time-outs hold.
 */
#include "server.h"
#include <mariadb/errmsg.h>
#include <mariadb/mysql.h>

#define MOST	1000			/* bytes of a packet */
#define QUIT	1

static const char greeting[] =
	"\x0a" "5.5.5\0" "\1\0\0\0" "abcdefgh\0" "\xff\xf7" "\x21" "\2\0"
	"\x08\0" "\x15" "\0\0\0\0\0\0\0\0\0\0" "abcdefghijkl\0"
	"mysql_native_password";

static void send_packet(int fd, unsigned char nr_of, const char *at, int n)
{
	unsigned char head[] = { (unsigned char)n, 0, 0, nr_of };

	CHECK_THAT(n, <, 256);
	give(fd, head, sizeof head);
	give(fd, at, n);
}

/* Returns the number of the packet, or -1 at the end. */
static int take_packet(int fd, unsigned char *to)
{
	unsigned char head[4];
	int n;

	if (!take(fd, head, sizeof head))
		return -1;
	n = head[0] + 256 * head[1];
	CHECK(n > 0 && n <= MOST && head[2] == 0);
	return take(fd, to, n) ? head[3] : -1;
}

static void serve(int fd, void *arg)
{
	static const char well[] = "\0\0\0\2\0\0\0";
	unsigned char *m = malloc(MOST);
	int n;

	CHECK(m != NULL);
	send_packet(fd, 0, greeting, sizeof greeting);
	n = take_packet(fd, m);
	CHECK_IS(n, 1);
	meet();
	do {
		send_packet(fd, (unsigned char)(n + 1), well, sizeof well - 1);
		n = take_packet(fd, m);
	} while (n >= 0 && m[0] != QUIT);
	free(m);
	(void)arg;
}

static MYSQL *make_handle(unsigned seconds)
{
	MYSQL *m = mysql_init(NULL);

	CHECK(m != NULL);
	CHECK_IS(mysql_options(m, MYSQL_OPT_CONNECT_TIMEOUT, &seconds), 0);
	return m;
}

static bool logs_in(MYSQL *m)
{
	return mysql_real_connect(m, "127.0.0.1", "user", "word", NULL,
				  (unsigned)port, NULL, 0) != NULL;
}

static void client(int number)
{
	MYSQL *m = make_handle(20);

	if (!logs_in(m))
		fprintf(stderr, "%s\n", mysql_error(m));
	CHECK_IS(mysql_errno(m), 0);
	CHECK_IS(mysql_query(m, "do 1"), 0);
	mysql_close(m);
	(void)number;
}

static void impatient(void)
{
	MYSQL *m = make_handle(1);

	CHECK(!logs_in(m));
	CHECK_THAT(mysql_errno(m), >=, CR_MIN_ERROR);
	mysql_close(m);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	CHECK_IS(mysql_library_init(0, NULL, NULL), 0);
	run_all();
	mysql_library_end();
	return 0;
}
