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
	for claim in mean_of_runs as_the_article failed_runs spread heat \
	    further further_alone further_in_turn targets forked \
	    readme text slide bad_lines bad_further no_lines headers plots \
	    panels axes families no_gnuplot usage_of_graph article bench_lines \
	    bench_missing bench_failures bench_time_limit bench_interrupted \
	    bench_options bench_full bench_targets bench_against bench_python \
	    bench_machine bench_progress; do
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
	N = 2, millions of messages a second by coroutines, higher is better, mean of 1 to 2 runs:

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

# Lines as the article's, and its arithmetic: runs that failed count, and the
# mean is not that of the seconds (52.29, 73.37, 78.53 for C++).
as_the_article() {
	article_lines >lines
	cat >want <<-'EOF'
	N = 2, millions of messages a second by coroutines, higher is better, mean of 2 to 3 runs:

	|  | 4 | 100000 | 2000000 |
	| --- | ---: | ---: | ---: |
	| POSIX | 0.56 | 2.31 | 0.00 |
	| U | 14.25 | 33.75 | 35.84 |
	| C++ | 56.20 | 73.38 | 113.71 |
	| U1TS | 29.18 |  | 19.35 |
	EOF
	status 0 graph lines
	same "the article's arithmetic"
}

article_lines() {
	cat <<-'EOF'
	      N,       R,       M,      POSIX,          U,        C++
	      2,       2, 2000100,     15.283,      0.723,      0.178
	      2,   50000,     180,      3.903,      0.442,      0.246
	      2, 1000000,     104, 100000.000,      5.561,      3.544
	      N,       R,       M,      POSIX,          U,        C++
	      2,       2, 2000100,     15.053,      0.712,      0.101
	      2,   50000,     180, 100000.000,      0.884,      0.241
	      2, 1000000,     104, 100000.000,      5.188,      3.467
	      N,       R,       M,      POSIX,          U,        C++
	      2,       2, 2000100,     12.900,      0.391,      0.180
	      2,   50000,     180,      7.798,      0.448,      0.249
	      2, 1000000,     104, 100000.000,      6.925,      0.935
	      N,       R,       M,       U1TS
	      2,       2, 2000100,      0.406
	      2, 1000000,     104,     10.780
	      N,       R,       M,       U1TS
	      2,       2, 2000100,      0.207
	      2, 1000000,     104,     10.723
	EOF
}

# A cell of one run has no spread.
spread() {
	article_lines | grep -v 1000000, >lines
	printf 'N, R, M, ONE\n2, 2, 1000000, 0.5\n' >>lines
	cat >want <<-'EOF'
	|  | 4 | 100000 |
	| --- | ---: | ---: |
	| POSIX | 0.53 [0.52, 0.62] | 2.31 [0.00, 4.61] |
	| U | 11.24 [11.07, 20.46] | 40.18 [20.36, 40.72] |
	| C++ | 44.95 [44.45, 79.21] | 73.17 [72.29, 74.69] |
	| U1TS | 29.18 [19.71, 38.65] |  |
	| ONE | 8.00 |  |
	EOF
	status 0 graph --spread lines
	has 'the caption of --spread' got 'median [least, most] of 1 to 3 runs:'
	sed '1,2d' got >rows
	mv rows got
	same 'median, least and most'
}

# Before the lines or after them, and only as bench.sh says it.
heat() {
	cat >lines <<-'EOF'
	# bench.sh --only U,UL: hot, 2026-11-20
	# U: cold, rmain N R M 0 2
	# memory: cold
	N, R, M, U, UL, C++H1T, GO
	2, 1, 1000000, 1, 2, 4, 8
	#UL: hot, lmain N R M 0 2
	# C++H1T: hot, peers/coro/coro-lifo N R M 0 1
	# GO: hotter, peers/go
	empty, NR, UL
	empty, 1000, 1
	EOF
	cat >want <<-'EOF'
	N = 2, millions of messages a second by coroutines, higher is better, mean of 1 run:

	|  | 2 |
	| --- | ---: |
	| U (cold) | 2.00 |
	| UL (hot) | 1.00 |
	| C++H1T (hot) | 0.50 |
	| GO | 0.25 |

	What the columns do (bytes, ms: lower is better), mean (blocks) or median (the rest) of 1 run:

	|  | ms for 1000 empty threads |
	| --- | ---: |
	| UL (hot) | 1000 |
	EOF
	status 0 graph lines
	same 'hot and cold'
}

# Means of blocks, over all R, medians of the rest; whatever the order.
further() {
	further_lines >lines
	cat >want <<-'EOF'
	N = 2, millions of messages a second by coroutines, higher is better, mean of 1 run:

	|  | 2 |
	| --- | ---: |
	| U | 2.00 |

	What the columns do (bytes, ms: lower is better), mean (blocks) or median (the rest) of 1 to 3 runs:

	|  | blocks a message, N = 2 | blocks a message, N = 8 | bytes a \
	blocked thread, of 1000 | bytes a blocked thread, of 1000000 | ms for \
	500000 empty threads |
	| --- | ---: | ---: | ---: | ---: | ---: |
	| POSIX | 1.010 | 1.000 | 9001 |  | 4123 |
	| U | 0.667 | 0.000 |  | 560 | 1.20 |
	| UL | 0.000 |  |  | 553 | 31.2 |
	EOF
	joined
	status 0 graph lines
	same 'what the columns do'
	[ -s err ] && wrong 'good lines, but' "$(cat err)"
	cat >want <<-'EOF'
	|  | blocks a message, N = 2 | blocks a message, N = 8 | bytes a \
	blocked thread, of 1000 | bytes a blocked thread, of 1000000 | ms for \
	500000 empty threads |
	| --- | ---: | ---: | ---: | ---: | ---: |
	| POSIX | 1.010 | 1.000 | 9001 |  | 4123 |
	| U | 0.600 [0.500, 0.900] | 0.000 |  | 560 [552, 900] | 1.20 [1.10, 9.00] |
	| UL | 0.000 [0.000, 0.000] |  |  | 553 [552, 554] | 31.2 [30.4, 32.0] |
	EOF
	joined
	status 0 graph --spread lines
	has 'its caption' got '), median [least, most] of 1 to 3 runs:'
	sed '1,/^What/d' got | sed 1d >rows
	mv rows got
	same 'the spread of what the columns do'
}

# A wanted line that ends with a backslash goes on.
joined() {
	sed -e ':a' -e '/\\$/N; s/\\\n//; ta' want >rows
	mv rows want
}

further_lines() {
	cat <<-'EOF'
	blocked,      NR,      POSIX,          U
	blocked,    1000,    9000600,           
	 blocks,       N,       R,       M,      POSIX,          U,         UL
	 blocks,       8,       2,    1000,      16000,          0,           
	 blocks,       2,     100,    1000,     202000,     100000,          0
	 blocks,       2,     100,    1000,           ,     120000,          5
	  empty,      NR,      POSIX,          U,         UL
	  empty,  500000,   4.123456,   0.001200,   0.030400
	  empty,  500000,           ,   0.009000,   0.032000
	  empty,  500000,           ,   0.001100,           
	      N,       R,       M,          U
	      2,       1, 1000000,   1.000000
	blocked,      NR,          U,         UL
	blocked, 1000000,  560000000,  552000000
	blocked, 1000000,  552000000,  554000000
	 blocks,       2,       1,  500000,           ,     900000,           
	blocked, 1000000,  900000000,           
	EOF
}

# Neither rates nor a plot, but a table with the columns that there are.
further_alone() {
	printf 'blocked, NR, U\nblocked, 10, 56\n' >lines
	cat >want <<-'EOF'
	What the columns do (bytes, ms: lower is better), mean (blocks) or median (the rest) of 1 run:

	|  | bytes a blocked thread, of 10 |
	| --- | ---: |
	| U | 6 |
	EOF
	status 1 graph f.svg lines
	same 'no lines of the ring'
	has 'no lines of the ring' err 'not drawn, no data'
	status 0 graph --spread lines
}

# Whatever M is, a row of N, R and D; a slope is of 2 * M rounds; two threads.
further_in_turn() {
	cat >lines <<-'EOF'
	turns, N, R, M, D, U1T, UL1T
	turns, 2, 10, 50000, 0, 1, 0.5
	turns, 2, 10, 100000, 0, 4, 0.5
	turns, 2, 10, 50000, 100, , 0.5
	steady, N, R, M, D, U1T
	steady, 2, 10, 50000, 100, 0.5
	wrap, WHERE, M, UL1T
	wrap, 4, 500000, 0.25
	turns, 2, 10, 50000, 1
	turns, 2, 10, 50000, 1, 1, 1, 1
	wrap, 0, 500000, 1
	EOF
	cat >want <<-'EOF'
	Rings of N x R threads in turn, millions of messages a second, \
	higher is better, median [least, most] of 1 to 2 runs:

	|  | 2 x 10 | 2 x 10, D = 100 | steady 2 x 10, D = 100 |
	| --- | ---: | ---: | ---: |
	| U1T | 0.750 [0.500, 1.00] |  | 4.00 |
	| UL1T | 3.00 [2.00, 4.00] | 2.00 |  |

	Two threads that block at, or below calls from, millions of messages \
	a second, higher is better, median [least, most] of 1 run:

	|  | the same callers |
	| --- | ---: |
	| UL1T | 4.00 |
	EOF
	joined
	status 0 graph --spread lines
	same 'rows that are measured in turn'
	echo '9 10 11' >want
	sed 's/^graph.py: lines:\([0-9]*\): .*/\1/' err | xargs >got
	same 'bad lines of rows in turn are named'
}

# Ratios are those of a run: where a run lacks a cell, it is left out.
targets() {
	cat >lines <<-'EOF'
	# processor: An Intel (R) one
	turns, N, R, M, D, C++1T, UL1T, U1T, UW1T
	turns, 2, 2, 250000, 0, 1, 2, 5, 4
	turns, 2, 2, 250000, 0, , 1, 5, 8
	turns, 2, 2, 250000, 0, 4, 2, 10,
	blocked, NR, U1T
	blocked, 100000, 14000000
	blocked, 1000000, 141000000
	wrap, WHERE, M, UL1T, UL1TOLD
	wrap, 3, 1000000, 1, 2
	turns, 2, 2, 250000, 0, 1
	EOF
	cat >want <<-'EOF'
	| ll, N = 2, to C++ first in first out | 0.95 | 0.65 on Zen | 1.25 \
	[0.500, 2.00] (2) | 0.500, 0.625 | yes |
	| ll, two threads at different callers, to before |  |  | 2.00 \
	[2.00, 2.00] (1) | 2.00, 1.00 |  |
	| time of ws to rr, N = 2 | at most 1.15 |  | 1.20 [0.800, 1.60] (2) \
	| 0.200, 0.188 | **no** |
	| bytes a blocked thread, of 100,000 | at most 140 |  | 140 [140, 140] \
	(1) |  | yes |
	| bytes a blocked thread, of 1,000,000 | at most 140 |  | 141 [141, \
	141] (1) |  | **no** |
	EOF
	joined
	status 0 python3 "$top/bench/results/targets.py" lines
	has 'a bad line is named' err '2, 2, 250000, 0, 1'
	has 'no such lines' got '| rr, 200 threads to 4 | 0.9 |  | not measured'
	sed '1,2d; /not measured/d' got >rows
	mv rows got
	same 'the targets'
	printf 'N, R, M, U\n2, 1, 1000000, 1\n' >lines
	status 1 python3 "$top/bench/results/targets.py" lines none
	has 'no such file' err 'none: No such file'
	status 1 python3 "$top/bench/results/targets.py" lines
	has 'no such lines' err 'no lines of'
}

# Of Python there are empty threads with one native thread, and nothing else.
forked() {
	cat >lines <<-'EOF'
	ws, empty 500000 1, 0, 0.5, 0.5
	ws, empty 500000 2, 0, 0.25, 0.5
	asyncio, empty 500000 1, 0, 5.0, 5.0
	ws, skynet 1, 0, 0.5, 0.5
	ws, skynet 2, 0, failed
	EOF
	cat >want <<-'EOF'
	| empty 500000 | ws |  | 500.0 [500.0, 500.0] | 1.00 | 250.0 \
	[250.0, 250.0] | 1.00 | 2.00 |  | 1000 |
	| empty 500000 | asyncio |  | 5000.0 [5000.0, 5000.0] | 10.00 |  \
	|  |  |  | 10000 |
	| skynet | ws |  | 500.0 [500.0, 500.0] | 1.00 |  |  |  |  | 450 |
	EOF
	joined
	status 0 python3 "$top/bench/results/fork.py" --from lines
	sed '1,/^|---/d' got >rows
	mv rows got
	same 'the table of forks'
}

# Rings of two, and bytes of the most threads.
readme() {
	cat >lines <<-'EOF'
	# U1T: cold, rmain N R M 0 1
	N, R, M, GO1T, U1T, U1TOLD
	2, 2, 250000, , 2, 1
	2, 2, 250000, , 0.5, 1
	2, 1000000, 100, , 0.125, 1
	2, 500, 1000, 1, 1, 1
	8, 2, 250000, 1, 1, 1
	blocked, NR, U1T
	blocked, 100000, 99900000
	blocked, 1000000, 140000000
	empty, NR, U1T
	empty, 500000, 0.0123
	EOF
	cat >want <<-'EOF'
	| threads in all | 4 | 20,000 | 2,000,000 | bytes |
	|---|---:|---:|---:|---:|
	| **► usched, rr** (fair) | **1.25** |  | **1600** | **140** |
	| **► usched, ll** (local) |  |  |  |  |
	| **► usched, ws** (stealing) |  |  |  |  |
	| C++20 coroutines, a bare loop by hand |  |  |  |  |
	| private stacks, a bare loop by hand |  |  |  |  |
	| tokio |  |  |  |  |
	| Go |  |  |  |  |
	| POSIX threads |  |  |  |  |
	EOF
	joined
	status 0 python3 "$top/bench/results/readme.py" lines
	same "README's table"
	echo 'N, R, M, U' >lines
	status 1 python3 "$top/bench/results/readme.py" lines
}

# On a terminal of 32 columns what is too wide goes on below; never above 100.
text() {
	cat >lines <<-'EOF'
	# bench.sh --full, 2026-11-20T17:47:47Z
	# processor: A fast one, family 1, 2 available, governor unknown
	# commit: 123abc, with changes
	# GO: mixed, peers/go N R M 0 2
	# U1K: cold, rmain N R M 1000 2
	N, R, M, GO, GONE, U1K, UCTX1T
	2, 100, 20000, 0.5, , 0.015625, 8
	2, 750, 20000, 0.5, , 2, 8
	2, 10000, 20000, 0.5, , 2, 8
	2, 1000000, 20, 5, , 10, 8
	EOF
	cat >want <<-'EOF'
	A fast one, family 1,
	processors: 2; 2026-11-20;
	commit 123abc

	N = 2, millions of messages a
	second by coroutines, higher is
	better, mean of 1 run:

	                 200  1500   20k
	* U1K    cold    256  15.0   200
	  GO     mixed  8.00  60.0   800
	  UCTX1T        0.50  3.75  50.0

	                  2M
	* U1K    cold   4.00
	  GO     mixed  8.00
	  UCTX1T        5.00

	EOF
	COLUMNS=32 status 0 graph --text lines
	has 'the legend' got '* is ours. 1T (and RUST)'
	sed '/^\* is ours/,$d' got >rows
	mv rows got
	same 'tables for a terminal'
	cp lines many
	for r in 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
		echo "2, $r, 1000, 1, , 1, 1"
	done >>many
	COLUMNS=200 status 0 graph --text many
	awk 'length > 100' got >long
	[ -s long ] && wrong 'more than 100 columns' "$(cat long)"
	awk 'length > 95' got >long
	[ -s long ] || wrong 'far less than 100 columns' "$(cat got)"
}

# The best of the columns of a row, and no row without any.
slide() {
	cat >want <<-'EOF'
	Messages between threads, millions a second: higher is better, by threads:

	               200  20k    2M
	* usched rr         100  20.0
	  Go          8.00  800  80.0
	EOF
	cat >>lines <<-'EOF'
	N, R, M, GOB1T, U1T
	2, 10000, 20000, , 4
	2, 1000000, 20, 0.5, 2
	EOF
	status 0 python3 "$top/bench/results/slide.py" lines
	same 'the table of the slide'
	command -v gnuplot >/dev/null || return
	for out in s.svg s.png; do
		status 0 python3 "$top/bench/results/slide.py" $out lines
		[ -s $out ] || wrong "$out is not drawn" "$(cat err)"
	done
	for text in 'higher is better' '2,000,000 threads' 'usched rr' \
	    'A fast one, family 1, processors: 2; 2026-11-20'; do
		has 'the slide' s.svg "$text"
	done
	graph p.svg lines >got
	has 'the machine in the plot' p.svg 'A fast one, family 1, processors: 2;'
	has 'the direction in the plot' p.svg 'higher is better'
	printf 'N, R, M, U\n8, 2, 1000, 1\n' >eight
	status 1 python3 "$top/bench/results/slide.py" eight
	has 'no rings of two' err 'no rings of two'
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
	N = 2, millions of messages a second by coroutines, higher is better, mean of 1 run:

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

# A header holds for its kind alone.
bad_further() {
	cat >lines <<-'EOF'
	N, R, M, U
	blocks, 2, 1, 1000000, 1
	blocks, N, R, M, U
	blocks, 2, 1, 10, 5
	blocks, 2, 1, 10, -5
	blocks, 2, 1, 10, 0.5
	blocks, 2, 0, 10, 5
	blocks, 2, 1, 10
	empty, 10, 1
	empty, NR, U
	empty, 10, 0.05
	empty, 10, 0.0
	empty, 0, 1
	empty
	blocked, N, U
	blocked, NR, U
	blocked, 10, 70
	blocked, 10, 0
	blocked, 10, 1.5
	blocked, 10, 1, 2
	blocker, 10, 1
	, 2, 1, 1000000, 1
	blocked, NR
	blocked, 10
	blocked, NR, U, U
	blocked, 10, 1, 2
	EOF
	cat >want <<-'EOF'
	| U | 0.250 | 7 | 50.0 |
	EOF
	status 0 graph lines
	sed '1,4d' got >rows
	mv rows got
	same 'bad lines of other kinds are skipped'
	cat >want <<-'EOF'
	2 5 6 7 8 9 12 13 14 15 18 19 20 21 22 25 26
	EOF
	sed 's/^graph.py: lines:\([0-9]*\): .*/\1/' err | xargs >got
	same 'bad lines of other kinds are named'
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
	N = 2, millions of messages a second by coroutines, higher is better, mean of 1 run:

	|  | 2 |
	| --- | ---: |
	| B | 2.00 |
	| A | 0.50 |

	N = 8, millions of messages a second by coroutines, higher is better, mean of 1 run:

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
	N = 2, millions of messages a second by coroutines, higher is better, mean of 1 run:

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

# Two panels for each N, where there are columns for both.
panels() {
	command -v gnuplot >/dev/null || return
	cat >both <<-'EOF'
	N, R, M, U, UL1T
	2, 1, 1000000, 1, 2
	8, 1, 1000000, 1, 
	N, R, M, RUST
	2, 1, 1000000, 1
	EOF
	printf 'N, R, M, GO1T, RUST, U1TS\n8, 1, 100, 1, 2, 3\n' >ones
	status 0 graph p.svg both
	titles p.svg >got
	cat >want <<-'EOF'
	N = 2, one native thread
	N = 2, all processors
	N = 8, all processors
	EOF
	same 'two panels for an N'
	status 0 graph p.svg ones
	titles p.svg >got
	echo 'N = 8' >want
	same 'one panel for an N'
}

# From 0, but logarithmic where the speeds are far apart.
axes() {
	command -v gnuplot >/dev/null || return
	for times in '9, 0.004:0.5' '0.009, 0.004:0'; do
		printf 'N, R, M, POSIX, UL\n2, 1, 1000000, %s\n' \
			"${times%:*}" >far
		status 0 graph p.svg far
		sed -n 's/.*<text> *\([0-9.]*\)<.*/\1/p' p.svg >tics
		grep -qx "${times#*:}" tics ||
			wrong "the y axis of $times" "$(cat tics)"
	done
}

titles() {
	sed -n 's/.*>\(N = [^<]*\)<.*/\1/p' "$1"
}

# One colour for a family, in both panels, and no other has it.
families() {
	command -v gnuplot >/dev/null || return
	set -- POSIX GO GO1T RUST C++ C++1T U U1K U10K U1T U1TS UL UL1T RUSTMT \
		U1TFP UL1TFP U1TOLD UL1TOLD \
		C++H1T BOOST1T UCTX1T STACK1T STACKH1T NEW NEWH1K ODD1T
	{
		printf 'N, R, M'
		printf ', %s' "$@"
		printf '\n2, 1, 1000000'
		printf ', 1%.0s' "$@"
	} >all
	cat >want <<-'EOF'
	 BOOST1T
	 C++ C++1T C++H1T
	 GO GO1T
	 NEW NEWH1K
	 ODD1T
	 POSIX
	 RUST RUSTMT
	 STACK1T STACKH1T
	 U U10K U1K U1T U1TFP U1TOLD U1TS
	 UCTX1T
	 UL UL1T UL1TFP UL1TOLD
	EOF
	status 0 graph f.svg all
	[ -s err ] && wrong 'all columns' "$(cat err)"
	colours f.svg | sort | awk '{ names[$2] = names[$2] " " $1 }
		END { for (colour in names) print names[colour] }' | sort >got
	same 'the colours of the families'
}

# Of each name in the legends, the colour of the line that comes next.
colours() {
	awk '/<text>[A-Z0-9+]*</ { gsub(/.*<text>|<.*/, ""); name = $0 }
		name ~ /^[A-Z]/ && match($0, /stroke=.rgb\([^)]*/) {
			colour = substr($0, RSTART + 12, RLENGTH - 12)
			gsub(/ /, "", colour)
			print name, colour
			name = ""
		}' "$1"
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
	status 2 graph c.svg --spread lines
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
	case $1 in
	blocks)	 echo 42;;
	empty)	 echo 0.5;;
	blocked) echo "$2$3";;
	*)	 echo "$1$2$3.$4";;
	esac
	EOF
	stand_in lmain <<-'EOF'
	case $1 in
	blocks)	 echo "$4";;
	empty)	 echo "$2.$3";;
	blocked) echo "$2$3$4";;
	*)	 echo "$3.$5";;
	esac
	EOF
	stand_in lwrap <<-'EOF'
	echo "$1.$2"
	EOF
	status 0 bench --short --only UL1T,U10K --runs 2
	cat >rings <<-'EOF'
	N,R,M,U10K,UL1T
	2,2,5010,,5010.1
	2,2,2505,222505.10000,
	2,100,110,,110.1
	2,100,55,210055.10000,
	2,1000,20,,20.1
	2,1000,10,2100010.10000,
	N,R,M,U10K,UL1T
	8,2,1260,,1260.1
	8,2,630,82630.10000,
	8,100,35,,35.1
	8,100,17,810017.10000,
	8,1000,12,,12.1
	8,1000,10,8100010.10000,
	EOF
	cat >turns <<-'EOF'
	wrap,WHERE,M,UL1T
	wrap,1,1000,1.1000
	wrap,2,1000,2.1000
	wrap,3,1000,3.1000
	wrap,4,1000,4.1000
	turns,N,R,M,D,UL1T
	turns,2,2,1000,0,1000.1
	turns,2,100,10,10000,10.1
	EOF
	cat rings - turns rings turns >want <<-'EOF'
	blocks,N,R,M,U10K,UL1T
	blocks,2,100,1000,42,1000
	blocks,8,100,1000,42,1000
	empty,NR,U10K,UL1T
	empty,1000,,1000.1
	blocked,NR,U10K,UL1T
	blocked,1000,100010000,100001
	EOF
	cp got lines
	cells lines >got
	same 'lines of bench.sh'
	for key in bench.sh processor memory system commit U10K; do
		has 'the header comment' lines "# $key"
	done
	has 'hot' lines '# UL1T: hot, lmain N R M 0 1'
	has 'cold' lines '# U10K: cold, rmain N R M 10000'
	has 'the part' lines '1/2 of M'
	[ "$(grep -c ': run' err)" -eq 28 ] ||
		wrong 'progress is not one line for a row' "$(cat err)"
	status 0 graph lines
	[ -s err ] && wrong 'graph.py complains of bench.sh' "$(cat err)"
}

bench_missing() {
	status 0 bench --short --only UL,C++
	cells got >lines
	has 'a missing program' lines '2,100,110,,110.'
	has 'the reason, once' err 'C++: bench/peers/coro/coro-fifo is missing'
	has 'the package' err 'package g++'
	status 1 bench --short --only C++
}

bench_failures() {
	stand_in rmain <<-'EOF'
	case $1,$2,$4 in
	blocks,2,*)	echo 0;;
	blocks,*)	echo 1.5;;
	empty,*)	echo x;;
	blocked,*)	echo 0;;
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
	cells lines | grep '^[28be].*0' >got
	cat >want <<-'EOF'
	2,2,5010,,
	2,100,110,,
	2,1000,20,,
	8,2,1260,,
	8,100,35,,
	8,1000,12,2.5,2.5
	blocks,2,100,1000,0,0
	blocks,8,100,1000,,
	empty,1000,,
	blocked,1000,,
	EOF
	same 'cells of programs that fail'
	has 'the reason' err 'U, N = 2, R = 2: exit 1: no memory'
	has 'the signal' err 'U1K, N = 2, R = 2: killed by SIGSEGV'
	has 'not a number' err 'U, N = 2, R = 100: not a result: "hello"'
	has 'no time' err 'U, N = 2, R = 1000: not a result: "0.000000"'
	has 'not whole' err 'U, blocks, N = 8: not a result: "1.5"'
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
signal.signal(signal.SIGINT, signal.SIG_DFL)    # may be ignored: nohup, &
child = subprocess.Popen(sys.argv[2:])
while child.poll() is None and not (
        os.path.exists("pid") and os.path.getsize("pid")):
    time.sleep(0.01)
child.send_signal(getattr(signal, "SIG" + sys.argv[1]))
sys.exit(child.wait(60) % 256)
'

bench_options() {
	for args in --foo U '--runs 0' --runs '--runs x' '--runs -1' --only \
	    '--only ,' '--only NONE' '--only U*' '--limit 0' '--limit' \
	    '--hot --only U'; do
		# shellcheck disable=SC2086 # words
		status 2 bench $args
		has "$args" err usage
		[ -s got ] && wrong "$args" 'prints on stdout'
	done
	status 0 bench --help
	has --help got usage
	for program in rmain lmain; do
		echo 'echo 25' | stand_in $program
	done
	status 0 bench --short --hot --only U,UL,C++
	[ "$(cells got | head -n 1)" = N,R,M,UL ] ||
		wrong --hot "$(cat got)"
	status 0 bench --short --cold --only U,UL,U1T
	[ "$(cells got | head -n 1)" = N,R,M,U,U1T ] ||
		wrong --cold "$(cat got)"
}

# --full has the article's M: 100 + 8000000 / (N * R).
bench_full() {
	stand_in lmain <<-'EOF'
	echo 2.5
	EOF
	status 0 bench --full --runs 1 --only UL
	cells got >lines
	[ "$(grep -c '^[28]' lines)" -eq 26 ] || wrong --full "$(cat lines)"
	has --full lines 'empty,500000,2.5'
	has --full lines '2,2,2000100,'
	has --full lines '8,1000000,101,'
	[ "$(grep -c '^turns,2,500000,80,0,2.5' lines)" -eq 1 ] ||
		wrong '--full has rows in turn' "$(cat lines)"
}

# Nine times, but what needs much memory three times; slopes of cold columns.
bench_targets() {
	stand_in rmain <<-'EOF'
	case $1 in
	blocked) echo 42;;
	*)	 echo "$3.$5";;
	esac
	EOF
	status 0 bench --targets --only U1T
	{
		cells got | grep -c '^turns,2,2,'
		cells got | grep -c '^turns,2,1000000,'
		cells got | grep '^steady' | tail -n 1
		cells got | grep -cE '^(N|blocks|empty)'
	} >rows
	mv rows got
	cat >want <<-'EOF'
	9
	3
	steady,2,8000,100,10000,200.000000
	0
	EOF
	same --targets
	status 0 bench --targets --runs 1
	has 'columns of --targets' got UL1T
	grep -E '^ *turns.*(GO|BOOST)' got >lines &&
		wrong 'columns of --targets' "$(cat lines)"
}

# The columns OLD, of another folder.
bench_against() {
	mkdir -p old
	echo 'echo 7.5' | stand_in ../old/rmain
	echo 123abc >old/commit
	echo 'echo 2.5' | stand_in rmain
	status 0 bench --short --against old --only U1T,U1TOLD
	has 'the other commit' got '# OLD: commit 123abc'
	has 'where OLD is' got 'U1TOLD: cold, against/rmain N R M 0 1'
	has 'what is missing' err 'against/rwrap is missing: make against'
	cells got >lines
	has 'the column OLD' lines '2,100,110,2.5,7.5'
	has 'the column OLD' lines 'turns,2,2,1000,0,2.5,7.5'
	status 0 bench --short --only U1T,U1TOLD
	cells got >lines
	has 'no column OLD' lines 'turns,2,2,1000,0,2.5'
	status 2 bench --short --only U1TOLD
	has 'no column OLD' err 'needs --against'
	status 2 bench --short --against none
	has 'no such folder' err usage
}

# Programs that make empty threads only are asked nothing else.
bench_python() {
	stand_in bench/peers/python/empty-asyncio <<-'EOF'
	[ "$1" = empty ] && echo "$2.$3"
	EOF
	status 0 bench --short --only ASYNCIO,GEVENT
	cells got >lines
	printf 'empty,NR,ASYNCIO,GEVENT\nempty,1000,1000.1,\n' >want
	mv lines got
	same 'empty threads only'
	has 'the package' err 'package python3-gevent'
}

# A name for files: no blanks, the same each time, whatever else is asked.
bench_machine() {
	status 0 bench --machine
	grep -Eqx '[a-z0-9][-a-z0-9._]*-[0-9]+cpu' got ||
		wrong --machine "$(cat got)"
	mv got want
	status 0 bench --short --machine --runs 2
	same --machine
}

# The progress does not wrap on a terminal of so many columns, or as COLUMNS
# says. Where there is none, or a dumb one, there are whole lines only.
bench_progress() {
	echo 'echo 2.5' | stand_in lmain
	for case in '40 40' '20 40 COLUMNS=20' '100 100 COLUMNS=x'; do
		on_terminal $case TERM=xterm
		grep '^\[' got >bars
		[ -s bars ] || wrong "$case: no progress" "$(cat got)"
		awk -v columns="${case%% *}" 'length >= columns' bars >got
		[ -s got ] && wrong "progress wraps: $case" "$(cat got)"
	done
	has 'all of the progress' bars ', run 1 of 1, turns, N = 2, R = 2'
	on_terminal 40 40 TERM=dumb
	has 'progress on a dumb terminal' got ': run 1 of 1, N = 8, R = 2: '
	status 0 bench --short --only UL
	has 'progress on no terminal' err ': run 1 of 1, N = 8, R = 2: '
	tr -d -c '\r\033' <err >got
	[ -s got ] && wrong 'no terminal' 'but what only a terminal understands'
}

# on_terminal X COLUMNS VARIABLE=VALUE...: what bench.sh writes on its stderr.
on_terminal() {
	shift
	columns=$1
	shift
	BENCH_DIR=$tmp/bin python3 -c "$terminal" "$columns" env "$@" sh -c '
		exec sh "$0" --short --only UL >/dev/null' "$top/bench.sh" >got
}

# Runs a command on a terminal. What it writes over is a line of the output, too.
terminal='
import fcntl, os, pty, struct, sys, termios
size = struct.pack("4H", 24, int(sys.argv[1]), 0, 0)
read, go = os.pipe()
child, fd = pty.fork()
if child == 0:
    os.close(go)
    os.read(read, 1)
    os.execvp(sys.argv[2], sys.argv[2:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, size)
os.close(go)
shown = b""
try:
    while data := os.read(fd, 65536):
        shown += data
except OSError:
    pass
os.waitpid(child, 0)
shown = shown.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
sys.stdout.buffer.write(shown.replace(b"\033[K", b""))
'

main
