#!/bin/sh
# SPDX-License-Identifier: MIT
# api.sh: prints doc/api.md, a line for each function of the installed headers,
# with the first sentence of the comment above it. After a change of a header:
#
#	sh doc/api.sh >doc/api.md
#
# Functions whose comment begins with "Not API" are left out. Instead, --check
# prints the functions that have no comment, --not those that are left out,
# --headers the headers. HEADERS in environ: other headers.

cd "$(dirname "$0")/.." || exit 1
. test/layout

# What programs use comes first. Other headers are parts of these.
first='usched.h rr.h ll.h ws.h uwait.h usync.h ucall.h'
parts='wheel.h umem.h uproc_api.h inbox.h mail.h fence.h deque.h kept.h stop.h worth.h'

# The Makefile says which headers it installs.
installed() {
	sed -n '/^HEADERS *:*=/,/[^\\]$/{s/^HEADERS *:*=//;s/\\$//;p;}' Makefile
}

headers() {
	for header in $first $(installed); do
		case " $parts $seen " in
		*" $header "*)	continue ;;
		esac
		seen="$seen $header"
		where "$header"
	done
}

cat_headers() {
	for header in ${HEADERS:-$(headers)}; do
		echo "@@ ${header##*/}"
		cat "$header"
	done
}

if [ "$1" = --headers ]; then
	headers
	exit
fi
[ $# -ne 0 ] || cat <<'END'
# All functions

<!-- Made by doc/api.sh from the headers. To change a line, change the comment. -->

A line for each function that a program may call. The comment in the header also
names the permitted callers, the results and the errors.
END

cat_headers | awk -v mode="${1:-print}" '
# A header begins.
$1 == "@@" {
	header = $2
	state = depth = 0
	text = comment = code = ""
	next
}

# Comments. text is the comment that is being read, comment the last complete
# comment that stands for itself.
!in_comment && /^[ \t]*\/\*/ {
	in_comment = 1
	text = ""
	keep = code == "" && depth == 0
}
in_comment {
	line = $0
	in_comment = sub(/[ \t]*\*\/.*/, "", line) == 0
	sub(/^[ \t]*\/?\*+[ \t]?/, "", line)
	text = text (line == "" ? "\n" : line " ")
	if (!in_comment && keep)
		comment_is(text)
	next
}

# Lines of the preprocessor belong to no function. What a macro is told of has
# been told.
in_define || /^[ \t]*#/ {
	if ($0 ~ /^#[ \t]*define/)
		comment = ""
	in_define = /\\$/
	next
}
/^extern "C" \{/ || /^}$/ && depth == 0	{ next }

# A blank line after a function ends what a comment is about.
/^[ \t]*$/ {
	if (code == "" && depth == 0 && used)
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

function comment_is(text,	i, nr, part, name, told_first) {
	delete inner
	sub(/^\n*/, "", text)
	comment = text
	used = 0
	nr = split(text, part, /[.] +|[.]?\n+/)
	for (i = 1; i <= nr; i++) {
		name = part[i]
		if (!sub(/\(\) .*/, "", name) || name !~ /^[a-z_0-9]+$/)
			continue
		inner[name] = part[i] "."
		if (i == 1)
			told_first = 1
		if (told_first && !((header, name) in told))
			told[header, name] = part[i] "."
	}
}

function statement(code,	name) {
	gsub(/__attribute__\(\([^()]*(\([^()]*\)[^()]*)*\)\)/, "", code)
	gsub(/[ \t]+/, " ", code)
	sub(/\{.*/, "", code)
	sub(/;.*/, "", code)
	gsub(/^ | $/, "", code)
	if (code ~ /^(struct|enum|union) [a-z_]*$/ || code ~ /[=]/ ||
	    code ~ /^__asm__|^extern |^typedef/ || code !~ /\(/)
		return
	gsub(/(static|__inline__|inline|[A-Z][A-Z_]*) /, "", code)
	if (match(code, /^[^(]* \(/))
		code = substr(code, 1, RLENGTH - 2) substr(code, RLENGTH)
	name = code
	sub(/\(.*/, "", name)
	sub(/.*[ *]/, "", name)
	if (name ~ /^[a-z][a-z0-9_]*$/)
		found(name, code)
}

function found(name, code,	first) {
	first = !used
	used = 1
	if (comment ~ /^Not API/) {
		if (mode == "--not")
			print name
		hidden[name] = 1
		return
	}
	if (name in hidden)
		return
	if (!(name in line_of)) {
		line_of[name] = ++n
		name_at[n] = name
		header_at[n] = header
		code_at[n] = code
	}
	if ((header, name) in told)
		sentence[name] = summary(told[header, name])
	else if (comment != "" && !first && name in inner)
		sentence[name] = summary(inner[name])
	else if (comment != "")
		sentence[name] = summary(comment)
}

# A function of ll or ws without a comment does what that of rr does.
function other(name,	rr) {
	rr = "rr" substr(name, 3)
	return name ~ /^(ll|ws)_/ && rr in line_of ? "As " rr "()." : ""
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

END {
	for (i = 1; i <= n; i++) {
		name = name_at[i]
		if (sentence[name] == "")
			sentence[name] = other(name)
		if (mode == "--check" && sentence[name] == "")
			print header_at[i] ": " name
		if (mode != "print")
			continue
		if (header_at[i] != last)
			printf "\n## %s\n\n| function | what it does |\n|---|---|\n",
				header_at[i]
		last = header_at[i]
		print "| `" code_at[i] "` | " sentence[name] " |"
	}
}'
