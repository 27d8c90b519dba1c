#!/bin/sh
# SPDX-License-Identifier: MIT
# law.sh: the tests find broken checks of the law (core/law.h, core/guard.h).
# With each block of each lone thread checked, or its lane shut at many, tests of
# the core pass, too.
#
#	test/debug/law.sh [--full]
#
# With --full all programs of the tests pass so, and the programs of the
# documents and examples: none is accused. CC is the compiler, CFLAGS are more
# options for it.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
. test/run/mutants

flags="-std=gnu11 -O1 -g -w $includes -I$PWD/test/run $CFLAGS"
for module in $modules; do
	${CC:-cc} $flags -c "$(where $module.c)" -o "$dir/$module.o" || exit 1
done

# The tests over a library whose parts lie in $dir/tree. 2: it does not compile.
passes() { # more options
	for test in law_orders law core_gen; do
		objects= source=$(test_of $test)
		[ $test != law ] || objects="$dir/*.o"
		(cd "$dir/tree" && ${CC:-cc} $flags $1 -DRR "$OLDPWD/$source" \
			usched.c $objects -o "$dir/program" -pthread -lm) >"$dir/log" 2>&1 ||
			return 2
		"$dir/program" 7 >"$dir/log" 2>&1 || return 1
	done
}

tries() { # tests, file
	copy_tree "$dir/tree" && cp "$dir/broken" "$dir/tree/$2" && passes
	rc=$?
	[ $rc != 2 ] || status='does not compile'
	return $((rc == 1))
}

# No lawful program is accused, though each block of a lone thread is checked (1),
# or its lane is shut at each sixteenth (2).
storm() { # which
	storm=-DUSCHED_LAW_STORM=$1
	names=$(make -s programs)
	# shellcheck disable=SC2046,SC2086 # names
	make -s -j"$(getconf _NPROCESSORS_ONLN)" CC="${CC:-cc}" O=-O1 \
		CFLAGS="$CFLAGS $storm" B="$dir/storm" \
		$(printf "$dir/storm/test/%s " $names) >"$dir/log" 2>&1
	judge $? 'the storm compiles' "$dir/log" || return
	# shellcheck disable=SC2046,SC2086 # names
	LIBRARY=$dir/storm/libusched.a test/run/run.sh \
		$(printf "$dir/storm/test/%s " $names) >"$dir/said"
	tally
	for script in house/guide examples/examples; do
		CFLAGS="$CFLAGS $storm" sh test/$script.sh >"$dir/said" 2>&1
		tally
	done
}

# Adds the counts of the last line of $dir/said.
tally() {
	# shellcheck disable=SC2046 # three numbers
	set -- $(tail -n 1 "$dir/said" | tr -dc '0-9 ') 0
	grep -A 20 '^FAIL' "$dir/said"
	passed=$((passed + ${1:-0})) skipped=$((skipped + ${3:-0}))
	failed=$((failed + ${2:-1}))
}

[ "$1" != --full ] || { storm 1; storm 2; }
try 'the tests pass' eval 'copy_tree "$dir/tree" && passes'
try 'each block checked' eval 'copy_tree "$dir/tree" && passes -DUSCHED_LAW_STORM=1'
try 'lanes shut at many' eval 'copy_tree "$dir/tree" && passes -DUSCHED_LAW_STORM=2'
while IFS='|' read -r what file change; do
	broken "$what" 'law_orders law core_gen' "$file" "$change"
done <<'END'
no compare|core/law.h|s/at = law_look(l, u);/at = NULL;/
nothing filled|core/law.h|s/= LAW_FILL;$/= *(uintptr_t *)at;/
a trim is not noted|core/memory.h|s/if (l->l_sole)$/if (0)/
a place is not cleared|core/law.h|s/--at = 0;/--at;/
a lane waits for ever|core/law.h|s/^	l->l_sole = 0;//
only the first block|core/law.h|s/u->u_top = top + TOP;/u->u_top = top;/
only the first threads|core/law.h|s/l->l_law++;/;/
lanes are not lent|core/law.h|s/^	lent_add(/	if (0) lent_add(/
generators are checked|core/law.h|s/if (s->s_coroutine)/if (0)/
a warning changes the stack|core/law.h|s/copy(u->u_stack, top/(void)(u->u_stack, top/
no explanation|core/guard.h|s/if (!found \&\& v == NULL)/if (1)/
a place without a name|core/law.h|s/\*(struct ustack \*\*)at = u;/*(uintptr_t *)at = LAW_FILL;/
native threads are passed on|core/guard.h|s/si_code > 0) {/si_code > 0 \&\& u) {/
only the word itself|core/guard.h|s/define NEAR.*/define NEAR 1/
lanes of others are not searched|core/law.h|s/__atomic_store_n(&lent.i..t_lane.*/;/
the only place has no name|core/guard.h|s/v = law_left_only();/;/
no lane is shut|core/law.h|s/if (law_shuts(l))/if (0)/
a lane stays shut|core/law.h|s/^	if (l->l_shut)$/	if (0)/
a lane is shut with a limit of data|core/law.h|s/data.rlim_cur == RLIM_INFINITY/1/
its thread has no name|core/guard.h|s/^	return l->l_shut .*/	return NULL;/
the first lanes alone|core/law.h|s/^	law_fill(l, u);/	;/
the handler stays|core/guard.h|s/(void)signal(SIGSEGV, SIG_DFL);/;/
USCHED_GUARD is read late|core/memory.h|s/(void)guard_off();/;/
USCHED_GUARD is read again|core/guard.h|s/if (how == GUARD_UNREAD) {/if (1) {/
any handler is replaced|core/guard.h|s/!guard_off() \&\& handles(NULL)/!guard_off()/
END
counted
