#!/bin/sh
# SPDX-License-Identifier: MIT
# layers.sh: includes and calls point one way: core, waits, processors,
# schedulers and modules, programs. The top level holds the files that a newcomer
# looks for, and folders. Each folder has a README that says what the folder is.
# Links between texts lead to files. Planted includes and calls upwards are found.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

# One order, for includes and for linked calls. Each line has a folder, or a file at the
# top, and which of those above it may use. Parts of core/ are included by usched.[ch] only.
floors() {
	sed 's/[	 ]\{1,\}/ /g' <<-EOF
	usched.h core
	core	usched.h
	lib/base	usched.h
	lib/wait	usched.h lib/base
	lib/proc	usched.h lib/base lib/wait
	rr.h	usched.h lib/base lib/wait lib/proc
	ll.h	usched.h lib/base lib/wait lib/proc
	lib/steal	usched.h lib/base lib/wait lib/proc
	lib/io	usched.h lib/base lib/wait lib/proc
	lib/debug	usched.h lib/base lib/wait lib/proc
	lib/view	usched.h lib/base lib/wait lib/proc lib/debug
	lib/engine	usched.h lib/base lib/wait lib/proc lib/steal lib/debug
	lib/start	usched.h lib/base lib/wait lib/proc rr.h ll.h lib/steal lib/debug
	ext/cxx	usched.h lib/wait
	include	usched.h lib/base lib/wait lib/proc rr.h ll.h lib/steal lib/io lib/engine \
		lib/debug lib/start ext/cxx
	ext/view	lib/base lib/view
	ext/wrap	usched.h lib/base lib/wait lib/proc lib/io
	ext/posix	usched.h lib/base lib/wait lib/proc lib/start
	ext/sim	usched.h lib/base lib/wait lib/proc rr.h lib/io
	ext/mpi	usched.h lib/base lib/wait lib/proc
	ext/move	usched.h lib/base lib/wait lib/proc lib/debug
	ext/python	usched.h lib/base lib/wait lib/engine
	bench	usched.h lib/base lib/wait lib/proc rr.h ll.h lib/steal lib/debug lib/start \
		ext/move ext/cxx
	rmain.h	rr.h bench
	lmain.h	ll.h bench
	wmain.h	bench
	EOF
}

# Prints the layer of a file: its folder, or for one at the top the header of its name.
layer() {
	case $1 in
	core/*)			echo core ;;
	include/usched/all.*)	echo include ;;
	*/*)			echo "${1%/*}" ;;
	*)			echo "${1%.c}" | sed 's/\(\.h\)*$/.h/' ;;
	esac
}

# Prints each line of floors() that uses one which does not stand above it.
unordered() {
	awk '{
		seen[$1]
		for (i = 2; i <= NF; i++)
			if (!($i in seen) && $i != "core")
				print $1 " uses " $i
	}'
}

# Prints each include of a file of the tree $1 that points outside of its floor.
upwards() {
	floors >"$dir/floors"
	grep -E '\.([ch]|hpp|cc)$' "$dir/files" | while read -r file; do
		below=$(grep "^$(layer "$file") " "$dir/floors") || continue
		sed -n 's/^[ 	]*#[ 	]*include "\(.*\)".*/\1/p' "$1/$file" |
		while read -r header; do
			header=${header##*../} header=${header#private/}
			path=$(grep -E "^([a-z]+/){0,2}$header\$" "$dir/files")
			case " $below " in
			*" $(layer "$path") "*)	;;
			*)	echo "$file includes ${path:-$header}" ;;
			esac
		done
	done
}

# Prints declarations of static functions, which are defined further down.
declared() { # files
	awk '
	/^static / { head = "" }
	/^static / || head != "" {
		head = head $0
		if ($0 ~ /[{=]/)
			head = ""
		else if ($0 ~ /;$/) {
			if (head ~ /\);$/)
				print FILENAME ": " head
			head = ""
		}
	}' "$@"
}

files >"$dir/files"
empty 'floors that use what is above them' "$(floors | unordered)"
[ "$(echo 'a b' | unordered)" = 'a uses b' ] ||
	empty 'planted floor' 'it is not seen'
empty 'includes point upwards' "$(upwards .)"
empty 'calls in ws.c and its parts point upwards' "$(declared lib/steal/*.[ch])"
empty 'files at the top' "$(grep -v / "$dir/files" | grep -vxE \
	'usched\.[ch]|(rr|ll)\.[ch]|[rl]main\.c|Makefile|sources|bench\.sh|graph\.py
(README|HACKING|CHANGELOG|CONTRIBUTING|SECURITY)\.md|LICENSE|\.gitignore|\.git-blame-ignore-revs')"
empty 'folders without a README' "$(sed -nE 's,^(((lib|ext)/)?[a-z]*)/.*,\1,p' \
	"$dir/files" | sed 's,^\(lib\|ext\)/.*,&\n\1,' | sort -u | while read -r folder; do
		[ -s "$folder/README.md" ] || echo "$folder"
	done)"
empty 'links to what is not there' "$(grep '\.md$' "$dir/files" |
	while read -r file; do
		grep -oE '\]\([^):#]+\)' "$file" | tr -d '])(' | while read -r to; do
			[ -e "$(dirname "$file")/$to" ] || echo "$file: $to"
		done
	done)"

# Planted errors are found.
mkdir "$dir/tree" &&
	cp -r ./*.[ch] core include lib ext bench "$dir/tree"
for planted in lib/wait/ugen.h:uproc.h lib/base/park.h:uwait.h rr.c:deque.h \
    lib/debug/utrace.c:ws.h usched.h:uproc.h core/deep.h:uwait.h core/machine/fp.h:uhard.h \
    lib/steal/stop.h:rr.h ext/mpi/umpi.h:upoll.h ext/sim/sim.h:ws.h ext/move/umove_inside.h:rr.h; do
	file=${planted%:*}
	cp "$file" "$dir/tree/$file"
	echo "#include \"${planted#*:}\"" >>"$dir/tree/$file"
	[ "$(upwards "$dir/tree" | grep -c "^$file includes .*${planted#*:}")" \
		= 1 ] || empty "planted in $file" "${planted#*:} is not seen"
	cp "$file" "$dir/tree/$file"
done
for planted in 'static void f(void);' 'static struct uproc_thread *f(int a,
					   int b);'; do
	echo "$planted" >>"$dir/tree/lib/steal/choose.h"
	[ "$(declared "$dir/tree/lib/steal/"* | wc -l)" = 1 ] ||
		empty 'planted declaration' "'$planted' is not seen"
	cp lib/steal/choose.h "$dir/tree/lib/steal/choose.h"
done

# Compiles modules of the tree $1 into objects that have their folder in their
# name: SET/FOLDER~FILE.o. A file that does not compile is printed.
objects() { # tree, set of objects, flags, files
	tree=$1 set=$dir/$2 flags=$3
	shift 3
	mkdir -p "$set"
	for file; do
		at=$(layer "$file")
		[ "$at" != usched.h ] || at=core
		echo "$tree/$file $set/$(echo "$at" | tr / -)~${file##*/}.o"
	done | xargs -P 2 -n 2 sh -c "${CC:-cc} -std=gnu11 -w -c $flags $(
		for folder in include/usched . $(echo lib/* ext/*); do
			printf ' -I%s/%s' "$tree" "$folder"
		done) -o \"\$1\" \"\$0\"" || echo "a module does not compile"
}

# Prints what objects of a set have of a folder outside of its floor: functions and
# constants; and variables of any other folder, which may be a hook upwards.
calls() { # set of objects
	floors | tr / - | sed 's/^[^ ]* /&& /; s/^/below /' >"$dir/below"
	(cd "$dir/$1" && nm -A ./*.o) |
		sed -nE 's,^\./([a-z.-]*)~([a-z]*\.c)\.o:.* ([A-Za-z]) ([a-z].*|UWAIT_.*)$,'\
'\1 \2 \3 \4,p' |
	awk '
	$1 == "below" {
		for (i = 3; i <= NF; i++)
			ok[$2, $i == "usched.h" ? "core" : $i]
		next
	}
	$3 ~ /[Uvw]/	{ uses[++nr] = $0; next }
	$1 ~ /^ext-/	{ next }	# it may stand for what others have
	$3 ~ /[A-Z]/	{ home[$4] = $1; of[$4] = $2; type[$4] = $3 }
	END {
		for (i = 1; i <= nr; i++) {
			split(uses[i], use, " ")
			to = home[use[4]]
			if (to == "" || to == use[1])
				continue
			calls++
			what = use[1] "/" use[2] " uses " use[4] " of " to "/" of[use[4]]
			if (!((use[1], to) in ok))
				print what
			else if (type[use[4]] ~ /[BDCV]/)
				print what ", a variable"
		}
		if (calls < 50)
			print calls " calls: nm shows too few"
	}' "$dir/below" - | tr - /
}

# Leaves out variables that other folders only read; uwait_watch: lists of waits
# (ulist.h) look on, and change no result; kinds of waits, which get a number.
unknown() {
	read_only='usched_(current|running)|uproc_forks|ws_homes|uwait_watch'
	read_only="$read_only|UWAIT_[A-Z]*"
	grep -vE " uses ($read_only) of .*, a variable\$"
}

# The files of lib/engine/, the highest layer first: the table of its README.
engine_order() { # tree
	sed -n 's/^| `\([a-z]*\.c\)` |.*/\1/p' "$1/lib/engine/README.md"
}

# Prints each call that a file of lib/engine/ makes to a higher one, each function
# that inside.h declares for another file, and what the table lacks. A file that
# does not compile is printed, too.
engine_layers() ( # tree
	tree=$(cd "$1" && pwd) && mkdir -p "$dir/objects" "$dir/compiled" || exit
	for file in "$dir/objects"/*.c; do
		[ -e "$tree/lib/engine/${file##*/}" ] || rm -f "$file"
	done
	for file in "$tree"/lib/engine/*.c; do
		object=$dir/objects/${file##*/}
		[ -e "$object" ] && cmp -s "$file" "$dir/compiled/${file##*/}" &&
			continue
		cp "$file" "$dir/compiled"
		${CC:-cc} -std=gnu11 -c -o "$object" -I"$tree/include/usched" \
			-I"$tree" -I"$tree/lib/base" -I"$tree/lib/wait" \
			-I"$tree/lib/proc" -I"$tree/lib/steal" -I"$tree/lib/debug" "$file" ||
			echo "$file does not compile"
	done 2>&1
	engine_order "$tree" >"$dir/order"
	(cd "$dir/objects" && ls) | sort >"$dir/there"
	sort "$dir/order" | diff - "$dir/there" |
		sed -n 's/^< \(.*\)/\1 is not there/p; s/^> \(.*\)/\1 has no layer/p'
	sed -n 's/^\/\* \([a-z]*\.c\) \*\/$/section \1/p
		s/^HIDDEN [^(]*[ *]\(engine_[a-z_]*\)(.*/declared \1/p' \
		"$tree/lib/engine/inside.h" >"$dir/calls"
	(cd "$dir/objects" && nm -A *.c) |
		sed -n 's/^\([a-z]*\.c\):.* \([A-Z]\) \(engine_[a-z_]*\)$/\1 \2 \3/p' \
		>>"$dir/calls"
	awk '
	FILENAME == ARGV[1]	{ layer[$1] = ++layers; next }
	$1 == "section"		{ section = $2; next }
	$1 == "declared"	{ in_section[$2] = section; next }
	$2 == "U"		{ calls[++nr] = $1 " " $3; next }
				{ home[$3] = $1 }
	END {
		for (i = 1; i <= nr; i++) {
			split(calls[i], call, " ")
			to = home[call[2]]
			if (layer[to] < layer[call[1]])
				print call[1] " calls " call[2] "() of " to
		}
		for (f in in_section)
			if (in_section[f] != home[f])
				print f "() is not in " in_section[f]
		if (nr < 50)
			print nr " calls: nm shows too few"
	}' "$dir/order" "$dir/calls"
	grep '^section' "$dir/calls" | sort | uniq -d | sed 's/$/ twice/'
	awk 'FILENAME == ARGV[1] { layer[$1] = ++layers; next }
	$1 == "section" && before && layer[$2] > layer[before] {
		print "inside.h has " $2 " behind " before
	}
	$1 == "section" { before = $2 }' "$dir/order" "$dir/calls"
)

# plant_engine FILE LINE MESSAGE: a line at the end of a file of lib/engine/ leads
# to the message, alone.
plant_engine() {
	[ -e "lib/engine/$1" ] && cp "lib/engine/$1" "$dir/engine.was"
	printf '%s\n' "$2" >>"$dir/tree/lib/engine/$1"
	got=$(engine_layers "$dir/tree")
	rm "$dir/tree/lib/engine/$1"
	[ -e "lib/engine/$1" ] && cp "$dir/engine.was" "$dir/tree/lib/engine/$1"
	[ "$got" = "$3" ] && return
	empty "planted in lib/engine/$1" "${got:-nothing} is seen, not: $3"
}

empty 'modules that do not compile' "$(objects . plain '-O0 -fno-pie' \
	$(cat sources) lib/debug/udebug.c ext/posix/*.c ext/sim/*.c ext/view/*.c ext/wrap/*.c \
	$(ls ext/move/*.c | grep -v ranks) 2>&1)"
empty 'calls point upwards' "$(calls plain | unknown)"

# In the hard mode uhard.c, which knows waits, stands for a part of each layer.
empty 'modules that do not compile in the hard mode' "$(objects . hard \
	'-O0 -fno-pie -DUSCHED_HARD' usched.c lib/base/*.c lib/wait/*.c \
	lib/proc/*.c lib/debug/*.c 2>&1)"
empty 'calls in the hard mode point upwards' "$(calls hard | unknown |
	grep -v ' of lib/debug/uhard\.c$')"

# plant_call FILE LINE MESSAGE: a line at the end of a module leads to the
# message, alone.
plant_call() {
	cp "$1" "$dir/tree/$1"
	echo "$2" >>"$dir/tree/$1"
	rm -rf "$dir/planted" && cp -r "$dir/plain" "$dir/planted"
	got=$(objects "$dir/tree" planted '-O0 -fno-pie' "$1" 2>&1
		calls planted | unknown)
	cp "$1" "$dir/tree/$1"
	[ "$got" = "$3" ] || empty "planted in $1" "${got:-nothing} is seen, not: $3"
}

plant_call lib/wait/uwork.c 'int planted(void) { extern int ws_hold(void); return ws_hold(); }' \
	'lib/wait/uwork.c uses ws_hold of lib/steal/ws.c'
plant_call lib/proc/umem.c 'extern int u_poll(void) __attribute__((weak));
int planted(void) { return u_poll ? u_poll() : 0; }' \
	'lib/proc/umem.c uses u_poll of lib/io/uio.c'
plant_call usched.c 'void *planted(void) { extern char uwait_make; return &uwait_make; }' \
	'core/usched.c uses uwait_make of lib/wait/uwait.c'
plant_call lib/io/unet.c 'void *planted(void) { extern char uproc_serves; return &uproc_serves; }' \
	'lib/io/unet.c uses uproc_serves of lib/proc/uproc.c, a variable'
empty 'calls of lib/engine/ point upwards' "$(engine_layers .)"
plant_engine waiter.c 'int engine_planted(struct claimed *l) { return engine_send_for(l); }' \
	'waiter.c calls engine_send() of runner.c'
plant_engine state.c 'int engine_planted(void) { return engine_pause(0); }' \
	'state.c calls engine_pause() of engine.c'
plant_engine planted.c 'int engine_planted;' 'planted.c has no layer'
plant_engine inside.h 'HIDDEN void engine_nowhere(void);' \
	'engine_nowhere() is not in runner.c'
counted
