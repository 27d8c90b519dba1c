# SPDX-License-Identifier: MIT
# single.awk: prints a file, with the files of core/ that it includes in it.
#
#	awk -v file=usched.c -f core/single.awk
#
# From the top of the tree. Left out is what only a tree needs: the look for
# core/, and in each part the licence and the include of usched.h.

function folder(path) {
	sub(/[^\/]*$/, "", path)
	return path
}

# Reads path. Prints it, unless it is a part that was printed before.
function put(path, part,	line, name, depth, nr) {
	while ((getline line < path) > 0) {
		nr++
		if (depth || line ~ /^#if .*\/\* in the tree only \*\//) {
			depth += (line ~ /^#if/) - (line ~ /^#endif/)
			continue
		}
		if (part && (line ~ /^\/\* SPDX/ || line ~ /^#include "\.\.\/usched.h"/))
			continue
		name = line
		if (!sub(/^#include "/, "", name) || !sub(/".*/, "", name) ||
		    (name !~ /^core\// && !part) || name ~ /\.\.\//) {
			print line
			continue
		}
		name = folder(path) name
		if (!seen[name]++)
			put(name, 1)
	}
	close(path)
	if (!nr) {
		print "single.awk: cannot read " path >"/dev/stderr"
		failed = 1
	}
}

BEGIN {
	put(file, 0)
	exit failed
}
