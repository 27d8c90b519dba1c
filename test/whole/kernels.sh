#!/bin/sh
# SPDX-License-Identifier: MIT
# kernels.sh: the library does without each system call that Linux 4.14 lacks, or
# that a container's filter refuses; without /proc; and in gVisor, if runsc is
# there. Calls are refused by seccomp(2): test/whole/refuse.c.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

library=${LIBRARY:-}
if [ ! -e "$library" ]; then
	make -s B="$dir/made" "$dir/made/libusched.a" >"$dir/log" 2>&1 || {
		fail "the library" "$dir/log"; counted; exit; }
	library=$dir/made/libusched.a
fi
${CC:-cc} -Wall -Wextra -O1 test/whole/refuse.c -o "$dir/refuse" || exit 1

# try WHAT TEST COMMAND...: builds a test, and runs it by a command.
try() {
	what=$1 test=$2; shift 2
	name=${test%-*} scheduler=-DRR
	case $test in
	*-*)	scheduler=-D${test#*-} ;;
	esac
	if [ ! -e "$dir/$test" ]; then
		# shellcheck disable=SC2046,SC2086 # words
		source=$(test_of "$name")
		${CC:-cc} -std=gnu11 -O1 $includes $scheduler \
			-o "$dir/$test" "$source" "$library" -pthread -lm \
			$(sed -n '1,5s|^/\* LIBS: \(.*\) \*/$|\1|p' "$source") \
			>"$dir/log" 2>&1 || { fail "$test" "$dir/log"; return; }
	fi
	"$@" "$dir/$test" >"$dir/log" 2>&1
	judge $? "$what: $test" "$dir/log"
}

# without CALL=ERROR,... TEST...
without() {
	calls=$1; shift
	for test; do
		# shellcheck disable=SC2046 # words
		try "$calls" "$test" "$dir/refuse" \
			$(echo "$calls" | tr ',' ' ') --
	done
}

guard=102	# MADV_GUARD_INSTALL, since 6.13
for error in ENOSYS EPERM; do
	without epoll_pwait2=$error io-RR time-RR io-WS
	without membarrier=$error cross-RR wait-WS io-WS steal_loose
	without pidfd_open=$error child-RR
	without sched_getaffinity=$error,sched_setaffinity=$error wait-RR
done
without preadv2=ENOSYS,pwritev2=ENOSYS io-RR net-RR
without preadv2=EOPNOTSUPP,pwritev2=EOPNOTSUPP io-RR
without madvise=EINVAL:$guard core_private pin-WS
without madvise=EPERM lane million-RR
without mincore=ENOSYS million-RR
# A kernel of 4.14, as far as the library can tell.
without "epoll_pwait2=ENOSYS,pidfd_open=ENOSYS,madvise=EINVAL:$guard" \
	join-RR join-WS serve-RR uthread-RR

# A program's /proc is empty.
if unshare -m sh -c 'mount -t tmpfs none /proc' 2>/dev/null; then
	for test in wait-RR join-WS net-RR sync-WS main; do
		try 'no /proc' $test \
			unshare -m sh -c 'mount -t tmpfs none /proc && exec "$0"'
	done
else
	skip 'no /proc: mounts are not permitted here'
fi

# Another kernel. It needs no daemon, but rights.
if have runsc && runsc --rootless --network=none do true 2>/dev/null; then
	for test in wait-RR cross-RR chan-WS time-RR io-RR; do
		try 'gVisor' $test runsc --rootless --network=none do
	done
else
	skip 'gVisor: no runsc that starts here'
fi
counted
