#!/bin/sh
# SPDX-License-Identifier: MIT
# measure.sh: doc/measure.sh counts what it says, in a small tree.

cd "$(dirname "$0")/../.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
tree=$dir/tree
mkdir -p "$tree/doc" "$tree/lib/steal" "$tree/core" "$tree/test" &&
	cp doc/measure.sh "$tree/doc" || exit 1

cat >"$tree/usched.c" <<'END'
/* One who waits, and the one that wakes: it, its. Who? Nobody, he said. */

/*
 * one thread, one of
 */
int f(int a)	/* code */
{
	return a; /* begins
	and ends */
}

static int table[] = {
	1,
};

int g(int a,
      int b)
{

	return a + b;
}
END
printf '%s\n' '/* usched.h */' '' 'void usched_run(struct usched *s);' \
	>"$tree/usched.h"
printf '%s\n' '/* part */' 'int part(void)' '{' '}' >"$tree/core/part.h"
printf '1\n2\n3\n' >"$tree/test/a.c"
printf 'all:\n' >"$tree/Makefile"
echo 'int w;' >"$tree/lib/steal/ws.h"
{
	echo 'void w(void)'; echo '{'
	yes '	w();' | head -n 40
	echo '}'
} >"$tree/lib/steal/ws.c"
printf '%s\n' '# It is' '```' 'it it it' '```' '| it |' >"$tree/README.md"
cat >"$dir/expected" <<'END'
this tree
entries at the top 8
usched.c: lines 21
usched.c: lines of code, of comment 12, 5
usched.h: lines 3
usched.[ch], core/: lines of code, of comment 16, 7
ws.[ch] and parts: lines of code, of comment 44, 0
functions of usched.[ch], core/: median, p90, max, over 35 5, 6, 6, 0
functions of ws.[ch] and parts 43, 43, 43, 1
functions of the library 5, 43, 43, 1
library: lines of code, of comment 60, 7
test/: lines 3
bench/: lines 0
Makefile: lines 1
usched.h: line of usched_run() 3
README.md: lines 5
words of usched.[ch], core/: one, it, who, nobody, he in a thousand 24: 83.3, 83.3, 41.7, 41.7, 41.7
words of the library 24: 83.3, 83.3, 41.7, 41.7, 41.7
words of documents 2: 0.0, 500.0, 0.0, 0.0, 0.0
END
sh "$tree/doc/measure.sh" | sed 's/^ *//;s/   */ /' | diff "$dir/expected" -
