#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh: builds what it can of the benchmark of pools of workers, and runs it
# (run.py). TREE in the environment: another tree of usched, for ours.

cd "$(dirname "$0")" || exit 1
. ../building

case " $* " in
*' -h '* | *' --help '* | *' --from '*) ;;
*)	build ours gcc
	build pool gcc
	build go golang-go
	build openmp gcc;;
esac
command -v python3 >/dev/null || { echo 'run.sh: no python3' >&2; exit 1; }
python3 run.py "$@"
