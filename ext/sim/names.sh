#!/bin/sh
# SPDX-License-Identifier: MIT
# names.sh: which calls of a program come to libc, and are not known to be harmless.
#
#	ext/sim/names.sh all.o		an object that was linked with sim.flags
#	ext/sim/names.sh --all		reads names, a line each
#
# Prints names that libc defines, and that neither sim.flags nor sim.names has; with --all,
# that no list has. Status 1: there are some.

folder=$(dirname "$0")
LC_ALL=C
export LC_ALL

# Names of the pthread face are led elsewhere, if it is linked.
listed() {
	cat "$folder/sim.flags" "$folder/../posix/pthread.flags" | tr ',' '\n' |
		sed -n 's/.*--wrap=//p'
	sed '/^#/d; /:$/d' "$folder/sim.names" | tr -s ' ' '\n'
}

# What libc and its parts define, by the loader of the compiler in CC.
of_libc() {
	for name in libc.so.6 libm.so.6; do
		file=$(${CC:-cc} -print-file-name=$name)
		nm -D --defined-only "$file" 2>/dev/null || nm --defined-only \
			"$(${CC:-cc} -print-file-name=${name%.so.6}.a)" 2>/dev/null
	done | sed -n 's/.* [A-Za-z] //p' | sed 's/@.*//' | sort -u
}

known=$(mktemp) && all=$(mktemp) || exit 2
trap 'rm -f "$known" "$all"' EXIT
listed | sort -u >"$known"
case ${1:-} in
--all)	sort -u >"$all" ;;
''|-*)	sed -n '4,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
*)	of_libc >"$known.libc"
	nm -u "$@" | sed -n 's/^ *[UVvw] //p' | sed 's/@.*//' | sort -u |
		comm -12 - "$known.libc" >"$all"
	rm -f "$known.libc" ;;
esac
comm -23 "$all" "$known" | grep . || exit 0
exit 1
