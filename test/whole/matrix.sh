#!/bin/sh
# SPDX-License-Identifier: MIT
# matrix.sh: the tests of the core, with every compiler and many flags; on other
# machines hello.c and the ring of rr, too; without --quick also tests of rr.
# With --quick each compiler of this machine has two configurations, and each emulated
# machine one.
#
#	test/whole/matrix.sh [--quick] [-j jobs] [test ...]
#
# Tests are names like depth; if none is given, all run. Prints one line for
# each configuration, and the output of failures. Toolchains that are not
# installed are skipped, with the name of their Debian package. In the
# environment: USCHED, another usched.c; OPTS, fewer levels; TOOLS, a regular
# expression for fewer toolchains; OUT, where to build.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout

opts=${OPTS:-"-O0 -O1 -O2 -O3 -Os"}

# compiler | emulator | flags of all its configurations | Debian package
toolchains() {
	grep -E "${TOOLS:-.}" <<-END
	gcc|||gcc
	clang|||clang
	clang-19|||clang-19
	musl-gcc||-static|musl-tools
	aarch64-linux-gnu-gcc|qemu-aarch64|-static|gcc-aarch64-linux-gnu qemu-user
	riscv64-linux-gnu-gcc|qemu-riscv64|-static|gcc-riscv64-linux-gnu qemu-user
	i686-linux-gnu-gcc|qemu-i386|-static|gcc-i686-linux-gnu qemu-user
	arm-linux-gnueabihf-gcc|qemu-arm|-static|gcc-arm-linux-gnueabihf qemu-user
	s390x-linux-gnu-gcc|qemu-s390x|-static|gcc-s390x-linux-gnu qemu-user
	powerpc64le-linux-gnu-gcc|qemu-ppc64le|-static|gcc-powerpc64le-linux-gnu qemu-user
	END
}

# One configuration a line. Flags that a toolchain does not know are skipped.
flags() {
	cat <<-END

	-DUSCHED_PORTABLE
	-fstack-protector-all
	-fstack-protector-all -DUSCHED_PORTABLE
	-D_FORTIFY_SOURCE=3
	-D_FORTIFY_SOURCE=3 -DUSCHED_PORTABLE
	-flto
	-flto -DUSCHED_PORTABLE
	-fPIE -pie
	-static
	-fomit-frame-pointer
	-fno-omit-frame-pointer
	-fcf-protection=full
	-fsanitize=undefined -fno-sanitize-recover=all
	-fsanitize=undefined -fno-sanitize-recover=all -DUSCHED_PORTABLE
	-DNDEBUG -march=native
	-mbranch-protection=standard
	END
}

# Succeeds if a configuration makes no sense, or no difference.
senseless() { # compiler, flags
	case "$1:$2" in
	*:*FORTIFY*-O0*|*:*-O0*FORTIFY*)	return 0 ;;
	i686*:*PORTABLE*|arm-*:*PORTABLE*)	return 0 ;;	# as all
	s390x*:*PORTABLE*|powerpc*:*PORTABLE*)	return 0 ;;
	musl-gcc:*FORTIFY*|musl-gcc:*pie*|musl-gcc:*sanitize*)	return 0 ;;
	*-linux-gnu-gcc:*pie*|*-linux-gnu-gcc:*march=native*)	return 0 ;;
	*-linux-gnu-gcc:*cf-protection*)	return 0 ;;
	aarch64*:*branch-protection*)		return 1 ;;
	*:*branch-protection*)			return 0 ;;
	*:*-static*-static*)			return 0 ;;
	esac
	return 1
}

# Succeeds if a test needs an emulator that keeps x87 registers in a signal
# handler.
untrue() { # test, emulator
	case "$1:$2" in
	core_signal:qemu-i386*)	return 0 ;;
	esac
	return 1
}

cxx_of() {
	case "$1" in
	musl-gcc)	;;
	*gcc)		echo "${1%gcc}g++" ;;
	clang*)		echo "clang++${1#clang}" ;;
	esac
}

# The name of the program is $exe, its output goes to $log.
build_and_run() ( # compiler, emulator, flags, test
	src=$(test_of "$4")
	case $src in
	*.cc)	cc=$(cxx_of "$1")
		command -v "$cc" >/dev/null || exit 77
		std=-std=c++11 ;;
	*)	cc=$1 std=-std=c11 ;;
	esac
	libs=$(sed -n '1,5s|^/\* LIBS: \(.*\) \*/$|\1|p' "$src")
	$cc $std -Wall -Wextra -g $3 -I"$inc" $includes "$src" "$dir/usched.o" \
		-o "$dir/$4" -lpthread $libs || exit 1
	timeout 300 $2 "$dir/$4"
)

# Programs for machines that are emulated: each is called as build_and_run.
hello() {
	$1 -std=c11 $3 -I"$inc" examples/hello.c "$dir/usched.o" \
		-o "$dir/hello" &&
	$2 "$dir/hello" >"$dir/said" && grep -q "^world 3$" "$dir/said"
}

ring() {
	$1 -std=gnu11 $3 -I"$inc" $includes rmain.c \
		$(where rr.c $waits umem.c uproc.c) "$dir/usched.o" \
		-o "$dir/ring" -lpthread -lm &&
	timeout 300 $2 "$dir/ring" 4 10 20 0 1
}

rr() {
	for test in wait chan sync join; do
		make -s CC="$1" LDFLAGS=-static B="$dir/rr" "$dir/rr/test/$test-RR" &&
			WATCHDOG=300 timeout 400 $2 "$dir/rr/test/$test-RR" ||
			return 1
	done
}

# Prints a line, and exits as a test does.
one() { # toolchain | flags
	IFS='|' read -r cc emulator always package flags <<-END
	$1
	END
	name="$cc $always $flags"
	name=$(echo $name)
	for need in $cc $emulator; do
		command -v "$need" >/dev/null && continue
		echo "skip  $name: no $need (Debian: $package)"
		return 77
	done
	[ -n "$emulator" ] && emulator="$emulator -L /usr/${cc%-gcc}"
	dir=$OUT/$(echo "$name" | tr -c 'A-Za-z0-9\n' _)
	rm -rf "$dir"
	mkdir -p "$dir"
	echo 'int main(void) { return 0; }' >"$dir/probe.c"
	if ! { $cc $always $flags -o "$dir/probe" "$dir/probe.c" -lpthread &&
	       $emulator "$dir/probe"; } >"$dir/log" 2>&1; then
		echo "skip  $name: $(grep -m1 -i error "$dir/log" ||
			echo cannot run)"
		return 77
	fi
	bad= inc=$(dirname "${USCHED:-./usched.c}")
	if ! $cc -std=c11 -Wall -Wextra -g $always $flags -I"$inc" $includes -c \
		"${USCHED:-usched.c}" -o "$dir/usched.o" >"$dir/log" 2>&1; then
		bad=usched.c
		cat "$dir/log"
	else
		for test in $TESTS; do
			untrue "$test" "$emulator" && continue
			build_and_run "$cc" "$emulator" "$always $flags" \
				"$test" >"$dir/log" 2>&1
			rc=$?
			[ $rc -eq 0 ] || [ $rc -eq 77 ] && continue
			bad="$bad $test($rc)"
			sed "s/^/	/" "$dir/log" >>"$dir/all"
		done
		case $emulator:${flags% } in
		qemu*:-O2)	;;
		*)		PROGRAMS= ;;
		esac
		for program in $PROGRAMS; do
			$program "$cc" "$emulator" "$always $flags" \
				>"$dir/log" 2>&1 && continue
			bad="$bad $program"
			sed "s/^/	/" "$dir/log" >>"$dir/all"
		done
	fi
	if [ -n "$bad" ]; then
		{ echo "FAIL  $name:$bad"; cat "$dir/all"; } 2>/dev/null
		return 1
	fi
	rm -rf "$dir"
	echo "ok    $name"
}

configurations() {
	toolchains | while IFS= read -r chain; do
		if [ -n "$quick" ]; then
			case $chain in
			*linux-gnu-gcc*)	set -- -O2 ;;
			*)	set -- -O0 '-O3 -DUSCHED_PORTABLE' ;;
			esac
			for flags; do echo "$chain|$flags"; done
			continue
		fi
		for opt in $opts; do
			flags | while IFS= read -r flags; do
				senseless "${chain%%|*}" \
					"${chain#*|} $opt $flags" ||
					echo "$chain|$opt $flags"
			done
		done
	done
}

if [ "$1" = --one ]; then
	one "$2"
	echo $? >"$OUT/rc.$$"
	exit 0
fi

quick= jobs=$(getconf _NPROCESSORS_ONLN)
while :; do
	case "$1" in
	--quick)	quick=1; shift ;;
	-j)		jobs=$2; shift 2 ;;
	-*)		sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2 ;;
	*)		break ;;
	esac
done

TESTS=$* PROGRAMS=
[ -n "$TESTS" ] || PROGRAMS="hello ring"
[ -n "$TESTS$quick" ] || PROGRAMS="$PROGRAMS rr"
[ -n "$TESTS" ] || TESTS="core_cxx $(grep -l '^/. VARIANTS: core \*' \
	test/core/*.c | sed 's,.*/,,; s/\..*//')"
. test/run/count
OUT=${OUT:-$dir}
mkdir -p "$OUT"
export TESTS PROGRAMS OUT
rm -f "$OUT"/rc.*

configurations | tr '\n' '\0' | xargs -0 -P "$jobs" -n 1 nice sh test/whole/matrix.sh --one
counted_in "$OUT"/rc.*
