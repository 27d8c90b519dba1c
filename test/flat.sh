#!/bin/sh
# SPDX-License-Identifier: MIT
# flat.sh: all sources and headers of the library, copied to one folder, build
# by cc *.c, without options and without warnings, and the program runs. So they
# do in the hard mode, and there with sanitizers, which report nothing.
#
# CC is the compiler, CFLAGS are more options for it, RUN goes before each
# program (an emulator).

cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
passed=0 failed=0 skipped=0

# Says cc OPTIONS *.c in the folder, and runs the program.
flat() { # name of the example, options
	example=$1; shift
	cp "examples/$example.c" "$dir/flat/main.c"
	if (
		cd "$dir/flat" && rm -f a.out &&
		${CC:-cc} "$@" ${CFLAGS:-} ./*.c >../log 2>&1 &&
		[ ! -s ../log ] && timeout 60 ${RUN:-} ./a.out >../got 2>>../log
	) && diff "examples/$example.expected" "$dir/got" >>"$dir/log"; then
		echo "ok    cc $* *.c ($example)"
		passed=$((passed + 1))
	else
		echo "FAIL  cc $* *.c ($example)"
		head -n 30 "$dir/log"
		failed=$((failed + 1))
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
cp usched.[ch] rr.[ch] ll.[ch] wait/*.[ch] io/*.[ch] proc/*.[ch] steal/*.[ch] extra/*.[ch] \
	"$dir/flat" || exit 1
if ! makes 'int _Unwind_Find_FDE(void *, void *); int main(void)
    { char b[64]; return _Unwind_Find_FDE(0, b); }'; then
	echo 'skip  utrace.c, upreempt.c: no unwinder (Debian: not for musl)'
	skipped=1
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
		echo "skip  -fsanitize=$san: makes no program that runs here"
		skipped=$((skipped + 1))
	fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && [ $passed != 0 ]
