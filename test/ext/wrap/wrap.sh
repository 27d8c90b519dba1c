#!/bin/sh
# SPDX-License-Identifier: MIT
# wrap.sh: other people's code that blocks, blocks only the thread that calls.
# Each call that has a hook does so (blocking/plain.c), in each form of the hooks:
# in the program, by --wrap, static, by LD_PRELOAD. So do the unmodified
# libraries libcurl, hiredis with a Redis, libpq with a PostgreSQL, OpenSSL, and, with
# a server of a few lines, libldap, c-ares, libmosquitto and libmariadb. Without
# hooks these programs hang. libpng jumps out of a call-back that has waited. What
# does not work is in blocking/limits.c, and in the end of this script.
#
# CC is the compiler, CFLAGS are more options for it. A library or a server that
# is not installed is skipped, with its Debian package.

cd "$(dirname "$0")/../../.." || exit 1
. test/run/layout
. test/run/count
servers=
unset USCHED_SEED USCHED_DEBUG MAKEFLAGS NR LD_PRELOAD
export WATCHDOG=${WATCHDOG:-60}
ulimit -c 0

hard=evict=always,poison,fault

main() {
	try 'builds' build || { cat "$dir/log"; exit 1; }
	try 'wrap.flags names all hooks' flags
	calls
	if has openssl/ssl.h -lssl libssl-dev; then
		library tls '-lssl -lcrypto' 8
		by_flags
	fi
	if has curl/curl.h -lcurl libcurl4-openssl-dev; then
		library curl -lcurl 16
		try 'curl by LD_PRELOAD' preload curl -lcurl
		try 'curl by --wrap hangs: it reaches only what is linked' \
			hangs curl '' "$dir/plain/uwrap_link.o" \
			@ext/wrap/wrap.flags -lcurl
	fi
	if has hiredis/hiredis.h -lhiredis libhiredis-dev && redis; then
		library redis -lhiredis 16 "$dir/redis.sock"
	fi
	if has ldap.h '-lldap -llber' libldap-dev; then
		small ldap '-lldap -llber'
		try 'ldap hangs, if its first call is made by a thread' \
			hangs ldap late "$dir/plain/uwrap.o" -lldap -llber
	fi
	! has ares.h -lcares libc-ares-dev || small ares -lcares
	! has mosquitto.h -lmosquitto libmosquitto-dev ||
		small mosquitto -lmosquitto
	! has mariadb/mysql.h -lmariadb libmariadb-dev || small mariadb -lmariadb
	if has png.h -lpng libpng-dev; then
		for sched in RR LL WS; do
			try "png, $sched" run plain $sched png "-lpng $fortified"
		done
		try 'png, hard mode' run hard RR png -lpng
	fi
	pq_flags
	if has libpq-fe.h "$pq" libpq-dev && postgres; then
		library pq "$pq" 8 "host=$dir/pg user=test dbname=postgres"
	fi
	counted
}

make_it() { # target, variables
	${MAKE:-make} -s -j 2 CC="${CC:-cc}" "$@"
}

# The library and the hooks: plain as make test has built them, and in the hard
# mode.
build() {
	plain=$(make_it --eval='where: ; @echo $(B)' where) &&
		make_it $plain/libusched.a $plain/libusched.so $plain/uwrap.o \
			$plain/uwrap_link.o $plain/libuwrap.so &&
		make_it "B=$dir/hard" O=-O0 DEFS=-DUSCHED_HARD \
			"$dir/hard/libusched.a" "$dir/hard/uwrap.o" &&
		ln -s "$PWD/$plain" "$dir/plain" &&
		mkdir "$dir/so" &&
		soname=$(make_it --eval='name: ; @echo $(SONAME)' name) &&
		ln -s "$dir/plain/libusched.so" "$dir/so/$soname"
}

hooks() { # object
	nm "$1" | sed -n 's/.* T __wrap_//p' | sort
}

flags() {
	tr ',' '\n' <ext/wrap/wrap.flags | sed -n 's/^--wrap=//p' | sort \
		>"$dir/flags"
	hooks "$dir/plain/uwrap_link.o" | comm -3 - "$dir/flags" >"$dir/odd"
	! grep -v __ "$dir/odd" && [ "$(wc -l <"$dir/flags")" -gt 20 ]
}

# Links a program of test/ext/wrap/blocking. unquoted: several words each.
link() { # mode, scheduler, program, what to link with ...
	mode=$1 sched=$2 program=$3; shift 3
	[ $mode = plain ] || sched="$sched -DUSCHED_HARD"
	${CC:-cc} -std=gnu11 -O1 -g -Wall -Wextra -Werror ${CFLAGS:-} \
		-D$sched $includes "test/ext/wrap/blocking/$program.c" "$@" \
		-o "$dir/program" -pthread -ldl
}

# Links it with the hooks in the program, and runs it.
run() { # mode, scheduler, program, libraries, arguments ...
	mode=$1 sched=$2 program=$3 libs=$4; shift 4
	link $mode $sched $program "$dir/$mode/uwrap.o" \
		"$dir/$mode/libusched.a" $libs || return 1
	[ $mode = plain ] || export USCHED_DEBUG=$hard
	timeout 100 "$dir/program" "$@"
	status=$?
	unset USCHED_DEBUG
	return $status
}

# Links it otherwise, and checks that it hangs.
hangs() { # program, argument or '', what else to link with ...
	program=$1 arg=$2; shift 2
	link plain RR $program "$@" "$dir/plain/libusched.a" || return 1
	until_hung "$dir/program" ${arg:+"$arg"}
}

until_hung() { # command ...
	NR=16 WATCHDOG=1 timeout 60 "$@" 2>"$dir/hung"
	[ $? = 1 ] && grep 'watchdog' "$dir/hung"
}

preload() { # program, libraries
	link plain RR $1 -L"$dir/plain" -lusched $2 &&
		LD_LIBRARY_PATH=$dir/so LD_PRELOAD=$dir/plain/libuwrap.so \
			timeout 100 "$dir/program"
}

fortified='-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2'

calls() {
	for sched in RR LL WS; do
		try "calls, $sched" run plain $sched plain "$fortified"
		try "limits, $sched" run plain $sched limits ''
	done
	for sched in RR WS; do
		try "calls, hard mode, $sched" run hard $sched plain ''
	done
	try 'limits, hard mode' run hard RR limits ''
	try 'calls, --wrap' linked "$fortified"
	try 'calls, static' linked -static
	try 'a static program needs --wrap, and is told so' misplaced
	try 'without hooks, calls' hangs plain ''
	# Debian's musl-gcc comes without an unwinder, and programs have glibc.
	case ${CC:-cc} in
	*musl*)	skip "LD_PRELOAD, with $CC"
		return ;;
	esac
	try 'calls, LD_PRELOAD' preload plain ''
	try 'a static program has no use for LD_PRELOAD' static_hangs
	try 'LD_PRELOAD, a program without the library' stranger
}

linked() { # flags
	link plain RR plain $1 "$dir/plain/uwrap_link.o" @ext/wrap/wrap.flags \
		"$dir/plain/libusched.a" && timeout 100 "$dir/program"
}

# The linker refuses it, if libc.a brings a function that a hook replaces.
misplaced() {
	echo '#include <unistd.h>' >"$dir/misplaced.c"
	echo 'int main(void) { return (int)read(0, 0, 0); }' \
		>>"$dir/misplaced.c"
	${CC:-cc} ${CFLAGS:-} -static "$dir/misplaced.c" "$dir/plain/uwrap.o" \
		"$dir/plain/libusched.a" -o "$dir/program" -pthread 2>"$dir/told" ||
		{ cat "$dir/told"; grep -q 'multiple def.*uwrap' "$dir/told"; return; }
	"$dir/program" 2>"$dir/told"
	[ $? -gt 128 ] && grep 'needs uwrap_link.o' "$dir/told"
}

static_hangs() {
	link plain RR plain -static "$dir/plain/libusched.a" &&
		LD_PRELOAD=$dir/plain/libuwrap.so until_hung "$dir/program"
}

stranger() {
	[ "$(LD_PRELOAD=$dir/plain/libuwrap.so sh -c 'sleep 0.01; echo a | cat' \
		2>&1)" = a ]
}

has() { # header, flag, package
	echo "#include <$1>" >"$dir/probe.c"
	echo 'int main(void) { return 0; }' >>"$dir/probe.c"
	${CC:-cc} ${CFLAGS:-} "$dir/probe.c" -o "$dir/probe" $2 2>/dev/null ||
		skip "no $1 (package $3)"
}

# Runs a program of test/ext/wrap/blocking with each scheduler, and in the hard mode.
library() { # program, libraries, NR in the hard mode, arguments ...
	name=$1 libraries=$2 few=$3; shift 3
	for sched in RR LL WS; do
		try "$name, $sched" run plain $sched $name "$libraries" "$@"
	done
	export NR=$few
	try "$name, hard mode" run hard RR $name "$libraries" "$@"
	unset NR
	try "$name hangs without hooks" hangs $name "${1:-}" $libraries
}

# Runs a program of test/ext/wrap/blocking that has its server (server.h).
small() { # program, libraries
	name=$1 libraries=$2
	try "$name" run plain RR $name "$libraries"
	export NR=16
	try "$name, hard mode" run hard RR $name "$libraries"
	unset NR
	try "$name hangs without hooks" hangs $name '' $libraries
}

# OpenSSL in a static program.
by_flags() {
	link plain RR tls -static "$dir/plain/uwrap_link.o" @ext/wrap/wrap.flags \
		-lssl -lcrypto "$dir/plain/libusched.a" >"$dir/log" 2>&1 || {
		skip 'tls, static: no libssl.a, or it needs more'
		return
	}
	try 'tls, static' timeout 100 "$dir/program"
}

# Servers, each of which a user without privileges runs.

unprivileged() {
	if [ "$(id -u)" != 0 ]; then
		exec "$@"
	fi
	chmod 711 "$dir"
	exec setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"
}

owned() { # folder
	mkdir "$1" && { [ "$(id -u)" != 0 ] || chown nobody:nogroup "$1"; }
}

stop() {
	for server in $servers; do
		kill -INT $server && wait $server
	done 2>/dev/null
	servers=
}

begun() { # what, command that succeeds when the server answers
	what=$1; shift
	n=0
	until "$@" >/dev/null 2>&1; do
		n=$((n + 1))
		if [ $n = 200 ]; then
			skip "$what does not start"
			cat "$dir/server"
			return 1
		fi
		sleep 0.1
	done
}

redis() {
	command -v redis-server >/dev/null ||
		skip 'no redis-server (package redis-server)' || return
	redis-server --port 0 --unixsocket "$dir/redis.sock" --save '' \
		--appendonly no --dir "$dir" >"$dir/server" 2>&1 &
	servers="$servers $!"
	begun redis-server [ -S "$dir/redis.sock" ]
}

pq_flags() {
	pq=$(pg_config --includedir 2>/dev/null)
	pq="${pq:+-I$pq} -lpq"
}

postgres() {
	bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
	PATH=$PATH${bin:+:$bin}
	command -v initdb >/dev/null ||
		skip 'no initdb (package postgresql)' || return
	owned "$dir/pg"
	(unprivileged initdb -D "$dir/pg/data" -U test -A trust --no-sync \
		--locale=C) >"$dir/server" 2>&1 ||
		{ skip "initdb: $(tail -n 1 "$dir/server")"; return; }
	(unprivileged postgres -D "$dir/pg/data" -k "$dir/pg" \
		-c listen_addresses= -c fsync=off -c max_connections=80) \
		>"$dir/server" 2>&1 &
	servers="$servers $!"
	begun postgres grep -q 'ready to accept' "$dir/server"
}

main
