#!/bin/sh
# SPDX-License-Identifier: MIT
# mutants.sh: tests find what is broken on purpose in loops, rings, kinds of libraries,
# generations of armings, thefts, looks at threads, recorders, the Python face, objects of
# the hard mode, scopes, conditions, calls of plain dispatchers, and what a collector is
# given. (Others: chaos.sh, law.sh, model.sh, sync.sh, httpd.sh.) --full: all, also those
# that take long. A word: all whose names contain it.
#
# CC is the compiler, CFLAGS are more options for it. PYTHONS: the first is used.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
. test/run/mutants

[ "$1" = --full ] && full=1 && shift
only=$1
unset USCHED_DEBUG USCHED_SEED
ulimit -c 0
here=$PWD tree=$dir/tree python=''

# Compiles in the tree with the broken file.
compile() { # options ...
	(cd "$tree" && ${CC:-cc} -std=gnu11 -O1 -g -w $CFLAGS $includes \
		-I"$here/test/run" "$@") >>"$dir/log" 2>&1 ||
		{ status='does not compile'; return 1; }
}

# library MODE: an archive of all modules, made once.
library() {
	hard=$([ "$1" != hard ] || echo DEFS=-DUSCHED_HARD)
	[ -e "$dir/$1/libusched.a" ] ||
		make -s -j"$(getconf _NPROCESSORS_ONLN)" O=-O1 CC="${CC:-cc}" \
			$hard B="$dir/$1" "$dir/$1/libusched.a" >"$dir/log" 2>&1
}

# The modules that a file is a part of.
modules_of() { # file
	whole=$(whole_of "$1")
	case $1 in
	*.c)	echo "$1"; return ;;
	esac
	[ -z "$whole" ] || { echo "${1%/*}/$whole"; return; }
	case $1 in
	*uproc.h) echo lib/proc/uproc.c rr.c ;;
	*upoll.h) echo lib/io/uio.c ;;
	lib/proc/*.h) echo lib/proc/uproc.c ;;
	lib/steal/*.h) echo lib/steal/ws.c ;;
	esac
}

# A test is a program, or one in the hard mode (hard:object). The module that
# is broken goes before those of the library, unless the test includes it.
program() { # test, file
	mode=plain flags=-DRR test=$(test_of "${1#*:}") modules=$(modules_of "$2")
	[ "${1#*:}" = "$1" ] || mode=${1%:*} flags='-DRR -DUSCHED_HARD'
	! grep -qE "include \"(${2##*/}|${modules##*/})\"" "$test" || modules=
	library $mode || { status="no library"; return 0; }
	libs=$(sed -n '1,5s|^/\* LIBS: \(.*\) \*/$|\1|p' "$test")
	test=$here/$test object=$dir/$mode-${1#*:}.o
	if [ "$modules" = "$2" ]; then	# the test has no part of the file
		[ -e "$object" ] || compile $flags -c "$test" -o "$object" || return 0
		test=$object
	fi
	compile $flags "$test" $modules "$dir/$mode/libusched.a" \
		-o "$dir/program" -pthread -lm $libs || return 0
	WATCHDOG=5 timeout 100 "$dir/program" 1 >"$dir/log" 2>&1 &
	wait $!
	ended=$?
	kill -s KILL -- -$! 2>/dev/null		# its children, which may hang
	case $ended in
	0)	return 0 ;;
	77)	status="skipped: $(tail -n 1 "$dir/log")"; return 0 ;;
	esac
	return 1
}

# Or a class of the tests of Python (python:test_convert.Cffi).
tests_of_python() { # module and class, file
	[ "$python" ] || return 0
	mkdir -p "$dir/py" && rm -rf "$dir/py/usched_engine"
	export USCHED_OBJECTS="$dir/objects" PYTHONDONTWRITEBYTECODE=1 \
		USCHED_TEST_LIBRARY="$dir/library.so"
	$python "$tree/ext/python/backend.py" "$dir/py" >"$dir/log" 2>&1 ||
		{ status='does not compile'; return 0; }
	(cd ext/python/tests && PYTHONPATH=$dir/py timeout 100 $python \
		-m unittest ${1#*:}) >"$dir/log" 2>&1 && return 0
	grep -q '^FAILED\|^Fatal\|^usched' "$dir/log" ||
		{ status='no test ran'; return 0; }
	return 1
}

tries() { # test, file
	rc=0
	cp "$dir/broken" "$tree/$2"
	case $1 in
	python:*) tests_of_python "$@" || rc=1 ;;
	*.sh*)	sh "$tree/test/"$1 >"$dir/log" 2>&1 || rc=1 ;;
	*)	program "$@" || rc=1 ;;
	esac
	cp "$2" "$tree/$2"
	return $rc
}

copy_tree "$tree" && cp -r ext "$tree" && mkdir -p "$tree/test/house" "$tree/test/run" &&
	cp test/house/kinds.sh "$tree/test/house" &&
	cp test/run/layout test/run/count test/run/fail.wrap "$tree/test/run" &&
	mkdir "$tree/test/proc" && cp -r test/proc/openmp* "$tree/test/proc" || exit 1

# The loop of a program.
broken 'loop: wakers do not write to the descriptor' loop lib/wait/usource.c \
	's/return upark_by(asleep, in->o_wake);/return true;/'
broken 'loop: a deadline is not told' loop lib/proc/driven.h \
	's/d->dr_until = ns == UNEVER ? UNEVER : uafter(ns);/d->dr_until = UNEVER;/'
broken 'loop: roles are not left' loop lib/wait/usource.c \
	'/^void uwait_sleep_end/,/^}/s/usource_leave_all(.*/;/'
broken 'loop: the poller is not asked, and stays ready' loop lib/wait/usource.c \
	'/^void uwait_sleep_end/,/^}/s/in->o_look(in);//'
broken 'loop: a run has no end' loop lib/proc/driven.h \
	's/unow() - d->dr_began < TURN)/true)/'
broken 'loop: between runs a callback is the processor' loop lib/proc/driver.h \
	's/^	mine = NULL;$//'
broken 'loop: fini sleeps, though all is idle' loop lib/proc/driven.h \
	's/if (ends && idle)/if (false)/'
broken 'loop: the end of a hold does not wake fini' loop lib/proc/driven.h \
	's/if (drive_ends(set))/if (false)/; s/define LAST.*/define LAST UNEVER/'

# Rings, and other numbers near their wrap.
broken 'ring: the index is added in 32 bits' wrap lib/wait/uchan_inside.h \
	's/uchan_ring_at(c, c->ch_count < after ?/uchan_ring_at(c, c->ch_head + c->ch_count < c->ch_room ?/'
broken 'ring: a value behind the end' wrap lib/wait/uchan_inside.h \
	's/uchan_ring_at(c, c->ch_count < after ?/uchan_ring_at(c, c->ch_count <= after ?/'
broken 'ring: the head goes on behind the end' wrap lib/wait/uchan_inside.h \
	's/if (c->ch_head + 1 != c->ch_room)/if (c->ch_head != c->ch_room)/'
broken 'ring: a wait that begins at the wrap overtakes' wrap lib/proc/uproc.h \
	's/return q->q_head == q->q_tail;/return q->q_head >= q->q_tail;/'
broken 'a pool of too many workers' wrap lib/wait/uwork.c \
	's/ || workers == INT_MAX / /'
broken 'a barrier of too many' wrap lib/wait/ubarrier.c \
	's/b->br_nr < 1 || b->br_nr > USYNC_MOST/b->br_nr < 1/'
broken 'a barrier of none' wrap lib/wait/ubarrier.c \
	's/b->br_nr < 1 || b->br_nr > USYNC_MOST/b->br_nr > USYNC_MOST/'
broken 'a record of too many bytes' wrap lib/wait/uwait.c \
	's/^	if (size <= SIZE_MOST)$//'
broken 'a slot is in use again under an old number' engine_wrap lib/engine/task.c \
	's/ (e->e_generation + oldest + 1) & ~1u;/ e->e_generation;/'
broken 'an even number is a task' engine_wrap lib/engine/task.c \
	's/generation % 2 == 1 \&\&/1 \&\&/'
broken 'engine: a timed task stands for itself alone' engine_time \
	lib/engine/spawn.c 's/(nr + 1) \/ 2 : 0;/1 : 0;/'
broken 'engine: a series has no end' engine_time lib/engine/spawn.c \
	's/ < 2 \* ENGINE_EXACT ? s->su_series + 1 :$/ + 1 > 0 ? s->su_series + 1 :/
	s/^	if (nr > ENGINE_EXACT)$/	if (nr > ENGINE_EXACT * ENGINE_EXACT)/'
broken 'mappings: lanes take those of calls' limits lib/proc/maps.h \
	's/^	return now < MAPS_COUNTED \&\& now + nr <= most;/	return now + nr + most > 0;/'
broken 'pins wrap' engine_wrap lib/engine/bus.c \
	's/bus.bu_pins == LONG_MAX/0/'

# Thefts that are undone.
broken 'ws: a thread that is given back comes nowhere' steal_back lib/steal/theft.h \
	'/^static void give_to/,/^}/s/send_to(v, t);/;/'
broken 'ws: a pinned thread is given back' steal_back lib/steal/theft.h \
	'/^static void give_to/,/^}/s/ \&\& can_go(w, t)) {/) {/'
broken 'ws: a task gets lost among what is given back' steal_back lib/steal/theft.h \
	'/^static NOINLINE void give_back/,/^}/s/else if (is_task(x))/else if (0)/'
broken 'ws: nothing is given back' steal_back lib/steal/theft.h \
	'/^static void try_theft/,/^}/s/WS_POLICY_TRIAL/UINT_MAX/'
broken 'ws: all workers are awake, without a cpu' steal_rouse lib/steal/homes.h \
	's/^		s->set_nr - s->set_cpu_nr : 0;/		0 : 0;/'
broken 'ws: each theft is good' steal_worth lib/steal/steal_policy.h \
	'/ws_policy_fails/,/^}/s/alone - alone . 10/0/'

# Kinds of libraries.
broken 'kinds: hard files ask for a plain library' 'house/kinds.sh --some' \
	core/kinds.h 's/usched_with_USCHED_HARD__or_compile_this_file_without_it/usched_without_USCHED_HARD__or_compile_this_file_with_it/'
broken 'kinds: a processor alone is not asked for' 'house/kinds.sh --some' \
	core/kinds.h 's/USCHED_KIND_HARD, USCHED_KIND_SINGLE$/USCHED_KIND_HARD, USCHED_KIND_HARD/'
broken 'kinds: the linker may drop the reference' 'house/kinds.sh --some' \
	core/kinds.h 's/__attribute__((used, retain))//;s/__attribute__((used))//'
broken 'kinds: a module that reads slices does not ask' 'house/kinds.sh --some' \
	lib/base/uslice.h '/uslice_kind/d'
broken 'kinds: each file asks for the switch' 'house/kinds.sh --some' \
	core/kinds.h 's/USCHED_KIND_SINGLE$/&, USCHED_KIND_PORTABLE/'

# Regions of OpenMP.
openmp() { # what, file, sed script
	library plain && export LIBRARY="$dir/plain/libusched.a"
	broken "openmp: $1" 'proc/openmp.sh --some' "$2" "$3"
	unset LIBRARY
}
openmp 'a run in a region begins at level 0' core/openmp.h \
	's/s->s_region = .*;/s->s_region = 0;/'
openmp 'blocks find the words as expected' core/openmp.h 's/^	*fp_never();//'
openmp 'a block elsewhere does not ask' usched.c \
	'/^static NOINLINE SWITCHES void block_special/,/^}/s/openmp_check(u, "waits");/;/'
openmp 'an end does not ask' usched.c 's/openmp_check(usched_current, "ends");/;/'
openmp 'a generator does not ask' core/step.h \
	's/(unsigned)s->s_fp_expected != s->s_fp)/l == \&s->s_native)/'
openmp 'libomp is begun by a question' core/openmp.h \
	's/o->o_begun == NULL || o->o_begun(NULL) > 0/1/'
openmp 'what was loaded before is all' core/openmp.h \
	's/^	if (k->ok_loads != 0 .*/	if (openmp_loads != 0 ||/'
openmp 'a runtime is unloaded' core/openmp.h 's/return \*name == 0 ||/return 1 ||/'
openmp 'a thread in a region is preempted' lib/proc/upreempt.c \
	's/^	    usched_in_region(s)) {/	    0) {/'

# Generations of armings.
broken 'armings: any event is believed' io_there lib/io/poller.h \
	's/if (generation == e->e_generation)/if (1)/'
broken 'armings: all have one number' io_there lib/io/poller.h \
	's/e->e_generation = (e->e_generation + 1) & UEVENTS_GENERATIONS/(void)0/'
broken 'armings: events carry no number' io_there lib/io/events.h \
	's/generation << UEVENTS_FD_BITS |/0 |/'
broken 'armings: two numbers in turn' io_there lib/io/poller.h \
	's/(e->e_generation + 1) & UEVENTS_GENERATIONS/(e->e_generation + 1) \& 1/'
broken 'armings: an old event does not arm' io_there lib/io/poller.h \
	's/rc = mask & UEVENTS_OTHER ? -EBADF : arm/rc = mask \& UEVENTS_OTHER ? -EBADF : generation != e->e_generation ? 0 : arm/'
broken 'armings: a wait does not arm where it was armed' io_there lib/io/upoll.c \
	's/^	if (!armed || HARD)/	if (e->e_armed_at != r->r_poller)/'
broken 'owned: an event does not count' io_trust lib/io/poller.h \
	'/^	if (is_owned(e))$/{N;/V2/d;}'
broken 'owned: a read that leaves some' io_trust lib/io/upoll.h \
	's/(size_t)rc < size/(size_t)rc <= size/'
broken 'owned: always armed' io_trust lib/io/owned.h \
	's/e->e_urgent == 0 && is_empty(e);/true;/'
broken 'owned: armed to write is armed to read' io_trust lib/io/owned.h \
	's/ && e->e_armed_to_read &&$/ \&\&/'
broken 'owned: the end of a stream is as any event' io_trust lib/io/owned.h \
	'/^static bool is_empty/,/^}/{/e_is_last/d;}'
broken 'owned: armed for the file before' io_trust lib/io/table.h \
	'/^static void forget_file/,/^}/s/^	armed_at(e, NULL);//'
broken 'owned: events before it do not count' io_trust lib/io/owned.h \
	'/^static int own/,/^}/s/^	event_counted(e);//'
broken 'a read waits first' io_there lib/io/uio.c \
	's/if (last == 0 && upoll_waits_first(fd, until) && (may))/if (last == 0 \&\& (may))/'
broken 'a buffer on a stack that was moved has no message' law lib/io/uio.c \
	's/if (usched_shut(v\[i\].iov_base))/if (0)/'
broken 'a file that is new is not added' io_there lib/io/events.h \
	's/if (errno == ENOENT \&\&/if (0 \&\&/'

# Looks at native threads.
broken 'look: a file of another machine is believed' look lib/debug/ulook.c \
	's/ULOOK_KERNEL \&\& is_ours()/ULOOK_KERNEL/'
broken 'look: D5 a thread that has run is believed' look lib/debug/ulook.c \
	's/cpu_time(native) == cpu \&\& m->m_nob/m->m_nob/'
broken 'look: it sends a signal' look lib/debug/ulook.c \
	's/^	long long cpu = cpu_time(native);/	(void)syscall(SYS_tgkill, getpid(), native, SIGWINCH);\n&/;s/^#include <errno.h>/&\n#include <signal.h>\nstatic void quiet(int s) { (void)s; }\n__attribute__((constructor)) static void catches(void) { struct sigaction a = { .sa_handler = quiet }; sigaction(SIGWINCH, \&a, 0); }/'
broken 'look: no look at the second file' look lib/debug/ulook.c \
	's/l->l_state = look_state(native);/;/'
broken 'look: a name without a number' look lib/debug/ulook.c \
	's/l->l_call  = -1;/l->l_call = 0;/'
broken 'look: the place of the call is lost' look lib/debug/ulook.c \
	's/m->m_reg\[16\] = p->p_pc;//'

# Recorders.
broken 'view: a yield is a wait' view lib/view/vswitch.c \
	's/v->w_reason = UVIEW_YIELDED;/;/'
broken 'view: an end is a wait' view lib/view/vswitch.c \
	's/bool ended = v->w_lane->l_bound != v->w_bound;/bool ended = false;/'
broken 'view: a wait does not end' view lib/view/vwatch.c \
	'/^static void wait_end/,/^}/s/UVIEW_BLOCKED/UVIEW_WAITS/'
broken 'view: the child of a fork writes to the file' view lib/view/uview.c \
	'/^static void in_child(void)/,/^}/s/uview_all.v_file = NULL;/return;/'
broken 'view: a remote wake has no waker' view lib/proc/arrive.h \
	's/uwait_watch_posted(&t->t_stack, false);/;/'
broken 'view: records of waits are not counted' view lib/view/vcensus.c \
	's|^		see_record(w, &seen);|		;|'
broken 'view: a holder is lost' view lib/view/vcensus.c \
	's/census.c_owner\[to - census.c_row\] = seen.vs_owner/(void)0/'
broken 'view: a link that goes takes all others' view_plain lib/debug/uchain.c \
	's/^	\*at = k->k_below;/	s->s_links = NULL;/'
broken 'view: overwritten records are believed' view_plain lib/view/vcopy.c \
	's/uring_whole(begin, r->vr_head, room, now)/begin/'
broken 'view: a name may lie anywhere' view_plain lib/view/vcopy.c \
	's/n\[i\].vn_text > texts/0/; s/n\[i\].vn_len > texts - n\[i\].vn_text/0/'
broken 'view: a frame may have any name' view_plain lib/view/vcopy.c \
	's/s\[i\].vk_frame\[j\] = 0;/;/'

# The Python face: conversion, the end of an engine, tables of the bus.
for python in ${PYTHONS:-python3 /usr/bin/python3} ''; do
	[ -z "$python" ] || "$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' \
		2>/dev/null && break
done
if [ "$python" ] && ${CC:-cc} -O2 -shared -fPIC -o "$dir/library.so" \
		ext/python/tests/library.c; then
	broken 'convert: narrow types take any int' \
		python:test_convert.Ctypes.test_arguments ext/python/pyrecord.c \
		's/if (bits < 64 \&\& (sign/if (0 \&\& (sign/'
	broken 'convert: unsigned is signed' \
		python:test_convert.Ctypes.test_arguments ext/python/pyrecord.c \
		's/\*sign = n < 4;/*sign = true;/'
	broken 'convert: the result of an unsigned int is signed' \
		python:test_convert.Ctypes.test_results ext/python/usched_engine/_function.py \
		's/"W": "I", /"W": "i", /'
	broken 'convert: read-only buffers are written' \
		python:test_convert.Ctypes.test_buffers ext/python/pyrecord.c \
		's/if (write \&\& b->readonly)/if (0)/'
	broken 'convert: items of any size' \
		python:test_convert.Ctypes.test_buffers ext/python/usched_engine/_function.py \
		's/if size and (view.itemsize/if False and (view.itemsize/'
	broken 'convert: no errcheck' \
		python:test_convert.Ctypes.test_errcheck_and_errno \
		ext/python/usched_engine/_function.py \
		's/if self.check is None:/if True:/'
	broken 'convert: PyDLL is accepted' \
		python:test_convert.Ctypes.test_refused ext/python/usched_engine/_function.py \
		's/if function._flags_ & _PYTHON:/if False:/'
	broken 'convert: a copy of cffi is not kept' \
		python:test_convert.Cffi ext/python/usched_engine/_function.py \
		's/return kept, self.call/return None, self.call/' full
	broken 'convert: a cycle of a function is not collected' \
		python:test_convert.Cycles ext/python/pyfunction.c \
		's/^	Py_VISIT(f->f_owner);//'
	broken 'shutdown: two at once' python:test_bad ext/python/usched_engine/_engine.py \
		's/if not self._ending.acquire(timeout=_left(end)):/if False:/;s/self._ending.release()/pass/'
	broken 'shutdown: descriptors are closed twice' python:test_bad \
		ext/python/usched_engine/_port.py \
		's/while self.ends:/for end in self.ends + self.ends:/;s/os.close(self.ends.pop())/os.close(end)/'
	broken 'shutdown: a handler waits for the call that it has interrupted' \
		python:test_bad ext/python/usched_engine/_engine.py \
		's|^        refusal = self._refusal()$|        refusal = None|'
else
	skip 'the Python face: no Python.h (package python3-dev)'
fi
broken 'bus: the table does not grow' engine_see lib/engine/bus.c \
	's/^	grow(h);//'
broken 'bus: a split leaves records behind' engine_see lib/engine/bus.c \
	's/(l->ln_hash \& (2 \* half - 1)) != b/(l->ln_hash \& half) == 0 || 1/'
broken 'bus: pins lie in a single bucket' engine_see lib/engine/bus.c \
	's/return (size_t)(h ^ h >> 31);/return 7;/'
broken 'bus: names are free of charge' engine_see lib/engine/bus.c \
	's/bus.bu_used += head(name) + size;/bus.bu_used += size;/;s/bus.bu_used -= head(name) + size;/bus.bu_used -= size;/;s/m->m_cost = at + size;/m->m_cost = size;/'
broken 'bus: what is freed still counts' engine_see lib/engine/bus.c \
	's/^	bus.bu_used -= m->m_cost;//'

# Objects in the hard mode.
broken 'objects: a free leaves the word' hard:object lib/debug/uobject.h \
	's/__atomic_store_n(\&o->o_magic, FREED | (unsigned)kind,/__atomic_store_n(\&o->o_magic, KNOWN | (unsigned)kind,/'
broken 'objects: a use makes the word anew' hard:object lib/debug/uobject.h \
	's/^	if (word == 0)$/	if (word != (FREED | (unsigned)kind))/'
broken 'objects: no first use' hard:object lib/debug/uobject.h \
	's/__atomic_store_n(magic, KNOWN | (unsigned)kind,/__atomic_store_n(magic, 0 * kind,/'
broken 'objects: nothing is kept' hard:object lib/debug/uobject.h \
	's/if (k->g_nr > UHARD_GRAVES ||/if (k->g_nr > 0 ||/'
broken 'objects: what is kept is not looked at' hard:object lib/debug/uobject.h \
	's/^	grave_check(o);//'
broken 'objects: all of a large block is poison' hard:object lib/debug/uobject.h \
	's/o->o_nob < UHARD_GRAVES_NOB ? o->o_nob : UHARD_GRAVES_NOB;/o->o_nob;/'
broken 'objects: no look at the place' hard:object lib/debug/uobject.h \
	's/^	if (near_lanes(object))/	if (0)/'
broken 'objects: a stack of a thread that runs is dead' hard:object \
	lib/debug/uobject.h '/^static bool lane_runs/,/^}/s/return owner != NULL;/return false;/'
broken 'objects: each stack is alive' hard:object lib/debug/uobject.h \
	'/^static bool in_use/,/^}/s/return at >= frame;/return true;/;s/return lane_runs(d, lane, at);/return true;/'
broken 'objects: a hold without a place is lost' hard:object lib/debug/uobject.h \
	's/^		hs->hs_more++;/		;/'
broken 'objects: who gives back is not asked' hard:object lib/debug/uobject.h \
	's/return hs->hs_more > 0 \&\& hs->hs_more-- > 0;/return 1;/'
broken 'objects: an end with a lock' hard:object lib/debug/uobject.h \
	's/^	if (hs->hs_nr == 0)/	if (1)/'
broken 'objects: the first hold is given back' hard:object lib/debug/uobject.h \
	's/^	for (; i < hs->hs_nr; i++) {/	for (i = 0; i < hs->hs_nr; i++) {/'

# Scopes with equal deadlines.
broken 'scopes: a refused wait never gives way' scope lib/wait/uwait.c \
	's/++in_vain % REFUSED_MOST == 0/false/'
broken 'scopes: an equal deadline has not passed' scope lib/wait/uscope.c \
	's/s->sc_until <= passed/s->sc_until < passed/'
broken 'scopes: a deadline passes for no scope inside' scope lib/wait/uscope.c \
	's/cancel(s, -ETIMEDOUT, s->sc_until, \&r);/cancel(s, -ETIMEDOUT, NONE, \&r);/'
broken 'scopes: each deadline inside has passed' scope lib/wait/uscope.c \
	's/s->sc_until <= passed ? -ETIMEDOUT/passed != NONE ? -ETIMEDOUT/'
broken 'scopes: the end of a shield passes no deadline' scope lib/wait/uscope.c \
	's/cancel(s, -ECANCELED, unow(), \&r);/cancel(s, -ECANCELED, NONE, \&r);/'
broken 'scopes: a shield has a deadline of its own' scope lib/wait/uscope.c \
	's/s->sc_until = s->sc_shield ? UNEVER : until;/s->sc_until = until;/'
broken 'scopes: a deadline behind that around it has a timer' scope \
	lib/wait/uscope.c 's/return until < around ? deadline_start/return until >= around ? deadline_start/'

# What a signal ends.
broken 'signals: a second does not end the process' signal_until lib/io/uuntil.c \
	's/ | SA_RESETHAND//' full
broken 'signals: what was before is not restored' signal_until lib/io/uuntil.c \
	'/^static void restore/,/^}/s/now.sa_handler == handler/0/
	/^static void restore/,/^}/s/now.sa_handler == SIG_DFL/0/'
broken 'signals: the child of fork() keeps the handler' signal_until lib/io/uuntil.c \
	'/^static void in_child/,/^}/s/restore(i);/;/'
broken 'signals: a waiter that sees the signal takes it' signal_until lib/io/uuntil.c \
	'/^	u->un_result = /a { long l; u_read(u->un_bell, &l, 8, UNOW); }' full
broken 'signals: the result is that of the cancelled function' signal_until \
	lib/io/uuntil.c 's/rc == -ECANCELED ? u->un_result : rc/rc/'

# Conditions over read-write locks.
broken 'conditions: a reader waits for a write' sync_model lib/wait/ucond.c \
	'/^int ucond_wait_rw/,/^}/s/writes = .*;/writes = 1;/'
broken 'conditions: a reader passes writers' sync_model lib/wait/ucond.c \
	'/^int ucond_wait_rw/,/^}/s/read_put(l, z, false)/read_put(l, z, true)/'
broken 'conditions: no look whether the lock is held' sync_model lib/wait/ucond.c \
	'/^int ucond_wait_rw/,/^}/s/if (!rw_is_held(l))/if (0)/'
broken 'conditions: who has waited holds nothing' hard:object lib/wait/ucond.c \
	'/^int ucond_wait_rw/,/^}/s/UHARD(hold.*/;/'
broken 'conditions: a read-write lock is given up, and then memory is asked for' \
	waitmem lib/wait/ucond.c '/^static struct pair \*pair_make/,/^}/s/uwait_reserve(until)/kind == UWAIT_MUTEX ? uwait_reserve(until) : 0/'

# Calls of plain dispatchers.
broken 'calls: a dispatcher ends meanwhile' call_plain lib/proc/jobs.h \
	's/uwait_source_begin(&c->ca_main->ca_source);/;/
	s/uwait_source_end(&c->ca_main->ca_source);/;/'
broken 'calls: a native thread completes' call_plain lib/proc/jobs.h \
	's/b->wb_ops->o_post(b, j->jb_wait);/uwait_complete(j->jb_wait, 0);/'
broken 'calls: in the child of a fork' call_plain lib/proc/ucall.c \
	's/^	if (inherited(at.pl_pool))$/	if (0)/'
broken 'calls: the argument may move' call_plain lib/proc/ucall.c \
	'/ustack_lawful/d'
broken 'calls: a post wakes no dispatcher' call_plain lib/wait/uplain.c \
	's/(void)upark_wake(&((struct plain \*)b)->pl_asleep);/;/'
broken 'calls: no look before the sleep' call_plain lib/wait/uplain.c \
	's|if (!uwait_posted(b))\(.*S3\)|if (1)\1|'
broken 'calls: a thread that cannot block takes nothing' call_plain \
	lib/wait/uplain.c '/^static void plain_drain/,/^}/s/uwait_take_posted(.*);/;/'
broken 'calls: a thread that has not waited is woken' call_plain \
	lib/wait/uplain.c 's/if (here != NULL && u == ustack_self())/if (0)/'
broken 'calls: what arrived is waited for' call_plain lib/wait/uwait.c \
	's/return w->w_taken > 0 && uwait_state(w) == UWAIT_ARRIVED;/return false;/'
broken 'calls: a descriptor is closed before its last writer ends' call_plain \
	lib/wait/usource.c 's/sources_fini(b, false);/sources_fini(b, true);&/'
# What a collector is given.
broken 'roots: no buffers' roots lib/debug/uroots.c \
	'/^static void give_buffer/,/^}/s/if ((uintptr_t)u->u_top & USLICE_AWAY)/if (0)/'
broken 'roots: no slices in lanes' roots lib/debug/uroots.c \
	's/^	if (!is_shut(l))$/	if (0)/'
broken 'roots: no private stacks' roots lib/debug/uroots.c \
	's/int nr = s->s_lane_nr + usched_private_nr(.*;/int nr = s->s_lane_nr;/'
broken 'roots: no lane of a processor' roots lib/debug/uroots.c \
	's/^	return l->l_bottom;/	return NULL;/'
broken 'roots: no arguments' roots lib/debug/uroots.c \
	'/^static void thread_seen/,/^}/s/if (uslice_is_new(u))/if (0)/'
broken 'roots: no arguments in shells' roots lib/debug/uroots.c \
	's/^#define SHELLS.*/#define SHELLS 0/'
broken 'roots: no tasks' roots lib/debug/uroots.c \
	's/if (set->set_ops.op_kept != NULL)/if (0)/'
broken 'roots: no keys' roots lib/debug/uroots.c \
	's/^	give_block(g, b.b_keys);//'
broken 'roots: no records' roots lib/debug/uroots.c \
	's/^	give(((const struct in_set .*//'
broken 'roots: no channels' roots lib/debug/uroots.c \
	's/^	give_queues(&g);//'
broken 'roots: no generators' roots lib/debug/uroots.c \
	's/^			give_step(&g, r);/;/'
broken 'roots: no stack around a generator' roots lib/debug/uroots.c \
	's/^	if (from < bottom)$/	if (0)/'
broken 'roots: an end of a ring alone' roots lib/debug/uroots.c \
	's/give(g, q->uq_ring, (size_t)(nr - high).*//'
broken 'roots: a thread that is being made has a shell' roots_step lib/debug/uroots.c \
	's/give_args(in->i_giver, u->u_f, &u->u_arg, false)/give_args(in->i_giver, u->u_f, \&u->u_arg, true)/'
counted
