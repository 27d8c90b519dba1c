#!/bin/sh
# SPDX-License-Identifier: MIT
# probe.sh: tracers find each probe of core/probe.h, in the library, in a program with
# libusched.a, and in one with the two files, however they were compiled, and for other
# machines. At each address is a nop, and each argument is where a tracer can read it.
# Objects of programs have none, and code with USCHED_NO_PROBES differs by the nops. In
# gdb the probes tell what threads do in its order, with the right arguments. The
# commands of doc/view.md run, where bpftrace may.
#
#	test/debug/probe.sh [--full]	with more compilers and levels

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
. test/run/mutants
[ "$1" != --full ] || full=y
case $(uname -s) in
Linux)	;;
*)	echo "skipped: probes are for Linux"; exit 77 ;;
esac
have readelf && have objdump || { echo 'skipped: no readelf (package binutils)'; exit 77; }

core='make begin block end'
files="usched.c rr.c ll.c $(where $waits umem.c uproc.c upoll.c ws.c)"
unset MAKEFLAGS

# Prints each probe of a linked file: its name, its address and its arguments.
notes() { # file
	readelf -n "$1" 2>/dev/null | awk '
		/Provider:/	{ ours = $2 == "usched" }
		/Name:/		{ name = $2 }
		/Location:/	{ at = $2; sub(/^0x0*/, "", at); sub(/,/, "", at) }
		/Arguments:/	{ sub(/.*Arguments: /, ""); if (ours) print name, at, $0 }'
}

# An operand is a register, or memory at a register. The 32 or 64 bits of pointers.
formed() { # file with notes, bytes of a pointer
	awk -v p="$2" '
	BEGIN {
		reg = "%?[a-z]*[0-9]*[a-z]*"
		mem = "-?[0-9]*[(]" reg "[)]|[[]" reg "(, #?-?[0-9]+)?[]]"
		one = "@(" reg "|" mem ")"
		thread = "^" p one " " p one " " p one "$"
		want["steal"]   = "^-4" one " -4" one " -4" one "$"
		want["fd_wait"] = "^" p one " -4" one " -4" one "$"
	}
	{
		name = $1; line = $0
		sub(/^[^ ]+ [^ ]+ /, "")
		if ($0 !~ (name in want ? want[name] : thread)) {
			print "not as documented:", line
			bad = 1
		}
	}
	END { exit bad }' "$1"
}

# Are these, and no others, the probes of the file?
probes() { # file, bytes of a pointer, objdump, names
	notes "$1" >"$dir/notes"
	# shellcheck disable=SC2086 # names are words
	printf '%s\n' $4 | sort >"$dir/names"
	cut -d' ' -f1 "$dir/notes" | sort -u | diff "$dir/names" - &&
	formed "$dir/notes" $2 &&
	"$3" -d --no-show-raw-insn "$1" | awk '
		NR == FNR	{ at[$2] = $1; next }
		sub(/^ *[0-9a-f]+:/, "&") {
			address = $1
			sub(/:.*/, "", address)
			if (address in at && $2 ~ /^(c\.)?nopr?$/)
				delete at[address]
		}
		END {
			for (address in at) {
				print "no nop at " address ": " at[address]
				bad = 1
			}
			exit bad
		}' "$dir/notes" -
}

# Compiles the files with probes, and links them for tools to read, not to run.
linked() { # out, compiler, flags
	# shellcheck disable=SC2086 # words
	$2 -std=gnu11 -w $3 $includes -static -nostdlib \
		-Wl,--unresolved-symbols=ignore-all,-e,0 -o "$1" $files
}

library() { # compiler, flags, bytes of a pointer, objdump
	linked "$dir/lib" $1 "$2" &&
	probes "$dir/lib" $3 $4 "$core wake steal fd_wait"
}

# The two files, in a program.
two_files() { # compiler, flags
	[ -e "$dir/two/usched.c" ] || ${MAKE:-make} -s single TO="$dir/two" || return 1
	# shellcheck disable=SC2086 # words
	$1 -w $2 -I"$dir/two" examples/hello.c "$dir/two/usched.c" -o "$dir/hello" &&
	"$dir/hello" | cmp - examples/hello.expected &&
	probes "$dir/hello" 8 objdump "$core"
}

built() { # file
	probes "$1" 8 objdump "$core wake steal fd_wait"
}

# None in a program's own object, nor with the flag. Both kinds of it compile as C++.
none() { # compiler, C++ compiler
	cat >"$dir/user.c" <<-'END'
		#include <usched/all.h>
		int waits(void);
		void wakes(struct rr_thread *r, struct ll_thread *l, struct ws_thread *w);
		int waits(void) { return rr_wait() + ll_wait() + ws_wait(); }
		void wakes(struct rr_thread *r, struct ll_thread *l, struct ws_thread *w)
		{
			rr_wake(r); ll_wake(l); ws_wake(w);
		}
	END
	$1 -O2 -Iinclude -c "$dir/user.c" -o "$dir/user.o" &&
	! readelf -n "$dir/user.o" | grep stapsdt || return 1
	for flag in '' -DUSCHED_CALL -DUSCHED_NO_PROBES; do
		! have $2 || $2 -Wall -Wextra -Werror -Iinclude $flag -x c++ -c "$dir/user.c" \
			-o "$dir/user.o" || return 1
	done
	linked "$dir/none" $1 '-O2 -DUSCHED_NO_PROBES' &&
	! readelf -nS "$dir/none" | grep stapsdt
}

# Prints how many instructions each function has that all switches run, without nops.
lengths() { # file
	for f in usched_blocked usched_passed ustack_init; do
		objdump -d --no-show-raw-insn --disassemble=$f "$1" | awk -v f=$f '
			$1 ~ /^[0-9a-f]+:$/ && !/\tc?s? ?nop|xchg +%ax,%ax/ { nr++ }
			END { print f, nr; exit nr < 10 }'
	done
}

nothing_else() { # compiler
	for flag in '' -DUSCHED_NO_PROBES; do
		# shellcheck disable=SC2086 # words
		$1 -std=gnu11 -w -O2 $includes $flag -c usched.c -o "$dir/length.o" &&
		lengths "$dir/length.o" >"$dir/length$flag" || return 1
	done
	diff "$dir/length" "$dir/length-DUSCHED_NO_PROBES"
}

program() { # out, source, flags, library
	# shellcheck disable=SC2086 # words
	${CC:-cc} -std=gnu11 -O2 -g -w $includes $3 test/debug/probe/$2.c $4 \
		-pthread -lm -o "$1"
}

told() { # program, argument ...
	: >"$dir/told"
	TOLD=$dir/told timeout 300 gdb -nx -q -batch -x test/debug/probe/tell.py \
		--args "$@" >"$dir/gdb" 2>&1 || cat "$dir/gdb"
	grep -q 'exited normally' "$dir/gdb" || { cat "$dir/gdb"; return 1; }
}

story() { # flags, library
	program "$dir/story" story "$1" "$2" && is_story
}

is_story() { # lines, at least
	told "$dir/story" "$dir/written" &&
	[ "$(wc -l <"$dir/written")" -gt ${1:-25} ] && diff "$dir/written" "$dir/told"
}

steps() {
	program "$dir/story" steps '' "$lib" && is_story 10
}

theft() {
	program "$dir/theft" theft '' $lib && is_theft
}

# Worker 1 steals first, as all threads are made at worker 0.
is_theft() {
	told "$dir/theft" &&
	grep '^steal' "$dir/told" >"$dir/log1" &&
	head -n 1 "$dir/log1" | grep -q '^steal 0x1 0x0' &&
	! grep -v '^steal 0x\(1 0x0\|0 0x1\) 0x[1-9a-f][0-9a-f]*$' "$dir/log1"
}

# Runs a command of doc/view.md for some seconds. Its output has all patterns.
trace() { # number of the command, pattern ...
	awk -v nr=$1 '
		/^## /			{ inside = /bpftrace/ }
		inside && /^\tbpftrace/	{ n++ }
		inside && n == nr && /^\t/ && !/^\t#/ { print substr($0, 2) }' doc/view.md |
		sed "s,PID,$busy,; s,\./program,$dir/busy,g" >"$dir/command"
	shift
	timeout -s INT 6 sh "$dir/command" >"$dir/traced" 2>&1
	for pattern; do
		grep -q "$pattern" "$dir/traced" || { cat "$dir/command" "$dir/traced"; return 1; }
	done
}

traces() {
	have bpftrace || skip 'no bpftrace (package bpftrace)' || return
	ulimit -l unlimited 2>/dev/null
	program "$dir/busy" busy '' $lib || { fail busy; return; }
	"$dir/busy" &
	busy=$!
	stop() { kill $busy 2>/dev/null; }
	sed "s,PID,$busy,; s,\./program,$dir/busy,g" >"$dir/command" <<-'END'
		bpftrace -p PID -e 'usdt:./program:usched:block { @[usym(arg1),
			usym(*(uint64 *)(arg2 + 8))] = count(); }
			interval:s:1 { print(@); exit(); }'
	END
	timeout -s INT 20 sh "$dir/command" >"$dir/traced" 2>&1
	if ! grep -q '^@\[' "$dir/traced"; then
		skip "bpftrace may not: $(grep -v '^Att' "$dir/traced" | head -n 1)"
		stop
		return
	fi
	try 'the function in a shell' grep -q 'ustack_shell, scoped' "$dir/traced"
	try 'blocks by function' silent trace 1 '^@.*baker' '^@.*guest' '^@.*waiter'
	try 'waits by function' silent trace 2 '^@us' '|@'
	try 'descriptors' silent trace 3 '^@us\[[0-9]*\]: [0-9]'
	stop
}

# Silent but when it fails.
quietly() { # what, command ...
	what=$1
	shift
	apart "$@" >"$dir/said" 2>&1
	judge $? "$what" "$dir/said"
}

[ -n "$LIBRARY" ] && lib=$LIBRARY || lib=libusched.a
for cc in gcc clang; do
	have $cc || skip "no $cc" || continue
	case $cc in
	gcc)	cxx=g++ levels="-O2${full:+ -O3}" ;;
	clang)	cxx=clang++ levels="-O3${full:+ -O0}" ;;
	esac
	for o in ${full:+-O1 -Os -Og} $levels; do
		quietly "$cc $o" library $cc "$o" 8 objdump
	done
	for o in -O0 ${full:+-O1 -O2 -O3 -Os}; do
		quietly "$cc $o, two files" two_files $cc "$o"
	done
	quietly "$cc -flto, two files" two_files $cc '-O2 -flto'
	quietly "$cc: no nop is anything else" nothing_else $cc
	quietly "$cc: objects of programs" none $cc $cxx
	[ -z "$full" ] || quietly "$cc, sections" library $cc \
		'-O2 -ffunction-sections -Wl,--gc-sections' 8 objdump
done
machines=aarch64-linux-gnu:8
[ -z "$full" ] || machines="$machines i686-linux-gnu:4 riscv64-linux-gnu:8 \
	arm-linux-gnueabihf:4 s390x-linux-gnu:8 powerpc64le-linux-gnu:8"
for machine in $machines; do
	to=${machine%:*}
	have $to-gcc || skip "no $to-gcc" || continue
	for o in -O2 ${full:+-O0}; do
		quietly "$to $o" library $to-gcc $o ${machine#*:} $to-objdump
	done
done
quietly "a program with $lib" program "$dir/theft" theft '' $lib
quietly "the probes in it" probes "$dir/theft" 8 objdump "$core wake steal"
[ ! -e libusched.so ] || quietly 'libusched.so' built libusched.so
if have gdb; then
	for s in RR LL WS; do
		quietly "the story, $s" story "-D$s -DUSCHED_CALL" $lib
	done
	quietly 'the story, wakes in place' story '-DRR' $lib
	quietly 'the dispatcher alone' steps
	quietly 'thefts' theft
else
	skip 'no gdb (package gdb)'
fi
traces

# Mutants: the story, or a theft, is told otherwise; or there is no nop.
tree=$dir/tree here=$PWD
case $lib in
/*)	archive=$lib ;;
*)	archive=$here/$lib ;;
esac

# Compiles the program with the broken module before the library.
mutant() { # out, source, flags, file
	case $4 in
	core/*)		module=usched.c ;;
	lib/steal/*)	module=lib/steal/ws.c ;;
	rr.h)		module=rr.c ;;
	*)		module=$4 ;;
	esac
	(cd "$tree" && ${CC:-cc} -std=gnu11 -O2 -g -w $includes -I"$here/test/run" $3 \
		"$here/test/debug/probe/$2.c" $module "$archive" -pthread -lm -o "$1")
}

tries() { # RR or WS, steps, theft or nop; file
	cp "$dir/broken" "$tree/$2"
	case $1 in
	theft)	mutant "$dir/theft" theft '' "$2" && is_theft >"$dir/log" ;;
	nop)	mutant "$dir/theft" theft '' "$2" &&
		probes "$dir/theft" 8 objdump "$core wake steal" >"$dir/log" ;;
	steps)	mutant "$dir/story" steps '' "$2" && is_story 10 >"$dir/log" ;;
	*)	mutant "$dir/story" story "-D$1 -DUSCHED_CALL" "$2" && is_story >"$dir/log" ;;
	esac
	rc=$?
	cp "$2" "$tree/$2"
	[ -x "$dir/theft" ] && [ -x "$dir/story" ] || { status='does not compile'; rc=0; }
	return $rc
}

have gdb && copy_tree "$tree" || counted
broken 'no nop' nop core/probe.h 's/"1:	nop\\n"/"1:\\n"/'
broken 'a block that is not told' RR usched.c 's/USCHED_PROBE_THREAD(block, u);//'
broken 'the argument stands for the function' RR core/probe.h \
	's/"m"((u)->u_f), "m"((u)->u_arg)/"m"((u)->u_arg), "m"((u)->u_f)/'
broken 'thief and victim' theft lib/steal/theft.h \
	's/"m"(w->w_proc.p_nr),/"m"(v->w_proc.p_nr),/
	s/"m"(v->w_proc.p_nr), "m"(o/"m"(w->w_proc.p_nr), "m"(o/'
broken 'descriptor and mask' RR lib/io/upoll.c 's/"r"(fd), "r"(what))/"r"(what), "r"(fd))/'
broken 'the end of a wait is no wake' RR lib/wait/uwait.c 's/USCHED_PROBE_THREAD(wake, u);//'
broken 'a make that is not told' WS usched.c 's/USCHED_PROBE_THREAD(make, u);//' full
broken 'a thread that begins again is not told' steps usched.c \
	's/USCHED_PROBE_THREAD(make, u);.*/;/' full
broken 'a thread filled by hand is not made' steps core/contracts.h \
	's/USCHED_PROBE_THREAD(make, u);//' full
broken 'an end that is not told' WS usched.c 's/USCHED_PROBE_THREAD(end, u);//' full
broken 'a step ends without a block' steps core/step.h 's/USCHED_PROBE_THREAD(block, u);//' full
broken 'a wake by ws_wake()' WS lib/steal/ws.h 's/UPROC_WOKEN(u);//' full
broken 'a wake by rr_wake()' RR rr.h 's/UPROC_WOKEN(u);//' full
counted
