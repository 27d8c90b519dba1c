#!/bin/sh
# SPDX-License-Identifier: MIT
# size.sh: prints the bytes of code and data, as rows of a table.
#
# Of usched.c, as make single writes it; of all objects of the library; and what
# the linker takes of the library for programs that do nothing in a thread. The
# compiler is CC, with -O2.

cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
CC=${CC:-cc}

# Prints a row: the sums of size(1), less those of the first file if -.
row() { # name, files
	name=$1
	shift
	size "$@" | awk -v name="$name" -v less="$less" '
		NR > 1 { sign = less && NR == 2 ? -1 : 1; t += sign * $1
			 d += sign * $2; b += sign * $3 }
		END { printf "| %s | %d | %d | %d |\n", name, t, d, b }'
}

program() { # name, text
	printf '%s\n' "$2" >"$dir/$1.c"
	# shellcheck disable=SC2046 # words
	"$CC" -O2 -o "$dir/$1" "$dir/$1.c" $(make -s flags) || exit 1
}

less=
make -s single TO="$dir" && make -s libusched.a || exit 1
"$CC" -O2 -std=gnu11 -c -o "$dir/usched.o" "$dir/usched.c" || exit 1
echo '| bytes | code | data | zeroed |'
echo '|---|--:|--:|--:|'
row '`usched.c`' "$dir/usched.o"
row 'the library' libusched.a
less=1
program nothing 'int main(void) { return 0; }'
for s in rr ll ws; do
	program $s "#include \"usched/$s.h\"
	static void f(void *arg) { (void)arg; }
	int main(void)
	{
		return ${s}_init(1, 0) || !$(case $s in
		ll) echo 'll_thread_init(f, 0, 0)';;
		*) echo "${s}_thread_on(0, f, 0)";; esac) ||
			${s}_start() || ${s}_fini();
	}"
	row "a program of \`$s.h\`" "$dir/nothing" "$dir/$s"
done
program main '#include "usched/umain.h"
	static int f(void *arg) { return arg != 0; }
	int main(void) { return usched_main(f, 0); }'
row 'a program of `umain.h`' "$dir/nothing" "$dir/main"
