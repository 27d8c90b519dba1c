#!/bin/sh
# SPDX-License-Identifier: MIT
# nolinux.sh: what is there for other systems than Linux does what the rest does.
# The library, and the tests that sleep most or use descriptors, are built as on
# such a system, and run: with poll(2), and with a stand-in for kqueue(2); with
# lanes (USCHED_LANES), and without. There fail makes its clock fail, too.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

sleeps='park count dead join fail call_plain'
descriptors='io io_event io_fair io_reuse io_storm io_there net
	serve signal child file'

# build FLAG...: compiles for the variant $flags.
build() {
	# shellcheck disable=SC2086 # words
	${CC:-cc} -std=gnu11 -O1 -g -Wall -Wextra $includes $flags \
		-include test/whole/nolinux.h "$@"
}

library() {
	rm -f "$dir"/*.o
	for module in usched $modules; do
		build -c -o "$dir/$module.o" "$(where $module.c)" || return 1
	done
	# The tests would show nothing if a program called futex(2) after all.
	if nm "$dir"/*.o | grep -qw syscall; then
		echo "the library calls syscall()"
		return 1
	fi
}

# try TEST...: builds each for rr, and runs it.
try() {
	for test; do
		source=$(test_of $test)
		libs=$(sed -n '1,5s|^/\* LIBS: \(.*\) \*/$|\1|p' $source)
		# shellcheck disable=SC2086 # words
		if build -DRR -o "$dir/$test" $source "$dir"/*.o -pthread \
			-lm $libs && "$dir/$test"; then
			pass
		else
			fail "$test $flags"
		fi
	done
}

for flags in '-DUSCHED_LANES' '' '-DUSCHED_LANES -DUIO_KQUEUE -Itest/whole/kqueue'; do
	if ! library; then
		fail "the library $flags"
		continue
	fi
	case $flags in
	*KQUEUE*) ;;
	*) try $sleeps ;;
	esac
	try $descriptors
done
counted
