#!/bin/sh
# SPDX-License-Identifier: MIT
# measure.sh: doc/measure.sh counts what it says, in a small tree.

cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
tree=$dir/tree
mkdir -p "$tree/doc" "$tree/steal" && cp doc/measure.sh "$tree/doc" || exit 1

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
echo 'int w;' >"$tree/steal/ws.h"
{
	echo 'void w(void)'; echo '{'
	yes '	w();' | head -n 40
	echo '}'
} >"$tree/steal/ws.c"
printf '%s\n' '# It is' '```' 'it it it' '```' '| it |' >"$tree/README.md"
cat >"$dir/expected" <<'END'
this tree
entries at the top 5
usched.[ch]: lines of code, of comment 13, 6
ws.[ch]: lines of code, of comment 44, 0
functions of usched.[ch]: median, p90, max, over 35 5, 6, 6, 0
functions of ws.[ch] 43, 43, 43, 1
functions of the library 6, 43, 43, 1
usched.h: line of usched_run(), lines 3, 3
README.md: lines 5
words of usched.[ch]: one, it, who, nobody, he in a thousand 23: 87.0, 87.0, 43.5, 43.5, 43.5
words of the library 23: 87.0, 87.0, 43.5, 43.5, 43.5
words of documents 2: 0.0, 500.0, 0.0, 0.0, 0.0
END
sh "$tree/doc/measure.sh" | sed 's/^ *//;s/   */ /' | diff "$dir/expected" -
