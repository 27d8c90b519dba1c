#!/bin/sh
# SPDX-License-Identifier: MIT
# header.sh: each header stands alone, once and twice, in C and C++; so does each
# macro, used with its own header alone. usched.c has no warnings; only usched_ and
# ustack_ symbols are exported.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

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
			$3 !~ /^(usched_|ustack_|_.stapsdt.base$)/ { print $3 }' >"$dir/names"
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

# A use of each macro that needs arguments, or is an initializer. All others are
# used by what they stand for.
cat >"$dir/uses" <<'END'
UBARRIER	struct ubarrier x = UBARRIER(2);
UBARRIER_LOCAL	struct ubarrier x = UBARRIER_LOCAL(2);
UCASE_RECV	int v; struct ucase x = UCASE_RECV((struct uchan *)0, &v);
UCASE_SEND	const int v = 1; struct ucase x = UCASE_SEND((struct uchan *)0, &v);
UCOND_LOCAL	struct ucond x = UCOND_LOCAL;
UGROUP_LOCAL	struct ugroup x = UGROUP_LOCAL;
UHARD	int x = 0; UHARD(begin((struct usched *)0));
UMUTEX_LOCAL	struct umutex x = UMUTEX_LOCAL;
UONCE_LOCAL	struct uonce x = UONCE_LOCAL;
UPREEMPT_NEVER	int x = 0; UPREEMPT_NEVER;
UPREEMPT_SECTION	const char *x = UPREEMPT_SECTION(".text");
UPROC_WOKEN	struct uproc_thread *x = 0; UPROC_WOKEN(x);
URW_LOCAL	struct urw x = URW_LOCAL;
USCHED_RACE	int x = 0; USCHED_RACE(1);
USEM	struct usem x = USEM(1);
USEM_LOCAL	struct usem x = USEM_LOCAL(1);
USIM_CHECK	int x = 1; USIM_CHECK(x);
USYNC_CALL	struct usync x = USYNC_INIT_LOCAL(0); USYNC_CALL(&x, 0, "");
USYNC_INIT_LOCAL	struct usync x = USYNC_INIT_LOCAL(0);
U_EAI	int x = U_EAI(1);
WS_STOP_GIVE_WAY	int x = 0; WS_STOP_GIVE_WAY(x);
WS_STOP_RELAX	int x = 0; WS_STOP_RELAX();
usync_check	struct usync x = USYNC_INIT_LOCAL(0); usync_check(&x, "");
END

# Prints "NAME" or "NAME(", and what it stands for, of each macro that the header
# defines itself; of usched.h, also in core/sched.h. The other parts are for the
# functions of usched.h, which use their macros.
macros() { # header, flags
	gcc -std=gnu11 $2 $includes -I"$dir" -E -dD "$dir/$1.c" 2>/dev/null |
		awk -v own="/$1\"\$" '
		/^# [0-9]+ "/ {
			ours = $3 !~ /^"\/usr\// && ($3 ~ own ||
				own ~ /usched.h/ && $3 ~ /core\/sched.h"$/)
			next
		}
		ours && /^#define/ {
			sub(/^#define /, "")
			name = $0
			sub(/[ (].*/, "", name)
			end = substr($0, length(name) + 1, 1) == "(" ? "(" : ""
			sub(/^[^ (]*(\([^)]*\))?/, "")
			line[name] = name end $0
		}
		ours && /^#undef/ { delete line[$2] }
		END { for (name in line) print line[name] }'
}

# Writes a use of each macro of "macros" to $dir/$1.uses. Prints those without.
uses() { # header
	awk '
	NR == FNR { name = $1; sub(/^[^\t]*\t/, ""); use[name] = $0; next }
	{
		name = $1
		sub(/[(]$/, "", name)
		text = $0
		sub(/^[^ ]* ?/, "", text)
		if (name in use)
			printf "void use_%s(void);\nvoid use_%s(void)\n{ %s (void)x; }\n",
				name, name, use[name]
		else if ($1 ~ /[(]$/ || text ~ /^[{]/)
			print name ": test/house/header.sh has no use" >"/dev/stderr"
		else if (text ~ /^static|^__attribute__/)
			printf "%s int use_%s(void);\n%s int use_%s(void) { return 0; }\n",
				name, name, name, name
		else if (text != "")
			printf "void use_%s(void);\nvoid use_%s(void) { (void)(%s); }\n",
				name, name, name
	}' "$dir/uses" "$dir/macros" 2>&1 >"$dir/$1.uses"
}

# The header once, and its macros. Initializers with names are C++20, and gcc and
# clang take them before.
used() { # header, flags, compilers
	cat "$dir/$1.c" "$dir/$1.uses" >"$dir/macro.c"
	cp "$dir/macro.c" "$dir/macro.cc"
	for std in $3; do
		cc=${std%%:*} std=${std#*:}
		have $cc || continue
		case $cc in
		*++)	must "macros of $1" $cc -std=$std -Wall -Werror $includes \
				-Wno-unused-function -I"$dir" $2 -c "$dir/macro.cc" -o "$dir/o" ;;
		*)	must "macros of $1" $cc -std=$std $flags -I"$dir" $2 \
				-Wno-unused-function -c "$dir/macro.c" -o "$dir/o" ;;
		esac
	done
}

few='gcc:c99 g++:c++20'
every="$few gcc:c11 gcc:gnu2x clang:c99 clang:gnu2x g++:c++11 g++:gnu++23
	clang++:c++11 clang++:c++20"
if have gcc; then
	for h in $(sh doc/api.sh --installed | grep -v uproc_api); do
		first=
		[ ! -e include/usched/private/$h ] || first='#include "uproc.h"\n'
		printf "$first"'#include "%s"\n' "$h" >"$dir/$h.c"
		for more in '' -DUSCHED_HARD -DUSCHED_PREEMPT; do
			macros $h "$more" >"$dir/macros"
			empty "macros of $h $more" "$(uses $h)"
			used $h "$more" "$([ "$more" ] && echo "$few" || echo "$every")"
		done
	done
	# Planted: a macro that lacks a header, a use, or both.
	echo '#include "planted.h"' >"$dir/planted.h.c"
	for planted in '#define PLANTED true' '#define PLANTED { .x = 1 }' \
	    '#define PLANTED(x) (x)' '#define PLANTED sizeof(struct planted)'; do
		echo "$planted" >"$dir/planted.h"
		macros planted.h '' >"$dir/macros"
		[ -n "$(uses planted.h)" ] || ! silent gcc -std=c99 -I"$dir" -include \
			"$dir/planted.h.c" -x c -c "$dir/planted.h.uses" -o "$dir/o" \
			>"$dir/log"
		judge $? "'$planted' is not seen" "$dir/log"
	done
fi

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
	shortest uloop.h "#include <poll.h>
#include \"rr.h\"
$f extern int fd;"
	shortest usignal.h '#include <signal.h>
void configure(void); void shut_down(void);'
done

for cc in aarch64-linux-gnu-gcc riscv64-linux-gnu-gcc; do
	have $cc || continue
	must source $cc -std=c11 $flags -O2 -c usched.c -o "$dir/o"
done

[ $tried = 1 ] || skip "no compiler"
counted
