/* SPDX-License-Identifier: MIT */
/* vwatch.h: the records of waits and of processors. Not API. */

#ifndef UVIEW_WATCH_H
#define UVIEW_WATCH_H

#include "vtap.h"

/* Lets waits and processors report from now on. */
HIDDEN void uview_watch_start(void);

/* Records for native threads that have a tap. Any native thread. */
HIDDEN void uview_note(unsigned kind, unsigned arg, const void *at,
		       unsigned id);

#endif /* UVIEW_WATCH_H */
