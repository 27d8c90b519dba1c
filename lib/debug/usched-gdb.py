# SPDX-License-Identifier: MIT
# usched-gdb.py: lists all threads of usched in gdb, in a process or a core.

"""
USE

    (gdb) source lib/debug/usched-gdb.py
    (gdb) usched            lists all threads of all dispatchers
    (gdb) usched S ...      of these dispatchers: expressions for a struct
                            usched, or for a pointer to it
    (gdb) usched bt         lists them with their backtraces
    (gdb) usched bt X ...   of these threads (struct ustack *, or a pointer to
                            a struct that begins with one), or of all threads
                            of these dispatchers

Dispatchers that run, and those of rr, ll and ws, are found; others must be
named. The program, or at least usched.c, must have been compiled with -g.
A thread of uthread.h or uscope.h is shown with the name that it has now, and a
thread of a simulated host with the host's name before it.
A thread that waits by a record (uwait.h) is shown with the kind of the wait,
its object and its deadline. Records are searched for in the memory of a set,
where each block is known; of other dispatchers, in all memory.
Nothing is written to the process, and none of its functions is called.
Arguments are read in the language that gdb is set to. All else is read in C,
because after an attach the language may be that of the assembly in which a
system call waits.

HOW A BLOCKED THREAD IS WALKED

A blocked thread has only its slice (see the top of usched.c): the registers
that a callee has to save, and the thread's frames above them. So gdb is told
that the innermost frame of the native thread has a caller with these registers.
From there gdb unwinds by the tables of the program, as always.

A slice that is in its buffer is not where its frames expect it. So gdb unwinds
one frame at a time. Before the next frame, each register that points to where
the slice was is adjusted to point into the buffer:

       lane    |    sp ... rbp ...      bottom       saved addresses point here,
               |-----------------------------|
                               \\  \\
       buffer        |    sp ... rbp ...             but the words are here

The buffer may lack the last words of the slice. They belong to the function
that the thread was made for. This is the last frame: it ends at the bottom of
the lane, and its caller is never looked for.
"""

import os
import re

import gdb

try:
    import gdb.unwinder
except ImportError:
    raise gdb.GdbError("usched-gdb.py: this gdb is too old: it has no "
                       "gdb.unwinder")

# As in usched.c: flags in u_top, and its values for threads without a slice.
FP_ON_TOP, AWAY, LOW_BITS = 1, 4, 7
NEW, ENDED = 2, 6
BARE_MAX = 104                  # bytes that a buffer may be short of, at most
SLICE_MAX = 1 << 31
BLOCK = 16 << 20                # read at once
PAGE = 4096
GUARD = 65536                   # USCHED_GUARD
UPROC_JOIN = 1
UWAKES_ONE = 32                 # in w_posted: a wake, above the flags
# The same as in segments.h.
UMEM_SEGMENT, UMEM_HEAD, UMEM_PAGE = 2 << 20, 4, 4096
UMEM_RUN_NR = UMEM_SEGMENT // UMEM_PAGE - UMEM_HEAD
UMEM_CLASS_NR = 96              # s_class below it: a span of blocks

# What a switch saves: the bytes of all registers, where each register is, and
# registers that only outer functions save.
MACHINES = {
    "i386:x86-64": (24, {"rbx": 0, "rbp": 8, "pc": 16},
                    ["r12", "r13", "r14", "r15"]),
    "aarch64": (160, dict(
        [("x29", 0), ("pc", 8)] +
        [("x%d" % i, 16 + 8 * (i - 19)) for i in range(19, 29)]), []),
    "riscv:rv64": (208, dict(
        [("pc", 0), ("fp", 8)] +
        [("s%d" % i, 8 + 8 * i) for i in range(1, 12)]), []),
}



def fail(text):
    raise gdb.GdbError("usched: " + text)


def struct(name, at):
    """Returns the struct of this name that lies at this address."""
    try:
        return gdb.Value(at).cast(
            gdb.lookup_type("struct " + name).pointer()).dereference()
    except gdb.error:
        fail("no debug information about struct %s (compile with -g)" % name)


def read(at, nob):
    return bytes(gdb.selected_inferior().read_memory(at, nob))


def word(at):
    return int.from_bytes(read(at, 8), "little")


def symbol_of(at, cache={}):
    """Returns the name of a function, or None."""
    if at not in cache:
        text = gdb.execute("info symbol %#x" % at, to_string=True)
        found = re.match(r"(\S+)(?: in section|$| of )", text)
        if re.search(r" in section \.(t?bss|t?data|rodata)", text):
            found = None                # words of a slice may look like a thread
        cache[at] = found and found.group(1)
    return cache[at]


# Dispatchers.

class Dispatcher:
    def __init__(self, at, name=None, chunks=None, cut=None):
        s = struct("usched", at)
        self.at = at
        self.name = name            # as "rr, processor 0"
        self.chunks = chunks        # where its threads are, or None: anywhere
        self.cut = cut or {}        # sizes of blocks there, by page
        self.native = None          # gdb's thread that runs it
        self.running = {}           # by address: (gdb's thread, its dispatcher)
        self.exit = int(s["s_exit"])
        self.lane_nr = int(s["s_lane_nr"])
        self.mapped = int(s["s_mapped"])
        lanes = s["s_lane"]
        self.lanes_at = int(lanes)
        self.lanes = []             # (lowest byte, bottom, owner)
        self.lane_all = self.lane_nr    # with private lanes
        if int(s["s_private"]) != 0:
            self.lane_all += int(s["s_private"].dereference()["pl_used"])
        if self.lanes_at != 0 and 0 <= self.lane_nr <= self.lane_all <= 32767:
            for i in range(self.lane_all + 1):
                lane = lanes[i]
                self.lanes.append((int(lane["l_low"]), int(lane["l_bottom"]),
                                   int(lane["l_owner"])))


def sets():
    """Returns the sets of processors of rr, ll and the like: (name, set)."""
    found = []
    for symbol in gdb.lookup_static_symbols("set"):
        if str(symbol.type.strip_typedefs()) != "struct uproc_set *":
            continue
        value = symbol.value()
        name = os.path.basename(symbol.symtab.filename).rsplit(".", 1)[0]
        if int(value) != 0:
            found.append((name, value.dereference()))
    return found


def spans_of(at, sizes, cut):
    """
    Returns the spans of a segment (segments.h), joined: (low, high). Notes for
    each of their pages in cut: (start of the span, size of its blocks).
    """
    segment = struct("umem_segment", at)
    spans, i = [], 0
    while i < UMEM_RUN_NR:
        span = segment["g_span"][i]
        pages = int(span["s_pages"])
        if int(span["s_class"]) < UMEM_CLASS_NR:
            low = at + (UMEM_HEAD + i) * UMEM_PAGE
            for page in range(pages):
                cut[low + page * UMEM_PAGE] = (low, sizes[int(span["s_class"])])
            if spans and spans[-1][1] == low:
                low = spans.pop()[0]
            spans.append((low, at + (UMEM_HEAD + i + pages) * UMEM_PAGE))
        if pages == 0:
            break               # it is about to be written
        i += pages
    return spans


def chunks_of(uprocs, cut):
    """Returns the memory in which the threads of a set are: its spans."""
    chunks, head = [], uprocs["set_mem"]["m_chunk"]
    sizes = [int(uprocs["set_mem"]["m_cut"][i]["c_size"])
             for i in range(UMEM_CLASS_NR)]
    at = int(head["l_next"])
    while at != int(head.address):
        chunk = struct("umem_chunk", at)
        first = at - at % UMEM_SEGMENT
        for i in range(int(chunk["c_segs"])):
            chunks += spans_of(first + i * UMEM_SEGMENT, sizes, cut)
        at = int(chunk["c_link"]["l_next"])
    return chunks


def tls(name):
    """Returns a variable of the selected native thread, or None."""
    try:
        return gdb.parse_and_eval(name)
    except gdb.error:
        return None


def natives(found, add):
    """Finds the dispatchers that native threads run; adds new dispatchers."""
    missing = True
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        current, frame = tls("usched_current"), tls("usched_here")
        if current is None or frame is None:
            continue
        missing = False
        inner = None
        current = int(current)
        try:
            while int(frame) != 0:
                at = int(frame["f_sched"])
                if at not in found:
                    add(at)
                d = found[at]
                d.native = thread
                if current != 0:
                    d.running[current] = (thread, inner)
                inner, current = d, int(frame["f_self"])
                frame = frame["f_up"]
        except gdb.MemoryError:
            continue
    if missing:
        gdb.write("usched: variables of native threads cannot be read here: "
                  "running threads are not known\n")


def dispatchers(given):
    """Returns all known dispatchers, by address."""
    found = {}

    def add(at, name=None, chunks=None, cut=None):
        found[at] = Dispatcher(at, name, chunks, cut)

    for name, uprocs in sets():
        cut = {}
        chunks = chunks_of(uprocs, cut)
        for i in range(int(uprocs["set_nr"])):
            add(int(uprocs["set_proc"]) +
                i * int(uprocs["set_ops"]["op_size"]),
                "%s, processor %d" % (name, i), chunks, cut)
    for at in given:
        if at not in found:
            add(at)
    natives(found, add)
    return found


# Memory.

def is_core():
    connection = getattr(gdb.selected_inferior(), "connection", None)
    if connection is not None:
        return connection.type == "core"
    return "Local core dump file" in gdb.execute("info files", to_string=True)


def writable():
    """Returns the stretches of memory in which a thread may be."""
    found = []
    if is_core():
        text = gdb.execute("maintenance info sections", to_string=True)
        for line in text[text.find("Core file:"):].splitlines():
            m = re.search(r"(0x[0-9a-f]+)->(0x[0-9a-f]+) at .*: load(.*)", line)
            if m and "READONLY" not in m.group(3):
                found.append((int(m.group(1), 16), int(m.group(2), 16)))
        return found
    text = gdb.execute("info proc mappings", to_string=True)
    for line in text.splitlines():
        m = re.match(r"\s*(0x[0-9a-f]+)\s+(0x[0-9a-f]+)\s+0x\S+\s+0x\S+\s+"
                     r"(\S\S\S\S)\b", line)
        if m and m.group(3).startswith("rw"):
            found.append((int(m.group(1), 16), int(m.group(2), 16)))
    return found


def without(ranges, holes):
    """Returns ranges without the holes that lie in them."""
    for low, high in holes:
        left = []
        for a, b in ranges:
            left += [(x, y) for x, y in ((a, min(b, low)), (max(a, high), b))
                     if x < y]
        ranges = left
    return ranges


def blocks(low, high, overlap):
    """Yields (address, bytes) of all that can be read from low to high."""
    while low < high:
        nob = min(high - low, BLOCK)
        try:
            yield low, read(low, nob)
        except gdb.MemoryError:
            if nob > PAGE:
                yield from blocks(low, low + nob // 2 // PAGE * PAGE, 0)
                yield from blocks(low + nob // 2 // PAGE * PAGE, low + nob, 0)
        low += nob
        if low < high:
            low -= overlap


def search(ranges, patterns, size):
    """Returns structs that begin with these: {pattern: {address: bytes}}."""
    found = {pattern: {} for pattern in patterns}
    for low, high in ranges:
        for at, data in blocks(low, high, size):
            for pattern in patterns:
                i = data.find(pattern)
                while i >= 0:
                    if (at + i) % 8 == 0 and i + size <= len(data):
                        found[pattern][at + i] = data[i:i + size]
                    i = data.find(pattern, i + 1)
    return found


# Threads.

class Thread:
    """A thread of d, or memory like a thread, whose KIND is None."""
    def __init__(self, d, at, data=None):
        layout = Thread.layout()
        data = data or read(at, Thread.size)

        def field(name):
            off, size, signed = layout[name]
            return int.from_bytes(data[off:off + size], "little", signed=signed)
        self.d, self.at = d, at
        self.sched = field("u_sched")
        self.stack, self.len = field("u_stack"), field("u_len")
        self.f, self.arg = field("u_f"), field("u_arg")
        self.lane, self.top_bits = field("u_lane"), field("u_top")
        self.mark = field("u_mark")
        self.top = self.top_bits & ~LOW_BITS
        self.kind = self.check()
        self.wait = None            # the record by which it waits
        self.host = ""              # of a simulation

    @classmethod
    def layout(cls):
        if not hasattr(cls, "fields"):
            ustack = struct("ustack", 0).type
            cls.size = ustack.sizeof
            cls.fields = {
                f.name: (f.bitpos // 8, f.type.sizeof,
                         f.name in ("u_len", "u_lane", "u_mark"))
                for f in ustack.fields()}
        return cls.fields

    def check(self):
        """Returns the state of the thread, or None: this is no thread."""
        d = self.d
        own = self.lane > d.lane_nr     # a length without a buffer, perhaps
        if self.sched != d.at or self.len < 0 or \
                (self.stack == 0) != (self.len == 0) and not own or \
                not 0 <= self.lane <= d.lane_all or symbol_of(self.f) is None:
            return None
        if self.at in d.running:
            return "running"
        if self.top_bits == NEW:
            return "new"
        if self.top_bits == ENDED:
            return "ended"
        if self.top_bits & 2 or self.lane >= len(d.lanes):
            return None
        low, bottom, owner = d.lanes[self.lane]
        self.nob = bottom - self.top
        if not (low < self.top < bottom and self.nob < SLICE_MAX):
            return None
        if self.top_bits & AWAY:
            enough = self.len >= self.nob - BARE_MAX and self.len >= 16
            return "away" if enough else None
        return "lane" if owner == self.at else None

    def state(self):
        if self.kind == "running":
            thread, inner = self.d.running[self.at]
            text = "running on native thread %d" % thread.num
            return text + (", runs dispatcher %#x" % inner.at if inner else "")
        if self.kind == "lane":
            return "blocked in lane %d, %d bytes" % (self.lane, self.nob)
        if self.kind == "away":
            return "blocked, away from lane %d, %d bytes" % (self.lane,
                                                             self.nob)
        return self.kind

    def extra(self):
        """Returns what the scheduler knows about the thread."""
        if self.d.chunks is None:
            return ", waits" + self.wait if self.wait else ""
        if self.kind == "ended":
            return ", to be joined" if self.mark & UPROC_JOIN else ""
        try:
            wakes = struct("uproc_thread", self.at)["t_wakes"]
            wakes, posted = int(wakes["w_count"]), int(wakes["w_posted"])
        except gdb.error:
            return ""
        posted //= UWAKES_ONE
        text = ""
        if self.kind in ("lane", "away", "new"):
            text = ", waits" + (self.wait or "") if wakes < 0 else ", ready"
        if wakes > 0:
            text += ", %d wakes" % wakes
        return text + (", %d in the inbox" % posted if posted else "")

    def line(self):
        f, arg, name = self.who()
        return "  %#x  %s%s(%#x)%s  %s%s\n" % (
            self.at, self.host, symbol_of(f), arg, ' "%s"' % name if name else "",
            self.state(), self.extra())

    def who(self):
        """
        Returns the function of the thread, its argument, and its name or "". A
        shell runs a function inside, which may be that of a shell, too; that of
        uthread.h or uscope.h has a name.
        """
        if symbol_of(self.f) != "ustack_shell":
            return self.f, self.arg, ""
        try:
            shell_type = gdb.lookup_type("struct ushell").pointer()
            shell = inner = gdb.Value(self.arg).cast(shell_type).dereference()
            while symbol_of(int(inner["h_f"])) == "ustack_shell":
                inner = inner["h_arg"].cast(shell_type).dereference()
            f, arg = int(inner["h_f"]), int(inner["h_arg"])
            if symbol_of(int(shell["h_run"])) != "uwait_run":
                return f, arg, ""
            block = gdb.Value(self.arg).cast(gdb.lookup_type(
                "struct uself_block").pointer()).dereference()
            return f, arg, block["b_name"].string(errors="replace")
        except gdb.error:       # no debug information, or no memory
            return self.f, self.arg, ""


def own_lanes(ds):
    """Returns where private lanes lie, (low, high), with their guards."""
    found = []
    for low, bottom in sorted((low - GUARD, bottom) for d in ds
                              for low, bottom, _ in d.lanes[d.lane_nr + 1:]):
        if found and low - found[-1][1] <= 2 * PAGE:
            found[-1] = found[-1][0], bottom    # one mapping, or neighbours
        else:
            found.append((low, bottom))
    return found


def threads_of(ds):
    """Fills in d.threads of these dispatchers."""
    for d in ds:
        d.threads = {}
        for at in [lane[2] for lane in d.lanes] + list(d.running):
            if at != 0:
                d.threads[at] = Thread(d, at)
    anywhere = [d for d in ds if d.chunks is None]
    if anywhere:
        holes = [(d.lanes_at, d.lanes_at + d.mapped) for d in ds if d.mapped]
        holes += own_lanes(d for d in ds if d.mapped)
        look(without(writable(), holes), anywhere)
    kept = {}
    for d in ds:
        if d.chunks is not None:
            kept.setdefault(tuple(d.chunks), []).append(d)
    for chunks, those in kept.items():
        look(chunks, those)


def look(ranges, ds):
    """Adds the threads of ds that lie in these ranges."""
    Thread.layout()
    patterns = {d.at.to_bytes(8, "little"): d for d in ds}
    for pattern, those in search(ranges, patterns, Thread.size).items():
        d = patterns[pattern]
        for at, data in those.items():
            thread = Thread(d, at, data)
            if thread.kind is not None:
                d.threads[at] = thread


# Records: struct uwait.

class Records:
    """The layout of struct uwait."""
    def __init__(self):
        record = gdb.lookup_type("struct uwait")
        self.size = record.sizeof
        self.fields = {}
        self.add(record, 0)
        self.kinds = {}     # by number; None: it is none

    def add(self, record, off):
        for f in record.fields():
            if f.name in ("w_at", "w_node"):
                self.add(f.type, off + f.bitpos // 8)
            else:
                self.fields[f.name] = (off + f.bitpos // 8, f.type.sizeof)

    def kind(self, number):
        """Returns (name, wk_number) of the kind with a number, or None."""
        if number not in self.kinds:
            kinds = gdb.parse_and_eval("kind_by_id")
            low, high = kinds.type.range()
            at = kinds[number] if low < number <= high else 0
            self.kinds[number] = self.read(at) if at else None
        return self.kinds[number]

    @staticmethod
    def read(kind):
        try:
            return kind["wk_name"].string(), bool(kind["wk_number"])
        except gdb.error:       # its library is not there, or has gone
            return "other", False

    def text(self, data, size):
        """
        Tells what a record waits for, which fills a block of this size; 0: of
        any size. None: it is none, or waits no longer.
        """
        def field(name):
            off, nob = self.fields[name]
            return int.from_bytes(data[off:off + nob], "little")
        nob = field("w_size") * 16
        if field("w_state") > 1 or nob < self.size or size not in (0, nob):
            return None
        kind = self.kind(field("w_kind"))
        if kind is None:
            return None
        what, is_number = kind
        text = ": " + what
        if is_number:
            if field("object") < 1 << 31:           # else several: u_poll()
                text += " %d" % field("object")
        elif field("object") != 0:
            text += " %#x" % field("object")
            name = re.match(r"(.*?)(?: in section| of )", gdb.execute(
                "info symbol %#x" % field("object"), to_string=True))
            text += " (%s)" % name.group(1) if name else ""
        if field("w_base") != 0:
            text += ", until %.3f s" % (field("n_when") / 1e9)
        return text


def waits_of(ds):
    """Sets the records of the threads of these dispatchers."""
    try:
        records = Records()
    except gdb.error:
        return              # no thread waits by a record
    for d in ds:
        blocked = {at: thread for at, thread in d.threads.items()
                   if thread.kind in ("lane", "away")}
        if not blocked:
            continue
        for low, high in d.chunks if d.chunks is not None else writable():
            for at, data in blocks(low, high, records.size):
                find_waits(d, blocked, at, data, records)


def find_waits(d, blocked, at, data, records):
    """Looks for records of blocked threads in this memory."""
    words = memoryview(data[:len(data) // 8 * 8]).cast("Q")
    for i, value in enumerate(words):
        if value not in blocked:
            continue
        here = at + i * 8
        start, size = d.cut.get(here - here % UMEM_PAGE, (here, 0))
        if size and (here - start) % size:
            continue
        text = records.text(data[i * 8:i * 8 + records.size], size)
        if text and i * 8 + records.size <= len(data):
            blocked[value].wait = text


# Hosts of a simulation: ext/sim/smember.c

def name_hosts(ds):
    """Names the hosts of the threads of these dispatchers."""
    try:
        buckets = gdb.parse_and_eval("'smember.c'::members")
        for i in range(buckets.type.range()[1] + 1):
            member = buckets[i]
            while int(member) != 0:
                boot, at = member["m_boot"], int(member["m_stack"])
                for d in ds:
                    if at in d.threads:
                        d.threads[at].host = boot["b_host"]["h_name"].string() + \
                            (" (ended): " if boot["b_dead"] else ": ")
                member = member["m_next"]
    except gdb.error:
        pass                # it is no simulation


# Walking.

class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class Walker(gdb.unwinder.Unwinder):
    """Names the caller of the innermost frame, while self.regs is set."""
    def __init__(self):
        super().__init__("usched")
        self.regs = None

    def __call__(self, pending):
        if self.regs is None or self.innermost != (
                int(pending.read_register("sp")),
                int(pending.read_register("pc"))):
            return None
        pointer = gdb.lookup_type("char").pointer()
        at = gdb.Value(self.regs["sp"] - 16).cast(pointer)
        info = pending.create_unwind_info(
            FrameId(at, gdb.Value(self.innermost[1]).cast(pointer)))
        for name, value in self.regs.items():
            kind = pending.read_register(name).type
            info.add_saved_register(name, gdb.Value(value).cast(kind))
        return info

    def first(self, regs):
        """Returns the frame that has these registers."""
        self.regs = None
        gdb.invalidate_cached_frames()
        f = gdb.newest_frame()
        self.innermost = (int(f.read_register("sp")),
                          int(f.read_register("pc")))
        self.regs = regs
        gdb.invalidate_cached_frames()
        f = gdb.newest_frame()
        while f.type() == gdb.INLINE_FRAME:
            f = f.older()
        return f.older()

    def stop(self):
        self.regs = None
        gdb.invalidate_cached_frames()


walker = Walker()
gdb.unwinder.register_unwinder(None, walker, replace=True)


def machine():
    name = gdb.newest_frame().architecture().name()
    for known, layout in MACHINES.items():
        if name == known or known.startswith(name + ":"):
            return layout
    fail("no backtraces of blocked threads on %s" % name)


def frames(at, low, bottom, moved):
    """
    Yields frames; each is valid until the next is asked for. The switch has
    left the registers at this address. Pointers to low .. bottom are moved.
    """
    nob, places, outer = machine()
    names = list(places) + ["sp"] + outer
    is_x86 = "rbp" in places
    regs = {name: word(at + off) for name, off in places.items()}
    regs["sp"] = at + nob
    while True:
        for name in regs:
            if name != "pc" and low <= regs[name] <= bottom:
                regs[name] += moved
        sp = regs["sp"]
        f = walker.first(regs)
        while f is not None and f.type() == gdb.INLINE_FRAME:
            yield f
            f = f.older()
        if f is None:
            return
        yield f
        older = f.older()
        while older is not None and older.type() == gdb.TAILCALL_FRAME:
            yield older             # gdb has found that this jumped to f
            older = older.older()
        if older is not None:
            regs = registers(older, names)
        elif is_x86 and moved:
            regs = registers_of_caller(f, regs, names)
        else:
            return
        if low <= regs["sp"] <= bottom:
            # By a saved pointer: gdb has read the return address in the lane.
            regs["sp"] += moved
            if is_x86 and moved and regs["sp"] < bottom + moved:
                regs["pc"] = word(regs["sp"] - 8)
        if not sp < regs["sp"] < bottom + moved:
            return


def registers_of_caller(f, regs, names):
    """
    Returns the registers of the caller of f, if gdb knows none: by a saved
    pointer it has looked for the return address in the lane, and found 0 there.
    """
    f.select()
    text = gdb.execute("info frame", to_string=True)
    regs = dict(regs, sp=int(re.search("frame at (0x[0-9a-f]+)", text)[1], 16))
    for name, at in re.findall(r"(\w+) at (0x[0-9a-f]+)",
                               text.partition("Saved registers:")[2]):
        if name in names:
            regs[name] = word(int(at, 16))
    return regs


def registers(f, names):
    """Returns those of these registers that are known in this frame."""
    regs = {}
    for name in names:
        try:
            regs[name] = int(f.read_register(name))
        except gdb.error:
            pass
    return regs


def print_frames(those):
    try:
        for i, f in enumerate(those):
            f.select()
            text = gdb.execute("frame", to_string=True).splitlines()[0]
            gdb.write("    %-3s %s\n" % ("#%d" % i,
                                         re.sub(r"^#\d+\s+", "", text)))
    finally:
        walker.stop()


def is_portable():
    """Tells whether registers are in a jmp_buf, which only libc can read."""
    return any(symbol.symtab.filename.endswith(("usched.c", "portable.h"))
               for symbol in gdb.lookup_static_symbols("next_round"))


def backtrace(thread):
    if thread.kind in ("new", "ended"):
        return
    if thread.kind == "running":
        native, inner = thread.d.running[thread.at]
        native.switch()
        if inner is None:
            text = gdb.execute("backtrace", to_string=True)
            gdb.write("".join("    %s\n" % line for line in text.splitlines()))
            return
    if is_portable():
        gdb.write("    no backtrace: this is a portable build\n")
        return
    low, bottom, _ = thread.d.lanes[thread.lane]
    if thread.kind == "running":
        print_frames(frames(inner.exit, low, bottom, 0))
        return
    at = thread.top
    moved = 0
    if thread.kind == "away":
        moved = thread.stack - at
    skip = 8 if thread.top_bits & FP_ON_TOP else 0
    print_frames(frames(at + moved + skip, at, bottom, moved))


# The command.

class Usched(gdb.Command):
    """Lists the threads of usched: usched [DISPATCHER ...]
With backtraces, of all or of some: usched bt [THREAD or DISPATCHER ...]
Arguments are expressions without blanks: pointers, or structs."""

    def __init__(self):
        super().__init__("usched", gdb.COMMAND_STACK, gdb.COMPLETE_EXPRESSION)

    def invoke(self, text, from_tty):
        words = gdb.string_to_argv(text)
        with_bt = words[:1] == ["bt"]
        if with_bt or words[:1] == ["list"]:
            words = words[1:]
        native = gdb.selected_thread()
        if native is None:
            fail("no process and no core")
        level = gdb.selected_frame().level()
        given = [self.address(w) for w in words]
        language = gdb.parameter("language")
        try:
            gdb.execute("set language c", to_string=True)
            self.run(given, with_bt)
        finally:
            walker.stop()
            native.switch()
            gdb.execute("frame level %d" % level, to_string=True)
            gdb.execute("set language " + language, to_string=True)

    @staticmethod
    def address(expression):
        value = gdb.parse_and_eval(expression)
        if value.type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT:
            return int(value.address)
        return int(value)

    def run(self, given, with_bt):
        known = dispatchers([])
        if with_bt and given:
            given = [at for at in given if not self.one(at, known)]
            if not given:
                return
        if given:
            known = dispatchers(given)
        ds = [known[at] for at in given] if given else list(known.values())
        if not ds:
            gdb.write("usched: no dispatcher runs; name one: usched &s\n")
        threads_of(ds)
        waits_of(ds)
        name_hosts(ds)
        for d in ds:
            self.show(d, with_bt)

    @staticmethod
    def one(at, known):
        """Shows a thread. False: it is none."""
        if at in known:
            return False
        sched = int(struct("ustack", at)["u_sched"])
        try:
            d = known.get(sched) or dispatchers([sched])[sched]
            thread = Thread(d, at)
        except gdb.MemoryError:
            return False
        if thread.kind is None:
            return False
        d.threads = {at: thread}
        waits_of([d])
        name_hosts([d])
        gdb.write(thread.line())
        backtrace(thread)
        return True

    @staticmethod
    def show(d, with_bt):
        counts = {}
        gdb.write("Dispatcher %#x%s%s, %s\n" % (
            d.at, " (%s)" % d.name if d.name else "",
            ", native thread %d" % d.native.num if d.native else
            ", does not run",
            "%d lanes" % d.lane_nr if d.lane_nr else "no lanes"))
        for at in sorted(d.threads):
            thread = d.threads[at]
            if thread.kind is None:
                continue
            kind = "blocked" if thread.kind in ("lane", "away") else thread.kind
            counts[kind] = counts.get(kind, 0) + 1
            gdb.write(thread.line())
            if with_bt:
                backtrace(thread)
        gdb.write("  %d threads%s\n" % (sum(counts.values()), "".join(
            ", %d %s" % (counts[k], k) for k in sorted(counts))))


Usched()
