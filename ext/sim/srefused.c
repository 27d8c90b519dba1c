/* SPDX-License-Identifier: MIT */
/* srefused.c: names of libc that a host must not call. */

/*
 * These would reach the machine, so the run fails and says the name. They fail outside
 * of a run, too.
 *
 * Names that POSIX does not have, and that programs like to give to functions of their
 * own, such as mount() and error(), are not led here. The seal tells them (sseal.c).
 */

#include "snames.h"

#define PROCESSES(X)							\
	X(execl) X(execle) X(execlp) X(execv) X(execve) X(execvp)	\
	X(execvpe) X(fexecve) X(fork) X(pclose) X(popen)		\
	X(posix_spawn) X(posix_spawnp) X(system) X(vfork) X(wait)	\
	X(wait3) X(wait4) X(waitid) X(waitpid)

#define THREADS(X)							\
	X(cnd_timedwait) X(cnd_wait) X(mtx_timedlock)			\
	X(rr_thread_joinable) X(thrd_create) X(thrd_join)		\
	X(thrd_sleep)

#define QUEUES(X)							\
	X(aio_cancel) X(aio_error) X(aio_fsync) X(aio_read)		\
	X(aio_return) X(aio_suspend) X(aio_write) X(lio_listio)		\
	X(mq_close) X(mq_getattr) X(mq_notify) X(mq_open)		\
	X(mq_receive) X(mq_send) X(mq_setattr) X(mq_timedreceive)	\
	X(mq_timedsend) X(mq_unlink) X(msgctl) X(msgget) X(msgrcv)	\
	X(msgsnd) X(sem_unlink) X(semctl) X(semget) X(semop)		\
	X(semtimedop) X(shm_open) X(shm_unlink) X(shmat) X(shmctl)	\
	X(shmdt) X(shmget)

#define SIGNALS(X)							\
	X(__sysv_signal) X(__xpg_sigpause) X(fanotify_init)		\
	X(inotify_add_watch)						\
	X(inotify_init) X(inotify_init1) X(inotify_rm_watch)		\
	X(pthread_sigqueue) X(sighold) X(sigignore) X(signalfd)		\
	X(sigpause) X(sigqueue) X(sigrelse) X(sigset) X(timer_create)	\
	X(timer_delete) X(timer_getoverrun) X(timer_gettime)		\
	X(timer_settime)

#define TABLES(X)							\
	X(adjtimex) X(catopen) X(clock_adjtime) X(endhostent)		\
	X(endutxent) X(fmtmsg) X(getdate) X(getdate_r)			\
	X(gethostbyname2) X(gethostent) X(getifaddrs) X(getpass)	\
	X(getutxent) X(getutxid) X(getutxline) X(iconv_open)		\
	X(if_nameindex) X(ntp_adjtime) X(pututxline) X(sethostent)	\
	X(setutxent)

#define FILES(X)							\
	X(chown) X(copy_file_range) X(fallocate) X(fallocate64)		\
	X(fchdir) X(fchown) X(fchownat) X(forkpty) X(freopen)		\
	X(freopen64) X(fstatfs) X(fstatfs64) X(fstatvfs) X(fstatvfs64)	\
	X(ftok) X(ftw) X(ftw64) X(futimens) X(futimes) X(getdents64)	\
	X(glob) X(glob64) X(grantpt) X(lchown) X(lutimes)		\
	X(memfd_create) X(mkfifo) X(mkfifoat) X(mknod) X(mknodat)	\
	X(mkostemps) X(mkstemps) X(msync) X(nftw) X(nftw64) X(openpty)	\
	X(posix_fallocate) X(posix_fallocate64) X(posix_openpt)		\
	X(preadv) X(preadv2) X(preadv64) X(ptsname) X(pwritev)		\
	X(pwritev2) X(pwritev64) X(readahead) X(recvmmsg)	\
	X(scandirat) X(scandirat64) X(sendmmsg) X(splice) X(statfs)	\
	X(statfs64) X(statvfs) X(statvfs64) X(statx) X(sync)		\
	X(sync_file_range) X(syncfs) X(tee) X(tempnam) X(tmpnam)	\
	X(tmpnam_r) X(ulimit) X(unlockpt) X(utime) X(utimensat)		\
	X(utimes) X(wordexp)

PROCESSES(REFUSE)
THREADS(REFUSE)
QUEUES(REFUSE)
SIGNALS(REFUSE)
TABLES(REFUSE)
FILES(REFUSE)
