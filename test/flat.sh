#!/bin/sh
# SPDX-License-Identifier: MIT
# flat.sh: all sources and headers of the library, copied to one folder, build by
# cc *.c, without options and without warnings, and the program runs. So they do
# in the hard mode, and in the hard mode with sanitizers, which report nothing.
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

# Are there programs with these options here?
makes() { # options
	echo 'int main(void) { return 0; }' >"$dir/empty.c"
	${CC:-cc} "$@" ${CFLAGS:-} "$dir/empty.c" -o "$dir/empty" &&
		${RUN:-} "$dir/empty"
}

mkdir "$dir/flat" &&
cp usched.[ch] rr.[ch] ll.[ch] proc/*.[ch] steal/*.[ch] extra/*.[ch] \
	"$dir/flat" || exit 1
flat hello
flat files -Wall -Wextra -Werror
flat files -O2 -DUSCHED_HARD -Wall -Wextra -Werror
flat files -O2 -DUSCHED_PORTABLE -Wall -Wextra -Werror
for san in address thread; do
	if makes -fsanitize=$san >/dev/null 2>&1; then
		flat hello -O1 -g -fsanitize=$san -DUSCHED_HARD
	else
		echo "skip  -fsanitize=$san: makes no program that runs here"
		skipped=$((skipped + 1))
	fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && [ $passed != 0 ]
