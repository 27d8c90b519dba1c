/* SPDX-License-Identifier: MIT */
/* grind.h: RUNNING_ON_VALGRIND, which is 0 where there is no valgrind. */

#ifndef GRIND_H
#define GRIND_H

#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#endif
#if !defined(RUNNING_ON_VALGRIND)
#define RUNNING_ON_VALGRIND 0
#endif

#endif /* GRIND_H */
