# SPDX-License-Identifier: MIT
# messages.awk: prints the text of each message in a C file, one a line. Values
# are left out.

{ all = all $0 "\n" }

# Prints the literals of the first argument that has some.
function message(at,	i, c, depth, quoted, text)
{
	depth = 1
	for (i = 1; i <= length(at) && depth > 0; i++) {
		c = substr(at, i, 1)
		if (quoted && c == "\\")
			text = text substr(at, ++i, 1)
		else if (c == "\"")
			quoted = !quoted
		else if (quoted)
			text = text c
		else if (c == "(")
			depth++
		else if (c == ")")
			depth--
		else if (c == "," && text != "" && depth == 1)
			break
	}
	gsub(/%l*[a-z]/, "", text)
	if (text ~ /[ :]/)
		print text
}

END {
	calls = "(usched_fail|usched_message|usched_last_message|uproc_fail|CONTRACT)[(]|" \
		"message_add[(](m, \"%s: |&m, \": %s )"
	while (match(all, calls)) {
		all = substr(all, RSTART)
		all = substr(all, index(all, "(") + 1)
		message(all)
	}
}
