#!/bin/sh
# SPDX-License-Identifier: MIT
# tested.sh: the table of doc/tested.md names each test once: scripts by their
# names, programs by a pattern. Each name is that of a test, and its row says
# when it runs first, as test/rules.mk has it. Planted errors are found.

cd "$(dirname "$0")/../.." || exit 1
. test/run/count
unset MAKEFLAGS

# Prints "NAME WHEN" for each name in the third column, WHEN the fourth.
named() { # text
	awk -F'|' '/^\| / && $4 ~ /`/ {
		n = split($4, name, /[` ]+/)
		gsub(/ /, "", $5)
		for (i = 1; i <= n; i++)
			if (name[i] != "")
				print name[i], $5
	}' "$1"
}

# Prints "NAME WHEN" for each script. What make test runs, make check runs, too.
scripts() {
	${MAKE:-make} -s --eval 'tested_sh: ; @echo $(DOCS) $(SHORT)' tested_sh |
		tr ' ' '\n' | sed -n "s,^test/.*/\(.*\.sh\)\$,\1,p" >"$dir/short"
	for script in test/*/*.sh test/*/*/*.sh; do
		script=${script##*/}
		case $script in
		run.sh)		continue ;;
		elsewhere.sh)	echo "$script hand" ;;
		*)		if grep -qx "$script" "$dir/short"; then
					echo "$script test"
				else
					echo "$script check"
				fi ;;
		esac
	done
}

wrong() { # text
	named "$1" | grep '\.sh ' | sort >"$dir/named"
	diff "$dir/named" "$dir/there" | sed -n 's/^</in the text:/p
		s/^>/in the tree:/p'
	# Each program has one pattern.
	named "$1" | sed -n 's/ test$//; /\*/p' >"$dir/patterns"
	for program in $(grep -l '^/. VARIANTS: ' test/*/*.c test/*/*/*.c); do
		nr=0
		while read -r pattern; do
			# shellcheck disable=SC2254 # a pattern
			case ${program#test/} in $pattern) nr=$((nr + 1)) ;; esac
		done <"$dir/patterns"
		[ $nr = 1 ] || echo "$program has $nr patterns"
	done
}

planted() { # what, sed script
	sed "$2" doc/tested.md >"$dir/text"
	[ "$(wrong "$dir/text")" ] || fail "not seen: $1" && pass
}

scripts | sort >"$dir/there"
empty 'doc/tested.md' "$(wrong doc/tested.md)"
[ "$(wc -l <"$dir/there")" -gt 40 ]
judge $? 'scripts'
planted 'a script that is not named' 's/`tiny.sh`//'
planted 'a script that is not there' 's/`tiny.sh`/`tiny.sh` `none.sh`/'
planted 'a script twice' 's/`tiny.sh`/`tiny.sh` `tls.sh`/'
planted 'a wrong time' '/`chaos.sh`/s/| test |/| check |/'
planted 'programs without a pattern' '/`core/d'
counted
