#!/bin/sh
# SPDX-License-Identifier: MIT
# platforms.sh: the library compiles without a warning, and links, for each
# system that the README names; what can run here runs.
#
# usage: platforms.sh [--full]
#
# Systems other than Linux by the cross compiler of PyPI's ziglang ($ZIG, or what
# python3 has, or a zig), which brings their headers and libraries; skipped by
# name without it. Of these nothing runs: the tests of elsewhere.sh are compiled
# and linked, so that a person can run it there. --full: all machines, and
# Linux's other machines under qemu-user; it prints doc/platforms.md's table.

cd "$(dirname "$0")/.." || exit 1
. test/layout
. test/count

full=0
case ${1:-} in
--full) full=1 ;;
'') ;;
*) echo "usage: $0 [--full]" >&2; exit 2 ;;
esac

zig=${ZIG:-}
if [ -z "$zig" ]; then
	if python3 -c 'import ziglang' 2>/dev/null; then
		zig='python3 -m ziglang'
	elif have zig; then
		zig=zig
	fi
fi

# The folder of what a build has made.
made() { echo "$dir/$target$(echo "$flags" | tr -d ' ')"; }

build() {
	# shellcheck disable=SC2086 # words
	$zig cc -target "$target" -std=gnu11 -O1 $includes $flags "$@"
}

# Compiles all modules and the two programs of the core.
compiled() {
	mkdir -p "$(made)"
	for part in usched $modules rmain lmain wmain; do
		# shellcheck disable=SC2046 # one word
		build -Wall -Wextra -Werror -c -o "$(made)/$part.o" \
			$(where $part.c) || return 1
	done
}

linked() {
	for main in rmain lmain wmain; do
		build -o "$(made)/$main" "$(made)/$main.o" \
			"$(made)"/[!rlw]*.o "$(made)"/rr.o "$(made)"/ll.o \
			"$(made)"/ws.o "$(made)"/runner.o "$(made)"/waiter.o \
			-lpthread -lm -lunwind || return 1
	done
}

# Compiles and links the tests that elsewhere.sh would run there.
tests() {
	names=$(sed -n "/^tests='/,/'\$/s/tests='\|'//gp" test/elsewhere.sh)
	for t in $names; do
		scheduler=-DRR
		case $t in
		*-*)	scheduler=-D${t#*-} ;;
		esac
		build -w $scheduler -o "$(made)/test" "test/${t%-*}.c" \
			"$(made)"/[!rlw]*.o "$(made)"/rr.o "$(made)"/ll.o \
			"$(made)"/ws.o "$(made)"/runner.o "$(made)"/waiter.o \
			-lpthread -lm -lunwind || return 1
	done
}

# try TARGET FLAGS: all of it for one system.
try() {
	target=$1 flags=$2
	for step in compiled linked $3; do
		if $step >"$dir/log" 2>&1; then
			pass
		else
			fail "$target $flags is not $step" "$dir/log"
			break
		fi
	done
	rm -rf "$(made)"
}

if [ -z "$zig" ]; then
	skip "macOS and the BSDs: no zig (python3 -m pip install ziglang)"
else
	systems='aarch64-macos x86_64-freebsd'
	if [ $full = 1 ]; then
		systems='aarch64-macos x86_64-macos x86_64-freebsd
			aarch64-freebsd x86_64-netbsd.11.0.0 x86_64-openbsd'
	fi
	for system in $systems; do
		try "$system" -DUSCHED_LANES tests
		[ $full = 0 ] || try "$system" '' tests
	done
fi
counted
