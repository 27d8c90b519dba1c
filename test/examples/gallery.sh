#!/bin/sh
# SPDX-License-Identifier: MIT
# gallery.sh: the servers of examples/gallery answer good requests rightly, however
# these are cut, and bad ones by what is wrong; hostile clients take a bounded part
# of memory, for a bounded time, and no other client waits for them. A million jobs
# sleep in less than 500 bytes each. So it is in the hard mode, with fewer. On a
# simulated network with crashes, cuts and resets no value outlives its end, and no
# job comes early. Planted bugs are found. Each server has at most 1100 lines.
#
# CC is the compiler, CFLAGS are more options for it.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
unset USCHED_SEED USCHED_DEBUG
ulimit -c 0
ulimit -n 20000 2>/dev/null

sources="usched.c $waits $syncs uscope.c uthread.c uio.c upoll.c unet.c
	ufile.c userve.c usignal.c umem.c uproc.c ucall.c rr.c $chans uwork.c usymbol.c umain.c
	ll.c ws.c"
gallery=examples/gallery

compile() { # unquoted: several words
	${CC:-cc} -std=gnu11 -g -Wall -Wextra -Werror ${CFLAGS:-} $includes \
		-I$gallery "$@" -pthread
}

library() { # name, flags ...
	name=$1; shift
	more=
	case $* in *HARD*) more=uhard.c;; esac
	mkdir "$dir/$name" || return
	for source in $(where $sources $more) $simulates; do
		compile "$@" -c "$source" -o "$dir/$name/$(basename "$source" .c).o" ||
			return 1
	done
	ar rcs "$dir/$name/lib.a" "$dir/$name"/*.o
}

parts() { # server
	case $1 in
	cache)	echo cache.c resp.c store.c;;
	jobs)	echo jobs.c;;
	esac
}

server() { # folder with sources, library, server, program, flags ...
	(from=$1 with=$2 name=$3 to=$4
	shift 4
	cd "$from" && top=$OLDPWD && . "$top/test/run/layout" &&
	compile -I. "$@" -DPROGRAM=$name main.c conn.c $(parts $name) \
		"$dir/$with/lib.a" -o "$dir/$to")
}

hosts() { # folder with sources, program
	for file in hosts conn cache resp store jobs; do
		compile -I"$1" -O1 -c "$1/$file.c" -o "$dir/$2.$file.o" ||
			return 1
	done
	${CC:-cc} -nostdlib -r @ext/sim/sim.flags "$dir/$2".*.o -o "$dir/$2.all.o" &&
	${CC:-cc} ${CFLAGS:-} "$dir/$2.all.o" "$dir/plain/lib.a" -pthread -o "$dir/$2"
}

# Asks a server. It mostly waits, so this runs beside others.
check() { # program, server, few
	timeout 300 python3 test/examples/gallery/check.py $2 "$dir/$1" $3 >"$dir/$1.log" 2>&1
	echo $? >"$dir/$1.status"
}

checked() { # program
	cat "$dir/$1.log"
	return "$(cat "$dir/$1.status")"
}

found() { # program
	! checked "$1" && grep -qE '^FAIL|Error' "$dir/$1.log"
}

# The sources with a bug: a sed script for a file.
planted() { # name, file, script
	mkdir "$dir/$1.src" && cp $gallery/*.[ch] "$dir/$1.src" &&
		sed "$3" "$gallery/$2" >"$dir/$1.src/$2" || return 1
	! cmp -s "$gallery/$2" "$dir/$1.src/$2" || ! echo 'changes nothing'
}

# What is freed is overwritten, so that a use of it is seen.
plant() { # name, server, file, script
	planted "$1" "$3" "$4" &&
		server "$dir/$1.src" plain $2 "$1" -O1 -Wno-unused || return 1
	GLIBC_TUNABLES=glibc.malloc.tcache_count=0 MALLOC_PERTURB_=165 \
		check "$1" $2 few &
}

simulated() {
	"$dir/hosts" --seeds 300
}

plant_hosts() { # name, file, script
	planted "$1" "$2" "$3" && hosts "$dir/$1.src" "$1" || return 1
	"$dir/$1" --seeds 300 >"$dir/$1.said" 2>&1
	[ $? = 1 ] && grep -q "$4" "$dir/$1.said" || ! tail -n 20 "$dir/$1.said"
}

lines() {
	for name in cache jobs; do
		nr=$(cd $gallery && cat main.c conn.[ch] $(parts $name) | wc -l)
		[ $nr -le 1100 ] || echo "$name: $nr lines"
	done
}

[ "$(uname -s)" = Linux ] || { echo 'skipped: not Linux'; exit 77; }
have python3 || { echo 'skipped: no python3'; exit 77; }
empty 'lines' "$(lines)"
simulates=$(echo ext/sim/*.c)
library plain -O2 >"$dir/log" 2>&1 &
plain=$!
simulates=
library hard -O1 -DUSCHED_HARD >"$dir/hard.said" 2>&1
judge $? 'the library, hard' "$dir/hard.said"
wait $plain
judge $? 'the library' "$dir/log"
for name in cache jobs; do
	try "$name" server $gallery plain $name $name -O2
	check $name $name &
	try "$name, hard" server $gallery hard $name $name.hard -O1 -DUSCHED_HARD
	USCHED_DEBUG=evict=always,poison,fault check $name.hard $name few &
done
try 'plant' plant refs cache cache.c '/v->v_refs++;/d; /value_put(v);/d'
try 'plant' plant split cache store.c 's/place(i->i_hash) == nr - 1/0/'
try 'plant' plant sweep cache store.c 's/if (has_ended(\*at))/if (0)/'
try 'plant' plant long cache resp.c 's/ || \*number > most//'
try 'plant' plant slow cache conn.c 's/c->c_until = uafter(CONN_TIME)/c->c_until = 0/'
try 'plant' plant waits jobs conn.c 's/utime_ns until = uafter(CONN_TIME)/utime_ns until = UNEVER/'
try 'plant' plant back jobs jobs.c 's/^	push(c->c_held);//'
try 'plant' plant room jobs jobs.c 's/^	used -= bytes_of.*//'
try 'plant' plant gone jobs conn.c 's/while (rc == 0 && !has_ended(c->c_fd))/while (rc == 0)/'
try 'plant' plant behind jobs conn.c 's/.events = POLLRDHUP/.events = POLLIN/'
try 'plant' plant past cache cache.c 's/length < LLONG_MIN.*/false)/'
try 'hosts' hosts $gallery hosts
try 'simulated' simulated
try 'simulated, planted: values have no end' plant_hosts ends store.c \
	's/return i->i_end != UNEVER .*/return i->i_end < 0;/' 'lives too long'
try 'simulated, planted: a job comes early' plant_hosts early jobs.c \
	's/u_sleep(j->j_due)/u_sleep(j->j_due - UTIME_S)/' 'comes early'
wait
for run in cache cache.hard jobs jobs.hard; do
	try "$run" checked $run
done
for bug in refs split sweep long slow waits back room gone behind past; do
	try "planted: $bug" found $bug
done
counted
