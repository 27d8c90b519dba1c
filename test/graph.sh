#!/bin/sh
# SPDX-License-Identifier: MIT
# graph.py prints the table of the lines that it reads, to the digit, and names
# the bad ones; bench.sh prints such lines, whatever its programs do.
#
# Nothing is measured: the lines are made up, the programs are stand-ins. Where
# the article's data lie beside the repository (../shared), its tables too.

set -u
export LC_ALL=C
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
command -v python3 >/dev/null || { echo 'graph.sh: no python3'; exit 77; }
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'echo "graph.sh: interrupted"; exit 1' HUP INT TERM
cd "$tmp" || exit 1
failed=0

main() {
	for claim in mean_of_runs bad_lines no_lines headers failed_runs \
	    plots no_gnuplot usage_of_graph article bench_lines bench_missing \
	    bench_failures bench_time_limit bench_interrupted bench_options \
	    bench_full; do
		"$claim"
	done
	[ $failed -eq 0 ]
}

# same WHAT: the files want and got are the same.
same() {
	changes=$(diff want got) || wrong "$1" "$changes"
}

wrong() {
	printf 'FAILED %s\n%s\n' "$1" "$2"
	failed=$((failed + 1))
}

# has WHAT FILE TEXT: a line of the file contains the text.
has() {
	grep -qF -e "$3" "$2" || wrong "$1: no \"$3\" in" "$(cat "$2")"
}

# status WANT COMMAND...: the command ends so; output in got, errors in err.
status() {
	want=$1
	shift
	"$@" >got 2>err </dev/null
	is=$?
	[ $is -eq "$want" ] || wrong "$*: exit $is, not $want" "$(cat err)"
}

graph() {
	python3 "$top/graph.py" "$@"
}

# graph.py.

# 4 and 8 Mmsg/s: the mean of the rates is 6, that of the seconds would be 5.33.
mean_of_runs() {
	cat >lines <<-'EOF'
	# a comment
	      N,       R,       M,          U,         UL
	      2,     100,   20000,   1.000000,           
	      2,       1, 1000000,   0.500000,   0.015625

	      N,       R,       M,         UL,        NEW
	      2,     100,   20000,           ,          1
	      N,       R,       M,          U,       NONE
	      2,     100,   20000,   0.500000,           
	EOF
	cat >want <<-'EOF'
	N = 2, millions of messages a second by coroutines, mean of 1 to 2 runs:

	|  | 2 | 200 |
	| --- | ---: | ---: |
	| U | 4.00 | 6.00 |
	| UL | 128.00 |  |
	| NEW |  | 4.00 |
	| NONE |  |  |
	EOF
	status 0 graph lines
	same 'mean of runs, empty cells'
	[ -s err ] && wrong 'good lines, but' "$(cat err)"
	python3 "$top/graph.py" <lines >got
	same 'the same from stdin'
}

bad_lines() {
	cat >lines <<-'EOF'
	2, 1, 1000000, 1
	N, R, M, U, UL
	2, 1, 1000000, 1, 2
	2, 1, 1000000, 1
	2, 1, 1000000, 1, 2, 3
	2, 0, 1000000, 1, 2
	2, 1, -5, 1, 2
	2, 1, 1000000, 0.0, 2
	2, 1, 1000000, -1, 2
	2, 1, 1000000, nan, 2
	2, 1, 1000000, inf, 2
	2, 1, 1000000, one, 2
	2, 1, 100
	N, M, R, U
	2, 1, 1000000, 1, 2
	N, R, M, U, U
	EOF
	cat >want <<-'EOF'
	N = 2, millions of messages a second by coroutines, mean of 1 run:

	|  | 2 |
	| --- | ---: |
	| U | 2.00 |
	| UL | 1.00 |
	EOF
	status 0 graph lines
	same 'bad lines are skipped'
	for nr in 1 4 5 6 7 8 9 10 11 12 13 14 15 16; do
		has 'bad lines are named' err "graph.py: lines:$nr: "
	done
	[ "$(wc -l <err)" -eq 14 ] || wrong 'only the bad ones' "$(cat err)"
	status 0 sh -c "python3 '$top/graph.py' <lines"
	has 'bad lines of stdin are named' err 'graph.py: line 4: '
}

no_lines() {
	echo '# nothing' >lines
	status 1 graph lines
	status 1 graph none
	has 'a file that is not there' err 'none: No such file'
}

# A table for each N, in their order; columns in the order of appearance.
headers() {
	cat >lines <<-'EOF'
	N, R, M, B, A
	8, 1, 1000000, 8, 4
	2, 1, 1000000, 1, 4
	EOF
	cat >want <<-'EOF'
	N = 2, millions of messages a second by coroutines, mean of 1 run:

	|  | 2 |
	| --- | ---: |
	| B | 2.00 |
	| A | 0.50 |

	N = 8, millions of messages a second by coroutines, mean of 1 run:

	|  | 8 |
	| --- | ---: |
	| B | 1.00 |
	| A | 2.00 |
	EOF
	status 0 graph lines
	same 'a table for each N'
}

# 100000.000, a run that failed: in the table as the article has it.
failed_runs() {
	cat >lost <<-'EOF'
	N, R, M, P
	2, 10, 1000000, 100000.000
	EOF
	cat >want <<-'EOF'
	N = 2, millions of messages a second by coroutines, mean of 1 run:

	|  | 20 |
	| --- | ---: |
	| P | 0.00 |
	EOF
	status 0 graph lost
	same 'failed runs of the article'
}

plots() {
	command -v gnuplot >/dev/null || return
	for out in c.svg c.png; do
		status 0 graph $out lines lost
		[ -s $out ] || wrong "$out is not drawn" "$(cat err)"
	done
	has 'the plot is SVG' c.svg '<svg'
	has 'the plot has both N' c.svg 'N = 8'
	[ "$(dd if=c.png bs=1 skip=1 count=3 2>/dev/null)" = PNG ] ||
		wrong 'c.png' 'is not PNG'
	grep -q '>P<' c.svg && wrong 'a run that failed' 'is in the plot'
	status 1 graph none/c.svg lines
	status 1 graph d.svg lost
	has 'nothing to draw' err 'no data'
}

no_gnuplot() {
	mkdir -p only
	ln -sf "$(python3 -c 'import sys; print(sys.executable)')" only/python3
	status 0 env PATH="$tmp/only" python3 "$top/graph.py" e.svg lines
	has 'no gnuplot: the package' err gnuplot-nox
	has 'no gnuplot: the table' got '| B | 1.00 |'
	[ ! -e e.svg ] || wrong 'no gnuplot' 'but a plot'
}

usage_of_graph() {
	status 2 graph --foo
	has 'a bad option' err usage
	status 2 graph lines c.svg
	status 0 graph --help
	has --help got usage
}

# The article's tables. Its UL is not in its data.
article() {
	data=$top/../shared/data
	text=$(ls "$top"/../shared/seeds/002_*.txt 2>/dev/null)
	[ -d "$data" ] && [ "$text" ] || return
	for n in 2 8; do
		grep -h "^ *[${n}N]," "$data/results.linux" \
			"$data/results.linux.u1ts" >lines
		status 0 python3 "$top/graph.py" lines
		mv got table
		tr -s '| ' ' ' <table | sed -n 's/^ //; s/ $//
			/^[0-9A-Z].*[0-9]$/p' >got
		article_table $((2 * n)) >want
		[ "$(wc -l <want)" -eq 12 ] || wrong 'the article' 'is not read'
		same "the article's table, N = $n"
	done
}

article_table() {
	sed -n "/^$1 [0-9 ]*\$/,/^UL /{/^UL /!p;}" "$text"
}

# bench.sh. A stand-in prints what it was asked.

bench() {
	BENCH_DIR=$tmp/bin sh "$top/bench.sh" "$@"
}

stand_in() {
	mkdir -p "$(dirname "bin/$1")"
	{ echo '#!/bin/sh'; cat; } >"bin/$1"
	chmod +x "bin/$1"
}

cells() {
	sed -n '/^#/d; s/ //g; p' "$1"
}

bench_lines() {
	rm -rf bin
	stand_in rmain <<-'EOF'
	echo "$1$2.$4"
	EOF
	stand_in lmain <<-'EOF'
	echo "$3.$5"
	EOF
	status 0 bench --short --only UL1T,U1K --runs 2
	cat >once <<-'EOF'
	N,R,M,U1K,UL1T
	2,2,5010,22.1000,5010.1
	2,100,110,2100.1000,110.1
	2,1000,20,21000.1000,20.1
	N,R,M,U1K,UL1T
	8,2,1260,82.1000,1260.1
	8,100,35,8100.1000,35.1
	8,1000,12,81000.1000,12.1
	EOF
	cat once once >want
	cp got lines
	cells lines >got
	same 'lines of bench.sh'
	for key in bench.sh processor memory system commit U1K; do
		has 'the header comment' lines "# $key"
	done
	[ "$(grep -c ': run' err)" -eq 12 ] ||
		wrong 'progress is not one line for a row' "$(cat err)"
	status 0 graph lines
	[ -s err ] && wrong 'graph.py complains of bench.sh' "$(cat err)"
}

bench_missing() {
	status 0 bench --short --only UL,COROF
	cells got >lines
	has 'a missing program' lines '2,100,110,110.'
	grep -q '^[28].*,$' lines || wrong 'no empty cell' "$(cat lines)"
	has 'the reason, once' err 'COROF: peers/coro/coro-fifo is missing'
	has 'the package' err 'package g++'
	status 1 bench --short --only COROF
}

bench_failures() {
	stand_in rmain <<-'EOF'
	case $1,$2,$4 in
	2,2,0)	  echo 'no memory' >&2; exit 1;;
	2,2,1000) echo 1.5; kill -SEGV $$;;
	2,100,*)  echo hello;;
	2,1000,*) echo 0.000000;;
	8,2,*)	  printf '1.5\n2.5\n';;
	8,100,*)  ;;
	*)	  echo 2.5;;
	esac
	EOF
	status 0 bench --short --only U,U1K
	mv got lines
	cells lines | grep '^[28]' >got
	cat >want <<-'EOF'
	2,2,5010,,
	2,100,110,,
	2,1000,20,,
	8,2,1260,,
	8,100,35,,
	8,1000,12,2.5,2.5
	EOF
	same 'cells of programs that fail'
	has 'the reason' err 'U, N = 2, R = 2: exit 1: no memory'
	has 'the signal' err 'U1K, N = 2, R = 2: killed by SIGSEGV'
	has 'not a number' err 'U, N = 2, R = 100: not seconds: "hello"'
	has 'no time' err 'U, N = 2, R = 1000: not seconds: "0.000000"'
}

bench_time_limit() {
	command -v timeout >/dev/null || return
	stand_in lmain <<-'EOF'
	[ $1 -ne 8 ] || [ $2 -ne 2 ] || exec sleep 100
	echo 2.5
	EOF
	status 0 bench --short --only UL --limit 1 --runs 2
	mv got lines
	cells lines | sed -n '/^8,/p' >got
	printf '8,2,1260,\n8,100,35,2.5\n8,1000,12,2.5\n' >once
	cat once once >want
	same 'the time limit'
	has 'the time limit' err 'UL, N = 8, R = 2: more than 1 s'
	has 'the second run' err 'UL, N = 8, R = 2: not tried again'
}

# Interrupted in the middle of a line: only whole lines, and no program left.
bench_interrupted() {
	stand_in rmain <<-'EOF'
	echo 2.5
	EOF
	stand_in lmain <<-'EOF'
	[ $2 -eq 2 ] && { echo 1.5; exit; }
	echo $$ >pid
	exec sleep 100
	EOF
	printf 'N,R,M,U,UL\n2,2,5010,2.5,1.5\n' >want
	for signal in INT TERM; do
		rm -f pid
		# Python, as a shell's background jobs are deaf to INT.
		BENCH_DIR=$tmp/bin python3 -c "$interrupt" $signal \
			sh "$top/bench.sh" --short --only U,UL >lines 2>err
		is=$?
		[ $is -gt 128 ] || wrong "$signal: exit $is" "$(cat err)"
		cells lines >got
		same "whole lines after $signal"
		kill -0 "$(cat pid)" 2>/dev/null && wrong $signal 'a child left'
		has $signal err interrupted
	done
}

interrupt='
import os, signal, subprocess, sys, time
child = subprocess.Popen(sys.argv[2:])
while child.poll() is None and not (
        os.path.exists("pid") and os.path.getsize("pid")):
    time.sleep(0.01)
child.send_signal(getattr(signal, "SIG" + sys.argv[1]))
sys.exit(child.wait(60) % 256)
'

bench_options() {
	for args in --foo U '--runs 0' --runs '--runs x' '--runs -1' --only \
	    '--only ,' '--only NONE' '--only U*' '--limit 0' '--limit'; do
		# shellcheck disable=SC2086 # words
		status 2 bench $args
		has "$args" err usage
		[ -s got ] && wrong "$args" 'prints on stdout'
	done
	status 0 bench --help
	has --help got usage
}

# --full has the article's M: 100 + 8000000 / (N * R).
bench_full() {
	stand_in lmain <<-'EOF'
	echo 2.5
	EOF
	status 0 bench --full --only UL
	cells got >lines
	[ "$(grep -c '^[28]' lines)" -eq 26 ] || wrong --full "$(cat lines)"
	has --full lines '2,2,2000100,'
	has --full lines '8,1000000,101,'
}

main
