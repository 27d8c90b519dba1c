/* SPDX-License-Identifier: MIT */
/* jobs.c: a queue of jobs, each of which sleeps in a thread until it is due. */

/*
 * A request is a line, and so is its answer.
 *
 *	put MS TEXT	keeps a job, due in MS		put ID
 *	take MS		waits so long for a job		job ID TEXT, or none
 *	done		the job has been done		done ID
 *	count						count SLEEPING DUE TAKEN
 *
 * Otherwise the answer is "error" and why. A client has one job at a time. If it
 * goes without "done", its job is due again, so a job is done at least once.
 * Jobs are in memory, and do not outlive the server. A client that sends no more
 * does not wait: it has "none" at once.
 *
 * All of the timing is sleeper(): a thread that sleeps, and then queues its job.
 *
 * A thread that takes waits for two things: a job, and the end of its client. The
 * second is a wait for the descriptor, in a scope. A thread that has a job for it
 * leaves the job in its struct taker, and cancels the scope. So neither is
 * lost: a job that comes when the client has gone is found there, and is due again.
 * While there are takers, no job is due.
 */
#include "conn.h"

#include <usched/all.h>
#include <errno.h>
#include <stdio.h>

enum { LINE = 4096, COST = 256 };	/* bytes, of a line; of a thread, at most */

#define LONGEST		(366LL * 24 * 3600 * 1000)	/* ms that a job may sleep */
#define LONGEST_TAKE	3600000				/* ms */

struct job {
	struct job *j_next;		/* in the queue */
	utime_ns    j_due;
	long long   j_id;
	int         j_len;
	char        j_text[];
};

/* A thread that waits for a job. On the heap, as its stack may be elsewhere. */
struct taker {
	struct taker  *t_next, **t_at;	/* in the queue, until there is t_job */
	struct uscope *t_scope;
	struct job    *t_job;
};

static struct job *first, **last;	/* due */
static struct taker *takers, **last_taker;
static long sleeping, due_nr, taken;
static long long ids;
static size_t used, most;

static void join(struct taker *t)
{
	t->t_at = last_taker;
	*last_taker = t;
	last_taker = &t->t_next;
}

static void leave(struct taker *t)
{
	*t->t_at = t->t_next;
	if (t->t_next != NULL)
		t->t_next->t_at = t->t_at;
	else
		last_taker = t->t_at;
}

/* Gives a job that is due to the thread that has waited longest, or queues it. */
static void push(struct job *j)
{
	struct taker *t = takers;

	if (t != NULL) {
		leave(t);
		t->t_job = j;
		taken++;
		uscope_cancel(t->t_scope);
		return;
	}
	j->j_next = NULL;
	*last = j;
	last = &j->j_next;
	due_nr++;
}

static struct job *pop(void)
{
	struct job *j = first;

	first = j->j_next;
	last = first == NULL ? &first : last;
	due_nr--;
	taken++;
	return j;
}

static void sleeper(void *arg)
{
	struct job *j = arg;

	(void)u_sleep(j->j_due);
	sleeping--;
	push(j);
}

static size_t bytes_of(int len)
{
	return sizeof(struct job) + len + COST;
}

/* Reads a number up to a space or the end. Returns what follows, or NULL. */
static const char *number(const char *at, const char *end, long long top,
			  long long *to)
{
	const char *from = at;

	for (*to = 0; at < end && (unsigned)(*at - '0') < 10 && *to <= top; at++)
		*to = *to * 10 + (*at - '0');
	return at == from || *to > top || (at < end && *at != ' ') ? NULL :
		at < end ? at + 1 : at;
}

static void put_job(struct conn *c, const char *at, const char *end)
{
	const char *text;
	struct job *j;
	long long ms;
	int len;

	text = number(at, end, LONGEST, &ms);
	if (text == NULL || text == end) {
		conn_print(c, "error put needs ms and a text\n");
		return;
	}
	len = end - text;
	j = used + bytes_of(len) <= most ? malloc(sizeof *j + len) : NULL;
	if (j != NULL) {
		*j = (struct job){ .j_due = uafter(ms * UTIME_MS),
				   .j_id = ids + 1, .j_len = len };
		memcpy(j->j_text, text, len);
	}
	if (j == NULL || usched_go(sleeper, j) != 0) {
		free(j);
		conn_print(c, "error no memory for more jobs\n");
		return;
	}
	used += bytes_of(len);
	sleeping++;
	conn_print(c, "put %lld\n", ++ids);
}

/* Waits for a job until its time, or its client, has ended. 0 or -errno. */
static int await(struct conn *c, struct job **j)
{
	struct taker *t = calloc(1, sizeof *t);
	int rc = t != NULL ? uscope_begin(&t->t_scope, UNEVER) : -ENOMEM;

	if (rc == 0) {
		join(t);
		(void)conn_ended(c, c->c_later_until);
		if (t->t_job == NULL)
			leave(t);
		(void)uscope_end(&t->t_scope);
		*j = t->t_job;
	}
	free(t);
	return rc;
}

/* Waits with no buffers: see await() in conn.c. */
static void later(struct conn *c)
{
	struct job *j = NULL;
	int rc = 0;

	if (first != NULL)
		j = pop();
	else
		rc = await(c, &j);
	if (j == NULL) {
		conn_print(c, rc == 0 ? "none\n" : "error no memory to wait\n");
		return;
	}
	c->c_held = j;
	conn_print(c, "job %lld ", j->j_id);
	conn_put(c, j->j_text, j->j_len);
	conn_put(c, "\n", 1);
}

static void take(struct conn *c, const char *at, const char *end)
{
	long long ms;

	if (c->c_held != NULL)
		conn_print(c, "error done comes before the next take\n");
	else if (number(at, end, LONGEST_TAKE, &ms) != end)
		conn_print(c, "error take needs ms, up to an hour\n");
	else {
		c->c_later = true;
		c->c_later_until = uafter(ms * UTIME_MS);
	}
}

static void done(struct conn *c)
{
	struct job *j = c->c_held;

	if (j == NULL) {
		conn_print(c, "error no job was taken\n");
		return;
	}
	c->c_held = NULL;
	taken--;
	used -= bytes_of(j->j_len);
	conn_print(c, "done %lld\n", j->j_id);
	free(j);
}

static bool begins(const char *at, const char *end, const char *word)
{
	size_t len = strlen(word);

	return (size_t)(end - at) >= len && memcmp(at, word, len) == 0;
}

static void run(struct conn *c, const char *at, const char *end)
{
	if (begins(at, end, "put "))
		put_job(c, at + 4, end);
	else if (begins(at, end, "take "))
		take(c, at + 5, end);
	else if (end - at == 4 && begins(at, end, "done"))
		done(c);
	else if (end - at == 5 && begins(at, end, "count"))
		conn_print(c, "count %ld %ld %ld\n", sleeping, due_nr, taken);
	else
		conn_print(c, "error unknown request\n");
}

static long answer(struct conn *c, const char *at, size_t nr)
{
	const char *end = memchr(at, '\n', nr < LINE ? nr : LINE);

	if (end != NULL) {
		run(c, at, end);
		return end + 1 - at;
	}
	if (nr < LINE)
		return CONN_MORE;
	conn_print(c, "error a line has %d bytes at most\n", LINE);
	return CONN_END;
}

static void gone(struct conn *c)
{
	if (c->c_held == NULL)
		return;
	taken--;
	push(c->c_held);
}

static int start(size_t bytes)
{
	first = NULL;
	last  = &first;
	takers = NULL;
	last_taker = &takers;
	sleeping = due_nr = taken = 0;
	ids  = 0;
	used = 0;
	most = bytes;
	return 0;
}

const struct program jobs = { "jobs", start, answer, later, gone };
