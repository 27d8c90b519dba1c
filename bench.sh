#!/bin/sh
# SPDX-License-Identifier: MIT
# bench.sh: runs the ring benchmark of every program that we have.
#
# R rings of N threads pass M rounds of messages; a program prints the seconds
# that its run took. Here each (N, R, M) is one line of such seconds, each program
# a column, and graph.py makes the tables and the plot of any number of lines:
#
#	./bench.sh | tee -a results; python3 graph.py plot.svg results
#
# Lines of other kinds begin with their name. Three come after the rings: how
# often the threads of a ring blocked, the seconds to make and run empty threads,
# and the bytes of threads that are blocked at once (see bench.h). Three serve
# the comparison of few columns, and are measured more often:
#
#	turns	 rings again, with D more bytes on each stack; D is in the line
#	steady	 the same, as the seconds of 3 * M rounds less those of M: a slope,
#		 of cold columns
#	wrap	 two threads that block below other calls (see wrap.c)
#
# bench/results/targets.py compares these with what is wanted.
#
# A cell is empty when its program failed or is missing, stderr says why; and in
# the lines that have another M than the column: slow programs send fewer
# messages. Lines are printed when they are complete: what is interrupted leaves
# whole lines. All columns of one line are measured one after the other, and the
# whole range again for the next run, so that a change of the machine meets them
# all alike.
#
# Our programs are in out/bin, others in bench/peers. $BENCH_DIR has both instead.
# Columns with OLD in their name run programs from the folder of --against. With
# AGAINST=TREE, make builds them in build/against, from this benchmark and the
# library of that tree.

set -uf
export LC_ALL=C

# The columns, in their order: name; hot, where a thread that is woken runs next,
# so that one ring runs while the others wait, cold, where all threads take turns,
# mixed, or empty, if the program makes empty threads only; the part of the
# messages that it sends, 1 for all, 10 for a tenth; the package that brings the
# compiler if the program is missing; the program, its D and its P. P is the
# number of processors, which each column without 1T in its
# name uses (but RUST and those of Python, which have one native thread). FP calls
# usched_share_fp(). The names up to UL are the article's.
columns='
POSIX	mixed	100	gcc	bench/peers/posix/posix		0	P
GO	mixed	10	golang-go	bench/peers/go/ring		0	P
GO1T	mixed	10	golang-go	bench/peers/go/ring		0	1
RUST	cold	10	cargo	bench/peers/tokio/tokio-current	0	1
C++	cold	1	g++	bench/peers/coro/coro-fifo		0	P
C++1T	cold	1	g++	bench/peers/coro/coro-fifo		0	1
U	cold	1	gcc	rmain				0	P
U1K	cold	1	gcc	rmain				1000	P
U10K	cold	2	gcc	rmain				10000	P
U1T	cold	1	gcc	rmain				0	1
U1TS	cold	1	gcc	rmain.1t			0	1
UL	hot	1	gcc	lmain				0	P
UL1T	hot	1	gcc	lmain				0	1
UW	hot	1	gcc	wmain				0	P
UW1T	hot	1	gcc	wmain				0	1
STACK10K cold	2	gcc	bench/peers/stackful/stackful-fifo	10000	P
C++10K	cold	2	g++	bench/peers/coro/coro-fifo		10000	P
GOB	mixed	10	golang-go	bench/peers/go/ring-buffered		0	P
GOB1T	mixed	10	golang-go	bench/peers/go/ring-buffered		0	1
RUSTMT	mixed	10	cargo	bench/peers/tokio/tokio-multi		0	P
C++H1T	hot	1	g++	bench/peers/coro/coro-lifo		0	1
BOOST1T	cold	10	libboost-fiber-dev bench/peers/boost/fiber	0	1
UCTX1T	cold	10	gcc	bench/peers/ucontext/ucontext		0	1
STACK1T	cold	1	gcc	bench/peers/stackful/stackful-fifo	0	1
STACKH1T hot	1	gcc	bench/peers/stackful/stackful-lifo	0	1
U1TFP	cold	1	gcc	rmain.fp			0	1
UL1TFP	hot	1	gcc	lmain.fp			0	1
U1TOLD	cold	1	gcc	against/rmain			0	1
UL1TOLD	hot	1	gcc	against/lmain			0	1
ASYNCIO	empty	100	python3	bench/peers/python/empty-asyncio	0	1
UVLOOP	empty	100	python3-uvloop bench/peers/python/empty-uvloop	0	1
GEVENT	empty	100	python3-gevent bench/peers/python/empty-gevent	0	1
'
# Those that README.md and the slide show (bench/results/readme.py).
shown='UL1T UW1T C++H1T STACKH1T U1T C++1T STACK1T BOOST1T RUST GO1T POSIX'
# Those that have lines of turns, and, if cold, of steady; and those of wrap.
in_turn='C++1T C++H1T STACK1T STACKH1T U U1T U1TFP U1TOLD UL UL1T UL1TFP UL1TOLD
	UW UW1T'
wrapped='U1T U1TFP U1TOLD UL1T UL1TFP UL1TOLD UW1T'

usage() {
	cat <<EOF
usage: bench.sh [--wide | --full | --short | --targets] [--runs K] [--plan]
                [--only COLUMN,...] [--hot | --cold] [--limit S]
                [--against FOLDER]
       bench.sh --machine
  (none)    what README.md shows: rings of two of few columns, 3 runs, a minute
            and a half; fewer runs if that takes too long
  --wide    all columns up to 200000 threads, 3 runs, four minutes
  --full    R from 2 to 1000000 and M as in the article, 3 runs, and --targets
            besides: an hour
  --short   a few small R, 1 run, some seconds: do the programs work?
  --targets only what targets.py reads, of few columns, 9 runs, a quarter of an
            hour
  --runs K  measure K times (what takes long, once)
  --plan    the lines with 1 in each cell that would be measured; runs nothing
  --against columns OLD, of the programs in this folder
  --machine prints a name of this machine, for a file, and ends
  --only    these columns, of
$(names | fold -s -w 60 | sed 's/^/            /; s/ *$//')
  --hot     only columns where a thread that is woken runs next
  --cold    only columns where all threads take turns
  --limit S a program may take S seconds for one cell (300)
EOF
}

# M is LEAST + MESSAGES / (N * R): many messages where the threads are few, and
# some rounds where they are many; --full gives the M of the article. A column
# that sends a part has a part of this M, but FEWEST if M allows. CROWD empty
# threads are made, and each of MANY are blocked at once. There are rings up to
# MOST threads in all. Those of more than LARGE are measured in the first run
# only, what is no ring in the first ONCE runs. No run begins that would end
# later than WITHIN seconds. The lines of TURNS, each a kind
# and its numbers, are measured TURNING times. Where these are more than HUGE
# threads, they are measured in the first ONCE runs, too.
wide() {
	within=''
	sizes='2 8 100 1000 10000 100000'
	rings='2 8'
	runs=3 least=10 fewest=20 messages=10000000
	most=200000 large=10000 crowd=500000 many=100000 once=1
	turning=3 turns=$(wraps 2000000) huge=1000000
	further='blocks empty blocked' focus=''
}

usual() {
	wide
	rings=2 sizes='2 10000 100000' large=$most once=$runs
	messages=40000000
	turning=0 turns='' further=blocked focus=$shown within=110
}

full() {
	targets
	further='blocks empty blocked' focus=''
	sizes='2 4 8 50 100 500 1000 5000 10000 50000 100000 500000 1000000'
	runs=3 least=100 fewest=30 messages=8000000
	most=8000000 large=500000 crowd=500000
}

short() {
	wide
	sizes='2 100 1000'
	runs=1 fewest=10 messages=20000 crowd=1000 many=1000
	turning=1
	turns="$(wraps 1000)
	turns 2 2 1000 0
	turns 2 100 10 10000
	steady 2 1000 100 0"
}

# M is such that a slow column runs for some tenths of a second.
targets() {
	wide
	sizes='' many='100000 1000000' once=3 further=blocked focus=$in_turn
	turning=9
	turns="$(wraps 10000000)
	turns 2 2 10000000 0
	turns 8 2 4000000 0
	turns 2 100 200000 0
	turns 2 200 100000 0
	turns 2 500 20000 0
	turns 2 2000 5000 0
	turns 2 10000 1000 0
	turns 2 100000 100 0
	turns 2 500000 80 0
	turns 2 1000000 40 0
	turns 2 8000 200 1000
	turns 2 1000 400 10000
	steady 2 10000 500 0
	steady 2 500000 40 0
	steady 2 1000 2000 10000
	steady 2 8000 100 10000"
}

wraps() {
	for where in 1 2 3 4; do
		echo "wrap $where $1"
	done
}
blocks_r=100 blocks_m=1000

main() {
	usual
	only='' heat='' repeat='' limit=300 against='' dry=''
	procs=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) || procs=1
	options "$@"
	runs=${repeat:-$runs}
	if [ "$repeat" ]; then within=''; fi
	if [ "$turns" ]; then turning=${repeat:-$turning}; fi
	only=${only:-$focus}
	dir=$(dirname "$0")
	bin=${BENCH_DIR:-$dir}
	memory_kib=$(awk '/^MemTotal:/ { print $2 }' /proc/meminfo 2>/dev/null)
	memory_kib=${memory_kib:-1000000000000}
	choose
	terminal=''
	if [ -t 2 ] && [ "${TERM:-dumb}" != dumb ]; then terminal=yes; fi
	prepare
	about "$@"
	[ "$dry" ] || absent
	total=0 done=0 filled=0 empty=0 titled=''
	each_run weigh
	start=$(date +%s)
	busy_before=$(busy)
	if [ "$dry" ]; then
		each_run line 2>/dev/null
		return
	fi
	each_run line
	quiet
	finish
}

each_run() {
	run=0
	last=$((runs > turning ? runs : turning))
	while [ $((run += 1)) -le $last ]; do
		began_run=$(date +%s)
		plan "$1"
		[ "$1" = line ] && [ "$run" -lt $last ] && [ "$within" ] || continue
		now=$(date +%s)
		[ $((2 * now - began_run - start)) -le "$within" ] || {
			say "no time for run $((run + 1)) of $last"
			break
		}
	done
}

options() {
	while [ $# -gt 0 ]; do
		case $1 in
		--wide)		wide;;
		--full)		full;;
		--short)	short;;
		--targets)	targets;;
		--machine)	machine; exit 0;;
		--plan)		dry=yes;;
		--against)	[ -d "${2:-}" ] || bad '--against needs a folder'
				against=$2; shift;;
		--hot | --cold)	heat=${1#--};;
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

# Leaves in $columns those that --only names, and of these the hot or cold ones.
choose() {
	columns=$(echo "$columns" | sed "/^\$/d; s/P\$/$procs/")
	names=$(names)
	only=$(echo "$only" | tr , ' ')
	for c in $only; do
		among "$c" "$names" || bad "no such column: $c"
	done
	columns=$(echo "$columns" | while read -r name hot rest; do
		among "$name" "${only:-$name}" || continue
		[ "$hot" = "${heat:-$hot}" ] || continue
		case $against,$name in
		,*OLD)	;;
		*)	echo "$name $hot $rest";;
		esac
	done)
	[ "$columns" ] || bad 'there is no such column (OLD needs --against)'
	parts=$(echo "$columns" | awk '$2 != "empty" { print $3 }' | sort -nu)
}

# Is the first argument among the words of the second?
among() {
	for word in $2; do
		[ "$word" != "$1" ] || return 0
	done
	return 1
}

names() {
	echo "$columns" | awk 'NF { printf "%s%s", sep, $1; sep = " " }'
}

# What there is to measure: calls $1 with the kind and the numbers of each line.
plan() {
	if [ "$run" -le "$runs" ]; then plan_rings "$1"; fi
	if [ "$run" -le $once ]; then plan_further "$1"; fi
	if [ "$run" -le "$turning" ]; then plan_turns "$1"; fi
}

plan_rings() {
	for n in $rings; do
		for r in $sizes; do
			nr=$((n * r))
			[ $nr -le $most ] || continue
			[ $nr -le $large ] || [ "$run" = 1 ] || continue
			"$1" ring "$n" "$r" $((least + messages / nr))
		done
	done
}

plan_further() {
	for rest in $further; do
		case $rest in
		blocks)	"$1" blocks 2 $blocks_r $blocks_m
			"$1" blocks 8 $blocks_r $blocks_m;;
		empty)	"$1" empty $crowd;;
		blocked) for nr in $many; do "$1" blocked "$nr"; done;;
		esac
	done
}

plan_turns() {
	while read -r what a b numbers; do
		[ "$what" = wrap ] || [ $((a * b)) -le $huge ] ||
			[ "$run" -le $once ] || continue
		# shellcheck disable=SC2086 # words
		"$1" "$what" "$a" "$b" $numbers
	done <<EOF
$turns
EOF
}

# Adds a line to the total, in the unit of the progress: messages, and as many
# again as the start of the programs, or what is no ring, may be worth.
weigh() {
	total=$((total + $(weight "$@")))
}

weight() {
	case $1 in
	ring | turns) echo $(($2 * $3 * $4 + messages / 4));;
	steady)	echo $(($2 * $3 * $4 * 4 + messages / 2));;
	wrap)	echo $(($3 * 2 + messages / 4));;
	blocks)	echo $((messages / 4));;
	*)	echo $((messages * 4));;
	esac
}

# The lines of all columns for these numbers: one for each part of the messages.
line() {
	kind=$1
	doing=$(doing "$@")
	weight=$(weight "$@")
	shift
	these=$(answering)
	if [ -z "$these" ]; then
		done=$((done + weight))
		return
	fi
	[ "$terminal" ] || say "$(progress)"
	header "$1"
	part=any
	case $kind in
	ring)	for part in $parts; do
			cells "$1" "$2" "$(rounds "$3")"
		done;;
	*)	cells "$@";;
	esac
	done=$((done + weight))
}

# Those of a part of M: FEWEST at least, but not more than M.
rounds() {
	m=$(($1 / part))
	if [ $m -lt $fewest ]; then m=$fewest; fi
	if [ $m -gt "$1" ]; then m=$1; fi
	echo "$m"
}

doing() {
	case $1 in
	ring)	echo "N = $2, R = $3";;
	turns | steady) echo "$1, N = $2, R = $3, D = $5";;
	wrap)	echo "wrap $2";;
	blocks)	echo "blocks, N = $2";;
	*)	echo "$2 $1";;
	esac
}

# The columns that have lines of this kind.
answering() {
	echo "$columns" | while read -r name hot rest; do
		case $kind in
		turns)	among "$name" "$in_turn";;
		steady)	[ "$hot" = cold ] && among "$name" "$in_turn";;
		wrap)	among "$name" "$wrapped";;
		empty)	;;
		*)	[ "$hot" != empty ];;
		esac && echo "$name $hot $rest"
	done
}

# Once for each kind and, of rings, each N.
header() {
	case $kind in
	ring)	title=$1 first='N R M';;
	turns | steady) title=$kind first="$kind N R M D";;
	wrap)	title=$kind first="$kind WHERE M";;
	blocks)	title=$kind first='blocks N R M';;
	*)	title=$kind first="$kind NR";;
	esac
	[ "$title" != "$titled" ] || return 0
	titled=$title text=''
	for word in $first; do
		join 7 "$word"
	done
	while read -r name _; do
		join 10 "$name"
	done <<EOF
$these
EOF
	wipe
	echo "$text"
}

# Appends a word to the line that is being made.
join() {
	text="${text:+$text, }$(printf "%$1s" "$2")"
}

# A line: of the columns that send this part; the others are empty.
cells() {
	text=''
	if [ $kind != ring ]; then join 7 $kind; fi
	for word; do
		join 7 "$word"
	done
	while read -r name _ mine _ program d p; do
		value=''
		if [ $part = any ] || [ $part = "$mine" ]; then cell "$@"; fi
		join 10 "$value"
	done <<EOF
$these
EOF
	wipe
	echo "$text"
}

# Of the column that cells() has read. Empty threads have no D.
cell() {
	[ $kind != empty ] || [ "$d" = 0 ] || return 0
	if [ $kind = wrap ]; then program=$(wrapper "$program"); fi
	path=$(path "$program")
	if [ "$dry" ]; then
		value=1
		return
	fi
	if [ ! -x "$path" ]; then
		empty=$((empty + 1))
		return
	fi
	if [ "$terminal" ]; then bar "$name"; fi
	case $kind in
	ring)	 enough $(($1 * $2 * d)) && measure "$@" "$d" "$p";;
	blocks)	 measure blocks "$@" "$d" "$p";;
	empty)	 measure empty "$@" "$p";;
	blocked) enough $(($1 * d)) && measure blocked "$@" "$d" "$p";;
	turns)	 enough $(($1 * $2 * $4)) && measure "$@" "$p";;
	steady)	 enough $(($1 * $2 * $4)) && slope "$@" "$p";;
	wrap)	 measure "$@";;
	esac
	if [ "$value" ]; then
		filled=$((filled + 1))
	else
		empty=$((empty + 1))
	fi
}

path() {
	case $1 in
	against/*) echo "$against/${1#*/}";;
	bench/*)   echo "$bin/$1";;
	*)	   echo "${BENCH_DIR:-$dir/out/bin}/$1";;
	esac
}

# The program like this, with wrappers: lwrap.fp for lmain.fp.
wrapper() {
	echo "${1%main*}wrap${1##*main}"
}

# Can there be stacks of so many bytes? To find out by trying takes long.
enough() {
	[ $(($1 / 1024)) -gt "$memory_kib" ] || return 0
	say "$name, $doing: the stacks alone are more than the memory"
	return 1
}

# Who is first to need much memory may have to wait until the machine has found
# it, so one run of empty threads goes before the timed one; but not of a program
# that is slow.
warms_up() {
	[ $kind = empty ] && [ "$mine" -lt 100 ]
}

# N R M D P: leaves in $value the seconds of 3 * M rounds less those of M, so
# what happens once is not in it: the start, the first touch of the memory.
slope() {
	measure "$@"
	[ "$value" ] || return 0
	short=$value
	measure "$1" "$2" $((3 * $3)) "$4" "$5"
	[ "$value" ] || return 0
	value=$(awk "BEGIN { s = $value - $short; if (s > 0) printf \"%f\", s }")
	[ "$value" ] || say "$what: more rounds take no more time"
}

# One measurement: leaves in $value what the program printed, or nothing.
# What took all the time or memory is not tried in the next run. (143 is 124 of
# busybox's timeout.)
measure() {
	what="$name, $doing"
	case $lost in
	*"$what;"*)
		say "$what: not tried again"
		return;;
	esac
	run_program "$@"
	if [ $status -eq 0 ] && warms_up; then run_program "$@"; fi
	if [ $status -eq 0 ]; then
		result
		return
	fi
	say "$what: $(reason)"
	case $status in
	124 | 137 | 143) lost="$lost$what;";;
	esac
}

# Leaves its exit $status. It runs in the background, because a shell that waits
# for a foreground program does not hear a signal. If memory runs out, it shall
# be the one that is killed.
run_program() {
	began=$(date +%s)
	running=yes
	(
		echo 1000 2>/dev/null >/proc/self/oom_score_adj
		exec $timeout "$path" "$@" 3>&-
	) </dev/null >"$tmp/out" 2>"$tmp/err" &
	{ wait $!; } 2>/dev/null
	status=$?
	running=''
}

# Seconds are not 0; a number of blocks or bytes is whole.
result() {
	value=$(cat "$tmp/out")
	case $kind,$value in
	*,*[!0-9.]* | *.*.* | *,.* | *. | *,) ;;
	blocks,*.* | blocked,*.*) ;;
	blocks,* | *[1-9]*) return;;
	esac
	say "$what: not a result: \"$(echo "$value" | head -n 1)\""
	value=''
}

reason() {
	case $status in
	124 | 137 | 143)
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
	while read -r name _ _ package program _; do
		missing "$program"
		[ "$turns" ] && among "$name" "$wrapped" &&
			missing "$(wrapper "$program")"
	done <<EOF
$columns
EOF
}

missing() {
	[ ! -x "$(path "$1")" ] || return 0
	case $1 in
	bench/peers/*) target='make peers';;
	against/*) target='make against AGAINST=TREE';;
	*.fp | *wrap) target='make timed';;
	*)	 target='make';;
	esac
	say "$name: $1 is missing: $target (package $package)"
}

# The progress: on a terminal a bar in one line, which is written over; elsewhere
# what is said before each line.
progress() {
	printf 'run %d of %d, %s: %s' "$run" "$last" "$doing" "$(percent)"
}

percent() {
	past=$(($(date +%s) - start))
	printf '%d%% done' $((100 * done / total))
	if [ $past -gt 0 ] && [ "$done" -gt 0 ]; then
		printf ', %d s left' $((past * (total - done) / done))
	fi
}

# What counts most comes first: a narrow terminal does not show the end.
bar() {
	shown=$(printf '[%-10s] %s, run %d of %d, %s (%s)' \
		"$(printf "%.$((10 * done / total))s" '##########')" \
		"$(percent)" "$run" "$last" "$doing" "$1")
	printf "\r\033[K%.$(room)s" "$shown" >&2
}

# The characters that fit in a line: in its last column some terminals wrap.
room() {
	for wide in "${COLUMNS:-}" "$(tput cols <&2 2>/dev/null)" 80; do
		case $wide in
		'' | 0* | *[!0-9]* | ?????*) ;;
		*)	echo $((wide - 1))
			return;;
		esac
	done
}

wipe() {
	if [ "$terminal" ]; then printf '\r\033[K' >&2; fi
}

# Ticks of programs and the kernel, and of other virtual machines. Interrupts are
# left out, since the kernel may charge them to no program.
busy() {
	awk '/^cpu / { print $2 + $3 + $4 + $9 }' /proc/stat \
		2>/dev/null
}

# Says how many processors other programs used on average, if the kernel tells:
# what was busy less the time of our children, which times prints last.
quiet() {
	seconds=$(($(date +%s) - start))
	[ "$busy_before" ] && [ $seconds -gt 0 ] || return 0
	times >"$tmp/times"
	others=$(tail -n 1 "$tmp/times" | tr ms '  ' | awk -v procs="$procs" \
		-v ticks=$(($(busy) - busy_before)) -v seconds=$seconds \
		-v hertz="$(getconf CLK_TCK)" '{
		used = ticks / hertz - ($1 + $3) * 60 - $2 - $4
		printf "%.2f of %d processors", (used > 0) * used / seconds, procs
	}')
	echo "# others: $others"
	[ "$(awk "BEGIN { print (${others%% *} > $procs * 0.05) }")" = 1 ] || return 0
	say "other programs used $others: these figures are not to be trusted"
}

finish() {
	say "$((filled + empty)) cells in $(($(date +%s) - start)) s, \
$empty empty"
	[ "$filled" -gt 0 ]
}

# The comment that says where the numbers come from.
about() {
	echo "# bench.sh${*:+ $*}, $(date -u +%Y-%m-%dT%H:%M:%SZ)"
	echo "# processor: $(cpu)$(family), $procs available, \
governor $(governor)"
	echo "# memory: $(memory), load $(load)"
	echo "# system: $(uname -srm), $(libc)"
	compilers
	echo "# commit: $(commit)"
	if [ "$against" ]; then
		echo "# OLD: commit $(first "$(cat "$against/commit" \
			2>/dev/null)" unknown)"
	fi
	while read -r name hot part _ program d p; do
		asked="N R M $d $p, 1/$part of M"
		case $hot in
		empty)	asked="empty NR $p";;
		esac
		echo "# $name: $hot, $program ${asked%, 1/1 of M}"
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

# A virtual machine may give many processors the same name.
family() {
	for key in 'cpu family' model; do
		value=$(sed -n "s/^$key[	 ]*: //p" /proc/cpuinfo \
			2>/dev/null | head -n 1)
		if [ "$value" ]; then printf ', %s %s' "$key" "$value"; fi
	done
}

# amd-epyc-26-2-2cpu: the processor, its family and model, how many.
machine() {
	echo "$(cpu)$(family) ${procs}cpu" | sed 's/([RTM]*)//g; s/@.*Hz//
		s/, [a-z ]* \([0-9]\)/ \1/g' | tr -cs 'A-Za-z0-9.\n' - |
		tr A-Z a-z
}

governor() {
	first "$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor \
		2>/dev/null)" unknown
}

memory() {
	huge=$(cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null)
	echo "$((memory_kib / 1024)) MiB, huge pages ${huge:-unknown}"
}

libc() {
	first "$(getconf GNU_LIBC_VERSION 2>/dev/null)" \
		"$(ldd --version 2>&1 | head -n 2 | tr '\n' ' ')" 'unknown libc'
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
	python=$(sed -n '1s/^#!//p' "$bin/bench/peers/python/empty-asyncio" \
		2>/dev/null)
	if [ -x "$python" ]; then echo "# python: $("$python" --version)"; fi
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

main "$@"; exit
