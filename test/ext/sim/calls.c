/* SPDX-License-Identifier: MIT */
/*
 * calls.c: a host gets the same answers on each machine, and a call that is not
 * simulated ends the run by its name, with the function that has called it. CALL
 * in the environment asks for such a call: calls.sh has the list.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <usched/usim.h>
#include "outside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <locale.h>
#include <net/if.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <syslog.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define FAILS(call, error)	USIM_CHECK((call) == -1 && errno == (error))

static void limits(void)
{
	struct rlimit l;
	int fds[300], nr, i;

	USIM_CHECK(getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur == 256);
	USIM_CHECK(getrlimit(RLIMIT_STACK, &l) == 0 && l.rlim_cur == RLIM_INFINITY);
	FAILS(getrlimit((__typeof__(RLIMIT_NOFILE))77, &l), EINVAL);
	l = (struct rlimit) { 20, 30 };
	USIM_CHECK(setrlimit(RLIMIT_NOFILE, &l) == 0);
	for (nr = 0; (fds[nr] = open("/dev/null", O_RDONLY)) >= 0; nr++)
		USIM_CHECK(fds[nr] < 20);
	USIM_CHECK(errno == EMFILE && nr == 17);
	FAILS(dup2(fds[0], 20), EBADF);
	FAILS(fcntl(fds[0], F_DUPFD, 20), EINVAL);
	for (i = 0; i < nr; i++)
		close(fds[i]);
	USIM_CHECK(sysconf(_SC_OPEN_MAX) == 20 && getdtablesize() == 20);
	USIM_CHECK(prlimit(getpid(), RLIMIT_NOFILE, NULL, &l) == 0 && l.rlim_max == 30);
	FAILS(setrlimit(RLIMIT_NOFILE, &((struct rlimit) { 31, 31 })), EPERM);
	FAILS(setrlimit(RLIMIT_NOFILE, &((struct rlimit) { 9, 8 })), EINVAL);
	FAILS(prlimit(1, RLIMIT_NOFILE, NULL, &l), ESRCH);
}

static void processors(void)
{
	struct sched_param p = { 0 };
	struct timespec t;
	cpu_set_t cpus;
	double load[3];

	USIM_CHECK(sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) == 1);
	USIM_CHECK(CPU_ISSET(0, &cpus) && sched_setaffinity(0, sizeof cpus, &cpus) == 0);
	CPU_CLR(0, &cpus);
	FAILS(sched_setaffinity(0, sizeof cpus, &cpus), EINVAL);
	FAILS(sched_getaffinity(0, 4, &cpus), EINVAL);
	USIM_CHECK(pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus) == 0);
	USIM_CHECK(get_nprocs() == 1 && get_nprocs_conf() == 1 && sched_getcpu() == 0);
	USIM_CHECK(sysconf(_SC_NPROCESSORS_ONLN) == 1 && getloadavg(load, 3) == 3);
	USIM_CHECK(load[0] == 0 && sched_getscheduler(0) == SCHED_OTHER);
	USIM_CHECK(sched_setscheduler(0, SCHED_BATCH, &p) == 0);
	FAILS(sched_setscheduler(0, SCHED_FIFO, &p), EINVAL);
	p.sched_priority = 1;
	FAILS(sched_setscheduler(0, SCHED_FIFO, &p), EPERM);
	USIM_CHECK(sched_get_priority_max(SCHED_RR) == 99);
	USIM_CHECK(sched_rr_get_interval(0, &t) == 0 && t.tv_nsec == 4000000);
	errno = 0;
	USIM_CHECK(getpriority(PRIO_PROCESS, 0) == 0 && nice(3) == 3);
	FAILS(nice(-1), EPERM);
	FAILS(setpriority(PRIO_PROCESS, 0, 2), EACCES);
	USIM_CHECK(setpriority(PRIO_PROCESS, 0, 40) == 0);
	USIM_CHECK(getpriority(PRIO_PROCESS, 0) == 19);
}

static void memory(void)
{
	struct sysinfo info;
	char page[4096];

	USIM_CHECK(sysinfo(&info) == 0 && info.totalram == 1 << 30 && info.uptime == 1);
	USIM_CHECK(sysconf(_SC_PHYS_PAGES) == 1 << 18 && get_phys_pages() == 1 << 18);
	USIM_CHECK(sysconf(_SC_AVPHYS_PAGES) == get_avphys_pages());
	USIM_CHECK(mlock(page, sizeof page) == 0 && mlockall(MCL_FUTURE) == 0);
	USIM_CHECK(munlock(page, sizeof page) == 0 && munlockall() == 0);
	USIM_CHECK(getauxval(AT_UID) == 1000 && getauxval(AT_CLKTCK) == 100);
	USIM_CHECK(sysconf(_SC_PAGESIZE) == getpagesize());
	usim_log("random %d", *(const unsigned char *)getauxval(AT_RANDOM));
}

static void names(void)
{
	struct utsname s;
	char name[20];

	USIM_CHECK(uname(&s) == 0 && strcmp(s.nodename, "asks") == 0);
	USIM_CHECK(strcmp(s.sysname, "Linux") == 0 && strcmp(s.release, "6.1.0") == 0);
	USIM_CHECK(gethostname(name, sizeof name) == 0 && strcmp(name, "asks") == 0);
	USIM_CHECK(getdomainname(name, sizeof name) == 0 && strcmp(name, "(none)") == 0);
	USIM_CHECK(gethostid() == 0x0a000001);
	FAILS(sethostname("other", 5), EPERM);
	USIM_CHECK(prctl(PR_SET_NAME, "a name") == 0 && prctl(PR_GET_NAME, name) == 0);
	USIM_CHECK(strcmp(name, "a name") == 0);
}

static void times_of_cpu(void)
{
	struct rusage use;
	struct timespec t;
	struct tms tms;
	clockid_t id;
	clock_t at = times(&tms);

	sleep(1);
	USIM_CHECK(times(&tms) == at + 100 && tms.tms_utime == 0 && clock() == 0);
	USIM_CHECK(getrusage(RUSAGE_SELF, &use) == 0 && use.ru_utime.tv_sec == 0);
	USIM_CHECK(use.ru_maxrss == 0 && clock_getcpuclockid(0, &id) == 0);
	USIM_CHECK(clock_gettime(id, &t) == 0 && t.tv_sec == 0 && t.tv_nsec == 0);
	USIM_CHECK(clock_getres(CLOCK_MONOTONIC, &t) == 0 && t.tv_nsec == 1);
	FAILS(clock_settime(CLOCK_REALTIME, &t), EPERM);
	FAILS(clock_settime(CLOCK_MONOTONIC, &t), EINVAL);
	FAILS(settimeofday(&((struct timeval) { 1, 1 }), NULL), EPERM);
}

static void users(void)
{
	struct group g, *group;
	uid_t a, b, c;
	gid_t groups[3];
	char room[100];

	USIM_CHECK(getuid() == 1000 && getresuid(&a, &b, &c) == 0 && c == 1000);
	USIM_CHECK(setuid(1000) == 0 && setreuid((uid_t)-1, 1000) == 0);
	FAILS(setuid(0), EPERM);
	FAILS(setegid(0), EPERM);
	USIM_CHECK(getgroups(0, NULL) == 1 && getgroups(3, groups) == 1 && groups[0] == 1000);
	FAILS(setgroups(1, groups), EPERM);
	USIM_CHECK(getgrnam_r("user", &g, room, sizeof room, &group) == 0 && group == &g);
	USIM_CHECK(getgrgid(0) == NULL && getgrnam("user")->gr_gid == 1000);
	setpwent();
	USIM_CHECK(getpwent()->pw_uid == 1000 && getpwent() == NULL);
	endpwent();
	USIM_CHECK(strcmp(getlogin(), "user") == 0);
	USIM_CHECK(getpgrp() == getpid() && getsid(0) == getpid());
	FAILS(setsid(), EPERM);
	FAILS(setpgid(0, 0), EPERM);
	FAILS(getpgid(1), ESRCH);
	USIM_CHECK(killpg(getpgrp(), 0) == 0);
}

static void tables(void)
{
	char name[IF_NAMESIZE];

	USIM_CHECK(getprotobyname("tcp")->p_proto == 6 && getprotobyname("none") == NULL);
	USIM_CHECK(strcmp(getprotobynumber(17)->p_name, "udp") == 0);
	USIM_CHECK(getservbyname("http", "tcp") == NULL && getnetbyname("loopback") == NULL);
	USIM_CHECK(if_nametoindex("lo") == 1 && if_nametoindex("eth1") == 0);
	USIM_CHECK(strcmp(if_indextoname(2, name), "eth0") == 0);
	USIM_CHECK(pathconf("/", _PC_NAME_MAX) == 255 && fpathconf(1, _PC_PIPE_BUF) == 4096);
	FAILS(pathconf("/none", _PC_NAME_MAX), ENOENT);
	USIM_CHECK(pathconf("/none", _PC_PATH_MAX) == 4096);
	FAILS(mlockall(99), EINVAL);
	FAILS(mlockall(4), EINVAL);
	USIM_CHECK(setlocale(LC_ALL, "de_DE.UTF-8") == NULL);
}

static void terminals(void)
{
	struct termios t;
	char name[20];

	errno = 0;
	USIM_CHECK(isatty(1) == 0 && errno == ENOTTY && isatty(77) == 0 && errno == EBADF);
	USIM_CHECK(ttyname(1) == NULL && ttyname_r(0, name, sizeof name) == ENOTTY);
	FAILS(tcgetattr(0, &t), ENOTTY);
	FAILS(tcgetpgrp(0), ENOTTY);
}

/* Files whose names are free, text for descriptors, lists of folders. */
static void files(void)
{
	char file[] = "a.XXXXXX", folder[] = "b.XXXXXX", wrong[] = "a.XXXXX", text[20] = "";
	struct dirent room, *e;
	struct stat st;
	DIR *d;
	FILE *f;
	int fd = mkstemp(file), nr = 0;

	USIM_CHECK(fd >= 0 && stat(file, &st) == 0 && (st.st_mode & 0777) == 0600);
	USIM_CHECK(mkdtemp(folder) == folder && stat(folder, &st) == 0 && S_ISDIR(st.st_mode));
	FAILS(mkstemp(wrong), EINVAL);
	USIM_CHECK(dprintf(fd, "%d and %s", 7, "more") == 10);
	USIM_CHECK(pread(fd, text, sizeof text, 0) == 10 && strcmp(text, "7 and more") == 0);
	USIM_CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL) == 0);
	USIM_CHECK(posix_fadvise(77, 0, 0, POSIX_FADV_NORMAL) == EBADF && close(fd) == 0);
	f = tmpfile();
	USIM_CHECK(f != NULL && fprintf(f, "here") == 4 && fclose(f) == 0);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	d = opendir(".");
	while (readdir_r(d, &room, &e) == 0 && e != NULL)
		nr++;
#pragma GCC diagnostic pop
	USIM_CHECK(closedir(d) == 0 && nr == 4);
	openlog("calls", 0, LOG_USER);
	USIM_CHECK(setlogmask(LOG_UPTO(LOG_INFO)) == 0xff);
	syslog(LOG_INFO, "is told: %m");
	syslog(LOG_DEBUG, "is hidden");
}

static void *number(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)syscall(SYS_gettid);
}

static int asks(void *unused)
{
	stack_t old;

	(void)unused;
	memory();
	limits();
	processors();
	names();
	times_of_cpu();
	users();
	tables();
	terminals();
	files();
	USIM_CHECK(gettid() == getpid() && number(NULL) == (void *)(intptr_t)getpid());
	USIM_CHECK(sigaltstack(NULL, &old) == 0 && old.ss_flags == SS_DISABLE);
	USIM_CHECK(outside_asks("asks"));
	return 0;
}

/* atexit(): the last comes first, and it is the host that runs it. */

static int order[3], order_nr;

static void first(void)
{
	order[order_nr++] = usim_self();
}

static void last(void)
{
	usleep(1000);
	order[order_nr++] = 10 * usim_self();
}

static int ends(void *unused)
{
	(void)unused;
	USIM_CHECK(atexit(first) == 0 && atexit(last) == 0);
	exit(0);
}

static int looks(void *unused)
{
	(void)unused;
	sleep(2);
	USIM_CHECK(order_nr == 2 && order[0] == 20 && order[1] == 2);
	return 0;
}

/* Calls that are not simulated. */

__attribute__((noinline)) static long by_hand(void)
{
#if defined(__x86_64__)
	long rc;

	__asm__ volatile("syscall" : "=a" (rc) : "0" ((long)SYS_sync) : "rcx", "r11", "memory");
	return rc;
#else
	return 0;
#endif
}

__attribute__((noinline)) static int calls_libc(void)
{
	return umount("nothing");
}

static int call(void *unused)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	const char *what = getenv("CALL");

	(void)unused;
	if (strcmp(what, "refused") == 0)
		return mkfifo("fifo", 0600);
	if (strcmp(what, "number") == 0)
		return (int)syscall(SYS_io_uring_setup, 1, NULL);
	if (strcmp(what, "libc") == 0)
		return calls_libc();
	if (strcmp(what, "hand") == 0)
		return (int)by_hand();
	if (strcmp(what, "library") == 0)
		return outside_socket();
	if (strcmp(what, "fork") == 0)
		return outside_fork();
	if (strcmp(what, "input") == 0)
		return getchar();
	if (strcmp(what, "lock") == 0)
		return pthread_mutex_lock(&lock) + pthread_mutex_lock(&lock);
	if (strcmp(what, "limit") == 0)
		return setrlimit(RLIMIT_FSIZE, &((struct rlimit) { 1, 1 }));
	return 0;
}

static void setup(struct usim_world *w)
{
	w->w_faults = 0;
	if (getenv("CALL") != NULL) {
		usim_client("call", call, NULL);
		return;
	}
	usim_client("asks", asks, NULL);
	usim_host("ends", ends, NULL);
	usim_client("looks", looks, NULL);
}

int main(int argc, char **argv)
{
	return usim_main(argc, argv, setup);
}
