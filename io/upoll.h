/* SPDX-License-Identifier: MIT */
/* upoll.h: where threads wait for descriptors. For the modules of this folder. */

#ifndef UPOLL_H
#define UPOLL_H

#include "uio.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Waits until fd may be ready, as u_wait_fd(). But 1: fd is always ready. And
 * with UNOW a thread gets -EAGAIN without a look.
 */
int upoll_wait(int fd, int what, utime_ns until);

/* Waits until one of nr descriptors may be ready. As upoll_wait(). */
int upoll_wait_any(const struct pollfd *fds, nfds_t nr, utime_ns until);

/*
 * Hints: the last read of fd took all that was there, so a wait comes before the
 * next attempt. A wrong hint only costs time. upoll_drained() returns the hint,
 * and clears it.
 */
void upoll_set_drained(int fd);
bool upoll_drained(int fd);

/* Closes fd, and ends all waits for it with -EBADF. As u_close(). */
int upoll_close(int fd);

/* Called first by each call. 0; -ECANCELED, -EINVAL. Counts calls in a row. */
int upoll_enter(utime_ns until);

#ifdef __cplusplus
}
#endif

#endif /* UPOLL_H */
