#!/bin/sh
# SPDX-License-Identifier: MIT
# layers.sh: includes and calls point one way: core, waits, processors,
# schedulers and modules, programs. The top level holds the files that a newcomer
# looks for, and folders. Each folder has a README that says what the folder is.
# Links between texts lead to files. Planted includes and calls upwards are found.

cd "$(dirname "$0")/.." || exit 1
. test/layout
. test/count

# The folders in which a file of a folder may include and call.
below() { # folder or file
	case $1 in
	usched.[ch]|core)	echo usched.h core ;;
	wait)		echo usched.h wait ;;
	io)		echo usched.h wait proc io ;;
	wrap)		echo usched.h wait proc io wrap ;;
	posix)		echo usched.h wait proc start posix ;;
	proc)		echo usched.h wait proc ;;
	rr.[ch]|ll.[ch]) echo usched.h wait proc "${1%.?}.h" ;;
	steal)		echo usched.h wait proc steal ;;
	extra)		echo usched.h wait extra ;;
	view)		echo usched.h wait proc extra view ;;
	sim)		echo usched.h wait proc io rr.h sim ;;
	mpi)		echo usched.h wait proc mpi ;;
	move)		echo usched.h wait proc extra move ;;
	include)	echo usched.h wait proc io rr.h ll.h steal extra engine start include ;;
	start)		echo usched.h wait proc rr.h ll.h steal extra start ;;
	rmain.c)	echo rr.h bench ;;
	lmain.c)	echo ll.h bench ;;
	engine)		echo usched.h wait proc steal extra engine ;;
	bench)		echo usched.h wait proc rr.h ll.h steal extra move start bench ;;
	esac
}

# Prints where a header lies: its folder, or its name at the top.
layer() {
	case $1 in
	*/*)	echo "${1%%/*}" ;;
	*)	echo "$1" ;;
	esac
}

# Prints each include of a file of the tree $1 that points outside of below().
upwards() {
	while read -r file; do
		case $file in
		bench/peers/*|bench/waits/*|bench/io/*)		continue ;;
		bench/http/*|bench/mpi/*|bench/engine/*)	continue ;;
		core/*.[ch]|wait/*.[ch]|io/*.[ch]|proc/*.[ch])	;;
		steal/*.[ch]|extra/*.[ch]|view/*.[ch]|wrap/*.[ch]|start/*.[ch]) ;;
		posix/*.[ch]|sim/*.[ch])	;;
		include/usched/all.h)				;;
		engine/*.[ch]|mpi/*.[ch]|move/*.[ch]|bench/*.[ch])		;;
		*/*)		continue ;;
		*.[ch])		;;
		*)		continue ;;
		esac
		sed -n 's/^[ 	]*#[ 	]*include "\(.*\)".*/\1/p' "$1/$file" |
		while read -r header; do
			header=${header#../} header=${header#private/}
			path=$(grep -E "^([a-z]+/)?$header\$" "$dir/files")
			case " $(below "$(layer "$file")") " in
			*" $(layer "$path") "*|*" $path "*)	;;
			*)	echo "$file includes ${path:-$header}" ;;
			esac
		done
	done <"$dir/files"
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
empty 'includes point upwards' "$(upwards .)"
empty 'calls in ws.c and its parts point upwards' "$(declared steal/*.[ch])"
empty 'files at the top' "$(grep -v / "$dir/files" | grep -vxE \
	'usched\.[ch]|(rr|ll)\.[ch]|[rl]main\.c|Makefile|sources|bench\.sh|graph\.py
(README|HACKING|CHANGELOG|CONTRIBUTING|SECURITY)\.md|LICENSE|\.gitignore')"
empty 'folders without a README' "$(sed -n 's,^\([a-z]*\)/.*,\1,p' \
	"$dir/files" | sort -u | while read -r folder; do
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
	cp -r ./*.[ch] core include wait io proc steal extra view engine start wrap posix \
		mpi sim move bench "$dir/tree"
for planted in wait/ugen.h:uproc.h wait/park.h:ws.h rr.c:deque.h extra/utrace.c:uproc.h \
    usched.h:uproc.h core/deep.h:uwait.h core/machine/fp.h:uhard.h \
    steal/stop.h:rr.h mpi/umpi.h:upoll.h sim/sim.h:ws.h move/umove_inside.h:rr.h; do
	file=${planted%:*}
	cp "$file" "$dir/tree/$file"
	echo "#include \"${planted#*:}\"" >>"$dir/tree/$file"
	[ "$(upwards "$dir/tree" | grep -c "^$file includes .*${planted#*:}")" \
		= 1 ] || empty "planted in $file" "${planted#*:} is not seen"
	cp "$file" "$dir/tree/$file"
done
for planted in 'static void f(void);' 'static struct uproc_thread *f(int a,
					   int b);'; do
	echo "$planted" >>"$dir/tree/steal/choose.h"
	[ "$(declared "$dir/tree/steal/"* | wc -l)" = 1 ] ||
		empty 'planted declaration' "'$planted' is not seen"
	cp steal/choose.h "$dir/tree/steal/choose.h"
done

# Compiles modules of the tree $1 into objects that have their folder in their
# name: SET/FOLDER~FILE.o. A file that does not compile is printed.
objects() { # tree, set of objects, flags, files
	tree=$1 set=$dir/$2 flags=$3
	shift 3
	mkdir -p "$set"
	for file; do
		case $file in
		usched.c)	at=core~$file ;;
		*/*)		at=${file%%/*}~${file##*/} ;;
		*)		at=${file%.c}.h~$file ;;
		esac
		echo "$tree/$file $set/$at.o"
	done | xargs -P 2 -n 2 sh -c "${CC:-cc} -std=gnu11 -w -c $flags $(
		for folder in include/usched . wait io proc steal extra engine start; do
			printf ' -I%s/%s' "$tree" "$folder"
		done) -o \"\$1\" \"\$0\"" || echo "a module does not compile"
}

# Prints what objects of a set have of a folder outside of below(): functions and
# constants; and variables of any other folder, which may be a hook upwards.
calls() { # set of objects
	for folder in core wait io proc rr.h ll.h steal extra view engine start; do
		echo "below $folder $(below "$folder")"
	done >"$dir/below"
	(cd "$dir/$1" && nm -A ./*.o) |
		sed -nE 's,^\./([a-z.]*)~([a-z]*\.c)\.o:.* ([A-Za-z]) ([a-z].*|UWAIT_.*)$,'\
'\1 \2 \3 \4,p' |
	awk '
	$1 == "below" {
		for (i = 3; i <= NF; i++)
			ok[$2, $i == "usched.h" ? "core" : $i] = 1
		next
	}
	$3 ~ /[Uvw]/	{ uses[++nr] = $0; next }
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
	}' "$dir/below" -
}

# Leaves out variables that other folders only read; uwait_watch: lists of waits
# (ulist.h) look on, and change no result; kinds of waits, which get a number.
unknown() {
	read_only='usched_(current|running)|uproc_forks|uproc_watch|ws_homes|uwait_watch'
	read_only="$read_only|UWAIT_[A-Z]*"
	grep -vE " uses ($read_only) of .*, a variable\$"
}

# The files of engine/, the highest layer first: the table of its README.
engine_order() { # tree
	sed -n 's/^| `\([a-z]*\.c\)` |.*/\1/p' "$1/engine/README.md"
}

# Prints each call that a file of engine/ makes to a higher one, each function
# that inside.h declares for another file, and what the table lacks. A file that
# does not compile is printed, too.
engine_layers() ( # tree
	tree=$(cd "$1" && pwd) && mkdir -p "$dir/objects" "$dir/compiled" || exit
	for file in "$dir/objects"/*.c; do
		[ -e "$tree/engine/${file##*/}" ] || rm -f "$file"
	done
	for file in "$tree"/engine/*.c; do
		object=$dir/objects/${file##*/}
		[ -e "$object" ] && cmp -s "$file" "$dir/compiled/${file##*/}" &&
			continue
		cp "$file" "$dir/compiled"
		${CC:-cc} -std=gnu11 -c -o "$object" -I"$tree/include/usched" \
			-I"$tree" -I"$tree/wait" \
			-I"$tree/proc" -I"$tree/steal" -I"$tree/extra" "$file" ||
			echo "$file does not compile"
	done 2>&1
	engine_order "$tree" >"$dir/order"
	(cd "$dir/objects" && ls) | sort >"$dir/there"
	sort "$dir/order" | diff - "$dir/there" |
		sed -n 's/^< \(.*\)/\1 is not there/p; s/^> \(.*\)/\1 has no layer/p'
	sed -n 's/^\/\* \([a-z]*\.c\) \*\/$/section \1/p
		s/^HIDDEN [^(]*[ *]\(engine_[a-z_]*\)(.*/declared \1/p' \
		"$tree/engine/inside.h" >"$dir/calls"
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

# plant_engine FILE LINE MESSAGE: a line at the end of a file of engine/ leads
# to the message, alone.
plant_engine() {
	[ -e "engine/$1" ] && cp "engine/$1" "$dir/engine.was"
	printf '%s\n' "$2" >>"$dir/tree/engine/$1"
	got=$(engine_layers "$dir/tree")
	rm "$dir/tree/engine/$1"
	[ -e "engine/$1" ] && cp "$dir/engine.was" "$dir/tree/engine/$1"
	[ "$got" = "$3" ] && return
	empty "planted in engine/$1" "${got:-nothing} is seen, not: $3"
}

empty 'modules that do not compile' "$(objects . plain '-O0 -fno-pie' \
	$(cat sources) extra/udebug.c 2>&1)"
empty 'calls point upwards' "$(calls plain | unknown)"

# In the hard mode uhard.c, which knows waits, stands for a part of each layer.
empty 'modules that do not compile in the hard mode' "$(objects . hard \
	'-O0 -fno-pie -DUSCHED_HARD' usched.c wait/*.c proc/*.c extra/*.c 2>&1)"
empty 'calls in the hard mode point upwards' "$(calls hard | unknown |
	grep -v ' of extra/uhard\.c$')"

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

plant_call wait/uwork.c 'int planted(void) { extern int ws_hold(void); return ws_hold(); }' \
	'wait/uwork.c uses ws_hold of steal/ws.c'
plant_call proc/umem.c 'extern int u_poll(void) __attribute__((weak));
int planted(void) { return u_poll ? u_poll() : 0; }' \
	'proc/umem.c uses u_poll of io/uio.c'
plant_call usched.c 'void *planted(void) { extern char uwait_make; return &uwait_make; }' \
	'core/usched.c uses uwait_make of wait/uwait.c'
plant_call io/unet.c 'void *planted(void) { extern char uproc_serves; return &uproc_serves; }' \
	'io/unet.c uses uproc_serves of proc/uproc.c, a variable'
empty 'calls of engine/ point upwards' "$(engine_layers .)"
plant_engine waiter.c 'int engine_planted(struct claimed *l) { return engine_send_for(l); }' \
	'waiter.c calls engine_send() of runner.c'
plant_engine state.c 'int engine_planted(void) { return engine_pause(0); }' \
	'state.c calls engine_pause() of engine.c'
plant_engine planted.c 'int engine_planted;' 'planted.c has no layer'
plant_engine inside.h 'HIDDEN void engine_nowhere(void);' \
	'engine_nowhere() is not in runner.c'
counted
