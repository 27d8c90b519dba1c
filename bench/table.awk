# SPDX-License-Identifier: MIT
# table.awk: tables of what bench.sh has measured, where there is no python3.
#
# usage: awk -f bench/table.awk bench/results/readme.py LINES
#
# There is a table for each N, with a row for each column of bench.sh that has a
# figure, and at the end the names of the others. A row is called as in README.md,
# by readme.py; if it is not there, by its program.

BEGIN {
	FS = ", *"
	head["hot"]   = "hot: a thread that is woken runs next"
	head["cold"]  = "cold: all threads take turns"
	head["mixed"] = "mixed: their systems choose"
	us["rmain"] = "rr"; us["lmain"] = "ll"; us["wmain"] = "ws"
}

FNR == NR {				# readme.py:   "label": "COLUMN"
	if (/": "[A-Z0-9+]+"[,}]/) {
		split($0, part, "\"")
		sub(/[{]BY_HAND[}]/, "by hand", part[2])
		label[part[4]] = part[2]
	}
	next
}

/^# [A-Z0-9+]+: (hot|cold|mixed), / {	# # NAME: hot, PROGRAM N R M D P
	split($1, part, /[ :]+/)
	name = names[++names_nr] = part[2]
	kind[name] = part[3]
	if (!(name in label))
		label[name] = by_program($2)
}

/^#/	{ next }
	{ sub(/^ */, ""); $0 = $0 }

$1 == "N" || $2 == "NR" {
	split($0, title)
	next
}

$1 == "blocked" {
	for (i = 3; i <= NF; i++)
		if ($i > 0)
			bytes[title[i]] = bytes[title[i]] " " $i / $2
}

$1 + 0 > 0 {
	if (!($1 in rings))
		sizes[++sizes_nr] = $1
	if (!(($1, $2) in seen))
		rings[$1] = rings[$1] " " $2
	seen[$1, $2] = 1
	for (i = 4; i <= NF; i++)
		if ($i > 0)
			rate[title[i], $1, $2] = rate[title[i], $1, $2] " " \
				$1 * $2 * $3 / $i / 1e6
}

END {
	for (k = 1; k <= sizes_nr; k++)
		table(sizes[k])
	for (i = 1; i <= names_nr; i++)
		if (!(names[i] in shown))
			missing = missing " " names[i]
	if (missing != "")
		print "\nno figures of" missing
}

function by_program(command,	part, text) {
	split(command, part, " ")
	sub(/.*[\/]/, "", part[1])
	text = part[1] in us ? "usched, " us[part[1]] : part[1]
	if (part[5] > 0)
		text = text ", +" part[5] " bytes"
	return part[6] > 1 ? text ", " part[6] " cpus" : text
}

function table(n,	nr, r, i, h, kinds) {
	printf "\nmillions of messages a second in rings of %d, higher is better;\n" \
		"bytes of a blocked thread, lower is better; medians\n\n", n
	nr = split(rings[n], r, " ")
	printf "%-46s", "threads in all"
	for (i = 1; i <= nr; i++)
		printf "%8d", n * r[i]
	print "   bytes"
	split("hot cold mixed", kinds, " ")
	for (h = 1; h <= 3; h++)
		group(kinds[h], n, nr, r)
}

function group(which, n, nr, r,	i, some) {
	for (i = 1; i <= names_nr; i++)
		if (kind[names[i]] == which && has(names[i], n, nr, r)) {
			if (!some++)
				print head[which]
			row(names[i], n, nr, r)
		}
}

function has(name, n, nr, r,	i) {
	for (i = 1; i <= nr; i++)
		if ((name, n, r[i]) in rate)
			return 1
	return 0
}

function row(name, n, nr, r,	i) {
	shown[name] = 1
	printf "  %-36s%-8s", label[name], name
	for (i = 1; i <= nr; i++)
		printf "%s", cell(middle(rate[name, n, r[i]]))
	print cell(middle(bytes[name]))
}

function cell(value) {
	if (value == "")
		return "       -"
	return sprintf(value < 10 ? "%8.2f" : value < 100 ? "%8.1f" : "%8.0f", value)
}

# Returns the median of numbers with spaces between.
function middle(list,	nr, part, i, j, t) {
	nr = split(list, part, " ")
	for (i = 2; i <= nr; i++)
		for (j = i; j > 1 && part[j] + 0 < part[j - 1] + 0; j--) {
			t = part[j]
			part[j] = part[j - 1]
			part[j - 1] = t
		}
	return nr > 0 ? part[int((nr + 1) / 2)] : ""
}
