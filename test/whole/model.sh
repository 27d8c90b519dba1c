#!/bin/sh
# SPDX-License-Identifier: MIT
# model.sh: inbox.h, park.h, lock.h, wakes.h, record.h, idle.h, source.h,
# cancel.h, usync.c and its objects, upoll.c, vring.h, and deque.h, mail.h, stop.h, seek.h, watch.h
# with fence.h hold in all executions of small programs that the memory model allows
# (test/whole/model/model.c). Sources that are broken on purpose do not. --full: all
# scenarios, some minutes; else the quick ones. --some: a few, and none is broken.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
. test/run/mutants
cc=${CC:-cc}
[ "$1" = --full ] && full=--full

build() { # headers and scenarios in $1; which
	$cc -std=gnu11 -O1 -g -fsanitize=thread -DUSCHED_SANITIZE_ANYWAY \
		-DULOCK_SPINS=0 -Werror=implicit-function-declaration \
		-I"$1" -Itest/whole/model \
		-c -o "$dir/m.o" "$1/m_$2.c" &&
	$cc -o "$dir/m_$2" "$dir/m.o" "$dir/model.o" "$dir/usched.o"
}

echo 'int f(int *a) { return __atomic_load_n(a, 2); }' >"$dir/try.c"
if ! $cc -O1 -fsanitize=thread -S -o "$dir/try.s" "$dir/try.c" 2>/dev/null ||
   ! grep -q __tsan_atomic32_load "$dir/try.s"; then
	echo "skipped: $cc has no -fsanitize=thread (packages gcc, clang)"
	exit 77
fi
$cc -std=gnu11 -O2 -g $includes -c -o "$dir/usched.o" usched.c &&
$cc -std=gnu11 -O2 -g -I. -c -o "$dir/model.o" test/whole/model/model.c || exit 1

# The headers as they are.
mkdir "$dir/good" "$dir/bad"
ln -s . "$dir/good/private"
cp -r usched.h core lib/base/*.h lib/wait/*.h $(where $syncs) lib/io/*.h lib/io/upoll.c \
	lib/proc/*.h lib/steal/*.h lib/view/vring.h lib/view/format.h \
	test/whole/model/m_*.c "$dir/good"
all='inbox park lock wakes wait idle poll arm cancel sync deque mail stop seek watch ring'
[ "$1" != --some ] || all='inbox park lock wait deque stop ring'
for m in $all; do
	if build "$dir/good" $m && "$dir/m_$m" -v $full; then
		pass
	else
		fail "$m"
	fi
done

[ "$1" != --some ] || counted	# which ends

cd "$dir/good" || exit 1

# A broken header fails in a scenario.
tries() { # scenarios, header
	cp -r ./* "$dir/bad" && cp "$dir/broken" "$dir/bad/$2"
	(cd "$OLDPWD" && build "$dir/bad" "$1") ||
		{ status='does not compile'; return 0; }
	timeout 900 "$dir/m_$1" >"$dir/log" 2>&1 && { [ -z "$full" ] ||
		"$dir/m_$1" $full >"$dir/log" 2>&1; } && return
	[ $? = 1 ] || status='the scenario crashes, or has no end'
	return 1
}

seq=__ATOMIC_SEQ_CST
broken 'R1 relaxed' inbox inbox.h '/R1 \*/s/_RELEASE/_RELAXED/'
broken 'R2 relaxed' inbox inbox.h '/R2 A2 \*/s/_SEQ_CST/_RELAXED/' full
broken 'A1 relaxed' inbox inbox.h 's/_ACQUIRE/_RELAXED/' full
broken 'R2 a load and a store' inbox inbox.h \
	"s/before = __atomic_exchange_n(&i->i_tail, n, $seq)/before = __atomic_load_n(\&i->i_tail, $seq); __atomic_store_n(\&i->i_tail, n, $seq)/"
broken 'a link cleared too late' inbox inbox.h \
	'/(&n->n_next, NULL/d; /USCHED_RACE(inbox_R1)/i\
	__atomic_store_n(\&n->n_next, NULL, __ATOMIC_RELAXED);' full
broken 'the stub posted without a look at the tail' inbox inbox.h \
	'/i_tail, __ATOMIC_ACQUIRE) != head)/,/return NULL/d' full
broken 'empty: only the head' inbox inbox.h \
	"s/return __atomic_load_n(&i->i_tail, $seq) == &i->i_stub &&/return/" full

broken 'W1 relaxed' ring vring.h '/ve_word\[[01]\], /,/;/s/__ATOMIC_RELEASE/__ATOMIC_RELAXED/'
broken 'W2 relaxed' ring vring.h '/++n->n_head/s/_RELEASE/_RELAXED/'
broken 'R5: a record too many' ring vring.h 's/now + 1 - room/now - room/'
broken 'R4: no second look' ring m_ring.c \
	's/__atomic_load_n(&s.head.vr_head, __ATOMIC_RELAXED))/head)/'
broken 'R3: no fence' ring m_ring.c '/R3/d'

broken 'E1 not sequentially consistent' cancel cancel.h \
	'/E1 \*/s/_SEQ_CST/_RELEASE/'
broken 'E2 relaxed' cancel cancel.h '/load_n(flag/s/_SEQ_CST/_RELAXED/'
broken 'K1 not sequentially consistent' cancel cancel.h \
	'/K1 \*/s/_SEQ_CST/_RELEASE/'
broken 'K2 relaxed' cancel cancel.h '/K2 \*/s/_SEQ_CST/_RELAXED/'
broken 'K2 leaves the record in the slot' cancel cancel.h \
	's/= __atomic_exchange_n(slot, NULL,$/= __atomic_load_n(slot,/'
broken 'K3: no claim' cancel cancel.h 's/ && uwait_claim(w) ? w/ ? w/'
broken 'L1 leaves the record in the slot' cancel cancel.h \
	's/exchange_n(slot, NULL, __ATOMIC_RELAXED)/load_n(slot, __ATOMIC_RELAXED)/'
broken 'L2: no lock' cancel cancel.h '/L2 \*/d;/ulock_put(lock)/d'
broken 'S3: no second look' park m_park.c 's/if (!uinbox_empty(/if (0 \&\& (/'
broken 'S1 not sequentially consistent' park park.h \
	"s/__atomic_exchange_n(asleep, 1, $seq)/__atomic_store_n(asleep, 1, __ATOMIC_RELEASE)/"
broken 'W3 relaxed' park park.h '/W3 \*/s/_SEQ_CST/_RELAXED/' full
broken 'W1 not sequentially consistent' park inbox.h \
	'/R2 A2 \*/s/_SEQ_CST/_ACQ_REL/' full
broken 'S3 relaxed' park inbox.h \
	'/i_tail, __ATOMIC_SEQ_CST) ==/s/_SEQ_CST/_RELAXED/' full
broken 'nobody tells the futex' park park.h '/^		upark_futex_wake(asleep);/s/up.*/;/' full
broken 'each waker says that it was he' park park.h \
	'/USCHED_RACE(park_W3)/,/return false/s/if (was == 0)/if (0)/' full
broken 'a wait that returns for no reason is believed' park park.h \
	's/while (__atomic_load_n(asleep/if (__atomic_load_n(asleep/' full
broken 'a descriptor: upark_by() does not compare' park park.h \
	'/^static inline bool upark_by/,/^}/ {
	s/^	int prepared = 1;//
	s/^	return .*/	__atomic_store_n(asleep, UPARK_FD + fd, __ATOMIC_SEQ_CST); return true;/
	/^			false, __ATOMIC_SEQ_CST/d
	}'
broken 'a descriptor: the waker writes before the exchange' park park.h \
	'/^static inline bool upark_wake/,/^}/ {
	s/^	was = __atomic_exchange/	was = __atomic_load_n(asleep, __ATOMIC_SEQ_CST); if (was >= UPARK_FD) upark_write(was - UPARK_FD); &/
	s/^	if (was >= UPARK_FD)/	if (0)/
	}'
broken 'a descriptor: the waker does not write' park park.h \
	'/^static inline bool upark_wake/,/^}/s/if (was >= UPARK_FD)/if (0)/'
broken 'a descriptor: read before the sleep' park m_park.c \
	'/^static void fd_sleep/,/^}/{/exchange/d
	s/^	while/	(void)__atomic_exchange_n(\&s.fd, 0, __ATOMIC_RELAXED); &/
	}'

broken 'T2 before T1' wakes wakes.h \
	's|struct uinbox_node \*n = uinbox_take(inbox);.*|struct uinbox_node *n = inbox->i_head == \&inbox->i_stub ? __atomic_load_n(\&inbox->i_stub.n_next, __ATOMIC_ACQUIRE) : inbox->i_head; int was = n == NULL ? 0 : uwakes_clear((struct uwakes *)((char *)n - offsetof(struct uwakes, w_node)));|
	s|	if (n == NULL)|	n = uinbox_take(inbox); if (n == NULL)|
	s|\*nr = uwakes_clear(w);|*nr = was;|'
broken 'C1 relaxed' wakes wakes.h '/C1 R3 A4 \*/s/_ACQ_REL/_RELAXED/' full
broken 'T2 relaxed' wakes wakes.h 's/posted, 0, __ATOMIC_ACQ_REL/posted, 0, __ATOMIC_RELAXED/' full
broken 'R4: the node not released' wakes wakes.h \
	's/posted, 0, __ATOMIC_ACQ_REL/posted, 0, __ATOMIC_ACQUIRE/' full
broken 'A4: the node not acquired' wakes wakes.h \
	'/C1 R3 A4 \*/s/_ACQ_REL/_RELEASE/' full
broken 'C1 a load and a store' wakes wakes.h \
	's/unsigned was = __atomic_fetch_add(&w->w_posted, UWAKES_ONE,/unsigned was = __atomic_load_n(\&w->w_posted, 2); __atomic_store_n(\&w->w_posted, was + UWAKES_ONE, 3);/; /C1 R3 A4 \*/d' full
broken 'each C1 posts' wakes wakes.h 's/if (was != 0) {/if (0) {/' full
broken 'T2 forgets all but one' wakes wakes.h \
	's/\*nr = uwakes_clear/*nr = 0 != uwakes_clear/' full
broken 'T3 lets run who has not waited' wakes wakes.h \
	's/if (now >= nr)/if (now > nr)/; s/now != nr - 1, 0/now > nr, 0/'
broken 'E2: the joiner frees, whatever is under way' wakes wakes.h \
	's/return !(__atomic_fetch_or(&w->w_posted, UWAKES_LEFT,/return 1 || !(__atomic_fetch_or(\&w->w_posted, UWAKES_LEFT,/'
broken 'C1: a wake after the end posts' wakes wakes.h \
	's/if (was != 0) {/if (was >= UWAKES_ONE) {/'
broken 'E1: POSTED is forgotten' wakes wakes.h \
	's/(was != 0 ? UWAKES_POSTED : 0)/0/' full
broken 'E1: GONE is not set' wakes wakes.h 's/now = UWAKES_GONE |/now =/' full
broken 'T4 as T2' wakes wakes.h 's/ & UWAKES_GONE)$/ \& 0)/' full
broken 'T4: POSTED stays' wakes wakes.h 's/, ~UWAKES_POSTED,/, ~0u,/' full
broken 'R5 relaxed in E2' wakes wakes.h \
	'/UWAKES_LEFT,.*R5/,/ACQ_REL/s/_ACQ_REL/_RELAXED/' full
broken 'R5 relaxed in T4' wakes wakes.h \
	'/UWAKES_POSTED,.*R5/,/ACQ_REL/s/_ACQ_REL/_RELAXED/' full

broken 'D2 after W4' idle idle.h \
	'/D2 \*/d; s|if (!upark_wake(asleep)) {.*|bool woken = upark_wake(asleep); __atomic_fetch_sub(idle, 1, __ATOMIC_SEQ_CST); if (!woken) {|'
broken 'no D2, no D3' idle idle.h '/D2 \*/d; /D3 \*/d' full
broken 'no D3' idle idle.h '/D3 \*/d' full
broken 'who releases does not tell' idle idle.h \
	'/^	upark_futex_wake(idle)/d' full
broken 'D1 does not tell' idle idle.h '/^		upark_futex_wake(idle)/s/upark.*/;/' full

broken 'a deadline does not keep the set' idle m_idle.c \
	'/^static bool doze_busy/,/^}/{/hold(&s.idle);/d
	}'
broken 'a deadline keeps the set for too short' idle m_idle.c \
	'/^static bool doze_busy/,/^}/{/^	uidle_unhold/d
	s/^	woken =/	uidle_unhold(\&s.idle); &/
	}' full
broken 'P9: the clock jumps while another runs' idle idle.h \
	's/if (now == nr - 1)/if (now >= nr - 2)/'
broken 'P9: the last is counted, and then jumps' idle m_idle.c \
	's/^	if (!uidle_enter_unless_last(&s.idle, s.nr)) {/	if (uidle_enter(\&s.idle, s.nr)) {/
	/^		(void)uidle_enter(&s.idle, s.nr);/d'
broken 'P9: a load and a store' idle idle.h \
	's/^	} while (!__atomic_compare_exchange_n(idle, &now, now + 1, false,/	} while (__atomic_store_n(idle, now + 1, __ATOMIC_SEQ_CST), 0);/
	/^			__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));/d' full
broken 'P9: who is last is not acquired' idle idle.h \
	'/^static inline bool uidle_enter_unless_last/,/^}/s/_SEQ_CST/_RELAXED/'
broken 'P9: the last hold ends in silence' idle m_idle.c \
	'/^static void releases/,/^}/s/for (;;)/for (; 0;)/'
broken 'P9: a jump wakes nobody' idle m_idle.c \
	'/^static bool jump/,/^}/s/^			uidle_wake.*/			;/'
broken 'P9: who jumps stays asleep' idle idle.h \
	'/^static inline void uidle_stay/,/^}/s/if (!upark_cancel(asleep))/if (0)/' full

broken 'F1: a role that is taken without a thread that waits' poll source.h \
	's/^	return __atomic_load_n(&o->o_waits, __ATOMIC_RELAXED) != 0 &&/	return/'
broken 'F1: taken by a load and a store' poll source.h \
	's/^	       __atomic_compare_exchange_n(&o->o_role, &none, who, false,/	       (__atomic_store_n(\&o->o_role, who, __ATOMIC_RELEASE), none == NULL);/
	/F1 Z2 \*\//d'
broken 'F1: the role is not acquired' poll source.h \
	'/F1 Z2 \*/s/_ACQUIRE/_RELAXED/'
broken 'F3: the role is not released' poll source.h \
	'/F3 Z5 \*/s/_RELEASE/_RELAXED/'
broken 'F3: the role is not left' poll source.h '/; *	*\/\* F3 \*/d'
broken 'F3: the role is left before the look' poll source.h \
	'/\/\* F3 \*/d; s/^		o->o_look(o);	.*F2/		usource_leave(o); &/'
broken 'Z2 before Z1' poll m_poll.c \
	'/^static void park/,/^}/ {
	s/^	if (uidle_enter/	utime_ns ns = UNEVER; struct uwait_source *in = usource_take_all(\&s.source, p, NULL, \&ns); &/
	s/^	usource_sleep(.*/	if (in == NULL) usource_sleep_natively(\&p->p_asleep, ns); else if (upark_by(\&p->p_asleep, FD)) in->o_sleep(in, ns); usource_leave_all(\&s.source, p, in);/
	}'
broken 'Z3: the role is left before the events are told' poll source.h \
	's/^		in->o_sleep(in, ns);/		usource_leave(in), &/'
broken 'Z5: the role is not left' poll source.h '/\/\* Z5 \*/d'
broken 'Y1: a guest comes where none waits' poll source.h \
	's/^	while (nr > 0)/	for (;;)/'
broken 'Z2: the owner ignores a role that a thief has' poll source.h \
	's/if (!taken && (!o->o_local || !usource_waits(o)))/if (!taken)/'
broken 'a thread that waits does not hold the set' poll m_poll.c \
	'/^static void begin/,/^}/s/^		uidle_hold/		if (0) &/'
broken 'the hold comes after the count of idle workers' poll m_poll.c \
	'/^static void begin/,/^}/s/^		uidle_hold(&s.idle);/		s.looks++;/
	/^static void park/,/^}/s/^	usource_sleep/	if (s.source.o_waits != 0) uidle_hold(\&s.idle); &/'
broken 'the hold ends before the thread can run' poll m_poll.c \
	'/^static void look/,/^}/s/^		ready(me, t);/		end(); &/
	/^static void run/,/^}/s/^			end();//'
broken 'the hold does not end' poll source.h 's/before == 0 || before + nr == 0/before == 0/'
broken 'each thread holds the set' poll source.h \
	's/before == 0 || before + nr == 0/nr > 0 || before + nr == 0/'
broken 'o_waits changes by a load and a store' poll source.h \
	's/^	long before = __atomic_fetch_add(&o->o_waits, nr, __ATOMIC_SEQ_CST);/	long before = __atomic_load_n(\&o->o_waits, __ATOMIC_SEQ_CST); __atomic_store_n(\&o->o_waits, before + nr, __ATOMIC_SEQ_CST);/'

broken 'L6: any event ends a wait' arm poller.h \
	's/if (generation == e->e_generation)/if (1)/'
broken 'L6: all armings have one number' arm poller.h \
	's/e->e_generation = (e->e_generation + 1) & UEVENTS_GENERATIONS/(void)0/'
broken 'L6: only two numbers' arm poller.h \
	's/(e->e_generation + 1) & UEVENTS_GENERATIONS/(e->e_generation + 1) \& 1/'
broken 'L6: an old event does not arm' arm poller.h \
	's/^	rc = mask & UEVENTS_OTHER ? -EBADF : arm/	rc = mask \& UEVENTS_OTHER ? -EBADF : generation != e->e_generation ? 0 : arm/'
broken 'L2: armed before the node is queued' arm upoll.c \
	'/^static int queue/,/^}/{s/^	ulock_get(&e->e_lock);/&\n	rc = arm(r->r_poller, fd, e);/;/^		rc = arm(r/d;s/^	if (!armed.*/	(void)armed;/;}'
broken 'L7: an event that was fetched before the wait' arm poller.h \
	's/fetch = is_owned(e) ? &now : NULL;/fetch = NULL;/'
broken 'V1: the number of the end of the read' arm owned.h \
	's/e_empty, r.r_events,/e_empty, r.r_entry->e_events,/'
broken 'V2: an event does not count' arm poller.h '/^	if (is_owned(e))$/{N;/V2/d;}'
broken 'V3: a read that leaves some' arm upoll.h \
	's/(size_t)rc < size/(size_t)rc <= size/'
broken 'V4: always armed' arm owned.h 's/e->e_urgent == 0 && is_empty(e);/true;/'
broken 'L9: the rings are looked at first' arm owned.h \
	'/^static NOINLINE void all_again/,/^}/{/L9/d;s/^}/	__atomic_store_n(\&p->p_again, 0, __ATOMIC_SEQ_CST);\n}/;}'
broken 'no second look' arm poller.h 's/^		all_again(p);/		;/'
broken 'armed for the file before' arm table.h \
	'/^static void forget_file/,/^}/s/^	armed_at(e, NULL);//'
broken 'L4: a close takes no node' arm table.h \
	'/^static void forget_file/,/^}/s/^	take_all(e, NULL, claimed);//'
broken 'L1: a node is taken without the lock' arm poller.h \
	'/^static void event(/,/^}/{s/^	ulock_get(&e->e_lock);//;s/^	ulock_put(&e->e_lock);//;}'
broken 'the event of one poller ends waits of another' arm table.h \
	's/(p == NULL || record_of(n)->r_poller == p) &&/(1) \&\&/'

broken 'lock: taken by a load and a store' lock lock.h \
	's/return __atomic_compare_exchange_n(&l->l_state, &was, 1, false,/return (was = __atomic_load_n(\&l->l_state, __ATOMIC_ACQUIRE)) == 0 \&\& (__atomic_store_n(\&l->l_state, 1, __ATOMIC_RELAXED), 1);/
	/^			__ATOMIC_ACQUIRE, __ATOMIC_RELAXED);/d'
broken 'lock: not acquired' lock lock.h \
	's/^			__ATOMIC_ACQUIRE, __ATOMIC_RELAXED);/			__ATOMIC_RELAXED, __ATOMIC_RELAXED);/'
broken 'lock: not acquired after a sleep' lock lock.h \
	's/ULOCK_ORDER(__ATOMIC_ACQUIRE)/__ATOMIC_RELAXED/'
broken 'lock: not released' lock lock.h 's/ULOCK_ORDER(__ATOMIC_RELEASE)/__ATOMIC_RELAXED/'
broken 'L1: made odd after the look' lock lock.h \
	's/__atomic_fetch_or(place, 1, __ATOMIC_SEQ_CST)/__atomic_load_n(place, __ATOMIC_SEQ_CST)/
	s/^		USCHED_RACE(lock_L4);/		was = __atomic_fetch_or(place, 1, __ATOMIC_SEQ_CST);/'
broken 'L2: no heavy fence' lock lock.h '/L2 \*\/$/d'
broken 'L4: sleeps while the place is odd' lock lock.h \
	's/upark_futex_wait(place, was | 1);/upark_futex_wait(place, __atomic_load_n(place, __ATOMIC_RELAXED) | 1);/'
broken 'P2: no light fence' lock lock.h '/P2 \*\/$/d'
broken 'P3: a look before it is free' lock lock.h \
	'/P3 \*\/$/d;s/^	__atomic_store_n(&l->l_state, 0,/	was = __atomic_load_n(place, __ATOMIC_RELAXED); &/'
broken 'P4: no caller is woken' lock lock.h '/^		upark_futex_wake(place);/d'
broken 'P4: the place stays odd' lock lock.h 's/(int)(was + 1u)/was/'
broken 'P4: it always becomes 0' lock lock.h 's/(int)(was + 1u)/0/'
broken 'P4: a look at the lock after it is free' lock lock.h \
	's/^	if (unlikely(was & 1))/	if ((was \& 1) | (l->l_state == 2))/'

# These are uwait A1 to A3, timers D1, record O1 to O3. timers D2 and D3 are about
# one native thread: wheel.c tests them. Not needed in any scenario: an order
# of the claim (record.h says why).
broken 'A1: a claim is a load and a store' wait uwait.h \
	's/^	return __atomic_compare_exchange_n(&w->w_state, &waits, UWAIT_CLAIMED,/	if (__atomic_load_n(\&w->w_state, __ATOMIC_ACQUIRE) != waits) return 0; __atomic_store_n(\&w->w_state, UWAIT_CLAIMED, __ATOMIC_RELEASE); return 1;/
	/^			0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);/d'
broken 'A1: an event does not claim' wait m_wait.c \
	's/if (w != NULL && !uwait_claim(w))/if (0)/'
broken 'A1: a deadline does not claim' wait m_wait.c \
	'/^static void expire/,/^}/s/if (!uwait_claim(w))/if (0)/'
broken 'A1: the waiter gives up what was claimed' wait record.h \
	's/^	if (!uwait_claim(w))	/	if (0)	/'
broken 'A1: a native waiter gives up what was claimed' wait record.h \
	's/until = UNEVER;	/return;	/'
broken 'A2: the claimer says that it has arrived' wait m_wait.c \
	's/^	post(&s.worker\[home()\], w);/	int at = home(); uwait_arrived(w); post(\&s.worker[at], w);/'
broken 'A2: it arrives where its thread was' wait m_wait.c \
	's/} else if (home() != number(p))/} else if (0)/'
broken 'A2: its thread moves while it arrives' wait m_wait.c \
	'/^static void steal/,/^}/{/ulock_/d
	}'
broken 'A3: the waiter goes on when it is claimed' wait m_wait.c \
	'/^static void run(/,/^}/s/== UWAIT_ARRIVED/!= UWAIT_WAITS/'
broken 'A3: the waiter goes on by any wake' wait m_wait.c \
	'/^static void run(/,/^}/s/if (uwait_state(&s.record) == UWAIT_ARRIVED)/if (1)/'
broken 'A3: who cannot block does not wait for the record' wait m_wait.c \
	'/^static void cannot_block/,/^}/s/!= UWAIT_ARRIVED/== UWAIT_WAITS/'
broken 'A3: foreign wakes are not given back' wait m_wait.c \
	's/over(p, s.thread.t_waits - 1);/over(p, 0);/'
broken 'A3: the wake of the record is given back, too' wait m_wait.c \
	's/over(p, s.thread.t_waits - 1);/over(p, s.thread.t_waits);/'
broken 'A3: a timed wait takes two wakes for one' wait m_wait.c \
	'/^static void run_for_wake/,/^}/s/t_waits--/t_waits = 1/'
broken 'A3: a wake that came with the deadline is lost' wait m_wait.c \
	'/^static void run_for_wake/,/^}/s/^		w->w_result = 0;//'
broken 'A3: the wake of a timed wait is given back, too' wait m_wait.c \
	'/^static void run_for_wake/,/^}/s/t_waits--/t_waits -= 0/'
broken 'D1: a timer is taken out elsewhere' wait m_wait.c \
	'/^static void free_record/,/^}/s/if (w->w_base == &p->p_base) {/if (1) {/
	/^static void timer_out/,/^}/s/p->p_timer/s.worker[0].p_timer/'
broken 'D1: the waiter frees a record whose timer is elsewhere' wait m_wait.c \
	'/^static void free_record/,/^}/s/if (w->w_base == NULL) {/if (1) {/'
broken 'D1: the timer of an orphan stays' wait m_wait.c \
	'/^static void take(/,/^}/s/^		timer_out(p);//'
broken 'an orphan is sent home' wait m_wait.c \
	'/^static void take(/,/^}/s/__ATOMIC_RELAXED) == UWAIT_ARRIVED/__ATOMIC_RELAXED) == 99/'
broken 'who is told stays in the scope' wait m_wait.c \
	'/^static void take_out/,/^}/s/if (s.scope == w)/if (0)/'
broken 'O1: a post does not release' wait uwait.h \
	'/^static __inline__ void uwait_post/,/^}/s/_SEQ_CST/_RELAXED/'
broken 'O1: the taker does not acquire' wait record.h \
	's/posted, NULL, __ATOMIC_ACQUIRE/posted, NULL, __ATOMIC_RELAXED/'
broken 'a post is a load and a store' wait uwait.h \
	's/^	while (!__atomic_compare_exchange_n(&b->wb_posted, &w->w_at.link, w, 0,/	__atomic_store_n(\&b->wb_posted, w, __ATOMIC_SEQ_CST);/
	/^			__ATOMIC_SEQ_CST, __ATOMIC_RELAXED))/,/;/d'
broken 'the list is taken by a load and a store' wait record.h \
	's/w = __atomic_exchange_n(&b->wb_posted, NULL, __ATOMIC_ACQUIRE);/w = __atomic_load_n(\&b->wb_posted, __ATOMIC_ACQUIRE); __atomic_store_n(\&b->wb_posted, NULL, __ATOMIC_RELAXED);/'
broken 'the last posted is the first' wait record.h \
	'/O1 \*/,/^}/s/^	return list;/	while (list != NULL) { next = list->w_at.link; list->w_at.link = w; w = list; list = next; } return w;/'
broken 'O2: ARRIVED is not released' wait uwait.h \
	'/O2 \*/s/_RELEASE/_RELAXED/'
broken 'O2: ARRIVED is not acquired' wait record.h \
	's/&w->w_state, __ATOMIC_ACQUIRE/\&w->w_state, __ATOMIC_RELAXED/'
broken 'O3: W1 is not sequentially consistent' wait uwait.h \
	'/^static __inline__ void uwait_post/,/^}/s/_SEQ_CST/_RELEASE/'
broken 'O3: S3 is not sequentially consistent' wait uwait.h \
	'/O3 \*\/$/s/posted, __ATOMIC_SEQ_CST/posted, __ATOMIC_RELAXED/'
broken 'S3: no look at the list' wait m_wait.c 's/(uwait_posted(&p->p_base) || /(/'
broken 'a native waiter is not woken' wait record.h \
	'/^	upark_futex_wake(word);/d'
broken 'a native waiter is woken too early' wait record.h \
	'/^	upark_futex_wake(word);/d; s/^	uwait_arrived(w);$/	if (w->w_stack == NULL) upark_futex_wake(\&w->w_state); &/'
broken 'a native waiter is looked at after it is completed' wait record.h \
	's/^	upark_futex_wake(word);/	if (w->w_flags == 0) &/'
broken 'a native deadline is forgotten' wait record.h \
	's/^		else if (left > 0)/		else if (left > -100)/' full

# Errors of the paper of deque.h, and then the orders on which deque.h depends.
# deque R3 and A3, which keep the load of an item before the swap, are outside of
# this model.
broken 'R2 relaxed: the array (Norris and Demsky)' deque deque.h \
	'/R2 \*/s/_RELEASE/_RELAXED/'
broken 'A2 relaxed: the array' deque deque.h \
	's/(&d->d_array, __ATOMIC_ACQUIRE/(\&d->d_array, __ATOMIC_RELAXED/' full
broken 'unsigned indices: pop of an empty deque' deque deque.h \
	'/(ws_deque_span(b, .*) < 0)/,/return x/d
	s|^	if (left > 0)	.*|	if (b > b - (unsigned long)left)|
	s|if (left == 0 &&|if (left == 0 \&\& 1 \&\&|'
broken 'no fence in pop' deque deque.h '/ufence_light();/d'
broken 'no fence in steal' deque deque.h '/ufence_heavy();/d'
broken 'a heavy fence that is full, and a light one that is free' deque \
	fence.h 's/if (mode != UFENCE_ONE_FREE)/if (1)/; s/!ufence_call(UFENCE_EXPEDITED) &&/0 \&\&/'
broken 'full fences not sequentially consistent' deque fence.h \
	's/thread_fence(__ATOMIC_SEQ_CST)/thread_fence(__ATOMIC_ACQ_REL)/' full
broken 'pop reads d_top before the fence' deque deque.h \
	's/left = ws_deque_span(b, .*/left = ws_deque_span(b, t);/; s/^	ufence_light();/	unsigned long t = __atomic_load_n(\&d->d_top, __ATOMIC_RELAXED); &/' full
broken 'steal reads the array before d_bottom' deque deque.h \
	'/^	ufence_heavy();/s/.*/	struct ws_deque_array *a = __atomic_load_n(\&d->d_array, __ATOMIC_ACQUIRE); &/
	/ufence_heavy();/,$s/ws_deque_get(.*, t);/ws_deque_get(a, t);/' full
broken 'the last one popped without a swap' deque deque.h \
	's/if (left == 0 && ws_deque_win(d, b))/if (left == 0)/' full
broken 'the swap a load and a store' deque deque.h \
	's/return __atomic_compare_exchange_n.*/if (__atomic_load_n(\&d->d_top, __ATOMIC_SEQ_CST) != i) return 0; __atomic_store_n(\&d->d_top, i + 1, __ATOMIC_SEQ_CST); return 1;/
	/__ATOMIC_SEQ_CST, __ATOMIC_RELAXED);/d' full
broken 'R1 relaxed in push' deque deque.h \
	'/USCHED_RACE(deque_push)/,/R1 \*/s/_RELEASE/_RELAXED/' full
broken 'R1 relaxed in pop, first (P0982)' deque deque.h \
	'/USCHED_RACE(deque_pop)/,/R1 \*/s/_RELEASE/_RELAXED/' full
broken 'A1 relaxed, without a fence' deque deque.h \
	'/^static.*ws_deque_steal_alone/,/A1 \*/s/__ATOMIC_ACQUIRE);		/__ATOMIC_RELAXED);	/' full
broken 'Q5: an old array is written' deque deque.h \
	's/^	big->a_old = a;/& ws_deque_put(a, d->d_bottom, ws_deque_none(NULL));/' full
broken 'A1 relaxed' deque deque.h \
	'/ufence_heavy();/,/A1 \*/s/d_bottom, __ATOMIC_ACQUIRE/d_bottom, __ATOMIC_RELAXED/' full
broken 'd_bottom read before d_top' deque deque.h \
	's/^	if (ws_deque_span(b, t) <= 0)/	t = __atomic_load_n(\&d->d_top, __ATOMIC_ACQUIRE); &/' full
broken 'the array before it is filled' deque deque.h \
	's/^	for (i = d->d_seen; /	__atomic_store_n(\&d->d_array, big, __ATOMIC_RELEASE); &/' full
broken 'Q2: an item too much without a swap' deque deque.h \
	's/^	if (left > 0)	/	if (left >= 0)	/' full
broken 'Q4: a slot too many' deque deque.h \
	's/>= d->d_array->a_room/> d->d_array->a_room/' full
broken 'Q4: room by a d_top that is not yet' deque deque.h \
	's/^	d->d_seen = .*/	d->d_seen = d->d_bottom;/' full

# Not needed in any scenario, so not here: that stop K3 acquires; that
# ws_mail_close() is more than a load and a store, that ws_mail_open() leaves SETTLED,
# and that a post which finds GONE does not post (mail.h); the orders of seek N1
# and N4, and of ws_seek_unpark().
broken 'K1: no light fence' stop stop.h '/ufence_light();/d'
broken 'K4: no heavy fence' stop stop.h '/ufence_heavy();/d'
broken 'K2: no look' stop stop.h \
	'/^	return !(__atomic_load_n(&k->k_stop, /{N;s/.*/	return 1;/
	}' full
broken 'K2: ws_stop_quick() does not look whether it is asked' stop stop.h \
	's/(WS_STOP_NEXT - 1)/(WS_STOP_FENCE | WS_STOP_LOOK)/'
broken 'K2: ws_stop_quick() does not look at the fence' stop stop.h \
	's/(WS_STOP_NEXT - 1)/(WS_STOP_ASKED | WS_STOP_LOOK)/'
broken 'ws_stop_quick() does not see LOOK' stop stop.h \
	's/(WS_STOP_NEXT - 1)/(WS_STOP_ASKED | WS_STOP_FENCE)/'
broken 'ws_stop_look() is a load and a store' stop stop.h \
	's/__atomic_fetch_or(&k->k_stop, WS_STOP_LOOK,/__atomic_store_n(\&k->k_stop, __atomic_load_n(\&k->k_stop, 0) | WS_STOP_LOOK,/'
broken 'K6 a load and a store' stop stop.h \
	's/__atomic_fetch_and(&k->k_stop, ~(unsigned long)WS_STOP_ASKED,/__atomic_store_n(\&k->k_stop, __atomic_load_n(\&k->k_stop, 0) \& ~(unsigned long)WS_STOP_ASKED,/'
broken 'K2: one look only' stop stop.h \
	's/} while (!ws_stop_in(k));/} while (ws_stop_in(k), 0);/' full
broken 'K2: the owner waits while in' stop stop.h '/^		ws_stop_leave(k);/d'
broken 'K2: the owner goes out to wait, and does not release' stop stop.h \
	's/^		ws_stop_leave(k);/	__atomic_store_n(\&k->k_in, 0, __ATOMIC_RELAXED);/' full
broken 'K2 relaxed' stop stop.h '/k_stop, __ATOMIC_ACQUIRE/s/_ACQUIRE/_RELAXED/' full
broken 'K3 a load and a store' stop stop.h \
	's/if (was & WS_STOP_ASKED || !__atomic_compare_exchange_n(&k->k_stop.*/if (was \& WS_STOP_ASKED || (__atomic_store_n(\&k->k_stop, stop, __ATOMIC_RELAXED), 0))/
	/^	*&was,$/d; /stop, false, __ATOMIC_ACQUIRE/d' full
broken 'K3: who is stopped already is stopped' stop stop.h \
	's/if (was & WS_STOP_ASKED || /if (/'
broken 'K8: stops have no numbers' stop stop.h \
	's/(was + WS_STOP_NEXT) | WS_STOP_ASKED/was | WS_STOP_ASKED/'
broken 'K8 relaxed' stop stop.h \
	'/&k->k_answer, stop,/{N;s/_RELEASE/_RELAXED/
	}'
broken 'K8: an answer, and no wait' stop stop.h \
	'/K8 T3 \*/{n;s/.*/return;/
	}'
broken 'K9: any answer will do' stop stop.h \
	'/K9 T3 \*/s/stop;/stop || __atomic_load_n(\&k->k_answer, __ATOMIC_ACQUIRE) != 0;/' full
broken 'K9 relaxed' stop stop.h \
	's/&k->k_answer, __ATOMIC_ACQUIRE/\&k->k_answer, __ATOMIC_RELAXED/'
broken 'K5: no look' stop stop.h 's/if (!__atomic_load_n(&k->k_in.*/if (1)/' full
broken 'K5 relaxed' stop stop.h '/K5 T1 \*/s/_ACQUIRE/_RELAXED/' full
broken 'K6 relaxed' stop stop.h '/K6 T2 \*/s/_RELEASE/_RELAXED/' full
broken 'K7 relaxed' stop stop.h '/K7 T1 \*/s/_RELEASE/_RELAXED/' full
broken 'who gives up leaves it stopped' stop stop.h '/^	ws_stop_end(k);/d'

broken 'M1: a post does not acquire' mail mail.h \
	's/__ATOMIC_ACQ_REL, __ATOMIC_RELAXED));/__ATOMIC_RELEASE, __ATOMIC_RELAXED));/' full
broken 'M2: a post does not release' mail mail.h \
	's/__ATOMIC_ACQ_REL, __ATOMIC_RELAXED));/__ATOMIC_ACQUIRE, __ATOMIC_RELAXED));/' full
broken 'M3: ws_mail_open() does not release' mail mail.h \
	'/M2 M3 \*/,/ACQ_REL/s/_ACQ_REL/_ACQUIRE/' full
broken 'M2: ws_mail_open() does not acquire' mail mail.h \
	'/M2 M3 \*/,/ACQ_REL/s/_ACQ_REL/_RELEASE/' full
broken 'M1: ws_mail_settle() does not release' mail mail.h \
	'/M1 M2 \*/s/_ACQ_REL/_ACQUIRE/' full
broken 'M2: ws_mail_settle() does not acquire' mail mail.h \
	'/M1 M2 \*/s/_ACQ_REL/_RELEASE/' full
broken 'M4: the home relaxed' mail m_mail.c \
	's/(&s.home, __ATOMIC_ACQUIRE)/(\&s.home, __ATOMIC_RELAXED)/
	s/(&s.home, to, __ATOMIC_SEQ_CST)/(\&s.home, to, __ATOMIC_RELAXED)/'
broken 'who has not settled is posted' mail mail.h \
	's/if (settled || (was & WS_MAIL_SETTLED))/if (1 || settled)/'
broken 'who has settled is not posted' mail mail.h \
	's/if (settled || (was & WS_MAIL_SETTLED))/if (settled)/' full
broken 'ws_mail_settle() forgets the wakes' mail mail.h \
	's/^	uwakes_back(w, ws_mail_wakes(was));/	uwakes_back(w, 0);/
	s/^	unsigned was = __atomic_exchange_n/	(void)__atomic_exchange_n/' full
broken 'ws_mail_settle() a load and a store' mail mail.h \
	's/unsigned was = __atomic_exchange_n(&w->w_posted, WS_MAIL_SETTLED,/unsigned was = __atomic_load_n(\&w->w_posted, 2); __atomic_store_n(\&w->w_posted, WS_MAIL_SETTLED,/
	/M1 M2 \*/s/__ATOMIC_ACQ_REL/__ATOMIC_RELEASE/' full
broken 'who is handed over is not posted' mail mail.h \
	's/return ws_mail_put(w, WS_MAIL_RUN, 1);/return ws_mail_put(w, WS_MAIL_RUN, 0);/' full
broken 'each post posts the node' mail mail.h \
	's/return (now & ~was & UWAKES_POSTED) != 0;/return (now \& UWAKES_POSTED) != 0;/'
broken 'a post is a load and a store' mail mail.h \
	's/while (!__atomic_compare_exchange_n(&w->w_posted, &was, now, 0,/while (__atomic_store_n(\&w->w_posted, now, __ATOMIC_RELEASE), 0);/
	/__ATOMIC_ACQ_REL, __ATOMIC_RELAXED));/d' full
broken 'ws_mail_open() leaves POSTED' mail mail.h \
	's/WS_MAIL_SETTLED | UWAKES_GONE | UWAKES_LEFT,/WS_MAIL_SETTLED | UWAKES_GONE | UWAKES_LEFT | UWAKES_POSTED,/' full
broken 'ws_mail_open() leaves RUN' mail mail.h \
	's/WS_MAIL_SETTLED | UWAKES_GONE | UWAKES_LEFT,/WS_MAIL_SETTLED | UWAKES_GONE | UWAKES_LEFT | WS_MAIL_RUN,/' full
broken 'ws_mail_open() a load and a store' mail mail.h \
	's/return __atomic_fetch_and(&w->w_posted,			.*/unsigned was = __atomic_load_n(\&w->w_posted, 2); __atomic_store_n(\&w->w_posted, was \& (WS_MAIL_SETTLED | UWAKES_GONE | UWAKES_LEFT), 3); return was \& ~WS_MAIL_SETTLED;/
	/WS_MAIL_SETTLED | UWAKES_GONE | UWAKES_LEFT,$/d
	/__ATOMIC_ACQ_REL) & ~WS_MAIL_SETTLED/d' full
broken 'ws_mail_close() does not look at POSTED' mail mail.h \
	's/!(__atomic_fetch_or(&w->w_posted, UWAKES_GONE | flags,/1 || &/' full
broken 'ws_mail_close() does not set GONE' mail mail.h \
	's/__atomic_fetch_or(&w->w_posted, UWAKES_GONE | flags,/__atomic_fetch_or(\&w->w_posted, flags,/' full
broken 'who takes the node does not look at GONE' mail m_mail.c \
	's/if (ws_mail_gone(&s.wakes)) {/if (0) {/' full
broken 'a node is opened by who forwards it' mail m_mail.c \
	's/^			post_to(at);/			ws_mail_open(\&s.wakes), post_to(at);/'
broken 'a node is not forwarded' mail m_mail.c \
	's/if (at != number(p) && at != 0)/if (0)/' full
broken 'the home is read before the post' mail m_mail.c \
	's/^		if (ws_mail_post(&s.wakes))/		{ int at = home(); if (ws_mail_post(\&s.wakes)) post_to(at); }/
	/^			post_to(home());/d' full
broken 'a thief opens the node of who runs' mail m_mail.c \
	's/else if (!owner && p->p_now && at == number(p))/else if (0)/' full
broken 'a thief frees to the memory of another worker' mail m_mail.c \
	's/open_gone(me);/open_gone(p);/'
broken 'the joiner frees, whatever is under way' mail wakes.h \
	's/return !(__atomic_fetch_or(&w->w_posted, UWAKES_LEFT,/return 1 || !(__atomic_fetch_or(\&w->w_posted, UWAKES_LEFT,/'
broken 'the joiner is told only if no node is under way' mail m_mail.c \
	's/^	(void)ws_mail_close(&s.wakes, 0);/	if (ws_mail_close(\&s.wakes, 0))/'
broken 'ws_mail_open() takes LEFT for granted' mail m_mail.c \
	's/if (bits & UWAKES_LEFT) {/if (1) {/' full
broken 'M2: ws_mail_collect() does not acquire' mail mail.h \
	's/__ATOMIC_ACQUIRE);	/__ATOMIC_RELAXED);	/' full
broken 'ws_mail_collect() takes POSTED along' mail mail.h \
	's/UWAKES_ONE - 1,/WS_MAIL_SETTLED,/' full

broken 'G2: no light fence' seek seek.h '/G2 \*/s/ws_seek_light(m);//'
broken 'N4: no heavy fence' seek seek.h \
	'/USCHED_RACE(seek_N4);/,/ws_seek_heavy/{/ws_seek_heavy/d
	}'
broken 'N7: no heavy fence' seek seek.h \
	'/^	ws_seek_heavy(m);/{N
	/return true/s/	ws_seek_heavy(m);//
	}'
broken 'O1: both fences are full at once' seek seek.h \
	's/WS_SEEK_HALF,$/WS_SEEK_FULL,/'
broken 'O2: no heavy fence' seek seek.h '/^	ufence_heavy();.*O2/d'
broken 'O3: givers know nothing' seek seek.h \
	's/unlikely(__atomic_load_n(&m->m_full, __ATOMIC_RELAXED))/0/'
broken 'N5: no second look' seek m_seek.c \
	's/(stopped() || (ws_seek_few(&s.seek) && somebody_has_work()))/stopped()/'
broken 'N5: the last that sleeps does not look' seek seek.h \
	's/return ws_seek_parked(m) > m->m_spare;/return ws_seek_parked(m) > 2 * m->m_spare;/'
broken 'N7: who sleeps is overlooked' seek seek.h \
	's/^	return true;/	return false;/'
broken 'N7: no look' seek m_seek.c \
	's/more = ws_seek_end(&s.seek) && somebody_has_work();/more = ws_seek_end(\&s.seek), more = false;/' full
broken 'N7: a look before it' seek m_seek.c \
	's/more = ws_seek_end(&s.seek) && somebody_has_work();/more = somebody_has_work(); more \&= ws_seek_end(\&s.seek);/' full
broken 'N3 after N6' seek m_seek.c \
	's/more = ws_seek_end(&s.seek) && somebody_has_work();/more = false;/
	s/		park(w, doze);/		{ park(w, doze); ws_seek_end(\&s.seek); }/
	s/^	else if (more)/	else if (ws_seek_end(\&s.seek) \&\& somebody_has_work())/' full
broken 'N4 after N5' seek m_seek.c \
	'/ws_seek_park(&s.seek);/d
	s/^	if ((stopped() || (ws_seek_few(&s.seek) && somebody_has_work())) &&.*/	bool look = stopped() || somebody_has_work(); ws_seek_park(\&s.seek); if (look \&\&/' full
broken 'N4: ws_seek_park() before upark_prepare()' seek m_seek.c \
	'/^	upark_prepare/d
	s/^	ws_seek_park(&s.seek);.*/&\
	upark_prepare(\&w->p_asleep);/' full
broken 'N6: ws_seek_unpark() before the sleep' seek m_seek.c \
	's/^	ws_seek_unpark(&s.seek);//
	s/^		uidle_sleep(&s.idle/		ws_seek_unpark(\&s.seek), &/' full
broken 'N3 N7 not sequentially consistent' seek seek.h \
	'/N3 N7 \*/s/_SEQ_CST/_ACQ_REL/'
broken 'N7: the look who sleeps is not' seek seek.h \
	'/m_parked, __ATOMIC_SEQ_CST);$/s/_SEQ_CST/_ACQUIRE/' full
broken 'G3: nobody sleeps' seek seek.h \
	's/return unlikely(/return 0 \&\& unlikely(/' full
broken 'uidle_doze: no D1' seek idle.h \
	'/^static inline bool uidle_doze(/,/^}/s/^	(void)uidle_enter(idle, nr);//' full
broken 'uidle_doze: no D2' seek idle.h \
	'/^static inline bool uidle_awake/,/^}/ {
	/fetch_sub/d
	s/uidle_stay(idle, asleep);/(void)upark_cancel(asleep);/
	}' full
broken 'uidle_doze: D2 after W4' seek idle.h \
	'/^static inline bool uidle_awake/,/^}/ {
	/fetch_sub/d
	s/uidle_stay(idle, asleep);/if (upark_cancel(asleep)) __atomic_fetch_sub(idle, 1, __ATOMIC_SEQ_CST);/
	}'

broken 'who lets threads yield does not look' watch m_watch.c \
	's/if (ws_is_watched(&s.watch) || !ws_watch_due(&s.watch))/if (1)/'
broken 'U4: the watch is never given back' watch watch.h \
	'/__atomic_fetch_sub(&v->v_watches/d'
broken 'U1: who joins is not counted' watch watch.h \
	'/__atomic_fetch_add(&v->v_watches/d'
broken 'U4: no look' watch m_watch.c \
	's/got = take();	/got = false;	/'
broken 'U6: never due' watch watch.h 's/return now - last >= WS_WATCH/return 0/'
broken 'U8: nobody remembers' watch m_watch.c '/U8 \*\//d'
broken 'U2: nobody remembers' watch m_watch.c \
	'/U2 \*\//d; /^	if (!got)/{N; s/remember_switches()//
	}'

# usync.c and its objects: more of them in sync.sh.
broken 'N1 a touch after the last' sync umutex.c \
	'/^static void mutex_pass/,/^}/s/usync_lock_put(lock);/& y->y_hint = 0;/' full
broken 'N2 a look at the object first' sync usync.c \
	'/^void usync_give_up/,/^}/s/if (z->z_prev/if (usync_queued(y->y_first) \&\& z->z_prev/'
broken 'N6 a signal for none is relaxed' sync ucond.c \
	's/usync_acquired(y) & USYNC_QUEUED/usync_state(y) \& USYNC_QUEUED/'
broken 'N6 the end of a group is relaxed' sync ugroup.c \
	'/^int ugroup_wait/,/^}/s/now = usync_acquired(y);/now = usync_state(y);/'
broken 'R3 the last reader is relaxed' sync urw.c \
	'/R3 \*/s/usync_acquired(y)/usync_state(y)/'
broken 'changes are relaxed' sync usync.h \
	'/to, 0,$/{n;s/_ACQ_REL/_RELAXED/;s/_ACQUIRE/_RELAXED/}'
broken 'changes do not release' sync usync.h \
	'/to, 0,$/{n;s/_ACQ_REL/_ACQUIRE/}'
broken 'the last change is relaxed' sync usync_inside.h \
	'/^static inline void usync_set(/,/^}/s/_RELEASE/_RELAXED/' full
broken 'M1 the first is not woken' sync umutex.c \
	's/(now & (USYNC_QUEUED | UMUTEX_WOKEN)) == USYNC_QUEUED/0/'
broken 'M1 queued while it is free' sync umutex.c \
	'/^bool umutex_put/,/^}/s/!(now & BARS(woken))/0/'
broken 'M3 WOKEN stays' sync umutex.c \
	's/\(define CLEARS.*\)UMUTEX_WOKEN | /\1/'
broken 'C1 the mutex is unlocked first' sync ucond.c \
	'/^int ucond_wait(/,/^}/{/C1/d;s/^	cond_put/	umutex_unlock(m);\n&/;}'
broken 'G1 the count is 0 before the waiters are taken' sync ugroup.c \
	'/sum == 0 && now & USYNC_QUEUED/s/sum == 0/sum == -1/'
broken 'B1 who was counted comes again' sync ubarrier.c \
	's/rc < 0 && barrier_give_up(y, z)/rc < 0 \&\& barrier_give_up(y, z) \&\& 0/'

counted
