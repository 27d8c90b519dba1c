/* SPDX-License-Identifier: MIT */
/* outside.h: calls of outside.c. */

#ifndef OUTSIDE_H
#define OUTSIDE_H

int outside_socket(void);
int outside_fork(void);
int outside_asks(const char *name);

#endif /* OUTSIDE_H */
