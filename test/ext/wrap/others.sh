#!/bin/sh
# SPDX-License-Identifier: MIT
# Other people's code has the same results when it runs and blocks in our
# threads: zlib, SQLite, Lua, and qsort() of the C library. Each program in
# test/ext/wrap/others/ says what it does and why that is sound.
#
# CC is the compiler, CFLAGS are more options for it, and so are OTHERS_FLAGS
# (such as -DUSCHED_HARD or -DUSCHED_PORTABLE). RUN goes before each program (an
# emulator). A library that is not installed is skipped, with its Debian
# package.

set -u
top=$(cd "$(dirname "$0")/../../.." && pwd) || exit 1
. "$top/test/run/layout"
. "$top/test/run/count"

flags="-std=gnu11 -O2 -g -Wall -Wextra -Werror ${CFLAGS:-} ${OTHERS_FLAGS:-}"

main() {
	library || { echo '0 passed, 1 failed, 0 skipped'; exit 1; }
	check qsort - stdlib.h ''
	check zlib zlib1g-dev zlib.h -lz
	check sqlite libsqlite3-dev sqlite3.h -lsqlite3 '-lsqlite3 -lm -ldl'
	check lua liblua5.4-dev lua.h "$(lua_config)" \
	    '-I/usr/include/lua5.3 -llua5.3' '-I/usr/include/lua5.2 -llua5.2' \
	    '-I/usr/include/lua5.1 -llua5.1' '-llua -lm -ldl' \
	    '-I/usr/local/include -L/usr/local/lib -llua -lm -ldl'
	counted
}

# The library's own sources, as they are in the tree.
library() {
	sources="usched $(echo $waits | sed "s,\.c,,g") umem uproc rr ll"
	case " ${OTHERS_FLAGS:-} " in
	*' -DUSCHED_HARD'*) sources="$sources uhard" ;;
	esac
	objects=''
	for source in $sources; do
		# Unquoted: these may be several words each.
		${CC:-cc} $flags $includes -c -o "$dir/$source.o" \
		    "$(where $source.c)" || return 1
		objects="$objects $dir/$source.o"
	done
}

# check NAME PACKAGE HEADER OPTIONS...: with the first options that work.
check() {
	name=$1 package=$2 header=$3
	shift 3
	echo "#include <$header>" >"$dir/probe.c"
	echo 'int main(void) { return 0; }' >>"$dir/probe.c"
	for options; do
		${CC:-cc} ${CFLAGS:-} "$dir/probe.c" -o "$dir/probe" $options \
		    2>/dev/null || continue
		build_and_run
		return
	done
	skip "$name: $package"
}

build_and_run() {
	: >"$dir/out"
	${CC:-cc} $flags $includes "$top/test/ext/wrap/others/$name.c" $objects \
	    -o "$dir/$name" $options -pthread &&
	    TMPDIR=$dir ${RUN:-} "$dir/$name" >"$dir/out" 2>&1
	judge $? "$name" "$dir/out"
}

lua_config() {
	for lua in lua5.4 lua-5.4 lua54 lua5.3 lua-5.3 lua53 lua5.1 lua-5.1; do
		pkg-config --cflags --libs $lua 2>/dev/null && return
	done
	echo '-I/usr/include/lua5.4 -llua5.4'
}

main
