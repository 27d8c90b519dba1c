#!/bin/sh
# SPDX-License-Identifier: MIT
# abi.sh: the library, its soname, its version and CHANGELOG.md agree about what
# breaks programs that were built with the last release. The rules are in
# CONTRIBUTING.md, "Releases".
#
#	pack/abi.sh [TREE [LIBRARY]]	complains of each disagreement, and exits with 1
#	pack/abi.sh --dump LIBRARY	prints the interface, for pack/abi/VERSION.gz
#
# Of TREE usched.h, CHANGELOG.md and pack/abi are read. Status 77: abidiff cannot
# compare here, and the last line says why; all else agrees.
#
# All that the library exports is compared, with the types that are reached from
# there: a part of the library is inlined into programs, so the layout of what
# has no documented field counts as well. abidiff alone cannot tell a break from
# what has been added, so additions are left out, and every other change breaks.

[ "$1" != --dump ] ||
	exec abidw --no-corpus-path --no-comp-dir-path --no-show-locs "$2"
tree=${1:-.}
library=${2:-$tree/libusched.so}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
bad=0

disagree() {
	echo "abi.sh: $*"
	bad=1
}

# Prints the soname that a version has: 0.N up to 1.0, then the first number.
soname() { # version
	case $1 in
	0.*)	echo "libusched.so.$(echo "$1" | cut -d. -f1,2)" ;;
	*)	echo "libusched.so.${1%%.*}" ;;
	esac
}

newer() { # version, version
	[ "$1" != "$2" ] && [ "$(printf '%s\n' "$1" "$2" |
		sort -t. -k1,1n -k2,2n -k3,3n | tail -n 1)" = "$1" ]
}

headings() {
	sed -n 's/^## \([^ ,]*\).*/\1/p' "$tree/CHANGELOG.md"
}

# Prints what CHANGELOG.md says of this version.
section() {
	awk '/^## / { n++ } n == 1' "$tree/CHANGELOG.md"
}

version=$(sed -n 's/^#define USCHED_VERSION "\(.*\)"/\1/p' "$tree/usched.h")
first=$(headings | sed -n 1p)
last=$(headings | sed -n 2p)
echo "$version" | grep -qE '^[0-9]+\.[0-9]+\.[0-9]+$' ||
	disagree "usched.h has version '$version', not three numbers"
[ "$first" = Next ] || [ "$first" = "$version" ] ||
	disagree "usched.h has version $version, CHANGELOG.md begins with $first"
newer "$version" "$last" ||
	disagree "version $version is not newer than $last, the last release"

has=$(readelf -d "$library" | sed -n 's/.*soname: \[\(.*\)\]/\1/p')
[ "$has" = "$(soname "$version")" ] ||
	disagree "the library is $has, version $version is $(soname "$version")"
told=$(section | grep -c 'break a program')
same=$([ "$(soname "$version")" != "$(soname "$last")" ] || echo 1)
if [ "$told" != 0 ] && [ "$same" ]; then
	disagree "CHANGELOG.md tells of changes that break a program, and $has stays"
elif [ "$told" = 0 ] && [ -z "$same" ]; then
	disagree "$has is new, and CHANGELOG.md tells of nothing that breaks a program"
fi

# The library against the dump, which gets the name of the library: what names
# say was compared above. Fails if the two cannot be compared, and says why.
compare() {
	dump=$tree/pack/abi/$last.gz
	[ -e "$dump" ] || { disagree "no pack/abi/$last.gz"; return; }
	gzip -dc "$dump" | sed "2,\$b
		s/soname='[^']*'/soname='$has'/" >"$work/last"
	command -v abidiff >/dev/null || { echo 'no abidiff (package abigail-tools)'
		return 1; }
	abidw "$library" --out-file "$work/now" || { disagree "abidw $library"; return; }
	[ "$(machine <"$work/last")" = "$(machine <"$work/now")" ] || {
		echo "pack/abi/$last.gz is of another machine"
		return 1
	}
	abidiff --no-added-syms "$work/last" "$library" >"$work/changes"
	status=$?
	[ $((status & 3)) = 0 ] || disagree "abidiff failed: $status"
	[ $((status & 4)) != 0 ] || return 0
	[ -n "$same" ] || [ "$told" = 0 ] || return 0
	disagree "programs that were linked with $last break: there must be a new" \
		"soname, and CHANGELOG.md must say \"break a program\""
	head -n 30 "$work/changes"
}

machine() {
	sed -n "1s/.*architecture='\([^']*\)'.*/\1/p"
}

compare >"$work/why"
compared=$?
cat "$work/why"
[ $bad = 0 ] || exit 1
[ $compared = 0 ] || exit 77
