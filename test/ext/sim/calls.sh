#!/bin/sh
# SPDX-License-Identifier: MIT
# calls.sh: no call of a host comes to the machine in silence. Each name of POSIX.1-2017 and each
# name of libc that the examples and libraries of others leave undefined is simulated, refused by
# its name, or listed as harmless (ext/sim/sim.names). A system call that comes all the same ends
# the run, which says what was called, by which function, and what to do. The machine's answers are
# those of a host (calls.c). pthread_cancel() does what it does on Linux (cancel.c).
#
#	test/ext/sim/calls.sh --full	mutants of the simulator, too
#
# CC is the compiler.

cd "$(dirname "$0")/../../.." || exit 1
. test/run/layout
. test/run/count

[ "$(uname -s)" = Linux ] || { echo 'skipped: not Linux'; exit 77; }
ulimit -c 0
cc=${CC:-cc}
built=${LIBRARY:-libusched.a}
[ -z "$DEFS$SAN$CFLAGS" ] || { echo 'skipped: options for the compiler'; exit 77; }
for part in "$built" "$(dirname "$built")/libusched_sim.a" \
		"$(dirname "$built")/libusched_pthread.a"; do
	[ -e "$part" ] || { echo "skipped: no $part, which make writes"; exit 77; }
done
sim=$(dirname "$built")/libusched_sim.a face=$(dirname "$built")/libusched_pthread.a
names=ext/sim/names.sh

listed() {
	sed '/^#/d; /:$/d' "$1" | tr -s ' ' '\n' | grep . | LC_ALL=C sort
}

# No name is in two lists, and none twice in one.
lists() {
	listed test/ext/sim/posix.names >"$dir/posix"
	[ "$(wc -l <"$dir/posix")" = 1191 ]
	judge $? 'POSIX.1-2017 has 1191 functions'
	sh $names --all <"$dir/posix" >"$dir/log"
	judge $? 'functions of POSIX that no list has' "$dir/log"
	tr ',' '\n' <ext/sim/sim.flags | sed -n 's/.*--wrap=//p' >"$dir/flags"
	{ cat "$dir/flags"; listed ext/sim/sim.names; } | LC_ALL=C sort | uniq -d >"$dir/log"
	empty 'names that are listed twice' "$(cat "$dir/log")"
	# A name that no list has is found, in a list and in an object.
	mkdir -p "$dir/one"
	! printf 'read\nnosuchcall\n' | sh $names --all >"$dir/log"
	judge $? 'a name that is not known'
	echo 'int klogctl(int, char *, int); int main(void) { return klogctl(0, 0, 0); }' \
		>"$dir/one.c"
	try 'an object' $cc -c "$dir/one.c" -o "$dir/one/one.o" || return
	! sh $names "$dir/one/one.o" >"$dir/log" && [ "$(cat "$dir/log")" = klogctl ]
	judge $? 'a call that is not known' "$dir/log"
}

# Objects as they are: what sim.flags leads away is in the lists.
known() { # what, object or archive ...
	what=$1
	shift
	sh $names "$@" >"$dir/log" 2>&1
	judge $? "calls of $what that no list has" "$dir/log"
}

examples() {
	for file in examples/sim/*.c examples/*.c examples/httpd/*.c; do
		object=$dir/$(basename "$file" .c).o
		$cc -std=gnu11 -O1 -D_FORTIFY_SOURCE=2 $includes -Iexamples/httpd -w -c "$file" \
			-o "$object" 2>"$dir/log" || continue
		nm -u "$object"
	done >"$dir/undefined"
	[ "$(wc -l <"$dir/undefined")" -gt 500 ]
	judge $? 'few examples were compiled' "$dir/log"
	known 'the examples' "$dir"/*.o
}

others() {
	for name in libhiredis libevent libcurl libpq libz libsqlite3 liblua5.4; do
		archive=$($cc -print-file-name=$name.a)
		[ -e "$archive" ] || skip "no $name.a" || continue
		known "$name" "$archive"
	done
}

# The numbers that headers of compilers know have these names.
numbers() {
	for with in $cc aarch64-linux-gnu-gcc riscv64-linux-gnu-gcc; do
		have $with || skip "no $with" || continue
		echo '#include <sys/syscall.h>' | $with -E -dM -x c - |
			sed -n 's/^#define __NR_\([a-z0-9_]*\) .*/\1/p' |
			grep -vE 'arch_specific|^syscalls$' | sort -u >"$dir/calls"
		{	echo '#include <stdio.h>'
			echo '#include <string.h>'
			echo '#include <sys/syscall.h>'
			echo 'const char *sim_call_name(long number);'
			echo 'int main(void) { int rc = 0;'
			sed 's/.*/rc |= strcmp(sim_call_name(__NR_&), "&") \&\& puts("&");/' \
				"$dir/calls"
			echo 'return rc; }'
		} >"$dir/numbers.c"
		try "numbers by $with" $with -w -static $includes "$dir/numbers.c" \
			ext/sim/snumber.c -o "$dir/numbers" || continue
		case $with in
		aarch64*)	emulator=qemu-aarch64 ;;
		riscv64*)	emulator=qemu-riscv64 ;;
		*)		emulator= ;;
		esac
		[ -z "$emulator" ] || have $emulator || skip "no $emulator" || continue
		$emulator "$dir/numbers" | grep -vxE 'riscv_flush_icache|riscv_hwprobe' >"$dir/log"
		empty "system calls of $with" "$(cat "$dir/log")"
	done
}

# A program of hosts, with the pthread face if $faced is set.
program() { # flags, source, name, what is linked last
	$cc -std=gnu11 -O1 -g -Wall -Wextra -Werror $includes $1 -c "$2" -o "$dir/$3.o" &&
		$cc -nostdlib -r @ext/sim/sim.flags $faced "$dir/$3.o" ${faced:+"$face"} \
			-o "$dir/$3.all.o" &&
		$cc "$dir/$3.all.o" "$sim" "$built" $4 -pthread -o "$dir/$3"
}

calls() {
	faced=
	try 'a shared library' $cc -O1 -fPIC -shared -Wall -Wextra -Werror \
			test/ext/sim/outside.c -o "$dir/liboutside.so" &&
		try 'calls.c' program '' test/ext/sim/calls.c calls "$dir/liboutside.so" || return
	try 'answers of a host' "$dir/calls" --seeds 5 --twice
	# Whatever the machine says.
	"$dir/calls" --seed 1 >"$dir/here" 2>&1
	(ulimit -n 40; TZ=Asia/Tokyo taskset 1 "$dir/calls" --seed 1) >"$dir/there" 2>&1
	try 'answers elsewhere' diff "$dir/here" "$dir/there"
	[ "$($cc -dumpmachine | cut -d- -f1)" = x86_64 ] || return
	# Without a filter, as in a container that allows none, nothing is told.
	while read -r what why; do
		told "$what" "$why"
		judge $? "call $what" "$dir/log"
	done <<-END
		$messages
	END
}

messages='refused call: mkfifo() is not simulated
number syscall(io_uring_setup) is not simulated
libc umount2() came to the machine (umount2), from calls_libc(): it is not
hand by_hand() makes the system call sync itself
library socket() came to the machine (socket), from outside_socket() of liboutside.so:
fork fork() came to the machine (clone), from outside_fork() of liboutside.so:
lock pthread_mutex_lock() needs the pthread face
input () came to the machine (read), from call()
limit setrlimit(RLIMIT_FSIZE) is not simulated'

told() { # CALL, what the run says
	CALL=$1 "$dir/calls" --seeds 1 >"$dir/log" 2>&1
	[ $? = 1 ] && grep -qF "$2" "$dir/log"
}

cancellation() {
	faced=@ext/posix/pthread.flags
	try 'cancel.c for this machine' $cc -std=gnu11 -O1 -Wall -Wextra -Werror \
			test/ext/sim/cancel.c -pthread -o "$dir/cancel.real" &&
		try 'cancel.c' program -DSIMULATED test/ext/sim/cancel.c cancel || return
	"$dir/cancel" --seed 1 | grep -vE '^ *[0-9]+\.[0-9]{6}  |^seed ' >"$dir/simulated"
	# A busy machine may be late.
	for try in 1 2 3; do
		rm -rf "$dir/files" && mkdir "$dir/files" &&
			(cd "$dir/files" && timeout 60 ../cancel.real) >"$dir/real"
		cmp -s "$dir/real" "$dir/simulated" && break
	done
	[ "$(wc -l <"$dir/real")" = 75 ]
	judge $? 'cancel.c says nothing' "$dir/real"
	try 'cancellation is not that of Linux' diff "$dir/real" "$dir/simulated"
}

# An error that is planted in the simulator is found by calls.c, its messages, or cancel.c.
mutant() { # test, file, sed script
	whole=$sim faced=
	mkdir -p "$dir/m" && cp "$whole" "$dir/m/sim.a" &&
		sed "$3" "ext/sim/$2" >"$dir/m/$2" && ! cmp -s "ext/sim/$2" "$dir/m/$2" &&
		$cc -std=gnu11 -O1 -w $includes -Iext/sim -c "$dir/m/$2" \
			-o "$dir/m/${2%.c}.o" >"$dir/log" 2>&1 &&
		ar r "$dir/m/sim.a" "$dir/m/${2%.c}.o" 2>"$dir/log"
	judge $? "planted in $2: $3" "$dir/log" || return
	sim=$dir/m/sim.a
	if [ $1 = cancel ]; then
		faced=@ext/posix/pthread.flags
		program -DSIMULATED test/ext/sim/cancel.c cancel &&
			"$dir/cancel" --seed 1 | grep -vE '^ *[0-9]+\.[0-9]{6}  |^seed ' |
				cmp -s - "$dir/real"
	else
		program '' test/ext/sim/calls.c calls "$dir/liboutside.so" &&
			"$dir/calls" --seeds 1 >"$dir/log" 2>&1 &&
			echo "$messages" | while read -r what why; do
				told "$what" "$why" || exit
			done
	fi
	[ $? != 0 ]
	judge $? "planted in $2, and not found by $1: $3"
	sim=$whole
}

mutants() {
	mutant calls smachine.c 's/b->b_fd_nr = (int)to->rlim_cur;/;/'
	mutant calls smachine.c 's/to->rlim_max > at->rlim_max/false/'
	mutant calls sfile.c 's/fd < b->b_fd_nr/fd < SIM_FDS/'
	mutant calls scpu.c 's/if (to < b->b_nice)/if (false)/'
	mutant calls scpu.c 's/CPU_SET_S(0, size, to)/CPU_SET_S(1, size, to)/'
	mutant calls suser.c 's/answer((a == SIM_USER || a == same) &&/answer(true ||/'
	mutant calls sexit.c 's/calls_run(&b->b_at_exit)/(void)b/'
	mutant calls stemp.c 's/, 0600/, 0644/'
	mutant calls sseal.c 's/RESULT(c) = SIM_USER;/RESULT(c) = 0;/'
	mutant calls scaller.c 's/if (p.p_owner == LIBRARY)/if (false)/'
	mutant calls scaller.c 's/p.p_owner != LIBC/true/'
	mutant calls snumber.c 's/"read write /"write read /'
	mutant cancel smember.c 's/(void (\*)(void))f == /NULL == /'
	mutant cancel sfile.c 's/rc == -ETIMEDOUT ? 0 : rc;/0;/'
	mutant cancel snhost.c 's/^	point_end(rc);/	;/'
	mutant cancel snames.c '/^NAME(ssize_t, read,/,/^}/ s/enter_point/enter/'
	mutant cancel ssignal.c '/^NAME(int, pause,/,/^}/ s/pointed/answer/'
	mutant cancel ssignal.c '/^NAME(int, sigwait,/,/^}/ s/point_end(rc)/(void)rc/'
}

lists
examples
others
numbers
calls
cancellation
[ "${1:-}" != --full ] || mutants
counted
