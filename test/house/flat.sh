#!/bin/sh
# SPDX-License-Identifier: MIT
# flat.sh: all sources and headers of the library, copied to one folder (the
# dispatcher by `make single`), build by cc *.c, without options and without
# warnings, and the program runs. So they
# do in the hard mode, and there with sanitizers, which report nothing.
#
# CC is the compiler, CFLAGS are more options for it, RUN goes before each
# program (an emulator).

cd "$(dirname "$0")/../.." || exit 1
. test/run/count

# Says cc OPTIONS *.c in the folder, and runs the program.
flat() { # name of the example, options
	example=$1; shift
	sed 's,^#include <usched/\(.*\)>,#include "\1",' "examples/$example.c" \
		>"$dir/flat/main.c"
	if (
		cd "$dir/flat" && rm -f a.out &&
		${CC:-cc} "$@" ${CFLAGS:-} ./*.c >../log 2>&1 &&
		[ ! -s ../log ] && timeout 60 ${RUN:-} ./a.out >../got 2>>../log
	) && diff "examples/$example.expected" "$dir/got" >>"$dir/log"; then
		echo "ok    cc $* *.c ($example)"
		pass
	else
		fail "cc $* *.c ($example)" "$dir/log"
	fi
}

# Are there programs like this here, with these options?
makes() { # program, options
	echo "$1" >"$dir/small.c"
	shift
	${CC:-cc} "$@" ${CFLAGS:-} "$dir/small.c" -o "$dir/small" &&
		${RUN:-} "$dir/small"
} >/dev/null 2>&1

mkdir "$dir/flat" &&
${MAKE:-make} -s single TO="$dir/flat" && ln -s . "$dir/flat/private" &&
cp rr.[ch] ll.[ch] lib/base/*.[ch] lib/wait/*.[ch] lib/proc/*.[ch] lib/steal/*.[ch] \
	lib/io/*.[ch] lib/debug/*.[ch] lib/start/*.[ch] lib/engine/uengine.h \
	include/usched/all.h "$dir/flat" || exit 1
if ! makes 'int _Unwind_Find_FDE(void *, void *); int main(void)
    { char b[64]; return _Unwind_Find_FDE(0, b); }'; then
	skip 'utrace.c, upreempt.c: no unwinder (Debian: not for musl)'
	rm "$dir/flat/utrace.c" "$dir/flat/upreempt.c"
fi
flat hello
flat files -Wall -Wextra -Werror
flat files -O2 -DUSCHED_HARD -Wall -Wextra -Werror
flat files -O2 -DUSCHED_PORTABLE -Wall -Wextra -Werror
for san in address thread; do
	if makes 'int main(void) { return 0; }' -fsanitize=$san; then
		flat hello -O1 -g -fsanitize=$san -DUSCHED_HARD
	else
		skip "-fsanitize=$san: makes no program that runs here"
	fi
done
counted
