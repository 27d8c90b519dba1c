/* SPDX-License-Identifier: MIT */
/*
 * libpq, unmodified: NR threads ask PostgreSQL at the same time. Each adds a row
 * to a table, and its next query ends when all have done so. So a query that
 * stopped its processor would stop all.
 */
#include "either.h"
#include <libpq-fe.h>

static const char *how;			/* to connect */
static int nr;
static long done;

static PGresult *ask(PGconn *c, const char *what, ExecStatusType wanted)
{
	PGresult *r = PQexec(c, what);

	if (PQresultStatus(r) != wanted)
		fprintf(stderr, "%s: %s\n", what, PQerrorMessage(c));
	CHECK_IS(PQresultStatus(r), wanted);
	return r;
}

static PGconn *connect_to(void)
{
	PGconn *c = PQconnectdb(how);

	if (PQstatus(c) != CONNECTION_OK)
		fprintf(stderr, "%s\n", PQerrorMessage(c));
	CHECK_IS(PQstatus(c), CONNECTION_OK);
	return c;
}

static void client(void *number)
{
	PGconn *c = connect_to();
	char text[200];
	PGresult *r;

	PQclear(ask(c, "INSERT INTO come VALUES (1)", PGRES_COMMAND_OK));
	snprintf(text, sizeof text, "DO $$ BEGIN WHILE (SELECT count(*) FROM "
		 "come) < %d LOOP PERFORM pg_sleep(0.02); END LOOP; END $$", nr);
	PQclear(ask(c, text, PGRES_COMMAND_OK));
	snprintf(text, sizeof text, "SELECT n, repeat('x', 1000) FROM "
		 "generate_series(1, 500) AS n WHERE n %% %d = %ld", nr,
		 (long)number);
	r = ask(c, text, PGRES_TUPLES_OK);
	CHECK(PQntuples(r) >= 500 / nr && PQgetlength(r, 0, 1) == 1000);
	CHECK_IS(atoi(PQgetvalue(r, 0, 0)) % nr, (int)(long)number);
	PQclear(r);
	PQfinish(c);
	add(&done, 1);
}

/* By the native thread, whose calls are those of libc. */
static void prepare(void)
{
	PGconn *c = connect_to();

	PQclear(ask(c, "DROP TABLE IF EXISTS come", PGRES_COMMAND_OK));
	PQclear(ask(c, "CREATE TABLE come (n int)", PGRES_COMMAND_OK));
	PQfinish(c);
}

int main(int argc, char **argv)
{
	int i;

	check_start(1, argv);
	CHECK_IS(argc, 2);
	how = argv[1];
	nr = getenv("NR") != NULL ? atoi(getenv("NR")) : 50;
	prepare();
	begin(2, 0);
	for (i = 0; i < nr; i++)
		make_pinned(i, client, (void *)(long)i);
	start_and_finish();
	CHECK_IS(get(&done), nr);
	return 0;
}
