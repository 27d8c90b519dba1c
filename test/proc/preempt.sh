#!/bin/sh
# SPDX-License-Identifier: MIT
# preempt.sh: preemption works however the program was built. All functions of
# the library are in the stretches of code that UPREEMPT_NEVER notes, with every
# compiler and level. preempt passes with them, position-independent or not,
# with the shared library, and with the portable switch. If files cannot be told
# apart, or libc is a part of the program, upreempt_start() returns an error.
# With PREEMPT_SECONDS=60 in the environment: more levels, and other machines.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

all="usched $(echo $waits | sed "s,\.c,,g") uthread uscope umem uproc rr ll ws upreempt"
others="uguard uhard ustats utrace ulist uchain
	ucall uchan uselect ugen $(echo $views $syncs | sed "s,\.c,,g") uwork"
flags="-std=gnu11 $includes"
long=$([ "${PREEMPT_SECONDS:-0}" -ge 60 ] && echo long)
PREEMPT_SECONDS=0 WATCHDOG=${WATCHDOG:-300}
export PREEMPT_SECONDS WATCHDOG

# Prints functions outside of the sections that are noted, and missing tables.
stray() { # object
	nm -f sysv "$1" | awk -F'|' '$4 ~ /FUNC/ && $3 ~ /[Tt]/ {
		gsub(/ /, ""); print $1, $7 }' |
		grep -vE ' \.text(\.(hot|unlikely)\.?|\.startup|\.exit)?$'
	objdump -h "$1" | grep -q upreempt_never || echo "$1: no table"
}

noted() { # compiler, level
	for f in $all $others; do
		$1 $flags $2 $([ $f = uhard ] && echo -DUSCHED_HARD) \
			-c $(where $f.c) -o "$dir/$f.o" || return 1
		[ -z "$(stray "$dir/$f.o")" ] || { stray "$dir/$f.o"; return 1; }
	done
}

build() { # compiler and its flags; sets objects
	objects=
	for f in $all; do
		$1 $flags -c $(where $f.c) -o "$dir/$f.o" || return 1
		objects="$objects $dir/$f.o"
	done
}

# The program must end with a status.
ends() { # status, compiler and flags, program, emulator
	build "$2" && $2 $flags $3 $objects -o "$dir/t" -pthread -lm || return 1
	timeout 600 $4 "$dir/t"
	rc=$?
	[ $rc = "$1" ] || { echo "status $rc, not $1"; return 1; }
}

shared() { # compiler
	build "$1 -O2 -fPIC" &&
	$1 -shared -o "$dir/libu.so" $objects -pthread &&
	$1 $flags -O2 test/proc/preempt.c -o "$dir/t" -L"$dir" -lu -pthread -lm &&
	LD_LIBRARY_PATH=$dir timeout 600 "$dir/t"
}

# A program that prints what upreempt_start() and rr_preempt() return.
cat >"$dir/say.c" <<END
#include "rr.h"
#include "upreempt.h"
#include <stdio.h>
int main(void)
{
	int start, preempt;
	start = upreempt_start(1000000);
	preempt = rr_init(1, 0) == 0 ? rr_preempt() : 1;
	printf("%d %d\n", start, preempt);
	return rr_start() != 0 || rr_fini() != 0;
}
END

# A program, static or a shared object, that names its own text.
cat >"$dir/mine.c" <<END
#define USCHED_PREEMPT 1
#include "rr.h"
#include "upreempt.h"
#define MINE __attribute__((section("own_text"), noinline))
extern const char __start_own_text[], __stop_own_text[];
static volatile int stop;
MINE static void spin(void *arg) { (void)arg; while (!stop) ; }
MINE static void end(void *arg) { (void)arg; stop = 1; }
int mine(void);
int mine(void)
{
	return upreempt_text(__start_own_text, __stop_own_text) != 0 ||
		upreempt_start(1000000) != 0 || rr_init(1, 0) != 0 ||
		rr_preempt() != 0 || !rr_thread_init(spin, NULL) ||
		!rr_thread_init(end, NULL) || rr_start() != 0 || rr_fini() != 0;
}
END
echo 'int mine(void); int main(void) { return mine(); }' >"$dir/main.c"

# A file of the program that must not be preempted, with either library.
cat >"$dir/never.c" <<END
#include "upreempt.h"
UPREEMPT_NEVER;
int never(int (*f)(void));
int never(int (*f)(void)) { return f() + 1; }
void lasts(volatile int *stop, void (*look)(void));
void lasts(volatile int *stop, void (*look)(void)) { while (!*stop) look(); }
END
cat >"$dir/user.c" <<END
#define USCHED_PREEMPT 1
#include "rr.h"
#include "upreempt.h"
#include <stdlib.h>
int never(int (*f)(void));
void lasts(volatile int *stop, void (*look)(void));
static volatile int stop, inside;
static long ticks(void)
{
	struct upreempt_stats s;
	upreempt_stats(&s);
	return s.pe_elsewhere;
}
static int called(void)		/* by a file that is never preempted */
{
	long until = ticks() + 20;
	inside = 1;
	while (ticks() < until)
		;
	inside = 0;
	return 41;
}
static void look(void)
{
	static long until;
	if (until == 0)
		until = ticks() + 20;
	stop = ticks() >= until;
}
static void first(void *arg)
{
	(void)arg;
	if (never(called) != 42)
		abort();
	inside = 1;
	lasts(&stop, look);
	inside = 0;
	stop = 2;
}
static void second(void *arg)
{
	(void)arg;
	while (stop != 2)
		if (inside)
			abort();
}
int main(void)
{
	return upreempt_start(1000000) != 0 || rr_init(1, 0) != 0 ||
		rr_preempt() != 0 || !rr_thread_init(second, NULL) ||
		!rr_thread_init(first, NULL) || rr_start() != 0 ||
		rr_fini() != 0;
}
END

says() { # what, flags for the library, for the program
	build "${CC:-cc} -O2 $2" &&
	${CC:-cc} $flags $3 "$dir/say.c" $objects -o "$dir/t" -pthread || return 1
	said=$("$dir/t") || return 1
	[ "$said" = "$1" ] || { echo "said $said, not $1"; return 1; }
}

static_too() {
	ends 77 "${CC:-cc} -O2 -static" test/proc/preempt.c &&
	ends 0 "${CC:-cc} -O2 -static" "$dir/mine.c $dir/main.c"
}

own_object() {
	build "${CC:-cc} -O2 -fPIC" &&
	${CC:-cc} $flags -shared -fPIC "$dir/mine.c" -o "$dir/libmine.so" &&
	${CC:-cc} $flags "$dir/main.c" $objects -rdynamic -o "$dir/t" \
		-L"$dir" -lmine -pthread &&
	LD_LIBRARY_PATH=$dir timeout 60 "$dir/t"
}

never() {
	ends 0 "${CC:-cc} -O2" "$dir/user.c $dir/never.c" &&
	build "${CC:-cc} -O2 -fPIC" &&
	${CC:-cc} -shared -o "$dir/libu.so" $objects -pthread &&
	${CC:-cc} $flags "$dir/user.c" "$dir/never.c" -o "$dir/t" \
		-L"$dir" -lu -pthread &&
	LD_LIBRARY_PATH=$dir timeout 60 "$dir/t"
}

# In numbers: ENOTSUP and ENOSYS are the same on all of these machines.
nosys=-38 notsup=-95

echo 'int main(void) { return 0; }' >"$dir/empty.c"
${CC:-cc} -O2 $flags "$dir/empty.c" -o "$dir/t" 2>/dev/null || {
	echo "skipped: no compiler (gcc)"; exit 77; }
build "${CC:-cc} -O2" 2>/dev/null && ${CC:-cc} $flags "$dir/say.c" $objects \
	-o "$dir/t" -pthread && [ "$("$dir/t")" = "$nosys $notsup" ] && {
	echo "skipped: no preemption on this system"; exit 77; }

if have nm && have objdump; then
	for cc in gcc clang; do
		have $cc || { echo "skip  $cc"; continue; }
		for level in -O0 -O2 ${long:+-O1 -O3 -Os}; do
			try "$cc $level: stretches" noted $cc "$level"
		done
	done
else
	skip "stretches: no nm and objdump (Debian: binutils)"
fi
try "files of the user's that are never preempted" never
try "shared library" shared "${CC:-cc}"
try "an object of the user's" own_object
try "static" static_too
for how in "gcc -O0" "clang -O2" "gcc -O3 -no-pie -fno-pie" "gcc -O2 -fPIE -pie" \
    "gcc -O2 -DUSCHED_PORTABLE"; do
	have ${how%% *} || { skip "$how (Debian: ${how%% *})"; continue; }
	try "$how" ends 0 "$how" test/proc/preempt.c
done
for how in "gcc -O2 -flto" "clang -O2 -flto=thin" "gcc -O2 -ffunction-sections" \
    "gcc -O2 -fsanitize=address -DUSCHED_SANITIZE_ANYWAY"; do
	have ${how%% *} || { skip "$how (Debian: ${how%% *})"; continue; }
	$how "$dir/empty.c" -o "$dir/t" >/dev/null 2>&1 ||
		{ skip "$how: does not link"; continue; }
	try "$how" ends 77 "$how" test/proc/preempt.c
done
try "inlined" says "0 $notsup" "" ""
try "not inlined" says "0 0" "" -DUSCHED_PREEMPT
try "no unwind tables" says "$notsup 0" \
	"-fno-asynchronous-unwind-tables -fno-unwind-tables -fno-exceptions" \
	-DUSCHED_PREEMPT
for machine in ${long:+aarch64 riscv64}; do
	cc=$machine-linux-gnu-gcc
	if ! have $cc || ! have qemu-$machine; then
		skip "$machine (Debian: gcc-$machine-linux-gnu qemu-user)"
		continue
	fi
	try "$machine" ends 0 "$cc -O2 -fasynchronous-unwind-tables" \
		test/proc/preempt.c "qemu-$machine -L /usr/$machine-linux-gnu"
done
counted
