#!/bin/sh
# SPDX-License-Identifier: MIT
# commits.sh: the subject of each commit says what changed: it has at most 72
# characters and more than a word ("fix", "wip"), and no period ends it. Looked at
# are the commits that descend from the commit that added this script. What git has
# written, for a merge or a revert, passes. Planted commits are found. A release has
# no history, and a shallow clone a part of it: skipped.

cd "$(dirname "$0")/../.." || exit 1
. test/run/count

# For each commit of a repository since the script was added:
# "COMMIT <tab> PARENTS <tab> SUBJECT".
subjects() { # repository, path of the script
	added=$(git -C "$1" log --follow --diff-filter=A --format=%H -- "$2" | tail -n 1)
	[ -n "$added" ] && git -C "$1" log --ancestry-path \
		--format='%h%x09%p%x09%s' "$added..HEAD"
}

# Prints the commits whose subject is wrong, and why.
wrong() {
	awk -F'\t' '
	function why(subject,	chars) {
		chars = subject
		gsub(/[\200-\277]/, "", chars)	# of UTF-8, all bytes but the first
		if (subject ~ /^[ \t]*$/)
			return "no subject"
		if (length(chars) > 72)
			return length(chars) " characters"
		if (subject ~ /\.$/)
			return "a period"
		return subject ~ /[ \t]/ ? "" : "only a word"
	}
	{
		subject = $0
		sub(/^[^\t]*\t[^\t]*\t/, "", subject)
		if ($2 ~ / / && subject ~ /^Merge / || subject ~ /^Revert "/)
			next
		if ((is = why(subject)) != "")
			print $1 ": " is ": " subject
	}'
}

# What a history lacks, if the commits cannot be looked at.
lacking() {
	have git || { echo 'no git'; return; }
	[ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ] ||
		{ echo 'no history of git'; return; }
	[ ! -e "$(git rev-parse --git-path shallow)" ] ||
		{ echo 'a shallow clone'; return; }
	[ -n "$(git ls-files "$script")" ] &&
		[ -n "$(git log -n 1 --format=%h -- "$script" 2>/dev/null)" ] ||
		echo "$script is in no commit"
}

script=test/house/${0##*/}
lacks=$(lacking)
[ -z "$lacks" ] || { skip "commits: $lacks"; counted; }
subjects . "$script" >"$dir/subjects"
judge $? 'the commit that added this script'
empty 'subjects of commits' "$(wrong <"$dir/subjects")"

# Planted commits, in a repository of its own.
in_repo() { # argument of git ...
	git -C "$dir/repo" -c user.name=test -c user.email=test@localhost \
		-c commit.gpgsign=false -c core.hooksPath=/dev/null "$@" >/dev/null 2>&1
}

commit() { # subject
	in_repo commit --allow-empty --allow-empty-message --cleanup=verbatim -m "$1"
}

sees() { # how many are wrong, what
	subjects "$dir/repo" test/new.sh | wrong >"$dir/seen"
	[ "$(wc -l <"$dir/seen")" -eq "$1" ]
	judge $? "not $1 seen: $2" "$dir/seen"
}

planted() { # how many are wrong, subject
	commit "$2" || fail "no commit: $2"
	sees "$1" "$2"
	in_repo reset -q --hard HEAD^
}

long=$(printf '%072d' 0 | sed 's/^00/x /')
mkdir "$dir/repo" "$dir/repo/test" && in_repo init -q && commit old. &&
	cp "$script" "$dir/repo/test/old.sh" && in_repo add test/old.sh &&
	commit 'add it.' && in_repo mv test/old.sh test/new.sh && commit 'move it'
judge $? 'a repository'
sees 0 'commits up to that which adds the script, under an older name'
planted 0 "$long"
planted 1 "${long}x"
planted 0 "$(echo "$long" | sed "s/00$/$(printf '\303\244\303\244')/")"
planted 1 'lib: names a file.'
planted 1 ''
for word in fix WIP update temp; do
	planted 1 "$word"
done
planted 0 "Revert \"$long\""
planted 1 "Merge branch '$long'"
in_repo checkout -q -b "side-${long#x }" && commit 'of a side' &&
	in_repo checkout -q - && commit 'of the trunk' &&
	in_repo merge -q --no-edit "side-${long#x }"
judge $? 'a merge'
sees 0 'a merge by git'
[ "$(subjects "$dir/repo" test/new.sh | wc -l)" = 4 ]
judge $? 'commits of both sides of a merge'
counted
