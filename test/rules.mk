# SPDX-License-Identifier: MIT
# rules.mk: the programs of the tests, and which run when. A part of ../Makefile.

# The head of a test says how it is built (VARIANTS): "core", with the dispatcher alone; "once",
# with the library; RR, LL, WS, for each of these schedulers; and PR, for that of doc/scheduler.md.
# HARD: it tests the hard mode, and nothing else (debug/hard.sh).
HEADS   := $(shell grep '^/. VARIANTS: .*/$$' test/*/*.c test/*/*/*.c | \
	   sed 's,:/. VARIANTS: ,@,; s, ./$$,,; s/ /@/g')
parts    = $(subst @, ,$(1))
variant  = $(basename $(notdir $(foreach h,$(HEADS),$(if $(filter $(1),$(call parts,$(h))), \
	   $(firstword $(call parts,$(h)))))))
$(foreach h,$(HEADS),$(eval source_of_$(basename $(notdir $(firstword $(call parts,$(h))))) := \
	$(firstword $(call parts,$(h)))))

# Debian's musl-gcc comes without an unwinder; a static program needs it sooner. In a static
# program libc's own calls would be counted (fail.h), and functions have no names.
STATIC  := $(findstring -static,$(LDFLAGS))
UNWIND  := $(if $(findstring musl,$(CC)),trace preempt preempt_time preempt_lock \
	   look list_plain list $(if $(STATIC),engine% view_plain fork_library view pthread%))
NO_STATIC := $(if $(STATIC),guard \
	   $(basename $(notdir $(shell grep -l @test/run/fail.wrap test/*/*.c))))
NOT     := $(UNWIND) $(NO_STATIC) $(if $(HARD),,$(call variant,HARD))
CORES   := $(filter-out $(NOT),$(call variant,core))
ALONE   := $(filter-out $(NOT),$(call variant,once))
SCHEDS  := $(filter-out $(NOT),$(call variant,RR))
SCHEDULERS := RR LL WS
TESTS   := $(CORES) $(ALONE) $(foreach v,$(SCHEDULERS),$(patsubst %,%-$(v), \
	   $(filter-out $(NOT),$(call variant,$(v)))))
T_B     := $(B)/test
PROGRAMS := $(TESTS:%=$(T_B)/%)
SCRIPTS := $(filter-out test/run/run.sh test/whole/matrix.sh,$(wildcard test/*/*.sh test/*/*/*.sh))

# What make test leaves to make check. The modules of lib/wait/ and lib/io/ know schedulers only
# by uwait.h, so most of their tests run in ws alone, which also moves their threads.
MODULAR := call $(filter-out wait source waitmem,$(basename $(notdir \
	   $(wildcard test/wait/*.c test/io/*.c))))
ONCE    := $(filter-out $(MODULAR:%=%-RR) $(MODULAR:%=%-LL),$(TESTS))
# Documents and the house; of random programs and of models only some.
DOCS    := $(filter $(SCRIPTS),$(patsubst %,test/house/%.sh,stranger api layers names lines \
	   messages tested words texts tables))
SHORT   := 'test/house/guide.sh --text' test/whole/chaos.sh test/core/fuzz.sh \
	   'test/whole/model.sh --some' 'test/ext/sim/sim.sh --some'

# A line at the head of a test may say what else it is linked with.
libs     = $(shell sed -n '1,5s|^/\* LIBS: \(.*\) \*/$$|\1|p' $(1))
TEST_CC  = $(MAKE_ONE) -Itest/run $(filter %.o,$^) $(filter %_pthread.a,$^) $(filter %.a,$^) \
	   -pthread $(call libs,$<)

.PHONY: test tested chosen check checked check-all built soak cover counted programs

$(patsubst %,$(T_B)/%,$(filter pthread%,$(TESTS))): $(B)/libusched_pthread.a
$(patsubst %,$(T_B)/%,$(filter pthread_io%,$(TESTS))): $(B)/uwrap.o
$(patsubst %,$(T_B)/%,$(filter view%,$(TESTS))): ext/view/walk.c
$(T_B)/first: examples/first/workers.c

$(T_B):
	@mkdir -p $@

.SECONDEXPANSION:
$(CORES:%=$(T_B)/%): $(T_B)/%: $$(source_of_$$*) $(CORE:%=$(B)/%.o) | $(T_B)
	$(TEST_CC)
$(ALONE:%=$(T_B)/%): $(T_B)/%: $$(source_of_$$*) $(B)/libusched.a | $(T_B)
	$(TEST_CC)
$(T_B)/%-RR: $$(source_of_$$*) $(B)/libusched.a | $(T_B)
	$(TEST_CC) -DRR
$(T_B)/%-LL: $$(source_of_$$*) $(B)/libusched.a | $(T_B)
	$(TEST_CC) -DLL
$(T_B)/%-WS: $$(source_of_$$*) $(B)/libusched.a | $(T_B)
	$(TEST_CC) -DWS

# make test and make check are recursive, so that programs compile in parallel. In scripts make
# is as a user calls it: scripts get what was set by hand, but neither jobs nor QUICK.
CPUS    := $(shell getconf _NPROCESSORS_ONLN)
AGAIN    = $(MAKE) $(if $(QUIET),-s) --no-print-directory \
	   $(if $(filter -j%,$(MAKEFLAGS)),,-j$(CPUS))
RUN      = env -u MAKEFLAGS -u MAKELEVEL -u QUICK LC_ALL=C CC="$(CC)" \
	   LIBRARY=$(B)/libusched.a test/run/run.sh

# Each claim once; the last line counts them. At -O1 programs compile in half of the time. What
# takes long comes first, so that the processors end at the same time. T=NAME: some (run/which).
test:
	+@$(if $(T),chosen=$$(TESTS='$(TESTS)' test/run/which '$(T)') &&) $(AGAIN) QUICK=-O1 \
		$(if $(T),CHOSEN="$$(echo $$chosen)" chosen,tested)
tested: $(ONCE:%=$(T_B)/%)
	@FUZZ_SECONDS=5 CHAOS_SECONDS=10 CHAOS_BUILDS=plain $(RUN) \
		$(SHORT) $(DOCS) $(ONCE:%=$(T_B)/%)
chosen: $(patsubst %,$(T_B)/%,$(filter-out %.sh,$(CHOSEN)))
	@$(RUN) $^ $(filter %.sh,$(CHOSEN))

# All tests. AFTER=test: without the scripts that make test has run in full.
LONG    := test/whole/bare.sh test/whole/mutants.sh test/debug/hard.sh test/whole/tools.sh \
	   test/whole/model.sh test/house/scheduler.sh test/whole/chaos.sh test/debug/law.sh \
	   test/whole/release.sh test/whole/packages.sh test/ext/sim/sim.sh test/ext/mpi/mpi.sh \
	   test/debug/gc.sh test/debug/probe.sh test/ext/sim/calls.sh
DONE    := $(if $(AFTER),$(DOCS))
check:
	+@$(AGAIN) checked
checked: all built
	@$(RUN) $(LONG) 'test/whole/matrix.sh --quick' $(PROGRAMS) \
		$(filter-out $(LONG) $(DONE),$(SCRIPTS))

# All that checks run is compiled and linked.
built: $(TIMED) $(PROGRAMS)

# The same, and all compilers, levels, machines, tools, modes, interleavings.
check-all: all built
	@PREEMPT_SECONDS=60 WATCHDOG=300 CHECK_MINUTES=10 FUZZ_SECONDS=300 ROUNDS=10000000 \
		STORM=5000 LIMIT=36000 $(RUN) $(PROGRAMS) \
		$(filter-out $(LONG),$(SCRIPTS)) $(LONG:%='% --full') test/whole/matrix.sh

# Random programs of each kind, connections, simulated faults, and attacks, until one fails.
STORMS  := $(filter $(T_B)/io_storm-% $(T_B)/io_there-%,$(PROGRAMS))
soak: $(STORMS)
	@while CC="$(CC)" FUZZ_SECONDS=300 test/core/fuzz.sh && \
		STORM=5000 test/run/run.sh $(STORMS) && \
		CC="$(CC)" test/ext/sim/sim.sh --soak && \
		CC="$(CC)" CHAOS_SECONDS=420 test/whole/chaos.sh && \
		CC="$(CC)" SEED=0 FUZZ_SECONDS=300 test/whole/entry.sh && \
		CC="$(CC)" WATCHDOG=300 test/examples/attack.sh --full; do :; done; false

# Which branches of the library the tests take, and why not the others.
cover:
	@rm -rf build/cover && mkdir -p build/cover
	$(CC) -c test/whole/cover.c -o build/cover/cover.o
	@$(MAKE) -s B=build/cover O=-O1 CFLAGS="--coverage -fprofile-update=atomic" \
		LDFLAGS="$(CURDIR)/build/cover/cover.o -Wl,--wrap=abort,--wrap=_exit" counted; \
	tests=$$?; python3 test/whole/cover.py build/cover && exit $$tests

# In a build that counts, a tick is refused, and a wake takes as long as a theft.
COUNTED := $(filter-out %/preempt %/steal_fine,$(PROGRAMS))
counted: $(COUNTED)
	@WATCHDOG=600 test/run/run.sh $(COUNTED)

# For scripts: the names of all programs; with SOME of those of make test.
programs:
	@printf '%s\n' $(if $(SOME),$(ONCE),$(TESTS))
