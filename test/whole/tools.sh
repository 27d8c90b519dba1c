#!/bin/sh
# SPDX-License-Identifier: MIT
# tools.sh: the tests under Valgrind and the sanitizers of each compiler.
#
#	test/whole/tools.sh [--full] [-j jobs] [test ...]
#
# With each tool, tests must run without a report; then the tool must report
# each bug of tools.c that is in its line. Prints a line for each tool, and
# the output of failures. Without --full a few tests run; with it, all tests
# except those that make no sense there, which are named, with the reason. A
# test is named as in order-RR. Tools that are not installed are skipped, with
# the name of their Debian package. In the environment: TOOLS, a regular
# expression for fewer lines; OUT, where to build.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
unset ASAN_OPTIONS LSAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS USCHED_DEBUG

# tool | compiler | flags | options | Debian package; + is for --full only. Apart: the
# library is compiled without, as the debug library, and only programs with the tool.
tools() {
	cat <<-END
	valgrind|gcc|-O2||valgrind
	address|gcc|-O1||gcc
	address|gcc|-O1 -DUSCHED_PORTABLE||gcc
	address-apart|gcc|-O2||gcc
	thread|gcc|-O1||gcc
	address|clang|-O1||libclang-rt-14-dev
	thread|clang|-O1||libclang-rt-14-dev
	undefined|clang|-O2||libclang-rt-14-dev
	address|clang-19|-O1|detect_stack_use_after_return=1|libclang-rt-19-dev
	+thread|clang-19|-O1||libclang-rt-19-dev
	+address|gcc|-O2|detect_stack_use_after_return=1|gcc
	+address|gcc|-O0||gcc
	+address|clang-19|-O2|detect_stack_use_after_return=0|libclang-rt-19-dev
	+thread|gcc|-O2 -DUSCHED_PORTABLE||gcc
	+thread|gcc|-O0||gcc
	+undefined|gcc|-O2 -DUSCHED_PORTABLE||gcc
	+undefined|clang-19|-O2||libclang-rt-19-dev
	+valgrind|gcc|-O2 -DUSCHED_PORTABLE||valgrind
	+address-apart|clang|-O2||libclang-rt-14-dev
	+undefined|gcc|-O2||gcc
	END
}

few() { # tool
	case $1 in
	valgrind)	echo tools abort depth reenter order-LL pin-WS ;;
	address)	echo tools abort alloc depth reenter \
				core_signal join-LL cross-RR join-WS freed-WS \
				waitmem-RR pthread-WS pthread_io-WS view_plain ;;
	thread)		echo tools abort depth reenter article \
				inbox pin-RR pin-WS wait-WS io_storm-LL \
				engine engine_edges \
				pthread-WS pthread_io-WS ;;
	undefined)	echo tools join-RR life-LL order-LL cross-RR life-WS ;;
	esac
}

all() {
	MAKEFLAGS='' make -s programs DEFS=-DUSCHED_HARD
}

# Prints why a test is not run with a tool.
senseless() { # tool, compiler and options, test
	case $1:$2:$3 in
	valgrind:*:fpu|valgrind:*:known)
		echo "it does not emulate all control words" ;;
	valgrind:*:lane)	echo "64,000 mappings are too many for it" ;;
	valgrind:*:step|thread:*:step)
		echo "single steps through the tool itself" ;;
	valgrind:*:trace)
		echo "it compares stacks, with what was never set there" ;;
	thread:*:known|address:*:known)
		echo "wrong on purpose, and reported" ;;
	thread:*:nomem*)
		echo "fibers for hundreds of runs take too long" ;;
	thread:*:freed*)
		echo "fibers for 24,000 threads take too long" ;;
	thread:*:left|thread:*:resume)
		echo "it looks for a jmp_buf among those of one fiber" ;;
	*:guard)
		echo "its handlers are in the way of ours" ;;
	valgrind:*:million*)
		echo "too many threads to wait for" ;;
	thread:*:million*|thread:*:many|thread:*:count*)
		echo "more than 8000 threads" ;;
	thread:*:cross*|thread:*:signal*)
		echo "queued signals, of which it keeps one" ;;
	valgrind:*:cross*|valgrind:*:join-*|valgrind:*:life*|\
	valgrind:*:wakes|valgrind:*:wait-*)
		echo "native threads that wait for each other: it runs one" ;;
	thread:*:join-*|thread:*:life*)
		echo "more than 8000 threads" ;;
	address:*:life*)
		echo "measures memory, which is kept for a while when freed" ;;
	address:*return=1:lane|address:*return=1:core_order|address:*return=1:hard)
		echo "looks for its stack where its arrays are" ;;
	address:clang*:fail*|address:clang*:nomem*|thread:clang*:engine_fail)
		echo "counts calls, and so those of a runtime linked in" ;;
	address:*return=1:million*|address:*return=1:many)
		echo "a million fake stacks" ;;
	esac
}

# name, lanes, expected text of the report
bugs() { # tool
	case $1 in
	valgrind)	for lanes in 0 1 3; do
			echo "heap $lanes Invalid write"
			echo "free $lanes Invalid read"
			echo "unset $lanes depends on uninitialised value"
			echo "leak $lanes definitely lost"
		done ;;
	address)	for lanes in 0 1 3; do
			echo "heap $lanes heap-buffer-overflow"
			echo "free $lanes heap-use-after-free"
			echo "stack $lanes stack-buffer-overflow"
			echo "leak $lanes detected memory leaks"
		done ;;
	thread)		echo "race 0 data race" ;;
	undefined)	echo "overflow 1 signed integer overflow" ;;
	esac
}

# Runs a program with a tool, and with its options.
run() ( # tool, options, program and its arguments
	tool=$1
	# Some tests are linked with a source of the library that they contain.
	export ASAN_OPTIONS="${2:+$2:}detect_odr_violation=0"
	shift 2
	case $tool in
	valgrind)
		set -- valgrind --error-exitcode=99 --leak-check=full \
			--show-leak-kinds=definite \
			--errors-for-leak-kinds=definite "$@" ;;
	thread)
		export WATCHDOG="${WATCHDOG:-300}"	# fibers are slow
		[ -e "$dir/setarch" ] && set -- setarch -R "$@" ;;
	esac
	timeout 900 "$@"
)

# Sets $cflags; the library is built to $dir.
library() { # compiler, tool, flags
	cflags="-std=gnu11 -g -Wall -Wextra $includes $3"
	case $2 in
	address|thread)	cflags="$cflags -fsanitize=$2 -DUSCHED_HARD" ;;
	undefined)	cflags="$cflags -fsanitize=undefined"
			cflags="$cflags -fno-sanitize-recover=all" ;;
	esac
	sanitized=$cflags
	[ -z "$apart" ] || cflags=$(echo "$cflags" | sed 's/-fsanitize=[a-z]*//')
	mkdir -p "$dir/face" || return 1
	for src in $(cat sources) ext/posix/*.c ext/wrap/*.c; do
		case $src in
		ext/posix/*|ext/wrap/*)	to=$dir/face ;;
		*)		to=$dir ;;
		esac
		$1 $cflags -c -o "$to/$(basename $src .c).o" "$src" || return 1
	done
	cflags=$sanitized
}

build() { # compiler, test
	src=$(test_of "${2%%-*}")
	case $2 in
	*-*)	variant=-D${2#*-} ;;
	*)	variant= ;;
	esac
	case $(sed -n 's/^.. VARIANTS: //p' "$src")/$2 in
	core*)	objs="$dir/usched.o $dir/uhard.o" ;;
	*/pthread*)	objs=$(ls "$dir"/face/*.o "$dir"/*.o) ;;
	*)	objs=$(ls "$dir"/*.o) ;;
	esac
	$1 $cflags $variant -o "$dir/$2" "$src" $objs -pthread \
		$(sed -n '1,5s|^/\* LIBS: \(.*\) \*/$|\1|p' "$src")
}

# Succeeds if programs can be built and run. Thread sanitizers may need setarch.
probe() { # tool, compiler, flags
	echo 'int main(void) { return 0; }' >"$dir/probe.c"
	flag=
	case $1 in
	address|thread|undefined)	flag=-fsanitize=$1 ;;
	esac
	$2 $flag $3 -o "$dir/probe" "$dir/probe.c" -pthread || return 1
	run "$1" "" "$dir/probe" && return 0
	[ "$1" = thread ] && command -v setarch || return 1
	touch "$dir/setarch"
	run "$1" "" "$dir/probe"
}

# Prints a line, and exits as a test does.
one() { # a line of tools()
	IFS='|' read -r tool cc flags options package <<-END
	$1
	END
	name=$(echo $tool $cc $flags $options)
	apart=${tool#"${tool%-apart}"} tool=${tool%-apart}
	dir=$OUT/$(echo "$name" | tr -c 'A-Za-z0-9\n' _)
	rm -rf "$dir"
	mkdir -p "$dir"
	for need in $cc $([ "$tool" = valgrind ] && echo valgrind); do
		command -v "$need" >/dev/null && continue
		echo "skip  $name: no $need (Debian: $need)"
		return 77
	done
	if ! probe "$tool" "$cc" "$flags" >"$dir/log" 2>&1; then
		echo "skip  $name: it does not work here (Debian: $package):" \
			"$(grep -m 1 -iE 'cannot|error|fatal|not found' \
			"$dir/log" | cut -c1-100)"
		return 77
	fi
	if ! library "$cc" "$tool" "$flags" >"$dir/log" 2>&1; then
		echo "FAIL  $name: the library"
		sed 's/^/	/' "$dir/log"
		return 1
	fi
	bad= not= ran=0 found=0
	for test in ${TESTS:-$(few "$tool")}; do
		why=$(senseless "$tool" "$cc $options" "$test")
		if [ -n "$why" ]; then
			not="$not\n      not $test: $why"
			continue
		fi
		{ build "$cc" "$test" && run "$tool" "$options" "$dir/$test"; } \
			>"$dir/log" 2>&1
		rc=$?
		[ $rc -eq 77 ] && continue
		ran=$((ran + 1))
		[ $rc -eq 0 ] && ! grep -q 'WARNING\|switching stacks' \
			"$dir/log" && continue
		bad="$bad $test($rc)"
		sed "s/^/	/" "$dir/log" | head -n 100 >>"$dir/all"
	done
	bugs "$tool" >"$dir/bugs"
	[ -x "$dir/tools" ] || build "$cc" tools >"$dir/log" 2>&1
	while read -r bug lanes report; do
		if run "$tool" "$options" "$dir/tools" "$bug" "$lanes" \
		   >"$dir/log" 2>&1 </dev/null || ! grep -q "$report" "$dir/log"
		then
			bad="$bad $bug-not-reported($lanes)"
			sed "s/^/	/" "$dir/log" >>"$dir/all"
		else
			found=$((found + 1))
		fi
	done <"$dir/bugs"
	# Memory that only blocked threads know of is not a leak.
	for lanes in 0 1 3; do
		run "$tool" "$options" "$dir/tools" exit $lanes \
			>"$dir/log" 2>&1 && continue
		bad="$bad exit($lanes)"
		sed "s/^/	/" "$dir/log" >>"$dir/all"
	done
	if [ -n "$bad" ]; then
		{ echo "FAIL  $name:$bad"; cat "$dir/all"; } 2>/dev/null
		return 1
	fi
	printf "ok    %s: %s tests, %s bugs reported$not\n" "$name" $ran $found
	rm -rf "$dir"
}

if [ "$1" = --one ]; then
	one "$2"
	echo $? >"$OUT/rc.$$"
	exit 0
fi

full= jobs=$(getconf _NPROCESSORS_ONLN)
while :; do
	case "$1" in
	--full)	full=1; shift ;;
	-j)	jobs=$2; shift 2 ;;
	-*)	sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2 ;;
	*)	break ;;
	esac
done

TESTS=$*
[ -n "$full" ] && [ -z "$TESTS" ] && TESTS=$(all)
export WATCHDOG="${WATCHDOG:-600}"
. test/run/count
OUT=${OUT:-$dir}
mkdir -p "$OUT"
export TESTS OUT
rm -f "$OUT"/rc.*

if [ -n "$full" ]; then tools | sed 's/^+//'; else tools | grep -v '^+'; fi |
	grep -E "${TOOLS:-.}" | tr '\n' '\0' |
	xargs -0 -P "$jobs" -n 1 nice sh test/whole/tools.sh --one
counted_in "$OUT"/rc.*
