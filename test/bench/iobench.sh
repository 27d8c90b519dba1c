#!/bin/sh
# SPDX-License-Identifier: MIT
# iobench.sh: each server of bench/io echoes and answers lines right, on TCP and unix
# sockets, with one and two processors, beside threads that compute; and refuses what
# is no question. Lines may come in parts, and be too long. The client finds a wrong
# byte, an early end, and a message that is missing. The echo of ours is that of
# examples/first. A server whose library is not there is left out with its package,
# and one that is not built is skipped by name.

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
		start "$1" line "$at" $p 1
		must $? "$1 line $at $p 1"
		ask "$1" "messages 1001 errors 0 $served" line 30 1001
		parts "$1"
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

# Lines that come in parts or several at once are answered, the longest that may be
# too, and a longer one ends the connection.
parts() { # program
	command -v python3 >/dev/null || return
	timeout 20 python3 -c '
import socket, sys, time
unix = sys.argv[1].startswith("unix:")
s = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
at = sys.argv[1].split(":")[1]
s.connect(at if unix else ("127.0.0.1", int(at)))
if not unix:
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
got, longest = s.makefile("rb"), b"x" * 4095 + b"\n"
for part in b"a", b"bc", b"d\n", b"e\nf\n\ng", b"h\n", longest + b"i\nj", b"\n":
    s.sendall(part)
    time.sleep(0.005)
for line in b"abcd\n", b"e\n", b"f\n", b"\n", b"gh\n", longest, b"i\n", b"j\n":
    assert got.readline() == b"ok\n" and got.readline() == line, line
try:
    s.sendall(longest[:-1] + b"yz\n")
    assert got.read() == b""
except (BrokenPipeError, ConnectionResetError):
    pass
' "$where" >"$dir/out" 2>"$dir/err"
	must $? "$1: lines in parts at $where"
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
	finds 'an answer that is an echo' line 3 10
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

# What users write is what is measured.
as_written() {
	sed -n '/^static void echo/,/^}/p' ../../examples/first/echo.c >"$dir/first"
	[ -s "$dir/first" ] && sed -n '/^static void echo/,/^}/p' ours/server.c |
		diff "$dir/first" - >"$dir/out"
	must $? 'ours/server.c has another echo than examples/first'
}

# Peers whose headers are not there are named with their packages, and the rest runs.
left_out() {
	command -v python3 >/dev/null || { echo 'skip run.py: no python3'; return; }
	cat >"$dir/cc" <<-'END'
	#!/bin/sh
	case $* in
	*-luv* | *.cpp*) echo 'a header: No such file or directory' >&2; exit 1 ;;
	esac
	exec cc "$@"
	END
	chmod +x "$dir/cc"
	mkdir -p "$dir/tree/bench/io"
	cp ../../bench.sh "$dir/tree"
	cp ../run.py "$dir/tree/bench"
	cp -r io.h questions.py client floor libuv asio "$dir/tree/bench/io"
	make -s -C "$dir/tree/bench/io/libuv" clean
	make -s -C "$dir/tree/bench/io/asio" clean
	CC=$dir/cc CXX=$dir/cc timeout 60 python3 "$dir/tree/bench/run.py" io --quick \
		--only echo-tcp:100,line-tcp:100 --p 1 --to "$dir/to" \
		>"$dir/out" 2>"$dir/err"
	must $? 'run.py without libraries'
	for peer in libuv:libuv1-dev asio:libboost-dev; do
		grep -q "^run.py: ${peer%:*}: .* is missing (package ${peer#*:})" "$dir/err" &&
		grep -q "^run.py: io/${peer%:*}: not built (package ${peer#*:}): a header" \
			"$dir/err"
		must $? "run.py does not name ${peer#*:}"
	done
	[ "$(grep -cE '^[a-z]* (echo|line)-tcp:100.cpu_us 1 floor [0-9.]+$' "$dir/to/io.txt")" = 2 ]
	must $? 'run.py without libraries measures no floor'
}

for folder in client floor ours; do
	make -s -C $folder >"$dir/out" 2>"$dir/err"
	must $? "make -C $folder"
done
as_written
checks
left_out
for peer in libuv:libuv1-dev asio:libboost-dev; do
	folder=${peer%:*}
	case $folder in
	libuv)	echo '#include <uv.h>' | ${CC:-cc} -E - ;;
	asio)	echo '#include <boost/asio.hpp>' | ${CXX:-c++} -x c++ -E - ;;
	esac >/dev/null 2>&1 || { skip "bench/io/$folder (package ${peer#*:})"; continue; }
	make -s -C $folder >"$dir/out" 2>"$dir/err"
	must $? "make -C $folder"
done
for server in floor/server ours/server-rr ours/server-ll ours/server-ws \
	      ours/trust-rr libuv/server asio/server go/server tokio/server; do
	if [ -x $server ]; then
		serves $server
		refuses $server '' x 'echo tcp 1' 'echo tcp 0 0' 'echo tcp 1 -1' \
			'echo tcp 1 x' 'echo udp 1 0' 'twice tcp 1 0' \
			'line tcp' \
			'echo tcp 1 0 0'
	else
		echo "skip bench/io/$server: not built (bench/run.py io)"
	fi
done
counted
