#!/bin/sh
# SPDX-License-Identifier: MIT
# nolinux.sh: what is there for other systems than Linux does what the rest does.
# The library, and the tests that sleep most or use descriptors, are built as on
# such a system, and run: with poll(2), and with a stand-in for kqueue(2); with
# lanes (USCHED_LANES), and without. There s_fail makes its clock fail, too.

cd "$(dirname "$0")/.." || exit 1
. test/layout
. test/count

sleeps='s_park s_count s_dead s_join s_fail t_call_plain'
descriptors='s_io s_io_event s_io_fair s_io_reuse s_io_storm s_io_there s_net
	s_serve s_signal s_child s_file'

# build FLAG...: compiles for the variant $flags.
build() {
	# shellcheck disable=SC2086 # words
	${CC:-cc} -std=gnu11 -O1 -g -Wall -Wextra $includes $flags \
		-include test/nolinux.h "$@"
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
		libs=$(sed -n '1,5s|^/\* LIBS: \(.*\) \*/$|\1|p' test/$test.c)
		# shellcheck disable=SC2086 # words
		if build -DRR -o "$dir/$test" test/$test.c "$dir"/*.o -pthread \
			-lm $libs && "$dir/$test"; then
			pass
		else
			fail "$test $flags"
		fi
	done
}

for flags in '-DUSCHED_LANES' '' '-DUSCHED_LANES -DUIO_KQUEUE -Itest/kqueue'; do
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
