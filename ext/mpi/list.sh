#!/bin/sh
# SPDX-License-Identifier: MIT
# list.sh: prints the list of calls in README.md, from the table in calls.h.
# Calls with a number of elements stand for their large forms, too.

cd "$(dirname "$0")" || exit 1
awk '
	function add(kind, name) { list[kind] = list[kind] " " name }
	/^[A-Z_]+\([A-Z][A-Za-z_]*[,)]/ {
		split($0, part, /[(,) ]+/)
		kind = part[1]; name = part[2]
		if (seen[kind name]++)
			next
		if (kind == "SENDS" || kind == "WAITS" || kind == "MESSAGE" ||
		    kind == "COLLECTIVE" || kind == "BOTH_FORMS")
			add("form", name)
		else if (kind == "OUTSIDE")
			add("beside", name)
		else if (kind == "TESTS")
			add("tests", name)
		else if (kind == "LEFT")
			add("left", name)
		else
			add("looks", name)
	}
	function row(kind, how,		n, i, names, line) {
		print "\n" how "\n"
		n = split(list[kind], names, " ")
		line = "\t" names[1]
		for (i = 2; i <= n; i++) {
			if (length(line " " names[i]) > 72) {
				print line
				line = "\t" names[i]
			} else
				line = line " " names[i]
		}
		print line
	}
	END {
		row("form", "By the form that does not block, at each thread level:")
		row("beside", "By a native thread beside, with `MPI_THREAD_MULTIPLE`:")
		row("tests", "Give way after eight calls in a row without an answer:")
		row("looks", "Do not block, but have their buffers looked at, as " \
		    "have the forms\nof collectives that begin with I, or end " \
		    "with _init:")
		row("left", "Stop the processor, and say so once:")
	}' calls.h
