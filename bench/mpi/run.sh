#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh: measures mpi/: messages between two ranks, beside MPI by hand and in
# native threads; bytes; buffers; and a tree in virtual time.
#
#	bench/mpi/run.sh [--quick] [--rounds K] [--to FOLDER] [openmpi] [mpich]
#	bench/mpi/run.sh --from FOLDER
#
# --quick	do the programs of rings work? One round of few messages
# --rounds	5. Programs take turns in each round; what takes long has 3
# --to		where to put mpi.txt and mpi.md: in bench/results/, a folder
#		named after the date, the machine and the commit
# --from	only the table, of mpi.txt there
#
# Each line of mpi.txt is: MPI, question, program, round, and the answer. The
# table in mpi.md has medians, and the least and the most. The machine should be
# quiet: each rank has a cpu, and tests all the time.

cd "$(dirname "$0")/../.." || exit 1
. test/layout
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none
rounds=5 part=1 to='' from='' names=''

main() {
	options "$@"
	if [ "$from" ]; then
		table <"$from/mpi.txt"
		return
	fi
	dir=$(mktemp -d) || exit 1
	trap 'rm -rf "$dir"' EXIT
	trap 'exit 1' HUP INT TERM
	make -s libusched.a || exit 1
	to=${to:-bench/results/$(date -u +%Y-%m-%d)-$(./bench.sh --machine)-$(
		git rev-parse --short HEAD)}
	mkdir -p "$to" && measure >"$to/mpi.txt" &&
		table <"$to/mpi.txt" >"$to/mpi.md" && cat "$to/mpi.md" &&
		ls "$to"/mpi.*
}

options() {
	while [ $# -gt 0 ]; do
		case $1 in
		--quick)	rounds=1 part=100;;
		--rounds)	rounds=$2; shift;;
		--to)		to=$2; shift;;
		--from)		from=$2; shift;;
		-*)		sed -n '3,17s/^# \{0,1\}//p' bench/mpi/run.sh >&2
				exit 2;;
		*)		names="$names $1";;
		esac
		shift
	done
}

measure() {
	about
	simulated
	for mpi in ${names:-openmpi mpich}; do
		if command -v mpicc.$mpi >/dev/null &&
		    command -v mpirun.$mpi >/dev/null; then
			programs && all
		else
			echo "# skipped: no mpicc.$mpi, mpirun.$mpi"
			echo "skip $mpi: no mpicc.$mpi, mpirun.$mpi" >&2
		fi
	done
}

about() {
	echo "# $(date -u +%Y-%m-%dT%H:%M:%SZ), commit $(git rev-parse \
		--short HEAD), $(./bench.sh --machine), load" \
		"$(cut -d ' ' -f 1 /proc/loadavg)"
	for mpi in openmpi mpich; do
		command -v mpirun.$mpi >/dev/null && echo "# $mpi:" \
			"$(mpirun.$mpi --version 2>&1 | sed -n '1s/ *$//p
			s/^ *Version: */version /p' | tr '\n' ' ')"
	done
}

# MPICH's MPI_STATUSES_IGNORE is an address that gcc takes for an array.
build() { # program, source, further files and flags
	program=$1 source=$2; shift 2
	mpicc.$mpi -std=gnu11 -O2 -g -Wno-stringop-overflow $CFLAGS \
		-Ibench/mpi $includes "bench/mpi/$source.c" "$@" \
		-o "$dir/$program.$mpi" -pthread
}

programs() {
	ours='mpi/umpi.c mpi/uprofile.c libusched.a'
	for program in mmain waiters buffers; do
		build $program $program $ours || exit 1
	done
	build raw raw && build native native &&
		build locked raw -DLEVEL=MPI_THREAD_SERIALIZED || exit 1
	case $mpi in
	openmpi) bind='--use-hwthread-cpus --bind-to hwthread';;
	*)	bind='-bind-to hwthread';;
	esac
}

# Prints the answer of a program; nothing, with a message, if it has none.
answer() { # ranks, program, arguments
	nr=$1 program=$2; shift 2
	timeout 60 mpirun.$mpi $bind -n $nr "$dir/$program.$mpi" "$@" \
		2>/dev/null || echo "run.sh: $mpi, $program $*: no answer" >&2
}

ring() { # question, program, N, R, M: messages a second
	m=$(($5 / part))
	[ $m -gt 0 ] || m=1
	seconds=$(answer 2 $2 $3 $4 $m 0 1)
	[ -z "$seconds" ] || echo "$mpi $1 $2 $round" \
		"$(awk "BEGIN { printf \"%.0f\", $3 * $4 * $m / $seconds }")"
}

all() {
	round=0
	while [ $((round += 1)) -le $rounds ]; do
		for program in raw locked mmain native; do
			ring one $program 2 1 300000
			ring one $program 2 1 300000
		done
		for program in raw locked mmain; do
			ring many $program 2 1000 100
		done
		[ $round -le 3 ] && [ $part = 1 ] || continue
		ring many native 2 1000 1
		for program in raw locked mmain; do
			ring most $program 2 10000 5
		done
		memory
	done
}

memory() {
	nr=100000
	echo "$mpi bytes request $round $(answer 1 waiters $nr requests)"
	echo "$mpi bytes thread $round $(answer 1 waiters $nr)"
	for how in heap stack lane; do
		for size in 8 1024; do
			set -- $(answer 1 buffers $how 1000 $size 40)
			echo "$mpi buffer-$size $how $round $1"
			echo "$mpi buffer-bytes-$size $how $round $2"
		done
	done
}

simulated() {
	cc -std=gnu11 -O2 $includes bench/mpi/sim.c libusched.a \
		-o "$dir/sim" -pthread || exit 1
	for ranks in 100 1000; do
		for give in 64 1024 8192; do
			[ $part = 1 ] || continue
			echo "# simulated, $ranks ranks, answers of $give:" \
				"$("$dir/sim" $ranks 2 100000 $give)"
		done
	done
}

# Ratios are those of the rates of a round, to the program `locked'.
table() {
	awk '
	function sorted(key,	i, k, t) {
		nr = n[key]
		for (i = 1; i <= nr; i++)
			v[i] = value[key, i]
		for (i = 2; i <= nr; i++)
			for (k = i; k > 1 && v[k - 1] > v[k]; k--) {
				t = v[k]; v[k] = v[k - 1]; v[k - 1] = t
			}
		return nr > 0 ? v[int((nr + 1) / 2)] : ""
	}
	function number(x) {
		if (x >= 1e6)
			return sprintf("%.2f M", x / 1e6)
		return x >= 1e4 ? sprintf("%.0f k", x / 1e3) : x + 0
	}
	function cell(key,	m) {
		m = sorted(key)
		return m == "" ? " |" : " " number(m) " (" number(v[1]) \
			" to " number(v[nr]) ") |"
	}
	function ratios(mpi, what, program,	i, key, m) {
		key = "ratio " mpi what program
		n[key] = 0
		for (i = 1; i <= n[mpi " " what " " program]; i++)
			if (value[mpi " " what " locked", i] > 0)
				value[key, ++n[key]] = value[mpi " " what " " \
					program, i] / value[mpi " " what \
					" locked", i]
		m = sorted(key)
		return m == "" ? " |" : \
			sprintf(" %.2f (%.2f to %.2f) |", m, v[1], v[nr])
	}
	function rows(mpi, what, title,		i, row) {
		row = "| " mpi ": " title " |"
		for (i = 1; i <= 4; i++)
			row = row cell(mpi " " what " " program[i])
		print row
		row = "| ratio |"
		for (i = 1; i <= 4; i++)
			row = row ratios(mpi, what, program[i])
		print row
	}
	/^#/ { print; print ""; next }
	{
		key = $1 " " $2 " " $3
		if ($5 != "")
			value[key, ++n[key]] = $5
		if (!($1 in known)) { known[$1]; list[++lists] = $1 }
	}
	END {
		split("raw locked mmain native", program, " ")
		print "Messages a second: median (least to most). Ratios" \
			" are to raw MPI of the\nsame round, initialized" \
			" as mmain is: SERIALIZED.\n"
		print "| | raw, SINGLE | raw, SERIALIZED | mmain |" \
			" native threads |"
		print "|---|---:|---:|---:|---:|"
		for (i = 1; i <= lists; i++) {
			rows(list[i], "one", "one outstanding")
			rows(list[i], "many", "1,000 outstanding")
			rows(list[i], "most", "10,000 outstanding")
		}
		if (!((list[1] " bytes thread") in n))
			exit
		print "\n| a thread that waits, bytes | with its request |" \
			" a request alone |\n|---|---:|---:|"
		for (i = 1; i <= lists; i++)
			print "| " list[i] " |" cell(list[i] " bytes thread") \
				cell(list[i] " bytes request")
		print "\n| 1,000 pairs of threads, a buffer on | the heap |" \
			" the stack | the stack, own lanes |"
		print "|---|---:|---:|---:|"
		for (i = 1; i <= lists; i++)
			for (size = 8; size <= 1024; size += 1016) {
				buffers("buffer-" size, "cpu ns of a message")
				buffers("buffer-bytes-" size, "resident bytes")
			}
	}
	function buffers(what, title) {
		print "| " list[i] ", " size " bytes: " title " |" \
			cell(list[i] " " what " heap") \
			cell(list[i] " " what " stack") \
			cell(list[i] " " what " lane")
	}'
}

main "$@"
