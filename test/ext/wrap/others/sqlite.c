/* SPDX-License-Identifier: MIT */
/*
 * sqlite: threads share one database file, each with a connection of its own,
 * and block within statements (every 100 steps of SQLite's machine) and
 * whenever the file is locked. No thread sees a part of a transaction, and the
 * database is intact and has the same contents as without threads.
 */

/*
 * Where threads block, and what SQLite holds meanwhile:
 *
 * - The mutex of the connection, a native mutex, is held during each call, and
 *   so over the progress handler. Suppose that a second thread used the
 *   connection. On another processor it would stop all threads of that
 *   processor until the first thread has gone on. On the same processor it
 *   would be let in, as the mutex is recursive and knows only native threads;
 *   it would then find the connection in the middle of a statement. Therefore a
 *   connection belongs to one thread, and needs no mutex (SQLITE_OPEN_NOMUTEX).
 *   Besides, a thread here never leaves its native thread, on which a mutex
 *   would rely.
 *
 * - Static mutexes (memory, random numbers, the list of open files, the page
 *   cache) and the mutexes of a file are held for short stretches, in which
 *   neither handler is called. So SQLite must be built for threads if there is
 *   more than one processor. Shared caches must not be used: they have a mutex
 *   that is held over both handlers. The next thread of the same processor
 *   would wait for it natively, forever.
 *
 * - Locks of the file are held for a whole transaction. They are POSIX locks,
 *   which belong to the process; but SQLite counts the locks of each connection
 *   within a process, so they also hold between our threads. A thread that
 *   meets a lock gets the busy handler, which must let other threads run.
 *   SQLite's own handler (busy_timeout) sleeps. The holder of the lock would
 *   sleep with it, if it is on the same processor.
 *
 * - A transaction that first reads and then writes could deadlock with another
 *   transaction. SQLite notices that, and does not call the busy handler. So
 *   transactions that write begin with BEGIN IMMEDIATE.
 */
#include "others.h"
#include <sched.h>
#include <sqlite3.h>

#define THREADS		8
#define TURNS		20		/* transactions of a thread */
#define ACCOUNTS	100
#define RICH		1000		/* of each account, at the start */
#define ROWS		8		/* in the log, for each transaction */
#define STEPS		100

struct job {
	struct other j_other;
	sqlite3     *j_db;
	long         j_progress;	/* blocks by the progress handler */
	long         j_busy;		/* and by the busy handler */
};

static struct job jobs[THREADS];
static char dir[256], file[300];

static void succeed(sqlite3 *db, int rc, const char *sql)
{
	if (rc == SQLITE_OK)
		return;
	fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
	CHECK_IS(rc, SQLITE_OK);
}

static void execute(sqlite3 *db, const char *sql)
{
	succeed(db, sqlite3_exec(db, sql, NULL, NULL, NULL), sql);
}

/* Returns the first column of the first row. The caller frees it. */
static char *ask(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *st;
	char *text;

	succeed(db, sqlite3_prepare_v2(db, sql, -1, &st, NULL), sql);
	CHECK_IS(sqlite3_step(st), SQLITE_ROW);
	CHECK_THAT(sqlite3_column_type(st, 0), !=, SQLITE_NULL);
	text = strdup((const char *)sqlite3_column_text(st, 0));
	CHECK(text != NULL);
	succeed(db, sqlite3_finalize(st), sql);
	return text;
}

static void expect(sqlite3 *db, const char *sql, const char *want)
{
	char *got = ask(db, sql);

	if (strcmp(got, want) != 0)
		fprintf(stderr, "%s: %s instead of %s\n", sql, got, want);
	CHECK_STR(got, want);
	free(got);
}

/* Handlers. */

static int progress(void *arg)
{
	struct job *j = arg;

	j->j_progress++;
	others_block();
	return 0;
}

/* The lock may be held on another processor: lets that run, too. */
static int busy(void *arg, int nr)
{
	struct job *j = arg;

	j->j_busy++;
	others_block();
	sched_yield();
	return 1;
}

static sqlite3 *open_db(const char *name)
{
	sqlite3 *db;

	CHECK_IS(sqlite3_open_v2(name, &db, SQLITE_OPEN_READWRITE |
		 SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
		 SQLITE_OPEN_PRIVATECACHE, NULL), SQLITE_OK);
	return db;
}

/* The thread. */

/* Moves money, touches some accounts, writes lines to the log. */
static void change(struct job *j, int turn)
{
	unsigned *r = &j->j_other.o_random;
	unsigned from = check_random(r) % ACCOUNTS;
	unsigned to = check_random(r) % ACCOUNTS;
	unsigned sum = check_random(r) % 50;
	unsigned nr = check_random(r) % 7;
	char sql[1024];

	snprintf(sql, sizeof sql,
		 "UPDATE account SET balance = balance - %u WHERE id = %u;"
		 "UPDATE account SET touched = touched + 1 WHERE id %% 7 = %u;"
		 "UPDATE account SET balance = balance + %u WHERE id = %u;"
		 "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL "
		 "	SELECT n + 1 FROM t WHERE n < %d) "
		 "INSERT INTO log SELECT %d, %d, n, printf('%%0*d', 9 * n, %u) "
		 "	FROM t",
		 sum, from, nr, sum, to, ROWS, (int)(j - jobs), turn, sum);
	execute(j->j_db, sql);
}

/*
 * Checks that no money is missing, and that no transaction is half in the log.
 */
static void look(struct job *j)
{
	char text[64];

	snprintf(text, sizeof text, "%d", ACCOUNTS * RICH);
	expect(j->j_db, "SELECT sum(balance) FROM account", text);
	snprintf(text, sizeof text, "SELECT count(*) %% %d FROM log", ROWS);
	expect(j->j_db, text, "0");
}

static void work(struct other *o)
{
	struct job *j = (struct job *)o;
	int i;

	o->o_random = check_hash(check_seed, (unsigned)(j - jobs));
	j->j_db = open_db(file);
	CHECK_IS(sqlite3_busy_handler(j->j_db, busy, j), SQLITE_OK);
	sqlite3_progress_handler(j->j_db, STEPS, progress, j);
	execute(j->j_db, "PRAGMA synchronous = OFF");	/* only saves time */
	for (i = 0; i < TURNS; i++) {
		execute(j->j_db, "BEGIN IMMEDIATE");
		look(j);
		change(j, i);
		execute(j->j_db, i % 5 == 4 ? "ROLLBACK" : "COMMIT");
		look(j);
	}
	CHECK_IS(sqlite3_close(j->j_db), SQLITE_OK);
}

/* The runs. */

static sqlite3 *create(const char *name, const char *journal)
{
	char sql[512];
	sqlite3 *db;

	snprintf(file, sizeof file, "%s/%s", dir, name);
	db = open_db(file);
	execute(db, "PRAGMA synchronous = OFF");
	snprintf(sql, sizeof sql, "PRAGMA journal_mode = %s", journal);
	expect(db, sql, journal);
	snprintf(sql, sizeof sql,
		 "CREATE TABLE account(id INTEGER PRIMARY KEY, balance,"
		 "	touched);"
		 "CREATE TABLE log(thread, turn, nr, text,"
		 "	PRIMARY KEY (thread, turn, nr));"
		 "WITH RECURSIVE t(n) AS (SELECT 0 UNION ALL "
		 "	SELECT n + 1 FROM t WHERE n < %d) "
		 "INSERT INTO account SELECT n, %d, 0 FROM t",
		 ACCOUNTS - 1, RICH);
	execute(db, sql);
	return db;
}

static void delete(sqlite3 *db)
{
	CHECK_IS(sqlite3_close(db), SQLITE_OK);
	CHECK_IS(unlink(file), 0);
}

/* Returns the contents as text. */
static char *contents(sqlite3 *db)
{
	expect(db, "PRAGMA integrity_check", "ok");
	return ask(db,
		"SELECT (SELECT group_concat(v, ';') FROM (SELECT "
		"	id || ',' || balance || ',' || touched AS v "
		"	FROM account ORDER BY id)) || '/' || "
		"(SELECT group_concat(v, ';') FROM (SELECT "
		"	thread || ',' || turn || ',' || nr || ',' || text AS v "
		"	FROM log ORDER BY thread, turn, nr))");
}

static char *plain(const char *journal)
{
	sqlite3 *db = create("plain", journal);
	char *text;
	int i;

	for (i = 0; i < THREADS; i++)
		work(&jobs[i].j_other);
	text = contents(db);
	delete(db);
	return text;
}

static void compare(const struct way *w, const char *journal, const char *want)
{
	long nr_progress = 0, nr_busy = 0;
	sqlite3 *db = create("threads", journal);
	char *got;
	int i;

	for (i = 0; i < THREADS; i++)
		jobs[i].j_progress = jobs[i].j_busy = 0;
	if (others_run(w, jobs, THREADS, sizeof jobs[0], TURNS)) {
		for (i = 0; i < THREADS; i++) {
			CHECK_THAT(jobs[i].j_progress, >=, TURNS);
			nr_progress += jobs[i].j_progress;
			nr_busy     += jobs[i].j_busy;
		}
		printf("	%s: %ld within statements, %ld when busy\n",
		       journal, nr_progress, nr_busy);
		CHECK_THAT(nr_busy, >, 0);
		got = contents(db);
		CHECK_STR(got, want);
		free(got);
	}
	delete(db);
}

int main(int argc, char **argv)
{
	static const char *const journals[] = { "delete", "wal" };
	const char *tmp = getenv("TMPDIR");
	char *want;
	int i, k;

	check_start(argc, argv);
	if (!sqlite3_threadsafe())
		check_skip("this libsqlite3 is built for one native thread");
	snprintf(dir, sizeof dir, "%s/usched-sqlite-XXXXXX",
		 tmp != NULL ? tmp : "/tmp");
	CHECK(mkdtemp(dir) != NULL);
	for (i = 0; i < THREADS; i++)
		jobs[i].j_other.o_f = work;
	for (k = 0; k < COUNT(journals); k++) {
		want = plain(journals[k]);
		for (i = 0; i < COUNT(ways); i++)
			compare(&ways[i], journals[k], want);
		free(want);
	}
	CHECK_IS(rmdir(dir), 0);
	return 0;
}
