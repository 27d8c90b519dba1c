#!/bin/sh
# SPDX-License-Identifier: MIT
# why.sh: of each program of examples/why, uview and utop --why name the cause for
# which it was written, and with its cure they do not. They name what is wrong in the
# programs of test/ext/view/why, and nothing in the healthy ones, also if other programs
# take the cpus. utop --why of a process that runs says at most three lines, before the
# process has ended.
#
# A recording may itself say that the machine was late, or took cpus. Only then a
# claim that fails is tried again, with a new recording. It is skipped if that says so,
# too, of 5 % of the time or more.

cd "$(dirname "$0")/../../.." || exit 1
. test/run/layout
. test/run/count

case $(uname -s) in
Linux)	;;
*)	echo "skipped: shared memory is looked for where Linux has it"; exit 77 ;;
esac

kinds='deadlock lock hog kernel yields timers queue pingpong starved burst'
pid= crowd=
stop() {
	kill -9 $pid $crowd 2>/dev/null
	rm -f ${pid:+/dev/shm/usched.$pid}
}

# Compiles all programs, two at a time. What fails has no program, which is told below.
compile() {
	cat >"$dir/compile" <<-END
	${CC:-cc} -std=gnu11 -Wall -Wextra -Werror -O2 -g \$3 "\$1" -Wl,-u,uview_start \\
		$flags -o "$dir/\$2" >"$dir/\$2.log" 2>&1 || :
	END
	{
		for kind in $kinds; do
			echo "examples/why/$kind.c $kind -O2"
			echo "examples/why/$kind.c $kind-cured -DCURED"
		done
		for source in test/ext/view/why/*.c; do
			echo "$source $(basename "$source" .c) -O2"
		done
	} | xargs -n 3 -P 2 sh "$dir/compile"
}

# Begins to record a program, as process $pid.
start() { # program
	USCHED_VIEW=stacks,keep "$dir/$1" >"$dir/log" 2>&1 & pid=$!
}

# Ends that, and has the page and what utop says. Fails if there is no recording.
finish() { # program
	wait $pid
	ended=$? file=/dev/shm/usched.$pid
	[ $ended = 0 ] || { fail "$1 ends with $ended" "$dir/log"; return 1; }
	[ -e "$file" ] || { skip "$1 is recorded: $(cat "$dir/log")"; return 1; }
	./uview "$file" "$dir/page.html" 2>"$dir/log" && ./utop --why "$file" >"$dir/said"
	read=$?
	rm -f "$file"
	pid=
	[ $read = 0 ] || { fail "$1 is read" "$dir/log"; return 1; }
	sed -n 's/^const WHY = //p' "$dir/page.html" >"$dir/why"
}

# These look at the last recording.

was_disturbed() {
	grep -q '"kind":"machine","share"' "$dir/why"
}

was_much_disturbed() {
	grep -qE '"kind":"machine","share":(1|0\.[1-9]|0\.0[5-9])' "$dir/why"
}

# What the machine has done.
machine() {
	grep -oE 'The (machine|kernel)[^:,]*' "$dir/why" | tr '\n' ';'
}

# What utop says of a kind is what the page says, and it says at most three lines.
says() { # kind
	text=$(grep -o "{\"kind\":\"$1\",\"share\":[^}]*" "$dir/why" | head -n 1 |
		sed 's/.*"text":"//; s/",".*//; s/"$//')
	[ "$text" ] && grep -qF "$text" "$dir/said" && [ "$(wc -l <"$dir/said")" -le 3 ]
}

is_state() { # kind, state
	grep -q "\"kind\":\"$1\",\"title\":\"[^\"]*\",\"state\":\"$2\"" "$dir/why"
}

spares() { # kind
	is_state "$1" none
}

# Time without a cpu is the machine's, and of no thread.
is_of_machine() {
	spares hog && spares kernel && was_disturbed
}

nothing() {
	! grep -q '"machine":false' "$dir/why" && { was_disturbed ||
		grep -q '^Nothing ' "$dir/said"; }
}

# Records a program, and claims something of it.
claim() { # program, what, claim, kind
	[ -x "$dir/$1" ] || { fail "$1 compiles" "$dir/$1.log"; return; }
	for try in 1 2; do
		[ "$pid" ] || start "$1"
		finish "$1" || return
		! is_state "${4:-}" unknown ||
			{ skip "$1: $4 is not known of this recording"; return; }
		"$3" ${4:-} && { pass; return; }
		[ $try = 1 ] && was_disturbed || break
		echo "$1 again: $(machine)"
	done
	if [ $try = 2 ] && was_much_disturbed; then
		skip "$1: twice: $(machine)"
	else
		fail "$1: $2" "$dir/said"
	fi
}

# Asks a process while it runs, and records it.
live() { # program, word that the first line has
	[ -x "$dir/$1" ] || return
	start "$1"
	sleep 0.2
	timeout 10 ./utop --why $pid >"$dir/live" 2>&1
	said=$?
	[ -e /dev/shm/usched.$pid ] || return
	[ $said = 0 ] && kill -0 $pid && [ "$(wc -l <"$dir/live")" -le 3 ] &&
		head -n 1 "$dir/live" | grep -qw "$2"
	judge $? 'utop --why of a process that runs' "$dir/live"
}

flags=$(make -s libusched.a uview utop >/dev/null && make -s flags)
[ -x ./uview ] && [ -x ./utop ] || { echo 'no uview, or no utop'; exit 1; }
compile

for kind in $kinds; do
	claim $kind "$kind is told" says $kind
	claim $kind-cured "$kind is not told" spares $kind
done

live locks-1 connection
while read -r name kind; do
	claim $name "$kind is told" says $kind
done <<END
locks-1 lock
locks-2 kernel
pairs-1 pingpong
pairs-2 starved
queues-1 queue
queues-2 queue
timers-1 timers
timers-2 timers
yields-1 yields
yields-2 hog
END
for source in test/ext/view/why/*-healthy.c; do
	claim "$(basename "$source" .c)" 'nothing stands out' nothing
done

for i in $(seq $((2 * $(nproc)))); do
	(while :; do :; done) & crowd="$crowd $!"
done
claim pairs-healthy 'cpus that others take are told, and no thread' is_of_machine
counted
