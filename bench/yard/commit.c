/* commit.c: transfers between accounts by two-phase commit. COMMIT_BUG=n plants an error. */

/*
 * Three participants have three accounts each. A transfer takes from an account of one and gives
 * to an account of another. A coordinator makes it whole: it asks both to prepare. A participant
 * that can do its half locks the account, stores a promise, and votes yes. It may not forget the
 * promise then, whatever comes. If both have voted yes, the coordinator stores that the
 * transaction is committed: this is the moment. It answers the client, and tells the participants
 * until both have said that they stored it. Then it stores an end, and may forget.
 * Otherwise it aborts, and stores nothing: what the coordinator does not know is aborted.
 *
 * A participant with a promise asks for the outcome until it knows. After a boot it locks the
 * accounts of all promises again. The coordinator goes on with what has no end. Numbers of
 * transactions are new after each boot, by an epoch that is stored first.
 *
 * An audit locks all accounts and adds them up. Locks for reading are not stored, so a second
 * round asks whether they are still held. A call has a number, and each time it is sent another
 * number of the try, so no answer to an old try is believed. The coordinator knows the last
 * call of each client that was committed, and does not take an older try after a newer one.
 *
 * Clients check that the sum is always the same and that no account is below 0. The last one
 * checks that each account has exactly what the answers said.
 *
 *	1	a participant that hears no outcome for a second aborts by itself
 *	2	the record of a commit is not synced
 *	3	the sum of a record is of its head only, so a torn one is taken for whole
 *	4	numbers go on from the highest that was committed, so after a boot some come again
 *	5	accounts of promises are not locked again after a boot
 *	6	a participant whose sync of a promise fails votes no, and goes on with its log
 *	7	an old try is taken, too, unless it is the last call that was committed
 *	8	a boot writes its log in place
 *	9	a transaction has its end when the first participant has stored it
 *	10	after a boot the coordinator does not know the last calls
 */

#include "yard.h"

enum { COORD = 1, P1, PARTS = 3, C1 = P1 + PARTS, CLIENTS = 4, HOSTS = C1 + CLIENTS - 1 };
enum { EACH = 3, ACCOUNTS = PARTS * EACH, START = 100, OPS = 60, REST_MS = 350 };
enum { VOTE_MS = 400, ASK_MS = 500, ALONE_MS = 1000, TICK_MS = 100, PATIENCE_MS = 700 };
enum { TRANSFER = 1, AUDIT, ANSWER, PREPARE, VOTE, COMMIT, ABORT, ACK, OUTCOME, READ_LOCK,
       BALANCES, HOLD, HELD };
enum { REC_EPOCH = 1, REC_COMMIT, REC_END, REC_PROMISE, REC_DONE };
enum { ACTIVE = 20, EPOCH = 1000000 };
enum phase { FREE, VOTING, HOLDING, COMMITTED };

static const char *const names[] = { "", "coord", "p1", "p2", "p3", "c1", "c2", "c3", "c4" };
static int bug;
static int64_t model[ACCOUNTS];
static int clients_done;

static int part_of(int64_t account)
{
	return P1 + (int)account / EACH;
}

/* A transaction at the coordinator. Sets of participants have a bit for each. */
struct tx {
	enum phase phase;
	int64_t tid, since;
	struct msg call;
	unsigned parts, yes;		/* who takes part, and who has said what is waited for */
	int64_t values[ACCOUNTS];	/* of an audit */
};

struct coord {
	struct net n;
	struct log log;
	int64_t tid;			/* the last number */
	int64_t committed[CLIENTS];	/* the last call that is */
	int64_t seqs[CLIENTS], tries[CLIENTS];	/* the last that came */
	struct tx txs[ACTIVE];
};

static struct tx *tx_find(struct coord *s, int64_t tid)
{
	int i;

	for (i = 0; i < ACTIVE; i++)
		if (s->txs[i].phase != FREE && s->txs[i].tid == tid)
			return &s->txs[i];
	return NULL;
}

static struct tx *tx_new(struct coord *s, int64_t tid)
{
	int i;

	for (i = 0; i < ACTIVE && s->txs[i].phase != FREE; i++)
		;
	if (i == ACTIVE)
		return NULL;
	s->txs[i] = (struct tx){ .tid = tid, .since = now_ms() };
	return &s->txs[i];
}

/* Sends the same to a set of participants. */
static void tell(struct coord *s, int kind, int64_t tid, unsigned parts)
{
	struct msg m = { .m_kind = kind, .m_term = tid };
	int p;

	for (p = P1; p < P1 + PARTS; p++)
		if (parts & 1u << p)
			net_post(&s->n, p, &m);
}

static void answer(struct coord *s, const struct msg *call, int done, const int64_t *values)
{
	struct msg m = { .m_kind = ANSWER, .m_seq = call->m_seq, .m_try = call->m_try,
			 .m_result = done };

	if (values != NULL)
		memcpy(m.m_values, values, ACCOUNTS * sizeof *values);
	net_post(&s->n, call->m_client, &m);
}

static void tx_abort(struct coord *s, struct tx *t)
{
	tell(s, ABORT, t->tid, t->parts);
	answer(s, &t->call, 0, NULL);
	t->phase = FREE;
}

/* Stores that a transaction is committed, and says so. */
static void tx_commit(struct coord *s, struct tx *t)
{
	struct rec r = { .r_kind = REC_COMMIT, .r_id = t->tid, .r_v = { t->parts,
			 t->call.m_client, t->call.m_seq } };

	if (log_add(&s->log, &r, bug != 2) != 0)
		die("the disk fails");
	usim_log("commits %lld", (long long)t->tid);
	t->phase = COMMITTED;
	t->yes = 0;
	t->since = now_ms();
	s->committed[t->call.m_client - C1] = t->call.m_seq;
	answer(s, &t->call, 1, NULL);
	tell(s, COMMIT, t->tid, t->parts);
}

static void start_transfer(struct coord *s, struct tx *t)
{
	const struct msg *c = &t->call;
	struct msg m = { .m_kind = PREPARE, .m_term = t->tid, .m_key = c->m_key,
			 .m_value = -c->m_value };

	t->parts = 1u << part_of(c->m_key) | 1u << part_of(c->m_index);
	net_post(&s->n, part_of(m.m_key), &m);
	m.m_key = c->m_index;
	m.m_value = c->m_value;
	net_post(&s->n, part_of(m.m_key), &m);
}

/* Takes a call of a client, unless it is known. */
static void take_call(struct coord *s, const struct msg *m)
{
	int c = m->m_client - C1, i;
	struct tx *t;

	if (m->m_kind == TRANSFER && m->m_seq == s->committed[c]) {
		usim_sometimes(1, "a committed call comes again");
		answer(s, m, 1, NULL);
		return;
	}
	if (m->m_seq < s->seqs[c] || (m->m_seq == s->seqs[c] && m->m_try <= s->tries[c])) {
		usim_sometimes(1, "an old try comes late");
		if (bug != 7)
			return;
	}
	s->seqs[c] = m->m_seq;
	s->tries[c] = m->m_try;
	for (i = 0; i < ACTIVE; i++) {
		t = &s->txs[i];
		if ((t->phase == VOTING || t->phase == HOLDING) &&
		    t->call.m_client == m->m_client && t->call.m_seq == m->m_seq) {
			t->call.m_try = m->m_try;
			return;
		}
	}
	t = tx_new(s, s->tid + 1);
	if (t == NULL)
		return;
	s->tid++;
	t->phase = VOTING;
	t->call = *m;
	if (m->m_kind == TRANSFER) {
		start_transfer(s, t);
	} else {
		t->parts = 1u << P1 | 1u << (P1 + 1) | 1u << (P1 + 2);
		tell(s, READ_LOCK, t->tid, t->parts);
	}
}

/* Counts a vote, balances, or a lock that is held. */
static void take_vote(struct coord *s, const struct msg *m)
{
	struct tx *t = tx_find(s, m->m_term);

	if (t == NULL || t->phase == COMMITTED || (m->m_kind == HELD) != (t->phase == HOLDING)) {
		usim_sometimes(m->m_result, "a yes comes too late");
		return;
	}
	if (!m->m_result) {
		tx_abort(s, t);
		return;
	}
	t->yes |= 1u << m->m_from;
	if (m->m_kind == BALANCES)
		memcpy(&t->values[(m->m_from - P1) * EACH], m->m_values,
		       EACH * sizeof t->values[0]);
	if (t->yes != t->parts)
		return;
	if (m->m_kind == VOTE) {
		tx_commit(s, t);
	} else if (m->m_kind == BALANCES) {
		t->phase = HOLDING;
		t->yes = 0;
		tell(s, HOLD, t->tid, t->parts);
	} else {
		answer(s, &t->call, 1, t->values);
		tell(s, ABORT, t->tid, t->parts);
		t->phase = FREE;
	}
}

static void take_ack(struct coord *s, const struct msg *m)
{
	struct tx *t = tx_find(s, m->m_term);
	struct rec r = { .r_kind = REC_END, .r_id = m->m_term };

	if (t == NULL || t->phase != COMMITTED)
		return;
	t->yes |= 1u << m->m_from;
	if (t->yes != t->parts && bug != 9)
		return;
	if (log_add(&s->log, &r, 0) != 0)
		die("the disk fails");
	t->phase = FREE;
}

/* Says what has become of a transaction, unless it is not known yet. */
static void take_outcome(struct coord *s, const struct msg *m)
{
	struct tx *t = tx_find(s, m->m_term);

	usim_sometimes(t == NULL, "the outcome of an unknown transaction is asked");
	if (t == NULL || t->phase == COMMITTED)
		tell(s, t == NULL ? ABORT : COMMIT, m->m_term, 1u << m->m_from);
}

static void coord_take(struct coord *s, const struct msg *m)
{
	switch (m->m_kind) {
	case TRANSFER:
	case AUDIT:	take_call(s, m); break;
	case VOTE:
	case BALANCES:
	case HELD:	take_vote(s, m); break;
	case ACK:	take_ack(s, m); break;
	case OUTCOME:	take_outcome(s, m); break;
	}
}

static void coord_tick(struct coord *s)
{
	struct tx *t;

	for (t = s->txs; t < s->txs + ACTIVE; t++) {
		if (t->phase == COMMITTED)
			tell(s, COMMIT, t->tid, t->parts & ~t->yes);
		else if (t->phase != FREE && now_ms() >= t->since + VOTE_MS)
			tx_abort(s, t);
	}
}

static void coord_redo(struct coord *s, const struct rec *r)
{
	struct tx *t;

	if (r->r_kind == REC_COMMIT) {
		t = tx_new(s, r->r_id);
		USIM_CHECK(t != NULL);
		t->phase = COMMITTED;
		t->parts = (unsigned)r->r_v[0];
		if (bug != 10 && r->r_v[1] >= C1)
			s->committed[r->r_v[1] - C1] = r->r_v[2];
	} else if (r->r_kind == REC_END) {
		t = tx_find(s, r->r_id);
		if (t != NULL)
			t->phase = FREE;
	}
	if (r->r_id > s->tid)
		s->tid = r->r_id;
}

static void coord_boot(struct coord *s)
{
	struct rec r = { .r_kind = REC_EPOCH };
	int i;

	s->log.l_head_only = bug == 3;
	s->log.l_in_place = bug == 8;
	log_open(&s->log, "outcomes");
	for (i = 0; i < s->log.l_nr; i++)
		coord_redo(s, &s->log.l_recs[i]);
	for (i = 0; i < ACTIVE; i++)
		usim_sometimes(s->txs[i].phase == COMMITTED,
			       "the coordinator boots with a commit to finish");
	if (bug == 4)
		return;
	r.r_id = (s->tid / EPOCH + 1) * EPOCH;
	log_must(&s->log, &r);
	s->tid = r.r_id;
}

static int coordinator(void *unused)
{
	struct coord *s = calloc(1, sizeof *s);
	struct msg m;
	int64_t tick;

	(void)unused;
	net_open(&s->n, names, HOSTS, 0);
	coord_boot(s);
	tick = now_ms() + TICK_MS;
	for (;;) {
		if (net_next(&s->n, &m, tick))
			coord_take(s, &m);
		if (now_ms() >= tick) {
			coord_tick(s);
			tick = now_ms() + TICK_MS;
		}
	}
	return 1;
}

/* An account at a participant. */
struct account {
	int64_t balance, delta;		/* delta: what a promise is about */
	int64_t tid;			/* who has the lock: 0: none */
	int64_t since;
	int promised;			/* else the lock is for reading */
	int locked;
};

struct part {
	struct net n;
	struct log log;
	struct account accounts[EACH];
};

/* Says whether a record is in the log. */
static int part_has(const struct part *s, uint32_t kind, int64_t tid)
{
	int i;

	for (i = s->log.l_nr - 1; i >= 0; i--)
		if (s->log.l_recs[i].r_kind == kind && s->log.l_recs[i].r_id == tid)
			return 1;
	return 0;
}

static void part_reply(struct part *s, int kind, int64_t tid, int result)
{
	struct msg m = { .m_kind = kind, .m_term = tid, .m_result = result };
	int i;

	for (i = 0; i < EACH; i++)
		m.m_values[i] = s->accounts[i].balance;
	net_post(&s->n, COORD, &m);
}

/* Locks an account for a promise. */
static void promise(struct account *a, int64_t tid, int64_t delta, int lock)
{
	a->tid = tid;
	a->delta = delta;
	a->promised = 1;
	a->locked = lock;
	a->since = now_ms();
}

static void take_prepare(struct part *s, const struct msg *m)
{
	struct account *a = &s->accounts[m->m_key % EACH];
	struct rec r = { .r_kind = REC_PROMISE, .r_id = m->m_term,
			 .r_v = { m->m_key % EACH, m->m_value } };
	int error;

	if (part_has(s, REC_DONE, m->m_term)) {
		usim_sometimes(1, "a prepare comes after the outcome");
		return;
	}
	if (a->promised && a->tid == m->m_term) {
		part_reply(s, VOTE, m->m_term, 1);
		return;
	}
	if (a->locked || a->balance + m->m_value < 0) {
		usim_sometimes(a->locked, "a lock is in the way");
		part_reply(s, VOTE, m->m_term, 0);
		return;
	}
	error = log_add(&s->log, &r, 1) != 0;
	if (error && bug != 6)
		die("the disk fails");
	if (!error)
		promise(a, m->m_term, m->m_value, 1);
	part_reply(s, VOTE, m->m_term, !error);
}

static void part_redo(struct part *s, const struct rec *r, int boot)
{
	struct account *a;

	if (r->r_kind == REC_PROMISE) {
		promise(&s->accounts[r->r_v[0]], r->r_id, r->r_v[1], !boot || bug != 5);
		return;
	}
	for (a = s->accounts; a < s->accounts + EACH; a++) {
		if (!a->promised || a->tid != r->r_id)
			continue;
		if (r->r_v[0])
			a->balance += a->delta;
		a->promised = a->locked = 0;
		a->tid = 0;
	}
}

/* Learns an outcome. Locks for reading end without a record. */
static void take_result(struct part *s, int64_t tid, int commit)
{
	struct rec r = { .r_kind = REC_DONE, .r_id = tid, .r_v = { commit } };
	struct account *a;
	int promised = 0;

	for (a = s->accounts; a < s->accounts + EACH; a++) {
		if (a->tid != tid)
			continue;
		promised |= a->promised;
		if (!a->promised)
			a->locked = a->tid = 0;
	}
	if (promised) {
		log_must(&s->log, &r);
		part_redo(s, &r, 0);
	}
	usim_sometimes(!promised && commit, "a commit comes again");
	if (commit)
		part_reply(s, ACK, tid, 1);
}

static void take_read_lock(struct part *s, int64_t tid)
{
	struct account *a;

	for (a = s->accounts; a < s->accounts + EACH; a++) {
		if (a->locked) {
			part_reply(s, BALANCES, tid, 0);
			return;
		}
	}
	for (a = s->accounts; a < s->accounts + EACH; a++) {
		if (a->promised)
			continue;
		a->locked = 1;
		a->tid = tid;
		a->since = now_ms();
	}
	part_reply(s, BALANCES, tid, 1);
}

static void part_take(struct part *s, const struct msg *m)
{
	const struct account *a = s->accounts;

	switch (m->m_kind) {
	case PREPARE:	take_prepare(s, m); break;
	case COMMIT:	take_result(s, m->m_term, 1); break;
	case ABORT:	take_result(s, m->m_term, 0); break;
	case READ_LOCK:	take_read_lock(s, m->m_term); break;
	case HOLD:
		part_reply(s, HELD, m->m_term, a->locked && a->tid == m->m_term);
		break;
	}
}

/* Asks for outcomes that do not come. */
static void part_tick(struct part *s)
{
	struct account *a;

	for (a = s->accounts; a < s->accounts + EACH; a++) {
		if (a->tid == 0 || now_ms() < a->since + ASK_MS)
			continue;
		if (bug == 1 && now_ms() >= a->since + ALONE_MS) {
			take_result(s, a->tid, 0);
			continue;
		}
		usim_sometimes(a->promised, "a participant asks for an outcome");
		part_reply(s, OUTCOME, a->tid, 0);
	}
}

static void part_boot(struct part *s)
{
	int i;

	for (i = 0; i < EACH; i++)
		s->accounts[i].balance = START;
	s->log.l_head_only = bug == 3;
	s->log.l_in_place = bug == 8;
	log_open(&s->log, "promises");
	for (i = 0; i < s->log.l_nr; i++)
		part_redo(s, &s->log.l_recs[i], 1);
	for (i = 0; i < EACH; i++)
		usim_sometimes(s->accounts[i].promised, "a participant boots with a promise");
}

static int participant(void *unused)
{
	struct part *s = calloc(1, sizeof *s);
	struct msg m;
	int64_t tick;

	(void)unused;
	net_open(&s->n, names, HOSTS, 0);
	part_boot(s);
	tick = now_ms() + TICK_MS;
	for (;;) {
		if (net_next(&s->n, &m, tick))
			part_take(s, &m);
		if (now_ms() >= tick) {
			part_tick(s);
			tick = now_ms() + TICK_MS;
		}
	}
	return 1;
}

/* Sends a call until the last try has an answer, which is put into m. Returns the result. */
static int call(struct net *n, struct msg *m)
{
	struct msg a, q;
	int64_t until;

	for (;;) {
		m->m_try++;
		q = *m;
		net_post(n, COORD, &q);
		until = now_ms() + PATIENCE_MS;
		while (net_next(n, &a, until)) {
			if (a.m_seq != m->m_seq || a.m_try != m->m_try)
				continue;
			memcpy(m->m_values, a.m_values, sizeof m->m_values);
			return (int)a.m_result;
		}
	}
}

/* Adds up all accounts. 0: the audit did not come to an end. */
static int audit(struct net *n, int64_t seq, int64_t *values)
{
	struct msg m = { .m_kind = AUDIT, .m_client = n->n_self, .m_seq = seq };
	int64_t sum = 0;
	int i;

	if (!call(n, &m))
		return 0;
	for (i = 0; i < ACCOUNTS; i++) {
		sum += m.m_values[i];
		USIM_CHECK(m.m_values[i] >= 0);
	}
	usim_log("finds %lld", (long long)sum);
	USIM_CHECK(sum == ACCOUNTS * START);
	memcpy(values, m.m_values, ACCOUNTS * sizeof *values);
	return 1;
}

static void transfer(struct net *n, int64_t seq)
{
	struct msg m = { .m_kind = TRANSFER, .m_client = n->n_self, .m_seq = seq };

	m.m_key = usim_random(ACCOUNTS);
	m.m_index = (m.m_key + EACH + usim_random(ACCOUNTS - 2 * EACH + 1)) % ACCOUNTS;
	if (part_of(m.m_key) == part_of(m.m_index))
		m.m_index = (m.m_index + EACH) % ACCOUNTS;
	m.m_value = 1 + usim_random(60);
	if (!call(n, &m))
		return;
	usim_log("moved %lld from %lld to %lld", (long long)m.m_value, (long long)m.m_key,
		 (long long)m.m_index);
	model[m.m_key] -= m.m_value;
	model[m.m_index] += m.m_value;
}

/* The last client that ends compares all accounts with what the answers have said. */
static void compare(struct net *n, int64_t seq)
{
	int64_t values[ACCOUNTS];
	int i;

	while (!audit(n, seq++, values))
		sleep_ms(200);
	for (i = 0; i < ACCOUNTS; i++)
		if (values[i] != START + model[i])
			usim_fail("account %d has %lld, not %lld", i, (long long)values[i],
				  (long long)(START + model[i]));
}

static int client(void *unused)
{
	struct net *n = calloc(1, sizeof *n);
	int64_t values[ACCOUNTS], seq;

	(void)unused;
	net_open(n, names, HOSTS, 0);
	for (seq = 1; seq <= OPS; seq++) {
		if (usim_random(5) == 0)
			audit(n, seq, values);
		else
			transfer(n, seq);
		sleep_ms((int)usim_random(REST_MS));
	}
	if (++clients_done == CLIENTS)
		compare(n, seq);
	return 0;
}

static void setup(struct usim_world *w)
{
	int i;

	w->w_run = 12 * UTIME_S;
	usim_host(names[COORD], coordinator, NULL);
	for (i = P1; i < P1 + PARTS; i++)
		usim_host(names[i], participant, NULL);
	for (i = C1; i < C1 + CLIENTS; i++)
		usim_client(names[i], client, NULL);
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	bug = bug_of("COMMIT_BUG");
	return usim_main(argc, argv, setup);
}
