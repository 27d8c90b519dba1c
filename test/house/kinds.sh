#!/bin/sh
# SPDX-License-Identifier: MIT
# kinds.sh: files of another kind than the library do not link with it, and the
# linker says what to do. --some: one compiler and a few headers.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

headers='usched rr ws userve uengine' compilers='gcc clang'
[ "$1" != --some ] || headers=rr compilers=${CC:-cc}

must() { # what, command ...
	what=$1; shift
	try "$what: $*" silent "$@"
}

flag() { [ "$1" = - ] || echo "$1"; }

# A file that includes a header, whatever else it does, links with a library of
# its kind only, and the linker says what to do.
kind() { # of the library, of the file: - for no flag
	words="or_compile_this_file_with_it"
	[ "$2" = - ] || words="or_compile_this_file_without_it"
	for more in -O1 "-O2 -flto" \
			"-O2 -ffunction-sections -fdata-sections -Wl,--gc-sections"; do
		if $cc $includes $more $(flag $2) "$dir/main.c" "$dir/$1.o" \
		    "$dir/stubs.o" -o "$dir/main" >"$dir/log" 2>&1; then
			[ "$1" = "$2" ] && "$dir/main"
		else
			[ "$1" != "$2" ] && grep -q "$words" "$dir/log"
		fi
		judge $? "$cc $h $more: library $1, file $2" "$dir/log"
	done
}

kinds='- -DUSCHED_HARD -DUSCHED_SINGLE'
program() { # that includes $h.h
	printf '#include "%s.h"\nint main(void) { return 0; }\n' $h >"$dir/main.c"
}

# The switch is a kind for modules that read slices, and for no other file.
switches_hold() {
	h=uslice && program
	for k in - -DUSCHED_PORTABLE; do kind $k $k; done
	kind - -DUSCHED_PORTABLE
	kind -DUSCHED_PORTABLE -
	h=usched && program
	must "$h: portable" $cc $includes "$dir/main.c" \
		"$dir/-DUSCHED_PORTABLE.o" -o "$dir/main"
}

kinds_hold() {
	nm "$dir/-DUSCHED_HARD.o" | sed -n 's/^ *U \(uhard_.*\)/int \1;/p' \
		>"$dir/stubs.c"
	must stubs $cc -c "$dir/stubs.c" -o "$dir/stubs.o"
	for h in $headers; do
		program
		for k in $kinds; do
			kind $k $k
			[ $k = - ] || { kind - $k; kind $k -; }
		done
	done
}
for cc in $compilers; do
	have $cc || continue
	for k in $kinds -DUSCHED_PORTABLE; do
		must "$k" $cc $includes $(flag $k) -c usched.c -o "$dir/$k.o"
	done
	kinds_hold
	switches_hold
done
counted
