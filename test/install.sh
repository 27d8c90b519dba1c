#!/bin/sh
# SPDX-License-Identifier: MIT
# install.sh: what make install puts in place is all that a program needs, with
# the static and with the shared library, and uninstall takes all away.

cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT || exit 1
cc=${CC:-cc}
failed=0

fail() {
	echo "$1"
	failed=1
}

${MAKE:-make} -s install CC="$cc" DESTDIR="$dir" PREFIX=/usr >"$dir/log" 2>&1 ||
	fail "make install: $(cat "$dir/log")"
usr=$dir/usr
for how in "$usr/lib/libusched.a" "-L$usr/lib -lusched"; do
	$cc -Wall -Werror -I"$usr/include" test/s_article.c -o "$dir/a" $how \
		-Itest -pthread || fail "does not link with $how"
	LD_LIBRARY_PATH=$usr/lib "$dir/a" || fail "fails with $how"
	# Inline functions of ws.h call into the library.
	$cc -Wall -Werror -DWS -I"$usr/include" test/s_join.c -o "$dir/a" $how \
		-Itest -pthread || fail "ws does not link with $how"
	LD_LIBRARY_PATH=$usr/lib "$dir/a" || fail "ws fails with $how"
done
grep -q '^Libs: .*-lusched' "$usr/lib/pkgconfig/usched.pc" ||
	fail "no usched.pc"
# By what usched-cxx.pc says, where there is a C++ compiler.
if [ -e "$usr/lib/libusched_cxx.a" ]; then
	libs=$(sed -n "s|^Libs: ||p" "$usr/lib/pkgconfig/usched-cxx.pc" |
		sed "s|\${prefix}|$usr|")
	${CXX:-g++} -std=c++17 -DRR -I"$usr/include" test/t_cxx.cc -Itest \
		-o "$dir/x" $libs && "$dir/x" || fail "fails with $libs"
fi
${MAKE:-make} -s uninstall DESTDIR="$dir" PREFIX=/usr || fail "make uninstall"
[ -z "$(find "$usr" ! -type d)" ] || fail "left: $(find "$usr" ! -type d)"
exit $failed
