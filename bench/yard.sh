#!/bin/sh
# SPDX-License-Identifier: MIT
# yard.sh: prints after how many runs the simulator finds each error of bench/yard/.
#
#	yard.sh [OPTION ...]
#
# Each program with each of its errors is searched from five first seeds (STARTS), 1,000
# seeds each (SEEDS), with these options of the search. "-": not found. CC is the compiler.

cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
CC=${CC:-cc} SEEDS=${SEEDS:-1000}
STARTS=${STARTS:-1 100001 200001 300001 400001}

build() { # name
	"$CC" -std=gnu11 -O1 -g -Iinclude -c "bench/yard/$1.c" -o "$dir/$1.o" &&
	"$CC" -nostdlib -r @ext/sim/sim.flags "$dir/$1.o" -o "$dir/$1.all.o" &&
	"$CC" "$dir/$1.all.o" libusched_sim.a libusched.a -pthread -o "$dir/$1" || exit 1
}

# Prints the runs until an error was found, or "-".
found() { # program, error, first seed, options ...
	program=$1 error=$2 from=$3
	shift 3
	env "$(echo "$program" | tr a-z A-Z)_BUG=$error" "$dir/$program" --seeds "$SEEDS" \
		--from "$from" "$@" | awk -v from="$from" '
		$1 == "seed" && $3 == "FAILED:" && !nr	{ nr = $2 - from + 1 }
		END { print nr ? nr : "-" }'
}

make -s libusched.a libusched_sim.a || exit 1
for program in leases commit views; do
	build $program
	for error in 1 2 3 4 5 6 7 8 9 10; do
		printf '%s %s' $program $error
		for from in $STARTS; do
			printf ' %s' "$(found $program $error "$from" "$@")"
		done
		echo
	done
done | awk -v most="$SEEDS" '
	{
		line = "| " $1 " " $2 " |"
		nr = 0
		for (i = 3; i <= NF; i++) {
			line = line " " $i " |"
			found[i] += $i != "-"
			this = $i == "-" ? most + 1 : $i
			for (k = nr++; k > 0 && sorted[k - 1] > this; k--)
				sorted[k] = sorted[k - 1]
			sorted[k] = this
		}
		middle = sorted[int(nr / 2)]
		print line " " (middle > most ? "-" : middle) " |"
		fflush()
		starts = NF
	}
	END {
		line = "| found |"
		for (i = 3; i <= starts; i++)
			line = line " " found[i] " |"
		print line " |"
	}'
