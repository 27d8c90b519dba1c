/* SPDX-License-Identifier: MIT */
/* network.c: a simulated network: a seed finds a bug, and shows it again. */

/*
 * A client is a thread, and so is a packet. Packets get lost, or late, overtake
 * others. A server leases a lock to one of its 19 clients at a time. A client
 * asks until it has an answer. "network ack 7" plants a bug, and has seed 7.
 */
#include <stdio.h>
#include <stdlib.h>
#include <usched/all.h>

#define NODES	1000
#define GROUP	20
#define LEASE	(400 * UTIME_MS)

enum { ACQUIRE, RELEASE, GRANTED, RELEASED, BUSY, LOST, WORKS, ENDED };

static struct node {
	struct rr_thread *thread;
	struct node *server;
	unsigned seq, got;		/* last request, its answer or 0 */
	unsigned done, answer;		/* last request and answer known to the server */
	struct node *owner;		/* in a server: whose lease */
	utime_ns expires;		/* when the lease of owner ends */
	int workers;			/* clients that work, in truth */
} node[NODES];

static unsigned long bug, hash, events;
static utime_ns begun;

/* Notes an event. Ends the program after the last, or a finding. */
static void note(struct node *n, unsigned kind, unsigned seq, const char *end)
{
	hash ^= (unsigned long)(unow() - begun) ^ (n - node) << 50 ^ kind << 26 ^ seq;
	hash  = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9u;
	events++;
	if (end == NULL)
		return;
	printf("seed %d: %s; node %d, %d ms, event %lu, hash %016lx\n",
	       (int)utime_seed(), end, (int)(n - node),
	       (int)((unow() - begun) / UTIME_MS), events, hash);
	exit(kind != ENDED);
}

static void carry(void *packet);

/* Sends a packet, which is a number, from a client to its server, or back. */
static void pass(struct node *client, long kind, long seq)
{
	long packet = (seq * ENDED + kind) * NODES + (client - node);

	if (rr_thread_init(carry, (void *)packet) == NULL)
		abort();
}

/* Returns the answer to a request. */
static unsigned serve(struct node *me, struct node *client, unsigned kind)
{
	if (kind == ACQUIRE && unow() < me->expires)
		return BUSY;
	if (kind == ACQUIRE)
		me->owner = client;
	if (me->owner == client)
		me->expires = kind == ACQUIRE ? uafter(LEASE) : 0;
	return kind == ACQUIRE ? GRANTED : RELEASED;
}

/* Serves a new request. Repeats the answer to the last. */
static void receive(struct node *client, unsigned kind, unsigned seq)
{
	if (seq > client->done || bug == 'o')
		client->answer = serve(client->server, client, kind);
	else if (seq < client->done || bug == 'a')
		return;
	client->done = seq;
	pass(client, client->answer, seq);
}

static void carry(void *packet)
{
	struct node *client = &node[(long)packet % NODES];
	long rest = (long)packet / NODES;
	unsigned kind = uwait_random(100) != 0 ? rest % ENDED : LOST;
	unsigned seq  = rest / ENDED;
	unsigned most = uwait_random(100) == 0 ? 4000 : 10;	/* ms */

	u_sleep(uafter((1 + uwait_random(most)) * UTIME_MS));
	note(client, kind, seq, NULL);
	if (kind <= RELEASE)
		receive(client, kind, seq);
	else if (kind != LOST && seq == client->seq && client->got == 0) {
		client->got = kind;
		rr_wake(client->thread);
	}
}

static unsigned ask(struct node *me, unsigned request)
{
	int i;

	for (me->seq++, me->got = i = 0; me->got == 0 && i < 50; i++) {
		utime_ns until = uafter(25 * UTIME_MS);

		pass(me, request, me->seq);
		while (me->got == 0 && u_wait_until(until) == 0)
			;
	}
	note(me, LOST, i, me->got != 0 ? NULL : "no answer");
	return me->got;
}

static void client(void *arg)
{
	struct node *me = arg, *server = me->server;
	utime_ns lease, until;

	for (int i = 0; i < 5; i++, ask(me, RELEASE)) {
		do {
			u_sleep(uafter(uwait_random(4000) * UTIME_MS));
			lease = uafter(LEASE);
		} while (ask(me, ACQUIRE) != GRANTED);
		if (bug == 'g')		/* the server's lease ends before */
			lease = uafter(LEASE);
		until = uafter(uwait_random(402) * UTIME_MS);
		if (unow() >= lease)
			continue;
		note(me, WORKS, i, server->workers++ ? "two work" : NULL);
		u_sleep(until < lease ? until : lease);
		server->workers--;
	}
}

int main(int argc, char **argv)
{
	struct node *n;

	utime_virtual(argc > 2 ? strtoul(argv[2], NULL, 0) : 1);
	begun = unow();
	bug = argc > 1 ? argv[1][0] : 0;
	if (rr_init(1, 0) != 0)
		abort();
	for (n = node; n < node + NODES; n++) {
		n->server = n - (n - node) % GROUP;
		if (n != n->server)
			n->thread = rr_thread_init(client, n);
	}
	if (rr_start() != 0 || rr_fini() != 0)
		abort();
	note(node, ENDED, 0, "all have ended");
}
