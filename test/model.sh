#!/bin/sh
# SPDX-License-Identifier: MIT
# model.sh: inbox.h, park.h, wakes.h and idle.h hold in all executions of small
# programs that the memory model allows (test/model/model.c), and what is broken
# on purpose does not. --full: all of them, some minutes; else what is quick.

cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cc=${CC:-cc}
full=
[ "$1" = --full ] && full=--full
passed=0 failed=0

build() { # headers and scenarios in $1; which
	$cc -std=gnu11 -O1 -g -fsanitize=thread -I"$1" -Itest/model \
		-c -o "$dir/m.o" "$1/m_$2.c" &&
	$cc -o "$dir/m_$2" "$dir/m.o" "$dir/model.o" "$dir/usched.o"
}

echo 'int f(int *a) { return __atomic_load_n(a, 2); }' >"$dir/try.c"
if ! $cc -O1 -fsanitize=thread -S -o "$dir/try.s" "$dir/try.c" 2>/dev/null ||
   ! grep -q __tsan_atomic32_load "$dir/try.s"; then
	echo "skipped: $cc has no -fsanitize=thread (packages gcc, clang)"
	exit 77
fi
$cc -std=gnu11 -O2 -g -I. -c -o "$dir/usched.o" usched.c &&
$cc -std=gnu11 -O2 -g -I. -c -o "$dir/model.o" test/model/model.c || exit 1

# As it is.
mkdir "$dir/good" "$dir/bad"
cp inbox.h park.h wakes.h idle.h test/model/m_*.c "$dir/good"
for m in inbox park wakes idle; do
	if build "$dir/good" $m && "$dir/m_$m" -v $full; then
		passed=$((passed + 1))
	else
		echo "FAIL  $m"
		failed=$((failed + 1))
	fi
done

# Broken: what is said first must be found, in the scenarios named second.
broken() { # what, scenarios, file, sed script [, only in the full part]
	[ "$5" ] && [ -z "$full" ] && return
	cp "$dir/good/"* "$dir/bad"
	sed "$4" "$dir/good/$3" >"$dir/bad/$3"
	if cmp -s "$dir/good/$3" "$dir/bad/$3"; then
		status="nothing was broken"
	elif build "$dir/bad" "$2"; then
		"$dir/m_$2" $full >"$dir/log" 2>&1
		status=$?
	else
		status="does not compile"
	fi
	if [ "$status" = 1 ]; then
		echo "caught  $1:"
		echo "	$(tail -n 1 "$dir/log" | sed 's/   */ /g')"
		passed=$((passed + 1))
	else
		echo "FAIL  not caught ($status): $1"
		failed=$((failed + 1))
	fi
}

seq=__ATOMIC_SEQ_CST
broken 'R1 relaxed' inbox inbox.h '/R1 \*/s/_RELEASE/_RELAXED/'
broken 'R2 relaxed' inbox inbox.h '/R2 A2 \*/s/_SEQ_CST/_RELAXED/' full
broken 'A1 relaxed' inbox inbox.h 's/_ACQUIRE/_RELAXED/' full
broken 'R2 a load and a store' inbox inbox.h \
	"s/before = __atomic_exchange_n(&i->i_tail, n, $seq)/before = __atomic_load_n(\&i->i_tail, $seq); __atomic_store_n(\&i->i_tail, n, $seq)/"
broken 'a link cleared too late' inbox inbox.h \
	'/(&n->n_next, NULL/d; /RACE_WINDOW(2)/i\
	__atomic_store_n(\&n->n_next, NULL, __ATOMIC_RELAXED);' full
broken 'the stub posted without a look at the tail' inbox inbox.h \
	'/i_tail, __ATOMIC_ACQUIRE) != head)/,/return NULL/d' full
broken 'empty: only the head' inbox inbox.h \
	"s/return __atomic_load_n(&i->i_tail, $seq) == &i->i_stub &&/return/" full

broken 'S3: no second look' park m_park.c 's/if (!inbox_empty(/if (0 \&\& (/'
broken 'S1 not sequentially consistent' park park.h \
	"s/__atomic_exchange_n(asleep, 1, $seq)/__atomic_store_n(asleep, 1, __ATOMIC_RELEASE)/"
broken 'W3 relaxed' park park.h '/W3 \*/s/_SEQ_CST/_RELAXED/' full
broken 'W1 not sequentially consistent' park inbox.h \
	'/R2 A2 \*/s/_SEQ_CST/_ACQ_REL/' full
broken 'S3 relaxed' park inbox.h \
	'/i_tail, __ATOMIC_SEQ_CST) ==/s/_SEQ_CST/_RELAXED/' full
broken 'nobody tells the futex' park park.h '/^	park_futex_wake(asleep);/d' full
broken 'each waker says that it was he' park park.h \
	"/RACE_WINDOW(7)/,/return false/s/if (__atomic_exchange_n(asleep, 0, $seq) == 0)/__atomic_store_n(asleep, 0, $seq); if (0)/" full
broken 'a wait that returns for no reason is believed' park park.h \
	's/while (__atomic_load_n(asleep/if (__atomic_load_n(asleep/' full

broken 'T2 before T1' wakes wakes.h \
	's|struct inbox_node \*n = inbox_take(inbox);.*|struct inbox_node *n = inbox->i_head == \&inbox->i_stub ? __atomic_load_n(\&inbox->i_stub.n_next, __ATOMIC_ACQUIRE) : inbox->i_head; int was = n == NULL ? 0 : __atomic_exchange_n(\&((struct wakes *)((char *)n - offsetof(struct wakes, w_node)))->w_posted, 0, __ATOMIC_ACQ_REL);|
	s|	if (n == NULL)|	n = inbox_take(inbox); if (n == NULL)|
	s|\*nr = __atomic_exchange_n.*|*nr = was;|'
broken 'C1 relaxed' wakes wakes.h 's/posted, 1, __ATOMIC_ACQ_REL/posted, 1, __ATOMIC_RELAXED/' full
broken 'T2 relaxed' wakes wakes.h 's/posted, 0, __ATOMIC_ACQ_REL/posted, 0, __ATOMIC_RELAXED/' full
broken 'R4: the node not released' wakes wakes.h \
	's/posted, 0, __ATOMIC_ACQ_REL/posted, 0, __ATOMIC_ACQUIRE/' full
broken 'A4: the node not acquired' wakes wakes.h \
	's/posted, 1, __ATOMIC_ACQ_REL/posted, 1, __ATOMIC_RELEASE/' full
broken 'C1 a load and a store' wakes wakes.h \
	's/if (__atomic_fetch_add(&w->w_posted, 1, __ATOMIC_ACQ_REL) != 0)/int was = __atomic_load_n(\&w->w_posted, 2); __atomic_store_n(\&w->w_posted, was + 1, 3); if (was != 0)/' full
broken 'each C1 posts' wakes wakes.h 's/ACQ_REL) != 0)/ACQ_REL) < 0)/' full
broken 'T2 forgets all but one' wakes wakes.h \
	's/\*nr = __atomic_exchange_n/*nr = 0 != __atomic_exchange_n/' full
broken 'T3 lets run who has not waited' wakes wakes.h \
	's/return was < 0;/return was <= 0;/'

broken 'D2 after W4' idle idle.h \
	'/D2 \*/d; s|if (!park_wake(asleep)) {.*|bool woken = park_wake(asleep); __atomic_fetch_sub(idle, 1, __ATOMIC_SEQ_CST); if (!woken) {|'
broken 'no D2, no D3' idle idle.h '/D2 \*/d; /D3 \*/d' full
broken 'no D3' idle idle.h '/D3 \*/d' full
broken 'who releases does not tell' idle idle.h \
	'/^	park_futex_wake(idle)/d' full
broken 'D1 does not tell' idle idle.h '/^		park_futex_wake(idle)/s/park.*/;/' full

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
