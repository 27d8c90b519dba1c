#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh: builds the engine for PYTHON (python3), and measures it (run.py).
# TREE in the environment: another tree of usched.

cd "$(dirname "$0")" || exit 1
. ../building

case " $* " in
*' -h '* | *' --help '* | *' --from '*) ;;
*)	build . 'gcc, python3-dev';;
esac
command -v "${PYTHON:=python3}" >/dev/null ||
	{ echo "run.sh: no $PYTHON" >&2; exit 1; }
"$PYTHON" run.py "$@"
