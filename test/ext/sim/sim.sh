#!/bin/sh
# SPDX-License-Identifier: MIT
# sim.sh: the simulated network of ext/sim/. It answers as Linux does, by random
# scripts (test/ext/sim/truth.c), also to odd flags and arguments (odd.c); a crash
# leaves what the model of sdisk.c allows, and all of it (disk.c); time, threads and
# faults are as usim.h says (world.c); each kind of fault, alone, does what it should
# (faults.c, damage.c); calls that wait do what Linux does (block.c), and so do signals
# that interrupt them (interrupt.c); calls of lib/io/ and ext/posix/ do what they say
# (surface.c); histories are judged as all orders say (history.c). Libraries of others
# run unmodified:
# libhiredis (redis.c), libevent (evhttp.c), libcurl (curl.c), libpq (pq.c); and so
# does the server of examples/httpd, among hostile clients (httpd.c). Runs repeat:
# hashes of 40 runs of the examples are those of test/ext/sim/*.hashes. Their planted
# errors are found within 2000 seeds, and without them seeds pass. The same binaries
# run for real (real.c), a story is a page, and gdb names hosts. doc/sim.md runs as it
# stands.
#
#	test/ext/sim/sim.sh --some	for make test: some ten seconds of cpu time
#	test/ext/sim/sim.sh		for make check: a minute
#	test/ext/sim/sim.sh --full	more scripts and seeds; hashes by gcc and clang, -O0
#				to -O3, musl, aarch64, riscv64, ASan; the hard mode;
#				mutants of the simulator
#	test/ext/sim/sim.sh --soak	10000 seeds of each example, twice, and each planted
#				error within its seeds, from a random first seed
#
# CC is the compiler, CFLAGS are more options for it.

cd "$(dirname "$0")/../../.." || exit 1
. test/run/layout
. test/run/count

[ "$(uname -s)" = Linux ] || { echo 'skipped: not Linux'; exit 77; }
ulimit -c 0
cc=${CC:-cc}
examples='ledger tickets device raft'
scripts=25 odds=100 seeds=150 some= full= soak= archives= libraries=
case ${1:-} in
--some)	scripts=10 odds=40 some=1 ;;
--full)	scripts=100 odds=2000 seeds=600 full=1 ;;
--soak)	soak=1 ;;
esac
# Compiles files with the library's sources, or the simulator's, in a folder.
objects() { # folder, flags, compiler, file ...
	folder=$dir/$1 flags=$2 with=$3
	shift 3
	mkdir -p "$folder" && for file; do
		$with -std=gnu11 -g -Wall -Wextra -Werror $CFLAGS $includes $flags \
			-c "$file" -o "$folder/$(basename "$file" .c).o" || return 1
	done
}

# The library and the simulator by one compiler, once: $dir/KIND/lib.a. make test has
# the library, as it is without options.
kind() { # KIND, flags, compiler
	[ -e "$dir/$1/lib.a" ] && return
	objects "$1" "$2" "$3" ext/sim/*.c || return
	if [ $1 = plain ] && [ -e "${LIBRARY:-}" ] && [ -z "$DEFS$SAN$CFLAGS" ]; then
		cp "$LIBRARY" "$dir/$1/lib.a"
	else
		objects "$1" "$2" "$3" usched.c $(where uhard.c rr.c $waits uscope.c \
			uthread.c $syncs $chans uproc.c umem.c ucall.c uwork.c \
			usymbol.c uio.c upoll.c unet.c ufile.c usignal.c userve.c uuntil.c)
	fi && ar rcs "$dir/$1/lib.a" "$dir/$1"/*.o
}

# A program of hosts: its objects, and $archives, are linked by sim.flags first. What
# these need of others, $libraries, is not.
program() { # KIND, flags, compiler, source, name
	mkdir -p "$dir/$1/p" &&
	$3 -std=gnu11 -g -Wall -Wextra -Werror $CFLAGS $includes $2 \
		-c "$4" -o "$dir/$1/p/$5.o" &&
	$3 -nostdlib -r @ext/sim/sim.flags "$dir/$1/p/$5.o" $archives -o "$dir/$1/p/$5.all.o" &&
	$3 $CFLAGS $2 "$dir/$1/p/$5.all.o" "$dir/$1/lib.a" $libraries -pthread -o "$dir/$1/$5"
}

# Answers of this machine, and those of the simulator without its own lines.
answers() { # seed, calls
	rm -rf "$dir/files" && mkdir "$dir/files" &&
	(cd "$dir/files" && ../truth "$1" "$2") >"$dir/real" &&
	CALLS=$2 "$dir/${kind:-plain}/truth" --seed "$1" |
		grep -vE '^ *[0-9]+\.[0-9]{6}  |^seed ' >"$dir/simulated"
}

# A script that differs is tried again, since a busy machine is late.
agrees() { # seed, calls
	for pause in 0 1 1; do
		sleep $pause
		answers "$1" "$2" && cmp -s "$dir/real" "$dir/simulated" && return
	done
	diff "$dir/real" "$dir/simulated"
	return 1
}

truth() {
	try 'truth for this machine' $cc -O1 -Wall -Wextra -Werror $CFLAGS \
		test/ext/sim/truth.c -o "$dir/truth" || return
	try 'truth for a host' program plain '-O1 -DSIMULATED' $cc \
		test/ext/sim/truth.c truth || return
	seed=1
	while [ $seed -le $scripts ]; do
		agrees $seed 200 >"$dir/differs" || break
		seed=$((seed + 1))
	done
	[ $seed -gt $scripts ]
	judge $? "script $seed differs from Linux" "$dir/differs"
	[ "$(wc -l <"$dir/real")" -gt 100 ]
	judge $? 'a script says nothing' "$dir/real"
}

# Scripts of odd arguments. What is refused by its name ends a script, so the lines
# before are compared.
same_odds() { # KIND, seed
	rm -rf "$dir/files" && mkdir "$dir/files" &&
		(cd "$dir/files" && ../odd $2 80) >"$dir/real"
	[ $? != 77 ] || return 77
	CALLS=80 "$dir/$1/odd" --seed $2 >"$dir/all" 2>&1
	grep -vE '^ *[0-9]+\.[0-9]{6}  |^seed ' "$dir/all" >"$dir/simulated"
	if grep -q '^seed .* FAILED: .* is not simulated' "$dir/all"; then
		head -n "$(wc -l <"$dir/simulated")" "$dir/real" >"$dir/part"
		mv "$dir/part" "$dir/real"
		refused=$((refused + 1))
	fi
	diff "$dir/real" "$dir/simulated" >"$dir/differs"
}

odd() {
	try 'odd for this machine' $cc -O1 -Wall -Wextra -Werror $CFLAGS \
		test/ext/sim/odd.c -o "$dir/odd" &&
		try 'odd for a host' program plain '-O1 -DSIMULATED' $cc \
			test/ext/sim/odd.c odd || return
	seed=1 refused=0
	while [ $seed -le $odds ]; do
		same_odds plain $seed || same_odds plain $seed
		case $? in
		0)	seed=$((seed + 1)) ;;
		77)	skip 'no devices can be made'; return ;;
		*)	break ;;
		esac
	done
	[ $seed -gt $odds ]
	judge $? "odd script $seed differs from Linux" "$dir/differs"
	[ $refused -le $((odds / 10)) ] && [ "$(wc -l <"$dir/real")" -gt 60 ]
	judge $? "odd scripts that are refused: $refused of $odds" "$dir/all"
}

# Calls that wait. On a busy machine the other end acts later.
waiting() {
	archives="@ext/posix/pthread.flags $dir/plain/posix.a"
	try 'block for this machine' $cc -O1 -Wall -Wextra -Werror $CFLAGS \
		test/ext/sim/block.c -pthread -o "$dir/block" &&
		try 'block for a host' program plain '-O1 -DSIMULATED' $cc \
			test/ext/sim/block.c block
	archives=
	try 'interrupt for this machine' $cc -O1 -Wall -Wextra -Werror $CFLAGS \
		test/ext/sim/interrupt.c -o "$dir/interrupt" &&
		try 'interrupt for a host' program plain '-O1 -DSIMULATED' $cc \
			test/ext/sim/interrupt.c interrupt &&
		same_signals plain >"$dir/differs"
	judge $? 'signals during waits differ from Linux' "$dir/differs"
	for seed in 3 15 16 ${full:+1 2 4 5 6 7 8 9 10 11}; do
		same_waits plain $seed >"$dir/differs"
		judge $? "waits $seed differ from Linux" "$dir/differs"
	done
}

same_signals() { # KIND
	"$dir/$1/interrupt" --seed 1 | grep -vE '^ *[0-9]+\.[0-9]{6}  |^seed ' \
		>"$dir/simulated"
	for tick in 25000 100000; do
		rm -rf "$dir/files" && mkdir "$dir/files" &&
			(cd "$dir/files" && timeout 60 ../interrupt $tick) >"$dir/real"
		cmp -s "$dir/real" "$dir/simulated" && return
	done
	diff "$dir/real" "$dir/simulated"
	return 1
}

same_waits() { # KIND, seed
	ROUNDS=30 "$dir/$1/block" --seed $2 |
		grep -vE '^ *[0-9]+\.[0-9]{6}  |^seed ' >"$dir/simulated"
	for moment in 25000 100000 300000; do
		rm -rf "$dir/files" && mkdir "$dir/files" &&
			(cd "$dir/files" && timeout 120 ../block $2 30 $moment) \
				>"$dir/real"
		cmp -s "$dir/real" "$dir/simulated" && return
	done
	diff "$dir/real" "$dir/simulated"
	return 1
}

# sim.flags has the names that are defined, and no others.
flags() {
	nm "$dir"/plain/s[a-z]*.o "$dir/plain/usim.o" |
		sed -n 's/.* T __wrap_//p' | sort >"$dir/defined"
	tr ',' '\n' <ext/sim/sim.flags | sed -n 's/--wrap=//p' | sort >"$dir/named"
	try 'sim.flags has other names' diff "$dir/defined" "$dir/named"
	# Outside of a run, too, what is refused ends the program and says why.
	echo 'int fork(void); int main(void) { return fork(); }' >"$dir/refused.c"
	try 'refused' program plain -fno-builtin $cc "$dir/refused.c" refused
	"$dir/plain/refused" >"$dir/log" 2>&1
	[ $? = 2 ] && grep -q '^usim: fork() is not simulated' "$dir/log"
	judge $? 'a refused call in main()' "$dir/log"
}

# The pthread face goes into the step of sim.flags.
surface() { # KIND, flags
	try "$1 posix" objects $1/posix "$2" $cc $(ls ext/posix/*.c | grep -v pstart) &&
		ar rcs "$dir/$1/posix.a" "$dir/$1"/posix/*.o || return
	archives="@ext/posix/pthread.flags $dir/$1/posix.a"
	try "$1 surface" program $1 "$2" $cc test/ext/sim/surface.c surface &&
		try "$1 surface" "$dir/$1/surface" --seeds $((seeds / 10)) --twice
	archives=
}

# Some seeds reach all states of world, and others do not. disk shows all states of
# the model only by some hundred seeds, which are quick.
claims() { # KIND, flags
	try "$1 world" program $1 "$2" $cc test/ext/sim/world.c world &&
		try "$1 world" "$dir/$1/world" --seeds $((seeds / 10)) --from 61 --twice
	try "$1 disk" program $1 "$2" $cc test/ext/sim/disk.c disk &&
		try "$1 disk" "$dir/$1/disk" --plain --seeds $((seeds * 8))
}

# So many seeds show all of a fault.
fault_seeds() { # fault
	case $1 in
	split|bound|stop)	echo 150 ;;
	*)	echo 30 ;;
	esac
}

# Each kind of fault has come, has hit, and has done nothing but what it should.
faults() { # KIND, flags
	try "$1 faults" program $1 "$2" $cc test/ext/sim/faults.c faults || return
	for fault in drift pause narrow bandwidth forget open dial dial-reset \
			dial-forget swizzle lost step slow split stop late bound; do
		FAULT=$fault "$dir/$1/faults" --seeds $(fault_seeds $fault) \
				>"$dir/log" 2>&1 &&
			! grep 'NOTHING WAS HIT' "$dir/log" &&
			! { [ $fault = step ] && grep 'NONE CAME' "$dir/log"; }
		judge $? "fault $fault" "$dir/log"
	done
	try "$1 damage" program $1 "$2" $cc test/ext/sim/damage.c damage || return
	for fault in unread damage stale astray empty; do
		FAULT=$fault "$dir/$1/damage" --seeds $seeds >"$dir/log" 2>&1 &&
			! grep 'NOTHING WAS HIT' "$dir/log"
		judge $? "fault $fault" "$dir/log"
	done
}

# Each failure of world.c that is asked for is one, and says why.
failures() {
	while read -r what why; do
		FAILURE=$what "$dir/plain/world" --seeds 1 >"$dir/log" 2>&1
		[ $? = 1 ] && grep -q "FAILED: .*$why" "$dir/log"
		judge $? "failure $what" "$dir/log"
	done <<-END
		fork fork() is not simulated
		threads pthread_create() needs the pthread face
		outside umount2() came to the machine (umount2), from [a-z]*()
		option setsockopt(6, 4) is not simulated
		mapped a write to a file that is mapped MAP_SHARED is not simulated
		writable mmap() of a file to be written, MAP_SHARED, is not
		alarm is ended by a signal: Alarm clock
		pipe is ended by a signal: Broken pipe
		loop 1000000 calls, and none of them waits: the last is time(), of [a-z]*()
		stuck has not ended, though all was well
		status ends with 3
		abort Aborted
		check test/ext/sim/world.c:.*: 1 == 2
		law Aborted
		never NEVER
		alone there is no client
		many another is not added: there are 32 hosts
		function nothing is not added: it has no function
		name a name of 80 characters
	END
	for line in "--seed 1@5,-2" "--seed 1@9223372036854775,2" "--seed 1@5.4294967297,2" \
	    "--seed 18446744073709551616" "--seed 4@20,3@50,1" \
	    "--seeds 20 --from 18446744073709551606" "--real --seed 1@5,2"; do
		"$dir/plain/world" $line >"$dir/log" 2>&1
		[ $? = 2 ] && grep -q '^  --seed ' "$dir/log"
		judge $? "not refused: $line" "$dir/log"
	done
	for odd in --twice --hashes --plain "--jobs 2" "--from 3" "--seeds 4"; do
		"$dir/plain/world" --seed 1 $odd >"$dir/log" 2>&1
		[ $? = 2 ] && grep -q "^usim: ${odd%% *} has no meaning beside --seed$" "$dir/log"
		judge $? "not refused: --seed 1 $odd" "$dir/log"
	done
	for odd in --twice "--seeds 4" "--only 1" --when --page; do
		"$dir/plain/world" $odd --real >"$dir/log" 2>&1
		[ $? = 2 ] && grep -q "^usim: ${odd%% *} has no meaning beside --real$" "$dir/log"
		judge $? "not refused: $odd --real" "$dir/log"
	done
	for odd in "--only 1" --when --page; do
		"$dir/plain/world" --seeds 1 $odd >"$dir/log" 2>&1
		[ $? = 2 ] && grep -q "^usim: ${odd%% *} needs --seed$" "$dir/log"
		judge $? "not refused: --seeds 1 $odd" "$dir/log"
	done
	FAILURE=law "$dir/plain/world" --seed 9 >"$dir/log" 2>&1
	grep -q 'has used the stack of thread' "$dir/log"
	judge $? 'a story says who has broken the law' "$dir/log"
	# One seed of eight looks after the law, and each if it is asked to.
	FAILURE=law "$dir/plain/world" --seeds 7 --from 2 >"$dir/log" 2>&1
	judge $? 'seeds that leave the law alone' "$dir/log"
	USCHED_LAW=abort FAILURE=law "$dir/plain/world" --seeds 1 --from 2 >"$dir/log" 2>&1
	[ $? = 1 ] && grep -q 'FAILED: Aborted' "$dir/log"
	judge $? 'a seed that is to look after the law' "$dir/log"
}

# A loop without an end is shrunk by a simulator of little patience, until it is enough.
shrinks() {
	mkdir -p "$dir/brief" && cp "$dir/plain/lib.a" "$dir/brief" || exit 1
	for enough in 600 1; do
		sed "/^#define .*PATIENCE/s/	1[02]*	/ 1 /
			s/^\(#define ENOUGH\).*/\1 $enough/" \
			ext/sim/ssearch.c >"$dir/brief/ssearch.c"
		objects brief '-O1 -Iext/sim' $cc "$dir/brief/ssearch.c" &&
			ar r "$dir/brief/lib.a" "$dir/brief/ssearch.o" &&
			program brief '-O1 -DSIMULATED' $cc test/ext/sim/world.c world
		judge $? "a simulator that has enough after $enough s" || return
		FAILURE=spin "$dir/brief/world" --seeds 1 --from 6 >"$dir/log" 2>&1
		[ $? = 1 ] && grep -q "FAILED: took more than 1 s" "$dir/log" && case $enough in
		1)	grep -q '^faults that it takes, or fewer: [1-9]' "$dir/log" ;;
		*)	grep -q '^faults that it takes: 0 of [1-9]' "$dir/log" ;;
		esac
		judge $? "a loop without an end, with $enough s to shrink it" "$dir/log"
	done
}

# Sets what is linked for a library. libpq.a lacks parts that come with the headers
# of the server.
linked_with() { # archive
	archives=$($cc -print-file-name=$1) more=
	case $1 in
	libpq.a)	for more in ${PGLIB:-/usr/lib/postgresql/*/lib}; do :; done
			more="$more/libpgcommon_shlib.a $more/libpgport_shlib.a" ;;
	libcurl.a)	;;
	*)		[ -e "$archives" ]; return ;;
	esac
	ls "$archives" $more >"$dir/log" 2>&1 || return
	libraries=$(readelf -d "${archives%.a}.so" |
		sed -n 's/.*NEEDED.*\[\(.*\)\]/-l:\1/p')
	archives="@ext/posix/pthread.flags $archives $more $dir/plain/posix.a"
}

# Programs of others, unmodified: they run, under faults.
others() {
	while read -r name header archive; do
		libraries=
		if ! linked_with $archive || ! echo "#include <$header>" |
		    $cc -E -x c - >"$dir/log" 2>&1; then
			skip "no $archive, or what it needs"
			continue
		fi
		try "$name" program plain -O1 $cc test/ext/sim/$name.c $name &&
			try "$name" "$dir/plain/$name" --seeds $((seeds / 10)) &&
			try "$name" "$dir/plain/$name" --seeds 5 --twice
	done <<-END
		redis hiredis/hiredis.h libhiredis.a
		evhttp event2/http.h libevent.a
		curl curl/curl.h libcurl.a
		pq postgresql/libpq-fe.h libpq.a
	END
	archives= libraries=
}

# The server of examples/httpd, as it is but for the name of main().
httpd() { # KIND, sources of it
	kind=$1
	shift
	try 'httpd' objects $kind/web '-O1 -Dmain=httpd_main -Iexamples/httpd' $cc "$@" ||
		return
	archives=$(ls "$dir/$kind"/web/*.o)
	try 'httpd' program $kind -O1 $cc test/ext/sim/httpd.c httpd
	archives= kind=
}

hostile() {
	httpd plain examples/httpd/*.c &&
		try 'httpd' "$dir/plain/httpd" --seeds $((seeds / 15)) &&
		try 'httpd' "$dir/plain/httpd" --seeds 3 --twice
}

# Hashes of 40 runs, of which some are bent, are those that are kept.
example() { # NAME, KIND, flags, compiler, emulator
	try "$1 $2" program $2 "$3" $4 examples/sim/$1.c $1 || return
	$5 "$dir/$2/$1" --seeds 40 --hashes >"$dir/hashes" 2>&1
	try "hashes of $1, $2" diff "$dir/hashes" test/ext/sim/$1.hashes
}

hashes() { # KIND, flags, compiler, emulator
	for name in $examples; do
		example $name "$@"
	done
}

# What holds for hosts holds for real, too: real.c. The examples pass, which takes
# seconds in which nothing computes: reals() starts them, and reals_end() looks.
real() { # NAME, whose objects are linked
	try "$1 for real" $cc $CFLAGS "$dir/plain/p/$1.all.o" \
			"$dir/uwrap.o" "$dir/plain/lib.a" -pthread -ldl -o "$dir/plain/$1.real"
}

for_real() { # NAME
	TMPDIR="$dir/tmp" "$dir/plain/$1.real" --real
}

reals() {
	mkdir "$dir/tmp"
	"$dir/plain/ledger" --real >"$dir/log" 2>&1
	[ $? = 2 ] && grep -q '^usim: --real needs uwrap.o' "$dir/log"
	judge $? '--real without hooks' "$dir/log"
	try 'real.c' program plain -O1 $cc test/ext/sim/real.c real &&
		try 'real.c' "$dir/plain/real" --seeds $seeds && real real &&
		try 'real.c for real' for_real real
	for why in 'check .* FAILED .*: failure' 'status .* FAILED .* with 3'; do
		FAILURE=${why%% *} for_real real >"$dir/log" 2>&1
		[ $? = 1 ] && grep -q "${why#* .* }" "$dir/log"
		judge $? "${why%% *} for real" "$dir/log"
	done
	rm -rf "$dir"/tmp/usim-*
	mkdir "$dir/stalls"
	(FAILURE=stall TMPDIR="$dir/stalls" "$dir/plain/real.real" --real; echo "status $?") \
		>"$dir/stalled" 2>&1 &
	for name in $examples; do
		real $name || continue
		(for_real $name; echo "status $?") >"$dir/$name.real" 2>&1 &
	done
}

reals_end() {
	wait
	for name in $examples; do
		[ "$(tail -n 1 "$dir/$name.real")" = 'status 0' ]
		judge $? "$name for real" "$dir/$name.real"
	done
	empty 'files of runs that passed' "$(ls "$dir/tmp")"
	grep -q 'FAILED, for real: .* stands still: ' "$dir/stalled" &&
		[ "$(tail -n 1 "$dir/stalled")" = 'status 1' ]
	judge $? 'a run for real that stands still' "$dir/stalled"
}

# A page has the hosts, what happened, and an end. A browser makes a row of each line.
page() { # command
	sh -c "$1 --page" >"$dir/page.html"
	sh -c "$1" >"$dir/story"
	[ "$(grep -c '^~H' "$dir/page.html")" = 2 ] && grep -q '^~M.*RST' "$dir/page.html" &&
		[ "$(grep -c '^~[LF]' "$dir/page.html")" = \
			"$(grep -c '^ *[0-9]*\.[0-9]\{6\} ' "$dir/story")" ] &&
		grep -q '^~R.*FAILED: client: amount' "$dir/page.html"
	judge $? 'the page of a story' "$dir/page.html"
	[ -n "$full" ] || return
	have chromium || skip 'no chromium' || return
	chromium --headless --no-sandbox --disable-gpu --user-data-dir="$dir/chromium" \
		--virtual-time-budget=2000 --dump-dom "file://$dir/page.html" \
		>"$dir/log" 2>/dev/null
	[ "$(grep -o '<li ' "$dir/log" | wc -l)" = \
		"$(grep -c '^~[LF]' "$dir/page.html")" ]
	judge $? 'rows of the page' "$dir/log"
}

gdb_names() { # command
	have gdb || skip 'no gdb' || return
	gdb -batch -iex 'set debuginfod enabled off' -ex 'set follow-fork-mode child' \
		-ex 'break usim_fail' -ex 'source lib/debug/usched-gdb.py' -ex run \
		-ex 'usched bt' --args $1 >"$dir/log" 2>&1
	for host in 'server (ended): ' 'server: ' 'client: '; do
		grep -q "^  0x[0-9a-f]*  $host" "$dir/log"
		judge $? "gdb does not name $host" "$dir/log"
	done
}

# An error of the log after a crash, as people look at it.
looks() {
	LEDGER_BUG=1 "$dir/plain/ledger" --seeds 200 --from 100 >"$dir/log"
	again=$(tail -n 1 "$dir/log")
	export LEDGER_BUG=1
	page "$again"
	gdb_names "$again"
	unset LEDGER_BUG
}

bugs() { # NAME, variable, errors
	try "$1 without an error" "$dir/plain/$1" --seeds $((seeds / 3))
	for bug in $3; do
		env $2=$bug "$dir/plain/$1" --seeds 2000 --from $((bug * 1000)) \
			>"$dir/log" 2>&1
		[ $? = 1 ] && grep -q '^seed .* FAILED' "$dir/log"
		judge $? "error $bug of $1 is not found" "$dir/log"
		# The last line replays what is left, and it fails.
		env $2=$bug sh -c "$(tail -n 1 "$dir/log")" >"$dir/story" 2>&1
		[ $? = 1 ] && grep -q 'FAULT' "$dir/story"
		judge $? "error $bug of $1, with the faults that are left" "$dir/story"
	done
}

# A search prints the same with any number of processes. A failure is inevitable
# from the crash on that lost something.
searches() {
	for jobs in 1 3; do
		LEDGER_BUG=3 "$dir/plain/ledger" --seeds 60 --jobs $jobs --hashes \
			>"$dir/jobs.$jobs" 2>&1
	done
	try 'a search with three processes' diff "$dir/jobs.1" "$dir/jobs.3"
	LEDGER_BUG=4 "$dir/plain/ledger" --seeds 2000 >"$dir/log"
	! grep -E '(sends most|its host) (for|by|to|->)' "$dir/log"
	judge $? 'hosts in the list of faults' "$dir/log"
	"$dir/plain/ledger" --seeds 30 >"$dir/log"
	grep -q 'loss .* cannot apply: no host sends datagrams' "$dir/log"
	judge $? 'why a kind hits nothing' "$dir/log"
	LEDGER_BUG=1 "$dir/plain/ledger" --seeds 200 >"$dir/log"
	again=$(tail -n 1 "$dir/log")
	LEDGER_BUG=1 sh -c "$again" >"$dir/story"
	LEDGER_BUG=1 sh -c "$again --when" >"$dir/when"
	awk '/crashes/ { crash[++nr] = $1 }
		/^inevitable/ { for (; nr > 0; nr--)
			found += crash[nr] >= $3 - .01 && crash[nr] <= $5 + .01 }
		END { exit !found }' "$dir/story" "$dir/when"
	judge $? 'when a failure was inevitable' "$dir/story" "$dir/when"
	LEDGER_BUG=1 sh -c "$again --page --when" >"$dir/page.html"
	[ "$(grep -o 'inevitable between .* s' "$dir/page.html")" = \
		"$(grep '^inevitable' "$dir/when")" ]
	judge $? 'when, on a page' "$dir/when" "$dir/page.html"
}

# A search that goes on from what it has reached climbs to where plain seeds do not come.
# A run that it has bent is the same alone.
guided() {
	try 'guide' program plain -O1 $cc test/ext/sim/guide.c guide || return
	"$dir/plain/guide" --seeds 400 >"$dir/log"
	[ $? = 1 ] && grep -q '^seed .*@.* FAILED: climber: the top' "$dir/log"
	judge $? 'a search that is guided' "$dir/log"
	! sh -c "$(tail -n 1 "$dir/log")" >"$dir/story" &&
		grep -q 'FAILED: climber: the top' "$dir/story"
	judge $? 'a bent run with the faults that are left' "$dir/story"
	try 'a search that is not guided' "$dir/plain/guide" --seeds 400 \
		--plain
	for jobs in 1 3; do
		"$dir/plain/tickets" --seeds 80 --jobs $jobs --hashes >"$dir/jobs.$jobs"
	done
	try 'a search with three processes' diff "$dir/jobs.1" "$dir/jobs.3"
	again=$(grep '@.*@.*,' "$dir/jobs.1" | tail -n 1)
	"$dir/plain/tickets" --seed "${again% *}" >"$dir/story"
	grep -q "hash ${again#* }$" "$dir/story"
	judge $? "the bent run $again alone" "$dir/story"
	try 'bent runs twice' "$dir/plain/tickets" --seeds 80 --twice
}

# The program and the commands of doc/sim.md, and what it shows of their output. One
# of them runs for real, so document_end() looks later.
document() {
	mkdir "$dir/doc" && cp "$dir/plain/lib.a" "$dir/doc/libusched.a" &&
		cp "$dir/plain/lib.a" "$dir/doc/libusched_sim.a" &&
		ln -s "$PWD/include" "$PWD/ext" "$PWD/examples" "$dir/doc" || exit 1
	awk '/^\t#include/ { on = 1 } on && /^[^\t]/ { exit } on' doc/sim.md |
		sed 's/^\t//' >"$dir/doc/till.c"
	sed -n "s/^\t\(\.\/\|! \)/\1/p; s/^\tcc /$cc /p" doc/sim.md >"$dir/commands"
	sed -n 's/^\t\(seed \|faults \|  *[0-9]\)/\1/p' doc/sim.md |
		grep -v '^ .*; ' >"$dir/shown"
	cp "$dir/uwrap.o" "$dir/doc"
	(cd "$dir/doc" && while read -r command; do
		case $command in
		*--real)	[ -n "$some" ] || (eval "$command" ||
					echo "status $?: $command") &
				continue ;;
		esac
		eval "$command" || case $command in
		./till*)	;;
		*)		echo "status $?: $command" ;;
		esac
	done; wait) <"$dir/commands" >"$dir/doc.log" 2>&1 &
}

document_end() {
	wait
	! grep '^status' "$dir/doc.log" >"$dir/differs"
	judge $? 'commands of doc/sim.md' "$dir/doc.log"
	grep -vxFf "$dir/doc.log" "$dir/shown" >"$dir/differs"
	[ $? = 1 ] && [ "$(wc -l <"$dir/shown")" -gt 9 ]
	judge $? 'doc/sim.md shows what is not so' "$dir/differs" "$dir/doc.log"
}

builds() {
	for with in gcc clang; do
		have $with || { skip "no $with"; continue; }
		for level in -O0 -O1 -O2 -O3; do
			try "$with $level" kind $with$level $level $with &&
				hashes $with$level $level $with
		done
	done
	while read -r with emulator; do
		have $with && { [ -z "$emulator" ] || have $emulator; } ||
			{ skip "no $with $emulator"; continue; }
		try "$with" kind $with '-O1 -static' $with &&
			hashes $with '-O1 -static' $with $emulator
	done <<-END
		musl-gcc
		aarch64-linux-gnu-gcc qemu-aarch64
		riscv64-linux-gnu-gcc qemu-riscv64
	END
	# Address space of the sanitizer is not that of other builds; hashes are.
	try 'asan' kind asan '-O1 -w -DUSCHED_HARD -fsanitize=address' $cc &&
		hashes asan '-O1 -w -DUSCHED_HARD -fsanitize=address' $cc
	# A run that evicts at each switch takes a hundred times as long.
	seeds=150
	try 'hard mode' kind hard '-O2 -DUSCHED_HARD' $cc &&
		USCHED_DEBUG=evict=always,poison,fault claims hard '-O2 -DUSCHED_HARD' &&
		USCHED_DEBUG=evict=always,poison,fault surface hard '-O2 -DUSCHED_HARD'
}

# An error that is planted in the simulator is found by a test.
mutant() { # test, file, sed script
	rm -rf "$dir/m" && mkdir "$dir/m" && cp "$dir/plain/lib.a" "$dir/m" &&
		sed "$3" "ext/sim/$2" >"$dir/m/$2" && ! cmp -s "ext/sim/$2" "$dir/m/$2" &&
		objects m '-O1 -Iext/sim -Wno-unused' $cc "$dir/m/$2" >"$dir/log" 2>&1 &&
		ar r "$dir/m/lib.a" "$dir/m/${2%.c}.o" &&
		mutant_program ${1%:*} >>"$dir/log" 2>&1
	judge $? "planted in $2: $3" "$dir/log" || return
	! tried $1 >"$dir/log" 2>&1
	judge $? "planted in $2, and not found by $1: $3"
}

mutant_program() { # test
	[ $1 != block ] && [ $1 != surface ] ||
		archives="@ext/posix/pthread.flags $dir/plain/posix.a"
	program m '-O1 -DSIMULATED' $cc test/ext/sim/$1.c $1
	set -- $?
	archives=
	return $1
}

tried() { # test
	case $1 in
	history)	"$dir/m/history"; return ;;
	guide)		! "$dir/m/guide" --seeds 400; return ;;
	world)		"$dir/m/world" --seeds 15 --from 361; return ;;
	disk)		"$dir/m/disk" --plain --seeds 1200; return ;;
	real)		$cc "$dir/m/p/real.all.o" "$dir/uwrap.o" "$dir/m/lib.a" \
				-pthread -ldl -o "$dir/m/real.real" || return 0
			TMPDIR="$dir/m" timeout 20 "$dir/m/real.real" --real
			return ;;
	block)		for seed in 3 15 16; do
				same_waits m $seed || return
			done
			return ;;
	interrupt)	same_signals m; return ;;
	odd)		for seed in $(seq 300); do
				same_odds m $seed || return
			done
			return ;;
	surface)	"$dir/m/surface" --seeds 5; return ;;
	faults:*)	FAULT=${1#*:} "$dir/m/faults" --seeds $(fault_seeds ${1#*:})
			return ;;
	damage:*)	FAULT=${1#*:} "$dir/m/damage" --seeds 150; return ;;
	esac
	kind=m seed=1
	while [ $seed -le 150 ] && answers $seed 200 &&
	    cmp -s "$dir/real" "$dir/simulated"; do
		seed=$((seed + 1))
	done
	kind=
	[ $seed -gt 150 ]
}

# An error that is planted in the server is found among hostile clients.
httpd_mutant() { # file, sed script
	rm -rf "$dir/h" && mkdir "$dir/h" && cp "$dir/plain/lib.a" "$dir/h" &&
		cp examples/httpd/*.c "$dir/h" &&
		sed "$2" "examples/httpd/$1" >"$dir/h/$1" &&
		! cmp -s "examples/httpd/$1" "$dir/h/$1" && httpd h "$dir"/h/*.c
	judge $? "planted in $1: $2" || return
	! "$dir/h/httpd" --seeds 60 >"$dir/log" 2>&1
	judge $? "planted in $1, and not found: $2"
}

mutants() {
	httpd_mutant serve.c 's/close(c->c_file);/;/'
	httpd_mutant serve.c 's/BENEATH | NO_LINKS$/BENEATH/'
	httpd_mutant serve.c 's/memcpy(c->c_in, c->c_at, c->c_in_nr)/true/'
	mutant truth swalk.c 's/k->k_how \& BENEATH \&\& strcmp/false \&\& strcmp/'
	mutant truth swalk.c 's/++k->k_links > LINKS/false/'
	mutant truth swalk.c 's/(k->k_at\[k->k_how.* != 0 ||$/(false ||/'
	mutant truth spath.c 's/^			nr++;/			nr = 1;/'
	mutant truth sopen.c 's/(lock == LOCK_EX || m->m_lock == LOCK_EX)/lock == LOCK_EX/'
	mutant truth snfolder.c 's/r->r_nr = r->r_next = 0/r->r_next = 0/'
	mutant truth stcp.c 's/k->k_linger.l_onoff \&\& k->k_linger.l_linger == 0/false/'
	mutant truth scalls.c 's/stream \&\& all == 0 \&\&/all == 0 \&\&/'
	mutant truth scalls.c 's/!(t->t_flags & MSG_NOSIGNAL))/true)/'
	mutant truth ssignal.c 's/sim_pending_add(\&s->g_pending, \&info, whom == PROCESS);/;/'
	mutant truth ssignal.c '/^static int mask_by/,/^}/ s/(void)sim_signals_handle(b);/;/'
	mutant truth sunix.c 's/return u->u_no_read ? 0 : -EAGAIN;$/return -EAGAIN;/'
	mutant block scalls.c 's/MSG_WAITALL \&\& f != NULL \&\& f->f_ops->o_whole/MSG_WAITALL/'
	mutant block scalls.c 's/return rc == -ETIMEDOUT \&\& until/return rc == 1 \&\& until/'
	mutant interrupt scalls.c 's/^		rc = -EINTR;/		rc = 0;/'
	mutant block scalls.c 's/t->t_begun = true;/;/'
	mutant block ssignal.c 's/SA_RESTART ? -ERESTART : -EINTR/SA_RESTART ? -EINTR : -EINTR/'
	mutant block ssignal.c 's/s->g_interval == 0 ? 0/true ? 0/'
	mutant interrupt ssignal.c 's/return \*at = q;/return q;/'
	mutant interrupt ssignal.c 's/^		mask_out(s, q);/		(void)q;/'
	mutant odd ssignal.c 's/q != NULL ? \&q->sm_set : \&before/\&before/'
	mutant block snames.c '/^static int poll_masked/,/^}/ s/sim_signals_handle(b) != 0/false/'
	mutant block sfile.c 's/== -ERESTART ? -EINTR : rc/== -ERESTART ? 0 : rc/'
	mutant block sflow.c 's/k->k_in.y_size > WINDOW \/ 2)/false)/'
	mutant surface stcp.c 's/^	sim_acknowledge(k);/	;/'
	mutant surface smember.c 's/--m->m_boot->b_live_nr == 0/false/'
	mutant block sunix.c 's/u->u_is_accepted || *$/false ||/'
	mutant interrupt ssignal.c 's/SIGALRM, SI_KERNEL/SIGALRM, SI_USER/'
	mutant interrupt scalls.c 's/rc == -ERESTART \&\& end != UNEVER/false/'
	mutant interrupt sepoll.c 's/return rc == -ERESTART ? -EINTR : rc;/return 0;/'
	mutant block sopen.c 's/if (before != 0 \&\& before != lock)/if (false)/'
	mutant truth sflow.c 's/k->k_fin ? EPIPE : ECONNRESET/ECONNRESET/'
	mutant truth stcp.c 's/k->k_in.y_size > 0)$/k->k_in.y_size > 9999)/'
	mutant truth stcp.c 's/(no_read && k->k_no_write)/no_read/'
	mutant truth sflow.c 's/case FIN:/case FIN: k->k_no_write = true;/'
	mutant truth sfile.c 's/f->f_inputs += bits != POLLOUT/f->f_inputs++/'
	mutant truth sepoll.c 's/t->t_events & EPOLLONESHOT/false/'
	mutant truth sfile.c 's/h->h_end + odd <= PAGE/true/'
	mutant truth sfile.c 's/return was_full \&\& p->i_nr < PAGES/return true/'
	mutant truth sflow.c 's/if (g->g_bytes > FAR || /if (false \&\& /'
	mutant truth sflow.c 's/WINDOW \* 2 \/ 3/WINDOW/'
	mutant truth sunix.c 's/had_rights = q->q_file_nr > 0/had_rights = false/'
	mutant truth sunix.c 's/unread ? ECONNRESET : v->u_error/v->u_error/'
	mutant truth sunix.c 's/v->u_no_write |= how != SHUT_WR/v->u_no_write |= false/'
	mutant truth sunix.c '/^static void forget/,/^}/ s/packet_end(u);/break;/'
	mutant odd sepoll.c 's/down > NESTS ||.*/false;/'
	mutant odd sepoll.c 's/if (op != EPOLL_CTL_MOD \&\& op != EPOLL_CTL_DEL)$/if (false)/'
	mutant odd sepoll.c 's/(\*at)->t_events \& ONLY_ONE/false/'
	mutant odd sfile.c 's/f->f_boot->b_nested > 0/false/'
	mutant odd sepoll.c 's/(t->t_events \& (EPOLLIN | EPOLLRDNORM) ||/(true ||/'
	mutant odd sepoll.c 's/if (t->t_was_ready \&\& !was_ready)/if (t->t_was_ready)/'
	mutant odd sstdio.c 's/!may(f, flags \& O_ACCMODE)/false/'
	mutant odd smachine.c 's/ \&\& is_of_all(name) ? 0 :/ \&\& false ? 0 :/'
	mutant odd sepoll.c 's/if (sim_never_waits(f))/if (false)/'
	mutant odd snfd.c 's/flags \& ~(O_NONBLOCK | O_CLOEXEC | packets | notes)/false/'
	mutant odd snfd.c 's/b->b_on_exec\[fd\] ? FD_CLOEXEC : 0/0/'
	mutant odd snfd.c 's/, command == F_DUPFD_CLOEXEC)/, false)/'
	mutant odd sfile.c 's/if (nr > SIM_FDS)/if (false)/'
	mutant odd snames.c 's/return -ESOCKTNOSUPPORT;/return -EPROTONOSUPPORT;/'
	mutant odd snames.c 's/until <= sim_now() ? 0 :/true ? 7000 :/'
	mutant odd soption.c 's/size = 2 \* (/size = (/'
	mutant odd soption.c 's/return -EDOM;/return -EINVAL;/'
	mutant odd swalk.c 's/part > SIM_PART ||/false ||/'
	mutant odd swalk.c 's/k->k_how \& STAYS ? strspn/false ? strspn/'
	mutant odd spath.c 's/replaces ? -EBUSY : -EEXIST/-EBUSY/'
	mutant odd spath.c 's/mode \& 01777/mode/'
	mutant odd spath.c 's/d->d_seen, nr = 2;/d->d_seen, nr = 1;/'
	mutant odd sopen.c 's/if (flags \& SIM_O_PATH)$/if (false)/'
	mutant odd sopen.c 's/	m->m_file.f_is_path = flags \& SIM_O_PATH;/	;/'
	mutant odd sopen.c 's/data \&\& (size_t)at >= end/false/'
	mutant odd sevent.c 's/	if (flags \& ~(TFD_TIMER_ABSTIME.*/	if (/'
	mutant odd sevent.c 's/(void)size, -ENOSPC;/(ssize_t)size;/'
	mutant odd snfile.c 's/, flags \& ~AT_REMOVEDIR)/, 0)/'
	mutant odd scalls.c 's/m->msg_iovlen > 1024/false/'
	mutant odd ssignal.c 's/!(a->sa_flags \& SA_NODEFER)/true/'
	mutant odd ssignal.c 's/info.si_pid = sim_pid(b)/info.si_pid = 1/'
	mutant odd ssignal.c 's/signo, SI_TKILL, THREAD/signo, SI_USER, THREAD/'
	mutant odd spending.c 's/info->si_signo < QUEUED/true/'
	mutant odd spending.c 's/p->p_info.si_signo < q->p_info.si_signo/true/'
	mutant truth sevent.c 's/nr > COUNT_MOST - i->i_count/nr >= COUNT_MOST - i->i_count/'
	mutant truth sevent.c 's/t->e_ticks = 0;$/;/'
	mutant truth scalls.c 's/rc > size ? MSG_TRUNC : 0/0/'
	mutant truth snames.c 's/(POLLIN | POLLHUP | POLLERR | POLLNVAL)/POLLIN/'
	mutant truth spath.c 's/i->i_is_socket ? S_IFSOCK :/false ? 0 :/'
	mutant truth spath.c 's/if (dir && has_entries(d, path))/if (false)/'
	mutant disk sdisk.c 's/a->a_number < end/a->a_number < end + 9/'
	mutant disk sdisk.c 's/next = next < old ? next : old/;/'
	mutant disk sdisk.c 's/if (at < end)$/if (false)/'
	mutant disk sdisk.c 's/(size_t)1 << sim_below(DRAW_DISK, 10)/(size_t)512/'
	mutant disk sdisk.c 's/next = (at \/ SECTOR + 1) \* SECTOR/next = end/'
	mutant disk sopen.c 's/if (m->m_inode->i_is_dir)/if (false)/'
	mutant disk sdisk.c 's/i->i_mode = i->i_mode_stored;/;/'
	mutant disk sdisk.c 's/i->i_mode_stored = (unsigned)a->a_at/(void)0/'
	mutant truth spath.c 's/\& ~b->b_umask/\& ~022/'
	mutant truth spath.c 's/!(y->y_inode->i_mode \& 0111)/false/'
	mutant disk sdisk.c 's/if (other == NULL && (fate/if ((fate/'
	mutant history uhistory.c 's/last == NULL \&\& v != 0 \&\&/v != 0 \&\&/'
	mutant history uhistory.c 's/if (e->e_is_return)/if (false)/'
	mutant history uhistory.c 's/o_return == 0 ||/o_return != 1 ||/'
	mutant history uhistory.c 's/if (\*place != 0)/if (s->s_known_nr > 3)/'
	mutant history uhistory.c 's/s->s_value = last.l_value/(void)last.l_value/'
	mutant history uhistory.c 's/ops->o_kind == UHISTORY_SWAP ||/false ||/'
	mutant disk sdisk.c 's/if (sim_below(DRAW_DISK, 2) == 0)$/if (true)/'
	mutant disk spath.c 's/if (sim_is_full(b->b_host))/if (false)/'
	mutant real sreal.c 's/(ip & ~HOSTS) == network)$/false)/'
	mutant real sreal.c 's/.folder < 0 || fchdir(.folder) != 0/false/'
	mutant real sreal.c 's/at.sin_port != 0 ||/true ||/'
	mutant real sreal.c 's/ip == INADDR_ANY || ip >> 24 == LOOPBACK >> 24/false/'
	mutant world sfile.c 's/until = sim_now() + NAP_LEAST;/return 0;/'
	mutant world stime.c 's/if (sim_calls < SIM_SPINS)/if (true)/'
	mutant world smember.c 's/if (b->b_dead)/if (false)/'
	mutant world sfault.c 's/draw \/ 4 % 4 == 1 ? 2 : 1/1/'
	mutant world snhost.c 's/return UP + .*/return SIM_EPOCH + h->h_clock + sim_now();/'
	mutant faults:drift sfault.c 's/while (sim_drifted(h, out) < ns)/while (false)/'
	mutant faults:drift ssignal.c 's/sim_after(b->b_host, sim_ns/sim_now() + (sim_ns/'
	mutant faults:drift ssignal.c 's/sim_after(b->b_host, ns)/sim_now() + ns/'
	mutant faults:drift snames.c 's/sim_after(b->b_host, ms/sim_now() + (ms/'
	mutant faults:stop sfault.c 's/if (due->f_kind == FAULT_PAUSE \&\&/if (false \&\&/'
	mutant faults:stop splan.c 's/f->f_jump = draw_jump()/f->f_jump = 0/'
	mutant faults:late usim.c 's/h->h_late > sim_now()/false/'
	mutant faults:bound sfault.c 's/(before == h->h_number) == (f->f_bound == SAME)/true/'
	mutant faults:bound sfault.c 's/next->f_from_end ? end_of(f) :/false ? 0 :/'
	mutant faults:bound sfault.c 's/sim_part(f, sum) % 4 == 0/false/'
	mutant faults:bound sfault.c 's/\&\& h->h_number != f\[-1\].f_met/\&\& true/'
	mutant damage:unread sdamage.c 's/return -EIO;/return 0;/'
	mutant damage:stale sdamage.c \
		's/p->t_data\[n\] = old_byte(i, p->t_at + n)/p->t_data[n] = 7/'
	mutant damage:astray sdamage.c 's/f->f_kind != FAULT_ASTRAY/true/'
	mutant damage:damage sdamage.c 's/^\t\t\tdamage(f, &p);/\t\t\t;/'
	mutant damage:empty sfault.c 's/h->h_disk = sim_disk_make()/(void)0/'
	mutant faults:pause sfault.c 's/end_of(h->h_paused) : 0/sim_now() + UTIME_US : 0/'
	mutant faults:narrow sfault.c 's/at = carried(from->h_narrow/at = carried(to->h_narrow/'
	mutant faults:bandwidth sfault.c 's/\*line = at +/*line = sim_now() +/'
	mutant faults:forget sflow.c 's/c->c_forgotten->f_hits++;/hit_reset(c->c_end[!from]);/'
	mutant faults:open sflow.c 's/return kind == DATA ||.*/return false;/'
	mutant faults:dial sflow.c '/^static void again/,/^}/ s/answer_lost(c);/;/'
	mutant faults:dial-reset sflow.c '/^static void hit_reset/,/^}/ s/answer_lost(c);/;/'
	mutant faults:dial-forget sflow.c 's/c->c_forgotten = NULL;/;/'
	mutant faults:swizzle sfault.c 's/(half + sim_part(f, i + 1) % half)/f->f_length/'
	mutant faults:swizzle sfault.c 's/past < (utime_ns)(sim_part(f, i) % half)/past < 0/'
	mutant faults:split ssplit.c 's/return steps > (nr/return steps >= (nr/'
	mutant faults:split ssplit.c \
		's/nr > 0 \&\& sim_part(f, DRAWN_ON/false \&\& sim_part(f, DRAWN_ON/'
	mutant faults:split ssplit.c 's/return FIRST | SECOND;/return FIRST;/'
	mutant faults:split ssplit.c 's/(from->h_is_client \&\& to->h_is_client)/false/'
	mutant faults:lost splan.c 's/i == s->s_lost_nr \&\& i == s->s_lost_most/false/'
	mutant guide sguide.c 's/w->i_at \/ UTIME_US + 1/1/'
	mutant guide sguide.c 's/\*c = w->i_course;/;/'
	mutant faults:step sstate.c 's/sim_armed_nr > 0/false/'
	mutant faults:step sudp.c \
		's/!sim_step_by(\&k->k_file, AT_SEND)/false/; s/sim_step(from, AT_SEND)/;/'
	mutant faults:slow sfault.c 's/return is_on(h->h_slow) ? ns \* SLOW : ns/return ns/'
}

# Random first seeds, so that each night tries others.
soaks() {
	for example in $examples; do
		try "$example" program plain -O1 $cc examples/sim/$example.c $example &&
			try "$example, 10000 seeds twice" "$dir/plain/$example" --seeds 10000 \
				--from $(first) --twice
	done
	while read -r example variable bugs; do
		for bug in $bugs; do
			env $variable=$bug "$dir/plain/$example" --seeds 20000 \
				--from $(first) >"$dir/log" 2>&1
			[ $? = 1 ] && grep -q '^seed .* FAILED' "$dir/log"
			judge $? "error $bug of $example" "$dir/log"
		done
	done <<-END
		ledger LEDGER_BUG 1 2 3 4 5
		tickets TICKETS_BUG 1 2 3 4
		device DEVICE_BUG 1 2 3 4
		raft RAFT_BUG 1 2 3
	END
}

first() { # a random number
	od -An -N4 -tu4 /dev/urandom | tr -d ' '
}

try 'the simulator compiles' kind plain -O1 $cc || counted
try 'hooks' objects . -O1 $cc ext/wrap/uwrap.c || counted
[ -z "$soak" ] || { soaks; counted; }
truth
odd
flags
hashes plain -O1 $cc
document
bugs ledger LEDGER_BUG '1 4'
[ -z "$some" ] || { document_end; counted; }
reals
claims plain -O1
faults plain -O1
surface plain -O1
waiting
try 'history' program plain -O1 $cc test/ext/sim/history.c history &&
	try 'history' "$dir/plain/history" $((seeds * 50))
failures
[ -n "$some" ] || shrinks
others
hostile
bugs ledger LEDGER_BUG '2 3 5'
bugs tickets TICKETS_BUG "1 ${full:+2 3 4}"
bugs device DEVICE_BUG "3 ${full:+1 2 4}"
bugs raft RAFT_BUG 2
searches
guided
looks
reals_end
document_end
[ -z "$full" ] || { builds; mutants; }
counted
