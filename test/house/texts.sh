#!/bin/sh
# SPDX-License-Identifier: MIT
# texts.sh: a label of a step or an invariant (A1, L1) is defined once in a file.
# Each file that a document names exists.
# The README of a folder names each file of the folder, and, as what the folder
# may include, what its files do include. What is planted is found.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

# Prints each label that a comment defines a second time. "X1." at the beginning
# of a line defines an invariant, and "X1 " behind a tab a step. Elsewhere a
# label is a reference.
twice() { # FILE...
	awk '
	FNR == 1 { comment = 0 }
	/^[ \t]*\/\*/ { comment = 1 }
	!comment { next }
	/\*\// { comment = 0 }
	{
		line = $0
		sub(/^[ \t]*\/?\*+ ?/, "", line)
		if (line ~ /^[A-Z][A-Z]?[0-9]+[.] /)
			line = "\t" line
		while (match(line, /\t[A-Z][A-Z]?[0-9]+[.]? /)) {
			label = substr(line, RSTART + 1, RLENGTH - 1)
			gsub(/[. ]/, "", label)
			line = substr(line, RSTART + RLENGTH)
			if ((FILENAME, label) in at)
				print FILENAME ":" FNR ": " label \
					" is also in line " at[FILENAME, label]
			else
				at[FILENAME, label] = FNR
			defined++
		}
	}
	END { if (defined < min) print "only " defined " labels are seen" }' \
		min="$least" "$@"
}

# Prints each label that is of another file, without the name of that file before
# it, as in "park W1" or "park W1, W2 and W4": grep finds these. Each file is given
# twice: first labels are noted, then uses are looked at, in documents and in
# comments.
foreign() { # FILE...
	awk '
	function stem(path) {
		sub(/.*\//, "", path)
		sub(/\.[a-z]*$/, "", path)
		return path
	}
	# Notes what a line of a comment defines: see twice().
	function note(line,	label) {
		sub(/^[ \t]*\/?\*+ ?/, "", line)
		if (line ~ /^[A-Z][A-Z]?[0-9]+[.] /)
			line = "\t" line
		while (match(line, /\t[A-Z][A-Z]?[0-9]+[.]? /)) {
			label = substr(line, RSTART + 1, RLENGTH - 1)
			gsub(/[. ]/, "", label)
			line = substr(line, RSTART + RLENGTH)
			defined[label]
			own[FILENAME, label]
			named[stem(FILENAME), label]
			stems[stem(FILENAME)]
		}
	}
	# Looks at text, where of is the file that the last words have named.
	function look(text,	word, n, i, w) {
		gsub(/[^A-Za-z0-9_.\/-]+/, " & ", text)
		n = split(text, word, / +/)
		for (i = 1; i <= n; i++) {
			w = word[i]
			sub(/[.]$/, "", w)
			if (w ~ /^([,(*\/`"|]*|and|or|to)$/)
				continue
			if (w ~ /^[A-Z][A-Z]?[0-9]+$/ && w in defined) {
				if (!((of, w) in named) && !((FILENAME, w) in own))
					print FILENAME ":" FNR ": " w
				continue
			}
			w = stem(w)
			of = w in stems ? w : ""
		}
	}
	FNR == 1 { pass = ++nr[FILENAME]; comment = 0; of = "" }
	FILENAME ~ /\.md$/ { if (pass == 2) look($0); next }
	{
		text = ""
		for (line = $0; line != ""; comment = !comment) {
			at = index(line, comment ? "*/" : "/*")
			part = at ? substr(line, 1, at - 1) : line
			line = at ? substr(line, at + 2) : ""
			if (comment)
				text = text part (at ? ";" : "")
			if (!at)
				break
		}
	}
	pass == 2 { look(text); next }
	text != "" { note(text) }' "$@"
}

# Prints each file in a document that is not in the tree. Those of the guide are
# programs that a reader writes.
absent() { # DOCUMENT...
	files | sed 's,.*/,,' | sort -u >"$dir/files"
	grep -oE '`[A-Za-z_0-9/.-]+\.(c|h|hpp|cc|sh|py|md|awk|mk)`' "$@" /dev/null |
		tr -d '`' | sort -u | while IFS=: read -r document file; do
		case $document:$file in
		doc/guide.md:channel.h|doc/guide.md:turns.c|doc/embed.md:app.c)
			continue ;;
		esac
		grep -qx "${file##*/}" "$dir/files" || echo "$document: $file"
	done
}

# Prints each file of a folder that its README does not name: by its name, or
# x.c and x.h as `x`. A header whose first line says that it is a part of x.c may be
# named there.
unnamed() { # folder
	for file in "$1"/*; do
		name=${file##*/}
		case $name in
		README.md|*.expected|*.o|*.a|__pycache__)	continue ;;
		esac
		whole=$([ -d "$file" ] || sed -n '2s/.* parts* of \([a-z]*\.c\).*/\1/p' "$file")
		[ -z "$whole" ] || ! grep -q "$name" "$1/$whole" || continue
		grep -qE "\`([a-z/]*$name|$name/.*)/?\`" "$1/README.md" && continue
		case $name in
		*.[ch]|*.cc)
			grep -qE "\`${name%.*}(\.[ch])?\`" "$1/README.md" && continue ;;
		esac
		echo "$1/README.md does not name $name"
	done
}

# Prints what is wrong with the sentence "May include: `a.h`, `b/` and files of
# this folder", where "Included by:" ends it.
includes() { # folder
	sed -n '/^May include/,/^$/p' "$1/README.md" | tr '\n' ' ' |
		sed 's/Included by.*//' >"$dir/sentence"
	cat "$1"/*.[ch] "$1"/*.cc 2>/dev/null |
	sed -n 's/^[ 	]*#[ 	]*include "\(.*\)".*/\1/p' | sort -u |
	while read -r header; do
		[ ! -e "$1/$header" ] || [ -L "${1%/}/${header%/*}" ] || continue
		header=${header#private/}
		[ -e "$1/$header" ] && continue
		path=$(cd "$top" && ls "$header" ./*/"$header" ./lib/*/"$header" \
			./ext/*/"$header" 2>/dev/null |
			sed -n '1s,^\./,,p')
		case $path in
		'')	continue ;;	# of others
		*/*)	is="${path%/*}/" ;;
		*)	is=$path ;;
		esac
		grep -qE "\`($is|$header)\`" "$dir/sentence" ||
			echo "$1/README.md: may include $is? A file does ($header)"
	done
}

top=$PWD
folders="core $(echo lib/*/ ext/wrap/ ext/mpi/ | sed 's,/ , ,g; s,/$,,')"
least=100
empty 'labels twice' "$(twice usched.[ch] rr.[ch] ll.[ch] \
	$(find $folders -name '*.[ch]' 2>/dev/null))"
empty 'files that are not there' "$(absent $(files | grep '\.md$' |
	grep -v 'CHANGELOG\|results'))"
empty 'files without a word' "$(for folder in $folders include doc bench examples ext/python; do
		[ ! -e $folder ] || unnamed $folder
	done)"
empty 'includes' "$(for folder in $folders; do
		[ ! -e $folder ] || includes $folder
	done)"

# Planted labels, twice as an invariant, as a step, and as both.
least=0
planted() { # how many are found, lines of a comment
	{ echo '/*'; printf "$2"; echo ' */'; } >"$dir/planted.c"
	[ "$(twice "$dir/planted.c" | wc -l)" = "$1" ] ||
		empty "planted labels" "not $1 times: $2"
}
planted 1 ' * A1. One.\n * A1. Two.\n'
planted 1 ' *\tA1 one\t\tA2 two\n *\tA3 three\tA2 four\n'
planted 1 ' *\tA1 one\n * A1. Two.\n'
planted 0 ' *\tA1 one (A2)\n * A1 comes before A2.\n *\tA2 two\n'

echo '`uchannel.c`' | cat HACKING.md - >"$dir/HACKING.md"
empty 'a planted name' "$(absent "$dir/HACKING.md" | grep -c uchannel.c |
	grep -vx 1)"

mkdir "$dir/wait" && cp lib/wait/*.* "$dir/wait" &&
	echo '#include "ws.h"' >"$dir/wait/planted.c"
empty 'a planted file' "$(unnamed "$dir/wait" | grep -c planted.c | grep -vx 1)"
empty 'a planted include' "$(includes "$dir/wait" | grep -c ws.h | grep -vx 1)"
counted
