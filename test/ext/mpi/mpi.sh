#!/bin/sh
# SPDX-License-Identifier: MIT
# mpi.sh: threads that wait for MPI (ext/mpi/), on two and four ranks, under each
# MPI of the machine: Open MPI, MPICH. In test/ext/mpi each program has its claim.
# Also in the hard mode, which moves each slice. Broken contracts have a message.
# The examples of ext/mpi/ give the results of plain blocking MPI, and the programs
# of bench/mpi answer.
#
#	test/ext/mpi/mpi.sh [--full] [openmpi] [mpich]
#
# With --full also with the portable switch, in the hard mode without faults, where
# more threads have room, and the rows of sim.c that take long. CFLAGS are more
# options for the compiler, which mpicc names.

cd "$(dirname "$0")/../../.." || exit 1
. test/run/layout
. test/run/blocks
. test/run/count

ulimit -c 0
unset USCHED_DEBUG MAKEFLAGS
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
core="usched.c uhard.c rr.c ws.c $waits uscope.c uthread.c $syncs uproc.c ucall.c
	umem.c uio.c upoll.c"

main() {
	[ "$(uname -s)" = Linux ] || { echo 'skipped: not Linux'; exit 77; }
	full=
	[ "$1" != --full ] || { full=full; shift; }
	kinds=
	for mpi in ${*:-openmpi mpich}; do
		if have mpicc.$mpi && have mpirun.$mpi; then
			kinds="$kinds $mpi"
		else
			skip "$mpi: no mpicc.$mpi, mpirun.$mpi"
		fi
	done
	[ "$kinds" ] || counted
	beside objects plain '' objects hard -DUSCHED_HARD
	for mpi in $kinds; do
		build >"$dir/$mpi.built" &
	done
	wait
	try 'ranks in virtual time' simulates
	try 'make -C bench/mpi' make -s -C bench/mpi
	for mpi in $kinds; do
		while read -r rc what; do
			judge $rc "$mpi: $what" "$dir/$mpi.$what.log"
		done <"$dir/$mpi.built"
		all
	done
	counted
}

# Compiles two parts of the library at the same time.
beside() { # function, arguments 1, function, arguments 2
	"$1" "$2" "$3" >"$dir/$2.log" 2>&1 &
	try 'objects, hard mode' apart "$4" "$5" "$6"
	wait $!
	judge $? objects "$dir/$2.log"
}

# As try, for build(): a line with the status and the name.
built() { # what, command ...
	what=$1; shift
	apart "$@" >"$dir/$mpi.$what.log" 2>&1
	echo "$? $what"
}

# MPICH has constants that are addresses, which gcc takes for arrays.
compile() { # program, source, flags: all of a program but the library
	mpicc.$mpi -std=gnu11 -O1 -g -Wall -Wextra -Werror \
		-Wno-stringop-overflow -Wno-stringop-overread \
		-Wno-unknown-warning-option \
		$CFLAGS $includes -Ibench/mpi \
		$3 $2 -o "$dir/$1.$mpi" $4 -pthread
}

# As README.md tells to, word for word but for the names of both files.
told() {
	commands ext/mpi/README.md | sed "/^mpirun/,\$d; s,^mpicc,mpicc.$mpi,
		s,program.c,$dir/readme.$mpi.c,; s,-pthread,& -o $dir/told.$mpi," | sh -e &&
	[ -x "$dir/told.$mpi" ]
}

objects() { # folder, flags: the library, compiled once for all
	[ -d "$dir/$1" ] && return
	mkdir "$dir/$1" && for file in $(where $core); do
		${CC:-cc} -std=gnu11 -O2 -g -Wall -Wextra -Werror $CFLAGS \
			$includes $2 -c "$file" \
			-o "$dir/$1/$(basename "$file").o" || exit 1
	done
}

profile() { # folder, flags: ext/mpi/, compiled once for all programs of an MPI
	mkdir "$dir/$1.$mpi" && for file in $ours; do
		mpicc.$mpi -std=gnu11 -O2 -g -Wall -Wextra -Werror \
			-Wno-stringop-overflow $CFLAGS $includes $2 -c $file \
			-o "$dir/$1.$mpi/$(basename $file).o" || return
	done
}

run() { # ranks, program, arguments
	ranks=$1 program=$2; shift 2
	timeout 300 mpirun.$mpi -n $ranks "$dir/$program.$mpi" "$@"
}

passes() { # ranks, program, arguments: each rank says so
	run "$@" >"$dir/out" 2>&1
	cat "$dir/out"
	[ "$(grep -c '^rank [0-9]* passed$' "$dir/out")" = "$1" ]
}

# Open MPI does not yield beside umpi.c: on a busy machine each yield costs a slice.
unyielding() { # ranks, program, arguments
	export OMPI_MCA_mpi_yield_when_idle=0
	passes "$@"
}

allows() { # what
	timeout 60 mpirun.$mpi -n 1 "$dir/refused.$mpi" "$1" >"$dir/out" 2>&1
	rc=$?
	cat "$dir/out"
	[ $rc = 0 ] && grep -qx allowed "$dir/out"
}

refuses() { # message, what
	timeout 60 mpirun.$mpi -n 1 "$dir/refused.$mpi" "$2" >"$dir/out" 2>&1
	rc=$?
	cat "$dir/out"
	[ $rc != 0 ] && grep -q "$1" "$dir/out"
}

# Each row that sim.c prints is in doc/scale.md.
simulates() {
	${CC:-cc} -std=gnu11 -O2 -Wall -Wextra -Werror $CFLAGS $includes \
		bench/mpi/sim.c "$dir"/plain/*.o -o "$dir/sim" -pthread -lm &&
		"$dir/sim" ${full:-few} >"$dir/rows" || return
	while read -r row; do
		grep -qFx "$row" doc/scale.md || echo "not in scale.md: $row"
	done <"$dir/rows" >"$dir/missing"
	cat "$dir/missing"
	[ -s "$dir/rows" ] && [ ! -s "$dir/missing" ]
}

ours='ext/mpi/umpi.c ext/mpi/uprofile.c ext/mpi/uerrors.c'

# Programs for rr and ws, also in the hard mode.
variants='many calls every errors'

build() {
	plain="$dir/plain.$mpi/*.o $dir/plain/*.o"
	hard="$dir/hard.$mpi/*.o $dir/hard/*.o"
	built 'mpi' profile plain ''
	built 'mpi, hard mode' profile hard -DUSCHED_HARD
	for program in $variants; do
		for sched in RR WS; do
			built "$program-$sched" compile $program-$sched \
				test/ext/mpi/$program.c -D$sched "$plain"
			case $sched:$program in WS:every|WS:errors) continue ;; esac
			built "$program-$sched-hard" compile \
				$program-$sched-hard test/ext/mpi/$program.c \
				"-D$sched -DUSCHED_HARD" "$hard"
		done
	done
	for program in beside refused ends; do
		built $program compile $program test/ext/mpi/$program.c -DRR "$plain"
	done
	for program in halo tree; do
		built $program compile $program examples/mpi/$program.c '' "$plain"
	done
	built mmain compile mmain bench/mpi/mmain.c '' "$plain"
	for program in raw native; do
		built $program compile $program bench/mpi/$program.c
	done
	built strips compile strips bench/mpi/halo.c '' "$plain"
	for how in HAND NATIVE; do
		built strips-$how compile strips-$how bench/mpi/halo.c -D$how
	done
	sed -n '/^```c$/,/^```$/{//!p;}' ext/mpi/README.md >"$dir/readme.$mpi.c"
	built 'README.md' compile readme "$dir/readme.$mpi.c" '' "$plain"
	built 'the commands of README.md' told
	other_compilers
}

all() {
	tests
	texts
	contracts
	early
	examples
	rings
}

checked() { # compiler, flags: the sources, without a program
	for file in $ours; do
		OMPI_CC=$1 MPICH_CC=$1 mpicc.$mpi -std=gnu11 -O1 -Wall -Wextra \
			-Werror $CFLAGS $includes $2 -c $file \
			-o "$dir/checked.$mpi.o" || return
	done
}

other_compilers() {
	if have clang; then
		built 'clang, portable, hard' checked clang \
			'-DUSCHED_PORTABLE -DUSCHED_HARD'
	fi
	[ "$full" ] || return 0
	built 'portable' checked "${CC:-cc}" -DUSCHED_PORTABLE
	have clang && built 'clang' checked clang ''
}

tests() {
	try '10,000 threads' apart unyielding 2 many-RR 10000 1 64
	[ ! "$full" ] || try '10,000 threads, two processors' apart \
		passes 2 many-WS 5000 2 300
	try 'long messages' apart passes 2 many-RR 50 1 100000
	try 'no memory at times' apart passes 2 many-RR 300 1 64 2
	try 'no memory at times, two processors' apart passes 2 many-WS 300 2 64 2
	for ranks in 2 4; do
		try "threads, $ranks ranks" apart passes $ranks many-RR 500 1 64
		for sched in RR WS; do
			try "calls $sched, $ranks ranks, two processors" apart \
				passes $ranks calls-$sched 50 2 2
		done
		try "calls, $ranks ranks" apart passes $ranks calls-RR 50 1 2
		try "beside, $ranks ranks" apart passes $ranks beside 150
		try "every call, $ranks ranks" apart passes $ranks every-RR \
			"$dir/file"
		try "errors, $ranks ranks" apart passes $ranks errors-RR 200
	done
	for words in ${full:+evict=always,poison} evict=always,poison,fault; do
		export USCHED_DEBUG=$words
		nr=10000
		case $words in *fault) nr=2000 ;; esac
		try "threads, $words" apart passes 2 many-RR-hard $nr 1 64
		try "threads, $words, ws" apart passes 2 many-WS-hard 1000 2 64
		try "calls, $words" apart passes 2 calls-RR-hard 50 1 2
		try "calls, $words, 4 ranks" apart passes 4 calls-WS-hard 50 2 2
		case $words in *fault) hard_calls ;; esac
		unset USCHED_DEBUG
	done
	try 'every call, ws' apart passes 2 every-WS "$dir/file"
	try 'errors, ws' apart passes 2 errors-WS 200
	for handler in fatal abort; do
		try "an error ends the job: $handler" apart fatal $handler
	done
}

hard_calls() {
	try 'every call, hard' apart passes 2 every-RR-hard "$dir/file"
	try 'errors, hard, 4 ranks' apart passes 4 errors-RR-hard 200
}

fatal() { # handler: of a communicator, while MPI_COMM_WORLD returns errors
	run 2 errors-RR 200 $1 >"$dir/out" 2>&1
	rc=$?
	cat "$dir/out"
	[ $rc != 0 ] && grep -q '^usched: MPI_.*: a fatal error of MPI: .*runcated' \
		"$dir/out" && ! grep -q passed "$dir/out"
}

# The list of calls is that of the table, and the program of README.md runs.
texts() {
	try 'the list of calls in README.md' apart lists
	try 'the program of README.md runs' apart counts_no_error
}

lists() {
	sh ext/mpi/list.sh | grep . >"$dir/list"
	grep . ext/mpi/README.md | tail -n "$(wc -l <"$dir/list")" |
		diff "$dir/list" -
}

counts_no_error() {
	run 4 readme >"$dir/out" 2>&1
	cat "$dir/out"
	[ "$(grep -c '^rank [0-3]: 0 wrong$' "$dir/out")" = 4 ]
}

contracts() {
	while read -r call what; do
		try "a stack buffer: $what" apart refuses \
			"$call: the buffer is on the stack" $what
	done <<-END
	MPI_Irecv irecv
	MPI_Isend isend
	MPI_Irecv bottom
	MPI_Recv_init init
	MPI_Iallreduce iallreduce
	MPI_Iallgatherv counts
	MPI_Comm_idup idup
	MPI_Buffer_attach attach
	MPI_Win_create window
	END
	try 'partly on a stack' apart refuses 'lies partly on the stack' partly
	try 'on both sides of the stacks' apart allows allowed
	try 'a private stack' apart allows private
	try 'split' apart refuses 'MPI_Comm_split: .*needs MPI_THREAD_MULTIPLE' split
	try 'several' apart refuses 'needs MPI_THREAD_MULTIPLE' several
	try 'funneled' apart refuses 'needs MPI_THREAD_SERIALIZED' funneled
	try 'finalize' apart refuses 'MPI_Finalize: threads wait for MPI' finalize
	try 'early' apart refuses 'MPI' early
	try 'print' apart refuses 'waits: MPI_Recv, rank -[0-9]*, tag 5$' print
}

# MPICH's mpirun returns 0 if a rank exits with 0 before MPI_Finalize().
all_end() { # how: rank 1 takes rank 0 along
	run 2 ends "$1" >"$dir/out" 2>&1
	rc=$?
	cat "$dir/out"
	[ $rc != 124 ] && ! grep -q passed "$dir/out" &&
		{ [ "$1" = exit ] || [ $rc != 0 ]; }
}

early() {
	for how in exit fails abort; do
		try "a rank ends early: $how" apart all_end $how
	done
	try 'a rank ends early: finalize' apart passes 2 ends finalize
}

# The same sum for any number of strips; the tree counts itself serially, too.
same_sums() { # ranks, method
	run $1 halo 0 96 50 $2 | sed 's/ in .*//' >"$dir/plain.sum"
	run $1 halo 12 96 50 $2 | sed 's/ in .*//' >"$dir/sum"
	cat "$dir/plain.sum" "$dir/sum"
	awk '{ sum[NR] = $2 } END { d = sum[1] - sum[2]
		exit !(NR == 2 && sum[1] > 1 && d < 1e-6 && d > -1e-6) }' \
		"$dir/plain.sum" "$dir/sum"
}

examples() {
	for ranks in 2 4; do
		try "halo, heat, $ranks ranks" apart same_sums $ranks heat
		try "halo, seidel, $ranks ranks" apart same_sums $ranks seidel
		try "tree, $ranks ranks" apart run $ranks tree 4 500
	done
}

answers() { # program, arguments: a number
	run 2 "$@" >"$dir/out"
	cat "$dir/out"
	grep -qx '[0-9]*\.[0-9]*' "$dir/out" && [ "$(wc -l <"$dir/out")" = 1 ]
}

rings() {
	for program in mmain raw native; do
		try "$program answers" apart answers $program 2 3 50 0 1
	done
	try 'mmain, deep, two processors' apart answers mmain 5 4 20 500 2
	for program in strips strips-HAND strips-NATIVE; do
		for how in sendrecv waitall; do
			try "$program $how" apart answers $program $how 5 20
		done
	done
}

main "$@"
