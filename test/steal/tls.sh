#!/bin/sh
# SPDX-License-Identifier: MIT
# tls.sh: a thread that migrates knows its worker and its native thread
# (steal_tls), however the compiler treats thread-local variables, at any
# level, also if the library is compiled together with the test.
#
#	test/steal/tls.sh [--full]
#
# Without --full, only some of the levels. Compilers that are not installed are
# skipped. gcc with -mno-tls-direct-seg-refs is left out, an option for a
# machine of 2004. It keeps the address of the native thread in a register, also
# across a call, so code that usched.h inlines reads the wrong variable.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout

sources="test/steal/steal_tls.c usched.c $(where $waits) lib/proc/umem.c lib/proc/uproc.c
	lib/steal/ws.c"
# -flto: ustack_block() and the functions around it may be inlined in the test.
levels='-O2;-O3 -flto;-Os -fPIC;-O2 -flto -mno-tls-direct-seg-refs'
others='-O2'
if [ "$1" = --full ]; then
	levels= others=
	for o in -O0 -O1 -O2 -O3 -Os; do
		for f in '' -fPIC -flto -mno-tls-direct-seg-refs \
			'-flto -fPIC' '-flto -mno-tls-direct-seg-refs' \
			'-flto -ftls-model=global-dynamic -fPIC'; do
			levels="$levels;$o $f"
		done
		others="$others;$o;$o -fPIC;$o -flto"
	done
	shift
fi

configurations() { # compiler | emulator | flags
	for cc in gcc clang; do
		echo "$levels" | tr ';' '\n' | sed "/-/!d; s/^/$cc||/"
	done | grep -v '^gcc.*-mno-tls-direct-seg-refs'
	for m in aarch64 riscv64; do
		echo "$others" | tr ';' '\n' | sed \
		"/-/!d; s/^/$m-linux-gnu-gcc|qemu-$m -L \/usr\/$m-linux-gnu|-static /"
	done
}

one() { # compiler | emulator | flags
	IFS='|' read -r cc emulator flags <<-END
	$1
	END
	for need in $cc ${emulator%% *}; do
		command -v "$need" >/dev/null && continue
		echo "skip  $cc $flags: no $need"
		return 77
	done
	exe=$(mktemp -p "$dir")
	echo 'int main(void) { return 0; }' >"$exe.c"
	if ! { $cc $flags "$exe.c" -o "$exe" -pthread && $emulator "$exe"; } \
		>"$exe.log" 2>&1; then
		echo "skip  $cc $flags: $(tail -n 1 "$exe.log")"
		return 77
	fi
	if ! $cc -std=gnu11 -g -Wall -Wextra $flags $includes $sources -o "$exe" \
		-pthread >"$exe.log" 2>&1 ||
	   ! $emulator "$exe" >>"$exe.log" 2>&1; then
		echo "FAIL  $cc $flags"
		sed 's/^/	/' "$exe.log"
		return 1
	fi
	echo "ok    $cc $flags"
}

if [ "$1" = --one ]; then
	one "$2"
	echo $? >>"$dir/status"
	exit 0
fi
. test/run/count
WATCHDOG=${WATCHDOG:-300}
export dir WATCHDOG
configurations | tr '\n' '\0' | xargs -0 -n 1 \
	-P "$(getconf _NPROCESSORS_ONLN)" sh test/steal/tls.sh --one
counted_in "$dir/status"
