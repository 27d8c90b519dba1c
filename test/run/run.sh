#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh: runs tests, and counts them. A test passes with status 0, is skipped
# with 77 (its last line says why), and fails with any other status. A script
# may be followed by arguments. If its last line is "N passed, N failed[, N
# skipped]", these counts are added.
#
# JOBS tests run at a time, in the order given: one more than there are processors,
# because many of them wait.
# On a terminal, a line says how many have passed; else each has a line, and one
# that runs for LIMIT seconds fails. What has failed is told at once, and again at
# the end, in some 40 lines.

# Runs a test, reports it at once, and adds a line to $dir/counts.
one() { # test
	name=${1##*/}
	log=$(mktemp "$dir/log.XXXXXX") || exit 1
	began=$(date +%s)
	limit=
	[ -t 1 ] || limit="timeout -k 9 ${LIMIT:-2700}"
	case $1 in
	# shellcheck disable=SC2086 # arguments
	*.sh*)	$limit sh $1 >"$log" 2>&1;;
	*)	$limit "$1" >"$log" 2>&1;;
	esac
	status=$?
	[ -z "$limit" ] || [ $status != 124 ] || echo 'it has no end' >>"$log"
	last=$(tail -n 1 "$log")
	counts=$(expr "x$last" : 'x\([0-9]* passed, [0-9]* failed.*\)$')
	report $((($(date +%s) - began))) >"$log.report"
	count >>"$dir/counts"
	if [ -t 1 ]; then
		progress
	else
		cat "$log.report"
	fi
	case $(head -n 1 "$log.report") in
	FAILED*)	mv "$log.report" "$log.failed";;
	*)		rm "$log.report";;
	esac
	rm "$log"
}

report() { # seconds
	time=
	[ "$1" -lt 10 ] || time=", $1 s"
	case $status in
	0)	echo "ok      $name${counts:+ ($counts)}$time"
		sed -n 's/^skip/	skip/p' "$log";;
	77)	echo "skipped $name: $last";;
	*)	echo "FAILED  $name (status $status)$time"
		sed 's/^/	/' "$log";;
	esac
}

count() {
	passed=0 failed=0 skipped=0
	if [ "$counts" ]; then
		# shellcheck disable=SC2046 # three numbers
		set -- $(echo "$counts" | tr -dc '0-9 ')
		passed=$1 failed=$2 skipped=${3:-0}
	elif [ "$status" = 0 ]; then
		passed=1
	elif [ "$status" = 77 ]; then
		skipped=1
	fi
	case $status in
	0|77)	;;
	*)	[ "$failed" != 0 ] || failed=1;;	# what was not counted
	esac
	echo $passed $failed $skipped
}

# For a person: what is not ok stays, and one line tells the rest.
progress() {
	printf '\r\033[K'
	grep -q '^ok' "$log.report" || cat "$log.report"
	printf '%d of %d: %s' "$(wc -l <"$dir/counts")" "$given" "$name"
}

# All names, and what each test says about its failure. The end of a long log
# often is all that is read, so it is short.
failures() {
	set -- "$dir"/log.*.failed
	[ -e "$1" ] || return
	{
		echo "$# of $given failed:"
		head -q -n 1 "$@" | sed 's/^FAILED  //; s/ (status.*//'
	} | tr '\n' ' ' | fold -s -w 79
	echo
	each=$((30 / $# + 1))
	for log; do
		head -n 1 "$log"
		{	# a mutant that was found says CHECK(...), too
			grep -v '^	found' "$log" | grep -E -A 2 \
				'^	(FAIL|fail|.*CHECK\(|.*error: |	got |	again: )' ||
				tail -n +2 "$log" | tail -n $each
		} | grep -vx -e -- | head -n $each
	done | cut -c 1-200 | head -n 30
}

if [ "$1" = --one ]; then
	dir=$2 given=$3
	one "$4"
	exit 0
fi

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

given=$#
: >"$dir/counts"
printf '%s\0' "$@" | xargs -0 -n 1 -P "${JOBS:-$(($(getconf _NPROCESSORS_ONLN) + 1))}" \
	sh "$0" --one "$dir" "$given"
[ ! -t 1 ] || printf '\r\033[K'
failures
awk -v given="$given" '
	{ passed += $1; failed += $2; skipped += $3 }
	END {
		if (NR != given) {	# a test without a report
			failed += given - NR
		}
		printf "%d passed, %d failed, %d skipped\n",
			passed, failed, skipped
		exit failed > 0 || passed == 0
	}' "$dir/counts"
