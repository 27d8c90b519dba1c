/* SPDX-License-Identifier: MIT */
/* ssignal.c: signals of a host, by the names of libc and of io/. */

/*
 * A signal comes from the host itself: raise(), kill() of its own process, and
 * SIGPIPE, which a write to a pipe or stream raises that nothing reads any more,
 * as on Linux. Its action runs in the thread that raises it, before the call
 * returns. So no wait of another thread is interrupted, and EINTR comes from
 * pause() and sigsuspend() only.
 *
 *	SIG_IGN		nothing
 *	SIG_DFL		nothing, or the host ends, and boots after a second. A client
 *			must not end so. A signal of an error, such as SIGABRT, fails
 *			the run
 *	a handler	is called
 *	usignal_watch()	the signal is counted, and usignal_wait() returns it
 *
 * Masks belong to the host, not to a thread of it. A host that boots ignores what
 * main() or setup has ignored by sigaction() or signal(), as a program does after
 * exec(); all else is SIG_DFL. Actions that the shell has set have no influence.
 */

#define _GNU_SOURCE		/* strsignal(), sighandler_t */
#include "snames.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST		64	/* signals: 1 to 64 */

struct sim_signals {
	struct sigaction g_actions[MOST + 1];
	sigset_t         g_mask, g_pending;
	int              g_watches[MOST + 1];	/* usignal_watch() */
	unsigned         g_came[MOST + 1];	/* and were not taken */
	long             g_handled;		/* calls of handlers */
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
	sigemptyset(&b->b_signals->g_pending);
	for (i = 1; i <= MOST; i++)
		b->b_signals->g_actions[i].sa_handler = ignored[i] ? SIG_IGN :
			SIG_DFL;
	return b->b_signals;
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

static void deliver(struct sim_boot *b, int signo);

/* Delivers what is pending and is not masked any more. */
static void deliver_pending(struct sim_boot *b)
{
	struct sim_signals *s = signals_of(b);
	int i;

	for (i = 1; i <= MOST; i++)
		if (sigismember(&s->g_pending, i) && !sigismember(&s->g_mask, i)) {
			sigdelset(&s->g_pending, i);
			deliver(b, i);
		}
}

static void handle(struct sim_boot *b, int signo, const struct sigaction *a)
{
	struct sim_signals *s = signals_of(b);
	sigset_t before = s->g_mask;
	siginfo_t info = { .si_signo = signo, .si_code = SI_USER };

	if (a->sa_flags & (int)SA_RESETHAND)
		s->g_actions[signo].sa_handler = SIG_DFL;
	sigorset(&s->g_mask, &before, &a->sa_mask);
	if (!(a->sa_flags & SA_NODEFER))
		sigaddset(&s->g_mask, signo);
	if (a->sa_flags & SA_SIGINFO)
		a->sa_sigaction(signo, &info, NULL);
	else
		a->sa_handler(signo);
	s->g_mask = before;
	s->g_handled++;
	sim_wake(b);
	deliver_pending(b);
}

static void deliver(struct sim_boot *b, int signo)
{
	const struct sigaction a = signals_of(b)->g_actions[signo];

	if (a.sa_handler == SIG_DFL)
		end_by(b, signo);
	else if (a.sa_handler != SIG_IGN)
		handle(b, signo, &a);
}

/* Raises a signal in the caller's host. */
void sim_signal(struct sim_boot *b, int signo)
{
	struct sim_signals *s = signals_of(b);

	if (s->g_watches[signo] == 0 && !sigismember(&s->g_mask, signo) &&
	    s->g_actions[signo].sa_handler == SIG_IGN)
		return;
	sim_hash((uint64_t)signo);
	if (s->g_watches[signo] > 0) {
		s->g_came[signo]++;
		sim_wake(b);
	} else if (sigismember(&s->g_mask, signo)) {
		sigaddset(&s->g_pending, signo);
		sim_wake(b);
	} else {
		deliver(b, signo);
	}
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
		if (rc != 0)
			return rc;
	}
	return rc;
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
	if (!is_signal(signo) ||
	    (a != NULL && (signo == SIGKILL || signo == SIGSTOP)))
		return (int)answer(-EINVAL);
	s = signals_of(b);
	if (old != NULL)
		*old = s->g_actions[signo];
	if (a != NULL)
		s->g_actions[signo] = *a;
	return 0;
}

NAME(sighandler_t, signal, (int signo, sighandler_t f))
{
	struct sigaction a = { .sa_handler = f, .sa_flags = SA_RESTART }, old;

	sigemptyset(&a.sa_mask);
	return wrap_sigaction(signo, &a, &old) == 0 ? old.sa_handler : SIG_ERR;
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
	deliver_pending(b);
	return 0;
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

	if (b == NULL)
		return sigpending(set);
	*set = signals_of(b)->g_pending;
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
		sim_signal(b, signo);
	return 0;
}

NAME(int, raise, (int signo))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return raise(signo);
	if (!is_signal(signo))
		return (int)answer(-EINVAL);
	sim_signal(b, signo);
	return 0;
}

/* Waits for signals. */

/* Takes a pending signal of a set; 0: there is none. */
static int take(struct sim_boot *b, const sigset_t *set)
{
	struct sim_signals *s = signals_of(b);
	int i;

	for (i = 1; i <= MOST; i++)
		if (sigismember(set, i) == 1 && sigismember(&s->g_pending, i)) {
			sigdelset(&s->g_pending, i);
			return i;
		}
	return 0;
}

/* Returns a signal, or -errno. */
static int wait_by(struct sim_boot *b, const sigset_t *set, utime_ns until)
{
	int signo, rc = 0;

	while ((signo = take(b, set)) == 0 && rc == 0)
		rc = until <= sim_now() ? -ETIMEDOUT : sim_wait(b, NULL, until);
	return signo != 0 ? signo : rc == -ETIMEDOUT ? -EAGAIN : rc;
}

NAME(int, sigwait, (const sigset_t *set, int *signo))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return sigwait(set, signo);
	rc = wait_by(b, set, UNEVER);
	if (rc > 0)
		*signo = rc;
	return rc > 0 ? 0 : -rc;
}

NAME(int, sigtimedwait, (const sigset_t *set, siginfo_t *info,
			 const struct timespec *t))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return sigtimedwait(set, info, t);
	rc = wait_by(b, set, t == NULL ? UNEVER :
		     sim_now() + sim_ns_of(t));
	if (rc > 0 && info != NULL)
		*info = (siginfo_t) { .si_signo = rc, .si_code = SI_USER };
	return (int)answer(rc);
}

NAME(int, sigwaitinfo, (const sigset_t *set, siginfo_t *info))
{
	return sim_self() == NULL ? sigwaitinfo(set, info) :
		wrap_sigtimedwait(set, info, NULL);
}

/* Waits until a handler has run. */
static int wait_handled(struct sim_boot *b, long before)
{
	int rc = 0;

	while (rc == 0 && signals_of(b)->g_handled == before)
		rc = sim_wait(b, NULL, UNEVER);
	return (int)answer(rc != 0 ? rc : -EINTR);
}

NAME(int, pause, (void))
{
	struct sim_boot *b = enter();

	return b == NULL ? pause() : wait_handled(b, signals_of(b)->g_handled);
}

NAME(int, sigsuspend, (const sigset_t *mask))
{
	struct sim_boot *b = enter();
	sigset_t before;
	long handled;
	int rc;

	if (b == NULL)
		return sigsuspend(mask);
	handled = signals_of(b)->g_handled;
	(void)mask_by(b, SIG_SETMASK, mask, &before);
	rc = wait_handled(b, handled);
	(void)mask_by(b, SIG_SETMASK, &before, NULL);
	return rc;
}

/* An alarm would have to interrupt a wait. */
NAME(unsigned, alarm, (unsigned seconds))
{
	if (enter() == NULL)
		return alarm(seconds);
	if (seconds > 0)
		usim_fail("alarm() is not simulated");
	return 0;
}
