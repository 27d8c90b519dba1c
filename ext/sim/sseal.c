/* SPDX-License-Identifier: MIT */
/* sseal.c: no call reaches the machine unseen. */

/*
 * sim.flags leads the calls of linked objects to the simulator. A shared library
 * calls libc itself, and assembly calls the kernel. So the native thread that
 * runs the hosts has a filter of seccomp: it may get memory, handle signals, end,
 * and write to the standard descriptors. Any other system call raises SIGSYS, and the
 * handler does one of three things:
 *
 *	a question that libc or a library asks in vain	an answer, the host's: is_answered()
 *	a file that no host has		open() fails: is_absent()
 *	else				the run fails, and says the call's name, which
 *					function has called what of libc, and what to do
 *					(scaller.c)
 *
 * What no filter sees: clocks, which libc reads without a system call.
 *
 * Where there is no seccomp, as in qemu-user, or no header for it, as in musl-gcc,
 * such calls go through; and under sanitizers, which open files for their reports.
 */

#define _GNU_SOURCE		/* REG_ names, SYS_SECCOMP */
#include "sim.h"
#include "snumber.h"

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
#include <sys/resource.h>
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

/* The registers of a call: its place, its result, and its n-th argument. */
#if defined(__x86_64__)
#define PLACE(c)	((c)->uc_mcontext.gregs[REG_RIP])
#define RESULT(c)	((c)->uc_mcontext.gregs[REG_RAX])
static const int arguments[] = { REG_RDI, REG_RSI, REG_RDX, REG_R10 };
#define ARGUMENT(c, n)	((c)->uc_mcontext.gregs[arguments[n]])
#elif defined(__aarch64__)
#define PLACE(c)	((c)->uc_mcontext.pc)
#define RESULT(c)	((c)->uc_mcontext.regs[0])
#define ARGUMENT(c, n)	((c)->uc_mcontext.regs[n])
#else
#define PLACE(c)	((c)->uc_mcontext.__gregs[REG_PC])
#define RESULT(c)	((c)->uc_mcontext.__gregs[REG_A0])
#define ARGUMENT(c, n)	((c)->uc_mcontext.__gregs[REG_A0 + (n)])
#endif

/*
 * Files that no host has, and that libc and usched can do without: time is UTC, texts
 * are in English, and limits of memory are the usual. Their open() fails, as if they
 * were not there.
 */
static bool is_absent(int number, const ucontext_t *c)
{
	static const char *const starts[] = {
		"/etc/localtime", "/usr/share/zoneinfo", "/proc/sys/vm/",
		"/proc/self/maps", "/usr/lib/locale", "/usr/share/locale",
		"/sys/devices/system/cpu/", "/proc/stat", "/proc/cpuinfo"
	};
	const char *path = number == __NR_openat ? (const char *)ARGUMENT(c, 1) : NULL;
	size_t i;

#if defined(__NR_open)
	if (number == __NR_open)
		path = (const char *)ARGUMENT(c, 0);
#endif
	for (i = 0; path != NULL && i < sizeof starts / sizeof starts[0]; i++)
		if (strncmp(path, starts[i], strlen(starts[i])) == 0)
			return true;
	return false;
}

/* Questions of libc and of shared libraries, with the answers of smachine.c. */
static bool is_answered(int number, ucontext_t *c)
{
	void *to = (void *)ARGUMENT(c, 0);

	switch (number) {
	case __NR_getuid:
	case __NR_geteuid:
	case __NR_getgid:
	case __NR_getegid:
		RESULT(c) = SIM_USER;
		return true;
	case __NR_uname:
		sim_system_name(to);
		break;
	case __NR_sysinfo:
		sim_system_info(to);
		break;
	case __NR_sched_getaffinity:
		to = (void *)ARGUMENT(c, 2);
		memset(to, 0, sizeof(long));
		*(char *)to = 1;
		RESULT(c) = sizeof(long);
		return true;
	case __NR_prlimit64:
		if ((void *)ARGUMENT(c, 2) != NULL)
			return false;
		to = (void *)ARGUMENT(c, 3);
		sim_limit_usual((int)ARGUMENT(c, 1), to);
		break;
	default:
		return false;
	}
	RESULT(c) = 0;
	return true;
}

static void reached(int signo, siginfo_t *info, void *context)
{
	static bool tells;		/* who has called is looked for */
	ucontext_t *c = context;

	(void)signo;
	if (tells || is_absent(info->si_syscall, c)) {
		RESULT(c) = (__typeof__(RESULT(c)))-ENOENT;
		return;
	}
	if (is_answered(info->si_syscall, c))
		return;
	tells = true;
	sim_tell_caller(sim_call_name(info->si_syscall), (uintptr_t)PLACE(c));
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
 * Memory, signals, the end; and futures: sfuture.c makes a process by clone() with no
 * flag, which libc never does.
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
	ALLOW(gettid), ALLOW(tgkill), ALLOW(sched_yield), ALLOW(clock_gettime),
	/* core/law.h, lanes.h */
	ALLOW_IF(prlimit64, 1, RLIMIT_DATA), ALLOW_IF(prlimit64, 1, RLIMIT_AS),
	ALLOW(mincore),
	ALLOW_UP_TO(write, 0, 2), ALLOW_UP_TO(writev, 0, 2),
	ALLOW_UP_TO(fstat, 0, 2), ALLOW_UP_TO(newfstatat, 0, 2),
	ALLOW_UP_TO(ioctl, 0, 2), ALLOW_UP_TO(lseek, 0, 2),
	ALLOW(wait4), ALLOW_IF(clone, 0, SIGCHLD),
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
		.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
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
