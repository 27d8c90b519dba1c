#!/bin/sh
# SPDX-License-Identifier: MIT
# place.sh: waits in place hold with all compiler flags of a program, and with
# all flags of the library.
#
#	test/core/place.sh [--full]
#
# run	place passes, the program and the library with flags of their own
# cxx	the same as C++
# red	small waiting functions keep out of the red zone (place/leaf.c); without
#	the call that keeps them out, they are found in it
# call	waits are calls where they must be, and nowhere else
# file	a file that waits compiles
# lib	a ring runs with a library that is linked in this way
# two	copies of the library in a program and in a plug-in keep apart
#
# Without --full, a few of each. Compilers that are not installed are skipped.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout

case $(uname -m) in
x86_64)	;;
*)	echo "skipped: only x86-64 has waits in place"; exit 77 ;;
esac

# kind | compiler | flags of the program | flags of the library
jobs() {
	for cc in gcc clang; do
		sed "s/CC/$cc/" <<-END
		run|CC|-O3 -fno-omit-frame-pointer -mstackrealign|-O0
		run|CC|-Os -fPIC -fstack-protector-all -fcf-protection|-O2 -fPIC -fcf-protection
		run|CC|-O2 -mavx512f|-O2
		run|CC|-O1 -DUSCHED_CALL -mcmodel=large|-O3 -mavx512f
		run|CC|-O2|-O2 -DUSCHED_PORTABLE
		cxx|CC|-O2|-O2
		red|CC|-O0
		red|CC|-O2
		red|CC|-O3 -fno-omit-frame-pointer -fPIC
		red|CC|-Os -mavx512f
		file|CC|-O2 -mgeneral-regs-only
		file|CC|-O2 -masm=intel
		call|CC|
		END
		if [ -z "$full" ]; then
			sed -n "s/^$cc: //p" <<-END
			gcc: lib|gcc|-O1 -flto -fPIC -shared
			gcc: lib|gcc|-O1 -flto -DUSCHED_PORTABLE
			gcc: run|gcc|-O2 -flto|-O2 -flto
			gcc: run|gcc|-O2 -flto -DUSCHED_CALL|-O2 -flto
			clang: lib|clang|-O1 -flto -ffunction-sections -Wl,--gc-sections
			clang: two|clang|-O1 -fvisibility=hidden
			END
			continue
		fi
		echo "file|$cc|-O2 -mno-80387"
		echo "file|$cc|-O2 -mno-sse -mno-mmx"
		for o in -O0 -O1 -O2 -O3 -Os -Og; do
			for f in -fPIC '-fPIC -fno-plt' -mcmodel=large \
				'-mcmodel=large -fPIC' -fno-omit-frame-pointer \
				-mstackrealign -fstack-clash-protection \
				-fstack-protector-all -fcf-protection -mavx2 \
				-mavx512f -march=native -mno-red-zone -flto \
				-fno-asynchronous-unwind-tables -DUSCHED_CALL \
				-fomit-frame-pointer; do
				echo "run|$cc|$o $f|-O2"
				echo "run|$cc|-O2|$o $f"
				echo "red|$cc|$o $f"
			done
			for f in -flto '-flto -fPIC -shared' '-flto -static' \
				'-ffunction-sections -Wl,--gc-sections' \
				'-flto -ffunction-sections -Wl,--gc-sections' \
				'-fPIC -shared' '-fPIC -shared -Wl,-z,now' \
				'-fPIC -shared -Wl,-Bsymbolic' \
				-DUSCHED_PORTABLE '-flto -DUSCHED_PORTABLE'; do
				echo "lib|$cc|$o $f"
			done
			echo "cxx|$cc|$o|-O2"
			echo "two|$cc|$o -fvisibility=hidden"
		done
	done
}

fail() {
	echo "FAIL  $kind $cc $flags${library:+ | $library}: $*"
	[ ! -s "$exe.log" ] || sed 's/^/	/' "$exe.log"
	exit 1
}

must() { # what, command ...
	what=$1
	shift
	timeout 300 "$@" >"$exe.log" 2>&1 || fail "$what"
}

skip() {
	echo "skip  $kind $cc $flags${library:+ | $library}: $*"
	exit 77
}

# Flags are words.
compile() { # what
	must "$1" $compiler -std=gnu11 -g -Wall -Wextra -Werror $includes "$@"
}

# Some programs compile, but do not run here.
runs_here() { # flags
	case $1 in
	*avx512f*)	grep -qw avx512f /proc/cpuinfo ;;
	*avx2*)		grep -qw avx2 /proc/cpuinfo ;;
	esac
}

do_run() {
	compile test/core/place.c $flags -c -o "$exe.o"
	compile usched.c $library -c -o "$exe.u.o"
	must linking $cc $flags "$exe.o" "$exe.u.o" -o "$exe" -pthread
	runs_here "$flags $library" || skip "compiles; this machine cannot run it"
	must running "$exe"
}

do_cxx() {
	compiler=$(echo $cc | sed 's/gcc/g++/; s/clang/clang++/')
	command -v $compiler >/dev/null || skip "no $compiler"
	must compiling $compiler -x c++ -std=gnu++11 -g -Wall -Wextra $includes \
		test/core/place.c $flags -c -o "$exe.o"
	compiler=$cc
	compile usched.c $library -c -o "$exe.u.o"
	must linking $cc "$exe.o" "$exe.u.o" -o "$exe" -pthread
	must running "$exe"
}

# Prints the functions of leaf.c that use the red zone.
in_red_zone() { # flags
	compile test/core/place/leaf.c $flags "$@" -S -o "$exe.s"
	awk -f test/core/place/red.awk "$exe.s" | grep '^leaf_'
}

do_red() {
	in_red_zone -fno-lto >"$exe.red" && { mv "$exe.red" "$exe.log"; fail red zone; }
	case $flags in
	*mno-red-zone*|*USCHED_CALL*|*protector*|*mstackrealign*)	return ;;
	esac
	in_red_zone -fno-lto -DLEAF_BARE >"$exe.red"
	[ "$(wc -l <"$exe.red")" -ge 4 ] ||
		fail "leaf.c does not get to the red zone without the call"
}

# Prints yes or no: does a file with these flags wait in place?
# An empty errno.h will do, also for machines whose libc is not installed.
in_place() { # flags
	mkdir -p "$exe.libc" && : >"$exe.libc/errno.h"
	printf '#include "usched.h"\n#ifdef USCHED_IN_PLACE\nyes\n#else\nno\n#endif\n' |
		$cc "$@" -I"$exe.libc" -I. -E - 2>"$exe.log" | tail -n 1
}

do_call() {
	for f in -DUSCHED_CALL -DUSCHED_PREEMPT -DUSCHED_HARD -DUSCHED_PORTABLE \
		-D__APX_F__ -mamx-tile -D__AMX_TILE__ -U__LP64__ -m32 -mx32 \
		-U__ELF__ '-D__aarch64__ -U__x86_64__'; do
		[ "$(in_place $f)" = no ] || fail "$f: in place"
	done
	for f in -O0 -O2 -mavx512f -fPIC -DNDEBUG; do
		[ "$(in_place $f)" = yes ] || fail "$f: not in place"
	done
}

do_file() {
	compile test/core/place/leaf.c $flags -c -o "$exe.o"
}

# ring: lmain, rmain and wmain, compiled with the plain header.
do_lib() {
	set -- $(where usched.c $waits umem.c uproc.c rr.c ll.c ws.c)
	case $flags in
	*-shared*)
		compile "$@" $flags -o "$exe.so"
		set -- "$exe.so"
		flags=$(echo "$flags" | sed 's/-shared.*//') ;;
	*PORTABLE*)
		compile usched.c $flags -c -o "$exe.u.o"
		shift
		set -- "$exe.u.o" "$@"
		flags=$(echo "$flags" | sed 's/-DUSCHED_PORTABLE//') ;;
	esac
	for main in rmain lmain wmain; do
		compile $(where $main.c) $flags "$@" -o "$exe" -pthread -lm
		must "$main" "$exe" 4 100 20 0 1
		must "$main" "$exe" 2 10 20 0 2
	done
}

# The program asks the plug-in to run place in turn with itself.
do_two() {
	cat >"$exe.c" <<-END
	#define main place_main
	#include "place.c"
	#undef main
	#if defined(PLUG_IN)
	__attribute__((visibility("default"))) int plug_in(int, char **);
	int plug_in(int argc, char **argv) { return place_main(argc, argv); }
	#else
	int plug_in(int, char **);
	int main(int argc, char **argv)
	{
		return place_main(argc, argv) || plug_in(argc, argv) ||
		       place_main(argc, argv);
	}
	#endif
	END
	compile -Itest/core "$exe.c" usched.c $flags -DPLUG_IN -fPIC -shared -o "$exe.so"
	compile -Itest/core "$exe.c" usched.c $flags "$exe.so" -o "$exe" -pthread
	must running "$exe"
}

one() {
	IFS='|' read -r kind cc flags library <<-END
	$1
	END
	command -v $cc >/dev/null || skip "no $cc"
	exe=$(mktemp -p "$dir")
	compiler=$cc
	echo 'int main(void) { return 0; }' >"$exe.c"
	$cc $flags $library -fno-lto "$exe.c" -o "$exe" >"$exe.log" 2>&1 ||
		skip "$(grep -m 1 -i error "$exe.log")"
	do_$kind
	echo "ok    $kind $cc $flags${library:+ | $library}"
	rm -rf "$exe"*
}

if [ "$1" = --one ]; then
	(one "$2")
	echo $? >>"$dir/status"
	exit 0
fi
full=
[ "$1" = --full ] && full=1
. test/run/count
WATCHDOG=${WATCHDOG:-300}
export dir WATCHDOG
jobs | tr '\n' '\0' | xargs -0 -n 1 \
	-P "$(getconf _NPROCESSORS_ONLN)" sh test/core/place.sh --one
counted_in "$dir/status"
