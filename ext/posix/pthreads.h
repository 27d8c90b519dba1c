/* SPDX-License-Identifier: MIT */
/* usched/pthreads.h: programs for pthreads, in threads of usched. */

#ifndef USCHED_PTHREADS_H
#define USCHED_PTHREADS_H

/*
 * A program that is written for pthreads runs in threads of usched, with no
 * line changed:
 *
 *	cc -include usched/pthreads.h -c program.c
 *	cc program.o -Wl,--wrap=main -lusched_pthread -lusched -pthread
 *	USCHED=ws ./a.out
 *
 * If it reads, writes or accepts, uwrap.o is linked, too: usched-pthread.pc.
 *
 * A file that is compiled with this header in front calls the functions below
 * of usched, and not of libc. The header has no other effect: types, constants,
 * attributes, and all that it does not name are libc's. It may also be included
 * by a file, before the first use of a name.
 *
 * ext/posix/README.md lists what is as in libc, what is different, and the other
 * way to use this, by the linker alone.
 *
 * WHO IS A THREAD. main() becomes a thread, of the scheduler that USCHED in the
 * environment names: rr (one processor; the default), rr:2, ll:2, ws:4, or ws
 * (all cpus). Threads that it makes are threads of the same scheduler. A native
 * thread, such as a library's own, that calls these functions gets libc's; only
 * objects (mutexes and the like) are the same for both.
 *
 * RESULTS are those of POSIX. A wait for which there is no memory ends the
 * program, as most programs look at no result.
 *
 * The pragma renames what the object file calls (gcc and clang), so that
 * addresses of functions, members of structs and C++ keep their names. It takes
 * effect on functions with C linkage only.
 */

/* Threads. */
#pragma redefine_extname pthread_create __wrap_pthread_create
#pragma redefine_extname pthread_join __wrap_pthread_join
#pragma redefine_extname pthread_tryjoin_np __wrap_pthread_tryjoin_np
#pragma redefine_extname pthread_clockjoin_np __wrap_pthread_clockjoin_np
#pragma redefine_extname pthread_timedjoin_np __wrap_pthread_timedjoin_np
#pragma redefine_extname pthread_detach __wrap_pthread_detach
#pragma redefine_extname pthread_self __wrap_pthread_self
#pragma redefine_extname pthread_exit __wrap_pthread_exit
#pragma redefine_extname pthread_kill __wrap_pthread_kill
#pragma redefine_extname pthread_setname_np __wrap_pthread_setname_np
#pragma redefine_extname pthread_getname_np __wrap_pthread_getname_np
#pragma redefine_extname pthread_getschedparam __wrap_pthread_getschedparam
#pragma redefine_extname pthread_setschedparam __wrap_pthread_setschedparam
#pragma redefine_extname pthread_setschedprio __wrap_pthread_setschedprio
#pragma redefine_extname pthread_getcpuclockid __wrap_pthread_getcpuclockid

/* Cancellation. Clean-up macros of libc call functions that begin with _. */
#pragma redefine_extname __pthread_register_cancel __wrap___pthread_register_cancel
#pragma redefine_extname __pthread_unregister_cancel __wrap___pthread_unregister_cancel
#pragma redefine_extname __pthread_unwind_next __wrap___pthread_unwind_next
#pragma redefine_extname _pthread_cleanup_push __wrap__pthread_cleanup_push
#pragma redefine_extname _pthread_cleanup_pop __wrap__pthread_cleanup_pop
#pragma redefine_extname pthread_cancel __wrap_pthread_cancel
#pragma redefine_extname pthread_testcancel __wrap_pthread_testcancel
#pragma redefine_extname pthread_setcancelstate __wrap_pthread_setcancelstate
#pragma redefine_extname pthread_setcanceltype __wrap_pthread_setcanceltype

/* Keys, once. */
#pragma redefine_extname pthread_key_create __wrap_pthread_key_create
#pragma redefine_extname pthread_key_delete __wrap_pthread_key_delete
#pragma redefine_extname pthread_getspecific __wrap_pthread_getspecific
#pragma redefine_extname pthread_setspecific __wrap_pthread_setspecific
#pragma redefine_extname pthread_once __wrap_pthread_once

/* Mutexes and conditions. */
#pragma redefine_extname pthread_mutex_init __wrap_pthread_mutex_init
#pragma redefine_extname pthread_mutex_destroy __wrap_pthread_mutex_destroy
#pragma redefine_extname pthread_mutex_lock __wrap_pthread_mutex_lock
#pragma redefine_extname pthread_mutex_timedlock __wrap_pthread_mutex_timedlock
#pragma redefine_extname pthread_mutex_clocklock __wrap_pthread_mutex_clocklock
#pragma redefine_extname pthread_mutex_trylock __wrap_pthread_mutex_trylock
#pragma redefine_extname pthread_mutex_unlock __wrap_pthread_mutex_unlock
#pragma redefine_extname pthread_mutex_consistent __wrap_pthread_mutex_consistent
#pragma redefine_extname pthread_mutex_getprioceiling __wrap_pthread_mutex_getprioceiling
#pragma redefine_extname pthread_mutex_setprioceiling __wrap_pthread_mutex_setprioceiling
#pragma redefine_extname pthread_cond_init __wrap_pthread_cond_init
#pragma redefine_extname pthread_cond_destroy __wrap_pthread_cond_destroy
#pragma redefine_extname pthread_cond_wait __wrap_pthread_cond_wait
#pragma redefine_extname pthread_cond_clockwait __wrap_pthread_cond_clockwait
#pragma redefine_extname pthread_cond_timedwait __wrap_pthread_cond_timedwait
#pragma redefine_extname pthread_cond_signal __wrap_pthread_cond_signal
#pragma redefine_extname pthread_cond_broadcast __wrap_pthread_cond_broadcast

/* Read-write locks, barriers, spin locks. */
#pragma redefine_extname pthread_rwlock_init __wrap_pthread_rwlock_init
#pragma redefine_extname pthread_rwlock_destroy __wrap_pthread_rwlock_destroy
#pragma redefine_extname pthread_rwlock_rdlock __wrap_pthread_rwlock_rdlock
#pragma redefine_extname pthread_rwlock_timedrdlock __wrap_pthread_rwlock_timedrdlock
#pragma redefine_extname pthread_rwlock_clockrdlock __wrap_pthread_rwlock_clockrdlock
#pragma redefine_extname pthread_rwlock_tryrdlock __wrap_pthread_rwlock_tryrdlock
#pragma redefine_extname pthread_rwlock_wrlock __wrap_pthread_rwlock_wrlock
#pragma redefine_extname pthread_rwlock_timedwrlock __wrap_pthread_rwlock_timedwrlock
#pragma redefine_extname pthread_rwlock_clockwrlock __wrap_pthread_rwlock_clockwrlock
#pragma redefine_extname pthread_rwlock_trywrlock __wrap_pthread_rwlock_trywrlock
#pragma redefine_extname pthread_rwlock_unlock __wrap_pthread_rwlock_unlock
#pragma redefine_extname pthread_barrier_init __wrap_pthread_barrier_init
#pragma redefine_extname pthread_barrier_destroy __wrap_pthread_barrier_destroy
#pragma redefine_extname pthread_barrier_wait __wrap_pthread_barrier_wait
#pragma redefine_extname pthread_spin_init __wrap_pthread_spin_init
#pragma redefine_extname pthread_spin_destroy __wrap_pthread_spin_destroy
#pragma redefine_extname pthread_spin_trylock __wrap_pthread_spin_trylock
#pragma redefine_extname pthread_spin_lock __wrap_pthread_spin_lock
#pragma redefine_extname pthread_spin_unlock __wrap_pthread_spin_unlock

/* Semaphores. */
#pragma redefine_extname sem_init __wrap_sem_init
#pragma redefine_extname sem_destroy __wrap_sem_destroy
#pragma redefine_extname sem_open __wrap_sem_open
#pragma redefine_extname sem_close __wrap_sem_close
#pragma redefine_extname sem_trywait __wrap_sem_trywait
#pragma redefine_extname sem_wait __wrap_sem_wait
#pragma redefine_extname sem_timedwait __wrap_sem_timedwait
#pragma redefine_extname sem_clockwait __wrap_sem_clockwait
#pragma redefine_extname sem_post __wrap_sem_post
#pragma redefine_extname sem_getvalue __wrap_sem_getvalue

/* Time. */
#pragma redefine_extname sched_yield __wrap_sched_yield
#if !defined(__clang__)	/* refuses it, as glibc gives the function a name, too */
#pragma redefine_extname pthread_yield __wrap_pthread_yield
#endif
#pragma redefine_extname sleep __wrap_sleep
#pragma redefine_extname usleep __wrap_usleep
#pragma redefine_extname nanosleep __wrap_nanosleep
#pragma redefine_extname clock_nanosleep __wrap_clock_nanosleep

#endif /* USCHED_PTHREADS_H */
