#!/bin/sh
# SPDX-License-Identifier: MIT
# Every example, and doc/tiny.c, builds without a warning and prints what it
# should: optimised or not, with the machine's own switch and with the portable
# switch.
#
# CC is the compiler, CFLAGS are more options for it, RUN goes before each
# program (an emulator). CXX compiles the examples in C++, if it is there.

set -u
top=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
. "$top/test/run/layout"
. "$top/test/run/count"
. "$top/test/run/blocks"

main() {
	command -v "${CXX:=c++}" >/dev/null && more="$top/examples/*.cc"
	for source in "$top"/examples/*.c "$top/doc/tiny.c" ${more:-}; do
		name=$(basename "${source%.*}")
		libs=$(sed -n '1,5s|^/\* LIBS: \(.*\) \*/$|\1|p' "$source")
		if ! has_libs; then
			skip "$name: no $libs"
		elif all_builds; then
			echo "ok $name"
			pass
		else
			fail "$name"
		fi
	done
	counted
}

# A line at the head of an example may name libraries that it needs.
has_libs() {
	[ -n "$libs" ] || return 0
	grep '^#include <' "$source" | grep -v '<usched/' >"$dir/libs.c"
	echo 'int main(void) { return 0; }' >>"$dir/libs.c"
	${CC:-cc} ${CFLAGS:-} "$dir/libs.c" $libs -o "$dir/libs" 2>/dev/null
}

all_builds() {
	for flags in '-O2' '-O0' '-O2 -DUSCHED_PORTABLE' \
	    '-O0 -DUSCHED_PORTABLE'; do
		case "$name $flags" in
		gc*PORTABLE)	continue ;;		# uroots.h: -ENOSYS
		esac
		build_and_run || { echo "$name: fails with $flags"; return 1; }
	done
}

# compile STANDARD WHAT...: unquoted are those that may be several words.
compile() {
	cc=${CC:-cc}
	[ "$1" = c++17 ] && cc=$CXX
	std=$1; shift
	$cc -std=$std -Wall -Wextra -Werror $flags ${CFLAGS:-} $includes "$@" \
	    -pthread
}

# Compiles the library for these flags, once.
library() {
	o=$dir/$(echo "$flags" | tr -d ' =')
	[ ! -e "$o.a" ] || return 0
	mkdir -p "$o"
	for m in $(where usched.c $(printf '%s.c ' $modules)); do
		compile c11 -c "$m" -o "$o/$(basename "$m").o" || return 1
	done
	ar rc "$o.a" "$o"/*.o
}

build_and_run() {
	library || return 1
	std=c11
	case $source in *.cc) std=c++17 ;; esac
	grep -qE '^#include ("|<usched/)' "$source" && set -- "$o.a" || set --
	compile $std "$source" "$@" $libs -o "$dir/$name" || return 1
	timeout 20 ${RUN:-} "$dir/$name" >"$dir/got" </dev/null
	rc=$?
	[ $rc -eq 0 ] || { echo "$name: exit status $rc"; return 1; }
	diff "${source%.*}.expected" "$dir/got"
}

main
