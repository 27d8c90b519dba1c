# SPDX-License-Identifier: MIT
# What can be set: CC, CXX, O (level), SAN (sanitizer flags), DEFS, and for
# install PREFIX, BINDIR, LIBDIR, GDBDIR (where gdb looks for scripts of libraries) and
# DESTDIR. Objects of each configuration are kept apart. QUICK: the level of
# make test, unless O is given. V=1 prints commands.

O       ?= $(or $(QUICK),-O2)
SAN     ?=
DEFS    ?=
PREFIX  ?= /usr/local
BINDIR  ?= $(PREFIX)/bin
LIBDIR  ?= $(PREFIX)/lib
GDBDIR  ?= $(PREFIX)/share/gdb/auto-load
# Sanitizers follow threads by the hard mode (uhard.h).
HARD    := $(findstring USCHED_HARD,$(DEFS))$(findstring address,$(SAN))$(findstring thread,$(SAN))
FOLDERS := $(patsubst %/,%,$(wildcard lib/*/ ext/*/)) bench
ALLFLAGS = -std=gnu11 $(O) -g -Wall -Wextra -Iinclude -Iinclude/usched -I. $(FOLDERS:%=-I%) \
	   $(SAN) $(DEFS) $(CFLAGS) \
	   $(if $(HARD),-DUSCHED_HARD)

VERSION := $(shell sed -n 's/^.define USCHED_VERSION "\(.*\)"/\1/p' usched.h)
# Up to 1.0 each 0.N may break programs: pack/abi.sh.
NUMBERS := $(subst ., ,$(VERSION))
MAJOR   := $(firstword $(NUMBERS))$(if $(filter 0.%,$(VERSION)),.$(word 2,$(NUMBERS)))
CORE    := usched $(if $(HARD),uhard)
# The list that CMake, Meson and pip read, too. uhard.c is empty without the hard mode.
MODULES := $(basename $(notdir $(shell cat sources 2>/dev/null)))
FACE    := pthreads pcancel pkeys ptime pmutex prwlock pbarrier pint psem pstart
SIM     := usim stime smember schance sblock sstate smark sguide sfuture splan sfault ssplit sfile \
	   sepoll snet sflow stcp sudp soption sunix sdisk sdamage swalk sopen spath smap sevent \
	   scalls snames schecked srefused snumber snfd snfile snfolder snhost smachine scpu suser \
	   sexit stemp ssignal spending sio sserve sown sstdio sthread sseal scaller ssearch sreal \
	   spage uhistory
# Installed: links of include/, and what that has itself (include/README.md). What programs include
# as <usched/x.h>, and the parts of these that are inlined.
HEADERS := $(notdir $(wildcard include/usched/*.h include/usched/*.hpp))
PARTS   := $(notdir $(wildcard include/usched/private/*.h))
# Names of the release before, which lead to the present names.
OLD     := engine.h:uengine.h
vpath %.c $(FOLDERS)
vpath %.cc $(FOLDERS)
PROGS   := rmain lmain wmain rmain.1t wmain.one wfork wfine
empty   :=
B       := build/$(subst /,_,$(subst $(empty) $(empty),,$(CC)$(O)$(SAN)$(DEFS)$(CFLAGS)))
# For C++ programs that need it (ucxx.cc), if there is a C++ compiler.
HAVE_CXX := $(shell command -v $(CXX))
# The simulator (ext/sim/) is a Linux.
HAVE_LINUX := $(filter Linux,$(shell uname -s))
WRAP    := -Wl,--wrap=ustack_block,--wrap=ustack_abort,--wrap=usched_run
WITH_CXX := $(WRAP) -Wl,--start-group -lusched_cxx -l:libusched.a -Wl,--end-group
WITH_HOOKS := $${libdir}/usched/uwrap.o -lusched -ldl
WITH_FACE := -Wl,--wrap=main -lusched_pthread $(WITH_HOOKS)
WITH_SIM := -lusched_sim -l:libusched.a
LIBS    := libusched.a libusched-debug.a libusched.so libusched_pthread.a \
	   $(HAVE_LINUX:%=libusched_sim.a) $(if $(HAVE_CXX),libusched_cxx.a)
# Hooks of libc, which no program needs: ext/wrap/README.md
HOOKS   := uwrap.o uwrap_link.o libuwrap.so
# Read what a recorder has written (uview.h).
TOOLS   := uview utop
READER  := walk facts why why_locks why_cpu why_ready why_queue find out page
REALNAME := libusched.so.$(VERSION)
SONAME  := libusched.so.$(MAJOR)
OBJS    := $(MODULES:%=$(B)/%.o)

# All else writes here, but for flags of what was built, and makes libraries of this list.
ALL_ELSE := $(filter-out single allowed install uninstall,$(or $(MAKECMDGOALS),all))
$(if $(filter-out $(if $(wildcard libusched.a),flags),$(ALL_ELSE)), \
	$(if $(shell [ -w . ] || echo no),$(error $(CURDIR) cannot be written, and make \
	builds there: cp -r "$(CURDIR)" ~/usched, and build that)))
$(if $(filter-out clean,$(ALL_ELSE)),$(if $(MODULES),,$(error $(CURDIR)/sources cannot be \
	read: it names the modules of the library)))

.PHONY: all single flags allowed install uninstall clean FORCE \
	$(PROGS) $(LIBS) $(HOOKS) $(TOOLS)

# No rule is built in: a wrong name compiles nothing. MAKEFLAGS += -r would also take the rules
# of all that make calls.
.SUFFIXES:
%.out: %
%: %,v
%: RCS/%,v
%: RCS/%
%: s.%
%: SCCS/s.%

# Before a command: instead of it, a line is printed. With -s nothing is, with -n the command.
QUIET   := $(if $(filter-out 0,$(V)),,@)
LETTERS  = $(firstword -$(MAKEFLAGS))
say      = $(QUIET)$(if $(QUIET),$(if $(findstring s,$(LETTERS))$(findstring n,$(LETTERS)),, \
	   echo '$(strip $(1))';))

# What a file was compiled from is in a .d beside it, which make reads (the end of this file). There
# the name of the file is a call: with = in the name the line would be an assignment, and a source
# that has moved would stop make.
DEP      = -MMD -MP -MF $@.d -MT '$$(call made,$<,$(subst $(B)/,,$@))'
made     = $(if $(wildcard $(1)),$(B)/$(2),$(eval $$(B)/$(2): FORCE))

# What else it was compiled from: rewritten if it changes, and only then.
hash    := \#
COMPILED := $(strip $(CC) $(CXX) $(ALLFLAGS) $(shell grep -v '^$(hash)' Makefile | cksum))

# To compile; at once to link, with what follows; to link; to archive.
COMPILE  = $(call say,CC $<$(KIND))$(CC) $(ALLFLAGS) $(DEP) -c -o $@ $<
KIND     = $(patsubst %, (%),$(filter-out $(notdir $(B)),$(notdir $(@D))))
MAKE_ONE = $(call say,CC $< ($(@F)))$(CC) $(ALLFLAGS) $(DEP) $(LDFLAGS) -o $@ $<
LINK     = $(call say,LD $(@F))$(CC) $(ALLFLAGS) $(LDFLAGS) -o $@
ARCHIVE  = $(call say,AR $(@F))rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

all: $(PROGS) $(LIBS) $(SONAME) $(HOOKS) $(TOOLS)

$(LIBS) $(HOOKS) $(TOOLS): %: $(B)/%
	@cmp -s $< $@ || cp $< $@

# Programs of the benchmark, which only bench.sh calls by name.
IN_OUT  = @mkdir -p out/bin && { cmp -s $< out/bin/$@ || cp $< out/bin/$@; }
$(PROGS): %: $(B)/%
	$(IN_OUT)

# Programs that are linked in the tree ask for this name.
$(SONAME): libusched.so
	@ln -sf $< $@

$(B)/flags:
	@mkdir -p $(@D) && printf '%s\n' '$(subst ','\'',$(COMPILED))' >$@

$(B)/rmain $(B)/lmain $(B)/wmain $(B)/wfork $(B)/wfine: $(B)/%: $(B)/%.o $(B)/libusched.a
	$(LINK) $^ -pthread -lm

# All that lets others wake a thread is left out: U1TS of the benchmark.
$(B)/1t/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(COMPILE) -DUSCHED_SINGLE

$(B)/rmain.1t: $(patsubst %,$(B)/1t/%.o,rmain $(CORE) uwait utime uplain usource umem uproc rr)
	$(LINK) $^ -pthread

# All threads begin on one worker.
$(B)/wmain.one: wmain.c $(B)/libusched.a
	$(MAKE_ONE) -DALL_ON_ONE $(filter %.a,$^) -pthread

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(COMPILE)

# The page is a part of uview.
$(B)/page.c: $(wildcard ext/view/page.html) $(B)/flags
	$(call say,WRITE $(@F)){ echo 'const unsigned char page_html[] = {'; \
		od -An -v -tu1 $(or $(filter %.html,$^),/dev/null) | \
		sed 's/[0-9]\{1,\}/&,/g'; echo '0 };'; \
		echo 'const unsigned long page_size = sizeof page_html - 1;'; } >$@

$(B)/page.o: DEP =
$(B)/page.o: $(B)/page.c
	$(COMPILE)

$(TOOLS:%=$(B)/%): $(B)/%: $(B)/%_main.o $(READER:%=$(B)/%.o) $(B)/libusched.a
	$(LINK) $^ -pthread

$(B)/pic/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(COMPILE) -fPIC

# Names of functions in messages: lib/proc/stuck.h
$(B)/uproc.o $(B)/pic/uproc.o: ALLFLAGS += -DUSCHED_NAMES

$(B)/libusched.a: $(OBJS) sources
	$(ARCHIVE)

# In the hard mode, with udebug.c in one object with usched.c, which each program
# needs.
$(B)/debug/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(COMPILE) $(if $(HARD),,-DUSCHED_HARD)

$(B)/debug/debug.o: $(B)/debug/usched.o $(B)/debug/udebug.o
	$(call say,LD $(@F))$(CC) -r -nostdlib -o $@ $^

$(B)/libusched-debug.a: $(patsubst %,$(B)/debug/%.o,debug $(filter-out usched,$(MODULES))) \
	   sources
	$(ARCHIVE)

$(B)/ucxx.o: ucxx.cc $(B)/flags
	$(call say,CXX $<)$(CXX) $(filter-out -std=%,$(ALLFLAGS)) $(DEP) -c -o $@ $<

# Always static, since they have what the linker's --wrap asks for.
$(B)/libusched_pthread.a: $(FACE:%=$(B)/%.o)
$(B)/libusched_sim.a: $(SIM:%=$(B)/%.o)
$(B)/libusched_cxx.a: $(B)/ucxx.o
$(B)/libusched_pthread.a $(B)/libusched_sim.a $(B)/libusched_cxx.a:
	$(ARCHIVE)

$(B)/libusched.so: $(MODULES:%=$(B)/pic/%.o) sources
	$(LINK) -shared -Wl,-soname,$(SONAME) $(filter %.o,$^) -pthread

# By the names of libc; for --wrap; for LD_PRELOAD.
$(B)/uwrap_link.o: KIND = $(empty) ($(@F))
$(B)/uwrap_link.o: uwrap.c $(B)/flags
	$(COMPILE) -DUWRAP_LINK

$(B)/libuwrap.so: uwrap.c $(B)/flags
	$(MAKE_ONE) -DUWRAP_WEAK -fPIC -shared -Wl,-soname,$(@F) -ldl -pthread

# The dispatcher as two files that need nothing beside them: make single TO=DIR
single:
	@test -n "$(TO)" || { echo "make $@ TO=DIR"; false; }
	@mkdir -p "$(TO)"
	@[ ! "$(TO)/usched.c" -ef usched.c ] || { echo "make $@: TO is this tree"; false; }
	$(call say,WRITE $(TO)/usched.c $(TO)/usched.h)for file in usched.c usched.h; do \
		awk -v file=$$file -f core/single.awk >"$(TO)/$$file" || exit 1; \
	done

# What compiles a program against the tree: cc prog.c $(make -s flags). As pkg-config does,
# it marks spaces, which only xargs and eval then understand.
HERE    := $(subst $(empty) $(empty),\ ,$(CURDIR))
flags: libusched.a
	@printf '%s\n' '-I$(HERE)/include $(PC_FLAGS) $(CLASH) $(HERE)/libusched.a -pthread'
	$(if $(findstring \,$(HERE)),@echo 'make $@: for a path with spaces write:' \
		'make -s $@ | xargs cc prog.c' >&2)

# Files that install writes and uninstall removes.
INCDIR  := $(PREFIX)/include/usched
OLDDIR  := $(INCDIR)/old
PCDIR   := $(LIBDIR)/pkgconfig
HOOKDIR := $(LIBDIR)/usched
SCRIPT  := $(PREFIX)/share/usched/usched-gdb.py
# gdb reads this by itself with the shared library, whose real name it has.
LOADED  := $(GDBDIR)$(LIBDIR)/$(REALNAME)-gdb.py
PUT     := $(HEADERS:%=$(INCDIR)/%) $(PARTS:%=$(INCDIR)/private/%) $(SCRIPT) $(LOADED) \
	   $(foreach o,$(OLD),$(OLDDIR)/$(firstword $(subst :, ,$(o)))) \
	   $(addprefix $(LIBDIR)/,libusched.a libusched-debug.a libusched_pthread.a \
		libusched_sim.a libusched_cxx.a libusched.so $(SONAME) $(REALNAME)) \
	   $(patsubst %,$(PCDIR)/%.pc,usched usched-debug usched-wrap usched-pthread \
		usched-sim usched-cxx) \
	   $(LIBDIR)/libuwrap.so $(addprefix $(BINDIR)/,$(TOOLS) uview-perf) \
	   $(addprefix $(HOOKDIR)/,uwrap.o uwrap_link.o wrap.flags pthread.flags sim.flags)
OWN     := $(INCDIR)/private $(OLDDIR) $(INCDIR) $(dir $(SCRIPT)) $(HOOKDIR)

# A part of the library is inlined into programs, so usched.pc says how the
# library was compiled.
PC_FLAGS := $(strip $(filter -DUSCHED_%,$(DEFS) $(CFLAGS)) \
	    $(if $(HARD),-DUSCHED_HARD) $(SAN))
# Stops a frame that is larger than the guard below a stack, if the compiler can. Clang before
# 18 warns of it but on x86, so usched.pc has it only there.
CLASH     = $(shell echo 'int x;' | $(CC) -Werror -fstack-clash-protection -x c -S -o /dev/null - \
	    2>/dev/null && echo -fstack-clash-protection)
PC_CLASH  = $(if $(filter x86_64-%,$(shell $(CC) -dumpmachine)),$(CLASH))
# Without usched/ in front headers are found behind all others. CMake drops a word that it has
# read before, so each flag is one word with its folder.
OLD_DIRS := -idirafter$${includedir}/usched -idirafter$${includedir}/usched/old
put       = $(call say,INSTALL $(DESTDIR)$(1))
in_prefix = $(patsubst $(PREFIX)/%,$${prefix}/%,$(1))
# name, description, libraries, flags
pc       = $(call put,$(PCDIR)/$(1).pc)umask 022 && printf '%s\n' 'prefix=$(PREFIX)' \
	'includedir=$(call in_prefix,$(PREFIX)/include)' \
	'libdir=$(call in_prefix,$(LIBDIR))' 'Name: $(1)' 'Description: $(2)' \
	'Version: $(VERSION)' 'Cflags: -I$${includedir} $(OLD_DIRS) $(PC_FLAGS) $(PC_CLASH) $(4)' \
	'Libs: -L$${libdir} $(3) $(SAN) -pthread' \
	>$(DESTDIR)$(PCDIR)/$(1).pc

# Nothing is built or written if a folder cannot be.
allowed:
	@for d in $(sort $(dir $(PUT:%=$(DESTDIR)%))); do \
		until [ -e "$$d" ]; do d=$$(dirname "$$d"); done; \
		[ -d "$$d" ] && [ -w "$$d" ] || { echo "make install: you may not write to" \
			"$$d: sudo make install, or make install PREFIX=\$$HOME/.local" >&2; \
			exit 1; }; \
	done

# What it makes is for all to read, also where umask is 077. A make of its own: with -j a
# prerequisite would be built beside allowed.
install: allowed
	@$(MAKE) --no-print-directory all
	$(QUIET)umask 022 && mkdir -p $(addprefix $(DESTDIR),$(INCDIR)/private $(OLDDIR) $(PCDIR) \
		$(HOOKDIR) $(BINDIR) $(dir $(SCRIPT) $(LOADED)))
	$(call put,$(INCDIR): *.h *.hpp)install -m 644 \
		$(addprefix include/usched/,$(filter-out usched.h,$(HEADERS))) $(DESTDIR)$(INCDIR)
	$(call put,$(INCDIR)/private: *.h)install -m 644 $(PARTS:%=include/usched/private/%) \
		$(DESTDIR)$(INCDIR)/private
	$(call put,$(OLDDIR): *.h)umask 022; $(foreach o,$(OLD), \
		echo '#include <usched/$(lastword $(subst :, ,$(o)))>' \
		>$(DESTDIR)$(OLDDIR)/$(firstword $(subst :, ,$(o)));)
	$(QUIET)umask 022 && awk -v file=usched.h -f core/single.awk >$(DESTDIR)$(INCDIR)/usched.h
	$(call put,$(LIBDIR): $(filter %.a,$(LIBS)))install -m 644 $(filter %.a,$(LIBS)) \
		$(DESTDIR)$(LIBDIR)
	$(call put,$(LIBDIR): $(REALNAME) $(SONAME) libusched.so)install -m 755 libusched.so \
		$(DESTDIR)$(LIBDIR)/$(REALNAME)
	$(QUIET)ln -sf $(REALNAME) $(DESTDIR)$(LIBDIR)/$(SONAME)
	$(QUIET)ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libusched.so
	$(call put,$(LIBDIR): libuwrap.so)install -m 755 libuwrap.so $(DESTDIR)$(LIBDIR)
	$(call put,$(HOOKDIR): uwrap.o uwrap_link.o *.flags)install -m 644 uwrap.o uwrap_link.o \
		ext/wrap/wrap.flags ext/posix/pthread.flags ext/sim/sim.flags $(DESTDIR)$(HOOKDIR)
	$(call put,$(BINDIR): $(TOOLS) uview-perf)install -m 755 $(TOOLS) $(DESTDIR)$(BINDIR)
	$(QUIET)install -m 755 ext/view/uview-perf.py $(DESTDIR)$(BINDIR)/uview-perf
	$(call put,$(SCRIPT))install -m 644 lib/debug/usched-gdb.py $(DESTDIR)$(SCRIPT)
	$(call put,$(LOADED))install -m 644 lib/debug/usched-gdb.py $(DESTDIR)$(LOADED)
	$(call pc,usched,cooperative threads that copy stacks,-lusched)
	$(call pc,usched-debug,the same with checks,-l:libusched-debug.a,\
		$(if $(HARD),,-DUSCHED_HARD))
	$(call pc,usched-wrap,the same for calls of libc,$(WITH_HOOKS))
	$(call pc,usched-pthread,programs for pthreads as they are,$(WITH_FACE),\
		-include usched/pthreads.h)
	$(call pc,usched-sim,programs on a simulated network,$(WITH_SIM))
	$(if $(HAVE_CXX),$(call pc,usched-cxx,C++ threads that block in catch handlers,$(WITH_CXX)))

uninstall:
	$(call say,RM $(words $(PUT)) names of usched in $(DESTDIR)$(PREFIX))rm -f \
		$(PUT:%=$(DESTDIR)%)
	$(QUIET)rmdir $(OWN:%=$(DESTDIR)%) 2>/dev/null || true
	$(QUIET)(cd $(DESTDIR)$(GDBDIR) && rmdir -p .$(LIBDIR)) 2>/dev/null || true

clean:
	$(call say,RM build out libraries tools)rm -rf build out $(LIBS) $(HOOKS) \
		$(TOOLS) libusched.so.*
	@for p in bench/peers/*/ bench/waits/*/ bench/io/*/ \
		bench/http/*/ bench/engine/*/ bench/cores/ bench/mpi/ bench/python/ \
		test/examples/attack/; do \
		[ ! -e $$p/Makefile ] || $(MAKE) -s -C $$p clean; done

# A copy of the library alone has no benchmark and no tests.
include $(wildcard bench/rules.mk test/rules.mk pack/rules.mk)

# If flags changed, all is compiled again, from whatever.
ifeq ($(COMPILED),$(strip $(shell cat $(B)/flags 2>/dev/null)))
include $(wildcard $(B)/*.d $(B)/*/*.d)
else
$(B)/flags: FORCE
endif
