/* SPDX-License-Identifier: MIT */
/* format.h: the file of a flight recorder: what uview.c writes, and others read. */

#ifndef UVIEW_FORMAT_H
#define UVIEW_FORMAT_H

/*
 * A process that records maps this file, /dev/shm/usched.PID, and writes to it
 * while it runs. Readers need nothing from the process, so they also read the
 * file of a process that is stopped, stuck, or killed. The tool uview makes a
 * COPY, which has the same form, and lies in its pages as base64.
 *
 *	0	+-------------------+
 *		| struct uview_file |  4096 bytes; vf_part says where the
 *	4096	+-------------------+  others lie
 *		| rings             |  struct uview_ring, one a native thread
 *		| names             |  struct uview_name, in the order in which
 *		|                   |  they came; a name's number is its place
 *		| texts             |  bytes of the names
 *		| stacks            |  struct uview_stack, as names
 *		| census            |  two of struct uview_census
 *		+-------------------+
 *		| records           |  struct uview_record: those of each ring at
 *		+-------------------+  its vr_at
 *
 * All numbers are little-endian. A part begins at vp_at, and has vp_nr entries
 * of vp_each bytes, of vp_room for which there is space. Entries are only
 * added, and an entry is whole before vp_nr counts it. A reader believes no
 * number before it has compared it with the size of the file.
 *
 * NAMES have numbers from 1 on, of 16 bits; 0 means: none. Entry 0 is empty.
 * The same table names functions of threads, places in code, objects, kinds of
 * waits, and marks. Stacks have numbers from 1 on, too.
 *
 * RECORDS have 16 bytes:
 *
 *	word 0	63..16 time (48 bits)	15..12 kind	11..0 arg
 *	word 1	63..48 id		47..0 address
 *
 * A thread is named by the address of its struct ustack. After its STOP with
 * UVIEW_ENDED, the same address is another thread. Kinds:
 *
 *	kind	arg			id	address
 *	RUN	threads that can run:	name	thread: it begins to run. The name
 *		uview_ready()			is that of its function
 *	STOP	enum uview_reason	stack	thread: it stops. 0: no stack
 *	WAKE	enum uview_wake		-	thread that can run from now on (or
 *					before: see below), or how many
 *	POST	enum uview_post		-	thread that the running thread wakes,
 *					and that is at home elsewhere
 *	WAIT	1: it has a deadline	kind	object that the running thread will
 *					wait for, or 0. The name is the kind of
 *					wait: "mutex"
 *	STEAL	how many threads	-	0: threads came from other processors
 *	LOST	how often		-	thread: the kernel gave the cpu to
 *					others while it ran
 *	PARK	-			(64 bits) the native thread sleeps until
 *					this time in ns of CLOCK_MONOTONIC;
 *					~0: until it is woken
 *	UNPARK	-			-	0: it is awake
 *	CALL	enum uview_call		name	thread: its function of ucall() begins
 *					or ends; the name is that of the function
 *	MARK	-			name	thread that runs, or 0: uview_mark()
 *	CLOCK	-			(64 bits) the time of this record in ns of
 *					CLOCK_MONOTONIC
 *	BEGIN	number of the processor	name	dispatcher: usched_run() begins. The
 *					name is that of the scheduler: "rr", "ll",
 *					"ws", or "plain"
 *	END	-			-	dispatcher: usched_run() ends
 *	NOTE	enum uview_note		name	what arg says
 *
 * All records of a ring are in the order of their times. Between RUN and STOP a
 * thread runs, and between STOP and the next RUN its dispatcher does. WAIT,
 * POST, MARK, LOST and NOTE after a RUN are about the thread that runs. A thread
 * that itself runs a dispatcher has BEGIN, RUN, STOP ... END inside of its run:
 * runs nest.
 *
 * Switches have no hook. So a WAKE by a thread is noted where that stops, with
 * the time of this STOP, just before it: the real wake was earlier in this run.
 * So the time from wake to run leaves out the rest of the waker's run. A POST
 * has its real time. So has UVIEW_OUTSIDE.
 * A processor finds a deadline when it looks, which it does between two runs. So a
 * thread whose wait ends by UVIEW_OUTSIDE, or by a POST of no thread, could run
 * since its deadline, if that is earlier.
 * A dispatcher may find a thread twice: a WAKE of a thread that can run already
 * says nothing.
 *
 * A thread that has blocked may be woken, and RUN elsewhere, before the processor
 * that it has left has noted its STOP: that STOP is later than the RUN. It says
 * why the thread stopped, but the run has ended with the RUN elsewhere.
 *
 * Native threads that run functions for ucall() have rings of their own, with
 * CALL and POST only.
 *
 * TURNS. A thread that gives way again and again, and does nothing else, would push
 * all out of the ring that came before. So the second such run of a thread, and
 * those that follow, are three records together, written anew in their place at
 * each turn (word 1 only):
 *
 *	NOTE UVIEW_TURN		thread and name, as of RUN. The time is the begin
 *				of the first of these turns, here and below
 *	NOTE UVIEW_TURNS	how many turns are over, and how long they took:
 *				uview_turns_nr(), uview_turns_ticks()
 *	NOTE UVIEW_TURN_LAST	(64 bits) when the last turn began, in ticks
 *
 * Some threads may give way to each other so: their records follow each other. Such
 * turns go on until the next record of the ring that is none of these. A turn that
 * becomes something else (it wakes, waits, or lasts for long) has RUN and STOP as
 * well, and is not counted here. If nothing follows, the last turn may go on.
 *
 * THE CPU. At the end of a long run the kernel is asked whether the native thread
 * was on a cpu. NOTE UVIEW_OFF says for how long it was not, since the run began, or
 * that this is not known: uview_off_ns(), and how often it slept in the kernel by
 * itself: uview_off_sleeps(). A run without this note had the cpu all the time,
 * but for some 50 us, if vf_flags have UVIEW_KNOWS_CPU; else nothing is known.
 *
 * QUEUES. Lengths of channels are looked at each 5 ms or so, of 16 in turn, and
 * noted when they have changed and now and then: NOTE UVIEW_QUEUE with the address
 * and the name of the kind, and behind it NOTE UVIEW_LENGTH. uview_queue_length():
 * values that it holds; uview_queue_taken(): values that were taken out so far, 32
 * bits that wrap. Of a channel that begins with values, or ends, a length of 0 is
 * noted.
 *
 * WHAT A THREAD WAITS FOR: the reason of its STOP. UVIEW_WAITS: the last WAIT of
 * this run says for what. UVIEW_AGAIN: if the STOP before was UVIEW_WAITS or
 * UVIEW_AGAIN, the wait of that goes on (it was woken for something else);
 * otherwise as UVIEW_BLOCKED.
 *
 * TIMES are ticks of a clock of the machine. In the file of a process they are
 * the lower 48 bits, which wrap after a day or so. Of each ring vr_tick is a
 * time near its end in full. From there a reader goes back: the difference of
 * two neighbours is the signed difference of their lower 48 bits. If a ring has
 * a longer silence, a CLOCK stands behind it. In a copy all times count from
 * vf_tick on and never wrap: older records are left out. There the times of PARK,
 * CLOCK and UVIEW_DEADLINE count from vf_ns on, too.
 *
 *	ns = vf_ns + (tick - vf_tick) * rate
 *	rate: vf_rate in a copy; else (vr_ns - vf_ns) / (vr_tick - vf_tick),
 *	of the ring with the largest vr_tick
 *
 * RINGS. Record number n of a ring lies in place n % vr_room, and vr_head
 * records have been written. The oldest that can be there is number
 *
 *	max(vr_from, vr_head - vr_room, 0)
 *
 * The owner writes while others read. So a reader copies the records, reads
 * vr_head again, and drops all below vr_head + 1 - vr_room, which may have been
 * overwritten. Of the file of a killed process that record is whole, but nothing
 * is lost if it is dropped as well. In a copy vr_room is vr_head, vr_from is 0,
 * and vr_lost says how many records came before: if it is not 0, then nothing is
 * known of this native thread before vr_oldest. Rings fill at different rates,
 * so each has its own vr_oldest.
 *
 * CENSUS: all threads of the process at one moment, by stack: what a ring cannot
 * tell of threads that have waited for longer than it reaches back. vf_census is
 * the number of the last census, 0: there was none. Number n lies in half n & 1.
 * A reader copies it, and reads vf_census again: if that has changed, it begins
 * anew. In a copy only the half 0 is there. Who writes vf_ask asks for a census,
 * and a processor makes it and then sets vf_census: within some 5 ms, or 250 ms if
 * all sleep.
 */

#include <stdint.h>

#define UVIEW_MAGIC	0x3230574549565355u	/* "USVIEW02" in the file */
#define UVIEW_PATH	"/dev/shm/usched.%ld"	/* of a process */
#define UVIEW_RINGS	64
#define UVIEW_FRAMES	30			/* of a stack */
#define UVIEW_ROWS	1024			/* of a census */

enum uview_kind {
	UVIEW_NONE, UVIEW_RUN, UVIEW_STOP, UVIEW_WAKE, UVIEW_POST, UVIEW_WAIT,
	UVIEW_STEAL, UVIEW_LOST, UVIEW_PARK, UVIEW_UNPARK, UVIEW_CALL,
	UVIEW_MARK, UVIEW_CLOCK, UVIEW_BEGIN, UVIEW_END, UVIEW_NOTE
};

/* Why a thread stops: arg of STOP; the reason of a row of the census. */
enum uview_reason {
	UVIEW_BLOCKED,		/* until it is woken: rr_wait() and the like */
	UVIEW_WAITS,		/* by a record: see WAIT */
	UVIEW_AGAIN,		/* see above */
	UVIEW_YIELDED,		/* it can run */
	UVIEW_ENDED,
	/* In the census only: it can run, and has not begun; or it runs. */
	UVIEW_NEW,
	UVIEW_RUNS
};

/* How a thread became able to run, at home: arg of WAKE. */
enum uview_wake {
	UVIEW_BY_THREAD,	/* by the running thread: woken, or made */
	UVIEW_OUTSIDE,		/* found by the dispatcher: a deadline, I/O, a
				 * message of another native thread, a theft */
	UVIEW_TASKS		/* the address is a number: so many new threads
				 * of the running thread, not made so far (ws) */
};

enum uview_post { UVIEW_POSTED, UVIEW_COMPLETED /* its record */ };
enum uview_call { UVIEW_CALL_BEGINS, UVIEW_CALL_ENDS };

enum uview_note {
	UVIEW_NAMED,	/* the thread at the address has this name; again in
			 * each half of a ring in which it runs */
	UVIEW_HOLDER,	/* the thread at the address holds the object of the
			 * WAIT just before (no name) */
	UVIEW_DEADLINE,	/* of the WAIT just before: the address is a time, the
			 * lower 48 bits of ns of CLOCK_MONOTONIC (no name) */
	UVIEW_TURN, UVIEW_TURNS, UVIEW_TURN_LAST,	/* see TURNS */
	UVIEW_OFF,					/* see THE CPU */
	UVIEW_QUEUE, UVIEW_LENGTH			/* see QUEUES */
};

struct uview_part {		/* 32 bytes */
	uint64_t vp_at;		/* bytes from the start of the file */
	uint64_t vp_size;	/* bytes */
	uint32_t vp_room;	/* entries */
	uint32_t vp_nr;		/* entries that are whole (atomic) */
	uint32_t vp_each;	/* bytes */
	uint32_t vp_zero;
};

enum uview_part_nr {
	UVIEW_PART_RINGS, UVIEW_PART_NAMES, UVIEW_PART_TEXTS,
	UVIEW_PART_STACKS, UVIEW_PART_CENSUS, UVIEW_PART_RECORDS,
	UVIEW_PARTS
};

enum uview_state {
	UVIEW_LIVE = 1,		/* its process records, or was killed */
	UVIEW_CLOSED,		/* its process has ended, and left it */
	UVIEW_COPY
};

/* vf_flags. */
enum {
	UVIEW_WITH_STACKS = 1,
	UVIEW_KNOWS_CPU   = 2	/* the kernel tells when a native thread ran */
};

struct uview_file {		/* at offset */
	uint64_t vf_magic;	/* 0: written last */
	uint32_t vf_state;	/* 8: enum uview_state (atomic) */
	uint32_t vf_flags;	/* 12 */
	uint32_t vf_pid;	/* 16: as the process sees it */
	uint32_t vf_missed;	/* 20: runs of dispatchers without a ring */
	uint64_t vf_born;	/* 24: when the process began, as in the field
				 * 22 of /proc/PID/stat; 0: unknown */
	uint64_t vf_wall;	/* 32: ns of CLOCK_REALTIME at vf_ns */
	uint64_t vf_tick;	/* 40: when recording began; in a copy: time 0 */
	uint64_t vf_ns;		/* 48: CLOCK_MONOTONIC at vf_tick */
	uint64_t vf_end;	/* 56: in a copy: ns, the newest record, or the
				 * moment of the copy if the process lived */
	double   vf_rate;	/* 64: in a copy: ns a tick */
	uint32_t vf_ask;	/* 72: changed by a reader: a census is wanted */
	uint32_t vf_census;	/* 76: number of the last census (atomic) */
	char     vf_name[64];	/* 80: of the program, with a zero at its end */
	struct uview_part vf_part[UVIEW_PARTS];	/* 144 */
	char     vf_zero[3760];
};

struct uview_ring {		/* 128 bytes; at offset */
	uint64_t vr_head;	/* 0: records ever (atomic) */
	uint64_t vr_at;		/* 8: its records, from the start of the file */
	uint32_t vr_room;	/* 16: records; a power of two, but in copies */
	uint32_t vr_tid;	/* 20: the native thread, as gettid() */
	uint32_t vr_state;	/* 24: 0: not used so far; 1: runs dispatchers;
				 * 2: did */
	uint32_t vr_zero;
	uint64_t vr_from;	/* 32: records below are of another thread */
	uint64_t vr_lost;	/* 40: in a copy */
	uint64_t vr_oldest;	/* 48: in a copy: time of the first record */
	uint64_t vr_tick;	/* 56: a time near the end, in full */
	uint64_t vr_ns;		/* 64: the same time, in ns of CLOCK_MONOTONIC */
	char     vr_name[16];	/* 72: of the native thread */
	uint64_t vr_zero1;
	uint64_t vr_cost;	/* 96: ticks that recording took in vr_costs */
	uint32_t vr_costs;	/* 104: switches, which are some of all */
	uint16_t vr_scheduler;	/* 108: name of the scheduler of its outermost
				 * dispatcher, or 0 */
	uint16_t vr_number;	/* 110: of the processor of that */
	char     vr_zeros[16];
};

enum uview_name_kind {
	UVIEW_FUNCTION,		/* of threads; vn_at is its address */
	UVIEW_CODE,		/* vn_at: a place in code, just before a return
				 * address. "name+0x1c (file+0x115c)": what is in
				 * brackets is for addr2line */
	UVIEW_LIBRARY,		/* such a place, in the library itself */
	UVIEW_OBJECT,		/* vn_at is its address */
	UVIEW_TEXT		/* a kind of wait, a mark, a scheduler; vn_at: 0 */
};

struct uview_name {		/* 16 bytes */
	uint64_t vn_at;
	uint32_t vn_text;	/* in the part of texts */
	uint16_t vn_len;
	uint16_t vn_kind;
};

struct uview_stack {		/* 64 bytes */
	uint16_t vk_nr;		/* frames that are here */
	uint16_t vk_f;		/* name of the function of its thread */
	uint16_t vk_frame[UVIEW_FRAMES];	/* names, innermost first */
};

struct uview_record {		/* 16 bytes */
	uint64_t ve_word[2];
};

/*
 * Numbers in few bits. Of threads that can run, those below 2048 are exact, and
 * others are too low by less than 1 %.
 */

static inline unsigned uview_ready_code(unsigned nr)
{
	int drop = 24 - __builtin_clz(nr | 0x80);	/* keeps 8 bits */

	return nr < 0x800 ? nr : drop > 19 ? 0xfff :
		0x800 | (unsigned)(drop - 4) << 7 | ((nr >> drop) & 0x7f);
}

static inline unsigned uview_ready(unsigned arg)
{
	return arg < 0x800 ? arg :
		(0x80u | (arg & 0x7f)) << ((arg >> 7 & 15) + 4);
}

/* Of turns: 30 bits of a number, and ticks / 64. */

static inline uint64_t uview_turns_word(uint64_t nr, uint64_t ticks)
{
	return nr << 34 | (ticks >> 6 & 0x3ffffffff);
}

static inline uint64_t uview_turns_nr(uint64_t word)
{
	return word >> 34;
}

static inline uint64_t uview_turns_ticks(uint64_t word)
{
	return (word & 0x3ffffffff) << 6;
}

/* Of the cpu. */

#define UVIEW_OFF_UNKNOWN	0xffffffffffffu

static inline uint64_t uview_off_ns(uint64_t word)
{
	return word & 0xffffffffffffu;
}

static inline unsigned uview_off_sleeps(uint64_t word)
{
	return (unsigned)(word >> 48);
}

/* Of queues. */

static inline uint32_t uview_queue_length(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

static inline uint32_t uview_queue_taken(uint64_t word)
{
	return (uint32_t)word;
}

/* Threads with the same stack, function and wait. */
struct uview_row {		/* 48 bytes */
	uint16_t vw_f;		/* name of their function */
	uint16_t vw_stack;
	uint16_t vw_kind;	/* name of the kind of their wait, or 0 */
	uint16_t vw_reason;	/* enum uview_reason */
	uint32_t vw_nr;		/* threads */
	uint32_t vw_zero;
	uint64_t vw_object;	/* for which they wait; 0: unknown, or several */
	uint64_t vw_holder;	/* a thread that holds it; 0: unknown */
	uint64_t vw_example;	/* one of these threads */
	uint64_t vw_zeros;
};

struct uview_census {
	uint64_t vc_tick;	/* 0: when; in a copy since vf_tick (signed) */
	uint64_t vc_ns;		/* 8: the same in ns of CLOCK_MONOTONIC */
	uint64_t vc_took;	/* 16: ns */
	uint32_t vc_threads;	/* 24: all */
	uint32_t vc_left_out;	/* 28: threads in no row: there was no room */
	uint32_t vc_nr;		/* 32: rows */
	uint32_t vc_running;	/* 36: processors that ran a thread all the
				 * time: then counts may be wrong by a few */
	uint32_t vc_zero[6];
	struct uview_row vc_row[UVIEW_ROWS];	/* 64: the largest first */
};

#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(struct uview_file) == 4096 &&
	       sizeof(struct uview_ring) == 128 &&
	       sizeof(struct uview_name) == 16 &&
	       sizeof(struct uview_stack) == 64 &&
	       sizeof(struct uview_row) == 48 &&
	       sizeof(struct uview_census) == 64 + 48 * UVIEW_ROWS,
	       "the file has no holes");
#endif

#endif /* UVIEW_FORMAT_H */
