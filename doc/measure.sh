#!/bin/sh
# SPDX-License-Identifier: MIT
# measure.sh: prints how large the code is, and how the comments read.
#
#	sh doc/measure.sh [COMMIT ...]
#
# A column for each commit, and for this tree. A line with code and a comment
# counts as code. A function is from the line of its name to the last brace.
# Words are those of comments, in the last row of documents. So many of each
# thousand are to be avoided: "one" and "ones" as nouns, "it" and "its", "who" at
# the beginning of a clause, "nobody" and the like, "he" and "his".

cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
here=$PWD

files() {
	git ls-files -s 2>/dev/null | sed -n 's/^100[^	]*	//p' | grep . ||
		find . -type f | sed 's,^\./,,'
}

# The sources of the library: C files at the top and in its folders.
library() {
	grep -E '^((core|core/machine|lib/[a-z]*|ext/[a-z]*)/)?[^/]*\.[ch]$' \
		"$dir/files" | grep -v '^[rlw]main\.c$'
}

# The dispatcher: its two files, and their parts.
core() {
	grep -E '^(usched\.[ch]$|core/.*\.h$)' "$dir/files"
}

# Prints the number of lines of all files in a folder.
all_lines() { # folder
	grep "^$1/" "$dir/files" | tr '\n' '\0' | xargs -0 -r cat | wc -l
}

# Prints each line as code, comment or both, with the text of the comment.
split() {
	awk '
	FNR == 1 { inside = 0 }
	{
		line = $0
		code = text = ""
		while (line != "") {
			if (inside) {
				end = index(line, "*/")
				text = text " " (end ? substr(line, 1, end - 1) : line)
				inside = !end
				line = end ? substr(line, end + 2) : ""
			} else {
				begin = index(line, "/*")
				code = code (begin ? substr(line, 1, begin - 1) : line)
				inside = begin != 0
				if (begin)
					text = text " "
				line = begin ? substr(line, begin + 2) : ""
			}
		}
		blank = code !~ /[^ \t]/
		if (!blank)
			print "code"
		else if (text != "" || inside)
			print "comment"
		if (text != "")
			print "text", text
	}' "$@"
}

lines() { # files
	split "$@" | awk '{ n[$1]++ }
		END { print n["code"] + 0 ", " n["comment"] + 0 }'
}

functions() { # files
	awk '
	FNR == 1	{ name = body = 0 }
	!body && !name && /^[a-zA-Z_].*\(/ && !/;$/	{ name = FNR }
	!body && /^{/	{ body = FNR; if (!name) name = FNR }
	!body && (/^$/ || /;[ \t]*$/ || /^[#\/]/)	{ name = 0 }
	body && /^}/	{ print FNR - name + 1; name = body = 0 }
	' "$@" | sort -n | awk '
	{ n[NR] = $1; over += $1 > 35 }
	END {
		printf "%d, %d, %d, %d\n", n[int((NR + 1) / 2)],
			n[int(NR * 0.9) + 1], n[NR], over
	}'
}

# Reads text. Prints the number of words, and how many of a thousand to avoid.
words() {
	awk '
	function is(word, list) { return index(" " list " ", " " word " ") > 0 }
	BEGIN {
		article = "the that this another other each which first last " \
		    "new old any every some same usual small large"
		noun = "thread worker processor of word byte line more native"
		verb = "who that which is was has may can must will does needs " \
		    "in at to from on for with and or"
	}
	{
		$0 = tolower($0)
		gsub(/[^a-z.;:,()_ -]/, " ")
		for (i = 1; i <= NF; i++) {
			word = $i
			gsub(/[^a-z_-]/, "", word)
			if (word == "")
				continue
			all++
			one += word == "ones" || was == "one" && (ended ||
				is(word, verb) ||
				is(before, article) && !is(word, noun))
			it += is(word, "it its")
			who += (ended || was == "") && is(word, "who whoever")
			no += is(word, "nobody somebody anybody anyone")
			he += is(word, "he him his")
			before = was
			was = word
			ended = $i ~ /[.;:,]$/
		}
	}
	END {
		k = all != 0 ? all / 1000 : 1
		printf "%d: %.1f, %.1f, %.1f, %.1f, %.1f\n", all, one / k,
			it / k, who / k, no / k, he / k
	}'
}

comments() { # files
	split "$@" | sed -n 's/^text //p' | words
}

# Documents, without what is shown as code and tables.
documents() {
	grep -E '^[^/]*\.md$|^(doc|lib/proc|lib/steal|lib/debug|examples)/.*\.md$' "$dir/files" |
		grep -v '^doc/api\.md$' | tr '\n' '\0' |
		xargs -0 awk '/^```/ { code = !code } !code && !/^\||^    /' | words
}

tree() {
	files >"$dir/files"
	ws=$(grep -E -e '(^|/)ws\.[ch]$' \
		-e '^lib/steal/(ws_inside|worker|homes|runnable|messages|theft|search|choose)\.h$' \
		"$dir/files")
	echo "entries at the top|$(sed 's,/.*,,' "$dir/files" | sort -u | wc -l)"
	echo "usched.c: lines|$(wc -l <usched.c)"
	echo "usched.c: lines of code, of comment|$(lines usched.c)"
	echo "usched.h: lines|$(wc -l <usched.h)"
	echo "usched.[ch], core/: lines of code, of comment|$(lines $(core))"
	echo "ws.[ch] and parts: lines of code, of comment|$(lines $ws)"
	echo "functions of usched.[ch], core/: median, p90, max, over 35|$(
		functions $(core))"
	echo "functions of ws.[ch] and parts|$(functions $ws)"
	echo "functions of the library|$(functions $(library))"
	echo "library: lines of code, of comment|$(lines $(library))"
	echo "test/: lines|$(all_lines test)"
	echo "bench/: lines|$(all_lines bench)"
	echo "Makefile: lines|$(wc -l <Makefile)"
	echo "usched.h: line of usched_run()|$(grep -n '^void usched_run(' usched.h |
		head -n 1 | cut -d: -f1)"
	echo "README.md: lines|$(awk 'END { print NR }' README.md)"
	echo "words of usched.[ch], core/: one, it, who, nobody, he in a thousand|$(
		comments $(core))"
	echo "words of the library|$(comments $(library))"
	echo "words of documents|$(documents)"
}

nr=0
for commit; do
	nr=$((nr + 1))
	mkdir "$dir/tree" && git archive "$commit" | tar x -C "$dir/tree" || exit 1
	(cd "$dir/tree" && tree | sed 's/.*|//') >"$dir/column.$nr"
	echo "$commit" >>"$dir/names"
	rm -rf "$dir/tree"
done
cd "$here" && tree >"$dir/rows" || exit 1
sed 's/.*|//' "$dir/rows" >"$dir/column.$((nr + 1))"
echo 'this tree' >>"$dir/names"

# A row for each measure, with aligned columns.
{
	echo "|$(tr '\n' '|' <"$dir/names")"
	sed 's/|.*//' "$dir/rows" | paste -d '|' - "$dir"/column.*
} | awk -F '|' '
	{
		line[NR] = $0
		for (i = 1; i <= NF; i++)
			if (length($i) > width[i])
				width[i] = length($i)
	}
	END {
		for (r = 1; r <= NR; r++) {
			n = split(line[r], part, "|")
			out = ""
			for (i = 1; i <= n; i++)
				out = out sprintf("%-" width[i] + 2 "s", part[i])
			sub(/ +$/, "", out)
			print out
		}
	}'
