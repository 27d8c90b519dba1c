#!/bin/sh
# SPDX-License-Identifier: MIT
# httpbench.sh: each server of bench/http answers right, a request at a time and
# pipelined, from memory and from files, with one and two processors; run.py
# measures those that are there, nginx too. The client finds a wrong byte, a
# wrong status, an early end, and an answer that is missing. A server that is
# not built is skipped by name.

cd "$(dirname "$0")/../../bench/http" || exit 1
. ../../test/bench/served

start() { # program, the rest: sets where and pid
	rm -f "$dir/ready"
	: >"$dir/ready"
	"$@" >"$dir/ready" 2>"$dir/err" &
	pid=$!
	ready _ _ where || must 1 "$*: does not start"
}

# The exit is 0, and the line has what it must.
ask() { # title, pattern, what, the rest
	title=$1 pattern=$2
	shift 2
	client "$@" && grep -qE "^$1 connections $2 $pattern\$" "$dir/out"
	must $? "$title: $*"
}

number='[0-9]+\.[0-9]+'
served="seconds $number cpu_us $number"
late="$served p50_us $number p99_us $number p999_us $number max_us $number \
late_99_us $number"

serves() { # program
	for p in 1 2; do
		start "$1" -p 0 -r "$dir/root" -n $p -c 200
		ask "$1 $p" "messages 1001 errors 0 $served" \
			closed 30 1001 /plaintext 13 1
		ask "$1 $p" "messages 2000 errors 0 $served" \
			closed 30 1985 /plaintext 13 16
		ask "$1 $p" "messages 512 errors 0 $served" \
			closed 16 500 /4k 4096 16
		ask "$1 $p" "messages 30 errors 0 $served" \
			closed 10 30 /1m 1048576 1
		ask "$1 $p" "messages 500 errors 0 $late" \
			open 7 500 /plaintext 13 10000
		ask "$1 $p" "messages 500 errors 0 $late" \
			open-sleep 7 500 /4k 4096 10000
		client closed 3 10 /4k 4095 1
		[ $? = 1 ]
		must $? "$1: a wrong length was not found"
		client closed 3 10 /none 13 1
		[ $? = 1 ]
		must $? "$1: a wrong status was not found"
		stop
	done
}

# Answers 20 requests; something is wrong with answer 10.
wrong() { # "flip", "lose", "end" or "more"
	: >"$dir/ready"
	python3 -c '
import os, socket, sys
s = socket.create_server(("127.0.0.1", 0))
print("listening on 127.0.0.1:%d" % s.getsockname()[1], flush=True)
c, _ = s.accept()
for i in range(20):
    got = c.recv(1000)
    body = b"Hello, World!"
    if i == 10 and sys.argv[1] == "flip":
        body = b"Hello, world!"
    if i == 10 and sys.argv[1] == "lose":
        continue
    if i == 10 and sys.argv[1] == "end":
        break
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n" + body
    c.sendall(answer * (2 if i == 10 and sys.argv[1] == "more" else 1))
' "$1" >"$dir/ready" 2>"$dir/err" &
	pid=$!
	ready _ _ where
}

checks() {
	for how in flip end more; do
		command -v python3 >/dev/null || continue
		wrong $how
		client closed 1 19 /plaintext 13 1
		[ $? = 1 ] && grep -qE ' errors [1-9]' "$dir/out"
		must $? "the client: $how"
		stop
	done
	start floor/server -p 0 -r "$dir/root" -n 1 -c 200
	(ulimit -n 100 && client closed 100 1 /plaintext 13 1)
	[ $? = 77 ]
	must $? 'the client: too few descriptors'
	(ulimit -n 100 && client/slow "$where" 100 100 2>"$dir/err")
	[ $? = 77 ]
	must $? 'slow: too few descriptors'
	refuses client/client '' x "closed $where x 1 1 / 1 1" \
		"closed $where 1,,2 1 1 / 1 1" "closed x 1 1 1 / 1 1" \
		"closed $where 1 1 1 x 1 1" "closed $where 1 1 1 / 1 65" \
		"open $where 1 1 1 / 0 1"
	stop
}

# All servers that there are answer questions of run.py.
measures() {
	command -v python3 >/dev/null || { echo 'skip run.py: no python3'; return; }
	timeout 60 python3 ../run.py http --built --quick --only plain-1: \
		--to "$dir/to" \
		>"$dir/out" 2>"$dir/err"
	must $? run.py
	for column in floor ours nginx go; do
		if grep -q "^run.py: $column: .*missing" "$dir/err"; then
			echo "skip $(grep "^run.py: $column:" "$dir/err")"
			continue
		fi
		[ "$(grep -cE "plain-1:64.(cpu_us|per_s) [12] $column [0-9]" \
			"$dir/to/http.txt")" = 4 ]
		must $? "run.py: $column"
	done
}

for folder in client floor ours; do
	make -s -C $folder >"$dir/out" 2>"$dir/err"
	must $? "make -C $folder"
done
mkdir "$dir/root"
head -c 4096 /dev/urandom >"$dir/root/4k"
head -c 1048576 /dev/urandom >"$dir/root/1m"
checks
for server in floor/server ours/server go/server; do
	if [ -x $server ]; then
		serves $server
	else
		echo "skip bench/http/$server: not built (bench/run.py http)"
	fi
done
measures
counted
