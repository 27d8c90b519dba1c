#!/bin/sh
# SPDX-License-Identifier: MIT
# chaos.sh: random programs over rr, ll and ws at once, with delays at race
# windows: no wake or value is lost, none is doubled, locks exclude, all end
# (chaos/chaos.h). The engine owns ws, so it has programs and builds of its own
# (engine_chaos.c).
#
#	test/whole/chaos.sh			new programs
#	test/whole/chaos.sh --full		longer, with all builds, and --mutants
#	test/whole/chaos.sh --soak		new programs until one fails
#	test/whole/chaos.sh --replay SEED	one program, again and again
#	test/whole/chaos.sh --mutants [WORD]	finds libraries broken on purpose
#					(those whose name contains WORD)
#
# A program is a number, which determines its shape. But native threads run in
# any order, so a replay may have to try for some time (CHAOS_SECONDS).
#
# In the environment: CC; CHAOS_SECONDS, for all builds together; CHAOS_BUILDS,
# some of those in flags_of(); CHAOS_OFF, things that programs must not do, such
# as "late,fail" (THINGS in chaos/chaos.h); CHAOS_VIEW, words of USCHED_VIEW, for
# programs with a recorder (uview.h); CHAOS_PATIENCE; SEED; OUT, where to
# note failures: in OUT/found, one line for each.

cd "$(dirname "$0")/../.." || exit 1
. test/run/count
. test/run/mutants

cc=${CC:-cc}
out=${OUT:-out}
seed=${SEED:-$(date +%s)}
seconds=${CHAOS_SECONDS:-20}
quick='plain hard tsan engine'
long="$quick asan fault preempt portable engine-tsan"
# Memory is given back in microseconds.
soon='-DREST=200000 -DCOOL_EACH=50000 -DCOOL_STEP=10000'

flags_of() { # build
	case $1 in
	plain)		echo "-O2 $soon" ;;
	engine)		echo "-O2" ;;
	hard|fault)	echo "-O1 -DUSCHED_HARD" ;;
	*tsan)		echo "-O1 -DUSCHED_HARD -fsanitize=thread $soon" ;;
	asan)		echo "-O1 -DUSCHED_HARD -fsanitize=address" ;;
	preempt)	echo "-O2 -DUSCHED_PREEMPT" ;;
	portable)	echo "-O2 -DUSCHED_PORTABLE" ;;
	*)		echo "chaos.sh: no build $1" >&2
			return 1 ;;
	esac
}

words_of() { # build: USCHED_DEBUG
	case $1 in
	hard)	echo evict=always,poison ;;
	*tsan)	echo evict=7 ;;
	asan)	echo evict=7,yield=3 ;;
	fault)	echo evict=7,poison,fault ;;
	esac
}

# build BUILD TREE: builds the library of a tree, with the driver.
build() (
	top=$2
	. "$2/test/run/layout"
	flags=$(flags_of "$1") || exit
	more= driver=test/whole/chaos/*.c wrap=-Wl,--wrap=mmap,--wrap=posix_memalign
	case $1 in
	engine*)
		more="$2/lib/engine/*.c $(where utrace.c)"
		driver=test/engine/engine_chaos.c wrap= ;;
	esac
	[ -z "$CHAOS_VIEW" ] || more="$more $(where $views uchain.c utrace.c)"
	case $flags in
	*HARD*)		more="$more $(where uhard.c)" ;;
	*PREEMPT*)	more=$(where upreempt.c) ;;
	esac
	$cc -std=gnu11 -g -Wall -Wextra $flags $includes \
		-include test/whole/chaos/window.h "$2"/lib/base/*.c "$2"/lib/wait/*.c \
		$(where ucall.c umem.c uproc.c) "$2"/lib/steal/*.c \
		$(where usched.c rr.c ll.c) $more $driver $LDFLAGS \
		-o "$dir/$1" -pthread $wrap
)

# Succeeds if the compiler can make this build.
can() { # build
	echo 'int main(void) { return 0; }' >"$dir/try.c"
	$cc $(flags_of "$1") "$dir/try.c" -o "$dir/try" 2>/dev/null &&
		"$dir/try" 2>/dev/null && return
	skip "the build $1: $cc has no $(flags_of "$1") here"
	return 1
}

# chaos BUILD run|replay SECONDS SEED: $dir/at is the program that ran last.
chaos() {
	USCHED_DEBUG=$(words_of "$1") CHAOS_AT=$dir/at USCHED_VIEW=$CHAOS_VIEW \
		TSAN_OPTIONS="$TSAN_OPTIONS halt_on_error=1" \
		WATCHDOG=$CHAOS_PATIENCE timeout $(($3 + 300)) \
		"$dir/$1" "$2" "$3" "$4"
}

line() { # build: how to see it again
	echo "CC='$cc' CHAOS_BUILDS=$1 CHAOS_OFF='$CHAOS_OFF'" \
		"test/whole/chaos.sh --replay $(cat "$dir/at")"
}

run() { # build, run or replay, seconds, seed
	rm -f "$dir/at"
	if chaos "$@"; then
		pass
		return 0
	fi
	fail "$1; to see it again:"
	line "$1" | tee "$dir/found"
	mkdir -p "$out" && cat "$dir/found" >>"$out/found" &&
		echo "noted in $out/found"
	return 1
}

# Builds those that can be built, two at a time. Sets $builds.
build_all() { # builds
	builds=
	for b; do
		can $b && builds="$builds $b"
	done
	printf '%s\n' $builds |
		xargs -P "$(getconf _NPROCESSORS_ONLN)" -n 1 \
		sh test/whole/chaos.sh --build "$dir" || exit 1
}

# A broken library is found within some seconds.
tries() { # build, file
	rm -f "$dir/$1"
	copy_tree "$dir/tree" && mkdir "$dir/tree/test" &&
		cp -r test/run "$dir/tree/test" || exit 1
	cp "$dir/broken" "$dir/tree/$2"
	build "$1" "$dir/tree" 2>"$dir/log" ||
		{ status='does not compile'; return 0; }
	CHAOS_PATIENCE=4 chaos "$1" run 40 1 >"$dir/log" 2>&1
}

mutants() {
	broken 'wakes: a wake is lost' plain lib/proc/wakes.h \
		's/^	return w;/	*nr -= *nr > 2;\n&/'
	broken 'wakes: a wake is doubled' plain lib/proc/wakes.h \
		's/return (int)(was \/ UWAKES_ONE);/return (int)(was \/ UWAKES_ONE) + (was > 3 * UWAKES_ONE);/'
	broken 'wakes: C1 not atomic' plain lib/proc/wakes.h \
		's/__atomic_fetch_add(&w->w_posted, UWAKES_ONE,$/(w->w_posted += UWAKES_ONE) - UWAKES_ONE; (void)(0,/'
	broken 'wakes: C1 relaxed' tsan lib/proc/wakes.h \
		'/fetch_add(&w->w_posted, UWAKES_ONE,$/{n;s/_ACQ_REL/_RELAXED/;}'
	broken 'inbox: R1 relaxed' tsan lib/proc/inbox.h \
		'/R1 \*/s/_RELEASE/_RELAXED/'
	broken 'inbox: a link cleared too late' plain lib/proc/inbox.h \
		'/n_next, NULL, __ATOMIC_RELAXED/d
		s/^	USCHED_RACE(inbox_R1);/&\n	n->n_next = NULL;/'
	broken 'park: no unpark' plain lib/base/park.h \
		'/^		upark_futex_wake(asleep);/s/up.*/;/'
	broken 'idle: a waker is not counted' plain lib/proc/idle.h \
		's/^.*__atomic_fetch_sub(idle, 1.*D2.*$/	if (0) {}/'
	broken 'uproc: no second look' plain lib/proc/looks.h \
		's/return !uinbox_empty(&p->p_inbox) ||/return 0 ||/'
	broken 'uproc: a join does not wait' plain lib/proc/join.h \
		's/^	rc = uwait_for(w, until);$/	rc = 0;/'
	broken 'uproc: freed too early' plain lib/proc/dispatcher.h \
		'/^static void thread_done/,/^}/s/likely(uwakes_close(&t->t_wakes, UWAKES_LEFT))/1/'
	broken 'uproc: a wait that was refused counts' plain lib/proc/uproc.h \
		'/ uproc_wait_block(/,/^}/s/if (__builtin_expect(rc != 0, 0))/if (0)/'
	broken 'uproc: a queue that does not wrap' plain lib/proc/uproc.h \
		's/return q->q_head == q->q_tail;/return q->q_head >= q->q_tail;/'
	broken 'ucall: the set is not held' plain lib/proc/jobs.h \
		's/uproc_hold(set);/;/
		s/uproc_release(set);/;/'
	broken 'mail: the first block loses wakes' plain lib/steal/mail.h \
		'/^	uwakes_back(w, ws_mail_wakes(was));/d'
	broken 'mail: freed too early' plain lib/steal/mail.h \
		's/return !ws_mail_settled(w) ||/return 1 ||/'
	broken 'mail: a post to a thread that has blocked tells no inbox' \
		plain lib/steal/mail.h 's/settled || (was & WS_MAIL_SETTLED)/settled/'
	broken 'stop: no look whether the owner is in' plain lib/steal/stop.h \
		's/if (!__atomic_load_n(&k->k_in.*$/if (1)/'
	broken 'deque: the last item without a fight' plain lib/steal/deque.h \
		's/left == 0 && ws_deque_win(d, b)/left == 0/'
	broken 'deque: indices that do not wrap' plain lib/steal/deque.h \
		's/return (long)(bottom - top);/return bottom > top ? (long)(bottom - top) : -1;/'
	broken 'ws: what is stuck stays' plain lib/steal/theft.h \
		'/^static bool is_stuck/,/^}/s/return /&0 \&\& /'
	broken 'ws: wrong home' plain lib/steal/messages.h \
		's/if (home != w && home != NULL) {/if (0) {/'
	broken 'ws: pinned threads go' plain lib/steal/homes.h \
		's/ && !lane_stays(t);/;/'
	broken 'ws: threads of others are copied out' plain lib/steal/homes.h \
		'/^static int has_lane/,/^}/s/return /&1 || /'
	broken 'ws: a wake for a worker that sleeps' plain lib/steal/ws_inside.h \
		'/^static void post_node/,/^}/s/^	uidle_wake.*//'
	broken 'uwait: a deadline stays in the wheel' plain lib/wait/timers.h \
		'/^static void timer_out/,/^}/s/^	uwheel_stop.*/	;/'
	broken 'usync: an unlock forgets the waiter' plain lib/wait/umutex.c \
		'/^void umutex_unlock_slow/,/^}/s/== USYNC_QUEUED/== 0/'
	broken 'usync: a signal for a waiter that has gone' plain lib/wait/usync_inside.h \
		's/z->z_claimed || uwait_claim(&z->z_wait)/true/'
	broken 'usync: the last reader is relaxed' tsan lib/wait/urw.c \
		'/R3 \*/s/usync_acquired(y)/usync_state(y)/'
	broken 'usync: a wait for a condition reserves nothing' plain \
		lib/wait/ucond.c 's/^	\*rc = uwait_reserve(until);$/	*rc = 0;/'
	broken 'usync: a wait for a condition reserves when it has unlocked' \
		plain lib/wait/ucond.c '/^int ucond_wait(/,/^}/{/C1/d
		s/^	p = pair_make(/	umutex_unlock(m);\
&/;}'
	broken 'ucall: a call reserves nothing' plain lib/proc/ucall.c \
		's/^	rc = uwait_reserve(until);$/	rc = 0;/'
	broken 'uwait: it reserves for a shallower wait' plain lib/wait/uwait.c \
		's/return usched_reserve(DEPTH);/return usched_reserve(0);/'
	broken 'uchan: a value for a receiver that has gone' plain \
		lib/wait/uchan_inside.h 's/if (likely(uwait_claim(w)))/(void)uwait_claim(w);&/
		s/;if (likely(uwait_claim(w)))/;/'
	broken 'uselect: a case that was not chosen stays' plain lib/wait/uselect.c \
		'/^static NOINLINE void leave_all/,/^}/s/i != chosen/i > 1/'
	broken 'engine: a waiter that has gone stays in its ring' engine \
		lib/engine/waiter.c 's/^		if (a->a_in)$/		if (0)/'
	broken 'engine: a wait that has ended is completed' engine lib/engine/waiter.c \
		's/^	if (!uwait_claim(&a->a_wait))/	(void)uwait_claim(\&a->a_wait);\n	if (0)/'
	broken 'engine: one waiter of many is woken' engine lib/engine/end.c \
		's/engine_claim_all(&t->t_waiters/(void)engine_claim_first(\&t->t_waiters/'
	broken 'engine: a caller that gives up stays in its ring' engine \
		lib/engine/spawn.c 's/^	if (s->su_waiter->a_in) {/	if (0) {/'
	broken 'engine: bytes of an end are no room' engine lib/engine/runner.c \
		'/bytes of an end \*\//d'
	broken 'engine: cancelled twice' engine lib/engine/queue.c \
		's/^	t->t_ending = true;/	;/'
	broken 'engine: a scope ends before its cancellation' engine \
		lib/engine/runner.c 's/^	uscope_hold(s);/	;/
		s/^	uscope_release(s);/	;/'
	broken 'engine: a task that was asked to stop stops the next' engine \
		lib/engine/runner.c '/^	if (stopped || u_canceled())/,+1d'
	broken 'bus: freed with pins' engine lib/engine/bus.c \
		's/if (m->m_named || m->m_pins > 0)/if (m->m_named)/'
	broken 'bus: two pushes of a name' engine lib/engine/bus.c \
		's|find(name, hash) != NULL ? -EEXIST : 0;|0;|'
	broken 'bus: a task keeps a pin' engine lib/engine/bus.c \
		's/^	while (t->t_pins != NULL) {/	while (t->t_pins != NULL \&\& t->t_pins->pn_next != NULL) {/'
	broken 'batch: no wake for ends that were left' engine \
		lib/engine/batch.c 's/b->b_first == NULL && b->b_readable/b->b_readable/'
}

case $1 in
--build)
	dir=$2
	trap - EXIT
	build "$3" .
	exit ;;
--replay)
	set -- ${CHAOS_BUILDS:-plain} "$2"
	build_all "$1"
	run "$1" replay "$seconds" "$2"
	exit ;;
--soak)
	build_all ${CHAOS_BUILDS:-$long}
	while :; do
		for b in $builds; do
			run $b run 60 "$seed" || exit 1
			seed=$(($(cat "$dir/at") + 1))
		done
	done ;;
--mutants)
	only=$2
	mutants ;;
*)
	[ "$1" != --full ] || seconds=${CHAOS_SECONDS:-300}
	[ "$seconds" -lt 60 ] || quick=$long
	build_all ${CHAOS_BUILDS:-$quick}
	for b in $builds; do
		run $b run $((seconds / $(echo $builds | wc -w))) "$seed"
	done
	[ "$1" != --full ] || mutants ;;
esac
counted
