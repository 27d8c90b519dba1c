/* SPDX-License-Identifier: MIT */
/* ulook.c: tells from outside of a native thread where it is. */

/*
 * OVERVIEW
 *
 * A signal ends a call like poll() or nanosleep() with EINTR, even if its
 * handler does nothing. Whether the thread is in a call cannot be known for
 * certain: it may enter the call between the look and the signal. So no signal
 * is sent. The kernel tells what can be told:
 *
 *	/proc/self/task/TID/syscall	"running", or the number of the call, its
 *					arguments, sp and pc
 *	/proc/self/task/TID/stat	S or D: it sleeps. Where there is no file
 *					syscall, so that the call has no name
 *	perf_event_open(2)		a sample of a thread that computes: its
 *					registers, and a copy of its stack
 *
 * A THREAD THAT SLEEPS stands still, and its stack can be copied. But it may
 * wake at any time. So a look goes
 *
 *	D1  read its cpu time			D4  read the file again
 *	D2  read the file			D5  read its cpu time again
 *	D3  copy the stack
 *
 * Only if both agree it has slept all the time, and the copy is believed. The
 * file alone does not suffice, since a thread may call again from the same
 * place; nor does the time, which has steps on some machines. The copy is made
 * by process_vm_readv(2), which does not fault.
 *
 * A call preserves registers that the file does not tell. Where the unwinder
 * needs one, as for functions with a frame pointer, the trace ends.
 *
 * A THREAD THAT RUNS is sampled by the kernel, in an interrupt from user mode.
 * The sample is one moment, so nothing has to agree. The interrupt is no
 * signal: a call that begins behind it knows nothing of it. The kernel may
 * forbid samples (perf_event_paranoid above 2, containers). Then there is no
 * trace of such a thread.
 *
 * WHOSE NUMBERS. Under an emulator the file tells of the emulator: numbers of
 * another machine, and another stack. So before a name is believed, the native
 * thread that looks reads its own file, which must tell of that very read():
 * the number, the descriptor and the address. Else the call has no name.
 *
 * REJECTED
 *
 * Signals from a timer by cpu time: its owner may be in a call when the timer
 * ends. (Recent kernels wait until the owner returns to the program. No
 * document promises that.)
 *
 * ptrace(2) from a helper process: it stops the thread, and some calls end with
 * EINTR after a stop: epoll_wait(2), see signal(7).
 *
 * A search of the stack of a running thread for return addresses: those of
 * calls that have ended look the same.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* process_vm_readv(), syscall() */
#endif
#include "ulook.h"
#include "uslice.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

UPREEMPT_NEVER;

#if defined(__linux__)

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#define LINE		256		/* of a file */
#define COPY		((size_t)48 << 10)	/* of a stack, at most */
#define STRING(x)	STRING_(x)
#define STRING_(x)	#x

/*
 * Calls that may block. If the system lacks one, its number is the name of a
 * macro.
 */
#define CALL(name)	{ #name, STRING(SYS_##name) }

static const struct call {
	const char *c_name;
	const char *c_nr;
} calls[] = {
	CALL(read), CALL(readv), CALL(pread64), CALL(preadv), CALL(preadv2),
	CALL(write), CALL(writev), CALL(pwrite64), CALL(pwritev),
	CALL(pwritev2), CALL(sendfile), CALL(splice), CALL(tee), CALL(vmsplice),
	CALL(copy_file_range),
	CALL(poll), CALL(ppoll), CALL(select), CALL(pselect6),
	CALL(epoll_wait), CALL(epoll_pwait), CALL(epoll_pwait2),
	CALL(io_getevents), CALL(io_pgetevents), CALL(io_uring_enter),
	CALL(accept), CALL(accept4), CALL(connect),
	CALL(recvfrom), CALL(recvmsg), CALL(recvmmsg),
	CALL(sendto), CALL(sendmsg), CALL(sendmmsg),
	CALL(nanosleep), CALL(clock_nanosleep), CALL(pause),
	CALL(rt_sigsuspend), CALL(rt_sigtimedwait), CALL(restart_syscall),
	CALL(futex), CALL(futex_waitv), CALL(semop), CALL(semtimedop),
	CALL(msgsnd), CALL(msgrcv), CALL(mq_timedsend), CALL(mq_timedreceive),
	CALL(wait4), CALL(waitid), CALL(vfork), CALL(execve),
	CALL(flock), CALL(fcntl), CALL(ioctl), CALL(fsync), CALL(fdatasync),
	CALL(sync), CALL(syncfs), CALL(sync_file_range), CALL(msync),
	CALL(open), CALL(openat), CALL(openat2), CALL(close), CALL(stat),
	CALL(fstat), CALL(lstat), CALL(newfstatat), CALL(statx), CALL(access),
	CALL(faccessat), CALL(readlink), CALL(readlinkat), CALL(getdents64),
	CALL(rename), CALL(renameat), CALL(renameat2), CALL(unlink),
	CALL(unlinkat), CALL(mkdir), CALL(mkdirat), CALL(rmdir),
	CALL(truncate), CALL(ftruncate), CALL(fallocate),
	CALL(mmap), CALL(munmap), CALL(mremap), CALL(madvise), CALL(mprotect),
	CALL(getrandom), CALL(clone), CALL(clone3), CALL(ptrace)
};

static const char *name_of(long nr)
{
	const struct call *c;
	char text[24];

	(void)snprintf(text, sizeof text, "%ld", nr);
	for (c = calls; c < calls + sizeof calls / sizeof calls[0]; c++) {
		if (strcmp(c->c_nr, text) == 0)
			return c->c_name;
	}
	return NULL;
}

/* What the kernel tells of a native thread that sleeps. */
struct sleep {
	long      p_nr;			/* of the call, or -1 */
	uintptr_t p_sp, p_pc;
};

/* Opens a file of a native thread. A descriptor, or -1. */
static int file_open(long native, const char *name)
{
	char path[64];

	(void)snprintf(path, sizeof path, "/proc/self/task/%ld/%s", native,
		       name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Reads the beginning of it, by the call read(). False: it cannot be read. */
static bool file_read(int fd, char line[LINE])
{
	long nob = fd < 0 ? -1 : syscall(SYS_read, fd, line, LINE - 1);

	line[nob > 0 ? nob : 0] = 0;
	return nob > 0;
}

/* Tells whether such a file means by its numbers what this program means. */
static bool is_ours(void)
{
	char line[LINE], want[LINE];
	int fd = file_open(syscall(SYS_gettid), "syscall");
	bool ours = file_read(fd, line);
	int nob = snprintf(want, sizeof want, "%ld 0x%x 0x%lx ",
			   (long)SYS_read, (unsigned)fd,
			   (unsigned long)(uintptr_t)line);

	if (fd >= 0)
		(void)close(fd);
	return ours && strncmp(line, want, (size_t)nob) == 0;
}

/* Returns what the first file tells, with *p if it is ULOOK_CALL or _KERNEL. */
static enum ulook_state look_once(long native, struct sleep *p)
{
	char line[LINE];
	int fd = file_open(native, "syscall");
	bool can = file_read(fd, line);
	const char *at;

	if (fd >= 0)
		(void)close(fd);
	if (!can)
		return ULOOK_UNKNOWN;
	if (strncmp(line, "running", 7) == 0)
		return ULOOK_RUNS;
	p->p_nr = atol(line);
	at = strrchr(line, ' ');
	p->p_pc = at != NULL ? strtoul(at, NULL, 16) : 0;
	while (at != NULL && at > line && *--at != ' ')
		;
	p->p_sp = at != NULL ? strtoul(at, NULL, 16) : 0;
	return p->p_nr < 0 ? ULOOK_KERNEL : ULOOK_CALL;
}

/* Returns the state by the second file, without a name. */
static enum ulook_state look_state(long native)
{
	char line[LINE];
	int fd = file_open(native, "stat");
	const char *at = file_read(fd, line) ? strrchr(line, ')') : NULL;

	if (fd >= 0)
		(void)close(fd);
	if (at == NULL || at[1] == 0)
		return ULOOK_UNKNOWN;
	return at[2] == 'S' || at[2] == 'D' ? ULOOK_CALL : ULOOK_RUNS;
}

/* Returns the cpu time of a native thread; 0: it is not told. */
static long long cpu_time(long native)
{
	struct timespec t;
	/* This is how pthread_getcpuclockid() makes it. */
	clockid_t clock = (clockid_t)(~(unsigned)native << 3 | 6);

	return clock_gettime(clock, &t) != 0 ? 0 :
		t.tv_sec * 1000000000LL + t.tv_nsec;
}

size_t ulook_copy(void *to, const void *from, size_t nob)
{
	struct iovec here = { to, nob }, there = { (void *)(uintptr_t)from, nob };

	nob = (size_t)process_vm_readv(getpid(), &here, 1, &there, 1, 0);
	return nob == (size_t)-1 ? 0 : nob;
}

/* Copies the stack from sp on. Returns the bytes, or 0. */
static size_t copy_stack(char *to, uintptr_t sp, const char *bottom)
{
	size_t nob = (uintptr_t)bottom - sp;

	return ulook_copy(to, (const void *)sp, nob < COPY ? nob : COPY);
}

static bool lies_in(uintptr_t sp, const char *low, const char *bottom)
{
	return sp >= (uintptr_t)low && sp < (uintptr_t)bottom;
}

static void trace(struct ulook *l, struct utrace_moment *m)
{
	l->l_pc_nr = utrace_moment(m, l->l_pc, ULOOK_PCS);
	l->l_sure  = m->m_sure;
}

/* Stores what p tells of a thread that has slept since its cpu time was cpu. */
static void trace_asleep(struct ulook *l, long native, const struct sleep *p,
			 long long cpu, struct utrace_moment *m)
{
	struct sleep again = { 0 };
	char *copy = malloc(COPY);

	if (copy == NULL) {
		l->l_pc_nr = -ENOMEM;
		return;
	}
	m->m_copy = copy;
	m->m_nob  = copy_stack(copy, p->p_sp, m->m_bottom);	/* D3 */
	m->m_reg[7]  = p->p_sp;
	m->m_reg[16] = p->p_pc;
	if (look_once(native, &again) == l->l_state &&		/* D4 */
	    memcmp(&again, p, sizeof again) == 0 &&
	    cpu_time(native) == cpu && m->m_nob > 0)		/* D5 */
		trace(l, m);
	free(copy);
}

#if defined(__x86_64__) && defined(__LP64__) && defined(__has_include)
#if __has_include(<linux/perf_event.h>) && __has_include(<asm/perf_regs.h>)
#define SAMPLES
#endif
#endif

#if defined(SAMPLES)

#include <asm/perf_regs.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define PERIOD		100000		/* ns of cpu time until a sample */
#define PATIENCE	100		/* ms until the sample */
#define RING		((size_t)64 << 10)

/* The registers of a sample, in its order, by their numbers in DWARF. */
static const unsigned char dwarf[] = {
	0, 3, 2, 1, 4, 5, 6, 7, 16, 8, 9, 10, 11, 12, 13, 14, 15
};
#define REGS	(sizeof dwarf)
#define UP_TO(reg)	((2ull << (reg)) - 1)
#define MASK	(UP_TO(PERF_REG_X86_IP) |				\
		 (UP_TO(PERF_REG_X86_R15) & ~(UP_TO(PERF_REG_X86_R8) >> 1)))

/* A record with REGS registers and size bytes of stack. */
struct record {
	struct perf_event_header r_head;
	uint64_t r_abi;
	uint64_t r_reg[REGS];
	uint64_t r_size;
	char     r_stack[];		/* behind it the bytes that are valid */
};

/* Opens a sampler that waits for one sample from user mode. Or -errno. */
static int sampler(long native)
{
	struct perf_event_attr a;
	int fd;

	memset(&a, 0, sizeof a);
	a.size    = sizeof a;
	a.type    = PERF_TYPE_SOFTWARE;
	a.config  = PERF_COUNT_SW_TASK_CLOCK;
	a.disabled          = 1;
	a.exclude_kernel    = 1;
	a.exclude_hv        = 1;
	a.sample_period     = PERIOD;
	a.sample_type       = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	a.sample_regs_user  = MASK;
	a.sample_stack_user = (uint32_t)COPY;
	a.wakeup_events     = 1;
	fd = (int)syscall(SYS_perf_event_open, &a, (pid_t)native, -1, -1,
			  PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Reads the first sample, if m->m_bottom ends the stack of that. */
static int sample_read(const struct record *r, struct utrace_moment *m,
		       const char *low)
{
	uint64_t valid;
	size_t i;

	if (r->r_head.type != PERF_RECORD_SAMPLE || r->r_abi == 0 ||
	    r->r_size == 0)
		return -EAGAIN;
	for (i = 0; i < REGS; i++)
		m->m_reg[dwarf[i]] = r->r_reg[i];
	memcpy(&valid, r->r_stack + r->r_size, sizeof valid);
	m->m_copy = r->r_stack;
	m->m_nob  = valid;
	return lies_in(m->m_reg[7], low, m->m_bottom) ? 0 : -EAGAIN;
}

/* Takes a sample through the ring, and stores its trace. 0 or -errno. */
static int sample_take(int fd, char *ring, struct ulook *l,
		       struct utrace_moment *m, const char *low)
{
	const struct perf_event_mmap_page *head = (const void *)ring;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int rc;

	if (ioctl(fd, PERF_EVENT_IOC_REFRESH, 1) != 0)
		return -errno;
	(void)poll(&p, 1, PATIENCE);
	(void)ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	/* Pairs with the kernel's release, once the record is complete. */
	if (__atomic_load_n(&head->data_head, __ATOMIC_ACQUIRE) == 0)
		return 0;
	rc = sample_read((const void *)(ring + head->data_offset), m, low);
	if (rc == 0)
		trace(l, m);
	return 0;
}

static void trace_running(struct ulook *l, long native,
			  struct utrace_moment *m, const char *low)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE) + RING;
	int fd = sampler(native);
	char *ring;

	l->l_pc_nr = fd < 0 ? fd : 0;
	if (fd < 0)
		return;
	ring = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring != MAP_FAILED) {
		int rc = sample_take(fd, ring, l, m, low);

		if (rc != 0)
			l->l_pc_nr = rc;
		(void)munmap(ring, size);
	} else
		l->l_pc_nr = -errno;
	(void)close(fd);
}

#else

static void trace_running(struct ulook *l, long native,
			  struct utrace_moment *m, const char *low)
{
	(void)native, (void)m, (void)low;
	l->l_pc_nr = -ENOSYS;
}

#endif

/* Looks once; at a thread that sleeps by D1 to D5. */
static void look(struct ulook *l, long native, const char *low,
		 const char *bottom)
{
	struct utrace_moment m = { .m_bottom = bottom };
	struct sleep p = { .p_nr = -1 };
	long long cpu = cpu_time(native);			/* D1 */

	l->l_state = look_once(native, &p);			/* D2 */
	l->l_call  = -1;
	if (l->l_state == ULOOK_UNKNOWN)
		l->l_state = look_state(native);
	else if (l->l_state >= ULOOK_KERNEL && is_ours()) {
		l->l_call = p.p_nr;
		if (lies_in(p.p_sp, low, bottom))
			trace_asleep(l, native, &p, cpu, &m);
	}
	if (l->l_state == ULOOK_RUNS)
		trace_running(l, native, &m, low);
}

void ulook(struct ulook *l, long native, const char *low, const char *bottom)
{
	int i;

	/* It may have gone to sleep before a sample, or have woken. */
	for (i = 0; i < 2; i++) {
		memset(l, 0, sizeof *l);
		look(l, native, low, bottom);
		if (l->l_pc_nr != 0)
			break;
	}
}

#else

void ulook(struct ulook *l, long native, const char *low, const char *bottom)
{
	(void)native, (void)low, (void)bottom;
	memset(l, 0, sizeof *l);
	l->l_pc_nr = -ENOSYS;
}

size_t ulook_copy(void *to, const void *from, size_t nob)
{
	(void)to, (void)from, (void)nob;
	return 0;
}

static const char *name_of(long nr)
{
	(void)nr;
	return NULL;
}

#endif

const char *ulook_says(const struct ulook *l, char text[ULOOK_TEXT])
{
	const char *name = l->l_call < 0 ? NULL : name_of(l->l_call);

	*text = 0;
	if (l->l_state == ULOOK_KERNEL)
		(void)snprintf(text, ULOOK_TEXT, "in the kernel");
	else if (l->l_state == ULOOK_CALL && name != NULL)
		(void)snprintf(text, ULOOK_TEXT, "in %s()", name);
	else if (l->l_state == ULOOK_CALL && l->l_call >= 0)
		(void)snprintf(text, ULOOK_TEXT, "in call %ld", l->l_call);
	else if (l->l_state == ULOOK_CALL)
		(void)snprintf(text, ULOOK_TEXT, "in a call");
	return text;
}
