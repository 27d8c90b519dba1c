#!/bin/sh
# SPDX-License-Identifier: MIT
# texts.sh: a label of a step or an invariant (A1, L1) is defined once in a file,
# and has the name of that file before it in comments of others and in documents.
# Each file that a document names exists.
# The README of a folder names each file of the folder, and, as what the folder
# may include, what its files do include. What is planted is found.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

# Prints each label that a file defines a second time, and each label of another
# file without the name of that file before it, in the same line, as in "park W1"
# or "park W1, W2 and S3": grep finds these. In a comment "X1." at the beginning of a
# line defines an invariant, and "X1 " behind a tab a step. In other places, also in
# documents, a label is a reference.
labels() { # FILE...
	awk '
	BEGIN { named["uts", "T1"]; named["uts", "T5"] }	# trees of that benchmark
	function stem(path) {
		sub(/.*\//, "", path)
		sub(/[.].*/, "", path)
		return path
	}
	# Returns the comments of a line, with | behind each.
	function comments(line,	text, at) {
		while (at = index(line, comment ? "*/" : "/*")) {
			if (comment)
				text = text substr(line, 1, at - 1) " | "
			line = substr(line, at + 2)
			comment = !comment
		}
		return text (comment ? line : "")
	}
	function define(label) {
		if ((FILENAME, label) in own)
			print FILENAME ":" FNR ": " label " is also in line " \
				own[FILENAME, label]
		else
			own[FILENAME, label] = FNR
		stems[stem(FILENAME)]
		named[stem(FILENAME), label]
		defined++
	}
	function definitions(text) {
		sub(/^[ \t]*\** ?/, "", text)
		if (text ~ /^[A-Z][A-Z]?[0-9]+[.] /)
			text = "\t" text
		while (match(text, /\t[A-Z][A-Z]?[0-9]+[.]? /)) {
			define(substr(text, RSTART + 1, RLENGTH - 2 - \
				(substr(text, RSTART + RLENGTH - 2, 1) == ".")))
			text = substr(text, RSTART + RLENGTH)
		}
	}
	# Looks at each word that is a label. of is the word before the list of labels.
	function references(text,	word, n, i, w, of, list) {
		gsub(/[(\t]|[.:;)]( |$)/, " | ", text)
		gsub(/,/, " , ", text)
		gsub(/[^A-Za-z0-9_|,-]+/, " ", text)
		n = split(text, word, / +/)
		for (i = 1; i <= n; i++) {
			w = word[i]
			if (w ~ /^[A-Z][A-Z]?[0-9][0-9]?$/ && w != "C11") {
				list = 1
				if (!((of, w) in named) &&
				    (of in stems || !((FILENAME, w) in own)))
					print FILENAME ":" FNR ": " w \
						" is of another file"
			} else if (!list || w !~ /^(,|and|or|to)$/) {
				list = 0
				of = w
			}
		}
	}
	FNR == 1 { pass = ++passes[FILENAME]; comment = 0 }
	{ text = FILENAME ~ /[.]md$/ ? $0 : comments($0) }
	pass == 2 { references(text); next }
	FILENAME !~ /[.]md$/ && text != "" { definitions(text) }
	END { if (defined < min) print "only " defined " labels are seen" }' \
		min="$least" "$@" "$@"
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
		whole=$(whole_of "$file")
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
texts=$(files | grep '\.\([ch]\|cc\|md\)$' | grep -v '^CHANGELOG\|^bench/results/')
least=300
empty 'labels' "$(labels $texts)"
empty 'files that are not there' "$(absent $(files | grep '\.md$' |
	grep -v 'CHANGELOG\|results'))"
empty 'files without a word' "$(for folder in $folders include doc bench examples ext/python; do
		[ ! -e $folder ] || unnamed $folder
	done)"
empty 'includes' "$(for folder in $folders; do
		[ ! -e $folder ] || includes $folder
	done)"

# Planted labels: twice as an invariant, as a step, and as both; and of another
# file, with its name and without.
least=0
planted() { # how many are found, lines of a comment, and of another file
	{ echo '/*'; printf "$2"; echo ' */'; } >"$dir/planted.c"
	{ echo '/*'; printf "$3"; echo ' */'; } >"$dir/other.c"
	[ "$(labels "$dir/planted.c" "$dir/other.c" | wc -l)" = "$1" ] ||
		empty "planted labels" "not $1 times: $2$3"
}
planted 1 ' * A1. One.\n * A1. Two.\n'
planted 1 ' *\tA1 one\t\tA2 two\n *\tA3 three\tA2 four\n'
planted 1 ' *\tA1 one\n * A1. Two.\n'
planted 0 ' *\tA1 one (A2)\n * A1 comes before A2.\n *\tA2 two\n'
planted 0 ' * A1. One.\n *\tA2 two\n' ' * So it is planted A2, A1.\n'
planted 2 ' * A1. One.\n *\tA2 two\n' ' * Planted A1 is in planted.c, as A2 is.\n'
planted 1 ' * A1. One.\n *\tA2 two\n' ' * planted A1, and by that A2.\n'
planted 1 ' * A1. One.\n' ' * A1. Not planted A2.\n'

sed 's/(homes W2, /(W2, homes /' HACKING.md >"$dir/HACKING.md"
empty 'a planted label in a document' "$(labels $texts "$dir/HACKING.md" | wc -l | grep -vx 1)"
echo '`uchannel.c`' | cat HACKING.md - >"$dir/HACKING.md"
empty 'a planted name' "$(absent "$dir/HACKING.md" | grep -c uchannel.c |
	grep -vx 1)"

mkdir "$dir/wait" && cp lib/wait/*.* "$dir/wait" &&
	echo '#include "ws.h"' >"$dir/wait/planted.c"
empty 'a planted file' "$(unnamed "$dir/wait" | grep -c planted.c | grep -vx 1)"
empty 'a planted include' "$(includes "$dir/wait" | grep -c ws.h | grep -vx 1)"
counted
