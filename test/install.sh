#!/bin/sh
# SPDX-License-Identifier: MIT
# install.sh: what make install puts in place is all that a program needs, with
# the flags of usched.pc, with the static and with the shared library. Each
# header that is installed finds what it includes, a scheduler can be built from
# them, and gdb lists the threads of a program without being asked to load
# anything. DESTDIR and LIBDIR are honoured; uninstall takes away what install
# put, and nothing else. A program linked in the tree runs there.

cd "$(dirname "$0")/.." || exit 1
dir=$(cd "$(mktemp -d)" && pwd -P) && trap 'rm -rf "$dir"' EXIT || exit 1
cc=${CC:-cc} make=${MAKE:-make}
passed=0 failed=0 skipped=0
usr=$dir/usr lib=$dir/usr/lib/here

must() { # what, command ...
	what=$1; shift
	if "$@" >"$dir/log" 2>&1; then
		passed=$((passed + 1))
	else
		echo "FAIL  $what: $*"
		cat "$dir/log"
		failed=$((failed + 1))
	fi
}

skip() {
	echo "skip  $1"
	skipped=$((skipped + 1))
}

make_it() { # target, variables
	$make -s "$@" CC="$cc"
}

flags() { # package, --cflags or --libs
	if command -v pkg-config >/dev/null; then
		PKG_CONFIG_PATH=$lib/pkgconfig pkg-config "$2" "$1"
	else
		case $2 in
		--cflags)	key=Cflags ;;
		--libs)		key=Libs ;;
		esac
		sed -n "s|^$key: ||p" "$lib/pkgconfig/$1.pc" |
			sed "s|\${includedir}|$usr/include/usched|
				s|\${libdir}|$lib|"
	fi
}

build() { # program, flags and files
	out=$1; shift
	$cc -Wall -Werror $cflags "$@" -o "$dir/$out"
}

run() { # program
	LD_LIBRARY_PATH=$lib timeout 60 "$dir/$1"
}

files() { # below
	find "$1" ! -type d | sed "s|$dir/stage||g; s|$dir||g" | sort
}

programs() { # what to link with
	for how; do
		must "$how" build a test/s_article.c -Itest $how
		must "$how" run a
		# Inline functions of ws.h call into the library.
		must "$how" build a -DWS test/s_join.c -Itest $how
		must "$how" run a
		must "$how" build pr -Iexamples/pr examples/pr/demo.c \
			examples/pr/pr.c $how
		must "$how" run pr
	done
}

# uproc_api.h is a template: pr.h has tried it.
headers() {
	for header in "$usr"/include/usched/*.h; do
		case $header in
		*/uproc_api.h)	continue ;;
		esac
		echo "#include <${header##*/}>" >"$dir/alone.c"
		must "${header##*/}" $cc -Wall -Werror $cflags -fsyntax-only \
			"$dir/alone.c"
	done
	for header in $(grep -o '\<u[a-z_]*\.h' doc/scheduler.md | sort -u); do
		must "$header of doc/scheduler.md" [ -e \
			"$usr/include/usched/$header" ]
	done
}

# By what usched-cxx.pc says.
cxx() {
	if [ -e "$lib/libusched_cxx.a" ]; then
		must usched-cxx.pc ${CXX:-g++} -std=c++17 -DRR $cflags \
			test/t_cxx.cc -Itest -o "$dir/x" $(flags usched-cxx --libs)
		# Threads that abort in a handler leave their exceptions.
		must usched-cxx.pc env ASAN_OPTIONS=detect_leaks=0 \
			timeout 60 "$dir/x"
	else
		skip 'usched-cxx.pc: no C++ compiler'
	fi
}

listed() {
	LD_LIBRARY_PATH=$lib gdb -nx -batch -iex 'set debuginfod enabled off' \
		-iex "set auto-load scripts-directory $usr/share/gdb/auto-load" \
		-iex "set auto-load safe-path $usr/share/gdb/auto-load" \
		-ex 'break wakes' -ex run \
		-ex 'usched bt' "$dir/g" 2>&1
}

hooks() {
	must hooks build w -Itest test/wrap/plain.c "$lib/usched/uwrap_link.o" \
		"@$lib/usched/wrap.flags" "$lib/libusched.a" -pthread
	must hooks run w
}

gdb_finds() {
	cat >"$dir/g.c" <<-'END'
	#include <rr.h>

	static void waits(void *arg)
	{
		(void)arg;
		rr_wait();
	}

	static void wakes(void *waiter)
	{
		rr_wake(waiter);
	}

	int main(void)
	{
		return rr_init(1, 0) ||
			!rr_thread_init(wakes, rr_thread_init(waits, 0)) ||
			rr_start() || rr_fini();
	}
	END
	if ! command -v gdb >/dev/null; then
		skip 'gdb finds the script: no gdb (package gdb)'
	else
		must gdb build g -g "$dir/g.c" $libs
		listed >"$dir/listed"
		must "gdb: $(cat "$dir/listed")" grep -q ' in waits (' \
			"$dir/listed"
	fi
}

in_tree() {
	must 'in the tree' $cc -Wall $(flags usched --cflags) test/s_article.c \
		-Itest -I. -Iwait -Iproc -L. -lusched -pthread -o "$dir/a"
	must 'in the tree' env LD_LIBRARY_PATH=. timeout 60 "$dir/a"
}

must install make_it install PREFIX="$usr" LIBDIR="$lib"
must 'install with DESTDIR' make_it install DESTDIR="$dir/stage" PREFIX=/usr \
	LIBDIR=/usr/lib/here
files "$usr" >"$dir/direct"
files "$dir/stage" >"$dir/staged"
must DESTDIR diff "$dir/direct" "$dir/staged"
must LIBDIR [ -z "$(grep '^/usr/lib/[^/]*$' "$dir/direct")" ]
must include/usched [ -z "$(grep '^/usr/include/[^/]*$' "$dir/direct")" ]
cflags=$(flags usched --cflags) libs=$(flags usched --libs)
programs "$lib/libusched.a -pthread"
headers
hooks
cxx
# Debian's musl-gcc comes without an unwinder, which the shared library needs.
case $cc in
*musl*)	skip "the shared library with $cc" ;;
*)	programs "$libs"
	gdb_finds
	in_tree ;;
esac

# Others' files stay.
touch "$usr/include/usched/other.h" "$lib/libusched.conf"
must uninstall make_it uninstall PREFIX="$usr" LIBDIR="$lib"
must 'what is left' [ "$(files "$usr" | tr '\n' ' ')" = \
	'/usr/include/usched/other.h /usr/lib/here/libusched.conf ' ]
must 'uninstall with DESTDIR' make_it uninstall DESTDIR="$dir/stage" \
	PREFIX=/usr LIBDIR=/usr/lib/here
must 'what is left' [ -z "$(files "$dir/stage"; ls -d \
	"$dir"/stage/usr/*/*usched* "$dir"/stage/usr/share/gdb/*/* 2>&-)" ]
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
