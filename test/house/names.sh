#!/bin/sh
# SPDX-License-Identifier: MIT
# names.sh: a program that includes a header of the library gets no macro, tag,
# function, type or constant from it whose name does not begin with a prefix of
# the library; nor does it meet such a symbol in libusched.a. A name that is
# planted is found.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

prefixes=$(tr -d ' \n' <<END
usched|ufork|ushell|u|uwait|ulist|ulook|usymbol|uself|uchan|ucase|
uselect|uwork|uscope|uthread|ukey|utime|uticker|unow|uafter|unever|
upark|ulock|ufence|uwheel|usync|umutex|ucond|usem|urw|ugroup|ubarrier|uonce|
ustack|ugen|uproc|uwakes|uinbox|ucpus|ucall|umem|uhard|uguard|
upreempt|ustats|utrace|uio|uloop|upoll|unet|userve|ufile|usignal|uchild|
uevents|uengine|engine|umain|uread|uwrite|uview|uchain|uroots|usim|uhistory|rr|ll|ws
END
)
prefixed="^($prefixes)(_|\$)|^($(echo "$prefixes" | tr a-z A-Z))(_|\$)"

# A template, which only sources of schedulers include.
headers=$(sh doc/api.sh --installed | grep -v uproc_api.h)

# Splits what the compiler has read into the files ours and theirs, with a line
# for each definition of a macro, or for each other token.
split() { # file
	${CC:-cc} -E -dD $includes $flags "$1" >"$dir/read" || return 1
	: >"$dir/ours"; : >"$dir/theirs"
	awk -v ours="$dir/ours" -v theirs="$dir/theirs" '
	/^# [0-9]+ "/ {
		to = $3 ~ /^"(\/usr|\/opt|<)|\/lib\// ? theirs : ours
		next
	}
	/^#define/ { print "define", $2 > to; next }
	/^#/ { next }
	{
		gsub(/"([^"\\]|\\.)*"/, "")
		gsub(/[A-Za-z_0-9]+|[^A-Za-z_0-9 \t]/, "\n&")
		n = split($0, token, /[ \t\n]+/)
		for (i = 1; i <= n; i++)
			if (token[i] != "")
				print token[i] > to
	}' "$dir/read"
}

# Prints the names in ours: macros; tags; constants of enums; and what stands
# outside of all braces before a parenthesis, or ends a declaration.
names() {
	awk '
	function name(word)
	{
		return word ~ /^[A-Za-z_]/ && word !~ /^__/ && word !~ keyword
	}
	BEGIN { keyword = "^(void|int|long|char|short|unsigned|const|static|" \
		"extern|inline|struct|union|enum|_Bool|bool|return)$" }
	$1 == "define" { sub(/\(.*/, "", $2); print $2; next }
	before ~ /^(struct|union|enum)$/ && name($1) { print $1 }
	$1 == "{" && (before == "enum" || before2 == "enum") { constants = 1 }
	$1 == "}" { constants = 0 }
	constants && (before == "{" || before == ",") && name($1) { print $1 }
	!braces && !parens && $1 ~ /^[(;=\[,]$/ && name(before) &&
		before2 !~ /^(struct|union|enum)$/ { print before }
	$1 == "{" { braces++ }
	$1 == "}" { braces-- }
	$1 == "(" { parens++ }
	$1 == ")" { parens-- }
	{ before2 = before; before = $1 }' "$dir/ours" | sort -u
}

# Names of ours without a prefix, but tags of system headers are theirs.
bare() { # file
	split "$1" || { echo "cannot read $1"; return; }
	awk 'before ~ /^(struct|union|enum)$/ { print $1 } { before = $1 }' \
		"$dir/theirs" | sort -u >"$dir/tags"
	names | grep -vE "$prefixed" | grep -vxF -f "$dir/tags"
}

for flags in '' -DUSCHED_HARD -DUSCHED_PORTABLE -DUSCHED_PREEMPT; do
	printf '#include "%s"\n' $headers >"$dir/a.c"
	empty "headers $flags" "$(bare "$dir/a.c")"
done
# Macros that a header asks for may be set by chance, too.
empty 'macros that are asked for' "$(where $headers | xargs grep -ohE \
	'(defined\(|# *ifn?def )\w+' | sed 's/.*[( ]//' | sort -u |
	grep -vE "$prefixed|^_|^SYS_|^SOCK_")"
library=${LIBRARY:-libusched.a}
empty "no $library: make" "$([ -s "$library" ] || echo x)"
# _.stapsdt.base is hidden, and named by the format of probes (core/probe.h).
empty libusched.a "$(nm -g --defined-only "$library" 2>/dev/null |
	awk 'NF == 3 && $3 != "_.stapsdt.base" { print $3 }' | grep -vE "$prefixed")"

flags=
for planted in 'struct planted { int x; };' 'enum ws_e { one, WS_TWO };' \
    'enum { ONE };' '#define LIKELY(x) (x)' 'static inline int f(int x)
{ return x; }' 'extern int (*ws_f)(int), v;' 'typedef struct ws_s *t;' \
    'int a[3];'; do
	echo "$planted" >"$dir/a.c"
	empty "'$planted' is not seen" \
		"$([ "$(bare "$dir/a.c" | wc -l)" = 1 ] || echo x)"
done
counted
