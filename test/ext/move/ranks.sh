#!/bin/sh
# SPDX-License-Identifier: MIT
# ranks.sh: threads that move between ranks of MPI, with mail, saves, kills and
# loads at random, give the results of threads that stay (ext/move/ranks.c). Under each
# MPI of the machine, with 1 to 4 ranks; rr and ll, gcc and clang, and in the hard
# mode, which moves each slice. What cannot move is refused by name. The examples
# give the same results on any ranks, also after a SIGKILL.
#
#	test/ext/move/ranks.sh [SEED]
#
# CFLAGS are more options for the compiler.

cd "$(dirname "$0")/../../.." || exit 1
. test/run/layout
. test/run/blocks
. test/run/count

ulimit -c 0
unset USCHED_DEBUG USCHED_STACKS MAKEFLAGS
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
seed=${1:-$(date +%s)}
core="usched.c uhard.c rr.c ll.c ws.c $waits uscope.c uthread.c $syncs uproc.c ucall.c
	umem.c uio.c upoll.c"
move='umove.c uprogram.c unumber.c urefuse.c usave.c uheap.c umail.c'
core="$core $move"
ours='ext/mpi/umpi.c ext/mpi/uprofile.c ext/mpi/uerrors.c ext/move/ranks.c'
fixed='-fno-pie -fno-stack-protector'

main() {
	[ "$(uname -sm)" = 'Linux x86_64' ] ||
		{ echo 'skipped: not Linux on x86-64'; exit 77; }
	echo "seed $seed"
	cc=${CC:-cc}
	if objects plain '' && objects hard -DUSCHED_HARD; then
		stays
		for mpi in openmpi mpich; do
			if have mpicc.$mpi && have mpirun.$mpi; then
				all
			else
				skip "$mpi: no mpicc.$mpi, mpirun.$mpi"
			fi
		done
	fi
	counted
}

options='-std=gnu11 -O2 -g -Wall -Wextra -Werror -Wno-stringop-overflow
	-Wno-stringop-overread -Wno-unknown-warning-option'

objects() { # folder, flags: the library, compiled once for all
	mkdir "$dir/$1"
	for file in $(where $core); do
		$cc $options $fixed $CFLAGS $includes $2 -c "$file" \
			-o "$dir/$1/$(basename "$file").o" ||
			{ fail "$1: $file"; return 1; }
	done
}

# The results of threads that stay, without an MPI.
stays() {
	$cc $options $fixed -no-pie $CFLAGS $includes -Itest/ext/move test/ext/move/saves.c \
		"$dir"/plain/*.o -o "$dir/saves" @ext/move/move.flags -pthread -lm
	try 'threads that stay' timeout 120 "$dir/saves" "$dir/want" 60
}

# Compiles ext/mpi/ and ranks.c once for all programs of an MPI.
profile() { # folder, flags
	mkdir "$dir/$1.d.$mpi"
	for file in $ours; do
		mpicc.$mpi $options $fixed $CFLAGS $includes $2 -c $file \
			-o "$dir/$1.d.$mpi/$(basename $file).o" || return
	done
}

compile() { # program, sources, flags, what follows
	OMPI_CC=$cc MPICH_CC=$cc mpicc.$mpi $options $CFLAGS $includes -Itest/ext/move \
		$3 $2 -o "$dir/$1.$mpi" $4 -pthread -lm
}

run() { # ranks, program, arguments
	on=$1 program=$2
	shift 2
	timeout 120 mpirun.$mpi -n $on "$dir/$program.$mpi" "$@"
}

all() {
	try "$mpi: ext/mpi/" profile plain ''
	try "$mpi: ext/mpi/, hard" profile hard -DUSCHED_HARD
	linked="$dir/plain.d.$mpi/*.o $dir/plain/*.o @ext/move/move.flags"
	source=test/ext/move/ranks.c
	try "$mpi: plain" compile plain $source "-no-pie $fixed" "$linked"
	try "$mpi: ll" compile ll $source "-no-pie $fixed -DLL" "$linked"
	try "$mpi: hard" compile hard $source "-no-pie $fixed -DUSCHED_HARD" \
		"$dir/hard.d.$mpi/*.o $dir/hard/*.o @ext/move/move.flags"
	moves plain 2 4
	moves ll 2
	killed plain 12
	try "$mpi: ends" compile ends test/ext/move/ends.c "-no-pie $fixed" "$linked"
	try "$mpi: ends, hard" compile ends-hard test/ext/move/ends.c \
		"-no-pie $fixed -DUSCHED_HARD" \
		"$dir/hard.d.$mpi/*.o $dir/hard/*.o @ext/move/move.flags"
	ends ends 1 2 4
	try "$mpi: chaos" compile chaos test/ext/move/chaos.c "-no-pie $fixed" "$linked"
	try "$mpi: chaos, hard" compile chaos-hard test/ext/move/chaos.c \
		"-no-pie $fixed -DUSCHED_HARD" \
		"$dir/hard.d.$mpi/*.o $dir/hard/*.o @ext/move/move.flags"
	awk 'BEGIN { for (i = 0; i < 40; i++) print i, 150 + i % 7 * 40 }' >"$dir/steps"
	rm -f "$dir/killed" "$dir"/save*
	try "$mpi: chaos" run 3 chaos "$dir/killed" 40 $seed "$dir/save" 0
	same "$mpi: chaos, results" "$dir/killed" "$dir/steps"
	killed chaos 8 40 "$dir/steps"
	export USCHED_DEBUG=evict=always,poison,fault
	moves hard 2 4
	killed hard 6
	ends ends-hard 2
	killed chaos-hard 3 40 "$dir/steps"
	unset USCHED_DEBUG
	if have clang; then
		clang
	else
		skip 'clang: not here'
	fi
	unfit
	examples
}

# What threads that move have on their stacks is compiled by clang.
clang() {
	cc=clang
	try "$mpi: clang" compile clang "$source ext/move/ranks.c $(where $move)" \
		"-no-pie $fixed" "$(ls "$dir/plain.d.$mpi"/u*.o) $(others "$dir/plain")
			@ext/move/move.flags"
	cc=${CC:-cc}
	moves clang 2
	killed clang 4
}

# The objects of the library without those of ext/move/.
others() { # folder
	ls "$1"/*.o | grep -vE '/(umove|uprogram|unumber|urefuse|usave|umail|uheap)\.c\.o$'
}

same() { # what, results, and those of threads that stay
	sort -u "$2" >"$dir/have"
	sort "${3:-$dir/want}" >"$dir/wanted"
	if [ -s "$dir/wanted" ] && cmp -s "$dir/have" "$dir/wanted"; then
		pass
	else
		diff "$dir/have" "$dir/wanted" >"$dir/log"
		fail "$1" "$dir/log"
	fi
}

moves() { # program, ranks ...
	name=$1
	shift
	for ranks; do
		rm -f "$dir/moved"
		try "$mpi: $name, $ranks ranks" run $ranks $name "$dir/moved" 60 $seed
		same "$mpi: $name, $ranks ranks, moved" "$dir/moved"
		seed=$((seed + 1))
	done
}

ends() { # program, ranks ...
	name=$1
	shift
	for ranks; do
		try "$mpi: $name, $ranks ranks" run $ranks $name 10 $seed "$dir/beside"
		seed=$((seed + 1))
	done
}

# Each run has another number of ranks. How long it lives grows, so that there is an
# end. Two of the kills must come after a save; if the end comes before, all begins again.
killed() { # program, kills at most, threads, results
	nr=0 kills=0 runs=0 status=0
	while { [ $status != 0 ] || [ $kills -lt 2 ]; } && [ $runs -lt 100 ]; do
		[ $status != 0 ] || { nr=0; rm -f "$dir/killed" "$dir"/save*; }
		runs=$((runs + 1)) nr=$((nr + 1)) seed=$((seed + 1))
		life=$((1 + (seed * 7919 + nr * 104729) % (30000 * nr)))
		[ $nr -le $2 ] || [ $kills -lt 2 ] || life=0
		run $(((seed + nr) % 4 + 1)) $1 "$dir/killed" ${3:-60} $seed \
			"$dir/save" $life >"$dir/log" 2>&1
		status=$?
		[ $status != 0 ] && [ -e "$dir/save" ] && kills=$((kills + 1))
		grep -qE '^thread |usched:' "$dir/log" && break
		[ $status != 124 ] || break
	done
	judge $status "$mpi: $1, killed" "$dir/log"
	[ $kills -gt 1 ] && pass || fail "$mpi: $1, killed $kills times after a save"
	same "$mpi: $1, killed, and gone on" "$dir/killed" ${4:+"$4"}
}

# The program refuses to begin, with this sentence. It goes to a file, as mpirun of MPICH
# may end, 1 of 40 times, before it has copied what ranks wrote.
says() { # what, sentence
	: >"$dir/log"
	# shellcheck disable=SC2016 # the ranks expand it
	if timeout 120 mpirun.$mpi -n 2 sh -c 'exec "$0" "$1" 2 1 2>>"$2"' \
			"$dir/unfit.$mpi" "$dir/none" "$dir/log" >"$dir/said" 2>&1; then
		fail "$mpi: $1: runs"
	else
		grep -q "umove_init: threads cannot move: .*$2" "$dir/log"
		judge $? "$mpi: $1" "$dir/log"
	fi
}

unfit() {
	mkdir -p "$dir/pic"
	[ -e "$dir/libusched.so" ] || {
		for file in $(where $core); do
			$cc -std=gnu11 -fno-stack-protector $CFLAGS $includes -fPIC -c \
				"$file" -o "$dir/pic/$(basename "$file").o"
		done
		$cc -shared $(others "$dir/pic") -o "$dir/libusched.so" -pthread
	}
	if [ "$(cat /proc/sys/kernel/randomize_va_space)" != 0 ]; then
		compile unfit "$source ext/move/ranks.c" '-pie -fPIE -fno-stack-protector' \
			"$dir/pic/*.o @ext/move/move.flags"
		says PIE 'link with -no-pie'
	else
		skip 'PIE: addresses are not random here'
	fi
	compile unfit $source '-no-pie -fno-pie -fstack-protector-strong' "$linked"
	says guards 'compile with -fno-stack-protector'
	compile unfit "$source ext/move/ranks.c $(where $move)" "-no-pie $fixed" \
		"@ext/move/move.flags $dir/libusched.so"
	says 'shared library' 'link with libusched.a'
}

# As the README tells to, word for word but for the name of the program.
told() {
	commands ext/move/README.md | sed "/^cc /,/-o count/d; /^mpirun/,\$d
		s,^mpicc,mpicc.$mpi,; s,-o uneven,-o $dir/told.$mpi," | sh -e &&
	[ -x "$dir/told.$mpi" ]
}

examples() {
	try "$mpi: the commands of the README" told
	for program in uneven restart; do
		try "$mpi: $program" compile $program examples/mpi/$program.c \
			"-no-pie $fixed" "$linked"
	done
	for nr in 1 2 4; do
		run $nr uneven 32 40 | sed 's/;.*//'
	done >"$dir/sums" 2>"$dir/log"
	grep -q '^sum [1-9]' "$dir/sums" && [ "$(wc -l <"$dir/sums")" = 3 ] &&
		[ "$(sort -u "$dir/sums" | wc -l)" = 1 ]
	judge $? "$mpi: uneven" "$dir/sums" "$dir/log"
	restarts
}

# A job on 2 ranks is killed, goes on with 4, is killed, and ends with 1: more might
# take a slice of the system's scheduler for each message, which is minutes on a
# busy machine.
restarts() {
	rm -f "$dir"/job*
	run 1 restart "$dir/job" 32 30000 >"$dir/result" 2>/dev/null
	grep -q '^result [0-9a-f]*[1-9a-f]' "$dir/result"
	judge $? "$mpi: restart" "$dir/result"
	rm -f "$dir"/job*
	dies 2
	dies 4
	run 1 restart "$dir/job" 32 30000 >"$dir/again" 2>"$dir/log"
	cmp -s "$dir/result" "$dir/again" &&
		grep -q '^32 threads go on, on 1 ranks$' "$dir/log"
	judge $? "$mpi: restart after two kills" "$dir/again" "$dir/log"
}

# Ends a rank by SIGKILL after another save.
dies() { # ranks
	cp "$dir/job" "$dir/before" 2>/dev/null || : >"$dir/before"
	run $1 restart "$dir/job" 32 30000 >"$dir/killed" 2>&1 &
	job=$!
	nr=0
	while [ $nr -lt 600 ] && { [ ! -e "$dir/job" ] ||
	    cmp -s "$dir/job" "$dir/before"; }; do
		sleep 0.05
		nr=$((nr + 1))
	done
	kill -KILL "$(pgrep -f "^$dir/restart.$mpi" | head -n 1)"
	wait $job && fail "$mpi: restart on $1 ranks, killed: ends well" "$dir/killed"
	grep -q '^result' "$dir/killed" && fail "$mpi: restart on $1 ranks ended early"
	[ -s "$dir/job" ]
	judge $? "$mpi: restart on $1 ranks, killed after a save" "$dir/killed"
}

main
