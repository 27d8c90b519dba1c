#!/bin/sh
# SPDX-License-Identifier: MIT
# ports.sh: the programs of examples/ports print the same with native threads
# and with ours: under rr, ll and ws, on one processor and on two, also in the
# hard mode, where each thread that blocks is evicted. Names are renamed by
# usched/pthreads.h, or by the linker. The chat server reads, writes and accepts
# by the hooks of ext/wrap/. If a barrier, signal or cancellation is left out, they
# fail.
#
# CC is the compiler, CFLAGS are more options for it, RUN goes before each
# program (an emulator).

cd "$(dirname "$0")/../../.." || exit 1
. test/run/layout
. test/run/count
unset USCHED_SEED USCHED_DEBUG
ulimit -c 0
scheds='rr ll ws'
programs='pack radix fft lu chat names'
library="usched.c umain.c $waits $syncs uthread.c uscope.c umem.c uproc.c rr.c ll.c ws.c
	uio.c upoll.c ufile.c ucall.c"
face=$(cd ext/posix && ls *.c)

main() {
	cp -r examples/ports "$dir/ports" && names || exit 1
	try 'the header, the linker and the sources have the same names' agree
	mode native -O1
	for program in $programs; do
		try "$program, native" prints $program
	done
	mode plain -O1
	each_prints
	mode link -O1
	scheds=ws each_prints
	try 'C++, with std::thread' cxx
	try 'C++, destructors at the end of a thread' exits
	mode hard -O1 -DUSCHED_HARD
	export USCHED_DEBUG=evict=always,poison,fault
	each_prints
	planted
	counted
}

# A program that looks at no result, as most do, and has initializers.
names() {
	cat >"$dir/ports/names.c" <<-END
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
		return pthread_mutex_lock(&lock) || pthread_mutex_unlock(&lock);
	}
	END
	echo '10 turns, 1 last, 2 results' >"$dir/ports/names.expected"
}

# The names of the face, in each place.
agree() {
	sed -n 's/^#pragma redefine_extname \([^ ]*\) __wrap_\1$/\1/p' \
		ext/posix/pthreads.h | sort >"$dir/header"
	tr ',' '\n' <ext/posix/pthread.flags | sed -n 's/--wrap=//p' |
		grep -vx main | sort >"$dir/linker"
	sed -n 's/^[A-Za-z_].*FACE(\([a-z_]*\))(.*/\1/p' \
		$(ls ext/posix/*.c | grep -v pstart) | sort >"$dir/sources"
	[ -s "$dir/header" ] && diff "$dir/header" "$dir/linker" &&
		diff "$dir/header" "$dir/sources"
}

# Threads of the C++ library are ours if it is among the objects.
cxx() {
	have g++ || return 77
	cat >"$dir/threads.cc" <<-END
	#include <chrono>
	#include <condition_variable>
	#include <cstdio>
	#include <future>
	#include <mutex>
	#include <stdexcept>
	#include <string>
	#include <thread>
	#include <vector>
	extern "C" void *usched_self_is_here(void);
	static std::mutex lock;
	static std::recursive_mutex again;
	static std::condition_variable more;
	static int came, ours;
	static void come()
	{
		{
			std::lock_guard<std::recursive_mutex> a(again), b(again);
			ours += usched_self_is_here() != nullptr;
		}
		std::unique_lock<std::mutex> l(lock);
		came++;
		more.notify_all();
		more.wait(l, [] { return came == 100; });
	}
	static void rest()
	{
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	}
	template <class F> static void ten(F f)
	{
		std::vector<std::thread> all;
		for (int i = 0; i < 10; i++)
			all.emplace_back(f, i);
		for (auto &t : all)
			t.join();
	}
	static int made, sum, kept;
	static std::once_flag once;
	static void make_one(int)	// it waits, as all that come meanwhile
	{
		std::call_once(once, [] { rest(); made++; });
		std::lock_guard<std::mutex> l(lock);
		int was = sum;
		rest();			// with the lock
		sum = was + made;
	}
	static void fail(int nr)	// waits in its handlers
	{
		auto text = std::to_string(nr);
		try {
			rest();
			throw std::runtime_error(text);
		} catch (const std::exception &) {
			rest();
			try {
				throw;
			} catch (const std::exception &e) {
				rest();
				std::lock_guard<std::mutex> l(lock);
				kept += text == e.what() &&
					std::uncaught_exceptions() == 0;
			}
		}
	}
	static const char *promised()
	{
		std::promise<int> p;
		auto f = p.get_future();
		bool late = f.wait_for(std::chrono::milliseconds(1)) ==
			std::future_status::timeout;
		std::thread t([&] {
			try {
				rest();
				throw std::runtime_error("p");
			} catch (...) {
				p.set_exception(std::current_exception());
			}
		});
		t.join();
		try {
			return f.get() == 0 ? "no" : "none";
		} catch (const std::runtime_error &e) {
			return late && e.what() == std::string("p") ?
				"thrown" : "?";
		}
	}
	int main()
	{
		ten(make_one);
		ten(fail);
		std::printf("%d %d %d %s ", made, sum, kept, promised());
		std::vector<std::thread> all;
		for (int i = 0; i < 100; i++)
			all.emplace_back(come);
		for (auto &t : all)
			t.join();
		auto f = std::async(std::launch::async, [] {
			std::this_thread::sleep_for(std::chrono::milliseconds(1));
			return 7;
		});
		std::printf("%d %d %d\\n", came, ours, f.get());
	}
	END
	cat >"$dir/here.c" <<-END
	#include "usched.h"
	void *usched_self_is_here(void) { return ustack_self(); }
	END
	compile $includes -c "$dir/here.c" -o "$dir/here.o" &&
		g++ -O1 -c "$dir/threads.cc" -o "$dir/threads.o" &&
		g++ -nostdlib -r @ext/posix/pthread.flags "$dir/threads.o" \
			-l:libstdc++.a -o "$dir/all.o" &&
		g++ -O1 $includes -c ext/cxx/ucxx.cc -o "$dir/ucxx.o" &&
		g++ "$dir/all.o" "$dir/here.o" "$dir/ucxx.o" \
			"$dir"/plain/library/*.o -Wl,--wrap=main,--wrap=ustack_block \
			-Wl,--wrap=ustack_abort,--wrap=usched_run \
			-nodefaultlibs -lm -lgcc_eh -lgcc -lc \
			-pthread -o "$dir/threads" || return 1
	for USCHED in rr ws:2; do
		export USCHED
		[ "$(timeout 60 "$dir/threads")" = '1 10 10 thrown 100 100 7' ] ||
			return 1
	done
}

# A destructor uses the stack below it, where pthread_exit() was called.
exits() {
	have g++ || return 77
	cat >"$dir/exits.cc" <<-END
	#include <pthread.h>
	#include <cstdio>
	struct deep {
		~deep() { char text[4096]; std::sprintf(text, "d "); std::fputs(text, stdout); }
	};
	static void *leaves(void *arg)
	{
		deep a, b;
		pthread_exit(arg);
	}
	static void *is_canceled(void *arg)
	{
		deep a;
		pthread_cancel(pthread_self());
		pthread_testcancel();
		return arg;
	}
	int main()
	{
		pthread_t t;
		void *left, *canceled;
		pthread_create(&t, nullptr, leaves, &t);
		pthread_join(t, &left);
		pthread_create(&t, nullptr, is_canceled, nullptr);
		pthread_join(t, &canceled);
		std::printf("%d %d\n", left == &t, canceled == PTHREAD_CANCELED);
	}
	END
	g++ -O1 $includes -include usched/pthreads.h -c "$dir/exits.cc" \
		-o "$dir/exits.o" &&
		g++ "$dir/exits.o" "$dir"/plain/library/*.o -Wl,--wrap=main -pthread \
			-o "$dir/exits" || return 1
	for USCHED in rr ws:2; do
		export USCHED
		[ "$(timeout 60 "$dir/exits")" = 'd d d 1 1' ] || return 1
	done
}

# All that follows is built so.
mode() { # name, flags ...
	mode=$1; shift
	flags=$*
	built=$dir/$mode
	mkdir "$built"
	try "$mode: builds" build
}

compile() { # unquoted: several words
	${CC:-cc} -std=gnu11 -Wall -Wextra -Werror $flags ${CFLAGS:-} "$@"
}

build() {
	case $mode in plain|hard) build_library || return 1 ;; esac
	for program in $programs; do
		link_program $program "$dir/ports" || return 1
	done
}

build_library() {
	[ $mode != hard ] || library="$library uhard.c"
	mkdir "$built/library" || return 1
	for source in $(where $library $face); do
		compile $includes -c "$source" \
			-o "$built/library/${source##*/}.o" ||
			touch "$built/failed" &
	done
	wait
	[ ! -e "$built/failed" ] &&
		compile $includes -c ext/wrap/uwrap.c -o "$built/uwrap.o"
}

# Compiles a program, and links it.
link_program() { # name, folder
	rm -rf "$built/program" && mkdir "$built/program" || return 1
	to=$built/$1 sources=$2/$1.c before= linked= hooks=
	[ $1 != pack ] || sources="$sources $2/pool.c"
	case $mode in
	native)	;;
	link)	linked=$dir/plain/library ;;
	*)	linked=$built/library before='-include usched/pthreads.h' ;;
	esac
	for source in $sources; do
		compile $includes $before -c "$source" \
			-o "$built/program/${source##*/}.o" || return 1
	done
	if [ $mode = link ]; then
		compile -nostdlib -r @ext/posix/pthread.flags "$built"/program/*.o \
			-o "$built/program.o" || return 1
		rm "$built"/program/*.o
		mv "$built/program.o" "$built/program"
	fi
	[ -z "$linked" ] || [ $1 != chat ] || hooks=$linked/../uwrap.o
	compile "$built"/program/*.o ${linked:+$hooks "$linked"/*.o \
		-Wl,--wrap=main} -o "$to" -pthread -lm -ldl
}

run() { # program in the folder of the mode
	timeout ${patience:-60} ${RUN:-} "$built/$1"
}

prints() { # program
	run "$1" >"$dir/got" && diff "$dir/ports/$1.expected" "$dir/got"
}

each_prints() {
	for program in $programs; do
		for sched in $scheds; do
			for nr in 1 2; do
				export USCHED=$sched:$nr
				try "$program, $mode $USCHED" prints $program
			done
		done
	done
}

# Bugs, each of which shows on one processor of rr.
planted() {
	export USCHED=rr:1
	for program in radix fft lu; do
		n=0
		while [ $((n += 1)) -le "$(grep -c 'meet();' \
				"$dir/ports/$program.c")" ]; do
			try "$program, without meet() $n" fails $program \
				$program.c '' \
				awk -v n=$n '!/meet\(\);/ || ++i != n'
		done
	done
	patience=5		# as natively, it waits for ever
	for what in more space done; do
		try "pack, no thread is told of $what" fails pack pool.c hangs \
			sed "s/pthread_cond_[a-z]*(&p->p_$what)/0/"
	done
	try 'chat, not cancelled' fails chat chat.c hangs \
		sed 's/pthread_cancel(door)/0/'
	patience=
	try 'pack, jobs on a private stack' on_stack
	export USCHED_STACKS=shared
	try 'pack, jobs on a shared stack' fails pack pack.c 'which is blocked' \
		sed 's/static struct job job/struct job job/'
}

# A thread's locals may be given to others.
on_stack() {
	rm -rf "$dir/broken" && cp -r "$dir/ports" "$dir/broken" || return 1
	sed 's/static struct job job/struct job job/' "$dir/ports/pack.c" \
		>"$dir/broken/pack.c"
	! cmp -s "$dir/ports/pack.c" "$dir/broken/pack.c" &&
		link_program pack "$dir/broken" && prints pack
}

# Builds a program with a file that went through a filter: it must fail.
fails() { # program, file, what it says, filter ...
	program=$1 file=$2 says=$3; shift 3
	rm -rf "$dir/broken" && cp -r "$dir/ports" "$dir/broken" || return 1
	"$@" <"$dir/ports/$file" >"$dir/broken/$file"
	! cmp "$dir/ports/$file" "$dir/broken/$file" &&
		link_program $program "$dir/broken" || return 1
	run $program >"$dir/got" 2>&1
	status=$?
	cat "$dir/got"
	echo "status $status"
	case $says,$status in
	hangs,124)	;;
	*,0|*,124)	return 1 ;;
	*)		[ -z "$says" ] || grep -q "$says" "$dir/got" ;;
	esac
}

main
