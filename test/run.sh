#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh: runs tests, and counts them. A test passes with status 0, is skipped
# with 77 (its last line says why), and fails with any other status. A script
# may be followed by arguments. If its last line is "N passed, N failed[, N
# skipped]", these counts are added.
#
# Programs run in turn, since most of them use several processors. Then scripts
# run, JOBS at a time: as many as there are processors. They mostly compile.

# Runs a test, reports it at once, and adds a line to $dir/counts.
one() { # test
	name=${1##*/}
	log=$(mktemp "$dir/log.XXXXXX") || exit 1
	began=$(date +%s)
	case $1 in
	# shellcheck disable=SC2086 # arguments
	*.sh*)	sh $1 >"$log" 2>&1;;
	*)	"$1" >"$log" 2>&1;;
	esac
	status=$?
	report $((($(date +%s) - began))) >"$log.report"
	cat "$log.report"
	count >>"$dir/counts"
	rm "$log" "$log.report"
}

report() { # seconds
	last=$(tail -n 1 "$log")
	counts=$(expr "x$last" : 'x\([0-9]* passed, [0-9]* failed.*\)$')
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
		# a failure that was not counted
		[ "$status" = 0 ] || [ "$failed" != 0 ] || failed=1
	elif [ "$status" = 0 ]; then
		passed=1
	elif [ "$status" = 77 ]; then
		skipped=1
	else
		failed=1
	fi
	echo $passed $failed $skipped
}

if [ "$1" = --one ]; then
	dir=$2
	one "$3"
	exit 0
fi

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

given=$#
for test; do
	case $test in
	*.sh*)	printf '%s\0' "$test" >>"$dir/scripts";;
	*)	one "$test";;
	esac
done
[ ! -e "$dir/scripts" ] ||
	xargs -0 -n 1 -P "${JOBS:-$(getconf _NPROCESSORS_ONLN)}" \
		sh "$0" --one "$dir" <"$dir/scripts"
awk -v given=$given '
	{ passed += $1; failed += $2; skipped += $3 }
	END {
		if (NR != given) {	# a test without a report
			failed += given - NR
		}
		printf "%d passed, %d failed, %d skipped\n",
			passed, failed, skipped
		exit failed > 0 || passed == 0
	}' "$dir/counts"
