#!/bin/sh
# SPDX-License-Identifier: MIT
# all.sh: measures all that a folder of results has, and makes the folder.
#
# usage: all.sh [TREE [OPTION OF bench.sh]...]
#
# TREE is another tree of usched, with which the library is compared, in turn;
# none if it is empty. Without options they are --full --limit 150. The folder is
# that of this machine, and what it has is replaced:
#
#	ring.txt ring.log	lines of bench.sh, and why cells are empty
#	ring.md			graph.py --spread of them
#	slide.svg		one panel of it, by slide.py
#	targets.md		what was wanted, by targets.py
#	fork.md			forks and joins, ours and peers, by fork.py
#	speedup.md		two native threads to one, by speedup.py
#
# The plot of all rings is out/ring.svg.

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
to=bench/results/$(./bench.sh --machine)
mkdir -p "$to" || exit 1
results=bench/results
# shellcheck disable=SC2086 # words
./bench.sh "$@" $against >"$to/ring.txt" 2>out/ring.log || exit 1
grep -v ': run [0-9]* of' out/ring.log >"$to/ring.log"
python3 graph.py --spread out/ring.svg "$to/ring.txt" >"$to/ring.md"
python3 $results/slide.py "$to/slide.svg" "$to/ring.txt"
python3 $results/targets.py "$to/ring.txt" >"$to/targets.md"
# shellcheck disable=SC2086 # words
python3 $results/fork.py $forks $against --raw out/fork.txt >"$to/fork.md"
# shellcheck disable=SC2086 # words
python3 $results/speedup.py $against $pairs 'batches 500000 1000' \
	'empty 500000' 'uts T1 8' 'fib 33 10' skynet \
	'tree 31 64516' 'powser 1200' >"$to/speedup.md"
ls "$to"/*
