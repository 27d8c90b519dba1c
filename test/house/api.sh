#!/bin/sh
# SPDX-License-Identifier: MIT
# api.sh: doc/api.md has a row for each function of the installed headers, made
# from the prototype's own comment as it is now. Each function has such a
# comment, no two rows have the same text, and none needs the row above it. All
# functions that the library exports and an installed header declares are in
# api.md, unless a comment says "Not API". What is planted in a header is seen.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

# Functions that are in the library, are declared in a header, and are not told.
untold() {
	for source in $(cat sources); do
		${CC:-cc} -std=gnu11 $includes -c "$source" -o "$dir/o" &&
			nm -g --defined-only "$dir/o"
	done | awk '$2 == "T" { print $3 }' | sort -u |
	while read -r name; do
		grep -q "^| .*[ *]$name(" doc/api.md && continue
		grep -qx "$name" "$dir/not" && continue
		grep -q "^[a-z].*[ *]$name(" $headers && echo "$name"
	done
}

# Prints the texts that two rows have.
same() { # document
	sed -n 's/^| `.*` | //p' "$1" | sort | uniq -d
}

# Prints rows whose text begins with a pronoun, or ends with "this", "that".
leaning() { # document
	grep -E -e '` \| (These|This|That|It|The same|Ends (this|that)|Does the same)\b' \
		-e '\b(this|that|these|those)\. \|$' "$1"
}

headers=$(sh doc/api.sh --headers)
sh doc/api.sh >"$dir/api.md"
sh doc/api.sh --not >"$dir/not"
empty 'out of date: sh doc/api.sh >doc/api.md' "$(diff doc/api.md "$dir/api.md")"
empty 'functions without a comment' "$(sh doc/api.sh --check)"
empty 'rows with the same text' "$(same doc/api.md)"
empty 'rows that need the row above' "$(leaning doc/api.md)"
empty 'lines' "$([ "$(grep -c '^| `' doc/api.md)" -gt 100 ] || echo 'too few')"
empty 'exported, but not told' "$(untold)"

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

/* Hides these. Not API: this is a sentence. */
int planted_twin(void);
int planted_second_twin(void);

/* planted_sun() shines. planted_moon() waxes, and
 * wanes. */
void planted_sun(void);
void planted_moon(void);

/* A seed; the function of the same name makes it. */
struct planted_seed {
	int s_size;
};

struct planted_seed planted_seed(int size);

/* FOR SCHEDULERS of trees */

/* Waters it; a|b. */
void planted_again(void);

/* OTHER PLANTS */

/* For modules: these. */
void planted_module(void);
END
cat >"$dir/expected" <<'END'
## For programs
| `int *planted_trees(struct planted *p, void (*f)(void *), int n)` | Plants n trees. |
| `int planted_bare(void)` |  |
| `void planted_water(int a)` | Waters it; a\|b. |
| `int planted_twin(void)` | Hides these. |
| `int planted_second_twin(void)` |  |
| `void planted_sun(void)` | planted_sun() shines. |
| `void planted_moon(void)` | planted_moon() waxes, and wanes. |
| `struct planted_seed planted_seed(int size)` | A seed; the function of the same name makes it. |
## For schedulers and modules
| `void planted_again(void)` | Waters it; a\|b. |
| `void planted_module(void)` | For modules: these. |
END
HEADERS=$dir/planted.h sh doc/api.sh >"$dir/planted.md"
empty 'planted' "$(grep -E '^(\| `|## )' "$dir/planted.md" | diff "$dir/expected" -)"
empty 'planted without a comment' "$(HEADERS=$dir/planted.h sh doc/api.sh --check |
	tr '\n' ' ' | grep -vx \
	'planted.h: planted_bare planted.h: planted_second_twin ')"
empty 'planted, the same text' "$(same "$dir/planted.md" | grep -vxE \
	' \||Waters it; a\\\|b. \|' ; [ "$(same "$dir/planted.md" | wc -l)" = 2 ] ||
	echo missed)"
empty 'planted, leaning' "$([ "$(leaning "$dir/planted.md" | wc -l)" = 2 ] ||
	echo missed)"
empty 'planted, not API' "$(HEADERS=$dir/planted.h sh doc/api.sh --not |
	grep -vx planted_hidden)"
counted
