#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh: the figures of mpi/, as lines: MPI, question, program, seconds or what
# the question says. Each question is asked ROUNDS times (5), the programs in
# turn. The machine should be quiet.
#
#	bench/mpi/run.sh [openmpi] [mpich]

cd "$(dirname "$0")/../.." || exit 1
. test/layout
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none
make -s libusched.a || exit 1

build() { # program, files
	mpicc.$mpi -std=gnu11 -O2 -g $CFLAGS -Ibench/mpi $includes \
		"bench/mpi/$1.c" $2 -o "$dir/$1" -pthread
}

ask() { # what, program, arguments
	what=$1 program=$2; shift 2
	echo "$mpi, $what, $program: $(timeout 300 mpirun.$mpi $bind -n 2 \
		"$dir/$program" "$@" 2>/dev/null || echo failed)"
}

round() {
	for program in raw mmain native; do
		ask 'seconds of 1,000,000 messages, one outstanding' \
			$program 2 1 500000 0 1
	done
	for program in raw mmain; do
		ask 'seconds of 1,000,000 messages, 1,000 outstanding' \
			$program 2 1000 500 0 1
		ask 'seconds of 200,000 messages, 10,000 outstanding' \
			$program 2 10000 10 0 1
	done
	ask 'seconds of 1,000 messages, 100 outstanding' native 2 100 5 0 1
	ask 'bytes of a thread' waiters 100000
	ask 'bytes of a request' waiters 100000 requests
}

cc -std=gnu11 -O2 $includes bench/mpi/sim.c libusched.a -o "$dir/sim" \
	-pthread || exit 1
for ranks in 100 1000; do
	for give in 64 1024 8192; do
		echo "simulated, $ranks ranks, answers of $give:" \
			"$("$dir/sim" $ranks 2 100000 $give)"
	done
done

for mpi in ${*:-openmpi mpich}; do
	command -v mpicc.$mpi >/dev/null || { echo "skip $mpi"; continue; }
	case $mpi in
	openmpi) bind='--use-hwthread-cpus --bind-to hwthread' ;;
	*)	bind='-bind-to hwthread' ;;
	esac
	ours='mpi/umpi.c mpi/uprofile.c libusched.a'
	build mmain "$ours" && build waiters "$ours" && build raw &&
		build native || exit 1
	n=${ROUNDS:-5}
	while [ $((n -= 1)) -ge 0 ]; do
		round
	done
done
