/* SPDX-License-Identifier: MIT */
/* raft.c: a store with copies on three hosts, whose copies agree by Raft. */

/*
 * A replicated store after "In Search of an Understandable Consensus Algorithm"
 * (Ongaro and Ousterhout 2014), without snapshots and changes of the members. An
 * entry of the log is an operation of a client on a register: read, write, or
 * compare and swap. A node answers when the entry is committed and applied.
 *
 *	main		accepts connections, a thread for each
 *	peer		a thread for each other node: asks for its vote, and sends
 *			entries, or nothing each 40 ms
 *	clock		begins an election when no leader was heard
 *
 * A node keeps its term, its vote and its log on disk, and syncs before it
 * answers. A check in each record goes over the records before it, so what a
 * crash leaves is a first part of the log. Every error of the disk ends the node;
 * it starts again with what it reads, writes that once more, and syncs.
 *
 * A client sends an operation with its number until an answer comes. Nodes apply a
 * number once. All that clients asked for and heard is a history, which has to be
 * linearizable: uhistory.h. Also, two of the paper's properties are checked where
 * they can break: a term has one leader, and an index has one committed entry.
 *
 * RAFT_BUG in the environment plants an error, as people have made it:
 *
 *	1	a vote is not synced before it is given
 *	2	entries are acknowledged before they are synced
 *	3	entries of older terms are committed by counting, so a new leader
 *		adds no entry of its own: figure 8 of the paper
 *
 *	RAFT_BUG=1 ./raft --seeds 2000
 */

#include <usched/uhistory.h>
#include <usched/usim.h>
#include <usched/usync.h>
#include <usched/uthread.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum {
	NODES = 3, CLIENTS = 3, KEYS = 3,
	PORT = 7000,
	ENTRIES = 2000,		/* of a log, at most */
	BATCH = 8,		/* entries of a message */
	TERMS = 10000,
	SLOT = 512,		/* bytes of a copy of term and vote */
	HEARTBEAT = 40, PATIENCE = 100, ELECTION = 200	/* ms */
};

enum role { FOLLOWER, CANDIDATE, LEADER };
enum what { VOTE, APPEND, CALL };

struct entry {
	uint32_t term;
	uint16_t client, kind;		/* kind: of uhistory.h */
	uint32_t number;		/* of the client's operation */
	uint32_t key, a, b;
	uint32_t check;			/* of all records up to this */
};

/* A question, and, with the same head, its answer. */
struct message {
	uint32_t     what, from, term;
	uint32_t     index;		/* of the last entry; of that before */
	uint32_t     index_term;
	uint32_t     commit;
	uint32_t     nr;		/* entries */
	uint32_t     ok;		/* of an answer */
	uint32_t     result;
	struct entry entries[BATCH];
};

struct node {
	uint32_t      me;
	enum role     role;
	uint32_t      term, vote;
	uint32_t      votes;
	uint32_t      length, commit, applied;	/* entries are 1 to length */
	utime_ns      heard;		/* from a leader or a candidate */
	uint32_t      next[NODES + 1], match[NODES + 1];
	int           log, votes_file;
	uint32_t      slot;
	struct umutex lock;		/* also while it waits for the disk */
	struct ucond  changed;		/* role, term, length or commit */
	uint32_t      registers[KEYS];
	uint32_t      last[CLIENTS + 1], result[CLIENTS + 1];
	struct entry  entries[ENTRIES];
};

struct peer {
	struct node *node;
	uint32_t     number;
};

/* What is known to the test alone: shared by all hosts of a run. */
static uint32_t leader_of[TERMS];
static struct entry committed[ENTRIES];
static struct uhistory *history;
static int clients_left;

static int bug;		/* by RAFT_BUG */

/* The disk. */

static void must(int ok, const char *what)
{
	if (ok)
		return;
	usim_sometimes(1, "a node ends by an error of its disk");
	usim_log("%s", what);
	exit(1);
}

static uint32_t check_of(const struct entry *e, uint32_t before)
{
	const unsigned char *at = (const unsigned char *)e;
	uint32_t sum = before ^ 2166136261u;
	size_t i;

	for (i = 0; i < offsetof(struct entry, check); i++)
		sum = (sum ^ at[i]) * 16777619u;
	return sum;
}

/* Two copies in turn, so that a torn write leaves the other. */
static void save_vote(struct node *n, int sync)
{
	struct entry e = { .term = n->term, .number = n->vote, .key = ++n->slot };

	e.check = check_of(&e, 0);
	must(pwrite(n->votes_file, &e, sizeof e, n->slot % 2 * SLOT) ==
	     (ssize_t)sizeof e, "the vote cannot be written");
	if (sync)
		must(fsync(n->votes_file) == 0, "the vote cannot be synced");
}

/*
 * Writes the entries from this on, and then cuts the file behind them. The other
 * way round, a full disk would take the entries that are written again.
 */
static void save_entries(struct node *n, uint32_t from, int sync)
{
	size_t size = (n->length + 1 - from) * sizeof *n->entries;
	uint32_t i;

	for (i = from; i <= n->length; i++)
		n->entries[i].check = check_of(&n->entries[i],
					       n->entries[i - 1].check);
	must(pwrite(n->log, &n->entries[from], size,
		    from * (off_t)sizeof *n->entries) == (ssize_t)size &&
	     ftruncate(n->log, (n->length + 1) *
		       (off_t)sizeof *n->entries) == 0,
	     "the log cannot be written");
	if (sync)
		must(fsync(n->log) == 0, "the log cannot be synced");
}

static int file(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT, 0644);

	must(fd >= 0, name);
	return fd;
}

static void load(struct node *n)
{
	struct entry e;
	int folder, i;

	n->votes_file = file("votes");
	n->log = file("log");
	folder = open(".", O_RDONLY | O_DIRECTORY);
	must(folder >= 0 && fsync(folder) == 0 && close(folder) == 0, "folder");
	for (i = 0; i < 2; i++)
		if (pread(n->votes_file, &e, sizeof e, i * SLOT) ==
		    (ssize_t)sizeof e && e.check == check_of(&e, 0) &&
		    e.key > n->slot) {
			n->term = e.term;
			n->vote = e.number;
			n->slot = e.key;
		}
	while (n->length + 1 < ENTRIES &&
	       pread(n->log, &e, sizeof e, (n->length + 1) *
		     (off_t)sizeof e) == (ssize_t)sizeof e &&
	       e.check == check_of(&e, n->entries[n->length].check))
		n->entries[++n->length] = e;
	/* What was read may be in memory only, if a sync has failed. */
	save_vote(n, 1);
	save_entries(n, 1, 1);
	usim_log("has term %u, vote %u, %u entries", n->term, n->vote, n->length);
}

/* The state of a node. The lock is held. */

static void lock(struct node *n)
{
	if (umutex_lock(&n->lock, UNEVER) != 0)
		usim_fail("no lock");
}

/* Waits for a change, with the lock released meanwhile. Returns whether it came. */
static int change_wait(struct node *n, utime_ns until)
{
	return ucond_wait(&n->changed, &n->lock, until) == 0;
}

static void term_set(struct node *n, uint32_t term)
{
	n->term = term;
	n->vote = 0;
	n->role = FOLLOWER;
	ucond_broadcast(&n->changed);
}

/* Takes a higher term of a message, and stores it. */
static void term_see(struct node *n, uint32_t term)
{
	if (term <= n->term)
		return;
	term_set(n, term);
	save_vote(n, 1);
}

static void apply(struct node *n, const struct entry *e)
{
	uint32_t *value = &n->registers[e->key], before = *value;

	if (e->number <= n->last[e->client])
		return;				/* it came twice */
	if (e->kind == UHISTORY_WRITE ||
	    (e->kind == UHISTORY_SWAP && before == e->b))
		*value = e->a;
	n->last[e->client] = e->number;
	n->result[e->client] = e->kind == UHISTORY_SWAP ? before == e->b : before;
}

static void commit_to(struct node *n, uint32_t to)
{
	for (; n->commit < to && n->commit < n->length; ucond_broadcast(&n->changed)) {
		const struct entry *e = &n->entries[++n->commit];
		struct entry *known = &committed[n->commit];

		if (known->term == 0)
			*known = *e;
		if (memcmp(known, e, sizeof *e) != 0)
			usim_fail("entry %u of term %u is committed, and was of "
				  "term %u", n->commit, e->term, known->term);
		apply(n, e);
	}
}

static void commit_count(struct node *n)
{
	uint32_t i, peer, have;

	for (i = n->length; i > n->commit; i--) {
		for (have = 1, peer = 1; peer <= NODES; peer++)
			have += peer != n->me && n->match[peer] >= i;
		if (have > NODES / 2 &&
		    (n->entries[i].term == n->term || bug == 3)) {
			commit_to(n, i);
			return;
		}
	}
}

static void append(struct node *n, const struct entry *e)
{
	if (n->length + 1 == ENTRIES)
		usim_fail("the log is too long for this test");
	n->entries[++n->length] = *e;
	n->entries[n->length].term = n->term;
	save_entries(n, n->length, bug != 2);
	ucond_broadcast(&n->changed);
}

static void lead(struct node *n)
{
	uint32_t peer;

	usim_log("leads term %u, %u entries", n->term, n->length);
	if (n->term < TERMS && leader_of[n->term] != 0)
		usim_fail("term %u has two leaders", n->term);
	if (n->term < TERMS)
		leader_of[n->term] = n->me;
	n->role = LEADER;
	for (peer = 1; peer <= NODES; peer++) {
		n->next[peer] = n->length + 1;
		n->match[peer] = 0;
	}
	/* An entry of the new term commits those before it. */
	if (bug != 3)
		append(n, &(struct entry) { .client = 0 });
	ucond_broadcast(&n->changed);
}

/* Questions of others. The lock is held. */

static void on_vote(struct node *n, struct message *m)
{
	const struct entry *last = &n->entries[n->length];
	int is_new = m->term > n->term;

	if (is_new)
		term_set(n, m->term);
	m->ok = m->term == n->term && (n->vote == 0 || n->vote == m->from) &&
		(m->index_term > last->term ||
		 (m->index_term == last->term && m->index >= n->length));
	if (m->ok) {
		n->vote = m->from;
		n->heard = unow();
	}
	if (m->ok || is_new)
		save_vote(n, bug != 1);
	m->term = n->term;
}

/* Puts the entries of m behind that before them, where they differ. */
static void entries_take(struct node *n, const struct message *m)
{
	uint32_t i, at, first = 0;

	for (i = 0; i < m->nr; i++) {
		at = m->index + 1 + i;
		if (at <= n->length && n->entries[at].term == m->entries[i].term)
			continue;
		usim_sometimes(at <= n->length, "entries are replaced");
		n->entries[at] = m->entries[i];
		n->length = at;
		first = first == 0 ? at : first;
	}
	if (first > 0)
		save_entries(n, first, bug != 2);
}

static void on_append(struct node *n, struct message *m)
{
	term_see(n, m->term);
	m->ok = 0;
	if (m->term == n->term) {
		n->heard = unow();
		n->role = FOLLOWER;
		m->ok = m->index <= n->length &&
			n->entries[m->index].term == m->index_term;
		if (m->ok) {
			entries_take(n, m);
			m->index += m->nr;
			commit_to(n, m->commit < m->index ? m->commit : m->index);
		} else if (m->index > n->length) {
			m->index = n->length + 1;
		}
	}
	m->term = n->term;
	m->nr = 0;
}

/* Appends a client's operation, unless it came before. */
static void entry_take(struct node *n, const struct entry *e)
{
	uint32_t i;

	for (i = n->length; i > n->commit; i--)
		if (n->entries[i].client == e->client &&
		    n->entries[i].number == e->number)
			return;
	append(n, e);
}

static void on_call(struct node *n, struct message *m)
{
	const struct entry *e = &m->entries[0];
	utime_ns until = uafter(500 * UTIME_MS);
	uint32_t term = n->term;
	int waits = 1;

	m->ok = 0;
	if (n->role == LEADER && n->last[e->client] < e->number) {
		entry_take(n, e);
		while (waits && n->role == LEADER && n->term == term &&
		       n->last[e->client] < e->number)
			waits = change_wait(n, until);
	}
	m->ok = n->role == LEADER && n->last[e->client] == e->number;
	m->result = n->result[e->client];
	m->nr = 0;
}

/* Connections. */

static size_t size_of(const struct message *m)
{
	return offsetof(struct message, entries) + m->nr * sizeof *m->entries;
}

static int receive(int fd, void *to, size_t size)
{
	return size == 0 || recv(fd, to, size, MSG_WAITALL) == (ssize_t)size;
}

/* Reads a message. Returns whether all of it has come. */
static int message_get(int fd, struct message *m)
{
	return receive(fd, m, offsetof(struct message, entries)) &&
		m->nr <= BATCH && receive(fd, m->entries,
					  m->nr * sizeof *m->entries);
}

static int message_put(int fd, const struct message *m)
{
	return write(fd, m, size_of(m)) == (ssize_t)size_of(m);
}

static void patience(int fd, int ms)
{
	struct timeval t = { ms / 1000, ms % 1000 * 1000 };

	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t) != 0)
		usim_fail("no time-out");
}

/* Connects to a node, by its address. -1: it does not answer. */
static int dial(uint32_t number, int ms)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	at.sin_addr.s_addr = htonl(0x0a000000 + number);
	patience(fd, ms);
	if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Asks, and waits for the answer. Returns whether it has come. */
static int ask(int *fd, uint32_t number, struct message *m, int ms)
{
	if (*fd < 0)
		*fd = dial(number, ms);
	if (*fd >= 0 && message_put(*fd, m) && message_get(*fd, m))
		return 1;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return 0;
}

struct connection {
	struct node *node;
	int          fd;
};

static void *serve(void *arg)
{
	struct connection c = *(struct connection *)arg;
	struct message m;

	free(arg);
	patience(c.fd, 10000);
	while (message_get(c.fd, &m)) {
		lock(c.node);
		if (m.what == VOTE)
			on_vote(c.node, &m);
		else if (m.what == APPEND)
			on_append(c.node, &m);
		else
			on_call(c.node, &m);
		umutex_unlock(&c.node->lock);
		if (!message_put(c.fd, &m))
			break;
	}
	close(c.fd);
	return NULL;
}

/* The thread of a peer. */

static void entries_give(struct node *n, uint32_t peer, struct message *m)
{
	m->index = n->next[peer] - 1;
	m->index_term = n->entries[m->index].term;
	m->commit = n->commit;
	while (m->nr < BATCH && m->index + m->nr < n->length) {
		m->entries[m->nr] = n->entries[m->index + 1 + m->nr];
		m->nr++;
	}
}

/* An answer, for the role and term in which was asked. */
static void answered(struct node *n, uint32_t peer, const struct message *m)
{
	if (m->what == VOTE) {
		n->votes += m->ok;
		if (m->ok && n->votes == NODES / 2 + 1)
			lead(n);
	} else if (m->ok) {
		n->match[peer] = m->index;
		n->next[peer] = m->index + 1;
		commit_count(n);
	} else {
		n->next[peer] = m->index > 1 ? m->index : 1;
	}
}

/* Asks once, with the lock released meanwhile. Returns whether an answer has come. */
static int peer_ask(struct node *n, uint32_t peer, int *fd)
{
	struct message m = { .from = n->me, .term = n->term };
	enum role role = n->role;
	int came;

	m.what = role == LEADER ? APPEND : VOTE;
	if (role == LEADER) {
		entries_give(n, peer, &m);
	} else {
		m.index = n->length;
		m.index_term = n->entries[n->length].term;
	}
	umutex_unlock(&n->lock);
	came = ask(fd, peer, &m, PATIENCE);
	lock(n);
	if (!came)
		return 0;
	if (m.term > n->term)
		term_see(n, m.term);
	else if (m.term == n->term && n->role == role)
		answered(n, peer, &m);
	return 1;
}

static void *peer_run(void *arg)
{
	struct peer p = *(struct peer *)arg;
	struct node *n = p.node;
	uint32_t asked = 0;	/* the term in which a vote was answered */
	int fd = -1;

	free(arg);
	for (lock(n); ; ) {
		if (n->role == LEADER) {
			(void)peer_ask(n, p.number, &fd);
			if (n->role == LEADER && n->next[p.number] > n->length)
				change_wait(n, uafter(HEARTBEAT * UTIME_MS));
		} else if (n->role == CANDIDATE && asked != n->term) {
			uint32_t term = n->term;

			if (peer_ask(n, p.number, &fd))
				asked = term;
			else if (n->role == CANDIDATE)
				change_wait(n, uafter(5 * UTIME_MS));
		} else {
			change_wait(n, UNEVER);
		}
	}
	return NULL;
}

static void *clock_run(void *arg)
{
	struct node *n = arg;
	utime_ns wait;

	for (;;) {
		wait = (ELECTION + (utime_ns)usim_random(ELECTION)) * UTIME_MS;
		lock(n);
		while (n->role == LEADER || n->heard + wait > unow()) {
			utime_ns until = n->role == LEADER ? uafter(wait) :
				n->heard + wait;

			umutex_unlock(&n->lock);
			(void)u_sleep(until);
			lock(n);
		}
		term_set(n, n->term + 1);
		n->role = CANDIDATE;
		n->vote = n->me;
		n->votes = 1;
		n->heard = unow();
		save_vote(n, 1);
		umutex_unlock(&n->lock);
	}
	return NULL;
}

static void start(void *(*f)(void *), const void *arg, size_t size)
{
	void *copy = malloc(size);

	if (copy == NULL || uthread_make(NULL, f, memcpy(copy, arg, size), "") != 0)
		usim_fail("no thread");
}

static int node(void *unused)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct node *n = calloc(1, sizeof *n);
	struct connection c = { n, -1 };
	struct peer p = { n, 1 };
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	(void)unused;
	n->me = (uint32_t)usim_self();
	load(n);
	n->heard = unow();
	if (bind(listener, (struct sockaddr *)&at, sizeof at) != 0 ||
	    listen(listener, 16) != 0)
		usim_fail("no port");
	for (; p.number <= NODES; p.number++)
		if (p.number != n->me)
			start(peer_run, &p, sizeof p);
	if (uthread_make(NULL, clock_run, n, "clock") != 0)
		usim_fail("no thread");
	while ((c.fd = accept(listener, NULL, NULL)) >= 0)
		start(serve, &c, sizeof c);
	return 1;
}

/* Clients. */

static void operation_draw(struct entry *e)
{
	static uint32_t values;

	e->number++;
	e->kind = (uint16_t)usim_random(3);	/* read, write, swap */
	e->key = usim_random(KEYS);
	e->a = e->kind == UHISTORY_READ ? 0 : ++values;
	e->b = e->kind == UHISTORY_SWAP ? usim_random(values + 1) : 0;
}

static int client(void *unused)
{
	struct entry e = { .client = (uint16_t)(usim_self() - NODES) };
	utime_ns end = 22 * UTIME_S;
	struct message m;
	int fd = -1;
	char why[400];
	uint32_t leader = 1;
	long op;

	(void)unused;
	while (usim_time() < end) {
		operation_draw(&e);
		op = uhistory_call(history, (enum uhistory_kind)e.kind, e.key,
				   e.a, e.b);
		for (;;) {
			m = (struct message) { .what = CALL, .nr = 1,
					       .entries = { e } };
			if (ask(&fd, leader, &m, 800) && m.ok)
				break;
			leader = leader % NODES + 1;
			if (fd >= 0)
				close(fd);
			fd = -1;
			usleep(20000);
		}
		uhistory_return(history, op, m.result);
		usleep(usim_random(200000));
	}
	if (--clients_left == 0 &&
	    uhistory_check(history, why, sizeof why) != 0)
		usim_fail("%s", why);
	return 0;
}

static void setup(struct usim_world *w)
{
	static const char *const names[] = { "a", "b", "c", "x", "y", "z" };
	int i;

	w->w_run = 20 * UTIME_S;
	w->w_faults = 40;
	w->w_core = 2;
	bug = getenv("RAFT_BUG") != NULL ? atoi(getenv("RAFT_BUG")) : 0;
	history = uhistory_make();
	clients_left = CLIENTS;
	for (i = 0; i < NODES; i++)
		usim_host(names[i], node, NULL);
	for (i = 0; i < CLIENTS; i++)
		usim_client(names[NODES + i], client, NULL);
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);	/* a connection may be gone: write() says so */
	return usim_main(argc, argv, setup);
}
