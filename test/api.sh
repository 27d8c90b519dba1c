#!/bin/sh
# SPDX-License-Identifier: MIT
# api.sh: doc/api.md has a line for each function of the installed headers, as
# the headers tell it now, and each function has a comment. All functions that
# the library exports and an installed header declares are in api.md, unless a
# comment says "Not API". What is planted in a header is seen.

cd "$(dirname "$0")/.." || exit 1
. test/layout
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0

must() { # what, output that should be empty
	if [ -z "$2" ]; then
		passed=$((passed + 1))
	else
		printf 'FAIL  %s:\n%s\n' "$1" "$2"
		failed=$((failed + 1))
	fi
}

# Functions that are in the library, are declared in a header, and are not told.
untold() {
	for source in usched.c rr.c ll.c wait/*.c io/*.c proc/*.c steal/*.c extra/*.c; do
		${CC:-cc} -std=gnu11 $includes -c "$source" -o "$dir/o" &&
			nm -g --defined-only "$dir/o"
	done | awk '$2 == "T" { print $3 }' | sort -u |
	while read -r name; do
		grep -q "^| .*[ *]$name(" doc/api.md && continue
		grep -qx "$name" "$dir/not" && continue
		grep -q "^[a-z].*[ *]$name(" $headers && echo "$name"
	done
}

headers=$(sh doc/api.sh --headers)
sh doc/api.sh >"$dir/api.md"
sh doc/api.sh --not >"$dir/not"
must 'out of date: sh doc/api.sh >doc/api.md' "$(diff doc/api.md "$dir/api.md")"
must 'functions without a comment' "$(sh doc/api.sh --check)"
must 'lines' "$([ "$(grep -c '^| `' doc/api.md)" -gt 100 ] || echo 'too few')"
must 'exported, but not told' "$(untold)"

cat >"$dir/planted.h" <<'END'
/* SPDX-License-Identifier: MIT */
/* planted.h: a header. */

/* A struct. */
struct planted {
	int (*p_inner)(void);	/* not a function */
};

/*
 * Plants n trees. Returns how many
 * there are.
 */
#if defined(__GNUC__)
__attribute__((cold, nonnull(1)))
#endif
int *planted_trees(struct planted *p,
		   void (*f)(void *), int n);

/* Not API. */
int planted_hidden(void);

int planted_bare(void);

/* Waters it; a|b. */
static __inline__ void planted_water(int a)
{
	if (a)
		planted_hidden();
}
END
cat >"$dir/expected" <<'END'
| `int *planted_trees(struct planted *p, void (*f)(void *), int n)` | Plants n trees. |
| `int planted_bare(void)` |  |
| `void planted_water(int a)` | Waters it; a\|b. |
END
must 'planted' "$(HEADERS=$dir/planted.h sh doc/api.sh | grep '^| `' |
	diff "$dir/expected" -)"
must 'planted without a comment' "$(HEADERS=$dir/planted.h sh doc/api.sh --check |
	grep -vx 'planted.h: planted_bare'
	HEADERS=$dir/planted.h sh doc/api.sh --check | grep -q . || echo missed)"
must 'planted, not API' "$(HEADERS=$dir/planted.h sh doc/api.sh --not |
	grep -vx planted_hidden)"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
