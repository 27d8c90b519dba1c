# SPDX-License-Identifier: MIT
# rules.mk: releases. A part of ../Makefile.

.PHONY: dist distcheck

# out/dist: usched-VERSION.tar.gz, the two files of make single, CHANGELOG.md, SHA256SUMS.
dist:
	@MAKE="$(MAKE)" pack/dist.sh

distcheck:
	@MAKE="$(MAKE)" CC="$(CC)" pack/dist.sh --check
