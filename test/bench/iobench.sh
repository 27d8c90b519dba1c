#!/bin/sh
# SPDX-License-Identifier: MIT
# iobench.sh: each server of bench/io echoes right, on TCP and unix sockets,
# with one and two processors, beside threads that compute; and refuses what is
# no question. The client finds a wrong byte, an early end, and a message that
# is missing. A server that is not built is skipped by name.

cd "$(dirname "$0")/../../bench/io" || exit 1
. ../../test/bench/served

# Waits for a server to say where it is: sets where and pid.
await() {
	where='' pid=''
	ready _ where pid
}

start() { # program, mode, address, P, K
	rm -f "$dir/sock" "$dir/ready"
	: >"$dir/ready"
	timeout 20 "$@" >"$dir/ready" 2>"$dir/err" &
	await
}

# The exit is 0, and the line has what it must.
ask() { # program, pattern, what, the rest
	program=$1 pattern=$2
	shift 2
	client "$@" && grep -qE "^$1 connections $2 $pattern\$" "$dir/out" &&
		[ "$(wc -l <"$dir/out")" = 1 ]
	must $? "$program: $* at $where"
}

number='[0-9]+\.[0-9]+'
served="seconds $number cpu_us $number"
late="$served p50_us $number p99_us $number max_us $number late_99_us $number"
few='seconds [0-9.]+ bytes -?[0-9.]+( kernel_bytes -?[0-9]+)?'

serves() { # program
	for at in tcp "unix:$dir/sock"; do for p in 1 2; do
		start "$1" echo "$at" $p 0
		must $? "$1 echo $at $p 0"
		ask "$1" "messages 1001 errors 0 $served" closed 30 1001
		ask "$1" "messages 500 errors 0 $late" open 7 500 10000
		[ $p = 2 ] ||
			ask "$1" "messages 0 errors 0 $few" idle 300 0
		stop
		start "$1" once "$at" $p 0
		must $? "$1 once $at $p 0"
		ask "$1" "messages 301 errors 0 $served" once 10 301
		stop
		start "$1" echo "$at" $p 2
		must $? "$1 echo $at $p 2"
		ask "$1" "messages 500 errors 0 $late" open-sleep 7 500 10000
		stop
	done; done
}

# Finds errors: the exit is 1, and the line tells how many.
finds() { # title, what, the rest
	title=$1
	shift
	client "$@"
	[ $? = 1 ] && grep -qE "^$1 .* errors [1-9]" "$dir/out"
	must $? "the client: $title"
}

# A server that echoes, but inverts a byte; or which never answers byte 350.
wrong() { # "flip" or "lose"
	: >"$dir/ready"
	timeout 20 python3 -c '
import os, socket, sys
s = socket.create_server(("127.0.0.1", 0))
print("ready 127.0.0.1:%d %d" % (s.getsockname()[1], os.getpid()), flush=True)
c, _ = s.accept()
at = 0
while True:
    got = bytearray(c.recv(100))
    if at <= 350 < at + len(got):
        if sys.argv[1] == "lose":
            break
        got[350 - at] ^= 255
    at += len(got)
    c.sendall(got)
' "$1" >"$dir/ready" 2>"$dir/err" &
	await
}

checks() {
	start floor/server once tcp 1 0
	finds 'an early end' closed 3 100
	finds 'an early end, open' open 3 100 10000
	stop
	for how in flip lose; do
		command -v python3 >/dev/null || continue
		wrong $how
		finds "$how" closed 1 100
		stop
	done
	start floor/server echo tcp 1 0
	client closed 30000000 1
	[ $? = 2 ]
	must $? 'the client: too many connections'
	(ulimit -n 100 && client closed 100 1)
	[ $? = 77 ]
	must $? 'the client: too few descriptors'
	stop
	refuses client/client '' x "closed tcp $$ 1" "closed x $$ 1 1" \
		"open tcp $$ 1 1" "idle tcp $$ 1 1"
}

for folder in client floor ours; do
	make -s -C $folder >"$dir/out" 2>"$dir/err"
	must $? "make -C $folder"
done
checks
for server in floor/server ours/server-rr ours/server-ll ours/server-ws \
	      go/server tokio/server; do
	if [ -x $server ]; then
		serves $server
		refuses $server '' x 'echo tcp 1' 'echo tcp 0 0' 'echo tcp 1 -1' \
			'echo tcp 1 x' 'echo udp 1 0' 'twice tcp 1 0' \
			'echo tcp 1 0 0'
	else
		echo "skip bench/io/$server: not built (bench/run.py io)"
	fi
done
counted
