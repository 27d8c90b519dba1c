#!/bin/sh
# SPDX-License-Identifier: MIT
# page.sh: the page of a recording (ext/view/page.html) shows in a browser what is in
# it, and what the tool has found. Sums are those of the program that has made the
# recording; clicks, keys, touch, zoom and search do what they say; names are text,
# whatever is in them; 1,280 and 400 pixels, light and dark; a picture of a million
# records looks at few of them; the console stays empty. Errors that are planted in
# the page are told. Pages of real programs show the problem that each has.
#
# PICTURES=folder leaves pictures of all screens there.

cd "$(dirname "$0")/../../.." || exit 1
. test/run/layout
. test/run/count
export LC_ALL=C.UTF-8

have python3 || { echo 'skipped: no python3'; exit 77; }
have chromium || { echo 'skipped: no chromium (package chromium)'; exit 77; }
python=
for p in python3 /usr/bin/python3; do
	$p -c 'import selenium' 2>/dev/null && python=$p && break
done
[ -x /usr/bin/chromedriver ] || python=

# Counts what page.py counts.
browse() { # what, words of page.py ...
	what=$1; shift
	timeout 480 "${python:-python3}" test/ext/view/page/page.py "$@" >"$dir/log" 2>&1
	counts=$(sed -n '$s/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$dir/log")
	if [ -z "$counts" ]; then
		fail "$what" "$dir/log"
		return
	fi
	passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))
	grep -E '^FAIL|loaded in' "$dir/log"
}

known() {
	${CC:-cc} -std=gnu11 -Wall -Wextra -O2 -Ilib/view test/ext/view/page/made.c \
		-o "$dir/made" &&
		"$dir/made" "$dir/small" 20000 0 >"$dir/small.json" &&
		"$dir/made" "$dir/large" 1200000 1 >"$dir/large.json" ||
		{ fail 'made.c makes recordings'; return; }
	if [ "$python" ]; then
		browse 'a known recording' known ext/view/page.html "$dir/small" \
			"$dir/small.json" true
		browse 'a million records' known ext/view/page.html "$dir/large" \
			"$dir/large.json" false ${PICTURES:-}
		browse 'planted errors' mutants ext/view/page.html "$dir/small" "$dir/small.json"
	else
		skip 'events of a person: no chromium-driver with python3-selenium'
		browse 'a known recording' --dump known ext/view/page.html "$dir/small" \
			"$dir/small.json" true
	fi
}

# Two threads, each of which locks a mutex and then asks for that of the other.
circle() {
	cat <<-END
	#include <usched/all.h>

	static struct umutex left, right;

	static void both(void *arg)
	{
		struct umutex *other = arg == &left ? &right : &left;

		if (umutex_lock(arg, UNEVER) == 0) {
			rr_yield();
			if (umutex_lock(other, UNEVER) == 0)
				umutex_unlock(other);
		}
	}

	int main(void)
	{
		return rr_init(1, 0) || !rr_thread_init(both, &left) ||
			!rr_thread_init(both, &right) || rr_start() || !rr_fini();
	}
	END
}

# Records a program, and looks for what there is to find.
real() { # folder, program, finding
	folder=$1; shift
	${CC:-cc} -std=gnu11 -O2 -g "$folder/$1.c" -Wl,-u,uview_start $flags -o "$dir/$1" ||
		{ fail "$1 compiles"; return; }
	USCHED_VIEW=stacks,keep "$dir/$1" >/dev/null 2>"$dir/log" & pid=$!
	wait $pid
	if [ ! -e /dev/shm/usched.$pid ]; then
		skip "$1 is recorded: $(cat "$dir/log")"
		return
	fi
	./uview $pid "$dir/$1.html" 2>"$dir/log"
	judge $? "uview writes a page of $1"
	rm -f /dev/shm/usched.$pid
	[ ! -e "$dir/$1.html" ] || browse "$1" real "$dir/$1.html" "$2" \
		${PICTURES:+"$PICTURES/$1.png"}
}

known
if [ "$python" ]; then
	flags=$(make -s libusched.a uview >/dev/null && make -s flags)
	circle >"$dir/circle.c"
	real "$dir" circle deadlock
	real examples shop lock
	real examples office hog
	real examples depot burst
	real examples kitchen none
fi
counted
