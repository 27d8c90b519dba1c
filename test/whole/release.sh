#!/bin/sh
# SPDX-License-Identifier: MIT
# release.sh: make dist writes the same bytes from another folder, with another
# umask and with files that were not committed, and their checksums are right.
# The release holds each file of the commit, and the two files of make single,
# which compile alone. The library, its soname, the version and CHANGELOG.md
# agree (pack/abi.sh), and planted disagreements are found. With --full the
# release is built, tested, installed and removed in an empty folder.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
cc=${CC:-cc} make=${MAKE:-make}
unset MAKEFLAGS

dist() {
	try 'make dist' apart dist_in "$dir/clone" "$dir/one"
	git clone -q "$dir/clone" "$dir/a folder" || exit 1
	echo changed >>"$dir/a folder/README.md"
	echo more >"$dir/a folder/more.c"
	try 'with another umask' apart dist_in "$dir/a folder" "$dir/two" 077
	try 'the same bytes' diff "$dir/one/SHA256SUMS" "$dir/two/SHA256SUMS"
	try 'each file has a checksum' [ "$(wc -l <"$dir/one/SHA256SUMS")" = \
		"$(ls "$dir/one" | grep -vc SHA256SUMS)" ]
	try 'checksums' apart checked
	mkdir "$dir/out" && tar xzf "$dir/one"/usched-[0-9]*.tar.gz -C "$dir/out" ||
		exit 1
	try 'all files' apart complete "$dir"/out/usched-*
	try 'the two files' $cc -O1 -Wall -Werror -I"$dir/one" examples/hello.c \
		"$dir/one/usched.c" -o "$dir/hello"
	try 'the two files run' "$dir/hello"
	rm -rf "$dir/bare" && mkdir "$dir/bare" &&
		cp -r "$dir"/out/usched-*/. "$dir/bare" || exit 1
	"$dir/bare/pack/dist.sh" "$dir/three" >"$dir/said" 2>&1
	try 'without git it says so' grep -q 'needs a clone of git' "$dir/said"
}

dist_in() { # clone, folder to write, umask
	umask "${3:-022}"
	"$1/pack/dist.sh" "$2"
}

checked() {
	cd "$dir/one" && sha256sum -c SHA256SUMS
}

complete() { # unpacked
	(cd "$dir/clone" && git ls-files | sort) >"$dir/there" &&
	(cd "$1" && find . ! -type d | sed 's,^\./,,' | sort) |
		diff "$dir/there" -
}

# abi CC-FLAGS SED-OF-USCHED.H SED-OF-CHANGELOG STATUS WHAT: a library of one
# function, version 0.5.2, whose last release was 0.5.1.
abi() {
	rm -rf "$dir/tree" && mkdir -p "$dir/tree/pack/abi" || exit 1
	echo '#define USCHED_VERSION "0.5.2"' | sed "$2" >"$dir/tree/usched.h"
	printf '# Changes\n\n## Next\n\nNew.\n\n## 0.5.1, 2026-01-01\n' |
		sed "$3" >"$dir/tree/CHANGELOG.md"
	cp "$dir/0.5.1.gz" "$dir/tree/pack/abi" || exit 1
	$cc $1 -shared -fPIC -g -Wl,-soname,"${soname:-libusched.so.0.5}" \
		"$dir/lib.c" -o "$dir/tree/libusched.so" || exit 1
	pack/abi.sh "$dir/tree" >"$dir/log" 2>&1
	got=$?
	[ "$got" != 77 ] || [ "$4" = 77 ] || { skip "$5: $(tail -n 1 "$dir/log")"
		return; }
	[ "$got" = "$4" ]
	judge $? "abi.sh: $5: status $got" "$dir/log"
}

planted() {
	cat >"$dir/lib.c" <<-'END'
	struct thing {
		int t_first;
	#ifdef LONGER
		int t_second;
	#endif
	};
	int thing_use(struct thing *t) { return t->t_first; }
	#ifndef GONE
	int thing_old(void) { return 1; }
	#endif
	#ifdef MORE
	int thing_new(void) { return 2; }
	#endif
	END
	$cc -shared -fPIC -g -Wl,-soname,libusched.so.0.5 "$dir/lib.c" \
		-o "$dir/lib.so" || exit 1
	pack/abi.sh --dump "$dir/lib.so" | gzip -n >"$dir/0.5.1.gz"
	breaks='s/^New/These changes break a program/'
	abi '' '' '' 0 'nothing changed'
	abi -DMORE '' '' 0 'a function more'
	abi -DGONE '' '' 1 'a function less'
	abi -DLONGER '' '' 1 'a longer struct'
	abi '' '' "$breaks" 1 'a break of which the soname does not tell'
	abi '' s/0.5.2/0.6.0/ '' 1 'the soname of another version'
	abi '' s/0.5.2/0.5.1/ '' 1 'a version that was released'
	abi '' s/0.5.2/0.5/ '' 1 'two numbers'
	abi '' '' 's/Next/0.5.3, today/' 1 'CHANGELOG.md of another version'
	abi '' '' 's/Next/0.5.2, today/' 0 'the release'
	abi '' '' 's/0\.5\.1/0.5.0/' 1 'no dump of the last release'
	soname=libusched.so.0.6
	abi -DGONE s/0.5.2/0.6.0/ "$breaks" 0 'a break of which all tell'
	abi -DGONE s/0.5.2/0.6.0/ '' 1 'a break without CHANGELOG.md'
	abi '' s/0.5.2/0.6.0/ '' 1 'a new soname without CHANGELOG.md'
	soname=libusched.so.1
	abi -DLONGER s/0.5.2/1.0.0/ "$breaks" 0 '1.0.0'
	soname=
}

# The shared library of make, which test/whole/install.sh installs.
of_the_tree() {
	$make -s libusched.so CC="$cc" >"$dir/log" 2>&1
	judge $? 'make libusched.so' "$dir/log" || return
	pack/abi.sh >"$dir/log" 2>&1
	judge $? 'the library, the version, CHANGELOG.md' "$dir/log"
}

if have git; then
	apart committed "$dir/clone" >"$dir/log" 2>&1 || { fail 'a clone' "$dir/log"; counted; }
	dist
	[ "$1" != --full ] || try 'make distcheck' apart env CC="$cc" \
		"$dir/clone/pack/dist.sh" --check "$dir/full"
else
	skip 'make dist: no git (package git)'
fi
have readelf || { skip 'abi.sh: no readelf (package binutils)'; counted; }
planted
case $cc in
*musl*)	skip "the shared library with $cc" ;;
*)	of_the_tree ;;
esac
counted
