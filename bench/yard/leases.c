/* leases.c: a primary that answers reads alone, by a lease. LEASES_BUG=n plants an error. */

/*
 * Three nodes, n1 to n3, each grant leases, and each would like to have one. A node that has
 * grants of two nodes is the primary until its lease ends. It has a copy of all values, and
 * answers reads from that without asking anyone: this is what the lease is for. Writes and swaps
 * go through the primary to the store, a host with a disk, which has the truth.
 *
 * A lease is measured by the monotonic clocks of both sides, never by a time that is sent. Who
 * grants counts GRANT_MS from the time it has stored the grant. Who holds counts HOLD_MS from the
 * time it has asked. Clocks are wrong by 6.6 percent at most, so 1000 is over before 1200.
 * A node stores a grant before it says so. After a boot it acts as if the grant were of now.
 *
 * A lease has a token, higher than all before, as two nodes of three have stored the last one.
 * The store refuses writes with a token below the highest that it has heard of, so a primary
 * does not look at the clock for writes. A new primary loads all values by its token, which stops
 * writes of the old. After three seconds a primary gives its lease back, to share the load.
 * The store knows the last call of each client, and does nothing twice.
 *
 * Clients read, write and swap. They note all in a history, which must be linearizable.
 *
 *	1	the holder judges its lease by the wall clock
 *	2	the holder looks at its lease at each tick only, so after a pause it still answers
 *	3	the holder counts from the time a grant comes, not from the time it has asked
 *	4	after a boot a node takes its stored grant for over
 *	5	the store knows a call again only if it is the very last of its client
 *	6	the store does not look at tokens of writes
 *	7	a grant is sent before it is synced
 *	8	after a boot the store does not know the last calls
 *	9	a node that is primary again keeps its copy of the last time
 *	10	a write is answered when it is sent to the store
 */

#include "yard.h"

enum { N1 = 1, NODES = 3, STORE, C1, CLIENTS = 4, HOSTS = C1 + CLIENTS - 1 };
enum { KEYS = 3, OPS = 70, REST_MS = 350 };
enum { GRANT_MS = 1200, HOLD_MS = 1000, RENEW_MS = 300, ASK_MS = 200, TICK_MS = 50 };
enum { TENURE_MS = 3000, PATIENCE_MS = 300 };
enum { ASK = 1, GRANTED, DENIED, RELEASE, CALL, ANSWER, NOT_ME, APPLY, APPLIED, REFUSED,
       LOAD, LOADED };
enum { READ, WRITE, SWAP };
enum { REC_GRANT = 1, REC_TOKEN, REC_APPLY };
enum state { IDLE, ASKING, HOLDING };

static const char *const names[] = { "", "n1", "n2", "n3", "store", "c1", "c2", "c3",
				     "c4" };
static int bug;
static struct uhistory *history;
static int clients_done;

/* A node. */
struct node {
	struct net n;
	struct log log;
	/* What it grants. */
	int64_t g_token, g_until;
	int g_holder;
	/* What it holds. */
	enum state state;
	int64_t token, highest;		/* its own, and of all that it has heard of */
	int64_t round, asked, until, next, since;
	unsigned granted;		/* a bit for each node */
	int loaded, once_loaded;
	int64_t values[KEYS], versions[KEYS];
};

static void node_take(struct node *s, struct msg *m);

static void node_post(struct node *s, int to, struct msg *m)
{
	if (to != s->n.n_self) {
		net_post(&s->n, to, m);
		return;
	}
	m->m_from = to;
	node_take(s, m);
}

static int64_t holder_ms(void)
{
	return bug == 1 ? clock_ms(CLOCK_REALTIME) : now_ms();
}

/* Grants, or does not. Who has the lease may have it longer, or again. */
static void grant(struct node *s, const struct msg *m)
{
	struct msg a = { .m_kind = GRANTED, .m_term = m->m_term, .m_nr = m->m_nr };
	struct rec r = { .r_kind = REC_GRANT, .r_id = m->m_term, .r_v = { m->m_from } };
	int mine = s->g_holder == m->m_from;

	usim_sometimes(s->g_holder != 0 && !mine && now_ms() >= s->g_until,
		       "a grant to another has run out");
	if (!mine || m->m_term != s->g_token) {
		if (m->m_term <= s->g_token ||
		    (s->g_holder != 0 && !mine && now_ms() < s->g_until)) {
			a.m_kind = DENIED;
			a.m_term = s->g_token;
			node_post(s, m->m_from, &a);
			return;
		}
		if (log_add(&s->log, &r, bug != 7) != 0)
			die("the disk fails");
		s->g_token = m->m_term;
		s->g_holder = m->m_from;
	}
	s->g_until = now_ms() + GRANT_MS;
	node_post(s, m->m_from, &a);
}

static void release(struct node *s, const struct msg *m)
{
	if (s->g_holder == m->m_from && s->g_token == m->m_term) {
		usim_sometimes(1, "a grant is given back");
		s->g_holder = 0;
	}
}

/* Asks all nodes, itself first: so its own disk has the token before others hear it. */
static void ask_all(struct node *s)
{
	struct msg m = { .m_kind = ASK };
	int i;

	s->round++;
	s->granted = 0;
	s->asked = holder_ms();
	for (i = 0; i < NODES; i++) {
		m.m_kind = ASK;
		m.m_term = s->token;
		m.m_nr = s->round;
		node_post(s, N1 + (s->n.n_self - N1 + i) % NODES, &m);
	}
}

static void load(struct node *s)
{
	struct msg m = { .m_kind = LOAD, .m_term = s->token };

	net_post(&s->n, STORE, &m);
}

static void step_down(struct node *s)
{
	usim_log("is no longer primary by %lld", (long long)s->token);
	s->state = IDLE;
	s->next = now_ms() + 100 + usim_random(1000);
}

/* Says whether the caller is the primary now. */
static int holds(struct node *s)
{
	if (s->state == HOLDING && holder_ms() >= s->until) {
		usim_sometimes(1, "a lease ends while its holder lives");
		step_down(s);
	}
	return s->state == HOLDING;
}

static void granted(struct node *s, const struct msg *m)
{
	if (s->state == IDLE || m->m_term != s->token || m->m_nr != s->round)
		return;
	s->granted |= 1u << m->m_from;
	if (__builtin_popcount(s->granted) < 2)
		return;
	s->until = (bug == 3 ? holder_ms() : s->asked) + HOLD_MS;
	if (s->state == HOLDING)
		return;
	s->state = HOLDING;
	s->since = now_ms();
	s->loaded = bug == 9 && s->once_loaded;
	usim_log("is primary by %lld", (long long)s->token);
	load(s);
}

static void give_up(struct node *s)
{
	struct msg m;
	int i;

	for (i = N1; i < N1 + NODES; i++) {
		m = (struct msg){ .m_kind = RELEASE, .m_term = s->token };
		node_post(s, i, &m);
	}
	s->state = IDLE;
	s->next = now_ms() + 100 + usim_random(1000);
}

static void try_to_hold(struct node *s)
{
	if (s->g_holder != 0 && s->g_holder != s->n.n_self && now_ms() < s->g_until)
		return;
	if (s->highest < s->g_token)
		s->highest = s->g_token;
	s->token = ++s->highest;
	s->state = ASKING;
	ask_all(s);
}

static void node_tick(struct node *s)
{
	if (holds(s) && now_ms() >= s->since + TENURE_MS) {
		step_down(s);
		give_up(s);
	} else if (holds(s)) {
		if (holder_ms() >= s->asked + RENEW_MS)
			ask_all(s);
		if (s->state == HOLDING && !s->loaded)
			load(s);
	} else if (s->state == ASKING) {
		if (holder_ms() >= s->asked + ASK_MS)
			give_up(s);
	} else if (now_ms() >= s->next) {
		try_to_hold(s);
	}
}

static void answer(struct node *s, const struct msg *m, int kind, int64_t result)
{
	struct msg a = { .m_kind = kind, .m_seq = m->m_seq, .m_result = result };

	net_post(&s->n, m->m_client, &a);
}

/* Answers a read by the copy, and sends anything else to the store. */
static void serve(struct node *s, struct msg *m)
{
	if (s->state != HOLDING || !s->loaded) {
		answer(s, m, NOT_ME, 0);
	} else if (m->m_op != READ) {
		m->m_kind = APPLY;
		m->m_term = s->token;
		net_post(&s->n, STORE, m);
		if (bug == 10 && m->m_op == WRITE)
			answer(s, m, ANSWER, 0);
	} else if (bug == 2 || holds(s)) {
		usim_log("answers c%d: key %lld is %lld", m->m_client - C1 + 1,
			 (long long)m->m_key, (long long)s->values[m->m_key]);
		answer(s, m, ANSWER, s->values[m->m_key]);
	} else {
		answer(s, m, NOT_ME, 0);
	}
}

/* Answers of the store may come in another order, so versions say which is newer. */
static void applied(struct node *s, const struct msg *m)
{
	usim_sometimes(s->token != m->m_term, "a write of an older token is answered");
	if (s->state == HOLDING && s->token == m->m_term && s->loaded &&
	    s->versions[m->m_key] < m->m_nr) {
		s->values[m->m_key] = m->m_value;
		s->versions[m->m_key] = m->m_nr;
	}
	answer(s, m, ANSWER, m->m_result);
}

static void loaded(struct node *s, const struct msg *m)
{
	if (s->state != HOLDING || m->m_term != s->token || s->loaded)
		return;
	memcpy(s->values, m->m_values, sizeof s->values);
	memcpy(s->versions, m->m_versions, sizeof s->versions);
	s->loaded = s->once_loaded = 1;
}

static void refused(struct node *s, const struct msg *m)
{
	usim_sometimes(1, "the store refuses a token");
	if (s->highest < m->m_nr)
		s->highest = m->m_nr;
	if (s->state == HOLDING && s->token == m->m_term)
		step_down(s);
}

static void node_take(struct node *s, struct msg *m)
{
	switch (m->m_kind) {
	case ASK:	grant(s, m); break;
	case RELEASE:	release(s, m); break;
	case GRANTED:	granted(s, m); break;
	case DENIED:
		if (s->highest < m->m_term)
			s->highest = m->m_term;
		break;
	case CALL:	serve(s, m); break;
	case APPLIED:	applied(s, m); break;
	case REFUSED:	refused(s, m); break;
	case LOADED:	loaded(s, m); break;
	}
}

/* The last record of the log is the grant. A tick comes when no message waits. */
static int node(void *unused)
{
	struct node *s = calloc(1, sizeof *s);
	struct msg m;
	int64_t tick;

	(void)unused;
	net_open(&s->n, names, HOSTS, 1);
	log_open(&s->log, "grants");
	if (s->log.l_nr > 0) {
		s->g_token = s->log.l_recs[s->log.l_nr - 1].r_id;
		s->g_holder = (int)s->log.l_recs[s->log.l_nr - 1].r_v[0];
		s->g_until = now_ms() + (bug == 4 ? 0 : GRANT_MS);
		usim_sometimes(1, "a node boots with a grant on its disk");
	}
	s->next = now_ms() + usim_random(500);
	tick = now_ms() + TICK_MS;
	for (;;) {
		if (net_next(&s->n, &m, tick)) {
			node_take(s, &m);
		} else {
			node_tick(s);
			tick = now_ms() + TICK_MS;
		}
	}
	return 1;
}

/* The store. */
struct store {
	struct net n;
	struct log log;
	int64_t token;
	int64_t values[KEYS], versions[KEYS];
	int64_t seqs[CLIENTS], results[CLIENTS];
};

/* Does what a record says. */
static void store_redo(struct store *s, const struct rec *r, int boot)
{
	const int64_t *v = r->r_v;

	if (r->r_kind == REC_TOKEN) {
		s->token = r->r_id;
		return;
	}
	s->values[v[2]] = v[3];
	s->versions[v[2]] = v[4];
	if (boot && bug == 8)
		return;
	s->seqs[v[0]] = v[1];
	s->results[v[0]] = v[5];
}

/* Stores a token that is higher. 0: the token is too low. */
static int store_token(struct store *s, int64_t token)
{
	struct rec r = { .r_kind = REC_TOKEN, .r_id = token };

	if (token < s->token)
		return 0;
	if (token > s->token)
		log_must(&s->log, &r);
	s->token = token;
	return 1;
}

/* Does what a call says, once. */
static void store_apply(struct store *s, const struct msg *m)
{
	int c = m->m_client - C1;
	int64_t old = s->values[m->m_key];
	int done = m->m_op == WRITE || old == m->m_old;
	struct rec r = { .r_kind = REC_APPLY, .r_id = m->m_term, .r_v = { c, m->m_seq, m->m_key,
			 done ? m->m_value : old, s->versions[m->m_key] + 1,
			 m->m_op == SWAP && done } };

	if (bug == 5 ? m->m_seq == s->seqs[c] : m->m_seq <= s->seqs[c]) {
		usim_sometimes(1, "the store knows a call already");
		return;
	}
	log_must(&s->log, &r);
	store_redo(s, &r, 0);
	usim_log("key %lld is %lld", (long long)m->m_key, (long long)s->values[m->m_key]);
}

static void store_take(struct store *s, struct msg *m)
{
	int to = m->m_from, c = m->m_client - C1;

	if (!(bug == 6 && m->m_kind == APPLY) && !store_token(s, m->m_term)) {
		m->m_kind = REFUSED;
		m->m_nr = s->token;
	} else if (m->m_kind == LOAD) {
		m->m_kind = LOADED;
		memcpy(m->m_values, s->values, sizeof s->values);
		memcpy(m->m_versions, s->versions, sizeof s->versions);
	} else {
		store_apply(s, m);
		if (m->m_seq != s->seqs[c])
			return;
		m->m_kind = APPLIED;
		m->m_result = s->results[c];
		m->m_value = s->values[m->m_key];
		m->m_nr = s->versions[m->m_key];
	}
	net_post(&s->n, to, m);
}

static int store(void *unused)
{
	struct store *s = calloc(1, sizeof *s);
	struct msg m;
	int i;

	(void)unused;
	net_open(&s->n, names, HOSTS, 1);
	log_open(&s->log, "store");
	for (i = 0; i < s->log.l_nr; i++)
		store_redo(s, &s->log.l_recs[i], 1);
	for (;;)
		if (net_next(&s->n, &m, now_ms() + 10000))
			store_take(s, &m);
	return 1;
}

/* Asks nodes until one has answered. The first is any, since clients keep no list. */
static int64_t call(struct net *n, struct msg *m)
{
	int to = (int)usim_random(NODES);
	struct msg q, a;
	int64_t until;

	for (;;) {
		q = *m;
		net_post(n, N1 + to, &q);
		until = now_ms() + PATIENCE_MS;
		while (net_next(n, &a, until)) {
			if (a.m_seq != m->m_seq)
				continue;
			if (a.m_kind == ANSWER)
				return a.m_result;
			sleep_ms(50);
			break;
		}
		to = (to + 1) % NODES;
	}
}

static void one_call(struct net *n, int seq, int64_t *last)
{
	struct msg m = { .m_kind = CALL, .m_client = n->n_self, .m_seq = seq };
	int64_t result;
	long op;

	m.m_op = usim_random(2) ? READ : usim_random(3) ? WRITE : SWAP;
	m.m_key = usim_random(KEYS);
	m.m_value = m.m_op == READ ? 0 : n->n_self * 1000 + seq;
	m.m_old = last[m.m_key];
	op = uhistory_call(history, m.m_op == READ ? UHISTORY_READ : m.m_op == WRITE ?
			   UHISTORY_WRITE : UHISTORY_SWAP, (uint64_t)m.m_key,
			   (uint64_t)m.m_value, (uint64_t)m.m_old);
	result = call(n, &m);
	uhistory_return(history, op, (uint64_t)result);
	usim_log("%s of key %lld: %lld, %lld", m.m_op == READ ? "read" : m.m_op == WRITE ?
		 "write" : "swap", (long long)m.m_key, (long long)m.m_value, (long long)result);
	if (m.m_op == READ)
		last[m.m_key] = result;
	else if (m.m_op == WRITE || result == 1)
		last[m.m_key] = m.m_value;
}

static int client(void *unused)
{
	struct net *n = calloc(1, sizeof *n);
	int64_t last[KEYS] = { 0 };
	int seq;
	char why[200];

	(void)unused;
	net_open(n, names, HOSTS, 1);
	for (seq = 1; seq <= OPS; seq++) {
		one_call(n, seq, last);
		sleep_ms((int)usim_random(REST_MS));
	}
	if (++clients_done == CLIENTS && uhistory_check(history, why, sizeof why) != 0)
		usim_fail("%s", why);
	return 0;
}

static void setup(struct usim_world *w)
{
	int i;

	w->w_run = 12 * UTIME_S;
	history = uhistory_make();
	for (i = N1; i < N1 + NODES; i++)
		usim_host(names[i], node, NULL);
	usim_host(names[STORE], store, NULL);
	for (i = C1; i < C1 + CLIENTS; i++)
		usim_client(names[i], client, NULL);
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	bug = bug_of("LEASES_BUG");
	return usim_main(argc, argv, setup);
}
