#!/bin/sh
# SPDX-License-Identifier: MIT
# fuzz.sh: blocks do not change the results of random programs (fuzz/fuzz.h).
#
#	test/core/fuzz.sh			the corpus, then new cases
#	test/core/fuzz.sh --soak		new cases until one fails
#	test/core/fuzz.sh --replay LINE	one case, as a failure printed it
#	test/core/fuzz.sh --kinds		how often each feature is in the corpus
#
# There are two builds, or with FUZZ_FLAGS one. In the environment: CC; CXX;
# FUZZ_FLAGS, compiler flags; FUZZ_LIB, files of the library; FUZZ_EMU, a
# program to run it; FUZZ_SECONDS, for the new cases of all builds; FUZZ_JOBS;
# SEED; OUT, where to note failures: in OUT/found, one line for each.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

cc=${CC:-cc}
lib=${FUZZ_LIB:-usched.c $(where $waits) lib/proc/umem.c lib/proc/uproc.c rr.c ll.c}
seconds=${FUZZ_SECONDS:-20}
out=${OUT:-out}
seed=${SEED:-$(date +%s)$$}
src=test/core/fuzz

cxx_of() { # compiler: the C++ compiler that goes with it
	case "$1" in
	musl-gcc*)	;;
	*gcc*)		echo "$1" | sed 's/gcc/g++/' ;;
	*clang*)	echo "$1" | sed 's/clang/clang++/' ;;
	*)		echo c++ ;;
	esac
}

# Succeeds if the compiler works, with its library.
cxx=${CXX:-$(cxx_of "$cc")}
echo '#include <stdexcept>' >"$dir/try.cc"
if [ -z "$cxx" ] || ! $cxx -fsyntax-only "$dir/try.cc" 2>/dev/null; then
	skip "the shapes in C++: no C++ compiler for $cc (package g++)"
	cxx=
fi

build() { # name, flags
	name=$1
	shift
	warn="-g -Wall -Wextra -fexceptions $includes"
	more= d=$dir/$name
	mkdir -p "$d" || return
	case " $* " in *USCHED_HARD*) [ "$FUZZ_LIB" ] || more=lib/debug/uhard.c ;; esac
	[ -z "$cxx" ] || warn="$warn -DFUZZ_CXX"
	for file in $lib $more $src/*.c; do
		$cc -std=gnu11 $warn "$@" -c -o "$d/${file##*/}.o" "$file" ||
			return
	done
	if [ "$cxx" ]; then
		$cxx $warn "$@" -c -o "$d/throws.o" $src/throws.cc &&
		$cxx "$@" $LDFLAGS -o "$d/fuzz" "$d"/*.o -lm -pthread
	else
		$cc "$@" $LDFLAGS -o "$d/fuzz" "$d"/*.o -lm -pthread
	fi
}

# Keeps the program of a failure.
keep() {
	[ -s "$dir/found" ] || return 0
	mkdir -p "$out" && cat "$dir/found" >>"$out/found" &&
		echo "noted in $out/found"
	rm -f "$dir/found"
}

fuzz() { # build, arguments
	name=$1
	shift
	FUZZ_FOUND=$dir/found $FUZZ_EMU "$dir/$name/fuzz" "$@"
}

count() { # "N passed, N failed"
	set -- $(echo "$1" | tr -dc '0-9 ')
	passed=$((passed + ${1:-0})) failed=$((failed + ${2:-1}))
}

corpus() { # build
	fuzz "$1" corpus $src/corpus >"$dir/log"
	sed '$d' "$dir/log"
	count "$(tail -n 1 "$dir/log")"
	keep
}

random() { # build, seconds, seed
	if fuzz "$1" run "$2" "$3" ${FUZZ_JOBS:-2}; then
		pass
		return 0
	fi
	failed=$((failed + 1))
	keep
	return 1
}

replay() { # build: what to write before a line
	export FUZZ_REPLAY="CC='$cc' FUZZ_FLAGS='$(flags_of "$1")' test/core/fuzz.sh --replay"
	echo "build: $(flags_of "$1")"
}

flags_of() { # build
	case $1 in
	lanes)		echo "-O2" ;;
	portable)	echo "-O0 -DUSCHED_PORTABLE" ;;
	*)		echo "-O2 $FUZZ_FLAGS" ;;
	esac
}

builds='lanes portable'
[ -z "$FUZZ_FLAGS" ] || builds=flags
nr=$(echo $builds | wc -w)

for b in $builds; do
	[ "$b" = portable ] && [ "$1" = --replay ] && continue
	if ! build $b $(flags_of $b); then
		fail "no build with $cc $(flags_of $b)"
		counted
	fi
done

case $1 in
--replay)
	fuzz "${builds%% *}" replay "$2"
	exit ;;
--kinds)
	fuzz "${builds%% *}" kinds $src/corpus
	exit ;;
--soak)
	while :; do
		for b in $builds; do
			replay $b
			random $b 60 "$seed" || exit 1
		done
		seed=$(expr "$seed" + 1)
	done ;;
esac

for b in $builds; do
	replay $b
	corpus $b
	random $b $(expr "$seconds" / "$nr") "$seed"
done
counted
