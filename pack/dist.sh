#!/bin/sh
# SPDX-License-Identifier: MIT
# dist.sh: writes a release to a folder: usched-VERSION.tar.gz, usched.wrap for Meson,
# the two files of `make single`, CHANGELOG.md, usched-doc-VERSION.tar.gz with the man
# pages and the site, and SHA256SUMS.
#
#	pack/dist.sh [DIR]		out/dist, unless given
#	pack/dist.sh --check [DIR]	also builds, tests and installs it, from an
#					empty folder
#
# The release is the last commit, whatever else lies in the tree. Its files have
# the time of the commit, and neither user nor umask. So two people who have the
# commit make the same bytes, with one version of git and gzip.

set -e
export LC_ALL=C
top=$(cd "$(dirname "$0")/.." && pwd)
check=
[ "$1" != --check ] || { check=1; shift; }
out=${1:-$top/out/dist}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$top"
make=${MAKE:-make}
unset MAKEFLAGS MAKELEVEL

say() {
	echo "dist.sh: $*" >&2
}

git rev-parse HEAD >/dev/null 2>&1 && [ -e .git ] || {
	say 'needs a clone of git, because a release is a commit'
	exit 1
}
[ -z "$(git status --porcelain)" ] ||
	say 'the tree differs from the last commit, which alone is packed'
version=$(git show HEAD:usched.h | sed -n 's/^#define USCHED_VERSION "\(.*\)"/\1/p')
name=usched-$version doc=usched-doc-$version
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

pack() {
	rm -f "$out/$name.tar.gz"
	git -c tar.umask=0022 archive --format=tar --prefix="$name/" HEAD |
		gzip -9n >"$work/tar.gz"
	gzip -dc "$work/tar.gz" | tar xf - -C "$work"
	cp "$work/tar.gz" "$out/$name.tar.gz"
	"$make" -s -C "$work/$name" single TO="$out"
	cp "$work/$name/CHANGELOG.md" "$out"
	sum=$(sha256sum "$out/$name.tar.gz")
	sed "s/@VERSION@/$version/; s/@SHA256@/${sum%% *}/" \
		"$work/$name/pack/meson/usched.wrap" >"$out/usched.wrap"
	pack_doc || say "no $doc.tar.gz"
	(cd "$out" && sha256sum "$name.tar.gz" usched.wrap usched.c usched.h CHANGELOG.md \
		$(ls "$doc.tar.gz" 2>/dev/null) >SHA256SUMS && chmod 644 ./*)
}

# Needs what make doc needs, and GNU tar.
pack_doc() {
	rm -f "$out/$doc.tar.gz"
	SOURCE_DATE_EPOCH=$(git log -1 --format=%ct HEAD)
	export SOURCE_DATE_EPOCH
	"$make" -s -C "$work/$name" doc TO="$work/$doc" &&
	tar --sort=name --owner=0 --group=0 --numeric-owner --mode=go=u,go-w \
		--mtime="@$SOURCE_DATE_EPOCH" -cf - -C "$work" "$doc" |
		gzip -9n >"$out/$doc.tar.gz"
}

# Builds and uses the release as a person would who has nothing else.
use() {
	(cd "$out" && sha256sum -c --quiet SHA256SUMS)
	mkdir "$work/empty"
	gzip -dc "$out/$name.tar.gz" | tar xf - -C "$work/empty"
	cd "$work/empty/$name"
	# Processors, and the quick tests.
	"$make" -s -j"$(getconf _NPROCESSORS_ONLN)" all CC="$CC"
	[ -n "$DIST_NO_TEST" ] || "$make" -s test CC="$CC"
	"$make" -s install DESTDIR="$work/root" PREFIX=/usr CC="$CC" >/dev/null
	root=$work/root/usr
	"$CC" -O2 -I"$root/include" examples/first/workers.c \
		"$root/lib/libusched.a" -pthread -o "$work/workers"
	[ "$("$work/workers")" = 49995000 ] || { say 'workers.c: wrong sum'; exit 1; }
	"$make" -s uninstall DESTDIR="$work/root" PREFIX=/usr
	left=$(find "$work/root" ! -type d)
	[ -z "$left" ] || { say "left by uninstall: $left"; exit 1; }
}

CC=${CC:-cc}
pack
say "$out/$name.tar.gz"
[ -z "$check" ] || { use; say "$name was built, tested, installed and removed"; }
