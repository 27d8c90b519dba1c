# SPDX-License-Identifier: MIT
# rules.mk: the programs of the tests, and which run when. A part of ../Makefile.

# Debian's musl-gcc comes without an unwinder; a static program needs it sooner. In a static
# program libc's own calls would be counted (fail.h), and functions have no names.
STATIC  := $(findstring -static,$(LDFLAGS))
UNWIND  := $(if $(findstring musl,$(CC)),t_trace t_preempt t_preempt_time t_preempt_lock \
	   t_look t_list s_list $(if $(STATIC),t_engine% t_view t_fork s_view s_pthread%))
NO_STATIC := $(if $(STATIC),t_guard \
	   $(patsubst test/%.c,%,$(shell grep -l @test/fail.wrap test/*.c)))
# These test the hard mode, and nothing else (hard.sh).
NOT_HARD := $(if $(HARD),,u_hard s_freed s_object)
NAMES   := $(filter-out $(UNWIND) $(NO_STATIC) $(NOT_HARD), \
	   $(patsubst test/%.c,%,$(wildcard test/[ust]_*.c)))
# The dispatcher alone; without a scheduler, or with any that they choose; built for rr, ll, ws.
CORES   := $(filter u_%,$(NAMES))
ALONE   := $(filter t_% s_article s_deque s_inbox s_object s_park,$(NAMES))
SCHEDS  := $(filter-out $(CORES) $(ALONE),$(NAMES))
# In ws threads have no order.
TESTS   := $(CORES) $(ALONE) $(SCHEDS:%=%-RR) $(SCHEDS:%=%-LL) \
	   $(patsubst %,%-WS,$(filter-out s_order,$(SCHEDS)))
PROGRAMS := $(TESTS:%=$(B)/%)
SCRIPTS := $(filter-out test/run.sh test/matrix.sh,$(wildcard test/*.sh))

# What make test leaves to make check. These tests are about modules that know schedulers only by
# uwait.h, so they run in ws alone, which also moves their threads.
MODULAR := $(filter $(SCHEDS),s_call s_clock s_gen s_scope s_select s_serve s_signal s_time \
	   s_uthread s_work \
	   $(filter s_chan% s_child% s_file% s_io% s_lookup% s_modules% s_net% s_sync%,$(SCHEDS)))
ONCE    := $(filter-out $(MODULAR:%=%-RR) $(MODULAR:%=%-LL),$(TESTS))
# Documents and the house; of random programs and of models only some.
DOCS    := $(filter $(SCRIPTS),$(patsubst %,test/%.sh,stranger api layers names lines messages \
	   tested words texts tables))
SHORT   := 'test/guide.sh --text' test/chaos.sh test/fuzz.sh 'test/model.sh --some' \
	   'test/sim.sh --some'

# A line at the head of a test may say what else it is linked with.
libs     = $(shell sed -n '1,5s|^/\* LIBS: \(.*\) \*/$$|\1|p' $(1))
TEST_CC  = $(CC) $(ALLFLAGS) $(LDFLAGS) -o $@ $< $(filter %.o,$^) $(filter %_pthread.a,$^) \
	   $(filter %.a,$^) -pthread $(call libs,$<)
TEST_H  := $(wildcard test/*.h)

.PHONY: test tested check checked check-all built soak cover counted programs

$(patsubst %,$(B)/%,$(filter s_pthread%,$(TESTS))): $(B)/libusched_pthread.a
$(patsubst %,$(B)/%,$(filter s_pthread_io%,$(TESTS))): $(B)/uwrap.o
$(patsubst %,$(B)/%,$(filter s_view% t_view%,$(TESTS))): view/walk.c
$(B)/t_first: examples/first/workers.c

$(CORES:%=$(B)/%): $(B)/%: test/%.c $(CORE:%=$(B)/%.o) $(TEST_H)
	$(TEST_CC)
$(ALONE:%=$(B)/%): $(B)/%: test/%.c $(B)/libusched.a $(TEST_H)
	$(TEST_CC)
$(B)/%-RR: test/%.c $(B)/libusched.a $(TEST_H)
	$(TEST_CC) -DRR
$(B)/%-LL: test/%.c $(B)/libusched.a $(TEST_H)
	$(TEST_CC) -DLL
$(B)/%-WS: test/%.c $(B)/libusched.a $(TEST_H)
	$(TEST_CC) -DWS

# make test and make check are recursive, so that programs compile in parallel. In scripts make
# is as a user calls it: scripts get what was set by hand, but neither jobs nor QUICK.
CPUS    := $(shell getconf _NPROCESSORS_ONLN)
AGAIN    = $(MAKE) -s --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(CPUS))
RUN      = env -u MAKEFLAGS -u MAKELEVEL -u QUICK LC_ALL=C CC="$(CC)" \
	   LIBRARY=$(B)/libusched.a test/run.sh

# Each claim once; the last line counts them. At -O1 programs compile in half of the time. What
# takes long comes first, so that the processors end at the same time.
test:
	+@$(AGAIN) QUICK=-O1 tested
tested: $(ONCE:%=$(B)/%)
	@FUZZ_SECONDS=5 CHAOS_SECONDS=10 CHAOS_BUILDS=plain $(RUN) \
		$(SHORT) $(DOCS) $(ONCE:%=$(B)/%)

# All tests. AFTER=test: without the scripts that make test has run in full.
LONG    := test/bare.sh test/hard.sh test/tools.sh test/model.sh test/scheduler.sh \
	   test/chaos.sh test/law.sh test/release.sh test/packages.sh test/sim.sh test/mpi.sh
DONE    := $(if $(AFTER),$(DOCS))
check:
	+@$(AGAIN) checked
checked: all built
	@$(RUN) $(LONG) 'test/matrix.sh --quick' $(PROGRAMS) \
		$(filter-out $(LONG) $(DONE),$(SCRIPTS))

# All that checks run is compiled and linked.
built: $(TIMED) $(PROGRAMS)

# The same, and all compilers, levels, machines, tools, modes, interleavings.
check-all: all built
	@PREEMPT_SECONDS=60 WATCHDOG=300 CHECK_MINUTES=10 FUZZ_SECONDS=300 ROUNDS=10000000 \
		STORM=5000 LIMIT=36000 $(RUN) $(PROGRAMS) \
		$(filter-out $(LONG),$(SCRIPTS)) $(LONG:%='% --full') test/matrix.sh

# Random programs of each kind, connections, simulated faults, and attacks, until one fails.
STORMS  := $(filter $(B)/s_io_storm-% $(B)/s_io_there-%,$(PROGRAMS))
soak: $(STORMS)
	@while CC="$(CC)" FUZZ_SECONDS=300 test/fuzz.sh && \
		STORM=5000 test/run.sh $(STORMS) && \
		CC="$(CC)" test/sim.sh --soak && \
		CC="$(CC)" CHAOS_SECONDS=420 test/chaos.sh && \
		CC="$(CC)" SEED=0 FUZZ_SECONDS=300 test/entry.sh && \
		CC="$(CC)" WATCHDOG=300 test/attack.sh --full; do :; done; false

# Which branches of the library the tests take, and why not the others.
cover:
	@rm -rf build/cover && mkdir -p build/cover
	$(CC) -c test/cover.c -o build/cover/cover.o
	@$(MAKE) -s B=build/cover O=-O1 CFLAGS="--coverage -fprofile-update=atomic" \
		LDFLAGS="$(CURDIR)/build/cover/cover.o -Wl,--wrap=abort,--wrap=_exit" counted; \
	tests=$$?; python3 test/cover.py build/cover && exit $$tests

# In a build that counts, a tick is refused, and a wake takes as long as a theft.
COUNTED := $(filter-out %/t_preempt %/t_steal_fine,$(PROGRAMS))
counted: $(COUNTED)
	@WATCHDOG=600 test/run.sh $(COUNTED)

# For scripts: the names of all programs.
programs:
	@printf '%s\n' $(TESTS)
