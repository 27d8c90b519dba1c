#!/bin/sh
# SPDX-License-Identifier: MIT
# workflow.sh: the workflow for GitHub, which never ran, is YAML, says that it
# never ran, has a job for each system that it names, and runs commands that
# exist here. Planted errors are found.

cd "$(dirname "$0")/../.." || exit 1
. test/run/count
have python3 && python3 -c 'import yaml' 2>/dev/null ||
	{ echo 'no YAML for python3 (package python3-yaml)'; exit 77; }

# Prints what is wrong.
wrong() { # file
	grep -q '^# NEVER RUN YET' "$1" || echo 'it does not say that it never ran'
	python3 - "$1" <<-'END' || echo 'it cannot be read'
	import os, re, sys, yaml
	jobs = yaml.safe_load(open(sys.argv[1]))["jobs"]
	rules = open("test/rules.mk").read() + open("pack/rules.mk").read()
	for name in ("linux", "macos", "freebsd", "nightly"):
	    if name not in jobs:
	        print("no job", name)
	for name, job in jobs.items():
	    runs = [s.get("run") or s.get("with", {}).get("run")
	            for s in job["steps"]]
	    runs = [r for r in runs if r and "apt-get" not in r]
	    if not runs or "timeout-minutes" not in job:
	        print(name, "runs nothing, or has no limit")
	    for run in runs:
	        word = run.split()
	        if word[0] == "make":
	            if not re.search(r"^%s:" % word[1], rules, re.M):
	                print(name, "no target", word[1])
	        elif not os.access(word[1], os.X_OK):
	            print(name, "no script", word[1])
	END
}

planted() { # what, sed script
	sed "$2" $file >"$dir/planted.yml"
	[ "$(wrong "$dir/planted.yml" 2>/dev/null)" ] || fail "not seen: $1" && pass
}

file=.github/workflows/test.yml
empty "$file" "$(wrong $file)"
planted 'it says that it ran' 's/NEVER RUN YET/RAN/'
planted 'no such script' 's/elsewhere.sh/nowhere.sh/'
planted 'no such target' 's/make check-all/make all-of-it/'
planted 'a job less' 's/^  macos:/  windows:/'
planted 'no limit' '/timeout-minutes/d'
planted 'no YAML' 's/^jobs:/jobs: [/'
counted
