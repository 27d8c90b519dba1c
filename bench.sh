#!/bin/sh
# SPDX-License-Identifier: MIT
# bench.sh: runs the ring benchmark of every program that we have.
#
# R rings of N threads pass M rounds of messages; a program prints the seconds
# that its run took. Here each (N, R) is one line of such seconds, each program
# a column, and graph.py makes the table and the plot of any number of lines:
#
#	./bench.sh | tee -a results; python3 graph.py plot.svg results
#
# A cell is empty when its program failed or is missing, stderr says why. Lines
# are printed when they are complete: what is interrupted leaves whole lines.
# All columns of one line are measured one after the other, and the whole range
# again for the next run, so that a change of the machine meets them all alike.
#
# $BENCH_DIR is where the programs are, instead of the directory of bench.sh.

set -uf
export LC_ALL=C

# The columns, in their order: name; hot, where the thread woken last runs
# first, so that one ring runs while the others wait, or cold, where all threads
# take turns; the package that brings the compiler if the program is missing;
# the program with its arguments, of which N, R, M and P are replaced. P is the
# number of processors; a column with 1T in its name, and a yardstick, has one
# native thread. What comes from elsewhere goes before or among ours: POSIX GO
# GO1T RUST C++ C++1T U U1K U10K U1T U1TS UL, then whatever is new.
columns='
U	cold	gcc	rmain N R M 0 P
U1K	cold	gcc	rmain N R M 1000 P
U10K	cold	gcc	rmain N R M 10000 P
U1T	cold	gcc	rmain N R M 0 1
UL	hot	gcc	lmain N R M 0 P
UL1T	hot	gcc	lmain N R M 0 1
COROF	cold	g++	peers/coro/coro-fifo N R M 0 1
COROL	hot	g++	peers/coro/coro-lifo N R M 0 1
STACKF	cold	gcc	peers/stackful/stackful-fifo N R M 0 1
STACKL	hot	gcc	peers/stackful/stackful-lifo N R M 0 1
'

usage() {
	cat <<EOF
usage: bench.sh [--full | --short] [--runs K] [--only COLUMN,...] [--limit S]
  (none)    R from 2 to 100000, 3 runs, about two minutes
  --full    R from 2 to 1000000 and M as in the article, 1 run
  --short   a few small R, 1 run, some seconds: do the programs work?
  --runs K  measure everything K times
  --only    these columns, of
            $(names)
  --limit S a program may take S seconds for one cell (300)
EOF
}

# M is LEAST + MESSAGES / (N * R): many messages where the threads are few, and
# some rounds where they are many. --full gives the M of the article.
quick() {
	sizes='2 8 100 1000 10000 100000'
	runs=3 least=10 messages=10000000
}

full() {
	sizes='2 4 8 50 100 500 1000 5000 10000 50000 100000 500000 1000000'
	runs=1 least=100 messages=8000000
}

short() {
	sizes='2 100 1000'
	runs=1 least=10 messages=20000
}

main() {
	quick
	only='' repeat='' limit=300
	options "$@"
	runs=${repeat:-$runs}
	dir=$(dirname "$0")
	bin=${BENCH_DIR:-$dir}
	procs=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) || procs=1
	choose
	terminal=''
	if [ -t 2 ]; then terminal=yes; fi
	prepare
	about "$@"
	absent
	total=0 done=0 filled=0 empty=0
	plan weigh
	total=$((total * runs)) start=$(date +%s)
	run=0
	while [ $((run += 1)) -le "$runs" ]; do
		plan line
	done
	finish
}

options() {
	while [ $# -gt 0 ]; do
		case $1 in
		--full)		full;;
		--short)	short;;
		--runs)		number "$@"; repeat=$2; shift;;
		--limit)	number "$@"; limit=$2; shift;;
		--only)		[ "${2:-}" ] || bad '--only needs columns'
				only=$2; shift;;
		-h | --help)	usage; exit 0;;
		*)		bad "no such option: $1";;
		esac
		shift
	done
}

number() {
	case ${2:-} in
	'' | 0* | *[!0-9]* | ???????*) bad "$1 needs a number above 0";;
	esac
}

bad() {
	echo "bench.sh: $1" >&2
	usage >&2
	exit 2
}

say() {
	wipe
	echo "bench.sh: $1" >&2
}

# Leaves in $columns those that --only names.
choose() {
	columns=$(echo "$columns" | sed '/^$/d')
	names=" $(names) "
	only=$(echo "$only" | tr , ' ')
	for c in $only; do
		case $names in
		*" $c "*) ;;
		*) bad "no such column: $c";;
		esac
	done
	columns=$(echo "$columns" | while read -r name rest; do
		case " ${only:-$name} " in
		*" $name "*) echo "$name $rest";;
		esac
	done)
	[ "$columns" ] || bad '--only needs columns'
}

names() {
	echo "$columns" | awk 'NF { printf "%s%s", sep, $1; sep = " " }'
}

# What there is to measure: calls $1 with N, R and M of each line.
plan() {
	for n in 2 8; do
		if [ "$1" = line ]; then header; fi
		for r in $sizes; do
			"$1" "$n" "$r" $((least + messages / (n * r)))
		done
	done
}

# A line in the unit of the progress: its messages, and as many again as the
# start of the programs may be worth.
weigh() {
	total=$((total + $1 * $2 * $3 + messages / 4))
}

header() {
	text=$(printf '%7s, %7s, %7s' N R M)
	while read -r name _; do
		text="$text, $(printf %10s "$name")"
	done <<EOF
$columns
EOF
	wipe
	echo "$text"
}

line() {
	text=$(printf '%7d, %7d, %7d' "$1" "$2" "$3")
	[ "$terminal" ] || say "$(progress)"
	while read -r name _ _ program args; do
		if [ "$terminal" ]; then bar "$name"; fi
		seconds=''
		if [ -x "$bin/$program" ]; then
			# shellcheck disable=SC2046,SC2086 # words
			cell "$name" "$bin/$program" $(fill "$@" $args)
		fi
		text="$text, $(printf %10s "$seconds")"
		if [ "$seconds" ]; then
			filled=$((filled + 1))
		else
			empty=$((empty + 1))
		fi
	done <<EOF
$columns
EOF
	wipe
	echo "$text"
	done=$((done + $1 * $2 * $3 + messages / 4))
}

# The arguments of a program, with N, R, M and P replaced.
fill() {
	fill_n=$1 fill_r=$2 fill_m=$3
	shift 3
	for word; do
		case $word in
		N) word=$fill_n;;
		R) word=$fill_r;;
		M) word=$fill_m;;
		P) word=$procs;;
		esac
		echo "$word"
	done
}

# One measurement: leaves in $seconds what the program printed, or nothing.
# It runs in the background, because a shell that waits for a foreground
# program does not hear a signal. If memory runs out, it shall be the one that
# is killed. What took all the time or memory is not tried in the next run.
cell() {
	what="$1, N = $n, R = $r"
	shift
	case $lost in
	*"$what;"*)
		say "$what: not tried again"
		return;;
	esac
	began=$(date +%s)
	running=yes
	(
		echo 1000 2>/dev/null >/proc/self/oom_score_adj
		exec $timeout "$@" 3>&-
	) </dev/null >"$tmp/out" 2>"$tmp/err" &
	{ wait $!; } 2>/dev/null
	status=$?
	running=''
	if [ $status -eq 0 ]; then
		read_seconds
	else
		say "$what: $(reason)"
		case $status in
		124 | 137) lost="$lost$what;";;
		esac
	fi
}

read_seconds() {
	seconds=$(cat "$tmp/out")
	case $seconds in
	*[!0-9.]* | *.*.* | .* | *. | '') ;;
	*[1-9]*) return;;
	esac
	say "$what: not seconds: \"$(echo "$seconds" | head -n 1)\""
	seconds=''
}

reason() {
	case $status in
	124 | 137)
		if [ $(($(date +%s) - began)) -ge "$limit" ]; then
			echo "more than $limit s"
			return
		fi
	esac
	case $status in
	137)	how='killed, perhaps there is not enough memory';;
	129 | 1[3-5]?)	how="killed by SIG$(kill -l "$status")";;
	*)	how="exit $status";;
	esac
	echo "$how: $(tail -n 1 "$tmp/err")" | sed 's/: $//'
}

# Says once of each program that is not there what would bring it.
absent() {
	while read -r name _ package program _; do
		[ -x "$bin/$program" ] && continue
		case $program in
		peers/*) target='make peers';;
		*)	 target='make';;
		esac
		say "$name: $program is missing: $target (package $package)"
	done <<EOF
$columns
EOF
}

# The progress: a bar on a terminal, elsewhere what a line begins with.
progress() {
	printf 'run %d of %d, N = %d, R = %d: %s' "$run" "$runs" "$n" "$r" \
		"$((100 * done / total))% done$(left)"
}

left() {
	past=$(($(date +%s) - start))
	if [ $past -gt 0 ] && [ "$done" -gt 0 ]; then
		echo ", $((past * (total - done) / done)) s left"
	fi
}

bar() {
	printf '\r\033[K[%-10s] %s (%s)' "$(printf "%.$((10 * done / total))s" \
		'##########')" "$(progress)" "$1" >&2
}

wipe() {
	if [ "$terminal" ]; then printf '\r\033[K' >&2; fi
}

finish() {
	say "$((filled + empty)) cells in $(($(date +%s) - start)) s, \
$empty empty"
	[ "$filled" -gt 0 ]
}

# The comment that says where the numbers come from.
about() {
	echo "# bench.sh${*:+ $*}, $(date -u +%Y-%m-%dT%H:%M:%SZ)"
	echo "# processor: $(cpu), $procs available, governor $(governor)"
	echo "# memory: $(memory), load $(load)"
	echo "# system: $(uname -srm)"
	compilers
	echo "# commit: $(commit)"
	while read -r name heat _ command; do
		echo "# $name: $heat, $command" | sed "s/ P\$/ $procs/"
	done <<EOF
$columns
EOF
}

cpu() {
	first "$(sed -n 's/^model name.*: //p' /proc/cpuinfo 2>/dev/null)" \
		"$(sysctl -n machdep.cpu.brand_string 2>/dev/null)" \
		"$(lscpu 2>/dev/null | sed -n 's/^Model name: *//p')" \
		"$(uname -m)"
}

governor() {
	first "$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor \
		2>/dev/null)" unknown
}

memory() {
	first "$(awk '/^MemTotal:/ { printf "%.1f GiB", $2 / 1048576 }' \
		/proc/meminfo 2>/dev/null)" unknown
}

load() {
	first "$(cut -d ' ' -f 1 /proc/loadavg 2>/dev/null)" unknown
}

compilers() {
	for c in gcc clang g++ go rustc; do
		case $c in
		go)	version=$(go version 2>/dev/null);;
		*)	version=$($c --version 2>/dev/null | head -n 1);;
		esac
		if [ "$version" ]; then echo "# $c: $version"; fi
	done
}

commit() {
	hash=$(git -C "$dir" rev-parse --short=12 HEAD 2>/dev/null) || hash=none
	if [ -n "$(git -C "$dir" status --porcelain -uno 2>/dev/null)" ]; then
		hash="$hash, with changes"
	fi
	echo "$hash"
}

# The first line of the first argument that is not empty.
first() {
	for text; do
		if [ "$text" ]; then
			echo "$text" | head -n 1
			return
		fi
	done
}

# Temporary files, the time limit, and what a signal does. It may arrive where
# stderr is shut to what the shell has to say of killed programs: hence 3.
prepare() {
	timeout='' running='' lost=''
	if command -v timeout >/dev/null; then
		timeout="timeout -k 5 $limit"
	else
		say 'no timeout (package coreutils): cells have no time limit'
	fi
	exec 3>&2
	tmp=$(mktemp -d) || exit 1
	trap 'rm -rf "$tmp"' EXIT
	trap 'stop 129' HUP
	trap 'stop 130' INT
	trap 'stop 141' PIPE
	trap 'stop 143' TERM
}

stop() {
	trap '' HUP INT PIPE TERM
	exec 2>&3
	say 'interrupted'
	if [ "$running" ]; then
		kill "${!-}" 2>/dev/null
		{ wait; } 2>/dev/null
	fi
	exit "$1"
}

main "$@"
