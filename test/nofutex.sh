#!/bin/sh
# SPDX-License-Identifier: MIT
# nofutex.sh: on a system without futexes, processors sleep on a condition
# variable (park.h). The library, and the tests that sleep most, are built as on
# such a system, and run. There s_fail makes its clock fail, too.

cd "$(dirname "$0")/.." || exit 1
. test/layout
. test/count

build() {
	${CC:-cc} -std=gnu11 -O2 -g -Wall -Wextra $includes "$@"
}

for module in usched uwait umem uproc rr ll ws ucall; do
	build -include test/nolinux.h -c -o "$dir/$module.o" $(where $module.c) || exit 1
done

# The test would show nothing if a program called futex(2) after all.
if nm "$dir"/*.o 2>/dev/null | grep -qw syscall; then
	echo "the library calls syscall()"
	exit 1
fi

for test in s_park s_count s_dead s_join s_fail; do
	libs=$(sed -n '1,5s|^/\* LIBS: \(.*\) \*/$|\1|p' test/$test.c)
	if build -include test/nolinux.h -DRR -o "$dir/$test" test/$test.c \
		"$dir"/*.o -pthread $libs && "$dir/$test"; then
		pass
	else
		fail "$test"
	fi
done
counted
