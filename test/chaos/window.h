/* SPDX-License-Identifier: MIT */
/* window.h: delays at the race windows of the library; with -include. */

#ifndef CHAOS_WINDOW_H
#define CHAOS_WINDOW_H

/*
 * Mostly there is no delay, often a short one. Each program makes a few windows
 * hot: there, a native thread often sleeps for long. A window is known by its
 * line, so that names and numbers may change.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif

#ifdef __cplusplus
extern "C"
#endif
void chaos_window(unsigned nr);

#define RACE_WINDOW(n)	chaos_window((unsigned)__LINE__)

#endif /* CHAOS_WINDOW_H */
