/* SPDX-License-Identifier: MIT */
/*
 * hiredis, unmodified, on blocking sockets: NR threads wait for an element of a
 * list each. The last that has come puts them there, so a wait that stopped its
 * processor would stop all.
 */
#include "either.h"
#include <hiredis/hiredis.h>
#include <sys/time.h>

static const char *path;		/* of the server's socket */
static int nr;
static long done;

static redisReply *ask(redisContext *c, const char *what, long number)
{
	redisReply *r = redisCommand(c, what, number);

	if (r == NULL)
		fprintf(stderr, "%s: %s\n", what, c->errstr);
	CHECK(r != NULL && r->type != REDIS_REPLY_ERROR);
	return r;
}

static redisContext *connect_to(void)
{
	redisContext *c = redisConnectUnix(path);

	CHECK(c != NULL && c->err == 0);
	return c;
}

/* By the native thread, whose calls are those of libc. */
static void prepare(void)
{
	redisContext *c = connect_to();

	freeReplyObject(ask(c, "FLUSHALL", 0));
	redisFree(c);
}

static void client(void *number)
{
	redisContext *c = connect_to();
	redisReply *r;
	long i, come;

	freeReplyObject(ask(c, "SET key%ld value", (long)number));
	r = ask(c, "INCR come", 0);
	CHECK_IS(r->type, REDIS_REPLY_INTEGER);
	come = r->integer;
	freeReplyObject(r);
	for (i = 0; come == nr && i < nr; i++)
		freeReplyObject(ask(c, "RPUSH go element%ld", i));
	r = ask(c, "BLPOP go 0", 0);
	CHECK(r->type == REDIS_REPLY_ARRAY && r->elements == 2);
	CHECK(strncmp(r->element[1]->str, "element", 7) == 0);
	freeReplyObject(r);
	r = ask(c, "GET key%ld", (long)number);
	CHECK(r->type == REDIS_REPLY_STRING && strcmp(r->str, "value") == 0);
	freeReplyObject(r);
	redisFree(c);
	add(&done, 1);
}

/* A time-out of the library is SO_RCVTIMEO. */
static void impatient(void *arg)
{
	redisContext *c = connect_to();

	CHECK_IS(redisSetTimeout(c, (struct timeval){ 0, 50000 }), REDIS_OK);
	CHECK(redisCommand(c, "BLPOP never 0") == NULL && c->err != 0);
	redisFree(c);
}

int main(int argc, char **argv)
{
	int i;

	check_start(1, argv);
	CHECK_IS(argc, 2);
	path = argv[1];
	nr = getenv("NR") != NULL ? atoi(getenv("NR")) : 200;
	prepare();
	begin(2, 0);
	for (i = 0; i < nr; i++)
		make_pinned(i, client, (void *)(long)i);
	make_pinned(0, impatient, NULL);
	start_and_finish();
	CHECK_IS(get(&done), nr);
	return 0;
}
