/* SPDX-License-Identifier: MIT */
/* engine_chaos: random programs lose no task, end, pin or byte. */
/* VARIANTS: once */

/*
 *	engine_chaos				some programs
 *	engine_chaos run SECONDS SEED		new programs: test/whole/chaos.sh
 *	engine_chaos replay SECONDS SEED	one, again and again
 *
 * A program is made from a seed. It has an engine with random limits, native
 * threads, and tasks. All of these do random acts: submit, cancel, wait, change
 * priorities, pause, help, take ends, look; push, pin, pop and clear memory. At
 * a random time the engine shuts down, while others still act. The main thread
 * ends pauses, and helps, so all waits end.
 *
 * Each job has an entry that counts. Whatever happens, a job that was accepted
 * ends once, and runs once or was cancelled once; a job that was refused does
 * neither. All who are told of an end are told the same result. Memory that is
 * pinned is not released; in the end all was released once, and no byte is left.
 */
#include "tasks.h"
#include "usync.h"

#include <poll.h>
#include <pthread.h>
#include <time.h>

#define JOBS	500
#define NATIVES	3
#define NAMES	5
#define PINS	4
#define MAGIC	0x7a57beefu

/* What f() gets, as a pointer or a copy. */
struct note {
	unsigned n_magic;
	int      n_nr;
};

struct entry {
	struct note j_note;
	engine_id   j_id;	/* (atomic) */
	long        j_accepted, j_runs, j_ends, j_taken;
	long        j_freed;	/* its number was given back, or will be */
	int         j_result;	/* set by the end */
};

struct piece {
	unsigned p_magic;	/* while it lives */
	long     p_released;
	char     p_rest[56];
};

/* Whoever acts: a native thread, or a task. */
struct actor {
	unsigned    a_random;
	bool        a_task;	/* may wait for its children only */
	bool        a_stops;	/* the engine has shut down */
	const void *a_pin[PINS];
};

static struct entry entry[JOBS];
static struct piece piece[JOBS];
static long entries, pieces, adopted, released, over, paused;
static struct engine_config config;
static int batch, hosts, names;
static struct usem sem;

static unsigned any(struct actor *a, unsigned nr)
{
	return (check_random(&a->a_random) >> 8) % nr;
}

static utime_ns soon(struct actor *a)
{
	return any(a, 3) == 0 ? UNOW : uafter(any(a, 300) * UTIME_US);
}

/* Each program makes some windows hot, where a native thread often sleeps. */
#if defined(CHAOS_WINDOW_H)
void chaos_window(unsigned nr)
{
	static __thread unsigned state;
	int saved = errno;
	unsigned r;

	if (state == 0)
		state = check_hash(nr, (unsigned)(uintptr_t)&state) | 1;
	r = (check_random(&state) >> 8) % 1024;
	if (r < (check_hash(nr, check_seed) % 8 == 0 ? 256 : 8))
		usleep(r % 8 * 20);
	else if (r < 64)
		sched_yield();
	errno = saved;
}
#endif

/* Jobs. */

static int job(void *arg);

static void end(engine_id id, void *arg, int result)
{
	const struct note *n = arg;
	struct entry *j = &entry[n->n_nr];

	CHECK(n == &j->j_note && id != 0);
	__atomic_store_n(&j->j_result, result, __ATOMIC_SEQ_CST);
	CHECK_IS(add(&j->j_ends, 1), 1);
}

static int result_at_end(const struct entry *j)
{
	CHECK_IS(get(&j->j_ends), 1);
	return __atomic_load_n(&j->j_result, __ATOMIC_SEQ_CST);
}

/* Fills in a random job. NULL: there are enough. */
static struct entry *draw(struct actor *a, struct engine_job *out)
{
	long nr = add(&entries, 1) - 1;
	struct entry *j = &entry[nr < JOBS ? nr : 0];

	if (nr >= JOBS)
		return NULL;
	j->j_note = (struct note){ MAGIC, (int)nr };
	*out = (struct engine_job){
		.j_f = job, .j_arg = &j->j_note, .j_end = end,
		.j_size = any(a, 2) ? sizeof j->j_note : 0,
		.j_bytes = any(a, 8) == 0 ? any(a, 5000) : 0,
		.j_priority = (int)any(a, ENGINE_LEVELS), .j_name = "chaos",
		.j_batch = any(a, 3) == 0 ? batch : 0
	};
	if (any(a, 8) == 0)
		out->j_flags |= ENGINE_C_ONLY;
	if (out->j_batch == 0 && any(a, 3) == 0)
		out->j_flags |= ENGINE_DETACHED;
	set(&j->j_freed, out->j_batch != 0 || out->j_flags & ENGINE_DETACHED);
	return j;
}

/* Returns whether a helper acts, perhaps the main thread, which ends waits. */
static bool is_lent(const struct actor *a)
{
	return a->a_task && ustack_self() == NULL;
}

/* Bytes of tasks that all wait for room would never come free. */
static utime_ns patience(struct actor *a)
{
	return any(a, 4) != 0 || is_lent(a) ||
		(a->a_task && config.c_shared_amount != 0) ? soon(a) : UNEVER;
}

/* A cancellation never reaches the next task of a runner. */
static bool is_stopped(const struct actor *a, int rc)
{
	return rc == -ECANCELED && a->a_task && engine_stopping();
}

static bool is_refusal(const struct actor *a, int rc)
{
	return rc == -EAGAIN || rc == -ETIMEDOUT || rc == -ESHUTDOWN ||
		rc == -ENOTSUP || (rc == -E2BIG && config.c_shared_amount) ||
		is_stopped(a, rc);
}

static struct entry *submit(struct actor *a)
{
	struct engine_job job[3];
	struct entry *j[3];
	engine_id id[3];
	int i, rc, nr = 0, most = 1 + (int)any(a, 3);

	while (nr < most && (j[nr] = draw(a, &job[nr])) != NULL)
		nr++;
	if (nr == 0)
		return NULL;
	rc = engine_spawn_many(job, nr, id, patience(a));
	CHECK(rc > 0 || is_refusal(a, rc));
	a->a_stops |= rc == -ESHUTDOWN;
	for (i = 0; i < rc; i++) {
		set(&j[i]->j_accepted, 1);
		__atomic_store_n(&j[i]->j_id, id[i], __ATOMIC_SEQ_CST);
	}
	return rc > 0 ? j[0] : NULL;
}

/* Returns an entry with a number, or NULL. */
static struct entry *pick(struct actor *a, engine_id *id)
{
	long nr = get(&entries);
	struct entry *j;

	if (nr == 0)
		return NULL;
	j = &entry[any(a, (unsigned)(nr < JOBS ? nr : JOBS))];
	*id = __atomic_load_n(&j->j_id, __ATOMIC_SEQ_CST);
	return *id != 0 ? j : NULL;
}

static void wait_for(struct actor *a, struct entry *j, engine_id id,
		     utime_ns until)
{
	int result, rc = engine_wait(id, &result, until);

	if (rc == 0)
		CHECK_IS(result, result_at_end(j));
	else if (rc == -ESRCH)
		CHECK(get(&j->j_freed));
	else
		CHECK(((rc == -EAGAIN || rc == -ETIMEDOUT) && until != UNEVER) ||
		      (rc == -EDEADLK && a->a_task) || is_stopped(a, rc));
}

/* Waits for a job of its own, as long as that takes. */
static void make_and_wait(struct actor *a)
{
	struct entry *j = submit(a);

	if (j != NULL)
		wait_for(a, j, j->j_id, is_lent(a) ? soon(a) : UNEVER);
}

/* Does something to another task. */
static void meddle(struct actor *a)
{
	struct engine_stack k;
	engine_id id;
	struct entry *j = pick(a, &id);
	int rc;

	if (j == NULL)
		return;
	switch (any(a, 6)) {
	case 0:	rc = engine_cancel(id);
		CHECK(rc == 0 || rc == 1 || rc == -EALREADY || rc == -ESRCH);
		if (rc == 0)
			CHECK_IS(result_at_end(j), -ECANCELED);
		break;
	case 1:	rc = engine_set_priority(id, (int)any(a, ENGINE_LEVELS));
		CHECK(rc == 0 || rc == -EALREADY || rc == -ESRCH);
		break;
	case 2:	set(&j->j_freed, 1);
		rc = engine_free(id);
		CHECK(rc == 0 || rc == -ESRCH || rc == -EINVAL);
		return;
	case 3:	rc = engine_get_call_stack(id, &k, false, soon(a));
		CHECK(rc == 0 || rc == -ESRCH);
		if (rc == 0)
			CHECK(k.k_id == id && strcmp(k.k_name, "chaos") == 0);
		break;
	default:
		wait_for(a, j, id, soon(a));
		return;
	}
	CHECK(rc != -ESRCH || get(&j->j_freed));
}

/* The bus. */

static void release(void *data, void *arg)
{
	struct piece *p = data;

	CHECK(arg == p && p->p_magic == MAGIC);
	p->p_magic = 0;
	CHECK_IS(add(&p->p_released, 1), 1);
	add(&released, 1);
}

static void push(struct actor *a, const char *name)
{
	long nr = add(&pieces, 1) - 1;
	struct piece copy = { .p_magic = MAGIC }, *p = &piece[nr % JOBS];
	int rc;

	if (nr >= JOBS || any(a, 2))
		rc = engine_bus_push(name, &copy, sizeof copy, NULL, NULL);
	else {
		p->p_magic = MAGIC;
		rc = engine_bus_push(name, p, sizeof *p, release, p);
		add(&adopted, rc == 0);
	}
	CHECK(rc == 0 || rc == -EEXIST || rc == -ENOSPC);
}

static void pin(struct actor *a, const char *name, bool pop)
{
	struct piece *p;
	size_t size;
	void *data;
	int i, rc;

	for (i = 0; i < PINS && a->a_pin[i] != NULL; i++)
		;
	if (i == PINS)
		return;
	rc = pop ? engine_bus_pop(name, &data, &size) :
		engine_bus_get(name, &data, &size);
	CHECK(rc == 0 || rc == -ENOENT);
	if (rc != 0)
		return;
	p = data;
	CHECK(size == sizeof *p && p->p_magic == MAGIC);
	a->a_pin[i] = p;
}

static void unpin(struct actor *a, int i)
{
	if (a->a_pin[i] == NULL)
		return;
	CHECK_IS(((const struct piece *)a->a_pin[i])->p_magic, MAGIC);
	CHECK_IS(engine_bus_unpin(a->a_pin[i]), 0);
	a->a_pin[i] = NULL;
}

static void bus(struct actor *a)
{
	char name[2] = { (char)('a' + any(a, (unsigned)names)) };
	unsigned what = any(a, 16);

	if (what < 5)
		push(a, name);
	else if (what < 11)
		pin(a, name, what < 7);
	else if (what < 15)
		unpin(a, (int)any(a, PINS));
	else
		CHECK_THAT(engine_bus_clear(), >=, 0);
}

/* Acts. */

static void take(struct actor *a)
{
	struct engine_end ends[8];
	int i, nr = engine_take(batch, ends, 1 + (int)any(a, 8));

	CHECK_THAT(nr, >=, 0);
	for (i = 0; i < nr; i++) {
		struct entry *j = &entry[((struct note *)ends[i].e_arg)->n_nr];

		CHECK_IS(add(&j->j_taken, 1), 1);
		CHECK_IS(ends[i].e_result, result_at_end(j));
	}
}

static void look(struct actor *a)
{
	struct engine_stats s = stats();
	struct engine_thread h;
	int nr = (int)any(a, (unsigned)config.c_workers);

	CHECK(s.tasks_in_queue <= config.c_tasks && s.tasks_in_queue >= 0);
	CHECK(s.tasks_running >= 0 && s.tasks_failed <= s.tasks_completed);
	CHECK(config.c_shared_amount == 0 ||
	      s.tasks_memory <= config.c_shared_amount);
	CHECK_THAT(s.shared_memory_used, <=, config.c_shared_memory);
	CHECK_THAT(s.shared_memory_names, <=, names);	/* each is there once */
	CHECK_THAT(s.total_tasks_submitted, >=, s.tasks_completed +
		   s.tasks_canceled + s.tasks_in_queue + s.tasks_running);
	CHECK(engine_thread_info(nr, &h) == 0 && h.h_thread_id == nr);
}

static void help(struct actor *a)
{
	int rc, host = any(a, 2) ? engine_host_attach() : -1;

	CHECK(host >= -1 || host == -EAGAIN);
	host = host < 0 ? -1 : host;
	rc = engine_help(host, 1 + (int)any(a, 4), soon(a));
	CHECK(rc >= 0 || rc == -ESHUTDOWN || (rc == -EDEADLK && a->a_task));
	a->a_stops |= rc == -ESHUTDOWN;
	if (host >= 0)
		CHECK_IS(engine_host_detach(host), 0);
}

static void nap(struct actor *a)
{
	int rc;

	if (any(a, 2))
		rc = u_sleep(uafter(any(a, 200) * UTIME_US));
	else {
		rc = usem_wait(&sem, uafter(any(a, 200) * UTIME_US));
		if (rc == 0 || any(a, 2))
			CHECK_IS(usem_post(&sem), 0);
	}
	CHECK(rc == 0 || rc == -ETIMEDOUT || is_stopped(a, rc));
}

static void act(struct actor *a)
{
	switch (any(a, 16)) {
	case 0: case 1: case 2:
		(void)submit(a);
		return;
	case 3:
		make_and_wait(a);
		return;
	case 4: case 5: case 6:
		meddle(a);
		return;
	case 7: case 8: case 9: case 10:
		bus(a);
		return;
	case 11:
		take(a);
		return;
	case 12:
		look(a);
		return;
	case 13:
		help(a);
		return;
	case 14:
		CHECK_IS(engine_pause(1 + (int)any(a, 3)), 0);
		set(&paused, 1);
		return;
	default:
		nap(a);
	}
}

/* A task: its pins end with it. */
static int job(void *arg)
{
	const struct note *n = arg;
	struct entry *j = &entry[n->n_nr];
	struct actor a = { .a_task = true };
	unsigned nr;

	CHECK(n->n_magic == MAGIC && add(&j->j_runs, 1) == 1);
	CHECK(engine_self() != 0);
	a.a_random = check_hash(check_seed, (unsigned)n->n_nr) | 1;
	for (nr = any(&a, 4); nr > 0; nr--)
		act(&a);
	if (any(&a, 2))
		unpin(&a, 0);
	return any(&a, 8) == 0 ? -EIO : n->n_nr;
}

static void *native(void *arg)
{
	struct actor a = { .a_task = false };
	int i, nr;

	a.a_random = check_hash(check_seed, (unsigned)(intptr_t)arg + JOBS) | 1;
	for (nr = 20 + (int)any(&a, 40); nr > 0 && !a.a_stops; nr--)
		act(&a);
	for (i = 0; i < PINS; i++)
		unpin(&a, i);
	add(&over, 1);
	if (a.a_stops)
		CHECK_IS(engine_shutdown(UNEVER), 0);
	return NULL;
}

/* Programs. */

static void draw_config(struct actor *a)
{
	hosts  = any(a, 3) == 0 ? (int)any(a, 3) : 0;
	config = (struct engine_config){
		.c_workers = hosts + (hosts == 0) + (int)any(a, 3),
		.c_host_workers = hosts,
		.c_tasks_per_thread = any(a, 2) ? 1 + (int)any(a, 4) : 0,
		.c_tasks = any(a, 2) ? 1 + (long)any(a, 9) : 1000,
		.c_shared_amount = any(a, 2) ? 2000 + any(a, 9000) : 0,
		.c_shared_memory = 150 * any(a, 12),
		.c_policy = any(a, 2) ? ENGINE_FIFO : ENGINE_LIFO
	};
	names = 1 + (int)any(a, NAMES);
	memset(entry, 0, sizeof entry);
	memset(piece, 0, sizeof piece);
	entries = pieces = adopted = released = over = paused = 0;
}

/* Ends pauses. Helps at times; always, if nothing else runs tasks. */
static void attend_once(struct actor *a)
{
	if (__atomic_exchange_n(&paused, 0, __ATOMIC_SEQ_CST))
		CHECK_IS(engine_resume(ENGINE_INTAKE | ENGINE_START), 0);
	if (config.c_workers == hosts || any(a, 16) == 0)
		(void)engine_help(-1, 3, UNOW);
}

/* Attends, until it is time to shut down. */
static void attend(struct actor *a)
{
	long turns = any(a, 3) == 0 ? (long)any(a, 60) : -1;

	while (get(&over) < NATIVES && turns-- != 0) {
		attend_once(a);
		take(a);
		usleep(any(a, 200));
	}
	if (any(a, 2) == 0 || turns == -1)
		return;
	while (engine_wait_all(uafter(UTIME_MS)) != 0)
		attend_once(a);
}

static void check_entry(const struct entry *j)
{
	int result, rc;

	if (!j->j_accepted) {
		CHECK(j->j_runs == 0 && j->j_ends == 0 && j->j_taken == 0);
		return;
	}
	result = result_at_end(j);
	CHECK_IS(j->j_runs, result != -ECANCELED);
	rc = engine_wait(j->j_id, &result, UNOW);
	CHECK(rc == 0 || (rc == -ESRCH && j->j_freed));
	CHECK(rc != 0 || result == j->j_result);
}

static void check_all(struct actor *a)
{
	struct pollfd p = { .fd = engine_batch_fd(batch), .events = POLLIN };
	struct engine_stats s;
	long i, nr = get(&entries), accepted = 0, cleared;

	while (poll(&p, 1, 0) == 1)
		take(a);
	CHECK_IS(engine_batch_free(batch), 0);	/* all were taken */
	for (i = 0; i < nr && i < JOBS; i++) {
		check_entry(&entry[i]);
		accepted += entry[i].j_accepted;
	}
	cleared = engine_bus_clear();
	CHECK(cleared >= 0 && cleared <= names);
	s = stats();
	CHECK_IS(s.total_tasks_submitted, accepted);
	CHECK_IS(s.tasks_completed + s.tasks_canceled, accepted);
	CHECK(s.tasks_in_queue == 0 && s.tasks_running == 0);
	CHECK(s.tasks_memory == 0 && s.runners == 0);
	CHECK(s.shared_memory_used == 0 && s.shared_memory_names == 0);
	CHECK(s.shared_memory_pins == 0 && adopted == released);
}

static void program(unsigned seed)
{
	struct actor a = { .a_random = check_hash(seed, 1) | 1 };
	pthread_t id[NATIVES];
	intptr_t i;
	int rc;

	check_seed = seed;
	check_watch(1);
	draw_config(&a);
	memset(&sem, 0, sizeof sem);
	begin(config);
	batch = engine_batch_make();
	CHECK_THAT(batch, >, 0);
	for (i = 0; i < NATIVES; i++)
		CHECK_IS(pthread_create(&id[i], NULL, native, (void *)i), 0);
	attend(&a);
	do
		rc = engine_shutdown(soon(&a));
	while (rc == -ETIMEDOUT || rc == -EAGAIN);
	CHECK_IS(rc, 0);
	for (i = 0; i < NATIVES; i++)
		CHECK_IS(pthread_join(id[i], NULL), 0);
	check_all(&a);
	CHECK_IS(engine_fini(), 0);
}

/* Notes the seed, in case that the process dies. */
static void say_seed(unsigned seed)
{
	const char *path = getenv("CHAOS_AT");
	FILE *at = path != NULL ? fopen(path, "w") : NULL;

	if (at == NULL)
		return;
	fprintf(at, "%u\n", seed);
	fclose(at);
}

int main(int argc, char **argv)
{
	long nr = 0, seconds = argc == 4 ? atol(argv[2]) : 0;
	unsigned seed;

	check_start(argc == 4 ? 1 : argc, argv);
	seed = argc == 4 ? (unsigned)strtoul(argv[3], NULL, 0) : check_seed;
	while (argc == 4 ? check_us() - check_begun < seconds * 1000000 :
	       nr < 50) {
		say_seed(seed);
		check_again("%s replay 9 %u", argv[0], seed);
		program(seed);
		seed += argc != 4 || strcmp(argv[1], "run") == 0;
		nr++;
	}
	printf("%ld programs\n", nr);
	return 0;
}
