#!/bin/sh
# SPDX-License-Identifier: MIT
# messages.sh: each message of the library has a row in "Messages" of
# doc/guide.md, and each row is that of a message. A planted message, and a
# planted row, are found. So is each variable of the environment a row of
# "In the environment".

cd "$(dirname "$0")/../.." || exit 1
. test/run/count

sources() {
	ls usched.c rr.[ch] ll.[ch] core/*.h core/machine/*.h lib/*/*.[ch] \
		ext/view/*.[ch] ext/wrap/*.[ch] ext/mpi/*.[ch] ext/move/*.[ch]
}

messages() { # files
	for file; do
		awk -f test/house/messages.awk "$file"
	done | sort -u
}

# Prints the parts of each row that must stand in a message, in this order.
rows() { # text
	sed -n '/^### Messages/,/^## /s/^| `\([^`]*\)` |.*/\1/p' "$1" |
		sed 's/\<rr_//g'
}

# Prints messages without a row, and rows without a message.
differ() { # messages, rows
	awk '
	# The first part stands at the beginning, unless "..." comes before.
	function is(row, text,	part, n, i, at)
	{
		n = split(row, part, /\.\.\./)
		if (index(text, part[1]) != 1 && part[1] != "")
			return 0
		for (i = 1; i <= n; i++) {
			gsub(/^ +| +$/, "", part[i])
			at = index(text, part[i])
			if (part[i] != "" && at == 0)
				return 0
			if (part[i] != "")
				text = substr(text, at + length(part[i]))
		}
		return 1
	}
	NR == FNR { row[++rows] = $0; next }
	{
		found = 0
		for (i = 1; i <= rows; i++)
			if (is(row[i], $0))
				used[i] = found = 1
		if (!found)
			print "no row: " $0
	}
	END {
		for (i = 1; i <= rows; i++)
			if (!used[i])
				print "no message: " row[i]
	}' "$2" "$1"
}

messages $(sources) >"$dir/messages"
rows doc/guide.md >"$dir/rows"
empty 'few messages are found' "$([ "$(wc -l <"$dir/messages")" -gt 60 ] || echo x)"
empty 'messages and rows' "$(differ "$dir/messages" "$dir/rows")"

cat >"$dir/planted.c" <<'END'
	usched_message("%sfini: %ld "
		       "were planted", name, nr);
END
messages $(sources) "$dir/planted.c" >"$dir/more"
empty 'a planted message is not seen' "$([ "$(differ "$dir/more" "$dir/rows" |
	grep -c 'no row: fini:  were planted')" = 1 ] || echo x)"
{ cat "$dir/rows"; echo 'nothing says this'; } >"$dir/more"
empty 'a planted row is not seen' "$([ "$(differ "$dir/messages" "$dir/more")" = \
	'no message: nothing says this' ] || echo x)"
variables() { # files
	sed -n 's/.*\(getenv(\|\.e_name *= \)"\(USCHED[A-Z_]*\)".*/\2/p' "$@" | sort -u
}

described() {
	sed -n '/^## In the environment/,/^## /s/^| `\(USCHED[A-Z_]*\).*/\1/p' doc/guide.md | sort
}

variables $(sources) >"$dir/variables"
described >"$dir/described"
empty 'variables and rows' "$(diff "$dir/variables" "$dir/described")"
for planted in 'getenv("USCHED_PLANTED")' '	.e_name = "USCHED_PLANTED",'; do
	echo "$planted" >"$dir/planted.c"
	empty 'a planted variable is not seen' "$(variables "$dir/planted.c" |
		diff - "$dir/described" | grep -q PLANTED || echo x)"
done
counted
