#!/bin/sh
# SPDX-License-Identifier: MIT
# api.sh: prints doc/api.md, a row for each function of the installed headers.
# After a change of a header:
#
#	sh doc/api.sh >doc/api.md
#
# A row is the first sentence of the prototype's own comment, which stands
# directly above the prototype, above the inline function itself, or above the
# struct of the same name. A comment
# above several prototypes belongs to the first, and to the others only where a
# sentence begins with their name: "x() returns ...".
#
# The document has a part for programs and a part for schedulers and modules.
# Rows are of the second part if the header, or its part in core/, is in the list
# below, the comment begins with "For modules" or "For schedulers", or the heading
# before it (a comment that begins with a line in capitals) begins with FOR. Where a
# function is declared first counts.
#
# Functions whose comment begins with "Not API" are left out. Instead, --check
# prints the functions that have no comment of their own, --not those that are
# left out, --headers the headers, --installed all that are installed. HEADERS in
# environ: other headers.

cd "$(dirname "$0")/.." || exit 1
. test/run/layout

# What programs use comes first, as all.h has it. Other headers are parts of these.
first="usched.h $(sed -n 's/^#include "\(.*\)"/\1/p' include/usched/all.h)"
parts='all.h wheel.h umem.h uproc_api.h inbox.h mail.h fence.h stop.h'

# All functions of these are for schedulers and modules.
schedulers='uhard.h sched.h inplace.h uproc.h uproc_set.h wakes.h'

# All of include/ is installed.
installed() {
	(cd include/usched && ls *.h && cd private && ls *.h)
}

headers() {
	for header in $first $(installed); do
		case " $(echo $parts) $seen " in
		*" $header "*)	continue ;;
		esac
		seen="$seen $header"
		where "$header"
	done
}

cat_headers() {
	for header in ${HEADERS:-$(headers)}; do
		echo "@@ ${header##*/}"
		case $header in	# usched.h with its parts
		usched.h)	awk -v file="$header" -f core/single.awk ;;
		*)		cat "$header" ;;
		esac
	done
}

case $1 in
--headers)	headers; exit ;;
--installed)	installed; exit ;;
esac
[ $# -ne 0 ] || cat <<'END'
# All functions

<!-- Made by doc/api.sh from the headers. To change a row, change the comment. -->

A row for each function: first those for [programs](#for-programs), then those
for [schedulers and modules](#for-schedulers-and-modules). The comment in the
header also names the permitted callers, the results and the errors.
END

cat_headers | awk -v mode="${1:-print}" -v schedulers=" $schedulers " '
# A header begins.
$1 == "@@" {
	header = $2
	depth = for_schedulers = 0
	part = ""
	text = comment = code = ""
	next
}

# Comments. text is the comment that is being read, comment the comment that
# the next statement has above it.
!in_comment && /^[ \t]*\/\*/ {
	in_comment = 1
	text = ""
	stands = code == "" && depth == 0
}
in_comment {
	line = $0
	in_comment = sub(/[ \t]*\*\/.*/, "", line) == 0
	sub(/^[ \t]*\/?\*+[ \t]?/, "", line)
	text = text (line == "" ? "\n" : line " ")
	if (!in_comment && stands)
		comment_is(text)
	next
}

# Lines of the preprocessor belong to no function, but a macro takes the comment
# above it.
in_define || /^[ \t]*#/ {
	if ($0 ~ /^#[ \t]*define/)
		comment = ""
	in_define = /\\$/
	next
}
/^extern "C" \{/ || /^}$/ && depth == 0	{ next }

# A blank line ends what a comment is about.
/^[ \t]*$/ {
	if (code == "" && depth == 0)
		comment = ""
	next
}

{
	gsub(/\/\*.*\*\//, "")
	if (depth == 0)
		code = code " " $0
	open = gsub(/\{/, "{")
	depth += open - gsub(/\}/, "}")
	if (depth == 0 && (code ~ /;[ \t]*$/ || /\}/)) {
		statement(code)
		code = ""
	}
}

# A heading says for whom the next functions are. A part of usched.h begins with its name.
function comment_is(text) {
	sub(/^\n*/, "", text)
	if (match(text, /^core\/[a-z]*[.]h:/))
		part = substr(text, 6, RLENGTH - 6)
	if (text ~ /^[A-Z]+ [A-Z ]*[A-Z]([^A-Za-z]|$)/) {
		for_schedulers = text ~ /^FOR /
		sub(/^[A-Z -]+\n*/, "", text)
	}
	comment = text
}

# In a comment above functions, sentences that begin with a name are its own.
function named(text,	i, nr, part, name) {
	nr = split(text, part, /[.] +|[.]?\n+/)
	for (i = 1; i <= nr; i++) {
		name = part[i]
		if (sub(/\(\) .*/, "", name) && name ~ /^[a-z_0-9]+$/ &&
		    !((header, name) in told))
			told[header, name] = part[i] "."
	}
}

function statement(code,	name) {
	gsub(/__attribute__\(\([^()]*(\([^()]*\)[^()]*)*\)\)/, "", code)
	gsub(/[ \t]+/, " ", code)
	sub(/\{.*/, "", code)
	sub(/;.*/, "", code)
	gsub(/^ | $/, "", code)
	name = code
	if (sub(/^struct /, "", name) && name ~ /^[a-z0-9_]+$/)
		above_struct[header, name] = comment
	else if (code !~ /^(enum|union) [a-z0-9_]*$/ && code !~ /[=]/ &&
		 code !~ /^__asm__|^extern |^typedef/ && code ~ /\(/)
		prototype(code)
	if (comment !~ /^Not API/)
		comment = ""
}

function prototype(code,	name) {
	gsub(/(static|__inline__|inline|[A-Z][A-Z_]*) /, "", code)
	if (match(code, /^[^(]* \(/))
		code = substr(code, 1, RLENGTH - 2) substr(code, RLENGTH)
	name = code
	sub(/\(.*/, "", name)
	sub(/.*[ *]/, "", name)
	if (name ~ /^[a-z][a-z0-9_]*$/)
		found(name, code)
}

function found(name, code,	own) {
	if (comment ~ /^Not API/) {
		if (mode == "--not")
			print name
		hidden[name] = 1
		return
	}
	if (name in hidden)
		return
	if (!(name in row_of)) {
		row_of[name] = ++n
		name_at[n] = name
		header_at[n] = header
		code_at[n] = code
	}
	named(comment)
	if (comment != "")
		own = comment
	else if ((header, name) in told)
		own = told[header, name]
	else
		own = above_struct[header, name]
	if (own != "") {
		sentence[name] = summary(own)
		if (name in scheduler_row)
			return
		scheduler_row[name] = for_schedulers ||
			index(schedulers, " " header " ") != 0 ||
			part != "" && index(schedulers, " " part " ") != 0 ||
			own ~ /^For [a-z ]*(modules|schedulers)/
	}
}

# The first sentence, in a line.
function summary(text) {
	sub(/\n.*/, "", text)
	gsub(/[ \t]+/, " ", text)
	if (match(text, /[.] /))
		text = substr(text, 1, RSTART)
	sub(/ $/, "", text)
	gsub(/\|/, "\\|", text)
	return text
}

function section(title, schedulers,	i, last) {
	printf "\n## %s\n", title
	for (i = 1; i <= n; i++) {
		if (scheduler_row[name_at[i]] != schedulers)
			continue
		if (header_at[i] != last)
			printf "\n### %s\n\n| function | what it does |\n|---|---|\n",
				header_at[i]
		last = header_at[i]
		print "| `" code_at[i] "` | " sentence[name_at[i]] " |"
	}
}

END {
	for (i = 1; i <= n; i++)
		if (mode == "--check" && sentence[name_at[i]] == "")
			print header_at[i] ": " name_at[i]
	if (mode == "print") {
		section("For programs", 0)
		section("For schedulers and modules", 1)
	}
}'
