/* SPDX-License-Identifier: MIT */
/* utime.c: the time, also virtual, random numbers, and sleeps until ticks. */

/*
 * The clock is CLOCK_MONOTONIC, or a number that stands still until a dispatcher
 * whose threads all wait moves it to the next deadline. Under virtual time all
 * random numbers follow from the seed.
 *
 * A length where a deadline belongs lies far in the past, and a deadline where a
 * length belongs is the time since the system began. Both have a message, once for
 * each call in threads of a function. Both are looked at only when a wait has
 * failed, or is about to.
 */

#include "uwait_inside.h"

#include <time.h>

/* Time. */

struct utime_clock utime_clock;

utime_ns utime_earliest;

utime_ns unow(void)
{
	struct timespec t;

	if (utime_clock.c_virtual)
		return __atomic_load_n(&utime_clock.c_now, __ATOMIC_RELAXED);
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * UTIME_S + t.tv_nsec;
}

utime_ns uafter(utime_ns ns)
{
	utime_ns now = unow();

	if (ns <= 0)
		return now;
	if (unlikely(ns >= now))
		uwait_length(ns, "uafter");
	return ns < UNEVER - now ? now + ns : UNEVER;
}

static struct usched_env env_seed = {
	.e_name = "USCHED_SEED", .e_known = "0-18446744073709551615"
};

static __attribute__((constructor)) void env_seed_load(void)
{
	(void)usched_env_add(&env_seed);
}

void utime_virtual(uint64_t seed)
{
	const char *value = usched_env(&env_seed);
	unsigned long long nr;

	if (usched_env_word(&env_seed, &value, &nr) >= 0)
		seed = nr;
	utime_clock.c_seed    = seed;
	utime_clock.c_now     = UTIME_VIRTUAL;
	utime_clock.c_virtual = 1;
	utime_earliest = UTIME_VIRTUAL;
	utime_clock.c_begun++;
}

uint64_t utime_seed(void)
{
	return utime_clock.c_seed;
}

int utime_is_virtual(void)
{
	return utime_clock.c_virtual;
}

void utime_jump(utime_ns to)
{
	utime_ns now = __atomic_load_n(&utime_clock.c_now, __ATOMIC_RELAXED);

	while (now < to && !__atomic_compare_exchange_n(&utime_clock.c_now, &now, to,
			false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
}

/*
 * SplitMix64: G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number
 * Generators", OOPSLA 2014, figure 16. Never inline: its variables belong to
 * the native thread.
 */
static NOINLINE uint64_t random64(void)
{
	static __thread uint64_t state;
	static __thread unsigned begun;
	uint64_t z;

	if (state == 0 || begun != utime_clock.c_begun)
		state = utime_clock.c_virtual ? utime_clock.c_seed + 1 :
			(uint64_t)unow() ^ (uint64_t)(uintptr_t)&state;
	begun = utime_clock.c_begun;
	z = state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

unsigned uwait_random(unsigned nr)
{
	return (unsigned)((random64() >> 32) * nr >> 32);
}

/* Deadlines that are mistakes. */

/* A deadline that is not 0, and has passed: no length. */
#define PASSED		((utime_ns)1)

/* Calls that were named, each with the function of its thread (atomic). */
static uintptr_t named[32];

static __attribute__((constructor)) void time_begins(void)
{
	utime_earliest = unow() / 2;
}

/* Returns whether this call was not named before in such a thread. */
static bool name_once(const char *call)
{
	const struct ustack *u = ustack_self();
	/* two differences of addresses are often equal, so not their sum */
	uintptr_t who = (uintptr_t)call * 0x9e3779b1u;
	uintptr_t was;
	unsigned i;

	if (u != NULL)
		who += (uintptr_t)ustack_f(u->u_f, u->u_arg);
	for (i = 0; i < sizeof named / sizeof named[0]; i++) {
		was = 0;
		if (__atomic_compare_exchange_n(&named[i], &was, who, false,
				__ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return true;
		if (was == who)
			return false;
	}
	return false;
}

/* Deadlines farther off are not looked at. */
#define LENGTH_NEAR	(3600 * UTIME_S)
/* From the making of a deadline to the call that takes it for a length. */
#define LENGTH_AGE	(100 * UTIME_US)

/*
 * Returns whether a length must be a deadline. In the first hour of the system
 * lengths are as large as deadlines. So there the deadline must just have been
 * made, from a length in ms.
 */
static bool is_deadline(utime_ns ns, utime_ns now)
{
	utime_ns left = ns - now;

	if (left < 0 || left > LENGTH_NEAR || ns % UTIME_MS == 0)
		return false;
	return now >= LENGTH_NEAR ||
		(UTIME_MS - left % UTIME_MS) % UTIME_MS < LENGTH_AGE;
}

/* Returns ns in the longest unit that divides it, whose name becomes *unit. */
static utime_ns in_unit(utime_ns ns, const char **unit)
{
	*unit = ns % UTIME_S == 0 ? " * UTIME_S" :
		ns % UTIME_MS == 0 ? " * UTIME_MS" :
		ns % UTIME_US == 0 ? " * UTIME_US" : "";
	return ns / (ns % UTIME_S == 0 ? UTIME_S : ns % UTIME_MS == 0 ? UTIME_MS :
		     ns % UTIME_US == 0 ? UTIME_US : 1);
}

NOINLINE void uwait_deadline(utime_ns until, const char *call)
{
	const char *unit;
	utime_ns nr;

	if (until <= PASSED || until >= utime_earliest || !name_once(call))
		return;
	nr = in_unit(until, &unit);
	usched_message("%s: the deadline %lld lies before the start of the "
		       "program. Is it a length? uafter(%lld%s) is the deadline "
		       "after that", call, (long long)until, (long long)nr, unit);
}

NOINLINE void uwait_length(utime_ns ns, const char *call)
{
	utime_ns now = unow();

	if (!is_deadline(ns, now) || !name_once(call))
		return;
	usched_message("%s: the length %lld is the time since the system began. "
		       "Is it a deadline? 50 * UTIME_MS is a length, and "
		       "uafter() makes a deadline of it", call, (long long)ns);
}

/* Sleeping. */

int utime_native_sleep(utime_ns until)
{
	utime_ns left;

	if (utime_clock.c_virtual)
		return -ENOSYS;
	while ((left = until - unow()) > 0) {
		struct timespec t = { left / UTIME_S, left % UTIME_S };

		(void)nanosleep(&t, NULL);
	}
	return 0;
}

struct uticker uticker(utime_ns period)
{
	struct uticker k = { period > 0 ? uafter(period) : 0, period };

	return k;
}

int uticker_wait(struct uticker *k, long *missed)
{
	utime_ns late;
	int rc;

	if (k->k_period <= 0)
		return -EINVAL;
	rc = u_sleep(k->k_next);
	if (rc != 0)
		return rc;
	late = (unow() - k->k_next) / k->k_period;
	k->k_next += (late + 1) * k->k_period;
	if (missed != NULL)
		*missed = (long)late;
	return 0;
}
