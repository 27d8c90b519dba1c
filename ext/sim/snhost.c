/* SPDX-License-Identifier: MIT */
/* snhost.c: clocks, chance, and names of hosts, by libc's names. */

#define _GNU_SOURCE		/* CLOCK_BOOTTIME, getentropy() */
#include "snames.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define UP		UTIME_S		/* CLOCK_MONOTONIC at a boot */
#define ANY_START	4u		/* GRND_INSECURE */
#define LOOK_UP		UTIME_MS	/* of a name that is not known */

/* Time. */

utime_ns sim_clock(struct sim_host *h, clockid_t clock)
{
	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
		return SIM_EPOCH + h->h_clock + sim_drifted(h, sim_now());
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_BOOTTIME:
		return UP + sim_drifted(h, sim_now() - h->h_start);
	default:
		usim_fail("clock %d is not simulated", (int)clock);
	}
}

/* Returns whether Linux has a clock. Fails the run if it has, and a host has not. */
static bool is_clock(clockid_t clock)
{
	if (clock >= 0 && clock <= CLOCK_BOOTTIME && clock != CLOCK_PROCESS_CPUTIME_ID &&
	    clock != CLOCK_THREAD_CPUTIME_ID)
		return true;
	if (clock < 0 || clock <= CLOCK_TAI)
		usim_fail("clock %d is not simulated", (int)clock);
	return false;
}

/* Returns when a clock of the host shows this. */
static utime_ns clock_until(struct sim_host *h, clockid_t clock, utime_ns at)
{
	return sim_after(h, at - sim_clock(h, clock));
}

static utime_ns clock_read(struct sim_host *h, clockid_t clock)
{
	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
		sim_use(h, USE_WALL);
		if (h->h_jump != NULL)
			h->h_jump->f_hits++;
	}
	return sim_clock(h, clock);
}

/* Computations take no time. */
static bool is_of_cpu(clockid_t clock)
{
	return clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID;
}

NAME(int, clock_gettime, (clockid_t clock, struct timespec *t))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return clock_gettime(clock, t);
	if (!is_of_cpu(clock) && !is_clock(clock))
		return (int)answer(-EINVAL);
	if (t == NULL)
		return (int)answer(-EFAULT);
	*t = sim_spec_of(is_of_cpu(clock) ? 0 : clock_read(b->b_host, clock));
	return 0;
}

NAME(int, clock_getres, (clockid_t clock, struct timespec *t))
{
	struct sim_boot *b = enter();
	bool is_coarse = clock == CLOCK_REALTIME_COARSE || clock == CLOCK_MONOTONIC_COARSE;

	if (b == NULL)
		return clock_getres(clock, t);
	if (!is_of_cpu(clock) && !is_clock(clock))
		return (int)answer(-EINVAL);
	if (t != NULL)
		*t = sim_spec_of(is_coarse ? 4 * UTIME_MS : 1);
	return 0;
}

/* The clocks of a host are not its user's. */
NAME(int, clock_settime, (clockid_t clock, const struct timespec *t))
{
	return enter() == NULL ? clock_settime(clock, t) :
		(int)answer(clock == CLOCK_REALTIME ? -EPERM : -EINVAL);
}

NAME(int, settimeofday, (const struct timeval *t, const struct timezone *zone))
{
	return enter() == NULL ? settimeofday(t, zone) : (int)answer(-EPERM);
}

NAME(int, adjtime, (const struct timeval *by, struct timeval *left))
{
	return enter() == NULL ? adjtime(by, left) : (int)answer(-EPERM);
}

NAME(int, gettimeofday, (struct timeval *t, void *zone))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return gettimeofday(t, zone);
	*t = sim_timeval_of(clock_read(b->b_host, CLOCK_REALTIME));
	return 0;
}

NAME(time_t, time, (time_t *t))
{
	struct sim_boot *b = enter();
	time_t now;

	if (b == NULL)
		return time(t);
	now = clock_read(b->b_host, CLOCK_REALTIME) / UTIME_S;
	if (t != NULL)
		*t = now;
	return now;
}

/* Returns what is left until then, by the clocks of the host. */
static utime_ns time_left(const struct sim_boot *b, utime_ns until)
{
	return until > sim_now() ? sim_drifted(b->b_host, until - sim_now()) : 0;
}

/* Sleeps. 0, or -EINTR: a handler has run. */
static int nap(struct sim_boot *b, utime_ns until)
{
	int rc;

	point_begin();
	rc = sim_nap(b, until);
	point_end(rc);
	return rc == -EINTR ? rc : 0;
}

NAME(int, clock_nanosleep, (clockid_t clock, int flags, const struct timespec *t,
			    struct timespec *left))
{
	struct sim_boot *b = enter();
	utime_ns until;
	int rc;

	if (b == NULL)
		return clock_nanosleep(clock, flags, t, left);
	if (!is_clock(clock))
		return EINVAL;
	if (t == NULL)
		return EFAULT;
	if (t->tv_nsec < 0 || t->tv_nsec >= UTIME_S || t->tv_sec < 0)
		return EINVAL;
	until = flags & TIMER_ABSTIME ?
		clock_until(b->b_host, clock, sim_ns_of(t)) :
		sim_after(b->b_host, sim_ns_of(t));
	rc = nap(b, until);
	if (rc != 0 && !(flags & TIMER_ABSTIME) && left != NULL)
		*left = sim_spec_of(time_left(b, until));
	return -rc;
}

NAME(int, nanosleep, (const struct timespec *t, struct timespec *left))
{
	if (sim_self() == NULL)
		return nanosleep(t, left);
	return (int)answer(-wrap_clock_nanosleep(CLOCK_MONOTONIC, 0, t, left));
}

NAME(int, usleep, (useconds_t us))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return usleep(us);
	return (int)answer(nap(b, sim_after(b->b_host, us * UTIME_US)));
}

NAME(unsigned, sleep, (unsigned seconds))
{
	struct sim_boot *b = enter();
	utime_ns until;

	if (b == NULL)
		return sleep(seconds);
	until = sim_after(b->b_host, seconds * UTIME_S);
	return nap(b, until) == 0 ? 0 : (unsigned)(time_left(b, until) / UTIME_S);
}

/* Others run before. So that a loop of it ends, it takes as long as on a machine. */
NAME(int, sched_yield, (void))
{
	if (enter() != NULL)
		sim_sleep(sim_now() + UTIME_US);
	return 0;
}

/* Chance, and who one is. */

void sim_random(void *to, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++)
		((unsigned char *)to)[i] = (unsigned char)usim_random(256);
}

NAME(ssize_t, getrandom, (void *buf, size_t size, unsigned flags))
{
	if (enter() == NULL)
		return getrandom(buf, size, flags);
	if (flags & ~(GRND_NONBLOCK | GRND_RANDOM | ANY_START) ||
	    (flags & GRND_RANDOM && flags & ANY_START))
		return answer(-EINVAL);
	if (buf == NULL && size > 0)
		return answer(-EFAULT);
	sim_random(buf, size);
	return (ssize_t)size;
}

NAME(int, getentropy, (void *buf, size_t size))
{
	if (enter() == NULL)
		return getentropy(buf, size);
	return size > 256 ? (int)answer(-EIO) :
		(wrap_getrandom(buf, size, 0), 0);
}

NAME(long, random, (void))
{
	return enter() == NULL ? random() : (long)usim_random(1u << 31);
}

NAME(int, rand, (void))
{
	return enter() == NULL ? rand() : (int)usim_random(1u << 31);
}

/* Libraries of C have their own generator, which asks the machine for a start. */
NAME(uint32_t, arc4random, (void))
{
	uint32_t nr = 0;

	wrap_getrandom(&nr, sizeof nr, 0);
	return nr;
}

NAME(void, arc4random_buf, (void *buf, size_t size))
{
	wrap_getrandom(buf, size, 0);
}

NAME(uint32_t, arc4random_uniform, (uint32_t end))
{
	return end < 2 ? 0 : (uint32_t)((uint64_t)wrap_arc4random() * end >> 32);
}

pid_t sim_pid(const struct sim_boot *b)
{
	return 1000 + b->b_number;
}

NAME(pid_t, getpid, (void))
{
	struct sim_boot *b = enter();

	return b == NULL ? getpid() : sim_pid(b);
}

NAME(pid_t, getppid, (void))
{
	return enter() == NULL ? getppid() : 1;
}

NAME(pid_t, gettid, (void))
{
	struct sim_boot *b = enter();

	return b == NULL ? gettid() : sim_thread_number(b);
}

NAME(int, gethostname, (char *name, size_t size))
{
	struct sim_boot *b = sim_caller();

	if (b == NULL)
		return gethostname(name, size);
	if (strlen(b->b_host->h_name) + 1 > size)
		return (int)answer(-ENAMETOOLONG);
	strcpy(name, b->b_host->h_name);
	return 0;
}

NAME(mode_t, umask, (mode_t mask))
{
	struct sim_boot *b = enter();
	mode_t before;

	if (b == NULL)
		return umask(mask);
	before = b->b_umask;
	b->b_umask = mask & 0777;
	return before;
}

/* Names of hosts. One result for a call, of one type. */

struct found {
	struct addrinfo    d_info;	/* first */
	uint32_t           d_gap;	/* no struct of libc has this */
	struct sockaddr_in d_address;
};

static int find_host(const struct sim_boot *b, const char *name, int flags,
		     struct in_addr *ip)
{
	int i;

	if (name == NULL) {
		ip->s_addr = htonl(flags & AI_PASSIVE ? INADDR_ANY :
				   INADDR_LOOPBACK);
		return 0;
	}
	if (inet_pton(AF_INET, name, ip) == 1)
		return 0;
	for (i = 1; !(flags & AI_NUMERICHOST) && i <= sim_host_nr; i++)
		if (strcmp(sim_hosts[i].h_name, name) == 0) {
			ip->s_addr = htonl(SIM_NETWORK + (uint32_t)i);
			return 0;
		}
	ip->s_addr = htonl(INADDR_LOOPBACK);
	return strcmp(name, "localhost") == 0 ||
		strcmp(name, b->b_host->h_name) == 0 ? 0 : EAI_NONAME;
}

/*
 * Returns the boot of a caller that asks for a host. For real, other names are the
 * machine's.
 */
static struct sim_boot *enter_for(const char *name)
{
	struct sim_boot *b = enter();
	struct in_addr ip;

	if (!sim_is_real || name == NULL)
		return b;
	b = sim_caller();
	return b != NULL && find_host(b, name, 0, &ip) == 0 ? b : NULL;
}

NAME(int, getaddrinfo, (const char *name, const char *service,
			const struct addrinfo *hints, struct addrinfo **list))
{
	struct sim_boot *b = enter_for(name);
	int type = hints != NULL && hints->ai_socktype != 0 ?
		hints->ai_socktype : SOCK_STREAM;
	char *end = NULL;
	long port = service != NULL ? strtol(service, &end, 10) : 0;
	struct in_addr ip;
	struct found *d;
	int rc;

	if (b == NULL)
		return getaddrinfo(name, service, hints, list);
	if (end != NULL && *end != 0)
		return EAI_SERVICE;
	if (hints != NULL && hints->ai_family == AF_INET6)
		return EAI_FAMILY;
	rc = find_host(b, name, hints != NULL ? hints->ai_flags : 0, &ip);
	if (rc != 0) {
		sim_sleep(sim_now() + LOOK_UP);
		return rc;
	}
	d = sim_alloc(sizeof *d);
	d->d_address = (struct sockaddr_in) { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port), .sin_addr = ip };
	d->d_info = (struct addrinfo) { .ai_family = AF_INET,
		.ai_socktype = type, .ai_addrlen = sizeof d->d_address,
		.ai_addr = (struct sockaddr *)&d->d_address };
	*list = &d->d_info;
	return 0;
}

NAME(void, freeaddrinfo, (struct addrinfo *list))
{
	struct found *d = (struct found *)list;

	if (list == NULL || list->ai_addr == (struct sockaddr *)&d->d_address)
		free(list);
	else
		freeaddrinfo(list);
}

/* Writes the name of an address, or its number. */
static int name_put(const struct sockaddr_in *in, char *to, socklen_t size, int flags)
{
	uint32_t n = ntohl(in->sin_addr.s_addr) - SIM_NETWORK;
	char number[INET_ADDRSTRLEN];
	const char *name = NULL;

	if (!(flags & NI_NUMERICHOST))
		name = n >= 1 && n <= (uint32_t)sim_host_nr ? sim_hosts[n].h_name :
			ntohl(in->sin_addr.s_addr) == INADDR_LOOPBACK ?
			"localhost" : NULL;
	if (name == NULL && flags & NI_NAMEREQD)
		return EAI_NONAME;
	if (name == NULL)
		name = inet_ntop(AF_INET, &in->sin_addr, number, sizeof number);
	return (size_t)snprintf(to, size, "%s", name) >= size ? EAI_OVERFLOW : 0;
}

NAME(int, getnameinfo, (const struct sockaddr *a, socklen_t n, char *host,
			socklen_t host_size, char *service,
			socklen_t service_size, int flags))
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)a;
	int rc = 0;

	if (enter() == NULL && !(sim_is_real && n >= (socklen_t)sizeof *in &&
				 a->sa_family == AF_INET &&
				 ntohl(in->sin_addr.s_addr) >> 8 == SIM_NETWORK >> 8))
		return getnameinfo(a, n, host, host_size, service, service_size,
				   flags);
	if (n < (socklen_t)sizeof *in || a->sa_family != AF_INET)
		return EAI_FAMILY;
	if (host != NULL && host_size > 0)
		rc = name_put(in, host, host_size, flags);
	if (rc == 0 && service != NULL && service_size > 0 &&
	    snprintf(service, service_size, "%d", ntohs(in->sin_port)) >=
	    (int)service_size)
		rc = EAI_OVERFLOW;
	return rc;
}

/*
 * The older calls for names. Their result is static: here it is a part of the
 * room of the caller, or of the boot.
 */

struct host_room {
	char         *m_aliases[1];
	char         *m_list[2];
	struct in_addr m_ip;
	char          m_name[64];
};

static struct hostent *host_put(struct hostent *to, struct host_room *m,
				const char *name, struct in_addr ip)
{
	snprintf(m->m_name, sizeof m->m_name, "%s", name);
	m->m_ip = ip;
	m->m_aliases[0] = m->m_list[1] = NULL;
	m->m_list[0] = (char *)&m->m_ip;
	*to = (struct hostent) { m->m_name, m->m_aliases, AF_INET, sizeof ip,
				 m->m_list };
	return to;
}

NAME(int, gethostbyname_r, (const char *name, struct hostent *to, char *room,
			    size_t size, struct hostent **result, int *error))
{
	struct sim_boot *b = enter();
	size_t odd = (uintptr_t)room % sizeof(void *);
	struct in_addr ip;

	if (b == NULL)
		return gethostbyname_r(name, to, room, size, result, error);
	*result = NULL;
	odd = odd > 0 ? sizeof(void *) - odd : 0;
	if (size < odd + sizeof(struct host_room))
		return ERANGE;
	if (find_host(b, name, 0, &ip) != 0) {
		sim_sleep(sim_now() + LOOK_UP);
		*error = HOST_NOT_FOUND;
		return 0;
	}
	*result = host_put(to, (struct host_room *)(room + odd), name, ip);
	return 0;
}

/* The result of a boot, which its next call overwrites. */
struct sim_found {
	struct hostent   d_host;
	struct host_room d_room;
};

static struct hostent *host_found(struct sim_boot *b, const char *name,
				  struct in_addr ip)
{
	if (b->b_found == NULL)
		b->b_found = sim_alloc(sizeof *b->b_found);
	return host_put(&b->b_found->d_host, &b->b_found->d_room, name, ip);
}

NAME(struct hostent *, gethostbyname, (const char *name))
{
	struct sim_boot *b = enter();
	struct in_addr ip;

	if (b == NULL)
		return gethostbyname(name);
	if (find_host(b, name, 0, &ip) == 0)
		return host_found(b, name, ip);
	sim_sleep(sim_now() + LOOK_UP);
	h_errno = HOST_NOT_FOUND;
	return NULL;
}

NAME(struct hostent *, gethostbyaddr, (const void *a, socklen_t n, int family))
{
	struct sim_boot *b = enter();
	struct sockaddr_in in = { .sin_family = AF_INET };
	char name[64];

	if (b == NULL)
		return gethostbyaddr(a, n, family);
	if (family == AF_INET && n == sizeof in.sin_addr) {
		memcpy(&in.sin_addr, a, n);
		if (name_put(&in, name, sizeof name, NI_NAMEREQD) == 0)
			return host_found(b, name, in.sin_addr);
	}
	h_errno = HOST_NOT_FOUND;
	return NULL;
}
