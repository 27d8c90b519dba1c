# SPDX-License-Identifier: MIT
# rules.mk: the programs of the benchmark, and how it runs. A part of ../Makefile.

# Only for the benchmark: waits below wrappers; no thread changes control words.
WRAPS   := rwrap lwrap wwrap
TIMED   := wheel begin bound $(WRAPS) $(foreach p,rmain lmain rwrap lwrap,$(p).fp)

.PHONY: bench timed against peers $(TIMED)

$(TIMED): %: $(B)/%
	$(IN_OUT)

# Timers alone: the wheel, and a heap.
$(B)/wheel: wheel.c $(B)/flags
	$(MAKE_ONE)

# To begin and to end, beside a native thread; loops by hand.
$(B)/begin $(B)/bound: $(B)/%: %.c $(B)/libusched.a
	$(MAKE_ONE) $(filter %.a,$^) -pthread

# The programs that only the benchmark needs. *.fp share control words.
$(B)/rwrap $(B)/rwrap.fp: WITH = -DRR
$(B)/lwrap $(B)/lwrap.fp: WITH = -DLL
$(B)/wwrap: WITH = -DWS
$(WRAPS:%=$(B)/%): wrap.c $(B)/libusched.a
	$(MAKE_ONE) $(WITH) $(filter %.a,$^) -pthread

$(B)/rmain.fp $(B)/lmain.fp: $(B)/%.fp: %.c $(B)/libusched.a
	$(MAKE_ONE) -DSHARE_FP $(filter %.a,$^) -pthread

$(B)/rwrap.fp $(B)/lwrap.fp: wrap.c $(B)/libusched.a
	$(MAKE_ONE) -DSHARE_FP $(WITH) $(filter %.a,$^) -pthread

# What README shows (bench/make.sh). BENCH: options of bench.sh, for other rings.
# AGAINST: a tree of usched, for the columns OLD.
PEERS   := $(wildcard bench/peers/*)
SHOWN   := $(addprefix bench/peers/,posix go tokio coro stackful boost)
bench: PEERS := $(if $(BENCH),$(PEERS),$(SHOWN))
bench: $(if $(BENCH)$(AGAINST),timed,$(PROGS) peers)
	@bench/make.sh $(BENCH) $(if $(AGAINST),--against build/against)

# All programs of the benchmark.
timed: $(PROGS) $(TIMED) peers $(if $(AGAINST),against)

# This benchmark on the library of the tree AGAINST, whose folders may be others.
AGAINST_H = $(sort $(dir $(wildcard $(AGAINST)/*/*.h $(AGAINST)/*/*/*.h)))
against:
	@test -e "$(AGAINST)/usched.h" || { echo "make $@ AGAINST=TREE"; false; }
	$(QUIET)$(MAKE) --no-print-directory -C $(AGAINST) libusched.a
	@rm -rf build/against && mkdir -p build/against/src
	@cp rmain.c lmain.c bench/*.[ch] build/against/src
	@git -C $(AGAINST) rev-parse --short=12 HEAD > build/against/commit 2>/dev/null || true
	$(call say,CC build/against)for p in 'rmain rmain.c' 'lmain lmain.c' 'rwrap wrap.c -DRR' \
		 'lwrap wrap.c -DLL' 'wfork wfork.c' 'wfine wfine.c'; do set -- $$p; \
		$(CC) -std=gnu11 $(O) -g $(DEFS) $(CFLAGS) $$3 -I$(AGAINST) \
			$(AGAINST_H:%=-I%) -o build/against/$$1 \
			build/against/src/$$2 $(AGAINST)/libusched.a \
			$(LDFLAGS) -pthread -lm || exit 1; done

# What to compare with. What could not be built is named, with the first error;
# bench.sh names the package that brings it.
peers:
	@mkdir -p out
	@for p in $(PEERS); do \
		[ -d $$p ] && ! $(MAKE) -s -q -C $$p 2>out/peers.log || continue; \
		echo "building $$p" >&2; \
		$(MAKE) -s -k -C $$p 2>out/peers.log || echo "$$p: not built:" \
			"$$(grep -m 1 -iE 'error|not found|no such' \
			out/peers.log)" >&2; \
	done
