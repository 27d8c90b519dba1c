#!/bin/sh
# SPDX-License-Identifier: MIT
# trace.sh: trace passes at all levels, with and without frame pointers, and
# on the machines that can be emulated. There, gcc may need an option to make
# the tables that unwinders read.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

one() { # emulator, compiler, flags
	if ! $2 -std=gnu11 -Wall -Wextra -g $3 $includes test/debug/trace.c usched.c \
		lib/debug/utrace.c -o "$dir/t" -lm >"$dir/log" 2>&1 ||
	   ! timeout 600 $1 "$dir/t" >"$dir/log" 2>&1; then
		fail "$2 $3" "$dir/log"
	else
		pass
	fi
}

for flags in -O0 -O1 -O2 -O3 -Os "-O2 -fno-omit-frame-pointer" \
		"-O0 -fomit-frame-pointer" "-O2 -static"; do
	one "" "${CC:-cc}" "$flags"
done
for machine in aarch64 riscv64; do
	cc=$machine-linux-gnu-gcc
	if command -v $cc >/dev/null &&
	   command -v qemu-$machine >/dev/null; then
		one qemu-$machine $cc "-O2 -static -fasynchronous-unwind-tables"
	else
		skip "no $cc or qemu-$machine (gcc-$machine-linux-gnu, qemu-user)"
	fi
done
counted
