#!/bin/sh
# SPDX-License-Identifier: MIT
# how.sh: each row of doc/how.md has a program, which compiles without a warning and
# prints what stands beside it, with rr and with two workers of ws. Without what the
# row is about, which a sed script or a variable takes out, it prints something else,
# or does not end well. All programs of examples/how are in a row.
#
#	test/examples/how.sh [--hard] [NAME]	--hard: in the hard mode; NAME: one row
#
# CC is the compiler, CFLAGS are more options for it, LIBRARY is the library, with the
# hooks of ext/wrap beside it. Programs whose waits are all of the library run in
# virtual time.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
unset MAKEFLAGS USCHED USCHED_SEED USCHED_DEBUG USCHED_LIST USCHED_LAW
ulimit -c 0
hard=
[ "${1:-}" != --hard ] || { hard=1; shift; }
only=${1:-}

# row PROGRAM TIME WITHOUT: TIME is virtual or real; WITHOUT is a sed script, VAR=VALUE
# for the environment, or "link" for an object that is left out.
rows() {
	row how/limit virtual 's/USEM(3)/USEM(10)/'
	row how/deadline virtual 's/uafter(UTIME_S)/UNEVER/'
	row how/blocked real 's/100 \* UTIME_MS/60 * UTIME_S/'
	row how/retry virtual '/pause \*= 2/s/2/1/'
	row how/interrupt virtual '/uthread_interrupt(/d'
	row how/tree virtual '/uscope_cancel(s);	.*the node/d'
	row how/tick virtual 's/uticker_wait(.*)/u_sleep(uafter(100 * UTIME_MS)), missed = 0/'
	row how/queue virtual 's/sizeof(int), 4/sizeof(int), 100/'
	row how/start virtual '/uchan_close(ready)/d'
	row how/watch virtual '/ucond_broadcast/d'
	row how/pubsub virtual 's/&message, UNOW/\&message, UNEVER/'
	row how/race virtual '/uscope_cancel(s)/d'
	row how/gather virtual 's/return 0;	.*/return j->rc;/'
	row how/error virtual 's/return -ENOSPC/return 0/'
	row how/ctrlc real 's/usignal_until(SIGTERM, work, arg)/work(arg)/'
	row how/force real 's/uafter(200 \* UTIME_MS)/UNEVER/'
	row how/quit virtual '/uscope_cancel(all);	/d'
	row how/thrice real 's/usignal_watch(SIGINT)/0/'
	row how/child real 's/300 \* UTIME_MS/UNEVER/'
	row how/stdin real 's/u_wait_fd([^)]*)/0/; s/u_read(\(.*\), UNEVER)/read(\1)/'
	row how/slow real 's/uafter(500 \* UTIME_MS)/UNEVER/'
	row how/closing real '/shutdown(/d'
	row how/fork real 's/usched_main(serve, /serve(/'
	row how/calls real 's/USEM(2)/USEM(20)/'
	row how/throttle virtual '/uafter(100 \* UTIME_MS)/d'
	row how/half real '/shutdown(/d'
	row how/names real 's/500 \* UTIME_MS/60 * UTIME_S/'
	row how/file real 's/u_fsync(fd, UNEVER)/fsync(fd)/; s/.*usched.all.*/&\nint fsync(int);/'
	row how/key virtual 's/ukey_set([^)]*)/0/'
	row how/urgent virtual 's/"a click", 0/"a click", 1/'
	row how/day real '/utime_virtual(/d'
	row how/hang real USCHED_QUIET=1
	row how/list real 's/ulist_start()/0/'
	row how/memory real USCHED_STACKS=private
	row how/deep real 's/"4M"/"64k"/'
	row how/pool virtual 's/uwork_drain([^)]*)/0/'
	row how/cpu real 's/ucall(compute, arg)/(compute(arg), 0)/'
	row how/procs real 's/ws:2/rr:1/'
	row how/future virtual 's/ugroup_wait(.*)/(int)(0 * until)/'
	row how/config virtual '/urw_unlock/d; s/urw_[a-z]*(.*UNEVER)/lock.rw_owner != NULL/'
	row how/debounce virtual 's/100 \* UTIME_MS/UTIME_MS/'
	row how/select virtual 's/uselect(cases, 2/uselect(cases, 1/'
	row how/either real 's/rc = uscope_go(s, reader, NULL)/rc = 0 * (reader == NULL)/'
	row how/native real 's/ucall(join, arg)/(join(arg), 0)/'
	row how/post real 's/ucall(join, NULL)/0 * (join == NULL)/'
	row how/shared real '/umutex_unlock/d; s/umutex_lock(.*UNEVER)/(int)(0 * sizeof lock)/'
	row how/unix real 's/u_send_fd(fd, .*,/u_write_all(fd, "x", 1,/'
	row how/bulk real 's/sizeof(int), 1000/sizeof(int), 0/'
	row how/timer virtual 's/uafter(100 \* UTIME_MS)/begun + 100 * UTIME_MS/'
	row how/law real USCHED_LAW=off
	row how/seeds real 's/utime_virtual(seed)/utime_virtual(0)/'
	row how/plain real link
	row how/serve real 's/sv_limit = 2/sv_limit = 3/'
	row limiter real 's/uchan_recv(tokens, arg, until)/(int)(0 * until)/'
	row loader real 's/uonce(.*UNEVER)/load(\&cache[key])/'
	row proxy real 's/(500 \* UTIME_MS)/(50 * UTIME_S)/'
	row udp real 's/i <= 9/i <= 1/'
	row tls real '/X509_STORE_add_cert(/d'
	row priority real 's/!u->u_mark/(!u->u_mark || u < thread + 2)/'
	row loops/poll real 's/uloop_ms(uloop_until(s))/-1/'
	row gc real 's/collector_start()/(GC_init(), 0)/'
	row walk real '/ugen_yield(&n->key)/d'
	row crew real 's/crew(3, 25ms)/crew(3, 25s)/'
}

# Notes a row, and breaks its program.
row() { # program, time, without
	name=${1##*/}
	case $name in *"$only"*) ;; *) return ;; esac
	source=$(ls examples/$1.c examples/$1.cc 2>/dev/null)
	broken=$dir/$name-without.${source##*.}
	environment=
	case $3 in
	link)		;;
	[A-Z]*=*)	environment=$3 ;;
	*)		sed "$3" "$source" >"$broken"
			! cmp -s "$source" "$broken" || fail "$name: nothing was taken out" ;;
	esac
	echo "$1 $2 $source ${environment:-none}" >>"$dir/rows"
}

# Objects for the programs: time, a server of names that is deaf, a disk that is slow.
objects() {
	cat >"$dir/virtual.c" <<-'EOF'
	#include <usched/all.h>
	__attribute__((constructor)) static void begin(void) { utime_virtual(0); }
	EOF
	cat >"$dir/names.c" <<-'EOF'
	#include <arpa/inet.h>
	#include <netdb.h>
	#include <netinet/in.h>
	#include <string.h>
	#include <unistd.h>
	int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
			struct addrinfo **list)
	{
		static struct sockaddr_in to = { .sin_family = AF_INET };
		static struct addrinfo found = { .ai_addr = (struct sockaddr *)&to };

		(void)service, (void)hints;
		if (strcmp(host, "localhost") != 0)
			return sleep(3), EAI_NONAME;
		to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		return *list = &found, 0;
	}
	void freeaddrinfo(struct addrinfo *list) { (void)list; }
	EOF
	cat >"$dir/file.c" <<-'EOF'
	#include <unistd.h>
	int fsync(int fd) { return sleep(4), 0 * fd; }
	EOF
	for object in virtual names file; do
		${CC:-cc} -O1 -Iinclude $flags ${CFLAGS:-} -c "$dir/$object.c" \
			-o "$dir/$object.o" || exit 1
	done
}

# Compiles a row: a program, and that without what it is about.
compile() { # program, time, source
	name=${1##*/}
	cc="${CC:-cc} -std=gnu11" head=-Iinclude
	case $3 in
	*.cc)	cc="${CXX:-c++} -std=c++17" ;;
	esac
	case $1 in
	how/*)	;;
	*)	head="-Iinclude -Iinclude/usched -Iexamples -Iexamples/loops" ;;
	esac
	libs=$(sed -n '1,5s|^/\* LIBS: \(.*\) \*/$|\1|p' "$3")
	more=
	[ $2 = real ] || more=$dir/virtual.o
	[ $name != names ] && [ $name != file ] || more=$dir/$name.o
	case $name in
	plain)	linked=$hooks ;;
	list)	linked=-Wl,-u,ulist_start ;;
	*)	linked= ;;
	esac
	broken=$dir/$name-without.${3##*.}
	[ -e "$broken" ] || broken=$3
	$cc -O1 -g -Wall -Wextra -Werror $head $flags ${CFLAGS:-} "$3" $more $linked \
		"$library" $libs -pthread -ldl -o "$dir/$name" &&
	$cc -O1 -w $head $flags ${CFLAGS:-} "$broken" $more "$library" $libs -pthread \
		-o "$dir/$name-without"
}

# Numbers of a message, and of a backtrace, are not the same each time.
said() {
	sed '/^	/d; s/0x[0-9a-f]*/0x/g; s/, [0-9]* ms.*//; s/[0-9]*\(rr\|ws\)_fini/fini/' |
		case $1 in
		hang)	grep -o 'cycle of .*' ;;
		law)	grep -o 'function [a-z]*()\|has used the stack\|which waits' ;;
		list)	sort ;;
		seeds)	grep bug ;;
		*)	cat ;;
		esac
}

# Runs a program, and prints what it prints and its status.
output() { # name, program
	{
		case $1 in
		stdin)	(printf 'one\ntw'; sleep 5; echo o) | timeout 20 "$2" ;;
		force)	! timeout 20 "$2" </dev/null ;;
		*)	timeout 20 "$2" </dev/null ;;
		esac
		[ $? = 0 ] || echo 'does not end well'
	} 2>&1 | said $1
}

# Runs a row. It is tried with rr, and where no order of threads is fixed, with ws.
run() { # program, time, source, environment
	name=${1##*/}
	scheds='rr ws:2'
	case $name in hang|law|list|seeds|deep) scheds=rr ;; esac
	[ ! "$hard" ] || export USCHED_DEBUG=evict=always,poison,fault
	for sched in $scheds; do
		USCHED=$sched output $name "$dir/$name" >"$dir/$name.$sched"
		diff "${3%.*}.expected" "$dir/$name.$sched" || return 1
	done
	[ ! "$hard" ] || return 0
	[ "$4" = none ] || export "$4"
	output $name "$dir/$name-without" >"$dir/$name.not"
	! cmp -s "${3%.*}.expected" "$dir/$name.not" || {
		echo 'the same without what it is about'
		return 1
	}
}

# What a row needs that is not here.
missing() { # source
	case $1 in
	*.cc)	have "${CXX:-c++}" || echo "no C++ compiler (package g++)" ;;
	*/tls.c) echo '#include <openssl/ssl.h>' | ${CC:-cc} -E - >/dev/null 2>&1 ||
			echo 'no OpenSSL (package libssl-dev)' ;;
	*/gc.c)	echo '#include <gc.h>' | ${CC:-cc} -E - >/dev/null 2>&1 ||
			echo 'no libgc (package libgc-dev)' ;;
	*/list.c) case ${CC:-} in *musl*) echo 'no unwinder (Debian: not for musl)' ;; esac ;;
	*/memory.c) [ ! "$hard" ] || echo 'the hard mode takes more' ;;
	*/plain.c) [ ! "$hard" ] || echo 'the hooks were not compiled for the hard mode' ;;
	*/law.c|*/hang.c) [ ! "$hard" ] || echo 'the hard mode has another message' ;;
	esac
}

one() { # program, time, source, environment
	why=$(missing "$3")
	[ -z "$why" ] || { echo "$why"; exit 77; }
	compile "$@" && run "$@"
}

# Runs each fourth row.
quarter() { # which
	n=0
	while read -r row; do
		n=$((n + 1))
		[ $((n % 4)) = "$1" ] || continue
		set -- "$1" $row
		name=${2##*/}
		(shift; one "$@") >"$dir/$name.log" 2>&1
		echo $? >"$dir/$name.status"
	done <"$dir/rows"
}

# The text and the table have the same programs, beside those of README (stranger.sh), and
# those that need GLib or libuv (loops.sh).
text() {
	grep -o '(\.\./examples/[a-z/]*\.c*)' doc/how.md | sed 's,.*examples/,,; s/\.c*)//' |
		grep -v '^first/\|^loops/[gu]' | sort -u >"$dir/linked"
	sed 's/ .*//' "$dir/rows" | sort >"$dir/tried"
	try 'each program of the text is in the table' silent comm -23 "$dir/linked" "$dir/tried"
	try 'each row of the table is in the text' silent comm -13 "$dir/linked" "$dir/tried"
	try 'each program of examples/how is in a row' silent eval "ls examples/how/*.c |
		sed 's,examples/,,; s/[.]c//' | sort | comm -23 - '$dir/tried'"
	try 'thirty rows' [ "$(grep -c '^| .*](\.\./examples/' doc/how.md)" -ge 30 ]
}

flags= library=${LIBRARY:-libusched.a}
[ ! "$hard" ] || { flags=-DUSCHED_HARD library=libusched-debug.a; }
hooks=$(dirname "$library")/uwrap.o
if [ ! -e "$library" ] || [ ! -e "$hooks" ]; then
	hooks=uwrap.o
	${MAKE:-make} -s $(basename "$library") $hooks CC="${CC:-cc}" || exit 1
fi
rows
objects
for quarter in 0 1 2 3; do
	quarter $quarter &
done
wait
while read -r program rest; do
	name=${program##*/}
	judge "$(cat "$dir/$name.status")" "$name" "$dir/$name.log"
done <"$dir/rows"
[ "$only" ] || text
counted
