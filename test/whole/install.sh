#!/bin/sh
# SPDX-License-Identifier: MIT
# install.sh: what make install puts in place is all that a program needs, with
# the flags of usched.pc, with the static and with the shared library. Each
# header that is installed finds what it includes, a scheduler can be built from
# them, and gdb lists the threads of a program without being asked to load
# anything. The debug library checks, and does not mix with other files. The
# pthread face runs a program as it is. DESTDIR and LIBDIR are honoured; uninstall
# takes away what install put, and nothing else. A program linked in the tree
# runs there. A plugin with the shared library, in a thread of a program that has
# the static library, is told that there are two copies; one copy for both works, as
# doc/plugins.md has it.
# A plugin that is loaded and unloaded many times leaves nothing behind.
# With the flags of make flags and of usched.pc a frame that is larger than the guard
# ends the program with a message.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
. test/run/blocks
cc=${CC:-cc} make=${MAKE:-make}

usr=$dir/usr lib=$dir/usr/lib/here

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
			sed "s|\${includedir}|$usr/include|g
				s|\${libdir}|$lib|"
	fi
}

build() { # program, flags and files
	out=$1; shift
	$cc -Wall -Werror $cflags "$@" -o "$dir/$out"
}

run() { # program, argument ...
	out=$1; shift
	LD_LIBRARY_PATH=$lib timeout 600 "$dir/$out" "$@"
}

files() { # below
	find "$1" ! -type d | sed "s|$dir/stage||g; s|$dir||g" | sort
}

programs() { # what to link with
	{ cat examples/first/workers.c; every_call; } >"$dir/calls.c"
	for how; do
		try "$how: each function of all.h" build c "$dir/calls.c" $how
		try "$how" run c
		try "$how" build a test/proc/article.c -Itest/run $how
		try "$how" run a
		# Inline functions of ws.h call into the library.
		try "$how" build a -DWS test/proc/join.c -Itest/run $how
		try "$how" run a
		try "$how" build pr -Iexamples/pr examples/pr/demo.c \
			examples/pr/pr.c $how
		try "$how" run pr
	done
}

# Each header stands alone behind one flag, and without usched/ in front, as up
# to 0.3. uproc_api.h is a template: pr.h has tried it. Private headers are for
# others.
headers() {
	for header in "$usr"/include/usched/*.h; do
		header=${header##*/}
		[ "$header" != uproc_api.h ] || continue
		echo "#include <usched/$header>" >"$dir/alone.c"
		try "usched/$header" $cc -Wall -Wextra -Werror "-I$usr/include" \
			-fsyntax-only "$dir/alone.c"
		echo "#include <$header>" >"$dir/alone.c"
		try "$header" $cc -Wall -Werror $cflags -fsyntax-only "$dir/alone.c"
	done
	for old in $(sed -n 's/^OLD *:= *//p' Makefile); do
		printf '#include "%s"\n#include <usched/%s>\n' "${old%:*}" \
			"${old#*:}" >"$dir/alone.c"
		try "$old" $cc -Wall -Werror $cflags -fsyntax-only "$dir/alone.c"
	done
	try 'names of others' [ -z "$(cd "$usr/include/usched" &&
		ls *.h | grep -vE '^(u[a-z_]+|all|rr|ll|ws|pthreads)\.h$')" ]
	# A header of the program is found before ours, and bool is the program's.
	mkdir -p "$dir/theirs" && echo 'enum { THEIRS };' >"$dir/theirs/engine.h"
	printf '%s\n' '#include <usched/all.h>' '#include <engine.h>' \
		'typedef enum { false, true } bool;' \
		'int main(void) { return THEIRS + false; }' >"$dir/theirs.c"
	try 'names of the program' $cc -std=gnu11 -Wall -Werror $cflags \
		-isystem "$dir/theirs" -fsyntax-only "$dir/theirs.c"
	for header in $(grep -o '\<u[a-z_]*\.h' doc/scheduler.md | sort -u); do
		try "$header of doc/scheduler.md" [ -e \
			"$usr/include/usched/$header" -o -e \
			"$usr/include/usched/private/$header" ]
	done
}

# By CMake, which drops words of the flags that it has read before, and by clang,
# which warns of a flag that has no effect.
by_cmake() {
	for tool in cmake pkg-config; do
		have $tool || { skip "CMake: no $tool"; return; }
	done
	mkdir -p "$dir/cmake" && printf '%s\n' '#include <usched/all.h>' \
		'#include <rr.h>' '#include <engine.h>' \
		'int main(void) { return rr_stuck() != 0; }' >"$dir/cmake/app.c"
	cat >"$dir/cmake/CMakeLists.txt" <<-'END'
	cmake_minimum_required(VERSION 3.10)
	project(app C)
	add_executable(app app.c)
	find_package(PkgConfig REQUIRED)
	pkg_check_modules(usched REQUIRED IMPORTED_TARGET usched)
	target_link_libraries(app PRIVATE PkgConfig::usched)
	END
	for c in "$cc" clang; do
		have ${c%% *} || continue
		rm -rf "$dir/cmake/out"
		try "CMake, $c" env CC="$c" PKG_CONFIG_PATH="$lib/pkgconfig" \
			CFLAGS='-Wall -Werror' sh -c 'MAKEFLAGS= cmake \
			-S "$0" -B "$0/out" && MAKEFLAGS= cmake --build "$0/out"' \
			"$dir/cmake"
	done
}

# By what usched-cxx.pc says.
cxx() {
	if [ -e "$lib/libusched_cxx.a" ]; then
		printf '%s\n' '#include <usched/all.hpp>' \
			'int main() { ucxx::mutex m; return 0; }' >"$dir/all.cc"
		try all.hpp ${CXX:-g++} -std=c++17 -Wall -Wextra -Werror \
			"-I$usr/include" "$dir/all.cc" -o "$dir/x" $libs
		try usched-cxx.pc ${CXX:-g++} -std=c++17 -DRR $cflags \
			test/ext/cxx/cxx.cc -Itest/run -o "$dir/x" $(flags usched-cxx --libs)
		# Threads that abort in a handler leave their exceptions.
		try usched-cxx.pc env ASAN_OPTIONS=detect_leaks=0 \
			timeout 600 "$dir/x"
	else
		skip 'usched-cxx.pc: no C++ compiler'
	fi
}

# The debug library: a list of the threads that are stuck, a message at a stack
# overflow, and at a read from the stack of a thread that waits, by the program or
# the kernel; and files of the other kind do not link.
debug() {
	cat >"$dir/d.c" <<-'END'
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	#include <unistd.h>
	#include <usched/all.h>

	static struct usem never;
	static int *volatile shared, got, ends[2];

	static void reads(void *arg)
	{
		if (strcmp(arg, "read") == 0)
			got = *shared;
		else if (pipe(ends) == 0)
			got = (int)u_write(ends[1], shared, sizeof got, UNEVER);
		(void)!usem_post(&never);
	}

	static int deeper(int *above)
	{
		int here[1024];

		here[0] = *above + 1;
		return *above < 100000 ? deeper(here) + here[0] : 0;
	}

	static int run(void *arg)
	{
		int zero = 0;

		puts(getenv("USCHED_DEBUG"));
		if (arg != NULL && strcmp(arg, "deep") == 0)
			return deeper(&zero);
		shared = &zero;
		if (arg != NULL && usched_go(reads, arg) != 0)
			return 1;
		return usem_wait(&never, UNEVER);
	}

	int main(int argc, char **argv)
	{
		return usched_main(run, argv[1]) + argc - argc;
	}
	END
	try usched-debug.pc $cc -g -Wall -Wextra $(flags usched-debug --cflags) \
		"$dir/d.c" $(flags usched-debug --libs) -o "$dir/d"
	timeout 600 "$dir/d" >"$dir/said" 2>&1
	try 'debug: status' [ $? = 125 ]
	try "debug: $(cat "$dir/said")" grep -q '^thread .* run(.* sem ' "$dir/said"
	try 'debug: words' grep -qx 'evict=always,poison,fault' "$dir/said"
	(ulimit -c 0; timeout 600 "$dir/d" deep >"$dir/said" 2>&1)
	try "debug: $(cat "$dir/said")" grep -q 'run out of its stack' "$dir/said"
	(ulimit -c 0; timeout 600 "$dir/d" read >"$dir/said" 2>&1)
	try "debug: $(cat "$dir/said")" grep -q \
		'reads().* read .* on the stack of .* is blocked' "$dir/said"
	(ulimit -c 0; timeout 600 "$dir/d" write >"$dir/said" 2>&1)
	try "debug: $(cat "$dir/said")" grep -q \
		'reads().* u_write: the buffer: ' "$dir/said"
	USCHED_DEBUG=poison timeout 600 "$dir/d" >"$dir/said" 2>&1
	try 'debug: the user chooses' grep -qx poison "$dir/said"
	USCHED_DEBUG= timeout 600 "$dir/d" >"$dir/said" 2>&1
	try 'debug: an empty variable is none' grep -qx 'evict=always,poison,fault' \
		"$dir/said"
	$cc $(flags usched --cflags) "$dir/d.c" $(flags usched-debug --libs) \
		-o "$dir/d" >"$dir/said" 2>&1
	try 'debug: other files' grep -q or_compile_this_file_with_it "$dir/said"
	$cc $(flags usched-debug --cflags) "$dir/d.c" $(flags usched --libs) \
		-o "$dir/d" >"$dir/said" 2>&1
	try 'debug: other library' grep -q or_compile_this_file_without_it \
		"$dir/said"
}

listed() {
	LD_LIBRARY_PATH=$lib gdb -nx -batch -iex 'set debuginfod enabled off' \
		-iex "set auto-load scripts-directory $usr/share/gdb/auto-load" \
		-iex "set auto-load safe-path $usr/share/gdb/auto-load" \
		-ex 'break wakes' -ex run \
		-ex 'usched bt' "$dir/g" 2>&1
}

# The plugin's wait, called natively, is right with each; in a thread it is right
# if the program shares its copy.
copies() {
	cat >"$dir/plugin.c" <<-'END'
	#include <usched/all.h>

	/* The last note of the plugin, without padding. */
	__asm__(".pushsection .note.other,\"a\",%note\n"
		".balign 4\n"
		".long 4, 1, 1\n"
		".asciz \"abc\"\n"
		".byte 0\n"
		".popsection\n");

	int waits(void)
	{
		return u_sleep(uafter(UTIME_MS));
	}
	END
	cat >"$dir/host.c" <<-'END'
	#include <dlfcn.h>
	#include <usched/all.h>

	static int (*waits)(void);

	static int run(void *arg)
	{
		return arg != NULL ? waits() || waits() : 0;
	}

	int main(int argc, char **argv)
	{
		void *plugin = dlopen(argv[1], RTLD_NOW);

		*(void **)&waits = dlsym(plugin, "waits");
		return waits() || usched_main(run, argc > 2 ? argv : NULL);
	}
	END
	try 'copies: plugin' build plugin.so -fPIC -shared "$dir/plugin.c" $libs
	try 'copies: two' build two "$dir/host.c" "$lib/libusched.a" -pthread -ldl
	try 'copies: one' build one "$dir/host.c" -rdynamic "$lib/libusched.a" \
		-pthread -ldl
	try 'copies: shared' build shared "$dir/host.c" $libs -ldl
	try 'copies: two, natively' silent run two "$dir/plugin.so"
	try 'copies: two' eval 'run two "$dir/plugin.so" thread >"$dir/said" 2>&1'
	try "copies: $(cat "$dir/said")" expr "$(cat "$dir/said")" : \
		'usched: u_sleep: .* another copy of the library, in the program, .*'
	try 'copies: one line' [ "$(wc -l <"$dir/said")" = 1 ]
	try 'copies: one' silent run one "$dir/plugin.so" thread
	try 'copies: shared' silent run shared "$dir/plugin.so" thread
}

# The commands of doc/plugins.md print what stands there.
plugins() {
	have pkg-config || skip 'plugins: no pkg-config (package pkgconf)' || return
	mkdir "$dir/plugins" && tool "$dir/plugins/cc" "$cc -Wall -Werror" &&
		blocks_save doc/plugins.md "$dir/plugins" "$dir/plugins"
	for n in 1 2; do
		[ -e "$dir/plugins/$n.sh" ] || continue
		try "doc/plugins.md, step $n" plugin $n
	done
}

plugin() { # step
	(cd "$dir/plugins" && PATH=$dir/plugins:$PATH LD_LIBRARY_PATH=$lib \
		PKG_CONFIG_PATH=$lib/pkgconfig run_commands $1.sh >got 2>&1)
	cat "$dir/plugins/got"
	diff "$dir/plugins/$1.out" "$dir/plugins/got"
}

# A plugin with the library is loaded many times: each unload gives back all keys
# of pthreads. Each native thread that has run it ends after the unload.
reloads() {
	cat >"$dir/plugin.c" <<-'END'
	#include <usched/all.h>

	static int run(void *arg)
	{
		return u_sleep(uafter(UTIME_MS));
	}

	int runs(void)
	{
		return usched_main(run, NULL);
	}
	END
	cat >"$dir/host.c" <<-'END'
	#include <dlfcn.h>
	#include <pthread.h>
	#include <stdio.h>

	#define KEYS	10000

	/* Returns how many keys the process can still make. */
	static int keys_left(void)
	{
		static pthread_key_t key[KEYS];
		int nr = 0, i;

		while (nr < KEYS && pthread_key_create(&key[nr], NULL) == 0)
			nr++;
		for (i = 0; i < nr; i++)
			(void)pthread_key_delete(key[i]);
		return nr;
	}

	static void *load(void *path)
	{
		void *plugin = dlopen(path, RTLD_NOW);
		int (*runs)(void);

		*(void **)&runs = dlsym(plugin, "runs");
		return runs() == 0 && dlclose(plugin) == 0 ? path : NULL;
	}

	int main(int argc, char **argv)
	{
		int left = 0, i;

		for (i = 0; i < 5; i++) {
			pthread_t id;
			void *loaded;

			if (pthread_create(&id, NULL, load, argv[1]) != 0 ||
			    pthread_join(id, &loaded) != 0 || loaded == NULL)
				return argc;
			if (i == 0)
				left = keys_left();
		}
		printf("%d keys, then %d\n", left, keys_left());
		return keys_left() != left;
	}
	END
	try 'reloads: plugin' build plugin.so -fPIC -shared "$dir/plugin.c" $libs
	try 'reloads: host' build reloads "$dir/host.c" -pthread -ldl
	try 'reloads' run reloads "$dir/plugin.so"
}

hooks() {
	try hooks build w -Itest/run test/ext/wrap/blocking/plain.c "$lib/usched/uwrap_link.o" \
		"@$lib/usched/wrap.flags" "$lib/libusched.a" -pthread
	try hooks run w
	try usched-wrap.pc build w -Itest/run test/ext/wrap/blocking/plain.c \
		$(flags usched-wrap --libs)
	try usched-wrap.pc run w
}

# A program for pthreads, by the header and by the linker.
face() {
	try usched-pthread.pc build p $(flags usched-pthread --cflags) \
		examples/ports/chat.c $(flags usched-pthread --libs)
	try usched-pthread.pc chats
	try 'face: debug library' build p $(flags usched-pthread --cflags) \
		examples/ports/chat.c $(flags usched-pthread --libs |
			sed 's/-lusched /-l:libusched-debug.a /')
	try 'face: debug library' grep -q uhard_ "$dir/p"
	try 'face: debug library' chats
	try pthread.flags $cc -c examples/ports/chat.c -o "$dir/p.o"
	try pthread.flags $cc -nostdlib -r "@$lib/usched/pthread.flags" \
		"$dir/p.o" -o "$dir/all.o"
	try pthread.flags build p "$dir/all.o" $(flags usched-pthread --libs)
	try pthread.flags chats
}

# Hosts on a simulated network, where there is one.
simulation() {
	[ "$(uname -s)" = Linux ] || return
	try sim.flags $cc $(flags usched-sim --cflags) -c examples/sim/ledger.c \
		-o "$dir/s.o"
	try sim.flags $cc -nostdlib -r "@$lib/usched/sim.flags" "$dir/s.o" \
		-o "$dir/all.o"
	try usched-sim.pc build s "$dir/all.o" $(flags usched-sim --libs)
	try usched-sim.pc run s --seeds 20
}

chats() {
	USCHED=rr:1 run p | diff examples/ports/chat.expected -
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
		try gdb build g -g "$dir/g.c" $libs
		listed >"$dir/listed"
		try "gdb: $(cat "$dir/listed")" grep -q ' in waits (' \
			"$dir/listed"
	fi
}

# An ordinary user, who can read the Makefile alone.
as_user() {
	[ "$(id -u)" = 0 ] || { "$@"; return; }
	setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}

says() { # what, output of a make that must fail
	! as_user $make -s -C "$dir/mine" "$@" >"$dir/said" 2>&1 &&
		[ "$(grep -c . "$dir/said")" -le 2 ] && cat "$dir/said"
}

# What a user may not do is said at once, and changes nothing.
refused() {
	chmod 711 "$dir" && mkdir -p "$dir/mine" "$dir/shut" &&
		cp Makefile usched.h "$dir/mine" &&
		chmod 555 "$dir/shut" "$dir/mine" || exit 1
	: >"$dir/file"
	try 'no place to install' says install "PREFIX=$dir/shut/p"
	try 'no place to install' grep -q "not write to $dir/shut: .*PREFIX=" "$dir/said"
	chmod 777 "$dir/mine"
	try 'no place, -j' says -j 4 install "PREFIX=$dir/shut/p"
	try 'no place, -j' grep -q "not write to $dir/shut: .*PREFIX=" "$dir/said"
	try 'no list of modules' says all
	try 'no list of modules' grep -q "$dir/mine/sources cannot be read" "$dir/said"
	chmod 555 "$dir/mine"
	try 'a file to install in' says install "PREFIX=$dir/file/p"
	try 'nothing is installed' [ -z "$(ls "$dir/shut" "$dir/mine" |
		grep -vxE '.*:|Makefile|usched.h|')" ]
	for goal in all flags; do
		try "a tree that cannot be written: $goal" says $goal
		try "a tree that cannot be written: $goal" grep -q \
			"$dir/mine cannot be written" "$dir/said"
	done
	chmod 755 "$dir/shut" "$dir/mine"
}

# A tree in a path with spaces.
spaces() {
	mkdir "$dir/a b" && ln -s "$PWD"/* "$dir/a b" && rm "$dir/a b/build" &&
		cp -rp build "$dir/a b" || exit 1
	$make -s -C "$dir/a b" flags CC="$cc" >"$dir/said"
	try 'make flags with spaces' grep -q 'a\\ b/libusched.a' "$dir/said"
	try 'make flags with spaces' sh -c 'xargs "$@" <"$0"' "$dir/said" $cc -Wall \
		-Wextra -Werror "$dir/t.c" -o "$dir/t"
	rm -r "$dir/a b"
}

# Only the low end of a frame over the guard is written.
frame() { # what, flags
	cat >"$dir/f.c" <<-'END'
	#include <usched/all.h>

	static int leap(int nob)
	{
		volatile char frame[nob];

		frame[0] = 1;
		return frame[0];
	}

	static int run(void *arg)
	{
		return leap(*(int *)arg);
	}

	int main(void)
	{
		static int nob = 400000;

		return usched_main(run, &nob);
	}
	END
	what=$1; shift
	if ! echo 'int x;' | $cc -Werror -fstack-clash-protection -x c -S \
	    -o "$dir/f" - 2>/dev/null; then
		skip "$what: -fstack-clash-protection with $cc"
		return
	fi
	try "$what: a frame" $cc -Wall -Werror "$dir/f.c" -o "$dir/f" "$@"
	(ulimit -c 0; timeout 600 "$dir/f" >"$dir/said" 2>&1)
	try "$what: a frame: $(cat "$dir/said")" grep -q 'run out of its stack' \
		"$dir/said"
}

in_tree() {
	echo '#include <usched/all.h>' >"$dir/t.c"
	echo 'int main(void) { return rr_init(1, 0) || rr_start() || rr_fini(); }' \
		>>"$dir/t.c"
	try 'make flags' $cc -Wall -Wextra -Werror "$dir/t.c" \
		$($make -s flags CC="$cc") -o "$dir/t"
	try 'make flags' timeout 600 "$dir/t"
	spaces
	frame 'make flags' $($make -s flags CC="$cc")
	case $($cc -dumpmachine) in
	x86_64-*)	frame usched.pc $cflags "$lib/libusched.a" -pthread ;;
	*)		skip 'usched.pc: a frame: only on x86-64' ;;
	esac
	try 'in the tree' $cc -Wall $(flags usched --cflags) test/proc/article.c \
		-Itest/run -I. -Ilib/base -Ilib/wait -Ilib/proc -L. -lusched -pthread -o "$dir/a"
	try 'in the tree' env LD_LIBRARY_PATH=. timeout 600 "$dir/a"
}

refused
try all make_it all
umask 077
try install make_it install PREFIX="$usr" LIBDIR="$lib"
umask 022
try 'all may read it' [ -z "$(find "$usr" ! -type l ! -perm -u+r,g+r,o+r)" ]
try 'install with DESTDIR' make_it install DESTDIR="$dir/stage" PREFIX=/usr \
	LIBDIR=/usr/lib/here
files "$usr" >"$dir/direct"
files "$dir/stage" >"$dir/staged"
try DESTDIR diff "$dir/direct" "$dir/staged"
try LIBDIR [ -z "$(grep '^/usr/lib/[^/]*$' "$dir/direct")" ]
try include/usched [ -z "$(grep '^/usr/include/[^/]*$' "$dir/direct")" ]
cflags=$(flags usched --cflags) libs=$(flags usched --libs)
programs "$lib/libusched.a -pthread"
headers
hooks
cxx
by_cmake
# Debian's musl-gcc comes without an unwinder, which the shared library needs.
case $cc in
*musl*)	skip "the shared library with $cc" ;;
*)	programs "$libs"
	gdb_finds
	debug
	face
	simulation
	in_tree
	copies
	plugins
	reloads ;;
esac

# Others' files stay.
touch "$usr/include/usched/other.h" "$lib/libusched.conf"
try uninstall make_it uninstall PREFIX="$usr" LIBDIR="$lib"
try 'what is left' [ "$(files "$usr" | tr '\n' ' ')" = \
	'/usr/include/usched/other.h /usr/lib/here/libusched.conf ' ]
try 'uninstall with DESTDIR' make_it uninstall DESTDIR="$dir/stage" \
	PREFIX=/usr LIBDIR=/usr/lib/here
try 'what is left' [ -z "$(files "$dir/stage"; ls -d \
	"$dir"/stage/usr/*/*usched* "$dir"/stage/usr/share/gdb/*/* 2>&-)" ]
counted
