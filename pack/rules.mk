# SPDX-License-Identifier: MIT
# rules.mk: releases, and what people read. A part of ../Makefile.

.PHONY: dist distcheck doc

# out/dist: the tree, usched.wrap, the two files of make single, CHANGELOG.md, man pages and
# site, SHA256SUMS.
dist:
	@MAKE="$(MAKE)" pack/dist.sh

distcheck:
	@MAKE="$(MAKE)" CC="$(CC)" pack/dist.sh --check

# Man pages, and a site for a browser: doc/site.py.
doc:
	@python3 doc/site.py "$(or $(TO),out/doc)"
