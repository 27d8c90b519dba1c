#!/bin/sh
# SPDX-License-Identifier: MIT
# layers.sh: includes point one way: core, waits, processors, schedulers and
# modules, programs. The top level holds the files that a newcomer looks for, and
# folders. Each folder has a README that says what the folder is. Links between
# texts lead to files. A planted include upwards is found.

cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0

files() {
	git ls-files 2>/dev/null | grep . ||
		find . -type f ! -path './.*' ! -path './build/*' \
			! -path './out/*' | sed 's,^\./,,'
}

# The folders in which a file of a folder may include. The core and processors
# include the hard mode only if it is compiled in.
below() { # folder or file
	case $1 in
	usched.[ch])	echo usched.h $2 ;;
	wait)		echo usched.h wait $2 ;;
	io)		echo usched.h wait proc io ;;
	wrap)		echo usched.h wait proc io wrap ;;
	proc)		echo usched.h wait proc $2 ;;
	rr.[ch]|ll.[ch]) echo usched.h wait proc "${1%.?}.h" ;;
	steal)		echo usched.h wait proc steal ;;
	extra)		echo usched.h wait extra ;;
	mpi)		echo usched.h wait mpi ;;
	rmain.c)	echo rr.h bench ;;
	lmain.c)	echo ll.h bench ;;
	engine)		echo usched.h wait proc steal extra engine ;;
	bench)		echo usched.h wait proc rr.h ll.h steal extra bench ;;
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
		bench/peers/*|bench/waits/*|bench/io/*|bench/http/*|bench/mpi/*|bench/engine/*)	continue ;;
		bench/*.[ch]|wait/*.[ch]|io/*.[ch]|proc/*.[ch]|steal/*.[ch]|extra/*.[ch]|wrap/*.[ch]|engine/*.[ch]|mpi/*.[ch])	;;
		*/*)		continue ;;
		*.[ch])		;;
		*)		continue ;;
		esac
		hard=
		case $file in
		usched.c|proc/uproc.h)	hard=extra/uhard.h ;;
		esac
		sed -n 's/^[ 	]*#[ 	]*include "\(.*\)".*/\1/p' "$1/$file" |
		while read -r header; do
			path=$(grep -E "^([a-z]+/)?$header\$" "$dir/files")
			case " $(below "$(layer "$file")" $hard) " in
			*" $(layer "$path") "*|*" $path "*)	;;
			*)	echo "$file includes ${path:-$header}" ;;
			esac
		done
	done <"$dir/files"
}

must() { # what, output that should be empty
	if [ -z "$2" ]; then
		passed=$((passed + 1))
	else
		printf 'FAIL  %s:\n%s\n' "$1" "$2"
		failed=$((failed + 1))
	fi
}

files >"$dir/files"
must 'includes point upwards' "$(upwards .)"
must 'files at the top' "$(grep -v / "$dir/files" | grep -vxE \
	'usched\.[ch]|(rr|ll)\.[ch]|[rl]main\.c|Makefile|bench\.sh|graph\.py|(README|HACKING|CHANGELOG)\.md|LICENSE|\.gitignore')"
must 'folders without a README' "$(sed -n 's,^\([a-z]*\)/.*,\1,p' \
	"$dir/files" | sort -u | while read -r folder; do
		[ -s "$folder/README.md" ] || echo "$folder"
	done)"
must 'links to what is not there' "$(grep '\.md$' "$dir/files" |
	while read -r file; do
		grep -oE '\]\([^):#]+\)' "$file" | tr -d '])(' | while read -r to; do
			[ -e "$(dirname "$file")/$to" ] || echo "$file: $to"
		done
	done)"

# Planted errors are found.
mkdir "$dir/tree" && cp -r ./*.[ch] wait io proc steal extra engine wrap mpi bench "$dir/tree"
for planted in wait/ugen.h:uproc.h wait/park.h:ws.h rr.c:deque.h extra/utrace.c:uproc.h \
    usched.h:uproc.h steal/stop.h:rr.h mpi/umpi.h:uproc.h; do
	file=${planted%:*}
	cp "$file" "$dir/tree/$file"
	echo "#include \"${planted#*:}\"" >>"$dir/tree/$file"
	[ "$(upwards "$dir/tree" | grep -c "^$file includes .*${planted#*:}")" \
		= 1 ] || must "planted in $file" "${planted#*:} is not seen"
	cp "$file" "$dir/tree/$file"
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
