/* SPDX-License-Identifier: MIT */
/* cxx.h: the functions of the table in main.cpp. */

#ifndef CXX_H
#define CXX_H

#include "../waits.h"

void churn_random(), churn_same(), timed(), sleepers();
void chan_sync(), chan_buffer(), uncontended(), fanin(), sem();
void select_own(), select_sync(), select_buffer();
void mutex_own(), mutex(), mutex_slack(), mutex_work(), mutex_hold();
void skew(), rw_own(), rw_write();
void sieve(), powser(), pool();

/* Channels between native threads: native.cpp. */
void native_sync(), native_buffer(), native_flag(), native_futex();
void native_asleep();

#endif /* CXX_H */
