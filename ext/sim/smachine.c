/* SPDX-License-Identifier: MIT */
/* smachine.c: the machine of a host: its limits, memory and name. */

/*
 * What a program asks of its machine is a constant of all simulated hosts, or a state of
 * the boot, so a run is the same on each machine:
 *
 *	limits		as many descriptors as a host has, and else none. A limit that is set
 *			is kept until the end of the boot, and that of descriptors is obeyed
 *	processors	one, without load: scpu.c
 *	memory		MEMORY bytes, and half of them are free
 *	cpu time	0, as computations take no time: scpu.c
 *	terminals	none, whatever runs the program: suser.c
 *
 * Some answers are the machine's, since the program itself runs there: the size of a
 * page; abilities of the processor, by getauxval(); and addresses of memory, by which no
 * program should order anything. The environment is a part of the program, as its
 * arguments are.
 *
 * A lower limit of the size of a file, which Linux obeys by a signal, is refused.
 */

#define _GNU_SOURCE		/* prlimit(), sched_getaffinity() */
#include "snames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#if !defined(MCL_ONFAULT)
#define MCL_ONFAULT	4
#endif
#define MEMORY		((utime_ns)1 << 30)
#define MEMORY_UNIT	4096
#define LIMITS		16		/* RLIMIT_ names */
#define AT_RANDOM_SIZE	16

struct sim_machine {
	struct rlimit m_limits[LIMITS];
	char          m_name[16];		/* prctl() */
	unsigned char m_random[AT_RANDOM_SIZE];	/* getauxval() */
	bool          m_has_random;
};

void sim_limit_usual(int what, struct rlimit *to)
{
	to->rlim_cur = to->rlim_max = what == RLIMIT_NOFILE ? SIM_FDS : RLIM_INFINITY;
}

static void name_set(struct sim_machine *m, const char *name)
{
	memset(m->m_name, 0, sizeof m->m_name);
	memcpy(m->m_name, name, strnlen(name, sizeof m->m_name - 1));
}

static struct sim_machine *machine_of(struct sim_boot *b)
{
	struct sim_machine *m = b->b_machine;
	int i;

	if (m != NULL)
		return m;
	b->b_machine = m = sim_alloc(sizeof *m);
	for (i = 0; i < LIMITS; i++)
		sim_limit_usual(i, &m->m_limits[i]);
	name_set(m, b->b_host->h_name);
	return m;
}

/* Limits. */

/* glibc has a type for C of its own. */
#if defined(__GLIBC__)
#define RESOURCE	__rlimit_resource_t
#else
#define RESOURCE	int
#endif

static int limit_set(struct sim_boot *b, int what, const struct rlimit *to)
{
	struct rlimit *at = &machine_of(b)->m_limits[what];

	if (to->rlim_cur > to->rlim_max)
		return -EINVAL;
	if (to->rlim_max > at->rlim_max)
		return -EPERM;
	if (what == RLIMIT_FSIZE && to->rlim_cur != RLIM_INFINITY)
		usim_fail("setrlimit(RLIMIT_FSIZE) is not simulated");
	*at = *to;
	if (what == RLIMIT_NOFILE)
		b->b_fd_nr = (int)to->rlim_cur;
	return 0;
}

static int limit_by(struct sim_boot *b, pid_t pid, int what, const struct rlimit *to,
		    struct rlimit *old)
{
	struct rlimit before;
	int rc = sim_own(b, pid);

	if (rc != 0)
		return -ESRCH;
	if (what < 0 || what >= LIMITS)
		return -EINVAL;
	before = machine_of(b)->m_limits[what];
	rc = to != NULL ? limit_set(b, what, to) : 0;
	if (rc == 0 && old != NULL)
		*old = before;
	return rc;
}

NAME(int, prlimit, (pid_t pid, RESOURCE what, const struct rlimit *to,
		    struct rlimit *old))
{
	struct sim_boot *b = enter();

	return b == NULL ? prlimit(pid, what, to, old) :
		(int)answer(limit_by(b, pid, (int)what, to, old));
}

NAME(int, getrlimit, (RESOURCE what, struct rlimit *to))
{
	struct sim_boot *b = enter();

	return b == NULL ? getrlimit(what, to) :
		(int)answer(limit_by(b, 0, (int)what, NULL, to));
}

NAME(int, setrlimit, (RESOURCE what, const struct rlimit *to))
{
	struct sim_boot *b = enter();

	return b == NULL ? setrlimit(what, to) :
		(int)answer(limit_by(b, 0, (int)what, to, NULL));
}

ALIAS(int, prlimit64, (pid_t pid, RESOURCE what, const struct rlimit *to,
		       struct rlimit *old), prlimit)
ALIAS(int, getrlimit64, (RESOURCE what, struct rlimit *to), getrlimit)
ALIAS(int, setrlimit64, (RESOURCE what, const struct rlimit *to), setrlimit)

NAME(int, getdtablesize, (void))
{
	struct sim_boot *b = enter();

	return b == NULL ? getdtablesize() : b->b_fd_nr;
}

/* Numbers of a system. All others are constants of libc. */
NAME(long, sysconf, (int name))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return sysconf(name);
	switch (name) {
	case _SC_NPROCESSORS_ONLN:
	case _SC_NPROCESSORS_CONF:	return 1;
	case _SC_OPEN_MAX:		return b->b_fd_nr;
	case _SC_PHYS_PAGES:		return MEMORY / MEMORY_UNIT;
	case _SC_AVPHYS_PAGES:		return MEMORY / MEMORY_UNIT / 2;
	case _SC_ARG_MAX:		return 2097152;
	case _SC_CHILD_MAX:		return -1;
	case _SC_NGROUPS_MAX:		return 65536;
	case _SC_CLK_TCK:		return SIM_TICKS;
#if defined(_SC_LEVEL1_ICACHE_SIZE)
	case _SC_LEVEL1_ICACHE_SIZE ... _SC_LEVEL4_CACHE_LINESIZE:
		return 0;
#endif
#if defined(_SC_SIGSTKSZ)
	case _SC_MINSIGSTKSZ:		return 2048;
	case _SC_SIGSTKSZ:		return 8192;
#endif
	default:			return sysconf(name);
	}
}

/* Returns whether a number needs no look at the file, so that there need be none. */
static bool is_of_all(int name)
{
	switch (name) {
	case _PC_LINK_MAX:
	case _PC_NAME_MAX:
	case _PC_CHOWN_RESTRICTED:
	case _PC_ASYNC_IO:
	case _PC_FILESIZEBITS:
	case _PC_REC_MIN_XFER_SIZE:
	case _PC_REC_XFER_ALIGN:
	case _PC_ALLOC_SIZE_MIN:
	case _PC_2_SYMLINKS:		return false;
	default:			return true;
	}
}

/* Numbers of a file. All files of a host are on one file system. */
static long path_number(int name, mode_t mode)
{
	switch (name) {
	case _PC_LINK_MAX:		return 127;
	case _PC_MAX_CANON:
	case _PC_MAX_INPUT:
	case _PC_NAME_MAX:		return 255;
	case _PC_PATH_MAX:
	case _PC_PIPE_BUF:		return 4096;
	case _PC_CHOWN_RESTRICTED:
	case _PC_NO_TRUNC:
	case _PC_2_SYMLINKS:		return 1;
	case _PC_VDISABLE:		return 0;
	case _PC_FILESIZEBITS:		return S_ISREG(mode) || S_ISDIR(mode) ? 64 : 32;
	case _PC_ASYNC_IO:		return S_ISREG(mode) ? 1 : -1;
	case _PC_REC_MIN_XFER_SIZE:
	case _PC_REC_XFER_ALIGN:
	case _PC_ALLOC_SIZE_MIN:	return 4096;
	case _PC_SYNC_IO:
	case _PC_PRIO_IO:
	case _PC_SOCK_MAXBUF:
	case _PC_REC_INCR_XFER_SIZE:
	case _PC_REC_MAX_XFER_SIZE:
	case _PC_SYMLINK_MAX:		return -1;
	default:			return (long)answer(-EINVAL);
	}
}

NAME(long, pathconf, (const char *path, int name))
{
	struct sim_boot *b = enter();
	struct stat st = { .st_mode = 0 };
	int rc;

	if (b == NULL)
		return pathconf(path, name);
	rc = path != NULL && *path != 0 && is_of_all(name) ? 0 :
		sim_stat(b, path, true, &st);
	if (rc == -ENOENT && sim_device_stat(path, NULL, &st))
		rc = 0;
	return rc != 0 ? (long)answer(rc) : path_number(name, st.st_mode);
}

NAME(long, fpathconf, (int fd, int name))
{
	struct sim_boot *b = enter();
	struct stat st = { .st_mode = 0 };
	struct sim_file *f;

	if (b == NULL)
		return fpathconf(fd, name);
	f = sim_file_any(b, fd);
	if (fd < 0 || (f == NULL && fd >= SIM_FIRST && !is_of_all(name)))
		return (long)answer(-EBADF);
	if (f != NULL)
		sim_fstat(f, &st);
	return path_number(name, st.st_mode);
}

/* Memory. */

NAME(long, get_phys_pages, (void))
{
	return enter() == NULL ? get_phys_pages() : (long)(MEMORY / MEMORY_UNIT);
}

NAME(long, get_avphys_pages, (void))
{
	return enter() == NULL ? get_avphys_pages() : (long)(MEMORY / MEMORY_UNIT / 2);
}

NAME(int, mlock, (const void *at, size_t size))
{
	return enter() == NULL ? mlock(at, size) : 0;
}

NAME(int, munlock, (const void *at, size_t size))
{
	return enter() == NULL ? munlock(at, size) : 0;
}

NAME(int, mlockall, (int flags))
{
	if (enter() == NULL)
		return mlockall(flags);
	return flags == 0 || flags == MCL_ONFAULT ||
		flags & ~(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) ? (int)answer(-EINVAL) : 0;
}

NAME(int, munlockall, (void))
{
	return enter() == NULL ? munlockall() : 0;
}

/* The words that the kernel gives to a program. */
NAME(unsigned long, getauxval, (unsigned long name))
{
	struct sim_boot *b = enter();
	struct sim_machine *m;

	if (b == NULL)
		return getauxval(name);
	switch (name) {
	case AT_UID:
	case AT_EUID:
	case AT_GID:
	case AT_EGID:		return SIM_USER;
	case AT_CLKTCK:		return SIM_TICKS;
	case AT_RANDOM:
		m = machine_of(b);
		if (!m->m_has_random)
			sim_random(m->m_random, sizeof m->m_random);
		m->m_has_random = true;
		return (unsigned long)(uintptr_t)m->m_random;
	default:		return getauxval(name);
	}
}

/* What the machine is called, and how it is. */

void sim_system_name(struct utsname *to)
{
	const struct sim_boot *b = sim_caller();

	memset(to, 0, sizeof *to);
	strcpy(to->sysname, "Linux");
	snprintf(to->nodename, sizeof to->nodename, "%s",
		 b != NULL ? b->b_host->h_name : "host");
	strcpy(to->release, "6.1.0");
	strcpy(to->version, "#1 SMP simulated");
#if defined(__x86_64__)
	strcpy(to->machine, "x86_64");
#elif defined(__aarch64__)
	strcpy(to->machine, "aarch64");
#else
	strcpy(to->machine, "riscv64");
#endif
}

NAME(int, uname, (struct utsname *to))
{
	return enter() == NULL ? uname(to) : (sim_system_name(to), 0);
}

NAME(int, getdomainname, (char *to, size_t size))
{
	static const char none[] = "(none)";

	if (enter() == NULL)
		return getdomainname(to, size);
	if (size < sizeof none)
		return (int)answer(-EINVAL);
	memcpy(to, none, sizeof none);
	return 0;
}

NAME(long, gethostid, (void))
{
	struct sim_boot *b = enter();

	return b == NULL ? gethostid() : (long)SIM_NETWORK + b->b_host->h_number;
}

NAME(int, sethostname, (const char *name, size_t size))
{
	return enter() == NULL ? sethostname(name, size) : (int)answer(-EPERM);
}

void sim_system_info(struct sysinfo *to)
{
	const struct sim_boot *b = sim_caller();

	memset(to, 0, sizeof *to);
	if (b != NULL)
		to->uptime = (long)(sim_clock(b->b_host, CLOCK_BOOTTIME) / UTIME_S);
	to->totalram = MEMORY;
	to->freeram = MEMORY / 2;
	to->procs = 1;
	to->mem_unit = 1;
}

NAME(int, sysinfo, (struct sysinfo *to))
{
	return enter() == NULL ? sysinfo(to) : (sim_system_info(to), 0);
}

/* The name of the thread, which nothing here reads. */
NAME(int, prctl, (int what, ...))
{
	struct sim_boot *b = enter();
	unsigned long a[4];
	va_list args;
	int i;

	va_start(args, what);
	for (i = 0; i < 4; i++)
		a[i] = va_arg(args, unsigned long);
	va_end(args);
	if (b == NULL)
		return prctl(what, a[0], a[1], a[2], a[3]);
	if (what == PR_SET_NAME)
		name_set(machine_of(b), (const char *)a[0]);
	else if (what == PR_GET_NAME)
		memcpy((char *)a[0], machine_of(b)->m_name,
		       sizeof machine_of(b)->m_name);
	else
		usim_fail("prctl(%d) is not simulated", what);
	return 0;
}
