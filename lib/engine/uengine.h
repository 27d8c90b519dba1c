/* SPDX-License-Identifier: MIT */
/* uengine.h: runs C functions on workers, by priority, within limits. */

#ifndef UENGINE_H
#define UENGINE_H

/*
 * A program, or an interpreter, hands over C functions. Workers run them as
 * threads of ws: they may wait, lock, send, sleep and do I/O. There are limits
 * of tasks and of bytes. A caller beyond them waits or is refused.
 *
 * SHORTEST USE
 *
 *	static int work(void *arg);
 *
 *	struct engine_config c = { .c_workers = 2 };
 *	struct engine_job j = { .j_f = work, .j_arg = &data };
 *	engine_id id;
 *	int rc, result;
 *
 *	rc = engine_init(&c);
 *	rc = engine_spawn(&j, &id, UNEVER);
 *	rc = engine_wait(id, &result, UNEVER);
 *	rc = engine_shutdown(UNEVER);
 *	rc = engine_fini();
 *
 * UNITS. Times are deadlines in nanoseconds of CLOCK_MONOTONIC (uwait.h), but
 * statistics are lengths. Memory is in bytes.
 *
 * RESULTS are 0 or more, or a negative errno; engine_error() has a sentence for
 * each. A failure has changed nothing. All functions may return
 *
 *	-EINVAL		an argument is out of range, or no such number
 *	-ENODEV		there is no engine: before engine_init(), or after
 *			engine_fini()
 *	-ECHILD		the process has forked since engine_init()
 *	-ENOMEM		no memory
 *
 * WHO MAY CALL WHAT. Tasks, threads of other schedulers, and native threads
 * call all functions. Exceptions: engine_init(), engine_shutdown(),
 * engine_fini() and engine_help() are for native threads. No function may be
 * called by a signal handler, nor by a call-back of a dispatcher. There is one
 * engine in a process at a time, and it owns ws (ws.h) meanwhile. A scheduler
 * whose threads wait for the engine does not end before these waits: the engine
 * holds it (rr_hold()). Beside that a scheduler must be held while tasks may
 * wake its threads by other means, such as locks and channels.
 *
 * OWNERSHIP. Arguments and memory belong to the caller until a function has
 * returned 0, and to the caller again afterwards, unless the text says that the
 * engine copies or adopts them. Numbers of tasks, pins and batches are checked:
 * a number that was given back is -ESRCH, never a crash.
 *
 * TASKS run f(arg) on a worker. The value of f() is the result, 0 or more, or a
 * negative errno. A task may wait by all functions of lib/wait/ and lib/io/, and by
 * ucall(). Then its worker runs others, and the task may go on elsewhere: see
 * MIGRATION in ws.h. A task that makes threads begins a scope for them
 * (uscope.h), and ends it. If the task leaves it, the process ends when the
 * runner ends.
 *
 * fork(). In the child all functions return -ECHILD, except engine_init(),
 * which makes a new engine there. The memory of the old is neither used nor
 * freed. A task that forks must exec or _exit in the child.
 */

#include "uwait.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ENGINE_LEVELS	8	/* priorities 0 to 7; 7 is served first */
#define ENGINE_NAME	20	/* bytes of a task's name, with its 0 */
#define ENGINE_WORKERS	256	/* at most */
#define ENGINE_BATCHES	64	/* at most at a time */
#define ENGINE_TASKS	16000000 /* at most at a time */

/* The n-th oldest task of a level begins after at most n times so many. */
#define ENGINE_BOUND	128

/* A task, as long as its number is kept; 0 is no task. */
typedef uint64_t engine_id;

enum engine_policy {
	ENGINE_LIFO,		/* of equal priority, the newest begins first */
	ENGINE_FIFO		/* the oldest */
};

enum { ENGINE_MORE_WORKERS = 1 };	/* c_flags: also more than the cpus */

/* 0 means the value in brackets. */
struct engine_config {
	int      c_workers;		/* C and host workers [the cpus] */
	int      c_host_workers;	/* host workers, counted in c_workers, too */
	int      c_tasks_per_thread;	/* begun on a C worker, that have not
					 * ended, and do not wait for a task or
					 * for room [100] */
	long     c_tasks;		/* queued [1,000,000] */
	size_t   c_shared_amount;	/* bytes of tasks [no limit] */
	size_t   c_shared_memory;	/* bytes of named memory [none] */
	enum engine_policy c_policy;
	unsigned c_flags;
	size_t   c_stack;		/* bytes of a task [as ws] */
};

/*
 * Makes the engine. Host workers are native threads of the program, for code
 * that needs a lock of its own, such as the lock of an interpreter. The engine
 * makes none: they only say what they do, and may help. If all workers are
 * host workers, tasks run only in engine_help(). Native threads; not in a fork
 * of a task. -EBUSY: there is an engine, or ws is in use; -EAGAIN: the system
 * refuses native threads.
 */
int engine_init(const struct engine_config *c);

/* Flags of a task. */
enum {
	ENGINE_DETACHED = 1,	/* its number is given back as it ends */
	ENGINE_C_ONLY = 2	/* engine_help() must not run it, and looks at
				 * some tasks behind it, not at all */
};

struct engine_job {
	int       (*j_f)(void *arg);
	void       *j_arg;
	size_t      j_size;	/* not 0: so many bytes at j_arg are copied, and
				 * f() gets the copy */
	size_t      j_bytes;	/* more bytes to count against the limit */
	int         j_priority;	/* 0 to ENGINE_LEVELS - 1 */
	unsigned    j_flags;
	const char *j_name;	/* copied, and cut; or NULL */
	int         j_batch;	/* which gets the end; or 0 */
	/* Called once, after f() or a cancellation, by the thread that ends the
	 * task, before waits for the end return; or NULL. Must not wait. */
	void      (*j_end)(engine_id id, void *arg, int result);
};

/*
 * Queues a task. id may be NULL with ENGINE_DETACHED, or with a batch. If a
 * limit is reached, or intake is paused, waits until the deadline: UNOW refuses
 * at once. A task that waits here does not count in c_tasks_per_thread, so
 * others may make room. But if the bytes belong to tasks that all wait here,
 * only a deadline ends that. If few places become free, a caller may wait twice
 * as long as it must, and a millisecond. -EAGAIN: full or paused, and until is
 * UNOW; -ETIMEDOUT; -ECANCELED; -ESHUTDOWN; -E2BIG: it would never fit;
 * -ENOTSUP: ENGINE_C_ONLY without C workers.
 */
int engine_spawn(const struct engine_job *j, engine_id *id, utime_ns until);

/*
 * Queues nr tasks, each as engine_spawn() does, for less. Returns how many were
 * queued, the first of them; or an error if none was. ids may be NULL if it may
 * be NULL for each.
 */
int engine_spawn_many(const struct engine_job *j, int nr, engine_id *ids,
		      utime_ns until);

/*
 * Returns whether a task with so many bytes, as j_size and j_bytes, could be
 * queued now: 1 or 0. Others may be faster. -ESHUTDOWN; -E2BIG.
 */
int engine_room(size_t bytes);

/*
 * Waits until a task has ended, and sets *result, if result is not NULL: to
 * what f() has returned, or to -ECANCELED if it was cancelled in the queue. A
 * task that waits here does not count in c_tasks_per_thread, so tasks may wait
 * for each other at any depth.
 * -ESRCH; -ETIMEDOUT, -ECANCELED, -EAGAIN; -EDEADLK: id is the caller.
 */
int engine_wait(engine_id id, int *result, utime_ns until);

/*
 * Gives a number back: at once if the task has ended, else as it ends. It is
 * not stopped. -ESRCH.
 */
int engine_free(engine_id id);

/*
 * Cancels a task. 0: it was queued, will not begin, and has ended; 1: it runs,
 * and was asked to stop: its waits return -ECANCELED, and engine_stopping() is
 * true. -EALREADY: it has ended; -ESRCH.
 */
int engine_cancel(engine_id id);

/* Returns whether the calling task was asked to stop. */
int engine_stopping(void);

/* Returns the number of the calling task, or 0. */
engine_id engine_self(void);

/* Moves a queued task to another level, as its newest. -EALREADY, -ESRCH. */
int engine_set_priority(engine_id id, int priority);

/*
 * BATCHES. A batch has a descriptor, which can be read when tasks of the batch
 * have ended. Many ends make a single wake: the next comes after engine_take().
 */

/* Makes a batch. Returns its number, above 0. -EMFILE, -ENFILE. */
int engine_batch_make(void);

/* Returns the descriptor, for poll() and its like. Only engine_take() reads. */
int engine_batch_fd(int batch);

struct engine_end {
	engine_id e_id;
	void     *e_arg;	/* as j_arg: not the copy */
	int       e_result;
};

/*
 * Takes up to nr tasks that have ended, the oldest end first, and gives their
 * numbers back. Returns how many: 0 if there is none.
 */
int engine_take(int batch, struct engine_end *ends, int nr);

/* Frees a batch. -EBUSY: it has tasks that were not taken. */
int engine_batch_free(int batch);

/*
 * LIFECYCLE
 */
enum {
	ENGINE_INTAKE = 1,	/* new tasks wait or are refused; others run */
	ENGINE_START  = 2	/* no task begins; tasks that have begun go on */
};

/* Pauses the intake, the start of tasks, or both. */
int engine_pause(int what);

/* Ends a pause of the intake, of the start of tasks, or of both. */
int engine_resume(int what);

/*
 * Waits until all tasks have ended. Others may queue more meanwhile. If starts
 * are paused, it waits for the resume. -EDEADLK: a task calls; -ETIMEDOUT,
 * -EAGAIN.
 */
int engine_wait_all(utime_ns until);

/*
 * Refuses new tasks, cancels the queued tasks, asks the others to stop, waits
 * until they have ended, and stops the workers. Nothing is killed. Results,
 * batches and named memory stay until engine_fini(). Native threads, also
 * several at a time, each with a deadline of its own. -ETIMEDOUT, -EAGAIN: some
 * tasks still run, and the engine refuses work; call again. -ENOMEM: call
 * again. -EDEADLK: a task or a helper calls.
 */
int engine_shutdown(utime_ns until);

/*
 * Frees the engine and its memory. -EBUSY: engine_shutdown() has not returned
 * 0; or pins are held.
 */
int engine_fini(void);

/*
 * HOST WORKERS
 */

/* Becomes a host worker, until detach. Returns its number. -EAGAIN: all are. */
int engine_host_attach(void);

/* Says what a host worker does: a name, which is copied, or NULL: nothing. */
int engine_host_report(int host, const char *task);

/* Ends the work of a host worker: the caller is none any more. -EINVAL. */
int engine_host_detach(int host);

/*
 * Lends the calling native thread: it runs up to nr tasks, natively, so a task
 * that waits blocks it, and a cancellation does not end that wait. Waits for a
 * first task until the deadline. host is a number of engine_host_attach(), or
 * -1. Returns how many it has run. -EDEADLK: a task calls; -ESHUTDOWN.
 */
int engine_help(int host, int nr, utime_ns until);

/*
 * NAMED MEMORY, within c_shared_memory bytes: of the data, of names, and of a
 * record of less than 100 bytes for each name. It lives until it has no name and
 * no pin. Pins of a task end with the task, however that ends. All other pins
 * must be given back by engine_bus_unpin(). The bytes are not protected: a task
 * that writes while others read needs a lock.
 */

/*
 * Gives memory a name. release is NULL: the bytes are copied; else they are
 * adopted, and release(data, arg) is called at the end of their life, by any
 * thread, in which it must not wait. -EEXIST; -ENOSPC: over the limit.
 */
int engine_bus_push(const char *name, void *data, size_t size,
		    void (*release)(void *data, void *arg), void *arg);

/*
 * Pins memory, and sets *data and *size, which may be NULL. -ENOENT;
 * -EOVERFLOW: there are LONG_MAX pins.
 */
int engine_bus_get(const char *name, void **data, size_t *size);

/* Pins memory as engine_bus_get(), and takes the name away. */
int engine_bus_pop(const char *name, void **data, size_t *size);

/* Ends a pin of the calling task, or of the program. -ESRCH: there is none. */
int engine_bus_unpin(const void *data);

/* Takes all names away. Returns how many. */
long engine_bus_clear(void);

/* What engine_get_stats() fills in: counts since engine_init(), or of now. */
struct engine_stats {
	long   total_tasks_submitted;
	long   tasks_completed;		/* f() has returned, also with an error */
	long   tasks_failed;		/* f() has returned an error */
	long   tasks_canceled;		/* cancelled in the queue */
	long   tasks_in_queue;
	long   tasks_running;		/* begun, also those that wait */
	int    gil_threads_active;
	int    gil_threads_idle;
	int    c_threads_active;
	int    c_threads_idle;
	size_t tasks_memory;		/* bytes of tasks, with arguments */
	size_t shared_memory_used;
	size_t shared_memory_available;
	long   shared_memory_names;
	long   shared_memory_pins;
	double avg_task_latency_ms;	/* from submission to end: of all tasks
					 * if they are few, else of a sample */
	long   bus_contention_count;	/* the lock was taken */
	long   tasks_helped;		/* run by engine_help() */
	long   runners;			/* threads of ws for tasks, now */
};

/* Fills in the statistics. */
int engine_get_stats(struct engine_stats *s);

enum engine_state {
	ENGINE_IDLE,		/* nothing runs */
	ENGINE_RUNNING,		/* a task runs */
	ENGINE_WAITING,		/* all tasks that it has begun wait */
	ENGINE_BLOCKED		/* a host worker: busy with code of its host */
};

struct engine_thread {
	int      h_thread_id;
	char     h_host;		/* a host worker; else a C worker */
	enum engine_state h_state;
	engine_id h_current;		/* its task, or 0 */
	char     h_task[ENGINE_NAME];	/* name of that task, or "" */
	long     h_completed;
	long     h_cpu_ms;		/* of the native thread; -1: not known */
	long     h_idle_ms;		/* all other time */
	long     h_last_active_ms;	/* ago; -1: never */
};

/* Describes a worker, from 0 on: first C, then host workers. -ESRCH. */
int engine_thread_info(int thread, struct engine_thread *h);

enum engine_stage {
	ENGINE_QUEUED, ENGINE_RUNS, ENGINE_WAITS, ENGINE_ENDED
};

struct engine_frame {
	void *f_pc;
	char  f_function[64];	/* "" if unknown */
	char  f_file[128];	/* source, or the loaded file */
	int   f_line;		/* 0 if unknown */
};

#define ENGINE_FRAMES	32

/* A snapshot, which nothing changes later. */
struct engine_stack {
	engine_id k_id;
	char      k_name[ENGINE_NAME];
	enum engine_stage k_stage;
	int       k_priority;
	int       k_thread;	/* worker; -1: none */
	int       k_result;	/* if it has ended */
	const char *k_waits_for; /* as uwait_kind_name(), or NULL */
	utime_ns  k_time;	/* of the snapshot */
	utime_ns  k_since;	/* it is in this stage; up to 10 ms early */
	size_t    k_pinned;	/* bytes of named memory, at most SIZE_MAX */
	int       k_pins;	/* at most INT_MAX */
	int       k_frames;
	struct engine_frame k_frame[ENGINE_FRAMES];
};

/*
 * Describes a task, with the call stack if it waits on a C worker that comes to
 * it before the deadline; else k_frames is 0. lines: asks addr2line, if that is
 * installed, for files and lines, which takes milliseconds. -ESRCH.
 */
int engine_get_call_stack(engine_id id, struct engine_stack *k, int lines,
			  utime_ns until);

/* Returns a sentence for an error of these functions. */
const char *engine_error(int error);

#ifdef __cplusplus
}
#endif

#endif /* UENGINE_H */
