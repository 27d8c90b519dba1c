# SPDX-License-Identifier: MIT
"""
usched.pxd: the C library, for Cython.

    from usched_engine.usched cimport ws_spawn, ws_yield

    cdef void task(void *arg) noexcept nogil:
        ws_yield()

HOW TO BUILD. The headers are in usched_engine.get_include(). Do not link a
library: call usched_engine.share_symbols() before the module is imported. Then
it calls the functions in this package, and shares its engine and schedulers.

WHAT A THREAD MAY RUN. A thread of rr, ll or ws, or a task of the engine, never
takes the GIL, and touches no Python object, because Python does not run on
copied stacks. So its functions are "noexcept nogil" without "with gil". Cython
takes the GIL to raise errors of C code: set cdivision=True, and
boundscheck=False, wraparound=False where memory views are indexed.

Each header has its text: times are deadlines in ns of CLOCK_MONOTONIC, results
are 0 or a negative errno. Structs of locks are ready when they are zeroed, and
do not lie on the stack of a thread. Cython has a single space of names, so
uonce_do() is uonce(), and uticker_every() is uticker().
"""

from libc.stdint cimport int64_t, uint64_t

cdef extern from "usched/usched.h" nogil:
    struct ustack:
        pass
    struct usched:
        pass

    ustack *ustack_self()

cdef extern from "usched/uwait.h" nogil:
    ctypedef int64_t utime_ns

    const utime_ns UTIME_US
    const utime_ns UTIME_MS
    const utime_ns UTIME_S
    const utime_ns UNEVER
    const utime_ns UNOW

    struct uticker:
        utime_ns k_next
        utime_ns k_period

    utime_ns unow()
    utime_ns uafter(utime_ns ns)
    int u_sleep(utime_ns until)
    int u_wait_until(utime_ns until)
    uticker uticker_every "uticker"(utime_ns period)
    int uticker_wait(uticker *k, long *missed)
    void utime_virtual(uint64_t seed)
    uint64_t utime_seed()
    int utime_is_virtual()

# Threads: rr is fair, ll keeps groups together, ws lets threads move.

cdef extern from "usched/rr.h" nogil:
    struct rr_thread:
        pass

    int rr_init(int proc_nr, int thread_nr)
    int rr_stack_size(size_t size)
    int rr_pinning(int on)
    int rr_private(int on)
    int rr_start()
    int rr_fini()
    long rr_stuck()
    void rr_hold()
    void rr_release()
    rr_thread *rr_thread_init(void (*f)(void *) noexcept nogil, void *arg)
    rr_thread *rr_thread_on(int proc, void (*f)(void *) noexcept nogil,
                            void *arg)
    rr_thread *rr_thread_joinable(void (*f)(void *) noexcept nogil, void *arg)
    int rr_join(rr_thread *t)
    int rr_join_until(rr_thread *t, utime_ns until)
    int rr_yield()
    rr_thread *rr_self()
    int rr_wait()
    void rr_wake(rr_thread *t)
    void rr_post(rr_thread *t)

cdef extern from "usched/ll.h" nogil:
    struct ll_thread:
        pass

    int ll_init(int proc_nr, int thread_nr)
    int ll_stack_size(size_t size)
    int ll_pinning(int on)
    int ll_private(int on)
    int ll_start()
    int ll_fini()
    long ll_stuck()
    void ll_hold()
    void ll_release()
    ll_thread *ll_thread_init(void (*f)(void *) noexcept nogil, void *arg,
                              int group)
    ll_thread *ll_thread_joinable(void (*f)(void *) noexcept nogil, void *arg,
                                  int group)
    int ll_join(ll_thread *t)
    int ll_join_until(ll_thread *t, utime_ns until)
    int ll_yield()
    ll_thread *ll_self()
    int ll_wait()
    void ll_wake(ll_thread *t)
    void ll_post(ll_thread *t)

cdef extern from "usched/ws.h" nogil:
    struct ws_thread:
        pass

    int ws_init(int proc_nr, int thread_nr)
    int ws_stack_size(size_t size)
    int ws_pinning(int on)
    int ws_private(int on)
    int ws_start()
    int ws_fini()
    long ws_stuck()
    void ws_hold()
    void ws_release()
    int ws_spawn(void (*f)(void *) noexcept nogil, void *arg)
    ws_thread *ws_thread_init(void (*f)(void *) noexcept nogil, void *arg)
    ws_thread *ws_thread_on(int proc, void (*f)(void *) noexcept nogil,
                            void *arg)
    ws_thread *ws_thread_pinned(int proc, void (*f)(void *) noexcept nogil,
                                void *arg)
    ws_thread *ws_thread_joinable(void (*f)(void *) noexcept nogil, void *arg)
    int ws_join(ws_thread *t)
    int ws_join_until(ws_thread *t, utime_ns until)
    void ws_pin()
    void ws_unpin()
    int ws_proc()
    int ws_yield()
    ws_thread *ws_self()
    int ws_wait()
    void ws_wake(ws_thread *t)
    void ws_post(ws_thread *t)

cdef extern from "usched/ucall.h" nogil:
    int ucall(void (*f)(void *) noexcept nogil, void *arg)
    int ucall_limit(int nr)

# Locks and groups.

cdef extern from "usched/usync.h" nogil:
    struct umutex:
        pass
    struct ucond:
        pass
    struct usem:
        pass
    struct urw:
        pass
    struct ugroup:
        pass
    struct uonce:
        pass
    struct ubarrier:
        unsigned br_nr

    int umutex_lock(umutex *m, utime_ns until)
    void umutex_disown(umutex *m)
    int umutex_adopt(umutex *m)
    int urw_read_again(urw *l, utime_ns until)
    void umutex_unlock(umutex *m)
    int ucond_wait(ucond *c, umutex *m, utime_ns until)
    int ucond_wait_rw(ucond *c, urw *l, utime_ns until)
    void ucond_signal(ucond *c)
    void ucond_broadcast(ucond *c)
    int usem_wait(usem *s, utime_ns until)
    int usem_post(usem *s)
    unsigned usem_value(const usem *s)
    int urw_read(urw *l, utime_ns until)
    int urw_write(urw *l, utime_ns until)
    void urw_unlock(urw *l)
    int ugroup_add(ugroup *g, int nr)
    void ugroup_done(ugroup *g)
    int ugroup_wait(ugroup *g, utime_ns until)
    int ubarrier_wait(ubarrier *b, utime_ns until)
    int uonce_do "uonce"(uonce *o, int (*f)(void *arg) noexcept nogil,
                         void *arg, utime_ns until)
    int umutex_busy(const umutex *m)
    int ucond_busy(const ucond *c)
    int usem_busy(const usem *s)
    int urw_busy(const urw *l)
    int ugroup_busy(const ugroup *g)
    int ubarrier_busy(const ubarrier *b)

# Channels.

cdef extern from "usched/uchan.h" nogil:
    const int UCHAN_SIZE_MOST

    struct uchan:
        pass
    struct ucase:
        uchan *cs_chan
        void *cs_value
        unsigned char cs_send
        int cs_result

    uchan *uchan_make(int size, unsigned room)
    uchan *uchan_make_local(int size, unsigned room)
    int uchan_send(uchan *c, const void *v, utime_ns until)
    int uchan_recv(uchan *c, void *v, utime_ns until)
    int uchan_close(uchan *c)
    void uchan_free(uchan *c)
    unsigned uchan_count(const uchan *c)
    int uselect(ucase *cases, int nr, utime_ns until)
    int uselect_ordered(ucase *cases, int nr, utime_ns until)

# Threads that end together, and threads with a result.

cdef extern from "usched/uscope.h" nogil:
    struct uscope:
        pass

    int uscope_begin(uscope **s, utime_ns until)
    int uscope_shield(uscope **s, utime_ns until)
    int uscope_go(uscope *s, int (*f)(void *) noexcept nogil, void *arg)
    void uscope_hold(uscope *s)
    void uscope_release(uscope *s)
    int uscope_end(uscope **s)
    void uscope_cancel(uscope *s)
    long uscope_errors(uscope *s)
    int uscope_end_errors(uscope **s, long *errors)
    uscope *uscope_self()
    int u_canceled()

cdef extern from "usched/uthread.h" nogil:
    const int UTHREAD_NAME

    struct uthread:
        pass

    int uthread_make(uthread **t, void *(*f)(void *) noexcept nogil, void *arg,
                     const char *name)
    int uthread_join(uthread *t, void **result, utime_ns until)
    int uthread_detach(uthread *t)
    int uthread_interrupt(uthread *t)
    int uthread_interrupted()
    int uthread_interruptible(int on)
    uthread *uthread_self()
    int uthread_name(uthread *t, char *name)
    int uthread_set_name(const char *name)
    void *uthread_data(const uthread *t)
    int uthread_set_data(uthread *t, void *data)
    int ukey_make(unsigned *key, void (*destroy)(void *) noexcept nogil)
    int ukey_free(unsigned key)
    int ukey_set(unsigned key, const void *value)
    void *ukey_get(unsigned key)

# Descriptors: only the waiting thread waits.

cdef extern from "usched/uio.h" nogil:
    int u_wait_fd(int fd, int what, utime_ns until)
    ssize_t u_read(int fd, void *buf, size_t size, utime_ns until)
    ssize_t u_write(int fd, const void *buf, size_t size, utime_ns until)
    ssize_t u_read_all(int fd, void *buf, size_t size, utime_ns until)
    ssize_t u_write_all(int fd, const void *buf, size_t size, utime_ns until)
    ssize_t u_recv(int fd, void *buf, size_t size, int flags, utime_ns until)
    ssize_t u_send(int fd, const void *buf, size_t size, int flags,
                   utime_ns until)
    int u_close(int fd)
    int u_trust(int fd)

# The engine, as tasks of c_spawn() and C programs see it.

cdef extern from "usched/uengine.h" nogil:
    ctypedef uint64_t engine_id

    enum engine_policy:
        ENGINE_LIFO
        ENGINE_FIFO
    enum:
        ENGINE_LEVELS
        ENGINE_NAME
        ENGINE_DETACHED
        ENGINE_C_ONLY
        ENGINE_INTAKE
        ENGINE_START
        ENGINE_MORE_WORKERS

    struct engine_config:
        int c_workers
        int c_host_workers
        int c_tasks_per_thread
        long c_tasks
        size_t c_shared_amount
        size_t c_shared_memory
        engine_policy c_policy
        unsigned c_flags
        size_t c_stack
    struct engine_job:
        int (*j_f)(void *arg) noexcept nogil
        void *j_arg
        size_t j_size
        size_t j_bytes
        int j_priority
        unsigned j_flags
        const char *j_name
        int j_batch
        void (*j_end)(engine_id id, void *arg, int result) noexcept nogil
    struct engine_end:
        engine_id e_id
        void *e_arg
        int e_result
    struct engine_stats:
        long total_tasks_submitted
        long tasks_completed
        long tasks_failed
        long tasks_canceled
        long tasks_in_queue
        long tasks_running
        size_t tasks_memory
        size_t shared_memory_used
        size_t shared_memory_available
        double avg_task_latency_ms

    int engine_init(const engine_config *c)
    int engine_spawn(const engine_job *j, engine_id *id, utime_ns until)
    int engine_spawn_many(const engine_job *j, int nr, engine_id *ids,
                          utime_ns until)
    int engine_room(size_t bytes)
    int engine_wait(engine_id id, int *result, utime_ns until)
    int engine_free(engine_id id)
    int engine_cancel(engine_id id)
    int engine_stopping()
    engine_id engine_self()
    int engine_set_priority(engine_id id, int priority)
    int engine_batch_make()
    int engine_batch_fd(int batch)
    int engine_take(int batch, engine_end *ends, int nr)
    int engine_batch_free(int batch)
    int engine_pause(int what)
    int engine_resume(int what)
    int engine_wait_all(utime_ns until)
    int engine_shutdown(utime_ns until)
    int engine_fini()
    int engine_help(int host, int nr, utime_ns until)
    int engine_bus_push(const char *name, void *data, size_t size,
                        void (*release)(void *data, void *arg) noexcept nogil,
                        void *arg)
    int engine_bus_get(const char *name, void **data, size_t *size)
    int engine_bus_pop(const char *name, void **data, size_t *size)
    int engine_bus_unpin(const void *data)
    long engine_bus_clear()
    int engine_get_stats(engine_stats *s)
    const char *engine_error(int error)
