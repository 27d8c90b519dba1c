#!/bin/sh
# SPDX-License-Identifier: MIT
# header.sh: each header stands alone, once and twice, in C and C++; usched.c
# has no warnings; only usched_ and ustack_ symbols are exported.

cd "$(dirname "$0")/.." || exit 1
. test/layout
. test/count

must() { # what, command ...
	what=$1; shift
	try "$what: $*" silent "$@"
}

echo '#include "usched.h"' >"$dir/once.c"
printf '#include "usched.h"\n#include "usched.h"\n%s\n' \
	'struct ustack *f(void); struct ustack *f(void)' \
	'{ return ustack_self(); }' >"$dir/twice.c"
cp "$dir/once.c" "$dir/once.cc"
cp "$dir/twice.c" "$dir/twice.cc"
flags="-Wall -Wextra -pedantic -Werror $includes"

tried=0
for cc in ${CC:-} gcc clang clang-19; do
	have $cc || continue
	tried=1
	for std in c99 c11 c17 gnu99 gnu17; do
		for f in once twice; do
			must header $cc -std=$std $flags -Wstrict-prototypes \
				-Wmissing-prototypes -Wshadow -Wconversion \
				-c "$dir/$f.c" -o "$dir/o"
		done
	done
	for more in "-O0" "-O2" "-O2 -DUSCHED_PORTABLE" "-O2 -DNDEBUG" \
			"-O2 -std=c99" "-O2 -std=gnu17" "-O2 -fPIC"; do
		must source $cc -std=c11 $flags $more -Wmissing-prototypes \
			-c usched.c -o "$dir/usched.o"
		nm -g --defined-only "$dir/usched.o" | awk '
			$3 !~ /^(usched_|ustack_)/ { print $3 }' >"$dir/names"
		must "$cc $more: symbols" cat "$dir/names"
	done
done
for cxx in g++ clang++ clang++-19; do
	have $cxx || continue
	for std in c++11 c++14 c++17 c++20; do
		for f in once twice; do
			must header $cxx -std=$std $flags -Wold-style-cast \
				-c "$dir/$f.cc" -o "$dir/o"
		done
	done
done
# All that are installed, but a template; and parts of ws. Private headers are
# for headers that have included uproc.h.
parts=$(where seek.h deque.h pinned_queue.h steal_policy.h worker.h)
for h in $({ basename -a $parts; sh doc/api.sh --installed; } |
		grep -v uproc_api | sed 's/\.h$//' | sort -u); do
	first=
	[ ! -e include/usched/private/$h.h ] || first='#include "uproc.h"\n'
	printf "$first"'#include "%s.h"\n#include "%s.h"\n' $h $h >"$dir/$h.c"
	cp "$dir/$h.c" "$dir/$h.cc"
	for cc in gcc clang; do
		have $cc && must $h.h $cc -std=c99 $flags -c "$dir/$h.c" -o "$dir/o"
	done
	for cxx in g++ clang++; do
		have $cxx && must $h.h $cxx -std=c++11 $flags -c "$dir/$h.cc" \
			-o "$dir/o"
	done
done
for h in ugen usched all; do
	printf '#include "%s.hpp"\n#include "%s.hpp"\n' $h $h >"$dir/$h.cc"
	for cxx in "g++ -std=c++17" "g++ -std=c++20" "clang++ -std=c++17"; do
		have "${cxx%% *}" && must $h.hpp $cxx $flags -c "$dir/$h.cc" \
			-o "$dir/o"
	done
done

# What stands below SHORTEST USE compiles. A text behind a statement is left out,
# and so are three points.
shortest() { # header, what it needs
	{
		printf '#include "%s"\n%s\nint use(void);\nint use(void)\n{\n' "$1" "$2"
		awk '/SHORTEST USE/ { on = 1; next }
			on && /^ \*( [^ \t]|\/)/ { exit }
			on' "$(where "$1")" |
			sed 's/^ \*//; s/;	.*/;/; s/^	*\.\.\..*/;/'
		printf 'return 0;\n}\n'
	} >"$dir/use.c"
	grep -q ';' "$dir/use.c" &&
		must "$1: SHORTEST USE" $cc -std=gnu11 -O2 $flags -c "$dir/use.c" \
			-o "$dir/o"
}

for cc in gcc clang; do
	have $cc || continue
	f='static void f(void *arg) { (void)arg; } static void *arg;'
	shortest rr.h "$f"
	shortest ws.h "$f"
	shortest usync.h ''
	shortest uthread.h 'static void *square(void *arg) { return arg; }
static void *arg;'
	shortest uscope.h 'int fetch(void *); static struct { int i; } job[10];'
	shortest ucall.h "$f"
	buf='extern int fd, at; extern char buf[512]; extern ssize_t n;'
	shortest uio.h "$buf"
	shortest ufile.h "#include <fcntl.h>
#include \"uio.h\"
$buf"
	shortest uchild.h '#include <signal.h>
#include <spawn.h>
extern char **environ, **argv; extern pid_t pid; extern int status;'
	shortest usignal.h '#include <signal.h>
void configure(void); void shut_down(void);'
done

for cc in aarch64-linux-gnu-gcc riscv64-linux-gnu-gcc; do
	have $cc || continue
	must source $cc -std=c11 $flags -O2 -c usched.c -o "$dir/o"
done

[ $tried = 1 ] || skip "no compiler"
counted
