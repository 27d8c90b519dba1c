#!/bin/sh
# SPDX-License-Identifier: MIT
# graph.py prints the table of the lines that it reads, to the digit, and names
# the bad ones; bench.sh prints such lines, whatever its programs do.

command -v python3 >/dev/null || { echo 'graph.sh: no python3'; exit 77; }
exec python3 "$(dirname "$0")/graph/check.py"
