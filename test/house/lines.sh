#!/bin/sh
# SPDX-License-Identifier: MIT
# lines.sh: no line is over 100 columns, and scripts are executable. Longer may be:
# rows of tables in texts, which cannot be broken; results, and the fuzzer's
# corpus, which programs print; pictures; commands in doc/, which a reader copies;
# sed scripts of planted errors, which quote a line of code. A line that is
# planted is found.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

ours() {
	files | grep -vE -e '^(bench/results|test/core/fuzz/corpus)|\.(svg|png|ico|gz)$' \
		-e '^test/whole/entry/[a-z]*/'
}

# Prints the lines of files that are too long. A tab ends at a column that 8 divides.
long() { # file ...
	awk '
	function columns(line)	{
		while ((at = index(line, "\t")) > 0)
			line = substr(line, 1, at - 1) \
				sprintf("%*s", 8 - (at - 1) % 8, "") \
				substr(line, at + 1)
		return length(line)
	}
	FILENAME ~ /\.md$/ && /^\|/	{ next }
	FILENAME ~ /uncovered/ && /\|/	{ next }
	FILENAME ~ /^doc\/.*\.md$/ && /^(\t|    )/	{ next }
	FILENAME ~ /(model|sync|chaos|mutants)\.sh$/ && /^\t.*s[\/|].*[\/|]/	{ next }
	length($0) > 50 && columns($0) > 100 {
		print FILENAME ":" FNR ": " columns($0) " columns"
	}' "$@"
}

ours >"$dir/files"
empty 'over 100 columns' "$(tr '\n' '\0' <"$dir/files" | LC_ALL=C.UTF-8 xargs -0 awk 1 \
	>/dev/null && long $(cat "$dir/files"))"
empty 'not executable' "$(grep -E '(^test/.*\.sh|^\.ci/run|/run\.sh)$' "$dir/files" |
	while read -r file; do [ -x "$file" ] || echo "$file"; done)"
printf '\t%093d\n' 0 >"$dir/planted.c"
empty 'a line that is planted is not seen' \
	"$([ "$(long "$dir/planted.c" | wc -l)" = 1 ] || echo x)"
printf '\t%092d\n' 0 >"$dir/planted.c"
empty 'a line that is not too long' "$(long "$dir/planted.c")"
counted
