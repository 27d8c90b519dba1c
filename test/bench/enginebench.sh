#!/bin/sh
# SPDX-License-Identifier: MIT
# enginebench.sh: each program of bench/engine answers each question, or says
# that it has no counterpart; all tasks have run exactly once, or the program
# fails. A task that is lost, or runs twice, is found. What is no question ends
# with 2 and a sentence. bench/run.py makes its table, and tells what is wrong
# with what it reads, or is asked. A peer that is not built is
# skipped by name.

cd "$(dirname "$0")/../../bench/engine" || exit 1
. ../../test/run/count

# 0 or not, what
must() {
	judge $(($1 != 0)) "$2" "$dir/out" "$dir/err"
}

# The exit is 0, and there is a line for each suffix; or it is 77, and may be.
ask() { # may be none, suffixes, program, HOW, NAME, N, P
	none=$1 suffixes=$2
	shift 2
	timeout 60 "$@" >"$dir/out" 2>"$dir/err"
	status=$?
	for suffix in $suffixes; do
		[ $status = 0 ] || break
		grep -qE "^$3\.$suffix -?[0-9]+\.[0-9]+\$" "$dir/out"
		status=$?
	done
	[ $status = 77 ] && [ "$none" = yes ] && status=0
	must $status "$*"
}

answers() { # may be none, program, HOW
	for p in 1 2; do
		ask no 'per_s cpu_ns' "$2" "$3" empty 2001 $p
		ask no 'per_s cpu_ns' "$2" "$3" work:100 1001 $p
		ask "$1" 'per_s cpu_ns' "$2" "$3" submit:3 2001 $p
		ask "$1" 'p50_us p99_us' "$2" "$3" half:5000 100 $p
		ask "$1" 'p50_us p99_us' "$2" "$3" urgent:1000 10 $p
		ask "$1" 'bytes queue_ns run_ns' "$2" "$3" queued 2001 $p
		[ $2 = go/tasks ] ||
			ask "$1" queue_ns "$2" "$3" batch:300 1001 $p
	done
	ask no steps "$2" "$3" steps 20 1
}

refuses() { # program, HOW
	for bad in '' x "$2 empty 1" "$2 empty 0 1" "$2 empty 1 0" \
		   "$2 empty x 1" "$2 empty 1 -1" "$2 empty 1 1 1" \
		   "$2 nothing 1 1" "$2 work 1 1" "$2 work:0 1 1" \
		   "$2 work:x 1 1" "$2 empty:1 1 1" "x empty 1 1" \
		   "$2 empty 99999999999999999999 1"; do
		# shellcheck disable=SC2086 # words
		timeout 5 "$1" $bad >"$dir/out" 2>"$dir/err"
		[ $? = 2 ] && grep -q '^usage: ' "$dir/err"
		must $? "$1 $bad: not refused"
	done
	timeout 5 "$1" "$2" submit:65 1 1 >"$dir/out" 2>"$dir/err"
	case $? in
	1 | 77)	must 0 ;;
	*)	must 1 "$1: too many submitters: not refused" ;;
	esac
}

# The pool with an error planted: the program finds it.
finds() { # times, what sed does
	sed -e "$2" -e 's,"../tasks.h","tasks.h",' pool/pool.c >"$dir/wrong.c"
	${CC:-cc} -O2 -std=gnu11 -D_GNU_SOURCE -I. -o "$dir/wrong" \
		"$dir/wrong.c" -pthread 2>"$dir/err"
	must $? "$2: not compiled"
	timeout 10 "$dir/wrong" one empty 100 2 >"$dir/out" 2>"$dir/err"
	[ $? = 1 ] && grep -q "has run $1 times" "$dir/err"
	must $? "$2: not found"
}

# All programs that there are, by run.py.
measures() {
	command -v python3 >/dev/null || { echo 'skip run.py: no python3'; return; }
	timeout 60 python3 ../run.py engine --built --quick --only empty --to "$dir/to" \
		>"$dir/out" 2>"$dir/err"
	must $? run.py
	[ "$(grep -cE '^empty empty.per_s [12] (ours|many|pool) [0-9]' \
		"$dir/to/engine.txt")" = 6 ] &&
		grep -q '^| empty | 1 | [0-9]' "$dir/to/engine.md"
	must $? 'run.py: the table'
	while read -r what args; do
		# shellcheck disable=SC2086 # words
		python3 ../run.py $args >"$dir/out" 2>"$dir/err"
		[ $? -gt 0 ] && grep -q "$(echo "$what" | tr _ ' ')" "$dir/err"
		must $? "run.py $args: not refused"
	done <<-END
		no_such_column:_none engine --built --by none
		no_such_question:_none engine --built --only none --to $dir/to
		invalid_choice nothing
		not_a_line_of_results:_a_line engine --from $dir/bad
		No_such_file engine --from $dir/none
	END
	doubts
}

# Ratios are of a round, and what differs much has a ?; what else ran is told.
doubts() {
	cat >"$dir/good" <<-'END'
		# others: 0.50 of 2 processors
		empty empty.per_s 1 ours 1e6 - 3e6
		empty empty.per_s 1 pool 1e6 1e6 1e6
	END
	python3 ../run.py engine --from "$dir/good" >"$dir/out" 2>"$dir/err"
	must $? 'run.py --from'
	grep -qF '| empty | 1 | 2? [1, 3] x2.00 | 1 [1, 1] |' "$dir/out"
	must $? 'run.py: a cell of doubt'
	grep -q '^1 of 2 cells have a ?' "$dir/out"
	must $? 'run.py: counts cells of doubt'
	grep -q 'other programs used 0.50 of 2 processors' "$dir/err"
	must $? 'run.py: tells what else ran'
}

echo 'a line' >"$dir/bad"
for folder in ours pool; do
	make -s -C $folder >"$dir/out" 2>"$dir/err"
	must $? "make -C $folder"
done
make -s -C openmp >/dev/null 2>&1	# skipped below if there is none
finds 2 's/(void)j.j_f(j.j_arg);/(void)j.j_f(j.j_arg), j.j_f(j.j_arg);/'
finds 0 's/(void)j.j_f(j.j_arg);/if (j.j_arg != seen + 50) j.j_f(j.j_arg);/'
for program in ours pool openmp; do
	if [ -x $program/tasks ]; then
		none=$([ $program = openmp ] && echo yes || echo no)
		answers $none $program/tasks one
		refuses $program/tasks one
	else
		echo "skip bench/engine/$program: not built (bench/run.py engine)"
	fi
done
for program in ours pool; do
	for p in 1 2; do
		ask no 'per_s cpu_ns' $program/tasks many empty 2001 $p
		ask no 'per_s cpu_ns' $program/tasks many submit:3 2001 $p
		ask no 'bytes queue_ns run_ns' $program/tasks many queued 2001 $p
		ask no queue_ns $program/tasks many batch:1000 2001 $p
	done
done
if [ -x go/tasks ]; then
	answers no go/tasks channel
	answers yes go/tasks each
	refuses go/tasks each
else
	echo 'skip bench/engine/go: not built (bench/run.py engine)'
fi
measures
counted
