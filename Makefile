# SPDX-License-Identifier: MIT
# What can be set: CC, CXX, O (level), SAN (sanitizer flags), DEFS, and for
# install PREFIX, LIBDIR, GDBDIR (where gdb looks for scripts of libraries) and
# DESTDIR. Objects of each configuration are kept apart.

O       ?= -O2
SAN     ?=
DEFS    ?=
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
GDBDIR  ?= $(PREFIX)/share/gdb/auto-load
# Sanitizers follow threads by the hard mode (uhard.h).
HARD    := $(findstring USCHED_HARD,$(DEFS))$(findstring address,$(SAN))$(findstring thread,$(SAN))
FOLDERS := wait io proc steal extra engine wrap mpi bench
ALLFLAGS = -std=gnu11 $(O) -g -Wall -Wextra -I. $(FOLDERS:%=-I%) $(SAN) $(DEFS) $(CFLAGS) \
	   $(if $(HARD),-DUSCHED_HARD)

VERSION := $(shell sed -n 's/^.define USCHED_VERSION "\(.*\)"/\1/p' usched.h)
MAJOR   := $(firstword $(subst ., ,$(VERSION)))
CORE    := usched $(if $(HARD),uhard)
MODULES := $(CORE) uio upoll ufile usignal uchild unet userve ugen uwait uchan uwork usync uthread uscope umem uproc rr ll ws ucall \
	   uguard upreempt ustats utrace usymbol uwaits \
	   engine queue runner task waiter host batch bus see
HEADERS := usched.h uhard.h uio.h ufile.h usignal.h uchild.h unet.h userve.h ugen.h uwait.h uchan.h uwork.h usync.h uthread.h uscope.h wheel.h umem.h uproc.h uproc_api.h uproc_set.h wakes.h inbox.h mail.h fence.h deque.h kept.h stop.h worth.h rr.h ll.h ws.h ucall.h uguard.h upreempt.h ustats.h utrace.h uwaits.h engine.h
HEADERS_CXX := ugen.hpp usched.hpp
ALL_H   := $(wildcard *.h $(FOLDERS:%=%/*.h) $(FOLDERS:%=%/*.hpp))
vpath %.c $(FOLDERS)
vpath %.cc $(FOLDERS)
vpath %.h $(FOLDERS)
PROGS   := rmain lmain wmain rmain.1t wmain.one wfork wfine
# Only for the benchmark: waits below wrappers; no thread changes control words.
WRAPS   := rwrap lwrap wwrap
TIMED   := wheel $(WRAPS) $(foreach p,rmain lmain rwrap lwrap,$(p).fp)
empty   :=
comma   := ,
B       := build/$(subst /,_,$(subst $(empty) $(empty),,$(CC)$(O)$(SAN)$(DEFS)$(CFLAGS)))
# For C++ programs that need it (ucxx.cc), if there is a C++ compiler.
HAVE_CXX := $(shell command -v $(CXX))
WRAP    := -Wl$(subst $(empty) ,,$(foreach f,ustack_block ustack_block_hard ustack_abort usched_run usched_run_hard,$(comma)--wrap=$(f)))
WITH_CXX := $(WRAP) -Wl,--start-group -lusched_cxx -l:libusched.a -Wl,--end-group
LIBS    := libusched.a libusched.so $(if $(HAVE_CXX),libusched_cxx.a)
# Hooks of libc, which no program needs: wrap/README.md.
HOOKS   := uwrap.o uwrap_link.o libuwrap.so
REALNAME := libusched.so.$(VERSION)
SONAME  := libusched.so.$(MAJOR)
OBJS    := $(MODULES:%=$(B)/%.o)
CORES   := $(patsubst test/%.c,$(B)/%,$(wildcard test/u_*.c))
# Debian's musl-gcc comes without an unwinder.
UNWIND  := $(if $(findstring musl,$(CC)),test/t_trace.c test/t_preempt.c test/t_preempt_time.c test/t_preempt_lock.c test/t_waits.c test/s_waits.c)
ALONE   := $(patsubst test/%.c,$(B)/%,$(filter-out $(UNWIND),$(wildcard test/t_*.c)) test/s_inbox.c test/s_park.c test/s_deque.c)
SCHEDS  := $(filter-out $(patsubst test/%.c,%,$(UNWIND)),$(filter-out s_inbox s_park s_deque s_article,$(patsubst test/%.c,%,$(wildcard test/s_*.c))))
TESTS   := $(CORES) $(ALONE) $(SCHEDS:%=$(B)/%-RR) $(SCHEDS:%=$(B)/%-LL) \
	   $(patsubst %,$(B)/%-WS,$(filter-out s_order,$(SCHEDS))) \
	   $(patsubst test/%.c,$(B)/%,$(wildcard test/s_article.c))
SCRIPTS := $(filter-out test/run.sh test/matrix.sh,$(wildcard test/*.sh))
# A line at the head of a test may say what else it is linked with.
libs     = $(shell sed -n '1,5s|^/\* LIBS: \(.*\) \*/$$|\1|p' $(1))

.PHONY: all test check-all soak cover counted bench timed against peers install uninstall clean $(PROGS) $(TIMED) $(LIBS) $(HOOKS)

all: $(PROGS) $(LIBS) $(SONAME) $(HOOKS)

$(PROGS) $(TIMED) $(LIBS) $(HOOKS): %: $(B)/%
	@cmp -s $< $@ || cp $< $@

# Programs that are linked in the tree ask for this name.
$(SONAME): libusched.so
	@ln -sf $< $@

$(B)/rmain $(B)/lmain $(B)/wmain $(B)/wfork $(B)/wfine: $(B)/%: $(B)/%.o $(B)/libusched.a
	$(CC) $(ALLFLAGS) $(LDFLAGS) -o $@ $^ -pthread -lm

# Timers alone: the wheel, and a heap.
$(B)/wheel: wheel.c $(ALL_H) Makefile
	@mkdir -p $(@D)
	$(CC) $(ALLFLAGS) $(LDFLAGS) -o $@ $<

# All that lets others wake a thread is left out: U1TS of the benchmark.
$(B)/rmain.1t: rmain.c $(CORE:%=%.c) uwait.c umem.c uproc.c rr.c $(ALL_H) Makefile
	@mkdir -p $(@D)
	$(CC) $(ALLFLAGS) -DUSCHED_SINGLE $(LDFLAGS) -o $@ $(filter %.c,$^) \
		-pthread

# All threads begin on one worker.
$(B)/wmain.one: wmain.c $(B)/libusched.a
	$(CC) $(ALLFLAGS) -DALL_ON_ONE $(LDFLAGS) -o $@ $^ -pthread

# The programs that only the benchmark needs; *.fp have a library of their own.
$(B)/rwrap $(B)/rwrap.fp: WITH = -DRR
$(B)/lwrap $(B)/lwrap.fp: WITH = -DLL
$(B)/wwrap: WITH = -DWS
$(WRAPS:%=$(B)/%): wrap.c $(B)/libusched.a
	$(CC) $(ALLFLAGS) $(WITH) $(LDFLAGS) -o $@ $^ -pthread

FP      := -DUSCHED_SHARE_FP
$(B)/rmain.fp: rmain.c
$(B)/lmain.fp: lmain.c
$(B)/rwrap.fp $(B)/lwrap.fp: wrap.c
$(filter %.fp,$(TIMED:%=$(B)/%)): $(B)/fp/libusched.a
	$(CC) $(ALLFLAGS) $(FP) $(WITH) $(LDFLAGS) -o $@ \
		$(filter %.c,$^) $(filter %.a,$^) -pthread

$(B)/fp/%.o: %.c $(ALL_H) Makefile
	@mkdir -p $(@D)
	$(CC) $(ALLFLAGS) $(FP) -c -o $@ $<

$(B)/fp/libusched.a: $(MODULES:%=$(B)/fp/%.o)
	rm -f $@
	$(AR) rcs $@ $^

$(B)/%.o: %.c $(ALL_H) Makefile
	@mkdir -p $(@D)
	$(CC) $(ALLFLAGS) -c -o $@ $<

$(B)/pic/%.o: %.c $(ALL_H) Makefile
	@mkdir -p $(@D)
	$(CC) $(ALLFLAGS) -fPIC -c -o $@ $<

$(B)/libusched.a: $(OBJS)
	rm -f $@
	$(AR) rcs $@ $^

$(B)/libusched_cxx.a: ucxx.cc usched.h Makefile
	@mkdir -p $(@D)
	$(CXX) $(filter-out -std=%,$(ALLFLAGS)) -c -o $(B)/ucxx.o $<
	rm -f $@
	$(AR) rcs $@ $(B)/ucxx.o

$(B)/libusched.so: $(MODULES:%=$(B)/pic/%.o)
	$(CC) $(ALLFLAGS) $(LDFLAGS) -shared -Wl,-soname,$(SONAME) -o $@ $^ \
		-pthread

# By the names of libc; for --wrap; for LD_PRELOAD.
$(B)/uwrap_link.o: uwrap.c $(ALL_H) Makefile
	@mkdir -p $(@D)
	$(CC) $(ALLFLAGS) -DUWRAP_LINK -c -o $@ $<

$(B)/libuwrap.so: uwrap.c $(ALL_H) Makefile
	@mkdir -p $(@D)
	$(CC) $(ALLFLAGS) $(LDFLAGS) -DUWRAP_WEAK -fPIC -shared \
		-Wl,-soname,$(@F) -o $@ $< -ldl -pthread

TEST_CC = $(CC) $(ALLFLAGS) $(LDFLAGS) -o $@ $< $(filter %.o %.a,$^) -pthread \
	  $(call libs,$<)

$(CORES): $(B)/%: test/%.c $(CORE:%=$(B)/%.o) $(wildcard test/*.h)
	$(TEST_CC)
$(B)/s_article $(ALONE): $(B)/%: test/%.c $(B)/libusched.a $(wildcard test/*.h)
	$(TEST_CC)
$(B)/%-RR: test/%.c $(B)/libusched.a $(wildcard test/*.h)
	$(TEST_CC) -DRR
$(B)/%-LL: test/%.c $(B)/libusched.a $(wildcard test/*.h)
	$(TEST_CC) -DLL

$(B)/%-WS: test/%.c $(B)/libusched.a $(wildcard test/*.h)
	$(TEST_CC) -DWS

# All tests; the last line counts them. Long scripts come first: see run.sh.
LONG    := test/hard.sh test/tools.sh test/model.sh test/scheduler.sh test/chaos.sh
test: all $(TIMED) $(TESTS)
	@CC="$(CC)" test/run.sh $(TESTS) 'test/matrix.sh --quick' $(LONG) \
		$(filter-out $(LONG),$(SCRIPTS))

# The same, and all compilers, levels, machines, tools, modes, interleavings.
check-all: all $(TIMED) $(TESTS)
	@CC="$(CC)" PREEMPT_SECONDS=60 WATCHDOG=300 FUZZ_SECONDS=300 \
		ROUNDS=10000000 STORM=5000 test/run.sh \
		$(TESTS) $(filter-out $(LONG),$(SCRIPTS)) $(LONG:%='% --full') \
		test/matrix.sh

# Random programs of each kind, connections, and attacks, until one fails.
STORMS  := $(filter $(B)/s_io_storm-%,$(TESTS))
soak: $(STORMS)
	@while CC="$(CC)" FUZZ_SECONDS=300 test/fuzz.sh && \
		STORM=5000 test/run.sh $(STORMS) && \
		CC="$(CC)" CHAOS_SECONDS=420 test/chaos.sh && \
		CC="$(CC)" WATCHDOG=300 test/attack.sh --full; do :; done; false

# Which branches of the library the tests take, and why not the others.
cover:
	@rm -rf build/cover && mkdir -p build/cover
	$(CC) -c test/cover.c -o build/cover/cover.o
	@$(MAKE) -s B=build/cover O=-O1 CFLAGS="--coverage -fprofile-update=atomic" \
		LDFLAGS="$(CURDIR)/build/cover/cover.o -Wl,--wrap=abort,--wrap=_exit" \
		counted
	@python3 test/cover.py build/cover

COUNTED := $(filter-out %/u_hard %/t_preempt,$(TESTS))
counted: $(COUNTED)
	@WATCHDOG=600 test/run.sh $(COUNTED)

# The tables, the plot and a slide, in files that have the machine in their names.
# BENCH: options of bench.sh. AGAINST: a tree of usched, for the columns OLD.
bench: timed
	@out=out/ring-$$(./bench.sh --machine); \
	./bench.sh $(BENCH) $(if $(AGAINST),--against build/against) \
		> $$out.txt || exit 1; \
	rm -f $$out.svg $$out.slide.svg; \
	if command -v python3 >/dev/null; then \
		python3 graph.py $$out.svg $$out.txt > $$out.md; \
		python3 graph.py --text $$out.txt && echo && \
		python3 bench/results/slide.py $$out.slide.svg $$out.txt; \
	else \
		echo "millions of messages a second, higher is better:"; \
		awk -F ', *' "$$RATES" $$out.txt | fold -s -w 79; \
		echo "a list, no tables, no plot: no python3 (package python3)"; \
	fi; \
	ls $$out.*

# All programs of the benchmark.
timed: $(PROGS) $(TIMED) peers $(if $(AGAINST),against)

# This benchmark on the library of the tree AGAINST.
against:
	@test -e "$(AGAINST)/usched.h" || { echo "make $@ AGAINST=TREE"; false; }
	$(MAKE) -C $(AGAINST) libusched.a
	@rm -rf build/against && mkdir -p build/against/src
	@cp rmain.c lmain.c bench/*.[ch] build/against/src
	@git -C $(AGAINST) rev-parse --short=12 HEAD > build/against/commit 2>/dev/null || true
	for p in 'rmain rmain.c' 'lmain lmain.c' 'rwrap wrap.c -DRR' \
		 'lwrap wrap.c -DLL' 'wfork wfork.c' 'wfine wfine.c'; do set -- $$p; \
		$(CC) -std=gnu11 $(O) -g $(DEFS) $(CFLAGS) $$3 -I$(AGAINST) \
			$(FOLDERS:%=-I$(AGAINST)/%) -o build/against/$$1 \
			build/against/src/$$2 $(AGAINST)/libusched.a \
			$(LDFLAGS) -pthread -lm || exit 1; done

# Without python3: millions of messages a second, from the lines of bench.sh.
define RATES
{ sub(/^ */, ""); line = "" }
$$1 == "N" { split($$0, name) }
$$1 + 0 > 0 {
	for (i = 4; i <= NF; i++)
		if ($$i > 0)
			line = line sprintf(" %s %.2f", name[i],
				$$1 * $$2 * $$3 / $$i / 1e6)
	print "N = " $$1 ", R = " $$2 ":" line
}
endef
export RATES

# What to compare with. What could not be built is named, with the first error;
# bench.sh names the package that brings it.
peers:
	@mkdir -p out
	@for p in bench/peers/*; do \
		[ -d $$p ] && ! $(MAKE) -s -q -C $$p 2>out/peers.log || continue; \
		echo "building $$p" >&2; \
		$(MAKE) -s -k -C $$p 2>out/peers.log || echo "$$p: not built:" \
			"$$(grep -m 1 -iE 'error|not found|no such' \
			out/peers.log)" >&2; \
	done

# Files that install writes and uninstall removes.
INCDIR  := $(PREFIX)/include/usched
PCDIR   := $(LIBDIR)/pkgconfig
HOOKDIR := $(LIBDIR)/usched
SCRIPT  := $(PREFIX)/share/usched/usched-gdb.py
# gdb reads this by itself with the shared library, whose real name it has.
LOADED  := $(GDBDIR)$(LIBDIR)/$(REALNAME)-gdb.py
PUT     := $(HEADERS:%=$(INCDIR)/%) $(HEADERS_CXX:%=$(INCDIR)/%) $(SCRIPT) $(LOADED) $(addprefix $(LIBDIR)/,\
	   libusched.a libusched_cxx.a libusched.so $(SONAME) $(REALNAME)) \
	   $(PCDIR)/usched.pc $(PCDIR)/usched-cxx.pc $(LIBDIR)/libuwrap.so \
	   $(addprefix $(HOOKDIR)/,uwrap.o uwrap_link.o wrap.flags)
OWN     := $(INCDIR) $(dir $(SCRIPT)) $(HOOKDIR)

# A part of the library is inlined into programs, so usched.pc says how the
# library was compiled.
PC_FLAGS := $(strip $(filter -DUSCHED_%,$(DEFS) $(CFLAGS)) \
	    $(if $(HARD),-DUSCHED_HARD) $(SAN))
in_prefix = $(patsubst $(PREFIX)/%,$${prefix}/%,$(1))
# name, description, libraries
pc       = printf '%s\n' 'prefix=$(PREFIX)' \
	'includedir=$(call in_prefix,$(INCDIR))' \
	'libdir=$(call in_prefix,$(LIBDIR))' 'Name: $(1)' 'Description: $(2)' \
	'Version: $(VERSION)' 'Cflags: -I$${includedir} $(PC_FLAGS)' \
	'Libs: -L$${libdir} $(3) $(SAN) -pthread' \
	>$(DESTDIR)$(PCDIR)/$(1).pc

install: all
	install -d $(addprefix $(DESTDIR),$(INCDIR) $(PCDIR) $(HOOKDIR) \
		$(dir $(SCRIPT) $(LOADED)))
	install -m 644 $(foreach h,$(HEADERS) $(HEADERS_CXX),$(filter $(h) %/$(h),$(ALL_H))) \
		$(DESTDIR)$(INCDIR)
	install -m 644 $(filter %.a,$(LIBS)) $(DESTDIR)$(LIBDIR)
	install -m 755 libusched.so $(DESTDIR)$(LIBDIR)/$(REALNAME)
	ln -sf $(REALNAME) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libusched.so
	install -m 755 libuwrap.so $(DESTDIR)$(LIBDIR)
	install -m 644 uwrap.o uwrap_link.o wrap/wrap.flags $(DESTDIR)$(HOOKDIR)
	install -m 644 extra/usched-gdb.py $(DESTDIR)$(SCRIPT)
	install -m 644 extra/usched-gdb.py $(DESTDIR)$(LOADED)
	$(call pc,usched,cooperative threads that copy stacks,-lusched)
	$(if $(HAVE_CXX),$(call pc,usched-cxx,C++ threads that block in catch handlers,$(WITH_CXX)))

uninstall:
	rm -f $(PUT:%=$(DESTDIR)%)
	rmdir $(OWN:%=$(DESTDIR)%) 2>/dev/null || true
	(cd $(DESTDIR)$(GDBDIR) && rmdir -p .$(LIBDIR)) 2>/dev/null || true

clean:
	rm -rf build out $(PROGS) $(TIMED) $(LIBS) $(HOOKS) $(SONAME)
	@for p in bench/peers/*/ bench/waits/*/ bench/io/*/ \
		bench/http/*/ bench/python/ test/attack/; do \
		[ ! -e $$p/Makefile ] || $(MAKE) -s -C $$p clean; done
