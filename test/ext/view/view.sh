#!/bin/sh
# SPDX-License-Identifier: MIT
# view.sh: USCHED_VIEW in the environment records a program that knows nothing
# of it; uview and utop read the file while the program runs, is stopped, was
# killed, or is in a container. The file belongs to its user alone, follows no
# link, and is gone after exit(). Where there is no space the program says so in
# a line, and runs as without. Damaged files end in a sentence. With a recorder a
# random program, and a scheduler of a user, do what they did without.

cd "$(dirname "$0")/../../.." || exit 1
. test/run/layout
. test/run/count

case $(uname -s) in
Linux)	;;
*)	echo "skipped: shared memory is looked for where Linux has it"; exit 77;;
esac
cc=${CC:-cc}
running=
stop() {
	[ -z "$running" ] || kill -9 $running 2>/dev/null
	for file in /dev/shm/usched.*; do
		case " $seen " in
		*" ${file##*.} "*) rm -f "$file" ;;
		esac
	done
}
seen=

cat >"$dir/work.c" <<'END'
#include "ws.h"
#include "ucall.h"
#include "usync.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct umutex lock_all;
static int turns;

static void outside(void *arg)
{
	(void)arg;
	usleep(100);
}

static void worker(void *arg)
{
	int i;

	for (i = 0; turns == 0 || i < turns; i++) {
		if (umutex_lock(&lock_all, UNEVER) != 0)
			abort();
		(void)u_sleep(uafter((rand() % 100) * UTIME_US));
		umutex_unlock(&lock_all);
		if (i % 50 == 7 && ucall(outside, arg) != 0)
			abort();
	}
}

static void sleeper(void *arg)
{
	(void)arg;
	(void)ws_wait();
}

static void late(void *arg)
{
	(void)u_sleep(uafter((long)arg * UTIME_S));
}

int main(int argc, char **argv)
{
	int i, sleepers = argc > 2 ? atoi(argv[2]) : 0;

	turns = argc > 1 ? atoi(argv[1]) : 0;
	if (ws_init(2, 0) != 0)
		return 1;
	for (i = 0; i < 8; i++)
		if (ws_thread_init(worker, NULL) == NULL)
			return 1;
	for (i = 0; i < sleepers; i++)
		if (ws_thread_init(sleeper, NULL) == NULL)
			return 1;
	if (argc > 3 && ws_thread_init(late, (void *)atol(argv[3])) == NULL)
		return 1;
	if (ws_start() != 0 || ws_fini() != (sleepers ? -35 : 0))
		return 1;
	printf("done\n");
	return 0;
}
END

flags="-std=gnu11 -g -O1 -Wall -Wextra $includes"
library=
for m in $modules; do
	library="$library $(where $m.c)"
done

# The library once; the tools also with a sanitizer, if there is one.
{
	echo 'const unsigned char page_html[] = "a const DATA = \"\"; const WHY = null;";'
	echo 'const unsigned long page_size = sizeof page_html - 1;'
} >"$dir/page.c"
cat >"$dir/objects" <<END
for file; do
	$cc $flags -c "\$file" -o "$dir/\$(basename "\$file" .c).o" || exit 255
done
END
printf '%s\n' usched.c $library | xargs -n 8 -P 2 sh "$dir/objects" \
	>"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
objects=
for m in usched $modules; do
	objects="$objects $dir/$m.o"
done
rm -f "$dir/lib.a"
ar rcs "$dir/lib.a" $objects || exit 1
$cc $flags -o "$dir/work" "$dir/work.c" "$dir/lib.a" -Wl,-u,uview_start \
	-pthread || exit 1
readers=$(ls ext/view/[!u]*.c)
tools() { # suffix, flags
	for tool in uview utop; do
		$cc $flags $2 -o "$dir/$tool$1" ext/view/${tool}_main.c \
			$readers "$dir/page.c" $3 \
			-pthread || return
	done
}
tools '' '' "$dir/lib.a" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
hard=
echo 'int main(void) { return 0; }' >"$dir/try.c"
if $cc -fsanitize=address,undefined "$dir/try.c" -o "$dir/try" 2>/dev/null &&
   "$dir/try"; then
	hard=-san
	tools -san '-fsanitize=address,undefined -fno-sanitize-recover=all
		-DUSCHED_SANITIZE_ANYWAY' 'lib/view/vcopy.c usched.c' \
		>"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
fi

if ! USCHED_VIEW=stacks,keep "$dir/work" 20 >"$dir/out" 2>"$dir/err" ||
   [ -s "$dir/err" ]; then
	cat "$dir/err"
	echo "skipped: no recorder in /dev/shm"
	exit 77
fi

# begin VIEW NAME ARGUMENT ...: runs it in the background, as $pid.
begin() {
	view=$1; shift
	USCHED_VIEW=$view "$@" >"$dir/out" 2>"$dir/err" &
	pid=$!
	running="$running $pid" seen="$seen $pid"
	i=0
	while [ ! -e "/dev/shm/usched.$pid" ] && [ $i -lt 100 ]; do
		sleep 0.05; i=$((i + 1))
	done
	sleep 0.3
}

end() {
	kill -9 $pid 2>/dev/null
	wait $pid 2>/dev/null
}

has() { # text, file
	grep -q "$1" "$2" || { echo "no $1 in:"; head -n 20 "$2"; return 1; }
}

# The JSON parses, and as Perfetto reads it no slice is dropped, each arrow has a
# slice at both ends, and each name its own thread (ext/view/out.c has the rules).
nests() { # file
	have python3 || return 0
	python3 - "$1" <<'END'
import collections, json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
begun = collections.defaultdict(list)
starts, ends, track = set(), set(), {}
def ns(us):
    return int(us * 1000)                   # cut, not rounded
def at(e):
    stack = begun[e["pid"], e["tid"]]
    while stack and stack[-1] <= ns(e["ts"]):
        stack.pop()
    return stack
for e in events:
    assert track.setdefault(e["tid"], e["pid"]) == e["pid"], e
    assert e["tid"] not in (1, 2) and e["pid"] in (1, 2), e
for e in sorted((e for e in events if e["ph"] in "Xsf"), key=lambda e: ns(e["ts"])):
    stack = at(e)
    if e["ph"] == "X":
        end = ns(e["ts"]) + ns(e["dur"])
        assert not stack or end <= stack[-1], e
        stack.append(end)
    elif e["ph"] == "s":
        assert e["id"] not in starts and stack, e
        starts.add(e["id"])
    else:
        assert e["bp"] == "e" and e["id"] not in ends and stack, e
        ends.add(e["id"])
assert starts == ends and len(starts) > 10
names = {e["name"] for e in events if e["ph"] == "X"}
assert {"worker", "runs", "mutex lock_all", "sleep"} <= names, names
END
}

read_it() { # PID or file
	"$dir/uview" --json "$1" "$dir/j" 2>"$dir/said" &&
	has 'records of' "$dir/said" && nests "$dir/j" &&
	"$dir/uview" --folded "$1" - >"$dir/f" &&
	has '^worker;.*\[mutex lock_all\] [0-9]*$' "$dir/f" &&
	"$dir/uview" "$1" "$dir/h" 2>/dev/null &&
	has 'const DATA = "VVNWSUVXMDI' "$dir/h" &&
	"$dir/utop" -s -n 1 "$1" >"$dir/t" && has ' runs_s [0-9]' "$dir/t" &&
	has 'top mutex:lock_all ' "$dir/t" &&
	"$dir/utop" -n 1 "$1" >"$dir/t" && has '^worker ' "$dir/t"
}

# Samples as of perf: in five runs, elsewhere, and after all that is recorded.
joined() { # JSON of a recording
	have python3 || return 77
	python3 - "$1" >"$dir/samples" <<'END'
import json, re, sys
recording = json.load(open(sys.argv[1]))
zero = recording["otherData"]["zero, ns of CLOCK_MONOTONIC"]
events = recording["traceEvents"]
native = {e["tid"]: re.match(r"\d+: native thread (\d+)", e["args"]["name"])[1]
          for e in events if e["name"] == "thread_name" and e["pid"] == 1}
def sample(native, ns):
    print("%s  %d.%09d: \n\t 55d0 inside\n\t 55d1 worker\n\t 55d2 below\n" %
          (native, ns // 10 ** 9, ns % 10 ** 9))
runs = [e for e in events if e["ph"] == "X" and e["pid"] == 1 and
        e["name"] == "worker" and e["dur"] > 0.01]
for e in runs[:5]:
    sample(native[e["tid"]], zero + int((e["ts"] + e["dur"] / 2) * 1000))
sample(1, zero + 1000)
sample(native[runs[0]["tid"]], zero + 10 ** 12)
END
	python3 ext/view/uview-perf.py "$1" <"$dir/samples" >"$dir/cpu" &&
	has '^worker;inside 5$' "$dir/cpu" &&
	has '^\[native thread\];below;worker;inside 1$' "$dir/cpu" &&
	has '^\[not recorded\];below;worker;inside 1$' "$dir/cpu" &&
	[ "$(wc -l <"$dir/cpu")" = 3 ]
}

begin stacks "$dir/work" 0 100
try 'a program that runs' read_it $pid
try 'samples of perf' joined "$dir/j"
try 'threads that the ring does not know' has '^sleeper.*\[wake\]' "$dir/f"
try 'mode 0600' [ "$(stat -c %a /dev/shm/usched.$pid)" = 600 ]
"$dir/uview" -l >"$dir/l"
try 'uview -l' has "^$pid *runs .* work\$" "$dir/l"
kill -STOP $pid
try 'a stopped program' read_it $pid
kill -CONT $pid
end
try 'a killed program' read_it $pid
"$dir/uview" -l >"$dir/l"
try 'uview -l, killed' has "^$pid *ended " "$dir/l"
cp "/dev/shm/usched.$pid" "$dir/killed"
"$dir/uview" -c >"$dir/l"
try 'uview -c' [ ! -e "/dev/shm/usched.$pid" ]
try 'a file elsewhere' read_it "$dir/killed"

USCHED_VIEW=1 "$dir/work" 20 >"$dir/out" 2>&1 & pid=$!
wait $pid
try 'gone after exit()' [ ! -e "/dev/shm/usched.$pid" ]
USCHED_VIEW=keep "$dir/work" 20 >"$dir/out" 2>&1 & pid=$!
seen="$seen $pid"
wait $pid
try 'kept if asked' "$dir/uview" --folded $pid "$dir/f"
USCHED_VIEW=0 "$dir/work" 20 >"$dir/out" 2>&1
try 'off' [ "$(cat "$dir/out")" = done ]

# A reader is answered while all processors sleep.
begin 1 "$dir/work" 1 10 1000
census() { od -An -tu4 -j76 -N4 "/dev/shm/usched.$pid"; }
was=$(census)
"$dir/uview" --folded $pid "$dir/f" 2>/dev/null
try 'a census while all sleep' [ "$was" != "$(census)" ]
end

# Threads that wait for ever are in the census of the end.
begin keep "$dir/work" 20 30
wait $pid
"$dir/uview" --folded $pid - >"$dir/f" 2>/dev/null
try 'stuck' has '^sleeper;*\[wake\]' "$dir/f"

# Threads that wait for each other's mutexes, beside one that waits for theirs.
cat >"$dir/dead.c" <<'END'
#include "rr.h"
#include "usync.h"
#include <stdio.h>
#include <stdlib.h>

struct umutex mutex[6];
static int nr, closed;

static void member(void *arg)
{
	struct umutex *m = arg;
	long i = m - mutex;

	if (i < nr && umutex_lock(m, UNEVER) != 0)
		abort();
	if (i < nr)
		(void)rr_yield();
	if (i != nr - 1 || closed)
		(void)!umutex_lock(&mutex[i < nr ? (i + 1) % nr : 0], UNEVER);
	else
		(void)u_sleep(UNEVER);
}

static void sleeper(void *arg)
{
	(void)arg;
	(void)u_sleep(uafter(50 * UTIME_MS));
	puts("dead");
	fflush(stdout);
	(void)u_sleep(uafter(600 * UTIME_S));
}

int main(int argc, char **argv)
{
	int i;

	nr     = atoi(argv[1]);
	closed = argc > 2;
	if (rr_init(1, 0) != 0)
		return 1;
	for (i = 0; i <= nr; i++)
		if (rr_thread_init(member, &mutex[i]) == NULL)
			return 1;
	return rr_thread_init(sleeper, NULL) == NULL || rr_start() || rr_fini();
}
END
$cc $flags -o "$dir/dead" "$dir/dead.c" "$dir/lib.a" -Wl,-u,uview_start \
	-pthread || exit 1
dead() { # threads of the cycle
	n=0
	until grep -q dead "$dir/out" || [ $((n += 1)) -gt 300 ]; do
		sleep 0.1
	done
	"$dir/utop" -s -n 1 $pid >"$dir/t" && has " dead_lock $1\$" "$dir/t" &&
	"$dir/utop" -n 1 $pid >"$dir/t" &&
	[ "$(grep -c '^DEAD LOCK' "$dir/t")" = $(($1 > 0)) ] &&
	[ "$(grep -c '^  0x[0-9a-f]* member waits for the mutex mutex.*, which 0x' \
		"$dir/t")" = "$1" ]
}
for turn in '2 closed' '5 closed' 5; do
	: >"$dir/out"
	begin 1 "$dir/dead" $turn
	case $turn in
	*closed) try "dead lock $turn" dead "${turn% *}" ;;
	*) try "no dead lock" dead 0 ;;
	esac
	end
done

# Sentences, and no files.
for what in 999999999 "$dir/nothing" "$dir" "$dir/work.c" /dev/null; do
	"$dir/uview" "$what" "$dir/none" >"$dir/out" 2>&1
	try "uview $what" [ $? = 1 -a "$(wc -l <"$dir/out")" = 1 ]
done
ln -s "$dir/killed" "$dir/link"
"$dir/uview" "$dir/link" "$dir/none" >"$dir/out" 2>&1
try 'no link is followed' [ $? = 1 ]

# Damaged files: each byte of the header, and random ones, by the tools.
damage() {
	have python3 || return 77
	python3 - "$dir/killed" "$dir" "$dir/uview$hard" "$dir/utop$hard" <<'END'
import random, subprocess, sys
whole = open(sys.argv[1], "rb").read()
random.seed(int(sys.argv[5]) if len(sys.argv) > 5 else 1)
name = sys.argv[2] + "/bad"
for i in range(60):
    bad = bytearray(whole[:random.choice((len(whole), len(whole), 5000, 300000))])
    for k in range(random.randint(1, 6)):
        at = random.choice((random.randrange(len(bad)), random.randrange(4096),
                            random.randrange(80, 360), 4096 + random.randrange(400),
                            random.choice((40, 48, 4096 + 56, 4096 + 64))))	# clocks
        if at + 8 <= len(bad):
            bad[at:at + 8] = random.choice((b"\xff" * 8, b"\0" * 8,
                                            b"\0" * 7 + b"\x80",
                                            random.randbytes(8)))
    open(name, "wb").write(bad)
    for command in (sys.argv[3:4] + ["--json", name, "/dev/null"],
                    sys.argv[3:4] + ["--folded", name, "/dev/null"],
                    sys.argv[3:4] + [name, "/dev/null"],
                    sys.argv[4:5] + ["-n", "1", name]):
        done = subprocess.run(command, capture_output=True, timeout=60)
        assert done.returncode in (0, 1), (i, command, done)
        assert done.returncode == 0 or done.stderr.count(b"\n") == 1, done
END
}
try "damaged files$hard" damage

# No space: a small file system in a mount namespace.
small() { # size, words
	unshare -m sh -c 'mount -t tmpfs -o size='"$1"' tmpfs /dev/shm &&
		USCHED_VIEW='"$2"' "$0" 20' "$dir/work" >"$dir/out" 2>"$dir/err" &&
	has '^done$' "$dir/out" && has "$3" "$dir/err" &&
	[ "$(wc -l <"$dir/err")" = 1 ]
}
if unshare -m sh -c 'mount -t tmpfs tmpfs /dev/shm' 2>/dev/null; then
	try 'no space for the file' small 1m stacks 'there is no recorder'
	try 'no space for a ring' small 1420k 20 'no space for records'
	# The numbers of processes begin anew, so the name can be foretold.
	linked() {
		echo precious >"$dir/victim"
		unshare -mpf --mount-proc sh -c 'mount -t tmpfs tmpfs /dev/shm &&
			for i in $(seq 60); do
				ln -s "$1" /dev/shm/usched.$i
			done; USCHED_VIEW=keep "$0" 20; cat /dev/shm/usched.* |
			wc -c' "$dir/work" "$dir/victim" >"$dir/out" 2>"$dir/err"
		[ "$(cat "$dir/victim")" = precious ] && has '^done' "$dir/out"
	}
	try 'a link in the way' linked
	contained() {
		unshare -mpf --mount-proc sh -c 'mount -t tmpfs tmpfs /dev/shm &&
			USCHED_VIEW=stacks exec "$0" 0 10' "$dir/work" &
		outer=$!
		running="$running $outer"
		sleep 1
		pid=$(cat /proc/$outer/task/$outer/children)
		pid=${pid%% *}
		running="$running $pid"
		[ -n "$pid" ] && [ ! -e "/dev/shm/usched.$pid" ] && read_it "$pid"
		status=$?
		kill -9 $pid
		return $status
	}
	try 'in another PID namespace' contained
else
	skip 'small file systems, namespaces: unshare is not permitted'
fi

# secure_getenv(): a program with more rights than its caller has no recorder.
if [ "$(id -u)" = 0 ] && cp "$dir/work" "$dir/set" && chmod 755 "$dir" &&
		chown 65534 "$dir/set" && chmod 4755 "$dir/set"; then
	USCHED_VIEW=keep "$dir/set" 5 >"$dir/out" 2>&1 & pid=$!
	wait $pid
	try 'setuid' [ ! -e "/dev/shm/usched.$pid" ]
else
	skip 'setuid: not root'
fi

# Off: neither a switch nor a wake here knows of recorders, and a program with a
# recorder in it runs as many instructions for 80,000 switches. Schedulers look by
# time, so the program has a clock that goes by its reads.
knows() {
	for module in usched rr ll; do
		! objdump -r "$dir/$module.o" | grep -E 'watch|uview|uchain' ||
			return 1
	done
	objdump -dr "$dir/ws.o" | awk '
	/^[0-9a-f]+ </ { on = /<(ws_wake|ws_wait|next|quick)>:/; seen += on }
	on && /_watch/ { print; bad = 1 }
	END { exit bad || seen < 3 }'
}
counts() { # program: instructions of 80,000 switches
	for turns in 20000 40000; do
		valgrind --tool=cachegrind --cache-sim=no \
			--cachegrind-out-file=/dev/null "$1" 4 1 $turns 0 1 2>&1 |
			sed -n 's/.*I *refs: *//p' | tr -d ,
	done | awk 'NR == 1 { first = $1 } END { print $1 - first }'
}
same() {
	set -- "$1" "$dir/clock.c" "$dir/lib.a" -Wl,--wrap=clock_gettime -pthread -lm
	$cc $flags -o "$dir/with" "$@" -Wl,-u,uview_start &&
	$cc $flags -o "$dir/without" "$@" || return
	! nm "$dir/without" | grep -q uview_start || return
	for try in 1 2 3; do		# a native thread may wait for another in a loop
		with=$(counts "$dir/with") without=$(counts "$dir/without")
		echo "$with $without"
		[ "$with" -gt 1000000 ] && [ $((with - without)) -lt 1000 ] &&
			[ $((without - with)) -lt 1000 ] && return
	done
	return 1
}
if have objdump; then
	try 'switches and wakes do not know' knows
fi
if have valgrind; then
	cat >"$dir/clock.c" <<-'END'
	#include <time.h>
	int __wrap_clock_gettime(clockid_t id, struct timespec *now);
	int __wrap_clock_gettime(clockid_t id, struct timespec *now)
	{
		static long us;

		(void)id;
		us = __atomic_add_fetch(&us, 1, __ATOMIC_RELAXED);
		now->tv_sec = us / 1000000;
		now->tv_nsec = us % 1000000 * 1000;
		return 0;
	}
	END
	for program in rmain.c lmain.c bench/wmain.c; do
		try "instructions of $program" same $program
	done
else
	skip 'instructions: no valgrind'
fi

# Random programs over all schedulers.
storm() {
	CC=$cc CHAOS_SECONDS=8 CHAOS_BUILDS=plain CHAOS_VIEW=stacks \
		sh test/whole/chaos.sh >"$dir/log" 2>&1
}
try 'chaos with a recorder' storm
counted
