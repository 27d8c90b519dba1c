/* SPDX-License-Identifier: MIT */
/* vfile.h: the file of a recorder, as its process has it. Not API. */

#ifndef UVIEW_FILE_H
#define UVIEW_FILE_H

#include "vtap.h"

/* Makes the file, and sets what uview_all says of it. Returns 0, or -errno. */
HIDDEN int uview_file_open(void);

/* Says that the process ends, and removes the file, unless it is to stay. */
HIDDEN void uview_file_close(void);

/* Maps memory over file, whose descriptor is closed. In a child of fork(). */
HIDDEN void uview_file_leave(struct uview_file *file);

#endif /* UVIEW_FILE_H */
