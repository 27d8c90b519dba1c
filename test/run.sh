#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh: runs tests, and counts them. A test passes with status 0, is skipped
# with 77 (its last line says why), and fails with any other status. A script
# may be followed by arguments. If its last line is "N passed, N failed[, N
# skipped]", these counts are added.

passed=0 failed=0 skipped=0
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT

for test in "$@"; do
	name=${test##*/}
	case $test in
	*.sh*)	sh $test >"$log" 2>&1;;
	*)	"$test" >"$log" 2>&1;;
	esac
	status=$?
	last=$(tail -n 1 "$log")
	counts=$(expr "x$last" : 'x\([0-9]* passed, [0-9]* failed.*\)$')
	case $status in
	0)	echo "ok      $name${counts:+ ($counts)}"
		sed -n 's/^skip/	skip/p' "$log";;
	77)	echo "skipped $name: $last";;
	*)	echo "FAILED  $name (status $status)"
		sed 's/^/	/' "$log";;
	esac
	if [ "$counts" ]; then
		set -- $(echo "$counts" | tr -dc '0-9 ')
		passed=$((passed + $1)) failed=$((failed + $2))
		skipped=$((skipped + ${3:-0}))
		# a failure that was not counted
		[ "$status" = 0 ] || [ "$2" != 0 ] || failed=$((failed + 1))
	elif [ "$status" = 0 ]; then
		passed=$((passed + 1))
	elif [ "$status" = 77 ]; then
		skipped=$((skipped + 1))
	else
		failed=$((failed + 1))
	fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
