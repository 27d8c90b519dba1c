#!/bin/sh
# SPDX-License-Identifier: MIT
# ports.sh: the programs of examples/ports print the same with native threads
# and with ours: under rr, ll and ws, on one processor and on two, also in the
# hard mode, where each thread that blocks is evicted. If a barrier or a signal
# is left out, they fail. The hard mode finds jobs on the stack of a thread that
# waits.
#
# CC is the compiler, CFLAGS are more options for it, RUN goes before each
# program (an emulator).

cd "$(dirname "$0")/.." || exit 1
. test/layout
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
unset USCHED_SEED USCHED_DEBUG
ulimit -c 0
passed=0 failed=0 scheds='RR LL WS'
programs='pack radix fft lu names'
library='usched.c uwait.c usync.c uthread.c umem.c uproc.c rr.c ll.c ws.c'

main() {
	cp -r examples/ports "$tmp/ports" && names || exit 1
	mode native -O1
	for program in $programs; do
		try "$program, native" prints $program
	done
	mode plain -O1
	each_prints
	mode hard -O1 -DUSCHED_HARD
	export USCHED_DEBUG=evict=always,poison,fault
	each_prints
	planted
	echo "$passed passed, $failed failed"
	[ $failed = 0 ] && [ $passed != 0 ]
}

# A program that looks at no result, as most do, and has initializers.
names() {
	cat >"$tmp/ports/names.c" <<-END
	#include <pthread.h>
	#include <stdio.h>

	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
	static pthread_barrier_t barrier;
	static int turns, last;

	static void *take_turns(void *me)
	{
		pthread_mutex_lock(&lock);
		while (turns < 10) {
			if (turns % 2 == (me == &turns)) {
				turns++;
				pthread_cond_signal(&turn);
			} else
				pthread_cond_wait(&turn, &lock);
		}
		pthread_mutex_unlock(&lock);
		if (pthread_barrier_wait(&barrier) ==
		    PTHREAD_BARRIER_SERIAL_THREAD)
			last++;
		return me;
	}

	int main(void)
	{
		pthread_t a, b;
		void *got[2];

		pthread_barrier_init(&barrier, NULL, 2);
		pthread_create(&a, NULL, take_turns, &last);
		pthread_create(&b, NULL, take_turns, &turns);
		pthread_join(a, &got[0]);
		pthread_join(b, &got[1]);
		printf("%d turns, %d last, %d results\n", turns, last,
		       (got[0] == &last) + (got[1] == &turns));
		pthread_barrier_destroy(&barrier);
		pthread_cond_broadcast(&turn);
		pthread_cond_destroy(&turn);
		pthread_cond_init(&turn, NULL);
		pthread_mutex_destroy(&lock);
		pthread_mutex_init(&lock, NULL);
		return pthread_mutex_lock(&lock);
	}
	END
	echo '10 turns, 1 last, 2 results' >"$tmp/ports/names.expected"
}

try() { # what, command ...
	what=$1; shift
	if "$@" >"$tmp/log" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL  $what"; cat "$tmp/log"
	fi
}

# All that follows is built so.
mode() { # name, flags ...
	mode=$1; shift
	flags=$*
	dir=$tmp/$mode
	mkdir "$dir"
	try "$mode: builds" build
}

compile() { # unquoted: several words
	${CC:-cc} -std=gnu11 -Wall -Wextra -Werror $flags ${CFLAGS:-} "$@"
}

build() {
	[ $mode = native ] || build_library || return 1
	for program in $programs; do
		link_program $program "$tmp/ports" || return 1
	done
}

build_library() {
	[ $mode != hard ] || library="$library uhard.c"
	mkdir "$dir/library" || return 1
	for source in $(where $library); do
		compile $includes -c "$source" \
			-o "$dir/library/${source##*/}.o" ||
			touch "$dir/failed" &
	done
	for sched in $scheds; do
		compile $includes -D$sched -c "$tmp/ports/start.c" \
			-o "$dir/$sched.o" || return 1
	done
	wait
	[ ! -e "$dir/failed" ]
}

# Compiles a program, and links it with each scheduler.
link_program() { # name, folder
	rm -rf "$dir/program" && mkdir "$dir/program" || return 1
	case $mode in
	native)	set -- $1 "$2" ;;
	*)	set -- $1 "$2" $includes "-I$2" -include pthreads.h ;;
	esac
	to=$dir/$1 sources=$2/$1.c
	[ $1 != pack ] || sources="$sources $2/pool.c"
	shift 2
	for source in $sources; do
		compile "$@" -c "$source" \
			-o "$dir/program/${source##*/}.o" || return 1
	done
	[ $mode != native ] || { compile "$dir"/program/*.o -o "$to" \
		-pthread -lm; return; }
	for sched in $scheds; do
		compile "$dir"/program/*.o "$dir/$sched.o" "$dir"/library/*.o \
			-o "$to-$sched" -pthread -lm || return 1
	done
}

run() { # program in the folder of the mode
	timeout 60 ${RUN:-} "$dir/$1"
}

prints() { # program, suffix
	run "$1${2:-}" >"$tmp/got" && diff "$tmp/ports/$1.expected" "$tmp/got"
}

each_prints() {
	for program in $programs; do
		for sched in $scheds; do
			for PROCS in 1 2; do
				export PROCS
				try "$program, $mode $sched $PROCS" \
					prints $program -$sched
			done
		done
	done
}

# Bugs, each of which shows on one processor of rr.
planted() {
	export PROCS=1
	scheds=RR
	for program in radix fft lu; do
		n=0
		while [ $((n += 1)) -le "$(grep -c 'meet();' \
				"$tmp/ports/$program.c")" ]; do
			try "$program, without meet() $n" fails $program \
				$program.c '' \
				awk -v n=$n '!/meet\(\);/ || ++i != n'
		done
	done
	for what in more space done; do
		try "pack, no thread is told of $what" fails pack pool.c '' \
			sed "s/pthread_cond_[a-z]*(&p->p_$what)/0/"
	done
	try 'a wait without memory' fails names names.c 'a wait has failed' \
		sed 's/pthread_mutex_lock(&lock);$/port(-ENOMEM);/'
	try 'pack, jobs on a stack' fails pack pack.c 'which is blocked' \
		sed 's/static struct job job/struct job job/'
}

# Builds a program with a file that went through a filter: it must fail.
fails() { # program, file, what it says, filter ...
	program=$1 file=$2 says=$3; shift 3
	rm -rf "$tmp/broken" && cp -r "$tmp/ports" "$tmp/broken" || return 1
	"$@" <"$tmp/ports/$file" >"$tmp/broken/$file"
	! cmp "$tmp/ports/$file" "$tmp/broken/$file" &&
		link_program $program "$tmp/broken" || return 1
	run $program-RR >"$tmp/got" 2>&1
	status=$?
	cat "$tmp/got"
	echo "status $status"
	[ $status != 0 ] && [ $status != 124 ] &&
		{ [ -z "$says" ] || grep -q "$says" "$tmp/got"; }
}

main
