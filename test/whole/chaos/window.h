/* SPDX-License-Identifier: MIT */
/* window.h: delays at the race windows of the library. Used with -include. */

#ifndef CHAOS_WINDOW_H
#define CHAOS_WINDOW_H

/*
 * Mostly there is no delay; often there is a short delay. Each program makes a
 * few windows hot, where a native thread often sleeps for long. A window is
 * known by its line, so its step may be renamed.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif

#ifdef __cplusplus
extern "C"
#endif
void chaos_window(unsigned nr);

#define USCHED_RACE(step)	chaos_window((unsigned)__LINE__)

#endif /* CHAOS_WINDOW_H */
