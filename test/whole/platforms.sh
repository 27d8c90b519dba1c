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
# Linux's other machines under qemu-user; it prints doc/embed.md's table.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

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

# Links with all modules, which are not called as the programs of the core are.
link() {
	build "$@" "$(made)"/[!rlw]*.o "$(made)"/rr.o "$(made)"/ll.o \
		"$(made)"/ws.o "$(made)"/runner.o "$(made)"/waiter.o \
		-lpthread -lm -lunwind
}

linked() {
	for main in rmain lmain wmain; do
		link -o "$(made)/$main" "$(made)/$main.o" || return 1
	done
}

# Compiles and links the tests that elsewhere.sh would run there.
tests() {
	names=$(sed -n "/^tests='/,/'\$/s/tests='\|'//gp" test/whole/elsewhere.sh)
	for t in $names; do
		scheduler=-DRR
		case $t in
		*-*)	scheduler=-D${t#*-} ;;
		esac
		link -w $scheduler -o "$(made)/test" "$(test_of "${t%-*}")" ||
			return 1
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

# Linux: builds the library, and runs tests of what threads need, by emulator.
linux() { # compiler, emulator
	have "$1" && { [ -z "$2" ] || have "$2"; } || {
		skip "$1: it or its emulator is not installed"; return; }
	for t in wait-RR chan-RR sync-RR; do
		make -s CC="$1" LDFLAGS="${2:+-static}" B="$dir/$1" \
			"$dir/$1/test/$t" >"$dir/log" 2>&1 &&
		WATCHDOG=300 timeout 600 $2 "$dir/$1/test/$t" >"$dir/log" 2>&1
		judge $? "$1: $t" "$dir/log"
	done
	rm -rf "${dir:?}/$1"
}

# row WHAT SWITCH LANES EVENTS TOOLS RUN COMMAND...: a row of the table, after the
# commands that make it true, which are separated by words ";". None if some of
# these cannot be run here.
row() {
	was=$((failed + skipped)) failures=$failed
	line="| $1 | $2 | $3 | $4 | $5 |" run=$6
	shift 6
	words=''
	for word in "$@" ';'; do
		if [ "$word" = ';' ]; then
			$words
			words=''
		else
			words="$words $word"
		fi
	done
	if [ $((failed + skipped)) = $was ]; then
		echo "$line yes | $run |" >>"$dir/table"
	elif [ $((failed - failures)) != 0 ]; then
		echo "$line no | $run |" >>"$dir/table"
	fi
}

# Each system with the switch that was never run there, and with the default.
both() { # target
	try "$1" -DUSCHED_LANES tests
	try "$1" '' tests
}

with_zig=both
[ -n "$zig" ] || with_zig="skip no-zig:"
asm='assembly by `-DUSCHED_LANES`, else `setjmp()`'
if [ $full = 0 ] && [ -n "$zig" ]; then
	try aarch64-macos -DUSCHED_LANES tests
	try x86_64-freebsd -DUSCHED_LANES tests
elif [ $full = 0 ]; then
	skip 'macOS and the BSDs: no zig (python3 -m pip install ziglang)'
else
	row 'Linux, x86-64; gcc, clang, musl' 'assembly, in place' yes epoll all \
		'all tests' linux gcc '' ';' linux clang '' ';' linux musl-gcc ''
	row 'Linux, aarch64, riscv64' assembly yes epoll all \
		'many tests, by qemu-user' \
		linux aarch64-linux-gnu-gcc qemu-aarch64 ';' \
		linux riscv64-linux-gnu-gcc qemu-riscv64
	row 'Linux, i386, armhf, s390x, powerpc64le' '`setjmp()`' no epoll \
		lists 'some tests, by qemu-user' \
		linux i686-linux-gnu-gcc qemu-i386 ';' \
		linux arm-linux-gnueabihf-gcc qemu-arm ';' \
		linux s390x-linux-gnu-gcc qemu-s390x ';' \
		linux powerpc64le-linux-gnu-gcc qemu-ppc64le
	row 'macOS, arm64, x86-64' "$asm" 'with that' kqueue lists '**never**' \
		$with_zig aarch64-macos ';' $with_zig x86_64-macos
	row 'FreeBSD, x86-64, aarch64' "$asm" 'with that' kqueue lists \
		'**never**' $with_zig x86_64-freebsd ';' $with_zig aarch64-freebsd
	row 'NetBSD, OpenBSD, x86-64' "$asm" 'with that' kqueue lists \
		'**never**' $with_zig x86_64-netbsd.11.0.0 ';' \
		$with_zig x86_64-openbsd
	cat "$dir/table"
	while read -r line; do
		if grep -qxF "$line" doc/embed.md; then
			pass
		else
			fail "doc/embed.md has no line: $line"
		fi
	done <"$dir/table"
fi
counted
