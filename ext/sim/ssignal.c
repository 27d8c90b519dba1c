/* SPDX-License-Identifier: MIT */
/* ssignal.c: signals of a host, by the names of libc and of lib/io/. */

/*
 * A signal comes from the host itself: raise(), kill() of its own process, a timer,
 * and SIGPIPE, which a write to a pipe or stream raises that nothing reads any more,
 * as on Linux. raise() and SIGPIPE run its action in the caller, before the call
 * returns. As Linux, kill() and timers prefer the first thread of the host:
 *
 *	it waits in a call of sfile.c	the wait ends, and the thread runs the handler.
 *					Then the call says EINTR, or goes on
 *	else				the caller of kill() runs it; for a timer a
 *					thread that is made for that
 *
 * A wait of lib/wait/ or the pthread face, or for a sync of a disk, is not interrupted.
 *
 *	SIG_IGN		nothing
 *	SIG_DFL		nothing, or the host ends, and boots after a second. A client
 *			must not end so. A signal of an error, such as SIGABRT, fails
 *			the run
 *	a handler	is called
 *	usignal_watch()	the signal is counted, and usignal_wait() returns it
 *
 * Masks belong to the host, not to a thread of it. That which sigsuspend(), ppoll() and
 * their like set belongs to their caller, until they end or a handler begins: of a
 * signal that is queued twice, one comes in the call. siglongjmp() out of handlers puts back
 * the mask from before the first of them. A host that boots ignores what
 * main() or setup has ignored by sigaction() or signal(), as a program does after
 * exec(); all else is SIG_DFL. Actions that the shell has set have no influence.
 */

#define _GNU_SOURCE		/* strsignal(), sighandler_t */
#include "snames.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MOST		64	/* signals: 1 to 64 */

/* glibc has a type for C of its own. */
#if defined(__GLIBC__)
#define TIMER		__itimer_which_t
#else
#define TIMER		int
#endif

/* The mask that a thread has in a call. */
struct sim_mask {
	struct sim_mask *sm_next;
	const void      *sm_stack;
	sigset_t         sm_set;
};

/* A handler that runs in a thread. */
struct running {
	struct running *n_next;
	const void     *n_stack;
	sigset_t        n_before;		/* the mask from before it */
};

/* Whom a signal is for. raise() and SIGPIPE mean the caller. */
enum whom { THREAD, PROCESS };

struct sim_signals {
	struct sigaction g_actions[MOST + 1];
	sigset_t         g_mask;
	struct sim_mask *g_calls;		/* masks of calls, the oldest first */
	struct running  *g_running;		/* the newest first */
	struct sim_pending *g_pending;
	int              g_watches[MOST + 1];	/* usignal_watch() */
	unsigned         g_came[MOST + 1];	/* signals that came, and were not taken */
	/* ITIMER_REAL. */
	utime_ns         g_alarm;		/* when it is due; 0: not set */
	utime_ns         g_interval;
	uint64_t         g_alarm_number;	/* of the event that is not out of date */
};

static bool ignored[MOST + 1];	/* outside of hosts */

static bool is_signal(int signo)
{
	return signo >= 1 && signo <= MOST;
}

/* Returns what the host has of signals. */
static struct sim_signals *signals_of(struct sim_boot *b)
{
	int i;

	if (b->b_signals != NULL)
		return b->b_signals;
	b->b_signals = sim_alloc(sizeof *b->b_signals);
	sigemptyset(&b->b_signals->g_mask);
	for (i = 1; i <= MOST; i++)
		b->b_signals->g_actions[i].sa_handler = ignored[i] ? SIG_IGN :
			SIG_DFL;
	return b->b_signals;
}

/* Returns the mask of a call that a thread is in, or NULL. */
static struct sim_mask *mask_of_call(struct sim_signals *s, const void *stack)
{
	struct sim_mask *q = s->g_calls;

	while (q != NULL && q->sm_stack != stack)
		q = q->sm_next;
	return q;
}

/* Ends the mask of a call, if it has not ended before. */
static void mask_out(struct sim_signals *s, const struct sim_mask *q)
{
	struct sim_mask **at = &s->g_calls;

	while (*at != NULL && *at != q)
		at = &(*at)->sm_next;
	if (*at != NULL)
		*at = q->sm_next;
}

/* Returns the mask of a thread. */
static const sigset_t *mask_of(struct sim_signals *s, const void *stack)
{
	const struct sim_mask *q = mask_of_call(s, stack);

	return q != NULL ? &q->sm_set : &s->g_mask;
}

/* What a signal does that has no action. */

static bool is_harmless(int signo)
{
	return signo == SIGCHLD || signo == SIGURG || signo == SIGWINCH ||
		signo == SIGCONT;
}

static bool is_failure(int signo)
{
	return signo == SIGABRT || signo == SIGSEGV || signo == SIGBUS ||
		signo == SIGFPE || signo == SIGILL || signo == SIGTRAP ||
		signo == SIGSYS || signo == SIGQUIT;
}

static void end_by(struct sim_boot *b, int signo)
{
	if (is_harmless(signo))
		return;
	if (signo == SIGSTOP || signo == SIGTSTP || signo == SIGTTIN ||
	    signo == SIGTTOU)
		usim_fail("a stop by a signal is not simulated");
	if (is_failure(signo) || b->b_host->h_is_client)
		usim_fail("is ended by a signal: %s", strsignal(signo));
	sim_story(b->b_host, "is ended by a signal: %s", strsignal(signo));
	sim_end(b, 128 + signo);
}

static int deliver(struct sim_boot *b, const siginfo_t *info);

/* The first handler decides. */
int sim_signals_handle(struct sim_boot *b)
{
	struct sim_signals *s = signals_of(b);
	int rc, first = 0;
	siginfo_t info;

	while (s->g_pending != NULL &&
	       sim_pending_take(&s->g_pending, mask_of(s, ustack_self()), false, &info)) {
		rc = deliver(b, &info);
		first = first == 0 ? rc : first;
	}
	return first;
}

/* Returns whether a signal pends that the caller's mask lets in, though it be ignored. */
bool sim_signals_pend(struct sim_boot *b)
{
	struct sim_signals *s = b->b_signals;

	return s != NULL && sim_pending_has(s->g_pending, mask_of(s, ustack_self()));
}

/* Ends a handler, unless it has jumped since it began. */
static void running_out(struct sim_signals *s, struct running *n)
{
	struct running **at = &s->g_running;

	while (*at != NULL && *at != n)
		at = &(*at)->n_next;
	if (*at == NULL)
		return;
	*at = n->n_next;
	free(n);
}

/* Ends the handlers of the caller, which jumps; restores: to where the mask was saved. */
static void handlers_left(bool restores)
{
	struct sim_boot *b = sim_self();
	struct running **at, *n;
	bool was_in = false;
	sigset_t before;

	if (b == NULL || b->b_signals == NULL)
		return;
	for (at = &b->b_signals->g_running; (n = *at) != NULL;) {
		if (n->n_stack != ustack_self()) {
			at = &n->n_next;
			continue;
		}
		before = n->n_before;
		was_in = true;
		*at = n->n_next;
		free(n);
	}
	if (!was_in || !restores)
		return;
	b->b_signals->g_mask = before;
	(void)sim_signals_handle(b);
}

/* glibc has one function for all jumps, musl does not know here. */
#if defined(__GLIBC__)
#define RESTORES(env, is_sig)	((env)[0].__mask_was_saved != 0)
#else
#define RESTORES(env, is_sig)	(is_sig)
#endif

NAME(void, siglongjmp, (sigjmp_buf env, int value))
{
	handlers_left(RESTORES(env, true));
	siglongjmp(env, value);
}

NAME(void, longjmp, (jmp_buf env, int value))
{
	handlers_left(RESTORES(env, false));
	longjmp(env, value);
}

ALIAS(void, _longjmp, (jmp_buf env, int value), longjmp)
ALIAS(void, __longjmp_chk, (jmp_buf env, int value), longjmp)

/*
 * Linux puts the handlers of all signals that may be delivered on the stack, and the
 * last of them runs first: those that pend run before this. The first ends the mask of
 * the call that it interrupts.
 */
static void handle(struct sim_boot *b, siginfo_t *info, const struct sigaction *a)
{
	struct sim_signals *s = signals_of(b);
	struct sim_mask *q = mask_of_call(s, ustack_self());
	sigset_t before = s->g_mask;
	struct running *n = sim_alloc(sizeof *n);
	int signo = info->si_signo;

	*n = (struct running) { s->g_running, ustack_self(), before };
	s->g_running = n;
	if (a->sa_flags & (int)SA_RESETHAND)
		s->g_actions[signo].sa_handler = SIG_DFL;
	sigorset(&s->g_mask, q != NULL ? &q->sm_set : &before, &a->sa_mask);
	if (q != NULL)
		mask_out(s, q);
	if (!(a->sa_flags & SA_NODEFER))
		sigaddset(&s->g_mask, signo);
	(void)sim_signals_handle(b);
	if (a->sa_flags & SA_SIGINFO)
		a->sa_sigaction(signo, info, NULL);
	else
		a->sa_handler(signo);
	s->g_mask = before;
	running_out(s, n);
	(void)sim_signals_handle(b);
}

static int deliver(struct sim_boot *b, const siginfo_t *info)
{
	const struct sigaction a = signals_of(b)->g_actions[info->si_signo];
	siginfo_t own = *info;		/* a handler may change it */

	if (a.sa_handler == SIG_DFL)
		end_by(b, info->si_signo);
	if (a.sa_handler == SIG_DFL || a.sa_handler == SIG_IGN)
		return 0;
	handle(b, &own, &a);
	return a.sa_flags & SA_RESTART ? -ERESTART : -EINTR;
}

/* Lets a thread that waits run the action: the first, or one with a mask of its own. */
static bool interrupts(struct sim_boot *b, int signo)
{
	struct sim_signals *s = signals_of(b);
	const struct sim_mask *q;

	if (!sigismember(mask_of(s, b->b_main), signo) && sim_interrupt(b, b->b_main))
		return true;
	for (q = s->g_calls; q != NULL; q = q->sm_next)
		if (!sigismember(&q->sm_set, signo) && sim_interrupt(b, q->sm_stack))
			return true;
	return false;
}

/* Lets another thread run the action if it waits and the host is meant; else the caller. */
static void signal_send(struct sim_boot *b, int signo, int code, enum whom whom)
{
	struct sim_signals *s = signals_of(b);
	siginfo_t info = { .si_signo = signo, .si_code = code };
	const void *meant = whom == PROCESS ? b->b_main : ustack_self();

	if (code != SI_KERNEL)
		info.si_pid = sim_pid(b);
	if (s->g_watches[signo] == 0 && !sigismember(mask_of(s, meant), signo) &&
	    s->g_actions[signo].sa_handler == SIG_IGN)
		return;
	sim_hash((uint64_t)signo);
	if (s->g_watches[signo] > 0) {
		s->g_came[signo]++;
		sim_wake(b);
	} else if (whom == PROCESS && s->g_actions[signo].sa_handler != SIG_DFL &&
		   interrupts(b, signo)) {
		sim_pending_add(&s->g_pending, &info, true);
	} else if (sigismember(mask_of(s, ustack_self()), signo)) {
		sim_pending_add(&s->g_pending, &info, whom == PROCESS);
		sim_wake(b);
	} else {
		(void)deliver(b, &info);
	}
}

void sim_signal(struct sim_boot *b, int signo)
{
	signal_send(b, signo, SI_USER, THREAD);
}

/* Signals that are watched: usignal.h. */

int sim_signal_watch(struct sim_boot *b, int signo)
{
	if (!is_signal(signo) || is_failure(signo) || signo == SIGKILL ||
	    signo == SIGSTOP)
		return -EINVAL;
	signals_of(b)->g_watches[signo]++;
	return 0;
}

int sim_signal_unwatch(struct sim_boot *b, int signo)
{
	struct sim_signals *s = signals_of(b);

	if (!is_signal(signo) || s->g_watches[signo] == 0)
		return -EINVAL;
	if (--s->g_watches[signo] == 0)
		s->g_came[signo] = 0;
	sim_wake(b);
	return 0;
}

/* Takes a signal that has come. 0: none; -EINVAL: none is watched. */
static int take_watched(struct sim_signals *s)
{
	bool is_watched = false;
	int i;

	for (i = 1; i <= MOST; i++) {
		if (s->g_came[i] > 0) {
			s->g_came[i]--;
			return i;
		}
		is_watched |= s->g_watches[i] > 0;
	}
	return is_watched ? 0 : -EINVAL;
}

int sim_signal_wait(struct sim_boot *b, utime_ns until)
{
	int rc;

	while ((rc = take_watched(signals_of(b))) == 0) {
		if (until == 0)
			return -EAGAIN;
		rc = sim_wait(b, NULL, until);
		if (rc != 0 && rc != -EINTR && rc != -ERESTART)
			return rc;
	}
	return rc;
}

int sim_signal_await(struct sim_boot *b, int signo)
{
	int rc;

	while (signals_of(b)->g_came[signo] == 0) {
		rc = sim_wait(b, NULL, UNEVER);
		if (rc != 0 && rc != -EINTR && rc != -ERESTART)
			return rc;
	}
	return sim_signal_unwatch(b, signo);
}

/* Actions. */

NAME(int, sigaction, (int signo, const struct sigaction *a, struct sigaction *old))
{
	struct sim_boot *b = enter();
	struct sim_signals *s;
	int rc;

	if (b == NULL) {
		rc = sigaction(signo, a, old);
		if (rc == 0 && a != NULL && is_signal(signo))
			ignored[signo] = a->sa_handler == SIG_IGN;
		return rc;
	}
	if (!is_signal(signo) || signo == 32 || signo == 33 ||	/* libc's own */
	    (a != NULL && (signo == SIGKILL || signo == SIGSTOP)))
		return (int)answer(-EINVAL);
	s = signals_of(b);
	if (old != NULL)
		*old = s->g_actions[signo];
	if (a == NULL)
		return 0;
	s->g_actions[signo] = *a;
	if (a->sa_handler == SIG_IGN || (a->sa_handler == SIG_DFL && is_harmless(signo)))
		sim_pending_drop(&s->g_pending, signo);
	return 0;
}

NAME(sighandler_t, signal, (int signo, sighandler_t f))
{
	struct sigaction a = { .sa_handler = f, .sa_flags = SA_RESTART }, old;

	sigemptyset(&a.sa_mask);
	return wrap_sigaction(signo, &a, &old) == 0 ? old.sa_handler : SIG_ERR;
}

NAME(int, siginterrupt, (int signo, int interrupts))
{
	struct sigaction a;

	if (wrap_sigaction(signo, NULL, &a) != 0)
		return -1;
	a.sa_flags &= ~SA_RESTART;
	a.sa_flags |= interrupts ? 0 : SA_RESTART;
	return wrap_sigaction(signo, &a, NULL);
}

/* Handlers run on the stack of their thread. */
NAME(int, sigaltstack, (const stack_t *to, stack_t *old))
{
	if (sim_self() == NULL)
		return sigaltstack(to, old);
	if (old != NULL)
		*old = (stack_t) { .ss_flags = SS_DISABLE };
	return 0;
}

/* Masks. */

static int mask_by(struct sim_boot *b, int how, const sigset_t *set, sigset_t *old)
{
	struct sim_signals *s = signals_of(b);
	int i;

	if (old != NULL)
		*old = s->g_mask;
	if (set == NULL)
		return 0;
	if (how != SIG_BLOCK && how != SIG_UNBLOCK && how != SIG_SETMASK)
		return EINVAL;
	for (i = 1; i <= MOST; i++) {
		bool is_in = sigismember(set, i) == 1;

		if (how == SIG_SETMASK ? !is_in : how == SIG_UNBLOCK && is_in)
			sigdelset(&s->g_mask, i);
		else if (is_in && i != SIGKILL && i != SIGSTOP)
			sigaddset(&s->g_mask, i);
	}
	(void)sim_signals_handle(b);
	return 0;
}

struct sim_mask *sim_mask_begin(struct sim_boot *b, const sigset_t *mask)
{
	struct sim_signals *s;
	struct sim_mask *q, **at;

	if (mask == NULL)
		return NULL;
	s = signals_of(b);
	q = sim_alloc(sizeof *q);
	*q = (struct sim_mask) { NULL, ustack_self(), *mask };
	sigdelset(&q->sm_set, SIGKILL);
	sigdelset(&q->sm_set, SIGSTOP);
	for (at = &s->g_calls; *at != NULL; at = &(*at)->sm_next)
		;
	return *at = q;
}

void sim_mask_end(struct sim_boot *b, struct sim_mask *q)
{
	if (q == NULL)
		return;
	mask_out(signals_of(b), q);
	free(q);
	(void)sim_signals_handle(b);
}

NAME(int, pthread_sigmask, (int how, const sigset_t *set, sigset_t *old))
{
	struct sim_boot *b = enter();

	return b == NULL ? pthread_sigmask(how, set, old) : mask_by(b, how, set, old);
}

NAME(int, sigprocmask, (int how, const sigset_t *set, sigset_t *old))
{
	struct sim_boot *b = enter();

	return b == NULL ? sigprocmask(how, set, old) :
		(int)answer(-mask_by(b, how, set, old));
}

NAME(int, sigpending, (sigset_t *set))
{
	struct sim_boot *b = enter();
	struct sim_signals *s;

	if (b == NULL)
		return sigpending(set);
	s = signals_of(b);
	sim_pending_set(s->g_pending, set);
	return 0;
}

/* Signals that are sent. A host has one process. */

NAME(int, kill, (pid_t pid, int signo))
{
	struct sim_boot *b = enter();
	pid_t own;

	if (b == NULL)
		return kill(pid, signo);
	own = sim_pid(b);
	if (signo != 0 && !is_signal(signo))
		return (int)answer(-EINVAL);
	if (pid != own && pid != 0 && pid != -own)
		return (int)answer(pid == 1 ? -EPERM : -ESRCH);
	if (signo != 0)
		signal_send(b, signo, SI_USER, PROCESS);
	return 0;
}

NAME(int, killpg, (pid_t group, int signo))
{
	if (sim_self() == NULL)
		return killpg(group, signo);
	return group < 0 ? (int)answer(-EINVAL) : wrap_kill(-group, signo);
}

NAME(int, raise, (int signo))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return raise(signo);
	if (!is_signal(signo))
		return (int)answer(-EINVAL);
	signal_send(b, signo, SI_TKILL, THREAD);
	return 0;
}

/* Waits for signals. */

/* Takes a pending signal of a set. Returns it, or -errno. */
static int wait_by(struct sim_boot *b, const sigset_t *set, siginfo_t *info, utime_ns until)
{
	struct sim_signals *s = signals_of(b);
	int rc = 0;

	while (!sim_pending_take(&s->g_pending, set, true, info)) {
		rc = until <= sim_now() ? -ETIMEDOUT : sim_wait(b, NULL, until);
		if (rc != 0)
			return rc == -ETIMEDOUT ? -EAGAIN : rc == -ERESTART ? -EINTR : rc;
	}
	return info->si_signo;
}

NAME(int, sigwait, (const sigset_t *set, int *signo))
{
	struct sim_boot *b = enter_point();
	siginfo_t info;
	int rc;

	if (b == NULL)
		return sigwait(set, signo);
	do
		rc = wait_by(b, set, &info, UNEVER);
	while (rc == -EINTR);
	point_end(rc);
	if (rc > 0)
		*signo = rc;
	return rc > 0 ? 0 : -rc;
}

NAME(int, sigtimedwait, (const sigset_t *set, siginfo_t *info,
			 const struct timespec *t))
{
	struct sim_boot *b = enter_point();
	siginfo_t own = { .si_code = 0 };
	int rc;

	if (b == NULL)
		return sigtimedwait(set, info, t);
	if (t != NULL && (t->tv_sec < 0 || t->tv_nsec < 0 || t->tv_nsec >= UTIME_S))
		return (int)pointed(-EINVAL);
	rc = wait_by(b, set, &own, t == NULL ? UNEVER :
		     sim_after(b->b_host, sim_ns_of(t)));
	if (own.si_code == SI_TKILL)	/* so does libc */
		own.si_code = SI_USER;
	if (rc > 0 && info != NULL)
		*info = own;
	return (int)pointed(rc);
}

NAME(int, sigwaitinfo, (const sigset_t *set, siginfo_t *info))
{
	return sim_self() == NULL ? sigwaitinfo(set, info) :
		wrap_sigtimedwait(set, info, NULL);
}

/* Waits until a handler has run in the caller. */
static int wait_handled(struct sim_boot *b)
{
	int rc;

	do
		rc = sim_wait(b, NULL, UNEVER);
	while (rc == 0);
	return rc == -ERESTART ? -EINTR : rc;
}

NAME(int, pause, (void))
{
	struct sim_boot *b = enter_point();

	return b == NULL ? pause() : (int)pointed(wait_handled(b));
}

NAME(int, sigsuspend, (const sigset_t *mask))
{
	struct sim_boot *b = enter_point();
	struct sim_mask *q;
	int rc;

	if (b == NULL)
		return sigsuspend(mask);
	q = sim_mask_begin(b, mask);
	rc = wait_handled(b);
	sim_mask_end(b, q);
	return (int)pointed(rc);
}

/* Timers. */

struct alarm {
	struct sim_boot *l_boot;
	uint64_t         l_number;
};

static void alarm_raise(void *boot)
{
	signal_send(boot, SIGALRM, SI_KERNEL, PROCESS);
}

static void alarm_arm(struct sim_boot *b, utime_ns at);

/* An event has no thread, so a handler may need a new thread. */
static void alarm_due(void *arg)
{
	struct alarm l = *(struct alarm *)arg;
	struct sim_signals *s = l.l_boot->b_signals;

	free(arg);
	if (l.l_boot->b_dead || l.l_number != s->g_alarm_number)
		return;
	alarm_arm(l.l_boot, s->g_interval == 0 ? 0 : s->g_alarm - sim_now() +
		  sim_after(l.l_boot->b_host, s->g_interval));
	if (sim_thread(l.l_boot, alarm_raise, l.l_boot) == NULL)
		usim_fail("no memory for the simulation");
}

/* Sets when SIGALRM is due; 0: never. */
static void alarm_arm(struct sim_boot *b, utime_ns at)
{
	struct sim_signals *s = signals_of(b);
	struct alarm *l;

	s->g_alarm = at;
	s->g_alarm_number++;
	if (at == 0)
		return;
	l = sim_alloc(sizeof *l);
	*l = (struct alarm) { b, s->g_alarm_number };
	sim_at(at, alarm_due, l);
}

/* Returns the time until SIGALRM, by the host's clocks; 0: it is not set. */
static utime_ns alarm_left(struct sim_boot *b)
{
	utime_ns at = signals_of(b)->g_alarm;

	return at == 0 ? 0 : sim_drifted(b->b_host, at - sim_now());
}

/* Sets a timer that is due after ns; 0: it is not set. */
static void alarm_set(struct sim_boot *b, utime_ns ns, utime_ns interval)
{
	signals_of(b)->g_interval = interval;
	alarm_arm(b, ns == 0 ? 0 : sim_after(b->b_host, ns));
}

/* Seconds that are left are rounded, but never to 0. */
NAME(unsigned, alarm, (unsigned seconds))
{
	struct sim_boot *b = enter();
	utime_ns left;

	if (b == NULL)
		return alarm(seconds);
	left = alarm_left(b);
	alarm_set(b, seconds * UTIME_S, 0);
	return left > 0 && left < UTIME_S ? 1 :
		(unsigned)((left + UTIME_S / 2) / UTIME_S);
}

/* Returns a length; -EINVAL: it is none. */
static utime_ns length_of(const struct timeval *t)
{
	return t->tv_sec < 0 || t->tv_usec < 0 || t->tv_usec >= 1000000 ? -EINVAL :
		sim_ns_of_timeval(t);
}

/* Returns 0, or -EINVAL: there is no such timer. */
static int check_timer(const char *call, int which)
{
	if (which == ITIMER_VIRTUAL || which == ITIMER_PROF)
		usim_fail("%s(%d) is not simulated", call, which);
	return which == ITIMER_REAL ? 0 : -EINVAL;
}

static void timer_put(struct sim_boot *b, struct itimerval *to)
{
	to->it_value = sim_timeval_of(alarm_left(b));
	to->it_interval = sim_timeval_of(signals_of(b)->g_interval);
}

NAME(int, getitimer, (TIMER which, struct itimerval *to))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return getitimer(which, to);
	if (check_timer("getitimer", which) != 0 || to == NULL)
		return (int)answer(to == NULL ? -EFAULT : -EINVAL);
	timer_put(b, to);
	return 0;
}

NAME(int, setitimer, (TIMER which, const struct itimerval *by, struct itimerval *old))
{
	struct sim_boot *b = enter();
	utime_ns ns, interval;

	if (b == NULL)
		return setitimer(which, by, old);
	if (check_timer("setitimer", which) != 0)
		return (int)answer(-EINVAL);
	ns = length_of(&by->it_value);
	interval = length_of(&by->it_interval);
	if (ns < 0 || interval < 0)
		return (int)answer(-EINVAL);
	if (old != NULL)
		timer_put(b, old);
	alarm_set(b, ns, interval);
	return 0;
}
