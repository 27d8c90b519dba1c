#!/bin/sh
# SPDX-License-Identifier: MIT
# cores.sh: bench/cores counts, and what it counts does not grow with the number of
# processors for a thread that stays where it is, while the others sleep (doc/cores.md).
# Of 16 processors, and of two, an operation does as many atomic ones, but for a few in a
# hundred; and rr looks at no other processor.
#
# CC is the compiler.

cd "$(dirname "$0")/../.." || exit 1
. test/run/count

cc=${CC:-cc}
# Of clang the library knows that it is for ThreadSanitizer, and has other fences.
cat >"$dir/try.c" <<'END'
#if defined(__clang__)
#error
#endif
int f(int *a) { return __atomic_load_n(a, 2); }
END
if ! $cc -O1 -fsanitize=thread -U__SANITIZE_THREAD__ -S -o "$dir/try.s" "$dir/try.c" \
		2>/dev/null || ! grep -q __tsan_atomic32_load "$dir/try.s"; then
	echo "skipped: $cc is not gcc with -fsanitize=thread (package gcc)"
	exit 77
fi
cp -r bench/cores "$dir" && rm -rf "$dir/cores/objects"
try 'it compiles' make -s -C "$dir/cores" TREE="$PWD" CC="$cc" || counted

refused() { # arguments
	"$dir/cores/cores-rr" "$@" >"$dir/log" 2>&1
	[ $? = 1 ] && grep -q '^cores: usage' "$dir/log"
	judge $? "a bad call: $*" "$dir/log"
}

refused
refused alone
refused alone 0
refused alone 65
refused pair 1
refused none 2

# same SCHED: of each operation, atomic operations with 2 and with 16 processors.
same() {
	"$dir/cores/cores-$1" alone 2 >"$dir/two" &&
		"$dir/cores/cores-$1" alone 16 >"$dir/many"
	judge $? "$1 counts" || return
	[ "$(wc -l <"$dir/two")" = 8 ] && ! grep -qE '	(-|nan|inf)' "$dir/two"
	judge $? "$1 counts each operation" "$dir/two"
	# A sleep is as long as others make it, and events come when they come.
	paste "$dir/two" "$dir/many" | grep -v 'sleeps\|write' >"$dir/both"
	awk -F '\t' '$8 > $2 * 1.05 + 0.5' "$dir/both" >"$dir/grows"
	[ ! -s "$dir/grows" ]
	judge $? "$1: what grows with processors" "$dir/grows"
}

same rr
awk -F '\t' '$4 > 0' "$dir/many" >"$dir/looks"
[ ! -s "$dir/looks" ]
judge $? 'rr looks at no other processor' "$dir/looks"
same ws

# What is counted: a lock of all.
sed "s/&p->p_lock/\\&place[0].p_lock/; s/^#define NR	1000	/#define NR	300000	/" \
	bench/cores/cores.c >"$dir/cores/cores.c"
try 'a lock that all take compiles' make -s -C "$dir/cores" TREE="$PWD" CC="$cc" cores-rr
"$dir/cores/cores-rr" all 4 | awk -F '\t' '/^lock/ && $3 > 0' | grep -q .
judge $? 'a lock that all take is not seen'
for sched in rr ws; do
	"$dir/cores/cores-$sched" pair 2 >"$dir/log" 2>&1 &&
		[ "$(awk -F '\t' '$3 > 2' "$dir/log" | wc -l)" = 2 ]
	judge $? "$sched: a message to another processor moves lines" "$dir/log"
done
for mode in all idle; do
	"$dir/cores/cores-ws" $mode 4 >"$dir/log" 2>&1 && [ -s "$dir/log" ]
	judge $? "ws $mode" "$dir/log"
done
counted
