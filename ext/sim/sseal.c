/* SPDX-License-Identifier: MIT */
/* sseal.c: no call reaches the machine unseen. */

/*
 * sim.flags leads the calls of linked objects to the simulator. A shared library
 * calls libc itself, and assembly calls the kernel. So the native thread that
 * runs the hosts has a filter of seccomp: it may get memory, handle signals, end,
 * and write to the standard descriptors. Any other system call raises SIGSYS,
 * and its handler fails the run with the call's name and the host's.
 *
 * What no filter sees: clocks, which libc reads without a system call; and
 * questions that are allowed, such as getuid().
 *
 * Where there is no seccomp, as in qemu-user, or no header for it, as in musl-gcc,
 * such calls go through; and under sanitizers, which open files for their reports.
 */

#define _GNU_SOURCE		/* REG_ names, SYS_SECCOMP */
#include "sim.h"

#if defined(__has_include)
#if __has_include(<linux/audit.h>)
#define HAS_FILTERS
#endif
#endif

#if defined(HAS_FILTERS)
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <ucontext.h>

#if defined(__x86_64__)
#define MACHINE		AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE		AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define MACHINE		AUDIT_ARCH_RISCV64
#endif
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#undef MACHINE
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
	__has_feature(memory_sanitizer)
#undef MACHINE
#endif
#endif

#if defined(MACHINE)

/* Names that a message may need; any other call is told by its number. */
#define CALL_NAMES(X)							\
	X(read) X(write) X(readv) X(writev) X(pread64) X(pwrite64)	\
	X(openat) X(close) X(statx) X(newfstatat) X(fstat) X(lseek)	\
	X(ioctl) X(fcntl) X(dup) X(dup3) X(pipe2) X(fsync) X(fdatasync)	\
	X(ftruncate) X(fallocate) X(renameat2) X(unlinkat) X(mkdirat)	\
	X(getdents64) X(readlinkat) X(faccessat) X(faccessat2) X(getcwd) \
	X(socket) X(socketpair) X(bind) X(listen) X(accept) X(accept4)	\
	X(connect) X(shutdown) X(sendto) X(recvfrom) X(sendmsg)		\
	X(recvmsg) X(sendmmsg) X(recvmmsg) X(getsockname) X(getpeername) \
	X(setsockopt) X(getsockopt) X(ppoll) X(pselect6) X(epoll_create1) \
	X(epoll_ctl) X(epoll_pwait) X(eventfd2) X(timerfd_create)	\
	X(timerfd_settime) X(signalfd4) X(inotify_init1) X(memfd_create) \
	X(io_uring_setup) X(clone) X(clone3) X(execve) X(kill)	\
	X(nanosleep) X(clock_nanosleep) X(getrandom) X(uname) \
	X(getrusage) X(times) X(prctl) X(sendfile) X(splice)

struct call_name {
	long        n_number;
	const char *n_name;
};

#define ROW(name)	{ __NR_##name, #name },
static const struct call_name call_names[] = {
	CALL_NAMES(ROW)
#if defined(__NR_open)
	{ __NR_open, "open" }, { __NR_stat, "stat" }, { __NR_poll, "poll" },
	{ __NR_select, "select" }, { __NR_fork, "fork" }, { __NR_vfork, "vfork" },
	{ __NR_access, "access" }, { __NR_unlink, "unlink" },
	{ __NR_rename, "rename" }, { __NR_mkdir, "mkdir" }, { __NR_pipe, "pipe" },
	{ __NR_epoll_wait, "epoll_wait" }, { __NR_time, "time" },
#endif
};

/* The registers of a call: its result, and its first and second argument. */
#if defined(__x86_64__)
#define RESULT(c)	((c)->uc_mcontext.gregs[REG_RAX])
#define FIRST(c)	((c)->uc_mcontext.gregs[REG_RDI])
#define SECOND(c)	((c)->uc_mcontext.gregs[REG_RSI])
#elif defined(__aarch64__)
#define RESULT(c)	((c)->uc_mcontext.regs[0])
#define FIRST(c)	((c)->uc_mcontext.regs[0])
#define SECOND(c)	((c)->uc_mcontext.regs[1])
#else
#define RESULT(c)	((c)->uc_mcontext.__gregs[10])
#define FIRST(c)	((c)->uc_mcontext.__gregs[10])
#define SECOND(c)	((c)->uc_mcontext.__gregs[11])
#endif

/*
 * Files that no host has, and that libc and usched can do without: time is UTC,
 * and limits of memory are the usual. Their open() fails, as if they were not there.
 */
static bool is_absent(int number, const ucontext_t *c)
{
	static const char *const starts[] = {
		"/etc/localtime", "/usr/share/zoneinfo", "/proc/sys/vm/",
		"/proc/self/maps"
	};
	const char *path = number == __NR_openat ? (const char *)SECOND(c) : NULL;
	size_t i;

#if defined(__NR_open)
	if (number == __NR_open)
		path = (const char *)FIRST(c);
#endif
	for (i = 0; path != NULL && i < sizeof starts / sizeof starts[0]; i++)
		if (strncmp(path, starts[i], strlen(starts[i])) == 0)
			return true;
	return false;
}

static void reached(int signo, siginfo_t *info, void *context)
{
	ucontext_t *c = context;
	size_t i;

	(void)signo;
	if (is_absent(info->si_syscall, c)) {
		RESULT(c) = (__typeof__(RESULT(c)))-ENOENT;
		return;
	}
	for (i = 0; i < sizeof call_names / sizeof call_names[0]; i++)
		if (call_names[i].n_number == info->si_syscall)
			usim_fail("%s() came to the machine, from what sim.flags "
				  "has not linked: see ext/sim/README.md",
				  call_names[i].n_name);
	usim_fail("system call %d came to the machine, from what sim.flags has "
		  "not linked: see ext/sim/README.md", info->si_syscall);
}

/* Allows a call. */
#define ALLOW(name)							\
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 1),		\
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* Allows a call if argument arg is at most `most`. */
#define ALLOW_UP_TO(name, arg, most)					\
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 4),		\
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS,				\
		 (unsigned)(offsetof(struct seccomp_data, args) + 8 * (arg))), \
	BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, most, 1, 0),		\
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),			\
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))

/* Allows a call if argument arg is this. */
#define ALLOW_IF(name, arg, value)					\
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 4),		\
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS,				\
		 (unsigned)(offsetof(struct seccomp_data, args) + 8 * (arg))), \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),		\
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),			\
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))

/*
 * Memory, signals, the end; questions whose answers no run depends on: qsort() of
 * glibc asks for the size of memory. And futures: sfuture.c makes a process by clone()
 * with no flag, which libc never does.
 *
 * The first step looks at an argument, for nothing. Of a filter that does not, Linux
 * tries each number there is, to know which are always allowed: 70 us, where a run of
 * few calls takes 600.
 */
static struct sock_filter filter[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	ALLOW(mprotect), ALLOW(madvise), ALLOW(mmap), ALLOW(munmap),
	ALLOW(mremap), ALLOW(brk), ALLOW(futex), ALLOW(membarrier),
	ALLOW(rt_sigprocmask), ALLOW(rt_sigaction), ALLOW(rt_sigreturn),
	ALLOW(sigaltstack), ALLOW(exit), ALLOW(exit_group), ALLOW(getpid),
	ALLOW(gettid), ALLOW(tgkill), ALLOW(prlimit64), ALLOW(getuid),
	ALLOW(geteuid), ALLOW(getgid), ALLOW(getegid), ALLOW(sched_yield),
	ALLOW(sched_getaffinity), ALLOW(clock_gettime), ALLOW(clock_getres),
	ALLOW(mincore),
	ALLOW_UP_TO(write, 0, 2), ALLOW_UP_TO(writev, 0, 2),
	ALLOW_UP_TO(fstat, 0, 2), ALLOW_UP_TO(newfstatat, 0, 2),
	ALLOW_UP_TO(ioctl, 0, 2), ALLOW_UP_TO(lseek, 0, 2),
	ALLOW(sysinfo), ALLOW(wait4), ALLOW_IF(clone, 0, SIGCHLD),
	/* malloc() asks without waiting. Callers that use the bytes wait: flags 0. */
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_getrandom, 0, 3),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
		 (unsigned)(offsetof(struct seccomp_data, args) + 16)),
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, GRND_NONBLOCK, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)
};

/* Sets the filter for the calling native thread, if the system has such. */
void sim_seal(void)
{
	struct sigaction a = { .sa_sigaction = reached,
		.sa_flags = SA_SIGINFO | SA_ONSTACK };
	struct sock_fprog program = { sizeof filter / sizeof filter[0], filter };

	if (sigaction(SIGSYS, &a, NULL) == 0 &&
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
		(void)prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

#else

void sim_seal(void)
{
}

#endif
