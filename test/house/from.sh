#!/bin/sh
# SPDX-License-Identifier: MIT
# from.sh: doc/from-*.md have the same program twice. Both compile without a
# warning by the commands that stand there, and print what stands there; ours
# also for rr, ll and ws, and in the hard mode. Functions that the tables name
# are in doc/api.md. A wrong output is found.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
. test/run/blocks
unset MAKEFLAGS USCHED USCHED_DEBUG

# What a command needs that is not here, with its package.
missing() { # command
	case $1 in
	go*)	have go || echo 'no go (package golang-go)' ;;
	*-luv*)	echo '#include <uv.h>' | ${CC:-cc} -E - >/dev/null 2>&1 ||
			echo 'no libuv (package libuv1-dev)' ;;
	esac
}

prints() { # command
	(cd "$dir/$text" && PATH=$dir/tools:$PATH GOCACHE=$dir/go timeout 300 \
		sh -c "$1") >"$dir/got" 2>&1
	diff "$dir/steps/1.out" "$dir/got"
}

page() { # text
	text=$1
	rm -rf "$dir/steps" && mkdir "$dir/$text" "$dir/steps" &&
	ln -s "$PWD/include" "$PWD/libusched.a" "$dir/$text" &&
	blocks_save "doc/$text.md" "$dir/$text" "$dir/steps" || exit 1
	try "$text: two commands" [ "$(wc -l <"$dir/steps/1.sh")" = 2 ]
	while read -r command; do
		why=$(missing "$command")
		if [ "$why" ]; then
			skip "$text: $command: $why"
		else
			try "$text: $command" apart prints "$command"
		fi
	done <"$dir/steps/1.sh"
	ours
}

# The last program is ours, and its name stands in the second command.
ours() {
	program=$(sed -n '2s/.* \([a-z]*\.c\) .*/\1/p' "$dir/steps/1.sh")
	try "$program: warnings" silent ${CC:-cc} -O2 -Wall -Wextra -Werror -Iinclude \
		-fsyntax-only "$dir/$text/$program"
	for sched in rr ll ws:2; do
		try "$program, $sched" apart env USCHED=$sched sh -c \
			"cd '$dir/$text' && timeout 60 ./a | diff '$dir/steps/1.out' -"
	done
	try "$program, hard" ${CC:-cc} -O1 -DUSCHED_HARD -Iinclude \
		"$dir/$text/$program" "$hard" -pthread -o "$dir/hard"
	try "$program, hard" apart env USCHED_DEBUG=evict=always,poison,fault sh -c \
		"timeout 60 '$dir/hard' | diff '$dir/steps/1.out' -"
}

named() { # text
	grep '^|' "doc/$1.md" | cut -d'|' -f3 | grep -oE '\<u[a-z_]*\(' | sort -u |
		while read -r name; do
			grep -qF "$name" doc/api.md || echo "$1: $name"
		done
}

tools "$dir/tools" && ${MAKE:-make} -s libusched.a libusched-debug.a \
	CC="${CC:-cc}" >"$dir/log" 2>&1 || { fail 'the library' "$dir/log"; counted; }
hard=$PWD/libusched-debug.a
for name in pthreads go libuv; do
	page from-$name
	empty "functions of from-$name.md" "$(named from-$name)"
done
echo 'wrong' >"$dir/steps/1.out"
(prints ./a) >/dev/null && fail 'not seen: a wrong output' || pass
counted
