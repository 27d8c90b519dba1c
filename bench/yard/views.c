/* views.c: a store of a primary and a backup, by numbered views. VIEWS_BUG=n plants an error. */

/*
 * A master says who is primary and who is backup of three replicas: this is a view, and it has a
 * number. The master makes the next view if one of both seems to be dead, or if there is no
 * backup. It stores a view before it tells anyone. The next primary is the primary or the
 * backup of the view before, and the backup only if the primary has said that this view is
 * active: that the backup has all. If not, the master waits for the primary to come back.
 *
 * A primary gives each call the next number, stores what it changes, and sends it to the backup.
 * The backup stores it, too, in order, and says up to which number it has all. Only then is the
 * client answered, for reads as well: so an old primary, whose backup is in a newer view, cannot
 * answer. A replica takes messages of its own view only. Alone, a primary answers at once.
 *
 * A new backup forgets what it has, since it may have calls that no other replica knows. It pulls a
 * copy of the state piece by piece: values, and the last call of each client. The copy is of one
 * moment. Calls go on meanwhile, and the backup takes what has come since the copy after that.
 * When it has all pieces, it puts them in a new log, with the view. A replica that is primary
 * of a new view stores that before it acts.
 *
 * Clients read, write and swap, and note all in a history, which must be linearizable. Each has
 * a counter of its own, too: it adds 1, and the answer must be 1 more than the last.
 *
 *	1	a primary answers reads at once
 *	2	a backup that becomes primary does not store the view
 *	3	pieces are of the state as it is when they are pulled
 *	4	the last calls of clients are not in the copy
 *	5	a primary answers before the backup has said anything
 *	6	a backup does not sync what it stores
 *	7	a new backup that has the number of the copy, or more, keeps what it has
 *	8	the master takes a backup for the primary before the view is active
 *	9	the master does not sync a view
 *	10	a primary whose sync fails forgets the call, and goes on with its log
 */

#include "yard.h"

enum { MASTER = 1, R1, REPLICAS = 3, C1 = R1 + REPLICAS, CLIENTS = 4,
       HOSTS = C1 + CLIENTS - 1 };
enum { KEYS = 4, VALUES = KEYS + CLIENTS, PIECES = VALUES + CLIENTS };
enum { OPS = 60, REST_MS = 350, WINDOW = 8 };
enum { PING_MS = 150, DEAD_MS = 600, PATIENCE_MS = 400 };
enum { PING = 1, VIEW, PULL, PIECE, EFFECT, HAVE, CALL, ANSWER, NOT_ME };
enum { READ, WRITE, SWAP, ADD };
enum { REC_VIEW = 1, REC_VALUE, REC_CALL, REC_BASE, REC_EFFECT };

static const char *const names[] = { "", "master", "r1", "r2", "r3", "c1", "c2", "c3", "c4" };
static int bug;
static struct uhistory *history;
static int clients_done;

struct view {
	int64_t nr;
	int primary, backup;		/* backup: 0: none */
};

/* The master. */
struct master {
	struct net n;
	struct log log;
	struct view view;
	int active;
	int64_t heard[R1 + REPLICAS];
};

static int alive(const struct master *s, int replica)
{
	return s->heard[replica] != 0 && now_ms() < s->heard[replica] + DEAD_MS;
}

/* Returns a replica that lives and is not one of two. 0: there is none. */
static int spare(const struct master *s, int a, int b)
{
	int i;

	for (i = R1; i < R1 + REPLICAS; i++)
		if (i != a && i != b && alive(s, i))
			return i;
	return 0;
}

static void next_view(struct master *s, int primary, int backup)
{
	struct rec r = { .r_kind = REC_VIEW, .r_id = s->view.nr + 1,
			 .r_v = { primary, backup } };

	usim_sometimes(primary != s->view.primary && s->view.nr > 0, "a backup becomes primary");
	usim_sometimes(backup == 0 && s->view.nr > 0, "a primary is left alone");
	if (log_add(&s->log, &r, bug != 9) != 0)
		die("the disk fails");
	s->view = (struct view){ r.r_id, primary, backup };
	s->active = 0;
	usim_log("view %lld: %s, %s", (long long)r.r_id, names[primary],
		 backup ? names[backup] : "no backup");
}

static void master_tick(struct master *s)
{
	int p = s->view.primary, b = s->view.backup;

	if (s->view.nr == 0) {
		if (alive(s, R1))
			next_view(s, R1, 0);
	} else if (!alive(s, p)) {
		usim_sometimes(b != 0 && alive(s, b) && !s->active,
			       "a primary dies before its view is active");
		if (b != 0 && alive(s, b) && (s->active || bug == 8))
			next_view(s, b, spare(s, p, b));
	} else if (b != 0 && !alive(s, b)) {
		next_view(s, p, spare(s, p, b));
	} else if (b == 0 && spare(s, p, 0) != 0) {
		next_view(s, p, spare(s, p, 0));
	}
}

static void master_take(struct master *s, const struct msg *m)
{
	struct msg a = { .m_kind = VIEW, .m_term = s->view.nr, .m_key = s->view.primary,
			 .m_index = s->view.backup };

	if (m->m_kind != PING)
		return;
	s->heard[m->m_from] = now_ms();
	if (m->m_from == s->view.primary && m->m_term == s->view.nr && m->m_result)
		s->active = 1;
	net_post(&s->n, m->m_from, &a);
}

static int master(void *unused)
{
	struct master *s = calloc(1, sizeof *s);
	struct msg m;
	const struct rec *r;
	int64_t tick;

	(void)unused;
	net_open(&s->n, names, HOSTS, 0);
	log_open(&s->log, "views");
	if (s->log.l_nr > 0) {
		r = &s->log.l_recs[s->log.l_nr - 1];
		s->view = (struct view){ r->r_id, (int)r->r_v[0], (int)r->r_v[1] };
	}
	tick = now_ms() + DEAD_MS;	/* who lives is heard by then */
	for (;;) {
		if (net_next(&s->n, &m, tick)) {
			master_take(s, &m);
		} else {
			master_tick(s);
			tick = now_ms() + PING_MS;
		}
	}
	return 1;
}

/* What a replica knows, at some number. */
struct state {
	int64_t nr;
	int64_t values[VALUES];		/* those of KEYS, and the counters */
	int64_t seqs[CLIENTS], results[CLIENTS], nrs[CLIENTS];	/* the last call of each */
};

struct replica {
	struct net n;
	struct log log;
	struct state now, copy;		/* copy: what a new backup pulls */
	int64_t copied;			/* the view that it is for */
	struct view view;		/* the one it acts in; primary 0: in none */
	int64_t have;			/* what the backup has */
	int heard;			/* whether it has said so, in this view */
	int waits[CLIENTS];		/* who is to be answered */
	struct view join;		/* the one it would be backup of. Nr 0: none */
	int64_t base;			/* the number of the copy that comes */
	int pieces;			/* how many have come */
	struct rec got[PIECES];
};

static int is_primary(const struct replica *s)
{
	return s->view.primary == s->n.n_self;
}

static int64_t safe_nr(const struct replica *s)
{
	if (s->view.backup == 0 || bug == 5)
		return s->now.nr;
	return s->heard ? s->have : 0;
}

static void answer(struct replica *s, int client, int kind, int64_t seq, int64_t result)
{
	struct msg a = { .m_kind = kind, .m_seq = seq, .m_result = result };

	net_post(&s->n, client, &a);
}

/* Answers who waits for what is safe now. */
static void answer_all(struct replica *s)
{
	int c;

	for (c = 0; c < CLIENTS; c++) {
		if (!s->waits[c] || s->now.nrs[c] > safe_nr(s))
			continue;
		s->waits[c] = 0;
		answer(s, C1 + c, ANSWER, s->now.seqs[c], s->now.results[c]);
	}
}

/* Returns the effect that has a number. */
static const struct rec *effect(const struct replica *s, int64_t nr)
{
	int i;

	for (i = s->log.l_nr - 1; i >= 0; i--)
		if (s->log.l_recs[i].r_kind == REC_EFFECT && s->log.l_recs[i].r_id == nr)
			return &s->log.l_recs[i];
	return NULL;
}

/* Sends the backup what it does not have, some at a time. */
static void send_effects(struct replica *s)
{
	struct msg m = { .m_kind = EFFECT, .m_term = s->view.nr };
	const struct rec *r;
	int i;

	if (s->view.backup == 0 || !s->heard)
		return;
	for (i = 1; i <= WINDOW && s->have + i <= s->now.nr; i++) {
		r = effect(s, s->have + i);
		if (r == NULL)
			return;
		m.m_nr = r->r_id;
		m.m_client = (int)r->r_v[0];
		m.m_seq = r->r_v[1];
		m.m_key = r->r_v[2];
		m.m_value = r->r_v[3];
		m.m_result = r->r_v[4];
		net_post(&s->n, s->view.backup, &m);
	}
}

/* Does what a record says. */
static void redo(struct replica *s, const struct rec *r)
{
	const int64_t *v = r->r_v;
	struct state *n = &s->now;

	switch (r->r_kind) {
	case REC_VIEW:
		s->view = (struct view){ r->r_id, (int)v[0], (int)v[1] };
		break;
	case REC_VALUE:
		n->values[r->r_id] = v[0];
		break;
	case REC_CALL:
		n->seqs[r->r_id] = v[0];
		n->results[r->r_id] = v[1];
		n->nrs[r->r_id] = v[2];
		break;
	case REC_BASE:
		n->nr = r->r_id;
		break;
	case REC_EFFECT:
		n->nr = r->r_id;
		n->values[v[2]] = v[3];
		n->seqs[v[0]] = v[1];
		n->results[v[0]] = v[4];
		n->nrs[v[0]] = r->r_id;
		break;
	}
}

/* Gives a call the next number, and stores what it changes. */
static void execute(struct replica *s, const struct msg *m)
{
	int c = m->m_client - C1;
	int64_t old = s->now.values[m->m_key];
	int change = m->m_op == WRITE || (m->m_op == SWAP && old == m->m_old);
	struct rec r = { .r_kind = REC_EFFECT, .r_id = s->now.nr + 1, .r_v = { c, m->m_seq,
			 m->m_key, change ? m->m_value : old,
			 m->m_op == READ ? old : m->m_op == SWAP && change } };

	if (m->m_op == ADD)
		r.r_v[3] = r.r_v[4] = old + 1;
	if (log_add(&s->log, &r, 1) != 0) {
		if (bug == 10)
			return;
		die("the disk fails");
	}
	redo(s, &r);
	usim_sometimes(s->copied == s->view.nr && !s->heard, "a call comes during a transfer");
	s->waits[c] = 1;
	answer_all(s);
	send_effects(s);
}

static void take_call(struct replica *s, const struct msg *m)
{
	int c = m->m_client - C1;

	if (!is_primary(s)) {
		answer(s, m->m_client, NOT_ME, m->m_seq, 0);
	} else if (m->m_seq == s->now.seqs[c]) {
		usim_sometimes(s->now.nrs[c] <= safe_nr(s), "a call comes again that is done");
		s->waits[c] = 1;
		answer_all(s);
	} else if (m->m_seq > s->now.seqs[c]) {
		if (bug == 1 && m->m_op == READ)
			answer(s, m->m_client, ANSWER, m->m_seq, s->now.values[m->m_key]);
		else
			execute(s, m);
	}
}

/* Says what a backup has. Sent at each tick, too, so nothing waits for a lost one. */
static void say_have(struct replica *s)
{
	struct msg m = { .m_kind = HAVE, .m_term = s->view.nr, .m_nr = s->now.nr };

	net_post(&s->n, s->view.primary, &m);
}

static void take_effect(struct replica *s, const struct msg *m)
{
	struct rec r = { .r_kind = REC_EFFECT, .r_id = m->m_nr, .r_v = { m->m_client,
			 m->m_seq, m->m_key, m->m_value, m->m_result } };

	if (m->m_term != s->view.nr || s->view.backup != s->n.n_self) {
		usim_sometimes(1, "an effect of another view is refused");
		return;
	}
	if (m->m_nr == s->now.nr + 1) {
		if (log_add(&s->log, &r, bug != 6) != 0)
			die("the disk fails");
		redo(s, &r);
	}
	say_have(s);
}

static void take_have(struct replica *s, const struct msg *m)
{
	if (m->m_term != s->view.nr || !is_primary(s) || m->m_from != s->view.backup)
		return;
	if (!s->heard)
		usim_log("%s has all up to %lld", names[m->m_from], (long long)m->m_nr);
	if (!s->heard || s->have < m->m_nr)
		s->have = m->m_nr;
	s->heard = 1;
	answer_all(s);
	send_effects(s);
}

/* Asks for the next piece of the copy. */
static void pull(struct replica *s)
{
	struct msg m = { .m_kind = PULL, .m_term = s->join.nr, .m_index = s->pieces };

	net_post(&s->n, s->join.primary, &m);
}

/* Sends a piece. The copy is made for the first, once in a view. */
static void take_pull(struct replica *s, const struct msg *m)
{
	struct msg a = { .m_kind = PIECE, .m_term = m->m_term, .m_index = m->m_index };
	int i = (int)m->m_index, c = i - VALUES;
	const struct state *from = bug == 3 ? &s->now : &s->copy;

	if (m->m_term != s->view.nr || !is_primary(s))
		return;
	if (s->copied != s->view.nr) {
		s->copy = s->now;
		s->copied = s->view.nr;
	}
	a.m_nr = from->nr;
	if (i < VALUES) {
		a.m_value = from->values[i];
	} else if (bug != 4) {
		a.m_seq = from->seqs[c];
		a.m_result = from->results[c];
		a.m_versions[0] = from->nrs[c];
	}
	net_post(&s->n, m->m_from, &a);
}

/* Begins a new log with the copy, and acts in the view from now on. */
static void joined(struct replica *s)
{
	struct rec base = { .r_kind = REC_BASE, .r_id = s->base };
	struct rec view = { .r_kind = REC_VIEW, .r_id = s->join.nr,
			    .r_v = { s->join.primary, s->join.backup } };
	int i;

	usim_sometimes(s->now.nr > s->base, "a new backup had more than the copy");
	s->log.l_nr = 0;
	for (i = 0; i < PIECES; i++)
		log_keep(&s->log, &s->got[i]);
	rec_seal(&s->log, &base);
	log_keep(&s->log, &base);
	rec_seal(&s->log, &view);
	log_keep(&s->log, &view);
	if (log_rewrite(&s->log) != 0)
		die("the disk fails");
	for (i = 0; i < s->log.l_nr; i++)
		redo(s, &s->log.l_recs[i]);
	s->join.nr = 0;
	usim_log("is backup of view %lld from %lld on", (long long)s->view.nr,
		 (long long)s->base);
	say_have(s);
}

/* Acts in a view with the state that is there. */
static void enter(struct replica *s, const struct view *v)
{
	struct rec r = { .r_kind = REC_VIEW, .r_id = v->nr, .r_v = { v->primary, v->backup } };

	if (bug != 2 || s->view.backup != s->n.n_self)
		log_must(&s->log, &r);
	s->view = *v;
	s->heard = 0;
	s->have = 0;
	s->join.nr = 0;
	answer_all(s);
}

static void take_piece(struct replica *s, const struct msg *m)
{
	struct rec *r = &s->got[s->pieces];

	if (s->join.nr == 0 || m->m_term != s->join.nr || m->m_index != s->pieces)
		return;
	if (s->pieces > 0 && m->m_nr != s->base && bug != 3) {
		usim_sometimes(1, "a transfer begins again");
		s->pieces = 0;
		pull(s);
		return;
	}
	s->base = m->m_nr;
	if (bug == 7 && s->now.nr >= s->base && s->now.nr > 0) {
		enter(s, &s->join);
		say_have(s);
		return;
	}
	if (m->m_index < VALUES)
		*r = (struct rec){ .r_kind = REC_VALUE, .r_id = m->m_index,
				   .r_v = { m->m_value } };
	else
		*r = (struct rec){ .r_kind = REC_CALL, .r_id = m->m_index - VALUES,
				   .r_v = { m->m_seq, m->m_result, m->m_versions[0] } };
	rec_seal(&s->log, r);
	if (++s->pieces == PIECES)
		joined(s);
	else
		pull(s);
}

/* Learns of a view. */
static void take_view(struct replica *s, const struct msg *m)
{
	struct view v = { m->m_term, (int)m->m_key, (int)m->m_index };

	if (v.nr <= s->view.nr || v.nr <= s->join.nr)
		return;
	if (v.primary == s->n.n_self) {
		enter(s, &v);
	} else if (v.backup == s->n.n_self) {
		usim_sometimes(is_primary(s), "a primary hears that it is a backup");
		s->join = v;
		s->pieces = 0;
		s->view.primary = s->view.backup = 0;
		pull(s);
	} else {
		s->join.nr = 0;
		s->view = (struct view){ v.nr, 0, 0 };
	}
}

static void replica_tick(struct replica *s)
{
	struct msg m = { .m_kind = PING, .m_term = s->view.nr };

	m.m_result = is_primary(s) && (s->view.backup == 0 || s->heard);
	net_post(&s->n, MASTER, &m);
	if (s->join.nr != 0)
		pull(s);
	else if (s->view.backup == s->n.n_self)
		say_have(s);
	else if (is_primary(s))
		send_effects(s);
}

static void replica_take(struct replica *s, const struct msg *m)
{
	switch (m->m_kind) {
	case VIEW:	take_view(s, m); break;
	case CALL:	take_call(s, m); break;
	case EFFECT:	take_effect(s, m); break;
	case HAVE:	take_have(s, m); break;
	case PULL:	take_pull(s, m); break;
	case PIECE:	take_piece(s, m); break;
	}
}

static int replica(void *unused)
{
	struct replica *s = calloc(1, sizeof *s);
	struct msg m;
	int64_t tick;
	int i;

	(void)unused;
	net_open(&s->n, names, HOSTS, 0);
	log_open(&s->log, "state");
	for (i = 0; i < s->log.l_nr; i++)
		redo(s, &s->log.l_recs[i]);
	usim_sometimes(is_primary(s) && s->view.backup != 0, "a primary with a backup boots");
	tick = now_ms();
	for (;;) {
		if (net_next(&s->n, &m, tick)) {
			replica_take(s, &m);
		} else {
			replica_tick(s);
			tick = now_ms() + PING_MS;
		}
	}
	return 1;
}

/* Asks replicas until one has answered. The first is any, since clients keep no list. */
static int64_t call(struct net *n, const struct msg *m)
{
	struct msg q, a;
	int64_t until;
	int to = (int)usim_random(REPLICAS);

	for (;;) {
		q = *m;
		net_post(n, R1 + to, &q);
		until = now_ms() + PATIENCE_MS;
		while (net_next(n, &a, until)) {
			if (a.m_seq != m->m_seq)
				continue;
			if (a.m_kind == ANSWER)
				return a.m_result;
			sleep_ms(30);
			break;
		}
		to = (to + 1) % REPLICAS;
	}
}

static void one_call(struct net *n, int seq, int64_t *last)
{
	static const enum uhistory_kind kinds[] = { UHISTORY_READ, UHISTORY_WRITE, UHISTORY_SWAP };
	static const char *const verbs[] = { "read", "write", "swap" };
	struct msg m = { .m_kind = CALL, .m_client = n->n_self, .m_seq = seq };
	int64_t result;
	long op;

	m.m_op = usim_random(2) ? READ : usim_random(3) ? WRITE : SWAP;
	m.m_key = usim_random(KEYS);
	m.m_value = m.m_op == READ ? 0 : n->n_self * 1000 + seq;
	m.m_old = last[m.m_key];
	op = uhistory_call(history, kinds[m.m_op], (uint64_t)m.m_key, (uint64_t)m.m_value,
			   (uint64_t)m.m_old);
	result = call(n, &m);
	uhistory_return(history, op, (uint64_t)result);
	usim_log("%s of key %lld: %lld, %lld", verbs[m.m_op], (long long)m.m_key,
		 (long long)m.m_value, (long long)result);
	if (m.m_op == READ)
		last[m.m_key] = result;
	else if (m.m_op == WRITE || result == 1)
		last[m.m_key] = m.m_value;
}

/* Adds 1 to a counter that is the caller's own. */
static void count(struct net *n, int seq, int64_t *sum)
{
	struct msg m = { .m_kind = CALL, .m_client = n->n_self, .m_op = ADD, .m_seq = seq,
			 .m_key = KEYS + n->n_self - C1 };
	int64_t result = call(n, &m);

	usim_log("counts %lld", (long long)result);
	USIM_CHECK(result == ++*sum);
}

static int client(void *unused)
{
	struct net *n = calloc(1, sizeof *n);
	int64_t last[KEYS] = { 0 }, sum = 0;
	char why[200];
	int seq;

	(void)unused;
	net_open(n, names, HOSTS, 0);
	for (seq = 1; seq <= OPS; seq++) {
		if (usim_random(3) == 0)
			count(n, seq, &sum);
		else
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
	usim_host(names[MASTER], master, NULL);
	for (i = R1; i < R1 + REPLICAS; i++)
		usim_host(names[i], replica, NULL);
	for (i = C1; i < C1 + CLIENTS; i++)
		usim_client(names[i], client, NULL);
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	bug = bug_of("VIEWS_BUG");
	return usim_main(argc, argv, setup);
}
