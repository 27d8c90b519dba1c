#!/bin/sh
# SPDX-License-Identifier: MIT
# move.sh: threads that go on in another process, or come back from a file, give
# the results of threads that stay (ext/move/). Processes are killed at random, and go
# on from their last save. What cannot move is refused by name, also at the start.
# With rr and ll, gcc and clang, a static program, and in the hard mode, which moves
# each slice. In test/ext/move each program has its claim.
#
#	test/ext/move/move.sh [SEED]
#
# CFLAGS are more options for the compiler.

cd "$(dirname "$0")/../../.." || exit 1
. test/run/layout
. test/run/blocks
. test/run/count

ulimit -c 0
unset USCHED_DEBUG USCHED_STACKS MAKEFLAGS
seed=${1:-$(date +%s)}
core="usched.c uhard.c rr.c ll.c ws.c $waits uscope.c uthread.c $syncs uproc.c ucall.c
	umem.c uio.c upoll.c"
ours='umove.c uprogram.c unumber.c urefuse.c usave.c uheap.c umail.c'
fixed='-fno-pie -fno-stack-protector'
evict=evict=always,poison,fault

main() {
	[ "$(uname -sm)" = 'Linux x86_64' ] ||
		{ echo 'skipped: not Linux on x86-64'; exit 77; }
	echo "seed $seed"
	for cc in gcc clang; do
		if have $cc; then
			library $cc && moves $cc ''
			[ $cc = clang ] || moves $cc -DLL ll
		else
			skip "$cc: not here"
		fi
	done
	cc=${CC:-cc}
	library hard -DUSCHED_HARD && moves hard -DUSCHED_HARD
	alone
	text
	build cost "-no-pie $fixed" bench/move.c "$dir/gcc/*.o @ext/move/move.flags"
	try 'bench/move.c' timeout 120 "$dir/cost" 1000 "$dir/cost.save"
	unfit
	counted
}

build() { # program, its flags, sources, what follows
	$cc -std=gnu11 -O2 -g -Wall -Wextra -Werror $CFLAGS $includes -Itest/ext/move \
		$2 $3 -o "$dir/$1" $4 -pthread -lm
}

library() { # folder, flags: compiled once for all programs
	mkdir "$dir/$1"
	for file in $(where $core $ours); do
		$cc -std=gnu11 -O2 -g -Wall -Wextra -Werror $fixed $CFLAGS $includes \
			$2 -c "$file" -o "$dir/$1/$(basename "$file").o" ||
			{ fail "$1: $file"; return 1; }
	done
	$cc -O1 -fno-pie -fstack-protector-all -c test/ext/move/guarded.c \
		-o "$dir/$1.guarded.o"
}

# All claims, of programs in a folder.
moves() { # library, flags, name
	name=$1$3
	for program in saves pair refuse; do
		build $name.$program "-no-pie $fixed $2" test/ext/move/$program.c \
			"$dir/$1/*.o $dir/$1.guarded.o @ext/move/move.flags" \
			>"$dir/log" 2>&1 || { fail "$name: $program" "$dir/log"; return; }
	done
	[ $1 = hard ] && USCHED_DEBUG=$evict && export USCHED_DEBUG
	killed $name "$dir/$name.saves" 60
	goes $name
	mkdir "$dir/$name.d"
	try "$name: refused" timeout 120 "$dir/$name.refuse" "$dir/$name.d"
	unset USCHED_DEBUG
}

same() { # what, results, results of threads that stay
	sort -u "$2" >"$dir/have"
	sort "$3" >"$dir/want"
	if [ -s "$dir/want" ] && cmp -s "$dir/have" "$dir/want"; then
		pass
	else
		diff "$dir/have" "$dir/want" >"$dir/log"
		fail "$1" "$dir/log"
	fi
}

# Saves all the time; then also dies at random. How long a process lives grows, so
# that there is an end. Of the kills some must come before and some after a save.
killed() { # name, program, threads
	try "$1: no saves" timeout 120 "$2" "$dir/$1.want" $3
	try "$1: saves" timeout 120 "$2" "$dir/$1.saved" $3 "$dir/$1.file"
	same "$1: saved" "$dir/$1.saved" "$dir/$1.want"
	rm -f "$dir/$1.file"
	nr=0 kills=0 status=137
	while [ $status = 137 ] && [ $nr -lt 300 ]; do
		nr=$((nr + 1))
		life=$((1 + (seed * 7919 + nr * 104729) % (1000 * nr)))
		(exec timeout -s QUIT 120 "$2" "$dir/$1.killed" $3 "$dir/$1.file" \
			$life) >"$dir/log" 2>&1
		status=$?
		[ $status = 137 ] && [ -e "$dir/$1.file" ] && kills=$((kills + 1))
	done 2>/dev/null
	judge $status "$1: killed" "$dir/log"
	[ $kills -gt 1 ] && pass || fail "$1: killed $kills times after a save"
	same "$1: killed, and gone on" "$dir/$1.killed" "$dir/$1.want"
}

goes() { # name
	for i in 1 2 3; do
		try "$1: to another process" timeout 120 "$dir/$1.pair" \
			"$dir/$1.moved$i" 60 $((seed + i))
		same "$1: moved" "$dir/$1.moved$i" "$dir/$1.want"
	done
}

# A static program.
alone() {
	if build static.saves "-no-pie $fixed -static" test/ext/move/saves.c \
			"$dir/gcc/*.o @ext/move/move.flags" >"$dir/log" 2>&1; then
		killed static "$dir/static.saves" 60
	else
		skip 'static: no static libc'
	fi
}

# The program of the README, stopped once.
text() {
	sed -n '/^```c$/,/^```$/{/^```/d;p;}' ext/move/README.md >"$dir/count.c"
	commands ext/move/README.md | sed "/^mpicc/,\$d; s,count\.c,$dir/&,
		s,-o count,-o $dir/told," | sh -e >"$dir/log" 2>&1 && [ -x "$dir/told" ]
	judge $? 'the commands of the README' "$dir/log"
	build count "-no-pie $fixed" "$dir/count.c" "$dir/gcc/*.o @ext/move/move.flags" \
		>"$dir/log" 2>&1 || { fail 'the program of the README' "$dir/log"; return; }
	{ (cd "$dir" && timeout -s KILL 1 ./count || :) >"$dir/counted"; } 2>/dev/null
	[ ! -s "$dir/counted" ] && [ -s "$dir/count.save" ]
	judge $? 'count: killed'
	(cd "$dir" && timeout 60 ./count) >"$dir/counted" 2>&1
	judge $? 'count: gone on' "$dir/counted"
	[ "$(sort -n "$dir/counted" | tail -n 1)" = '999: 4945050' ]
	judge $? 'count: result' "$dir/counted"
}

# The program refuses to begin, with this sentence.
says() { # what, sentence, command ...
	what=$1 sentence=$2
	shift 2
	"$@" "$dir/none" 1 >"$dir/log" 2>&1 && { fail "$what: runs"; return; }
	grep -q "umove_init: threads cannot move: .*$sentence" "$dir/log" && pass ||
		fail "$what" "$dir/log"
}

# Builds in which threads cannot move.
unfit() {
	all=$(where $core $ours)
	saves="test/ext/move/saves.c"
	build pie '-pie -fPIE -fno-stack-protector' "$saves $all" @ext/move/move.flags
	if [ "$(cat /proc/sys/kernel/randomize_va_space)" != 0 ]; then
		says 'PIE' 'link with -no-pie' "$dir/pie"
	else
		skip 'PIE: addresses are not random here'
	fi
	printf '#!/bin/sh\nexec setarch -R "%s" "$@"\n' "$dir/pie" >"$dir/setarch"
	chmod +x "$dir/setarch"
	if setarch -R true 2>/dev/null; then
		killed setarch "$dir/setarch" 30
	else
		skip 'setarch -R: not permitted'
	fi
	build guards '-no-pie -fstack-protector-strong' "$saves $all" @ext/move/move.flags
	says 'guards' 'compile with -fno-stack-protector' "$dir/guards"
	build flags "-no-pie $fixed" "$saves $all" ''
	says 'no flags' 'link with @ext/move/move.flags' "$dir/flags"
	$cc -std=gnu11 -O2 $includes -fPIC -shared $(where $core) -o "$dir/libusched.so" \
		-pthread
	build shared "-no-pie $fixed" "$saves $(where $ours)" \
		"@ext/move/move.flags $dir/libusched.so"
	says 'shared library' 'link with libusched.a' "$dir/shared"
	build ws "-no-pie $fixed -DWS" "$saves $all" @ext/move/move.flags
	says 'ws' 'take rr or ll' "$dir/ws"
}

main
