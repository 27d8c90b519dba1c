#!/bin/sh
# SPDX-License-Identifier: MIT
# make.sh: what `make bench` measures, when all is built.
#
# usage: bench/make.sh [--plan | OPTION OF bench.sh...]
#
# Without options: the rings and servers that README.md shows, within three
# minutes; prints its tables, and says what is not to be trusted. With options:
# what bench.sh measures then, as tables and a plot. --plan runs nothing, and
# prints README's tables with 1 in each cell that would be measured. Files in out/
# have the machine in their names.

cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
readme=bench/results/readme.py
servers='io --only echo-tcp:100,echo-unix:100,line-tcp:100,idle-tcp:16000 --p 1 --rounds 3
	--by rr,ws,floor,tokio,go,libuv,asio --limit 150'

main() {
	if [ "${1:-}" = --plan ]; then
		plan
		return
	fi
	mkdir -p out
	out=out/ring-$(./bench.sh --machine)
	rm -f "$out".*
	noise
	./bench.sh "$@" >"$out.txt" || exit 1
	if ! command -v python3 >/dev/null; then
		awk -f bench/table.awk $readme "$out.txt" | tee "$out.md"
		echo 'left out: plot and servers: no python3 (package python3)'
	elif [ $# -gt 0 ]; then
		python3 graph.py "$out.svg" "$out.txt" >"$out.md"
		python3 graph.py --text "$out.txt"
	else
		shown
	fi
	ls "$out".*
}

# Says what other programs do before we begin.
noise() {
	before=$(busy)
	[ "$before" ] || return 0
	sleep 1
	now=$(busy)
	[ $((now - before)) -lt 10 ] || echo "bench: other programs use" \
		"$((now - before)) % of a processor: wait until they have ended" >&2
}

busy() {
	awk '/^cpu / { print $2 + $3 + $4 + $9 }' /proc/stat 2>/dev/null
}

shown() {
	# shellcheck disable=SC2086 # words
	python3 bench/run.py $servers --to "$out.servers" >"$out.log" 2>&1 ||
		tail -n 3 "$out.log" >&2
	sed -n 's/^run.py: \(.*\): .* is missing \((.*)\)$/left out: server of \1 \2/p' \
		"$out.log" >&2
	set -- "$out.txt"
	if [ -e "$out.servers/io.txt" ]; then set -- "$@" "$out.servers/io.txt"; fi
	python3 $readme "$@" | tee "$out.md"
	python3 bench/results/slide.py "$out.slide.svg" "$out.txt"
}

plan() {
	tmp=$(mktemp -d) || exit 1
	trap 'rm -rf "$tmp"' EXIT
	./bench.sh --plan >"$tmp/ring" || exit 1
	# shellcheck disable=SC2086 # words
	python3 bench/run.py $servers --plan >"$tmp/io" || exit 1
	python3 $readme "$tmp/ring" "$tmp/io"
}

main "$@"
