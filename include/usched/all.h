/* SPDX-License-Identifier: MIT */
/* all.h: what programs use. #include <usched/all.h> */

#ifndef USCHED_ALL_H
#define USCHED_ALL_H

#include "umain.h"
#include "rr.h"
#include "ll.h"
#include "ws.h"

#include "uwait.h"
#include "uthread.h"
#include "uscope.h"
#include "usync.h"
#include "uchan.h"
#include "uwork.h"
#include "ugen.h"
#include "ucall.h"

#include "uio.h"
#include "uloop.h"
#include "unet.h"
#include "ufile.h"
#include "uchild.h"
#include "usignal.h"
#include "userve.h"

#include "uengine.h"

#endif /* USCHED_ALL_H */
