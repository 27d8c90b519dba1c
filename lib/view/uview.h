/* SPDX-License-Identifier: MIT */
/* uview.h: a flight recorder: who ran where and when, and who woke whom. */

#ifndef UVIEW_H
#define UVIEW_H

/*
 *	USCHED_VIEW=stacks ./program	no change of the program
 *	uview PID out.html		what it did lately, as a page
 *	utop PID			what it does now, in a terminal
 *	utop --why PID			what makes it slow, in three lines
 *
 * Each native thread that runs a dispatcher writes what its threads do to a ring
 * in shared memory: when a thread begins and stops to run and why, what it waits
 * for and where, and who wakes it. The tools read the rings from outside. So the
 * process has no thread, socket or signal for them, and they also work on a
 * process that is stopped, stuck or killed. doc/view.md shows what to see.
 *
 * USCHED_VIEW holds words, separated by commas. It needs this module in the
 * program, as in each program that is linked with the shared library (with
 * libusched.a: -Wl,-u,uview_start; a program without it says so), and is ignored
 * in setuid programs:
 *
 *	stacks	with a backtrace of each block
 *	keep	the file stays when the program ends by exit(); else, only if it
 *		is killed, ends by _exit(), or becomes another by exec
 *	10-24	each ring has 2^NR records of 16 bytes, instead of 2^18; fewer
 *		where there is no space
 *	1	a recorder, as by each other word
 *	0	no recorder
 *
 * With any other word no scheduler begins: core/env.h.
 *
 * A program without a recorder pays nothing: neither a switch nor a wake has an
 * instruction for it. With it a switch costs some 30 ns more, half of them for
 * the clock of the machine, and some 45 with stacks.
 *
 * THE FILE is /dev/shm/usched.PID, for the same user only. Its space is reserved
 * before recording begins, so a full file system means a message and no
 * recorder. A child of fork() records nothing.
 *
 * WHAT IS NOT SEEN. Wakes of plain dispatchers, and of threads by native threads
 * that run no dispatcher, have no waker. usched_step() is not recorded, nor are
 * more than 64 native threads at a time.
 */

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Starts the recorder; how has the words of USCHED_VIEW, or is NULL. Before any
 * dispatcher runs. 0; -EBUSY: it was started; -EINVAL: how has another word;
 * -ENOSYS: this is not Linux; else -errno of the file, with a message.
 */
int uview_start(const char *how);

/*
 * Records that the caller has come here: a thread or native thread that runs a
 * dispatcher; others record nothing. The text is copied, up to 63 bytes.
 */
void uview_mark(const char *text);

/*
 * Names an object, e.g. a mutex or a channel, in recordings: from now on, until its
 * address has another name. A static variable has the name of its symbol without. The
 * text is copied, up to 63 bytes. Any native thread; nothing if there is no recorder.
 */
void uview_object(const void *object, const char *name);

/*
 * Writes a copy of what is recorded now, with a list of all threads by stack, to
 * a new file, for `uview FILE out.html': when a program itself sees that
 * something was slow. Any thread or native thread; not in a call-back of a
 * dispatcher. 0; -EINVAL: there is no recorder; -EEXIST: the file exists; else
 * -errno.
 */
int uview_save(const char *path);

#ifdef __cplusplus
}
#endif

#endif /* UVIEW_H */
