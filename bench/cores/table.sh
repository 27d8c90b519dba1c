#!/bin/sh
# SPDX-License-Identifier: MIT
# table.sh: what operations cost other processors, for some numbers of them, as tables
# in Markdown. Ten minutes on two cpus.
#
#	bench/cores/table.sh [P ...]

cd "$(dirname "$0")" || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

make -s || exit 1
[ "$1" ] || set -- 1 2 4 8 16 32 64
for mode in alone all idle; do
	for sched in rr ws; do
		for p; do
			./cores-$sched $mode "$p" | sed "s/^/$sched	$p	/" \
				>>"$dir/$mode" || exit 1
		done
	done
done

# table MODE FIELD: a line for an operation, a column for each number of processors.
table() {
	awk -F '\t' -v field="$2" '
	{
		row = $1 ": " $3
		if (!(row in seen)) {
			seen[row] = 1
			rows[++nr] = row
		}
		if (!($2 in columns)) {
			columns[$2] = 1
			order[++of] = $2
		}
		cell[row, $2] = $(3 + field)
		if ($(3 + field) >= 0.0005)
			some[row] = 1
	}
	END {
		printf "| P |"
		for (i = 1; i <= of; i++)
			printf " %d |", order[i]
		printf "\n|---|"
		for (i = 1; i <= of; i++)
			printf "--:|"
		print ""
		for (r = 1; r <= nr; r++) {
			if (!(rows[r] in some))
				continue
			printf "| %s |", rows[r]
			for (i = 1; i <= of; i++) {
				v = cell[rows[r], order[i]]
				printf v < 0.005 ? " 0 |" : v < 10 ? " %.2f |" : \
					" %.0f |", v
			}
			print ""
		}
	}' "$dir/$1"
}

for mode in alone all idle; do
	n=0
	for what in 'Operations that read and write' 'Misses' 'Looks' 'membarrier' 'futex'
	do
		n=$((n + 1))
		printf '\n%s, %s:\n\n' "$what" "$mode"
		table $mode $n
	done
done
