#!/bin/sh
# SPDX-License-Identifier: MIT
# tables.sh: README.md has the tables that readme.py makes of the newest results;
# `make bench` measures each of their cells, and no other row. So does the slide.
# Tables of results are those of the lines beside them. Cells that differ much,
# cells without a figure and what else ran are told. Each README below bench/
# names what is beside it. Without python3 there is a table, too.
#
# Nothing is measured: the lines are made up, or are results.

cd "$(dirname "$0")/../.." || exit 1
. test/run/count
readme=bench/results/readme.py
# Rings and servers may be of two machines.
folders=$(sed -n 's,.*(\(bench/results/[^/)]*\)).*,\1,p' README.md)
results=$(echo "$folders" | head -n 1) servers=$(echo "$folders" | tail -n 1)

must() { # 0 or not, what
	judge $(($1 != 0)) "$2" "$dir/out"
}

same() { # what, file, file
	diff "$2" "$3" >"$dir/out"
	must $? "$1"
}

# Medians of the lines of a column, in a row that says what it is; a headline for
# each N; the columns without a figure.
cat >"$dir/lines" <<'END'
# UL1T: hot, lmain N R M 0 1
# U10K: cold, rmain N R M 10000 2, 1/2 of M
# GO1T: mixed, bench/peers/go/ring N R M 0 1, 1/10 of M
      N,       R,       M,   UL1T,    U10K,    GO1T
      2,       2,    1000,  0.001,        ,
      2,       2,     500,       ,    0.02,
      2,       2,    1000,  0.002,        ,
blocked,      NR,    UL1T,   U10K,    GO1T
blocked,    1000,  120000,       ,
      N,       R,       M,   UL1T,    U10K,    GO1T
      2,       2,    1000,  0.004,        ,
      8,      10,    1000,  0.004,        ,
END
awk -f bench/table.awk $readme "$dir/lines" >"$dir/table"
cat >"$dir/expected" <<'END'

millions of messages a second in rings of 2, higher is better;
bytes of a blocked thread, lower is better; medians

threads in all                                       4   bytes
hot: a thread that is woken runs next
  usched, ll (local)                  UL1T        2.00     120
cold: all threads take turns
  usched, rr, +10000 bytes, 2 cpus    U10K        0.10       -

millions of messages a second in rings of 8, higher is better;
bytes of a blocked thread, lower is better; medians

threads in all                                      80   bytes
hot: a thread that is woken runs next
  usched, ll (local)                  UL1T        20.0     120

no figures of GO1T
END
same 'without python3' "$dir/expected" "$dir/table"
have python3 || { skip 'all other tables: no python3 (package python3)'; counted; }

# Of the two tables: their heads, and the first cells of their rows.
rows() {
	awk -F ' *[|] *' '/^[|]---/ { next }
		/^[|] threads in all|^[|]  [|] usched/ { print; next }
		/^[|]/ { gsub(/[*]/, "", $2); print $2 }'
}

of_the_results() {
	for text in README.md doc/benchmark.md; do
		cp $text "$dir/text.md"
		python3 $readme --write "$dir/text.md" "$results/ring.txt" \
			"$servers/io.txt" >"$dir/tables"
		same "the tables of $text are not those of $results, $servers" $text \
			"$dir/text.md"
	done
	for file in bench/results/*/*.txt; do
		name=$(basename "$file" .txt)
		case $name in
		ring)	python3 graph.py --spread "$file";;
		*)	python3 bench/run.py "$name" --from "$file" 2>"$dir/err";;
		esac >"$dir/made"
		same "$file and its .md" "$dir/made" "${file%.txt}.md"
	done
}

# Each cell is planned, if only as 1; and the rows are those of README.
of_make_bench() {
	sh bench/make.sh --plan >"$dir/plan" 2>"$dir/out"
	must $? 'make.sh --plan'
	! grep -q 'no figure' "$dir/plan"
	must $? 'a cell that make bench does not measure'
	awk '/^[|] threads in all|^[|]  [|] usched/ { on = 1 } !/^[|]/ { on = 0 }
		on' README.md doc/benchmark.md | rows >"$dir/shown"
	rows <"$dir/plan" >"$dir/planned"
	[ "$(wc -l <"$dir/shown")" -ge 18 ]
	must $? 'README has no tables'
	same 'the rows of README and of make bench' "$dir/shown" "$dir/planned"
	python3 -c '
import sys
sys.path.insert(0, "bench/results")
import readme
print(*sorted(name for group in readme.GROUPS.values()
              for name in group.values()), sep="\n")' >"$dir/columns"
	sh bench.sh --plan --runs 1 | sed -n '/^ *N,/s/.* M, *//p' | tr -d ' ' |
		tr , '\n' | sort -u >"$dir/measured"
	same 'the columns of README and of bench.sh' "$dir/columns" \
		"$dir/measured"
	grep -q '@bench/make.sh' bench/rules.mk
	must $? 'make bench runs make.sh'
}

# Hot stands with hot, as bench.sh has it.
of_a_kind() {
	sh bench.sh --plan --runs 1 | sed -n 's/^# \([^ :]*\): \([a-z]*\),.*/\2 \1/p' |
		sort -u >"$dir/kinds"
	python3 -c '
import sys
sys.path.insert(0, "bench/results")
import readme
print(*sorted(group.split(":")[0] + " " + name
              for group, members in readme.GROUPS.items()
              for name in members.values()), sep="\n")' >"$dir/groups"
	same 'hot, cold and mixed' "$dir/kinds" "$dir/groups"
}

made_up() {
	cat >"$dir/ring" <<-'END'
	# memory: 1 MiB, huge pages never, load 3.50
	N, R, M, GO1T, U1T, U1TOLD
	2, 2, 250000, , 2, 1
	2, 2, 250000, , 0.5, 1
	2, 100000, 100, , 0.125, 1
	2, 500, 1000, 1, 1, 1
	8, 2, 250000, 1, 1, 1
	blocked, NR, U1T
	blocked, 100000, 14000000
	blocked, 1000000, 140000000
	END
	python3 $readme "$dir/ring" >"$dir/out"
	must $? readme.py
	row='| **► usched, rr (fair)** | **1.25**? [0.500, 2.00] |'
	grep -qF "$row no figure | **160** | **140** |" "$dir/out"
	must $? 'a row of two runs'
	no='| no figure'
	grep -qF "| C++20 coroutines, by hand $no $no $no $no |" "$dir/out"
	must $? 'a row without figures'
	grep -qF 'not to be trusted: usched, rr (fair), cold, 4: 0.500 to 2.00' "$dir/out"
	must $? 'a cell of doubt is named'
	grep -qF 'not to be trusted: the load was 3.50' "$dir/out"
	must $? 'the load is told'
	echo '# others: 0.90 of 2 processors' >>"$dir/ring"
	python3 $readme "$dir/ring" | grep -qF 'other programs used 0.90 of 2'
	must $? 'what else ran is told'
	sed -i 's/0.90 of/0.05 of/' "$dir/ring"
	python3 $readme "$dir/ring" >"$dir/out"
	! grep -qE 'other programs|the load' "$dir/out"
	must $? 'a quiet machine'
	drawn
}

# bench.sh and run.py tell what a program that spins takes from them.
beside_others() {
	[ -r /proc/stat ] || { skip 'other programs: no /proc/stat'; return; }
	mkdir -p "$dir/bin"
	printf '#!/bin/sh\nsleep 2\necho 1.5\n' >"$dir/bin/lmain"
	chmod +x "$dir/bin/lmain"
	(while :; do :; done) &
	spins=$!
	BENCH_DIR=$dir/bin sh bench.sh --runs 1 --only UL >"$dir/lines" 2>"$dir/out"
	kill $spins
	grep -qE '^# others: [0-9]+\.[0-9]+ of [0-9]+ processors$' "$dir/lines"
	must $? 'bench.sh does not say what others used'
	grep -q 'other programs used .*not to be trusted' "$dir/out"
	must $? 'bench.sh does not warn'
	python3 $readme "$dir/lines" >"$dir/out"
	grep -q '^not to be trusted: other programs used' "$dir/out"
	must $? 'readme.py does not warn'
}

drawn() {
	have gnuplot || { skip 'the slide: no gnuplot'; return; }
	for out in s.svg s.png; do
		python3 bench/results/slide.py "$dir/$out" "$dir/ring" &&
			[ -s "$dir/$out" ]
		must $? "slide.py: $out"
	done
	for text in 'higher is better' '200,000 threads' 'hot: a thread' \
	    'cold: all threads' 'private stacks, by hand' 'no figure'; do
		grep -qF "$text" "$dir/s.svg"
		must $? "the slide: $text"
	done
}

# What the folders of bench/ have.
named() {
	for file in bench/README.md bench/*/README.md; do
		folder=$(dirname "$file")
		for part in "$folder"/*; do
			case $(git ls-files "$part" | head -n 1) in
			'' | */README.md)	continue ;;
			esac
			grep -qF "$(basename "$part")" "$file"
			must $? "$file does not name $part"
		done
	done
}

refuses() {
	echo 'N, R, M, U' >"$dir/none"
	for wrong in "1 $readme $dir/none" "1 $readme $dir/nothing" "2 $readme" \
	    "1 bench/results/slide.py $dir/s.svg $dir/none" \
	    "2 bench/results/slide.py $dir/none"; do
		# shellcheck disable=SC2086 # words
		set -- $wrong
		status=$1
		shift
		python3 "$@" >"$dir/out" 2>&1
		[ $? = "$status" ] && grep -q . "$dir/out"
		must $? "$*: not refused"
	done
}

of_the_results
of_make_bench
of_a_kind
made_up
beside_others
named
refuses
counted
