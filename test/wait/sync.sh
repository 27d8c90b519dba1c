#!/bin/sh
# SPDX-License-Identifier: MIT
# sync.sh: each proof obligation of usync.c and its objects is needed: where it is
# broken on purpose, a test of the objects fails. --full: also those that only a
# second processor or chance can show.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
. test/run/mutants

[ "$1" = --full ] && full=1

compile() {
	${CC:-cc} -std=gnu11 -O1 -g $CFLAGS $includes "$@"
}

build_all() {
	library=
	for module in usched $(echo $waits | sed "s,\.c,,g") uthread uscope umem uproc rr; do
		compile -c $(where $module.c) -o "$dir/$module.o" || return 1
		library="$library $dir/$module.o"
	done
	for test in sync sync_model sync_native sync_scope waitmem sync_bare; do
		compile -DRR -c "$(test_of $test)" -o "$dir/$test.o" || return 1
	done
}

# Compiles usync.c and the objects, with $dir/broken in place of file $1, to $dir/parts.
objects() {
	rm -rf "$dir/parts" && cp -r lib/wait "$dir/parts" || return 1
	[ -z "$1" ] || cp "$dir/broken" "$dir/parts/${1##*/}"
	for part in $syncs; do
		case $1 in
		''|*.h|*/$part)	compile -c "$dir/parts/$part" -o "$dir/parts/$part.o" ;;
		*)		cp "$dir/good/$part.o" "$dir/parts" ;;
		esac || return 1
	done
}

# Links and runs test $1 with the objects, for at most $2 seconds. Sets status.
run() {
	compile "$dir/$1.o" "$dir"/parts/*.o $library -o "$dir/$1" -pthread ||
		{ status=none; return; }
	WATCHDOG=$2 "$dir/$1" 1 >"$dir/log" 2>&1
	status=$?
}

tries() { # test, file
	objects "$2" 2>"$dir/log" || { status='does not compile'; return 0; }
	run "$1" 4
	case $status in
	1|139|134) status='' && return 1 ;;
	esac
	status="status $status"
}

build_all || exit 1
only=$2
objects && cp -r "$dir/parts" "$dir/good" || exit 1
for test in sync sync_model sync_native sync_scope waitmem sync_bare; do
	run $test 20
	judge $status "$test" "$dir/log"
done

broken 'N1 a group ends before its waiters are taken' sync lib/wait/ugroup.c \
	'/sum == 0 && now & USYNC_QUEUED/s/sum == 0/sum == -1/'
broken 'N2 who gives up touches the object' sync lib/wait/usync.c \
	'/^void usync_give_up/,/^}/s/if (z->z_prev != NULL) {/usync_set_queued(y); if (z->z_prev != NULL) {/'
broken 'N3 no lock' sync_native lib/wait/usync_inside.h \
	'/^static inline void usync_lock_[gp][eu]t/,/^}/s/lock != NULL/0/'
broken 'N3 a claim is not looked at' sync_model lib/wait/usync_inside.h \
	's/z->z_claimed || uwait_claim(&z->z_wait)/z->z_claimed || uwait_claim(\&z->z_wait) || 1/'
broken 'N5 QUEUED is not cleared' sync lib/wait/usync.c \
	'/^void usync_set_queued/,/^}/s/(now & ~(unsigned)USYNC_QUEUED)/now/'
broken 'last in, first out' sync_model lib/wait/usync_inside.h \
	'/^static inline void usync_put_last/,/^}/s/z->z_next = next;/*first = z; &/'
broken 'M1 nothing is woken' sync lib/wait/umutex.c \
	's/(now & (USYNC_QUEUED | UMUTEX_WOKEN)) == USYNC_QUEUED/0/'
broken 'M3 WOKEN stays' sync lib/wait/umutex.c 's/\(define CLEARS.*\)UMUTEX_WOKEN | /\1/'
broken 'M3 who loses goes last' sync lib/wait/umutex.c \
	'/^bool umutex_put/,/^}/s/woken && z != NULL/0/'
broken 'M3 the mutex is not given' sync lib/wait/umutex.c \
	's/z != NULL && z->z_first/0/'
broken 'M4 nothing is kept' sync lib/wait/umutex.c 's/passed > UMUTEX_BYPASS_FAR/0/'
broken 'M4 locks of newcomers are not counted' sync lib/wait/umutex.c \
	's/usync_hint(y) + 1 : 0/usync_hint(y) : 0/'
broken 'H1 a spin on one processor' sync_native lib/wait/usync.c \
	's/!runs_elsewhere(usync_owner(owner))/0/'
broken 'C1 the mutex is unlocked first' sync lib/wait/ucond.c \
	'/^int ucond_wait(/,/^}/{/C1/d;s/^	cond_put/	umutex_unlock(m); (void)sched_yield();\n&/;};s/#include "usync_inside.h"/&\n#include <sched.h>/' full
broken 'C2 the signal does not move' sync lib/wait/ucond.c \
	'/^static void cond_pass/,/^}/s/now & (UMUTEX_TAKEN | UMUTEX_WOKEN)/0/'
broken 'C2 what was moved can be late' sync_model lib/wait/ucond.c \
	'/C2 \*/,/^}/s/z->z_claimed = true/z->z_claimed = true; z->z_wait.w_state = 0/'
broken 'C3 the wait for the mutex can be given up' sync_bare lib/wait/ucond.c \
	'/w_flags |= UWAIT_SURE/d'
broken 'C3 nothing is reserved' waitmem lib/wait/ucond.c 's/rc = uwait_reserve(until);/rc = 0;/'
broken 'C3 the deadline is not reserved' waitmem lib/wait/ucond.c \
	's/uwait_reserve(until)/uwait_reserve(UNEVER)/'
broken 'C3 reserved after the unlock' waitmem lib/wait/ucond.c \
	'/^static struct pair \*pair_make/,/^}/s/uwait_reserve(until)/0/
	/^int ucond_wait(/,/^}/s/^	umutex_unlock(m);.*/&\n	rc = uwait_reserve(until);\n	if (rc != 0)\n		return rc;/'
broken 'C3 no new lock after the deadline' sync lib/wait/ucond.c \
	'/^int ucond_wait/,/^}/s/rc != GIVEN &&/rc > GIVEN \&\&/'
broken 'C3 the deadline is forgotten' sync_model lib/wait/ucond.c \
	's/^	return rc < 0 ? rc : 0;$/	return 0;/'
broken 'S1 a unit is given twice' sync_model lib/wait/usem.c \
	's/z == NULL ? USEM_UNIT : 0/USEM_UNIT/'
broken 'S1 a unit is lost' sync_model lib/wait/usem.c 's/z == NULL ? USEM_UNIT : 0/0/'
broken 'R1 readers pass writers' sync_model lib/wait/urw.c \
	'/^static bool rw_is_closed/,/^}/s/now & USYNC_QUEUED/0/;s/!again && (l->rw_writers != NULL/0 \&\& (l->rw_writers != NULL/'
broken 'R1 a writer after a writer' sync_model lib/wait/urw.c \
	's/rw_next(l, usync_enter(y), true)/rw_next(l, usync_enter(y), false)/'
broken 'R1 a reader after a reader' sync_model lib/wait/urw.c \
	's/rw_next(l, lock, false)/rw_next(l, lock, true)/'
broken 'R2 readers wait for nothing' sync_model lib/wait/urw.c \
	's/l->rw_writers == NULL && !(now & (URW_WRITER | URW_WOKEN))/0/'
broken 'R5 newcomers are not counted' sync_native lib/wait/urw.c \
	'/^static bool rw_is_closed/,/^}/s/left - 1/left/'
broken 'R5 WOKEN stays' sync_native lib/wait/urw.c \
	'/^static bool rw_come/,/^}/s/(now & ~(unsigned)URW_WOKEN)/now/'
broken 'R5 the lock is not taken' sync_native lib/wait/urw.c \
	'/^static bool rw_come/,/^}/s/now < URW_WRITER/0/'
broken 'G1 the count is 0 too early' sync_model lib/wait/ugroup.c \
	's/sum == 0 && now & USYNC_QUEUED/sum <= 1 \&\& now \& USYNC_QUEUED/'
broken 'B1 who gave up has come' sync_model lib/wait/ubarrier.c \
	'/^static bool barrier_give_up/,/^}/s/usync_state(y) - CAME/usync_state(y)/'
broken 'B1 who was counted is late' sync_model lib/wait/ubarrier.c \
	's/rc < 0 && barrier_give_up(y, z)/rc < 0 \&\& barrier_give_up(y, z) \&\& 0/'
broken 'O1 two run it' sync_model lib/wait/uonce.c \
	'/^static void once_next/,/^}/s/UONCE_RUNS : 0/0 : 0/'
broken 'O1 not done' sync_model lib/wait/uonce.c \
	's/rc == 0 ? UONCE_DONE : 0/0/;s/usync_set(y, UONCE_DONE)/usync_set(y, 0)/'
broken 'O1 who fails lets none run' sync lib/wait/uonce.c \
	's/^	struct usync_wait \*z = usync_take_first(&y->y_first);$/&\n	if (z != NULL \&\& uwait_kind(\&z->z_wait) == UWAIT_ONCE) usync_put_last(\&y->y_first, z), z = NULL;/'
broken 'a stranger unlocks' sync_bare lib/wait/umutex.c \
	'/^void umutex_unlock_slow/,/^}/s/usync_owner(&m->mx_owner) != usync_self()/0/'
broken 'the owner waits for itself' sync lib/wait/umutex.c \
	'/^int umutex_lock_slow/,/^}/s/usync_owner(&m->mx_owner) == usync_self()/0/'
broken 'locks stay after a fork' sync_bare lib/wait/usync.c 's/^UFORK(at_fork)$//' full

# A file that has the locks inline forbids preemption.
echo '#include "usync.h"' >"$dir/mark.c"
objects &&
compile -c "$dir/mark.c" -o "$dir/mark.o" &&
compile -c lib/proc/upreempt.c -o "$dir/upreempt.o" &&
compile -c lib/steal/ws.c -o "$dir/ws.o" && compile -c lib/proc/ucall.c -o "$dir/ucall.o" &&
compile -c test/proc/preempt_lock.c -o "$dir/preempt_lock.o" || exit 1
library="$library $dir/upreempt.o $dir/ws.o $dir/ucall.o"
run preempt_lock 20
if [ $status = 77 ]; then
	:
elif [ $status = 0 ] && library="$library $dir/mark.o" &&
		run preempt_lock 20 && [ $status = 1 ]; then
	pass
else
	fail "preemption and locks inline ($status)"
fi
counted
