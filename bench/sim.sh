#!/bin/sh
# SPDX-License-Identifier: MIT
# sim.sh: prints simulated seconds, and seeds, of a second of cpu time.
#
#	sim.sh [TREE]
#
# The program is examples/sim/raft.c, with two clients, 40 operations a second, a
# minute and no faults. It runs 60 seeds with one process at a time, five times; TREE
# is another tree of usched, whose simulator runs in turn with ours. cpu time has the
# forks and all that the system does for a run. CC is the compiler, with -O2.

cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
CC=${CC:-cc}

build() { # tree, name
	sed -e 's/NODES = 3, CLIENTS = 3/NODES = 3, CLIENTS = 2/' \
		-e 's/ENTRIES = 2000/ENTRIES = 6000/' \
		-e 's/end = 22 \* UTIME_S/end = 59 * UTIME_S/' \
		-e 's/usim_random(200000)/usim_random(70000)/' \
		-e 's/w->w_faults = 40/w->w_faults = 0/' \
		"$1/examples/sim/raft.c" >"$dir/$2.c" &&
	(cd "$1" && make -s libusched.a libusched_sim.a) &&
	"$CC" -std=gnu11 -O2 -I"$1/include" -c "$dir/$2.c" -o "$dir/$2.o" &&
	"$CC" -nostdlib -r @"$1/ext/sim/sim.flags" "$dir/$2.o" -o "$dir/$2.all.o" &&
	"$CC" "$dir/$2.all.o" "$1/libusched_sim.a" "$1/libusched.a" -pthread \
		-o "$dir/$2" || exit 1
}

run() { # name
	("$dir/$1" --seeds 60 --jobs 1; times) | awk -v name="$1" '
		/simulated seconds/ { seconds = $3 }
		/^[0-9]+m[0-9.]+s / {
			cpu = 0
			for (i = 1; i <= 2; i++) {
				split($i, part, /[ms]/)
				cpu += 60 * part[1] + part[2]
			}
		}
		END { print name, seconds / cpu, 60 / cpu }'
}

build . ours
[ -z "${1:-}" ] || build "$1" other
for round in 1 2 3 4 5; do
	run ours
	[ -z "${1:-}" ] || run other
done | sort -k1,1 -k2,2n | awk '
	{ nr[$1]++; seconds[$1, nr[$1]] = $2; seeds[$1, nr[$1]] = $3 }
	END {
		print "| simulator | simulated s | least | most | seeds of a minute |"
		print "|---|--:|--:|--:|--:|"
		for (name in nr)
			printf "| %s | %.0f | %.0f | %.0f | %.0f |\n", name,
				seconds[name, 3], seconds[name, 1],
				seconds[name, 5], seeds[name, 3]
	}'
echo "load $(cut -d ' ' -f 1-3 /proc/loadavg)"
