#!/bin/sh
# SPDX-License-Identifier: MIT
# attack.sh: a web server, examples/httpd, answers a good client while others
# attack it (attack/attack.c), and while thousands of slow connections are held
# (bench/http/client/slow.c). Afterwards it has as many descriptors and native
# threads as before, and a second round takes no more memory. It stops with
# status 0.
#
#	test/examples/attack.sh			some seconds
#	test/examples/attack.sh --full		10,000 slow connections, a million requests
#
# On two processors; in the hard mode with few requests. The quotient of the
# latencies of the good client beside slow connections and alone
# is printed, and is no claim here: see bench/http.
#
# CC is the compiler, CFLAGS are more options for it.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
pid='' slow=''
patience=40				# seconds, until a server must be as before
stop() {
	for p in $slow $pid; do
		kill -9 "$p" 2>/dev/null
	done
	slow='' pid=
}
full=$1
if [ "$full" = --full ]; then
	held=10000 load=250000 rounds=5 many=2000
else
	held=2000 load=12000 rounds=1 many=300
fi
ulimit -n "$(ulimit -Hn)" 2>/dev/null
# The server has held / 8 + 200 places more, and two descriptors for each.
most=$((($(ulimit -n) / 2 - 300) * 8 / 9))
[ $held -le $most ] || held=$most

# 0 or not, what
must() {
	judge $(($1 != 0)) "$2" "$dir/out" "$dir/err" "$dir/said"
}

build() { # program, options: with a library made like that
	make -s -j2 "B=build/attack-$1" DEFS="$2" \
		"build/attack-$1/libusched.a" >"$dir/out" 2>"$dir/err" &&
	${CC:-cc} -std=gnu11 -O2 -g $CFLAGS $2 $includes -Iexamples/httpd \
		examples/httpd/*.c "build/attack-$1/libusched.a" -o "$dir/$1" \
		-pthread >"$dir/out" 2>"$dir/err"
	must $? "cannot build $1"
}

start() { # program, options: sets pid and where
	rm -f "$dir/ready"
	: >"$dir/ready"
	program=$1
	shift
	"$program" -p 0 -r "$dir/root" "$@" >"$dir/ready" 2>"$dir/said" &
	pid=$!
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		read -r _ _ where <"$dir/ready" && return
		sleep 0.1
	done
	must 1 "$program $*: does not start"
}

# Stops a server: with status 0.
end() { # name
	kill -TERM $pid
	wait $pid
	must $? "$1: its status"
	[ ! -s "$dir/said" ]
	must $? "$1: it says something"
	pid=
}

attack() { # name, number
	timeout 300 test/examples/attack/attack "$1" "$where" "$2" \
		>"$dir/out" 2>"$dir/err"
}

does() { # server, attacks
	server=$1
	shift
	for what; do
		attack ${what%:*} ${what#*:}
		must $? "$server: $what"
	done
}

connections() {
	attack get /metrics &&
		sed -n 's/^httpd_connections //p' "$dir/out"
}

descriptors() {
	echo /proc/$pid/fd/* | wc -w
}

threads() {
	sed -n 's/^Threads:[^0-9]*//p' /proc/$pid/status
}

rss() {
	sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' /proc/$pid/status
}

# The connection that asks is the only connection.
alone() {
	[ "$(connections)" = 1 ] && [ "$(descriptors)" = "${fds:-$(descriptors)}" ]
}

# Waits for a condition. Fails if it does not come.
await() {
	left=$((patience * 10))
	until "$@"; do
		left=$((left - 1))
		[ $left != 0 ] || return 1
		sleep 0.1
	done
}

# Notes how the server is at first.
look() { # server
	fds=
	does "$1" load:100
	await alone
	must $? "$1: $(connections) connections at first"
	fds=$(descriptors) natives=$(threads)
}

# Waits until the server is as at first.
rests() { # server
	await alone && [ "$(threads)" = "$natives" ]
	must $? "$1: $(connections) connections, $(descriptors) descriptors, not
$fds, $(threads) native threads, not $natives"
}

# Holds slow connections, and meanwhile asks.
hold() { # server
	p99_alone=$(p99)
	: >"$dir/held"
	bench/http/client/slow "$where" $held 10000 >"$dir/held" \
		2>"$dir/err" &
	slow=$!
	await grep -q holding "$dir/held"
	must $? "$1: not all $held slow connections were opened"
	does "$1" good:20000
	[ "$(connections)" -gt $((held / 2)) ]
	must $? "$1: $(connections) connections, not $held"
	echo "$1: p99 beside $held slow connections / alone: $(p99) us / \
$p99_alone us"
	kill -TERM $slow
	wait $slow
	must $? "slow"
	slow=
}

p99() {
	bench/http/client/client open-sleep "$where" $pid 64 4000 /plaintext \
		13 4000 | sed -n 's/.* p99_us \([0-9.]*\) .*/\1/p'
}

all="resets:$rounds cuts:$rounds half:$rounds long:$rounds garbage:$many
	readers:20 unread:2 load:$load"

# Attacks twice, then compares.
campaign() { # server, options
	server=$1 program=$2
	shift 2
	start "$dir/$program" -n 2 -c $((held + held / 8 + 200)) "$@"
	look "$server"
	for round in 1 2; do
		does "$server" $all
		hold "$server"
		rests "$server"
		[ $round = 2 ] || before=$(rss)
	done
	[ "$(rss)" -le $((before + before / 4 + 2000)) ]
	must $? "$server: $(rss) KiB after the second round, $before before"
	end "$server"
}

# Less of all, beyond the limit of connections. Each processor has a listener, and
# both share the places. So clients of one may take all places, and stay, while
# flood waits for an answer of the other: until they have been idle for -k s.
few() { # server, options
	server=$1 program=$2
	shift 2
	start "$dir/$program" -n 2 -c 100 -k 5 "$@"
	look "$server"
	does "$server" resets:1 cuts:1 half:1 long:1 garbage:100 flood:400 \
		readers:5 unread:1 load:2000
	rests "$server"
	end "$server"
}

# What is wrong is found.
finds() {
	cp -r "$dir/root" "$dir/wrong"
	printf x | dd of="$dir/wrong/n5" bs=1 seek=77 conv=notrunc 2>/dev/null
	start bench/http/floor/server
	attack load 1000
	must $? 'floor: load'
	! attack long 1
	must $? 'floor: a wrong status was not found'
	stop
	start bench/http/floor/server -r "$dir/wrong"
	! attack load 1000
	must $? 'floor: a wrong byte was not found'
	stop
}

for folder in bench/http/client bench/http/floor test/examples/attack; do
	make -s -C $folder >"$dir/out" 2>"$dir/err"
	must $? "make -C $folder"
done
: >"$dir/said"
mkdir "$dir/root" && test/examples/attack/attack files "$dir/root" &&
	cp "$dir/root/n4" "$dir/root/4k" || exit 1
finds
build httpd ''
build hard '-DUSCHED_HARD'
campaign httpd httpd
few 'few connections' httpd
export USCHED_DEBUG=evict=always,poison,fault
few 'hard mode' hard
counted
