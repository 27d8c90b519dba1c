#!/bin/sh
# SPDX-License-Identifier: MIT
# all.sh: measures all that a folder of results has, and makes the folder.
#
# usage: all.sh [TREE [OPTION OF bench.sh]...]
#
# TREE is another tree of usched, with which the library is compared, in turn;
# none if it is empty. Without options they are --full --limit 150. The name of
# the folder is the date, the machine and the commit:
#
#	ring.txt ring.log	lines of bench.sh, and why cells are empty
#	ring.md spread.md ring.svg	graph.py of them
#	slide.svg slide.txt	one panel of it, by slide.py
#	targets.md readme.md	what was wanted; the table of README.md
#	fork.txt fork.md	forks and joins, ours and peers, by fork.py
#	speedup.md		two native threads to one, by speedup.py

cd "$(dirname "$0")/../.." || exit 1
tree=${1:-}
if [ $# -gt 0 ]; then shift; fi
if [ $# = 0 ]; then set -- --full --limit 150; fi
against=${tree:+--against build/against}
pairs=9 forks='--runs 5'
case " $* " in
*' --short '*) pairs=1 forks='--short --runs 1';;
esac

make -s timed ${tree:+"AGAINST=$tree"} || exit 1
to=bench/results/$(date -u +%Y-%m-%d)-$(./bench.sh --machine)-$(
	git rev-parse --short HEAD) || exit 1
mkdir -p "$to" || exit 1
results=bench/results
# shellcheck disable=SC2086 # words
./bench.sh "$@" $against >"$to/ring.txt" 2>out/ring.log || exit 1
grep -v ': run [0-9]* of' out/ring.log >"$to/ring.log"
python3 graph.py "$to/ring.svg" "$to/ring.txt" >"$to/ring.md"
python3 $results/slide.py "$to/slide.svg" "$to/ring.txt" >"$to/slide.txt"
python3 graph.py --spread "$to/ring.txt" >"$to/spread.md"
python3 $results/targets.py "$to/ring.txt" >"$to/targets.md"
python3 $results/readme.py "$to/ring.txt" >"$to/readme.md"
# shellcheck disable=SC2086 # words
python3 $results/fork.py $forks $against --raw "$to/fork.txt" >"$to/fork.md"
# shellcheck disable=SC2086 # words
python3 $results/speedup.py $against $pairs 'batches 500000 1000' \
	'empty 500000' 'uts T1 8' 'fib 33 10' skynet \
	'tree 31 64516' 'powser 1200' >"$to/speedup.md"
ls "$to"/*
