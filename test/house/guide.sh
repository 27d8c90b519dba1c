#!/bin/sh
# SPDX-License-Identifier: MIT
# guide.sh: each program of guide.md, waits.md and servers.md in doc compiles by
# the command that stands there, and prints what stands there. So it does without
# optimisation, with the portable switch, and in the hard mode, and compiles
# without a warning.
#
#	test/house/guide.sh [--text]		--text: only by the commands of the text
#
# CC and CXX are the compilers, CFLAGS are more options for them.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
. test/run/blocks

unset MAKEFLAGS USCHED_DEBUG
ulimit -c 0
warn="-std=gnu11 -g -Wall -Wextra -Werror $includes"

main() {
	mkdir "$dir/copy" "$dir/programs" "$dir/steps" && tools "$dir/tools" ||
		exit 1
	for text in guide waits servers; do
		mkdir "$dir/steps/$text" && blocks_save "doc/$text.md" \
			"$dir/programs" "$dir/steps/$text" || exit 1
	done
	cp -r Makefile sources ./*.[ch] core lib ext include \
		examples "$dir"/programs/* "$dir/copy" || exit 1
	libraries
	for text in guide waits servers; do
		n=0
		while [ -e "$dir/steps/$text/$((n += 1)).sh" ]; do
			has_libraries "$dir/steps/$text/$n.sh" || continue
			try "$text, step $n" apart step "$dir/steps/$text/$n"
		done
	done
	[ "${1:-}" != --text ] || counted
	for mode in '-O0' '-O2 -DUSCHED_PORTABLE' '-O1 -DUSCHED_HARD'; do
		try "library, $mode" apart library "$mode" || continue
		for program in "$dir"/programs/*.c; do
			try "${program##*/}, $mode" apart again "$mode"
		done
	done
	counted
}

# Runs each make of the texts once, until one fails: that is one failure, with its
# cause. Steps are left out that need what has not been made.
libraries() {
	cat "$dir"/steps/*/*.sh | grep '^make ' | sort -u >"$dir/makes"
	while read -r line; do
		echo "$line" >"$dir/one"
		try "$line" apart in_copy "$dir/one" || break
	done <"$dir/makes"
}

has_libraries() { # file with commands
	for lib in $(grep -o 'lib[a-z_-]*\.a' "$1"); do
		[ -e "$dir/copy/$lib" ] || return 1
	done
}

in_copy() { # file with commands
	(cd "$dir/copy" && PATH=$dir/tools:$PATH run_commands "$1" </dev/null)
}

# The commands of a step, in a copy of the tree, print what the text says.
step() { # path, without .sh
	cat "$1.sh"
	possible "$1.sh" || exit 77
	in_copy "$1.sh" >"$dir/got" 2>&1
	same $? "$1.out"
}

# Says what is missing.
possible() { # file with commands
	case $(cat "$1") in
	*c++*)		[ "${CC#*musl}" = "$CC" ] && have "${CXX:-c++}" && return
			echo "no C++ compiler for ${CC:-cc} (package g++)";;
	*-fopenmp*)	echo 'int main(void) { return 0; }' >"$dir/empty.c"
			${CC:-cc} -fopenmp "$dir/empty.c" -o "$dir/empty" \
				2>/dev/null && "$dir/empty" && return
			echo "${CC:-cc} has no -fopenmp (packages gcc, libomp-dev)" ;;
	*-fsanitize*)	echo 'int main(void) { return 0; }' >"$dir/empty.c"
			${CC:-cc} -fsanitize=address "$dir/empty.c" \
				-o "$dir/empty" 2>/dev/null && "$dir/empty" &&
				return
			echo "${CC:-cc} has no -fsanitize=address (packages gcc," \
				"libclang-rt-14-dev)";;
	*)		return;;
	esac
	return 1
}

# A program that the hard mode ends has a message, at addresses of its own.
same() { # exit status, expected
	[ -e "$2" ] || { cat "$dir/got"; return $1; }
	grep -q '^usched: ' "$2" || {
		diff "$2" "$dir/got" && return $1
		return 1
	}
	words "$2" >"$dir/expected"
	[ $1 != 0 ] && words "$dir/got" | diff "$dir/expected" -
}

words() { # without backtraces and times, too
	sed '/Aborted/d; /^	/d; s/0x[0-9a-f]*/0x/g; s/[0-9]* ms$/ms/' "$1" |
		tr -s ' \n' '\n'
}

# The library for "again".
library() { # flags
	rm -rf "$dir/objects" && mkdir "$dir/objects" || exit 1
	for source in $(cat sources); do
		${CC:-cc} $warn $1 $CFLAGS -c "$source" \
			-o "$dir/objects/$(basename "$source" .c).o" || exit 1
	done
}

# A program of the text, compiled in another way, prints the same.
again() { # flags
	expected=$(expected_of "${program##*/}") || exit 1
	! grep -q '^usched: ' "$expected" || exit 0
	possible "${expected%.out}.sh" || exit 77
	openmp=$(grep -o -e '-fopenmp' "${expected%.out}.sh")
	${CC:-cc} $warn $1 $openmp $CFLAGS "$program" "$dir"/objects/*.o \
		-o "$dir/program" -pthread || exit 1
	(cd "$dir/programs" && USCHED_DEBUG=evict=always,poison timeout 60 \
		"$dir/program") >"$dir/printed" 2>&1
	status=$?
	order=cat
	! grep -q '| sort$' "${expected%.out}.sh" || order=sort
	$order "$dir/printed" >"$dir/got"
	same $status "$expected"
}

# Prints the file with what the program prints; fails if no command runs it.
expected_of() { # program
	found=$(grep -lw -- "$1" "$dir"/steps/*/*.sh | head -n 1)
	[ -e "${found%.sh}.out" ] && echo "${found%.sh}.out" && return
	echo "$1: no command, or no output, stands in the text" >&2
	return 1
}

main "$@"
