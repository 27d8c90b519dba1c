/* SPDX-License-Identifier: MIT */
/* snumber.h: names of system calls. Private. */

#ifndef SNUMBER_H
#define SNUMBER_H

/* Returns the name of a system call, until the next call. */
const char *sim_call_name(long number);

#endif /* SNUMBER_H */
