/* SPDX-License-Identifier: MIT */
/* see.c: statistics, native threads, and call stacks of tasks that wait. */

/*
 * A task that waits lies on a lane (usched.h) or in a buffer, and only its home,
 * a worker of ws, may run it. So the stack is walked there: by a thread that is
 * made for this, and pinned to that worker.
 *
 *	asks					at the home
 *
 *	EC1 a thread, pinned to the home
 *						EC2 get the lock: the task has
 *						    not ended, and waits
 *						EC3 in (stop.h): it is at home
 *						    here, and no thief takes it
 *						EC4 walk, out
 *	EC6 copy				EC5 release, complete
 *
 * While the thread of EC3 runs, its worker runs no other. The lock keeps the
 * task from its end, and so the runner from its own. If the task has moved
 * between EC1 and EC3, the asker tries again, until its deadline. If the home
 * computes, the thread comes late: then the snapshot has no frames.
 *
 * The asker and the thread share a block on the heap, which the last frees.
 *
 * REJECTED: a walk at each wait, by the task itself: it would cost each wait
 * microseconds. A wake of the task, which would walk its own stack: wakes are
 * counted, so a later wait would see it.
 */

#include "inside.h"
#include "ufork.h"
#include "usymbol.h"
#include "utrace.h"
#include "worker.h"
#include "ws.h"

#include <dlfcn.h>
#if defined(__linux__)
#include <link.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#pragma weak dladdr

#define TRIES	10

/* Statistics. */

static int active(int from, int nr)
{
	int i, sum = 0;

	for (i = from; i < from + nr; i++)
		sum += engine_current(&e->e_native[i]) != NULL ||
			e->e_native[i].nt_task[0] != '\0';
	return sum;
}

int engine_get_stats(struct engine_stats *s)
{
	int rc = s == NULL ? -EINVAL : engine_enter();

	if (rc != 0)
		return rc;
	*s = (struct engine_stats){
		.total_tasks_submitted = e->e_submitted,
		.tasks_completed       = e->e_completed,
		.tasks_failed          = e->e_failed,
		.tasks_canceled        = e->e_canceled,
		.tasks_in_queue        = e->e_queued,
		.tasks_running         = e->e_busy + e->e_helping,
		.gil_threads_active    = active(e->e_c_workers, e->e_host_workers),
		.c_threads_active      = active(0, e->e_c_workers),
		.tasks_memory          = e->e_bytes,
		.avg_task_latency_ms   = e->e_timed == 0 ? 0 :
			e->e_latency / (double)e->e_timed / UTIME_MS,
		.bus_contention_count  = e->e_contended,
		.tasks_helped          = e->e_helped,
		.runners               = e->e_runners
	};
	s->gil_threads_idle = e->e_host_workers - s->gil_threads_active;
	s->c_threads_idle   = e->e_c_workers - s->c_threads_active;
	engine_bus_count(s);
	engine_unlock();
	return 0;
}

/* Native threads. */

/* Returns whether a task that began there waits. Caller holds the lock. */
static bool is_waiting(int nr)
{
	const struct runner *r;

	for (r = e->e_ring.r_next; r != &e->e_ring; r = r->r_next)
		if (__atomic_load_n(&r->r_kind, __ATOMIC_RELAXED) != NULL &&
		    __atomic_load_n(&r->r_thread, __ATOMIC_RELAXED) == nr)
			return true;
	return false;
}

/* Returns the ms that the native thread of k has used, or -1. */
static long cpu_ms(const struct native *k)
{
	struct timespec t;

	if (!__atomic_load_n(&k->nt_clocked, __ATOMIC_ACQUIRE) ||
	    clock_gettime(k->nt_clock, &t) != 0)
		return -1;
	return t.tv_sec * 1000L + t.tv_nsec / 1000000;
}

static void describe(int nr, struct engine_thread *h)
{
	const struct native *k = &e->e_native[nr];
	const struct runner *r = engine_current(k);
	utime_ns now = unow();

	*h = (struct engine_thread){
		.h_thread_id = nr, .h_host = nr >= e->e_c_workers,
		.h_completed = k->nt_completed, .h_cpu_ms = cpu_ms(k),
		.h_last_active_ms = k->nt_last == 0 ? -1 :
			(long)((now - k->nt_last) / UTIME_MS)
	};
	h->h_idle_ms = (long)((now - e->e_began) / UTIME_MS) -
		(h->h_cpu_ms > 0 ? h->h_cpu_ms : 0);
	if (r != NULL && r->r_task != NULL) {
		h->h_state   = ENGINE_RUNNING;
		h->h_current = engine_number(r->r_task);
		memcpy(h->h_task, r->r_task->t_name, ENGINE_NAME);
	} else if (k->nt_task[0] != '\0') {
		h->h_state = ENGINE_BLOCKED;
		memcpy(h->h_task, k->nt_task, ENGINE_NAME);
	} else if (is_waiting(nr))
		h->h_state = ENGINE_WAITING;
}

int engine_thread_info(int thread, struct engine_thread *h)
{
	int rc = h == NULL ? -EINVAL : engine_enter();

	if (rc != 0)
		return rc;
	if (thread >= 0 && thread < e->e_c_workers + e->e_host_workers)
		describe(thread, h);
	else
		rc = -ESRCH;
	engine_unlock();
	return rc;
}

/* Call stacks. */

struct walk {
	int            wk_holders;
	engine_id      wk_id;
	struct waiter *wk_asker;		/* a ring */
	int            wk_nr;		/* frames; -EAGAIN: not yet */
	bool           wk_done;
	void          *wk_pc[ENGINE_FRAMES];
};

/* Returns whether the caller is the last holder of w. Caller holds the lock. */
static bool let_go(struct walk *w)
{
	return --w->wk_holders == 0;
}

/* Returns the runner of a task that waits on a thread of ws, or NULL. */
static struct runner *waits(const struct task *t)
{
	struct runner *r = t != NULL ? engine_runner_of(t) : NULL;

	return r != NULL && r->r_stack != NULL &&
		__atomic_load_n(&r->r_kind, __ATOMIC_RELAXED) != NULL ? r : NULL;
}

/* Walks the stack of u, if it is at home here: EC3, EC4. */
static int walk_here(const struct ustack *u, void **pc)
{
	struct ws_worker *w = (struct ws_worker *)usched_self();
	int nr = -EAGAIN;

	ws_enter(w);
	if (ws_home((const struct uproc_thread *)u) == w)
		nr = ustack_trace(u, pc, ENGINE_FRAMES);
	ws_leave(w);
	return nr;
}

/* What the pinned thread runs. It frees w if the asker has gone. */
static void walk(void *arg)
{
	struct claimed l = { NULL };
	struct walk *w = arg;
	struct runner *r;

	engine_lock();						/* EC2 */
	r = waits(engine_find(w->wk_id));
	w->wk_nr   = r != NULL ? walk_here(r->r_stack, w->wk_pc) : 0;
	w->wk_done = true;
	if (!let_go(w)) {
		engine_claim_all(&w->wk_asker, 0, &l);
		engine_complete(&l);				/* EC5 */
		return;
	}
	engine_unlock();
	free(w);
}

/* Waits until *done, which is set under the lock. 0 or an error. */
static int await(struct waiter **ring, const bool *done, utime_ns until)
{
	struct claimed l = { NULL };
	struct waiter *a;
	int rc;

	a = engine_waiter(until, &rc);
	if (a == NULL)
		return rc;
	engine_lock();
	if (!*done) {
		(void)engine_wait_in(ring, a, until, &l, &rc);
		return rc;
	}
	engine_unlock();
	uwait_free(a);
	return 0;
}

/* Has the stack of r walked. Returns the number of frames, or an error. */
static int ask(struct walk *w, int home, utime_ns until)
{
	int rc, nr;

	w->wk_holders = 2;
	w->wk_done    = false;
	w->wk_nr      = 0;
	if (ws_thread_pinned(home, walk, w) == NULL) {		/* EC1 */
		w->wk_holders = 1;
		return -ENOMEM;
	}
	rc = await(&w->wk_asker, &w->wk_done, until);
	if (rc != 0)
		return rc;
	nr = w->wk_nr;
	return nr < ENGINE_FRAMES ? nr : ENGINE_FRAMES;
}

/* Describes t. Caller holds the lock. */
static void snapshot(const struct task *t, struct engine_stack *k)
{
	const struct runner *r = engine_runner_of(t);
	const struct uwait_kind *kind = r != NULL ?
		__atomic_load_n(&r->r_kind, __ATOMIC_RELAXED) : NULL;

	*k = (struct engine_stack){
		.k_id = engine_number(t), .k_stage = t->t_stage,
		.k_priority = t->t_level, .k_time = unow(),
		.k_thread = r == NULL ? -1 :
			__atomic_load_n(&r->r_thread, __ATOMIC_RELAXED),
		.k_result = t->t_stage == ENGINE_ENDED ? t->t_result : 0,
		.k_since = r != NULL ? r->r_begun : t->t_time
	};
	memcpy(k->k_name, t->t_name, ENGINE_NAME);
	engine_bus_pinned(t, &k->k_pinned, &k->k_pins);
	if (kind == NULL)
		return;
	k->k_stage     = ENGINE_WAITS;
	k->k_waits_for = uwait_kind_name(kind);
	k->k_since     = __atomic_load_n(&r->r_since, __ATOMIC_RELAXED);
}

/* Takes a snapshot, and sets *home: -1 if there is nothing to walk. */
static int look(engine_id id, struct engine_stack *k, int *home)
{
	const struct runner *r;
	const struct task *t;
	int rc = engine_enter();

	*home = -1;
	if (rc != 0)
		return rc;
	t = engine_find(id);
	if (t != NULL)
		snapshot(t, k);
	r = waits(t);
	if (r != NULL && e->e_state < STOPPING) {
		const struct ws_worker *w = ws_home(
			(const struct uproc_thread *)r->r_stack);

		if (w != NULL)
			*home = w->w_proc.p_nr;
	}
	if (*home >= 0)
		ws_hold();		/* until it has been asked */
	engine_unlock();
	return t != NULL ? 0 : -ESRCH;
}

/* Names. */

/* Held while another program runs, so not taken before a fork. */
static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER;

static void naming_forked(void)
{
	naming = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static struct ufork at_fork = {
	.f_rank = UFORK_NAMES, .f_child = naming_forked
};
UFORK(at_fork)

#if defined(__linux__)
/* Returns the path of the loaded file, in which no quote stands, or "". */
static const char *path_of(const Dl_info *info, char *path, size_t size)
{
	ssize_t nob;

	if (strchr(info->dli_fname, '/') != NULL)
		snprintf(path, size, "%s", info->dli_fname);
	else {
		nob = readlink("/proc/self/exe", path, size - 1);
		path[nob > 0 ? nob : 0] = '\0';
	}
	return strchr(path, '\'') == NULL ? path : "";
}

/* Asks addr2line for the file and line of at, in the file of info. */
static void line_of(struct engine_frame *f, const Dl_info *info, uintptr_t at)
{
	const ElfW(Ehdr) *elf = info->dli_fbase;
	char path[512], command[640], text[256] = "";
	FILE *out;
	char *colon;

	if (path_of(info, path, sizeof path)[0] == '\0')
		return;
	at -= elf->e_type == ET_DYN ? (uintptr_t)info->dli_fbase : 0;
	snprintf(command, sizeof command,
		 "addr2line -e '%s' 0x%lx 2>/dev/null", path, (unsigned long)at);
	out = popen(command, "re");
	if (out == NULL)
		return;
	if (fgets(text, sizeof text, out) == NULL)
		text[0] = '\0';
	(void)pclose(out);
	colon = strrchr(text, ':');
	if (colon == NULL || atoi(colon + 1) <= 0)
		return;
	*colon = '\0';
	snprintf(f->f_file, sizeof f->f_file, "%.*s",
		 (int)sizeof f->f_file - 1, text);
	f->f_line = atoi(colon + 1);
}
#else
static void line_of(struct engine_frame *f, const Dl_info *info, uintptr_t at)
{
	(void)f, (void)info, (void)at;
}
#endif

/* Names the call before pc. */
static void name(struct engine_frame *f, void *pc, bool lines)
{
	char *at = (char *)pc - 1;
	Dl_info info;
	int found;

	memset(f, 0, sizeof *f);
	f->f_pc = pc;
	(void)usymbol_name(f->f_function, sizeof f->f_function, at, 0);
	f->f_function[strcspn(f->f_function, "+")] = '\0';
	if (&dladdr == NULL)
		return;
	usymbol_ask();
	found = dladdr(at, &info);
	usymbol_asked();
	if (found == 0)
		return;
	snprintf(f->f_file, sizeof f->f_file, "%.*s",
		 (int)sizeof f->f_file - 1, info.dli_fname);
	if (lines)
		line_of(f, &info, (uintptr_t)at);
}

static void name_all(struct engine_stack *k, void *const *pc, int nr,
		     bool lines)
{
	int i;

	(void)pthread_mutex_lock(&naming);
	for (i = 0; i < nr; i++)
		name(&k->k_frame[i], pc[i], lines);
	usymbol_end();
	(void)pthread_mutex_unlock(&naming);
	k->k_frames = nr;
}

int engine_get_call_stack(engine_id id, struct engine_stack *k, int lines,
			  utime_ns until)
{
	struct walk *w;
	int rc, home, nr = -EAGAIN, tries = 0;
	bool last;

	if (k == NULL || until < 0)
		return -EINVAL;
	w = calloc(1, sizeof *w);
	if (w == NULL)
		return -ENOMEM;
	w->wk_id = id;
	w->wk_holders = 1;
	while (nr == -EAGAIN && tries++ < TRIES &&
	       (rc = look(id, k, &home)) == 0 && home >= 0) {
		nr = until != UNOW ? ask(w, home, until) : 0;
		ws_release();
	}
	if (rc == 0 && nr > 0)
		name_all(k, w->wk_pc, nr, lines);
	engine_lock();
	last = let_go(w);
	engine_unlock();
	if (last)
		free(w);
	return rc;
}
