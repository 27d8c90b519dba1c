#!/bin/sh
# SPDX-License-Identifier: MIT
# words.sh: a word that only this library uses stands in the glossary of
# HACKING.md ("Words"). Prints the others, and words of the lists that have no
# use any more.
#
# A spell checker would not find such words, because most are plain English
# ("sight", "dry", "worth"). So each part of an identifier must be listed, where
# English does not count: in the glossary, or in test/house/words as a word of the
# field, which a programmer knows from C, POSIX, Linux, or other schedulers.
# Whoever names something with a new word decides where the word belongs.
# Comments may use all of English; only a word that they use often becomes a
# term, so a word in $often places or more must be listed, too.
#
# The parts of run_queue_2 are run and queue. Parts of one or two letters are no
# words: prefixes of fields, loop variables. u stands for user-space, so uwait is
# as good as wait. A word is as good without -s, -es, -d, -ed, -ing.
#
# test/house/words has sections. [identifiers]: words of the field. [names]: whole
# identifiers, whose words count nowhere else. [comments]: words for comments
# only. [leaving]: words that are being replaced; while there are such, words
# without use are not reported. After a change:
#
#	sh test/house/words.sh --lists >/tmp/words && mv /tmp/words test/house/words
#
# sorts the lists and drops words without use.

cd "$(dirname "$0")/../.." || exit 1
. test/run/count
often=6

# The library's sources: C, and assembly in it.
sources() {
	find usched.[ch] rr.[ch] ll.[ch] core lib ext/view -name '*.[ch]' 2>/dev/null | sort
}

# Prints the first column of the glossary: a line "glossary WORD" for each word.
glossary() { # HACKING.md
	awk -F'|' '
	/^## / { words = $0 == "## Words" }
	words && /^\| / && $2 !~ /^ *(word|role) *$/ {
		n = split(tolower($2), word, /[^a-z]+/)
		for (i = 1; i <= n; i++)
			if (length(word[i]) > 2)
				print "glossary", word[i]
	}' "$1"
}

# Prints "SECTION WORD" for each word of the lists.
lists() { # test/house/words
	awk '
	/^#/ || /^$/ { next }
	/^\[/ { section = substr($0, 2, length($0) - 2); next }
	{ for (i = 1; i <= NF; i++) print section, $i }' "$1"
}

# Prints "identifier NAME" for each identifier, and "comment WORD" for each word
# of a comment. What stands in a comment as code is no word: with a digit, with
# an underscore, in capitals, or before a parenthesis.
tokens() { # FILE...
	awk '
	function code(text) {
		gsub(/"([^"\\]|\\.)*"/, " ", text)
		gsub(/\047(\\[^\047]*|[^\047\\])\047/, " ", text)
		if (text ~ /^[ \t]*#[ \t]*(include|error|pragma)/)
			return
		while (match(text, /[A-Za-z_0-9][A-Za-z_0-9]*/)) {
			name = substr(text, RSTART, RLENGTH)
			text = substr(text, RSTART + RLENGTH)
			if (name ~ /^[A-Za-z_]/)
				print "identifier", name
		}
	}
	function prose(text) {
		gsub(/[A-Za-z_0-9]+\(/, " ", text)
		gsub(/\047[a-z]+/, " ", text)
		while (match(text, /[A-Za-z_0-9]+/)) {
			word = substr(text, RSTART, RLENGTH)
			text = substr(text, RSTART + RLENGTH)
			if (word ~ /^[A-Za-z][a-z][a-z]+$/)
				print "comment", tolower(word)
		}
	}
	FNR == 1 { comment = 0 }
	{
		line = $0
		while (line != "") {
			at = index(line, comment ? "*/" : "/*")
			part = at ? substr(line, 1, at - 1) : line
			line = at ? substr(line, at + 2) : ""
			if (comment)
				prose(part)
			else
				code(part)
			if (at)
				comment = !comment
		}
	}' "$@"
}

# Reads the lists, then the tokens. Prints what is wrong; or, as mode is "used",
# "SECTION WORD" for each word of the lists that is used.
check() { # FILE..., beside the sources
	{
		glossary "$hacking"; lists "$words"; cat "$dir/tokens"
		[ $# = 0 ] || tokens "$@"
	} |
	awk -v mode="$mode" -v often="$often" '
	# Returns the word of a list for a word, without its ending, or "".
	function found(word,	stem, n) {
		if (word in listed)
			return word
		n = split("s es d ed ing", ending)
		for (i = 1; i <= n; i++) {
			stem = word
			if (!sub(ending[i] "$", "", stem) || length(stem) < 3)
				continue
			if (stem in listed)
				return stem
			last = substr(stem, length(stem))
			short = substr(stem, 1, length(stem) - 1)
			other = ""
			if (ending[i] == "ing")
				other = stem "e"
			if (last == "i" && ending[i] ~ /^e/)
				other = short "y"
			if (other in listed)
				return other
			if (ending[i] ~ /^(ed|ing)$/ && short ~ last "$" &&
			    short in listed)
				return short
		}
		return ""
	}

	# Notes a use of a word, or that it stands in no list for this use.
	function use(word, where, comment,	as) {
		as = found(word)
		if (as == "" && word ~ /^u..../)
			as = found(substr(word, 2))
		if (as == "" || !comment && listed[as] == "comments") {
			if (!comment || !(word in unknown))
				unknown[word] = where
			return
		}
		used[as] = 1
		if (!comment)
			needed[as] = 1
	}

	$1 == "names" { names[$2] = 1; next }
	$1 == "identifier" { identifiers[$2]++; next }
	$1 == "comment" { comments[$2]++; next }
	{
		if ($2 in listed && listed[$2] != $1 && mode != "used")
			print $2 ": twice, in " listed[$2] " and in " $1
		listed[$2] = $1
		if ($1 == "leaving")
			leaving = 1
	}

	END {
		for (name in identifiers) {
			if (name in names) {
				named[name] = 1
				continue
			}
			n_parts = split(tolower(name), part, /[_0-9]+/)
			for (p = 1; p <= n_parts; p++)
				if (length(part[p]) > 2)
					use(part[p], name, 0)
		}
		for (word in comments)
			if (comments[word] >= often)
				use(word, comments[word] " comments", 1)
			else if ((as = found(word)) != "" &&
				 listed[as] == "glossary")
				used[as] = 1
		if (mode == "used") {
			for (word in listed)
				if ((word in needed) || listed[word] != \
				    "identifiers" && (word in used))
					print listed[word], word
			for (name in named)
				print "names", name
			exit
		}
		for (word in unknown)
			print word ": in no list (" unknown[word] ")"
		if (leaving)
			exit
		for (word in listed)
			if (!(word in used) ||
			    listed[word] == "identifiers" && !(word in needed))
				print word ": no use, in " listed[word]
		for (name in names)
			if (!(name in named))
				print name ": no use, in names"
	}' | sort
}

# Prints test/house/words without what is not used.
write_lists() {
	mode=used
	check >"$dir/used"
	sed -n '/^\[/q;p' "$words"
	for section in identifiers names comments leaving; do
		printf '[%s]\n' "$section"
		sed -n "s/^$section //p" "$dir/used" | sort |
			tr '\n' ' ' | fold -s -w 78 | sed 's/ *$//'
		echo
	done
}

tokens $(sources) >"$dir/tokens"
mode=
words=test/house/words hacking=HACKING.md
if [ "$1" = --lists ]; then
	write_lists
	exit
fi
empty 'words of ours' "$(check)"

# What is planted is found: words in names of any kind, and often in comments.
planted() { # what must be found, text
	echo "$2" >"$dir/planted.c"
	check "$dir/planted.c" | grep -q "^$1: in no list" ||
		empty "planted $1" "is not found"
}
for word in glimpse thirsty gizmo quux; do
	planted $word "int lane_$word;"
	planted $word "#define LANE_${word}_NR 2"
	planted $word "struct ${word}s { int q_$word; };"
	planted $word "$(yes "/* The $word of a lane. */" | head -n $often)"
done
planted beside 'int beside_lane;'
echo 'int lane; /* The gizmo of a lane, "quux" in a string. */' >"$dir/planted.c"
empty 'a rare word of a comment' "$(check "$dir/planted.c" |
	grep -E '^(gizmo|quux): in no')"
sed '/^\[leaving/,$d; s/^\[identifiers\]$/&\ngizmo lane/' test/house/words >"$dir/words"
words=$dir/words
empty 'planted in the list' "$(check | grep -cE \
	'^(gizmo: no use|lane: twice)' | grep -vx 2)"
counted
