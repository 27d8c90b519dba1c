# SPDX-License-Identifier: MIT
"""check.py: graph.py and its like print what lines say, bench.sh such lines.

Nothing is measured: the lines are made up (in tables.txt), the programs are
stand-ins. Where the article's data lie beside the repository (../shared), its
tables too. Each function below is a claim.
"""
import fcntl
import glob
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
GRAPH = ["python3", TOP + "/graph.py"]
TARGETS, FORK = (["python3", f"{TOP}/bench/results/{name}.py"]
                 for name in ("targets", "fork"))
BENCH = ["sh", TOP + "/bench.sh"]
GNUPLOT = shutil.which("gnuplot")
failed = []


def check(good, what, *shown):
    if not good:
        print("FAILED", what, *shown, sep="\n")
        failed.append(what)


def same(got, want, what):
    check(got == want, what, "want: ", want, "got: ", got)


def has(text, *parts):
    for part in parts:
        check(part in text, f'no "{part}" in', text)


def run(status, command, stdin="", **env):
    """Returns stdout and stderr."""
    end = subprocess.run(command, input=stdin, capture_output=True, text=True,
                         env={**os.environ, **env}, timeout=300)
    check(end.returncode == status,
          f"{command}: exit {end.returncode}, not {status}", end.stderr)
    return end.stdout, end.stderr


def write(name, text):
    with open(name, "w", encoding="ascii") as file:
        file.write(text)
    return name


def read(name):
    with open(name, encoding="utf-8") as file:
        return file.read()


def plain(text):
    """Tables as tables.txt has them: no rules, no bars at the ends."""
    lines = [re.sub(r"^\| ?(.*) \|$", r"\1", line).rstrip()
             for line in text.splitlines()]
    return "\n".join(line for line in lines
                     if not re.match(r"$|\|?---", line) and "not measured" not in line)


# graph.py and its like.

def tables():
    """Each case of tables.txt; good lines give no word on stderr."""
    scripts = {"graph": GRAPH, "targets": TARGETS, "fork": FORK}
    cases = read(HERE + "/tables.txt")
    for case in re.split(r"^== ", cases, flags=re.M)[1:]:
        head, body = case.split("\n", 1)
        name, command, *bad = head.split(" | ")
        lines, want = re.split(r"^->\n", body, flags=re.M)
        if lines:
            write("lines", lines)
        script, *options = command.split()
        out, err = run(0, scripts[script] + options + ["lines"])
        got = plain(out)
        want = plain(want.replace("\\\n", ""))
        same(got, want, name)
        named = re.findall(r"^graph.py: lines:(\d+): ", err, re.M)
        same(" ".join(named), "".join(bad), name + ": bad lines")
        same(err.count("\n"), len(named), name + ": words on stderr\n" + err)


def verbatim():
    """A table for each N, in order; columns as they appear; from stdin."""
    write("eight", "N, R, M, B, A\n8, 1, 1000000, 8, 4\n2, 1, 1000000, 1, 4\n")
    title = "N = %d, millions of messages a second by coroutines, higher is " \
            "better, mean of 1 run:\n\n|  | %d |\n| --- | ---: |\n"
    want = title % (2, 2) + "| B | 2.00 |\n| A | 0.50 |\n\n" + \
        title % (8, 8) + "| B | 1.00 |\n| A | 2.00 |\n"
    same(run(0, GRAPH + ["eight"]), (want, ""), "a table for each N")
    same(run(0, GRAPH, read("eight")), (want, ""), "the same from stdin")
    _, err = run(0, GRAPH, read("eight") + "2, 1\n")
    has(err, "graph.py: line 4: ")


def nothing_to_read():
    write("nothing", "# nothing\n")
    write("blocked", "blocked, NR, U\nblocked, 10, 56\n")
    write("cold", "N, R, M, U\n8, 2, 1000, 1\n")
    run(1, GRAPH + ["nothing"])
    for command, why in [
            (GRAPH + ["none"], "none: No such file"),
            (GRAPH + ["f.svg", "blocked"], "not drawn, no data"),
            (TARGETS + ["cold", "none"], "none: No such file"),
            (TARGETS + ["cold"], "no lines of")]:
        has(run(1, command)[1], why)
    out, err = run(0, TARGETS + [write("bad", "turns, N, R, M, D, UL1T\n"
                                       "turns, 2, 2, 250000, 0, 1\n"
                                       "turns, 2, 2, 250000, 0, 1, 2\n")])
    has(err, "2, 2, 250000, 0, 1, 2")
    has(out, "| rr, 200 threads, to before | 0.98 | not measured")


def usage():
    for args in ["--foo"], ["lines", "c.svg"], ["c.svg", "--spread", "lines"]:
        has(run(2, GRAPH + args)[1], "usage")
    has(run(0, GRAPH + ["--help"])[0], "usage")


def terminal_tables():
    """What is wider than the terminal goes on below; never above 100 columns."""
    write("text", """\
# bench.sh --full, 2026-11-20T17:47:47Z
# processor: A fast one, family 1, 2 available, governor unknown
# commit: 123abc, with changes
# GO: mixed, peers/go N R M 0 2
# U1K: cold, rmain N R M 1000 2
N, R, M, GO, GONE, U1K, UCTX1T
2, 100, 20000, 0.5, , 0.015625, 8
2, 750, 20000, 0.5, , 2, 8
2, 10000, 20000, 0.5, , 2, 8
2, 1000000, 20, 5, , 10, 8
""")
    out, _ = run(0, GRAPH + ["--text", "text"], COLUMNS="32")
    tables_, legend = out.split("* is ours", 1)
    same(tables_, """\
A fast one, family 1,
processors: 2; 2026-11-20;
commit 123abc

N = 2, millions of messages a
second by coroutines, higher is
better, mean of 1 run:

                 200  1500   20k
* U1K    cold    256  15.0   200
  GO     mixed  8.00  60.0   800
  UCTX1T        0.50  3.75  50.0

                  2M
* U1K    cold   4.00
  GO     mixed  8.00
  UCTX1T        5.00

""", "tables for a terminal")
    has(legend, ". 1T (and RUST)")
    write("many", read("text") + "".join(
        f"2, {r}, 1000, 1, , 1, 1\n" for r in range(2, 17)))
    out, _ = run(0, GRAPH + ["--text", "many"], COLUMNS="200")
    widest = max(map(len, out.splitlines()))
    check(95 < widest <= 100, f"{widest} columns")


# Plots.

def drawn(script, out, *files):
    """Draws, and returns the text of an SVG."""
    run(0, script + [out, *files])
    check(os.path.getsize(out) > 0, out + " is not drawn")
    if out.endswith(".svg"):
        return read(out)
    with open(out, "rb") as png:
        return check(png.read(4)[1:] == b"PNG", out + " is not PNG")


def plot_says():
    """Where the lines come from, and the direction, stand in the plot."""
    write("said", read("text"))
    if GNUPLOT:
        has(drawn(GRAPH, "p.svg", "said"), "higher is better",
            "A fast one, family 1, processors: 2;")


def plots():
    """A run that failed is left out. Two panels for an N with both columns."""
    if not GNUPLOT:
        return
    write("lost", "N, R, M, P\n2, 10, 1000000, 100000.000\n")
    write("both", "N, R, M, U, UL1T\n2, 1, 1000000, 1, 2\n8, 1, 1000000, 1, \n"
          "N, R, M, RUST\n2, 1, 1000000, 1\n")
    write("ones", "N, R, M, GO1T, RUST, U1TS\n8, 1, 100, 1, 2, 3\n")
    drawn(GRAPH, "c.png", "eight", "lost")
    svg = drawn(GRAPH, "c.svg", "eight", "lost")
    has(svg, "<svg", "N = 8")
    check(">P<" not in svg, "a run that failed is in the plot")
    run(1, GRAPH + ["none/c.svg", "eight"])
    has(run(1, GRAPH + ["d.svg", "lost"])[1], "no data")
    for lines, want in (("both", ["N = 2, one native thread",
                                  "N = 2, all processors",
                                  "N = 8, all processors"]),
                        ("ones", ["N = 8"])):
        same(re.findall(">(N = [^<]*)<", drawn(GRAPH, "p.svg", lines)), want,
             "panels")


def axes():
    """The y axis begins at 0, but is logarithmic for speeds far apart."""
    for times, least in ("9, 0.004", "0.5"), ("0.009, 0.004", "0"):
        if GNUPLOT:
            write("far", f"N, R, M, POSIX, UL\n2, 1, 1000000, {times}\n")
            tics = re.findall(r"<text> *([0-9.]*)<",
                              drawn(GRAPH, "p.svg", "far"))
            check(least in tics, f"the y axis of {times}", tics)


def families():
    """One colour for a family, in both panels, and no other has it."""
    want = ["BOOST1T", "C++ C++1T C++H1T", "GO GO1T", "NEW NEWH1K", "ODD1T",
            "POSIX", "RUST RUSTMT", "STACK1T STACKH1T",
            "U U10K U1K U1T U1TFP U1TOLD U1TS", "UCTX1T",
            "UL UL1T UL1TFP UL1TOLD"]
    names = " ".join(want).split()
    if not GNUPLOT:
        return
    write("all", f"N, R, M, {', '.join(names)}\n"
          f"2, 1, 1000000{', 1' * len(names)}\n")
    same(run(0, GRAPH + ["f.svg", "all"])[1], "", "all columns")
    got, name = {}, None
    for line in read("f.svg").splitlines():
        text = re.search("<text>([A-Z0-9+]*)<", line)
        stroke = re.search(r"stroke=.rgb\(([^)]*)", line)
        name = text[1] if text else name
        if name and name[0].isalpha() and stroke:       # of the line that comes next to the name
            got.setdefault(stroke[1].replace(" ", ""), set()).add(name)
            name = None
    same(sorted(" ".join(sorted(family)) for family in got.values()), want,
         "the colours of the families")


def no_gnuplot():
    os.mkdir("only")
    os.symlink(sys.executable, "only/python3")
    out, err = run(0, ["only/python3"] + GRAPH[1:] + ["e.svg", "eight"], PATH="only")
    has(err, "gnuplot-nox")
    has(out, "| B | 1.00 |")
    check(not os.path.exists("e.svg"), "no gnuplot, but a plot")


def article():
    """The article's tables. Its UL is not in its data."""
    data, text = TOP + "/../shared/data/", glob.glob(TOP + "/../shared/seeds/002_*.txt")
    if not os.path.isdir(data) or not text:
        return
    for n in 2, 8:
        both = read(data + "results.linux") + read(data + "results.linux.u1ts")
        out, _ = run(0, GRAPH, "\n".join(re.findall(rf"^ *[{n}N],.*", both, re.M)))
        got = [" ".join(line.replace("|", " ").split())
               for line in out.splitlines()]
        want = re.search(rf"^{2 * n} [0-9 ]*\n(?:.*\n)*?(?=UL )", read(text[0]),
                         re.M)[0].splitlines()
        same(len(want), 12, "lines of the article")
        same([line for line in got if re.match("[0-9A-Z].*[0-9]$", line)], want,
             f"the article's table, N = {n}")


# bench.sh, with stand-ins for its programs.

def stand_in(name, script):
    os.makedirs(os.path.dirname("bin/" + name), exist_ok=True)
    write("bin/" + name, "#!/bin/sh\n" + script)
    os.chmod("bin/" + name, 0o755)


def bench(*args, status=0, **env):
    """Returns the cells, a string for each line; all of stdout; and stderr."""
    out, err = run(status, BENCH + list(args), BENCH_DIR=os.getcwd() + "/bin", **env)
    return cells(out), out, err


def cells(out):
    return [line.replace(" ", "") for line in out.splitlines() if line[:1] != "#"]


def bench_lines():
    """The arguments of each program, and the order of the lines."""
    stand_in("rmain", """case $1 in
        blocks) echo 42;; empty) echo 0.5;; blocked) echo "$2$3";;
        *) echo "$1$2$3.$4";; esac""")
    stand_in("lmain", """case $1 in
        blocks) echo "$4";; empty) echo "$2.$3";; blocked) echo "$2$3$4";;
        *) echo "$3.$5";; esac""")
    stand_in("lwrap", 'echo "$1.$2"')
    got, out, err = bench(*"--short --only UL1T,U10K --runs 2".split())
    rings = """N,R,M,U10K,UL1T
        2,2,5010,,5010.1        2,2,2505,222505.10000,
        2,100,110,,110.1        2,100,55,210055.10000,
        2,1000,20,,20.1         2,1000,10,2100010.10000,
        N,R,M,U10K,UL1T
        8,2,1260,,1260.1        8,2,630,82630.10000,
        8,100,35,,35.1          8,100,17,810017.10000,
        8,1000,12,,12.1         8,1000,10,8100010.10000,"""
    further = """blocks,N,R,M,U10K,UL1T
        blocks,2,100,1000,42,1000       blocks,8,100,1000,42,1000
        empty,NR,U10K,UL1T      empty,1000,,1000.1
        blocked,NR,U10K,UL1T    blocked,1000,100010000,100001"""
    turns = """wrap,WHERE,M,UL1T
        wrap,1,1000,1.1000      wrap,2,1000,2.1000
        wrap,3,1000,3.1000      wrap,4,1000,4.1000
        turns,N,R,M,D,UL1T
        turns,2,2,1000,0,1000.1 turns,2,100,10,10000,10.1"""
    same(got, " ".join([rings, further, turns, rings, turns]).split(), "lines")
    has(out, "# UL1T: hot, lmain N R M 0 1", "# U10K: cold, rmain N R M 10000",
        "1/2 of M", *("# " + key for key in
                      "bench.sh processor memory system commit U10K".split()))
    same(err.count(": run"), 28, "lines of progress, one for a row")
    same(run(0, GRAPH, out)[1], "", "graph.py reads what bench.sh writes")


def bench_missing():
    got, _, err = bench("--short", "--only", "UL,C++")
    check(any(line.startswith("2,100,110,,110.") for line in got), "C++", got)
    has(err, "package g++")
    same(err.count("C++: bench/peers/coro/coro-fifo is missing"), 1, "once")
    bench("--short", "--only", "C++", status=1)


def bench_failures():
    stand_in("rmain", """case $1,$2,$4 in
        blocks,2,*) echo 0;; blocks,*) echo 1.5;; empty,*) echo x;;
        blocked,*) echo 0;; 2,2,0) echo 'no memory' >&2; exit 1;;
        2,2,1000) echo 1.5; kill -SEGV $$;; 2,100,*) echo hello;;
        2,1000,*) echo 0.000000;; 8,2,*) printf '1.5\\n2.5\\n';;
        8,100,*) ;; *) echo 2.5;; esac""")
    got, _, err = bench("--short", "--only", "U,U1K")
    same([line for line in got if re.match("[28be].*0", line)],
         """2,2,5010,, 2,100,110,, 2,1000,20,, 8,2,1260,, 8,100,35,,
         8,1000,12,2.5,2.5 blocks,2,100,1000,0,0 blocks,8,100,1000,,
         empty,1000,, blocked,1000,,""".split(), "cells of programs that fail")
    has(err, "U, N = 2, R = 2: exit 1: no memory",
        "U1K, N = 2, R = 2: killed by SIGSEGV",
        'U, N = 2, R = 100: not a result: "hello"',
        'U, N = 2, R = 1000: not a result: "0.000000"',
        'U, blocks, N = 8: not a result: "1.5"')


def bench_time_limit():
    if not shutil.which("timeout"):
        return
    stand_in("lmain", "[ $1 -ne 8 ] || [ $2 -ne 2 ] || exec sleep 100\necho 2.5")
    got, _, err = bench(*"--short --only UL --limit 1 --runs 2".split())
    same([line for line in got if line.startswith("8,")],
         "8,2,1260, 8,100,35,2.5 8,1000,12,2.5".split() * 2, "the time limit")
    has(err, "UL, N = 8, R = 2: more than 1 s", "UL, N = 8, R = 2: not tried again")


def bench_interrupted():
    """In the middle of a line: only whole lines, and no program left."""
    stand_in("rmain", "echo 2.5")
    stand_in("lmain", "[ $2 -eq 2 ] && { echo 1.5; exit; }\n"
             "echo $$ >pid.new; mv pid.new pid\nexec sleep 100")
    for number in signal.SIGINT, signal.SIGTERM:
        with subprocess.Popen(BENCH + "--short --only U,UL".split(), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**os.environ, "BENCH_DIR": os.getcwd() + "/bin"},
                              ) as child:
            while child.poll() is None and not os.path.exists("pid"):
                time.sleep(0.01)
            child.send_signal(number)
            out, err = child.communicate(timeout=60)
        check(child.returncode > 128, f"{number.name}: exit {child.returncode}", err)
        same(cells(out), ["N,R,M,U,UL", "2,2,5010,2.5,1.5"], "whole lines")
        has(err, "interrupted")
        left = int(read("pid"))
        os.remove("pid")
        try:
            os.kill(left, 0)
            check(False, f"{number.name}: a child is left")
        except ProcessLookupError:
            pass


def bench_options():
    for args in ("--foo U", "--runs 0", "--runs", "--runs x", "--runs -1",
                 "--only", "--only ,", "--only NONE", "--only U*", "--limit 0",
                 "--limit", "--hot --only U", "--short --against none"):
        _, out, err = bench(*args.split(), status=2)
        has(err, "usage")
        same(out, "", args + " prints on stdout")
    has(bench("--help")[1], "usage")
    stand_in("rmain", "echo 25")
    stand_in("lmain", "echo 25")
    same(bench(*"--short --hot --only U,UL,C++".split())[0][0], "N,R,M,UL", "--hot")
    same(bench(*"--short --cold --only U,UL,U1T".split())[0][0], "N,R,M,U,U1T",
         "--cold")


def bench_full():
    """--full has the article's M: 100 + 8000000 / (N * R)."""
    stand_in("lmain", "echo 2.5")
    got, _, _ = bench(*"--full --runs 1 --only UL".split())
    same(len([line for line in got if line[0] in "28"]), 26, "rows of --full")
    has("\n".join(got), "empty,500000,2.5", "2,2,2000100,", "8,1000000,101,")
    same([line for line in got if line.startswith("turns,2,500000,80,0,2.5")],
         ["turns,2,500000,80,0,2.5"], "--full has rows in turn")


def bench_targets():
    """Nine times, what needs much memory three times; slopes of cold columns."""
    stand_in("rmain", 'case $1 in blocked) echo 42;; *) echo "$3.$5";; esac')
    got, _, _ = bench("--targets", "--only", "U1T")
    for kind, nr in ("turns,2,2,", 9), ("turns,2,1000000,", 3), ("N", 0), \
            ("blocks", 0), ("empty", 0):
        same(sum(line.startswith(kind) for line in got), nr, kind)
    same([line for line in got if line.startswith("steady")][-1],
         "steady,2,8000,100,10000,200.000000", "--targets")
    _, out, _ = bench("--targets", "--runs", "1")
    has(out, "UL1T")
    check(not re.search("^ *turns.*(GO|BOOST)", out, re.M), "columns of --targets")


def bench_against():
    """The columns OLD, of another folder."""
    os.mkdir("old")
    write("old/commit", "123abc\n")
    stand_in("../old/rmain", "echo 7.5")
    stand_in("rmain", "echo 2.5")
    got, out, err = bench(*"--short --against old --only U1T,U1TOLD".split())
    has(out, "# OLD: commit 123abc", "U1TOLD: cold, against/rmain N R M 0 1")
    has(err, "against/rwrap is missing: make against")
    has("\n".join(got), "2,100,110,2.5,7.5", "turns,2,2,1000,0,2.5,7.5")
    got, _, _ = bench("--short", "--only", "U1T,U1TOLD")
    has("\n".join(got) + "\n", "turns,2,2,1000,0,2.5\n")
    has(bench("--short", "--only", "U1TOLD", status=2)[2], "needs --against")


def bench_python():
    """Programs that make empty threads only are asked nothing else."""
    stand_in("bench/peers/python/empty-asyncio", '[ "$1" = empty ] && echo "$2.$3"')
    got, _, err = bench("--short", "--only", "ASYNCIO,GEVENT")
    same(got, ["empty,NR,ASYNCIO,GEVENT", "empty,1000,1000.1,"], "empty threads")
    has(err, "package python3-gevent")


def bench_machine():
    """A name for files: no blanks, the same each time, whatever else is asked."""
    name = bench("--machine")[1]
    check(re.fullmatch(r"[a-z0-9][-a-z0-9._]*-[0-9]+cpu\n", name), "--machine", name)
    same(bench("--short", "--machine", "--runs", "2")[1], name, "--machine")


def bench_progress():
    """The progress fits a terminal, and what is no terminal gets whole lines."""
    stand_in("lmain", "echo 2.5")
    for columns, width, more in (40, 40, {}), (40, 20, {"COLUMNS": "20"}), \
            (100, 100, {"COLUMNS": "x"}):
        bars = [line for line in on_terminal(columns, TERM="xterm", **more)
                if line.startswith("[")]
        check(bars and max(map(len, bars)) < width, f"progress wraps: {width}", bars)
    has("\n".join(bars), ", run 1 of 1, turns, N = 2, R = 2")
    has("\n".join(on_terminal(40, TERM="dumb")), ": run 1 of 1, N = 8, R = 2: ")
    err = bench("--short", "--only", "UL")[2]
    has(err, ": run 1 of 1, N = 8, R = 2: ")
    check(not set("\r\033") & set(err), "what only a terminal understands", repr(err))


def on_terminal(columns, **env):
    """The lines that bench.sh shows on stderr. What is written over is one, too."""
    read_, go = os.pipe()
    child, terminal = pty.fork()
    if child == 0:
        os.close(go)
        os.read(read_, 1)
        os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
        os.execvpe("sh", BENCH + "--short --only UL".split(),
                   {**os.environ, "BENCH_DIR": os.getcwd() + "/bin", **env})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    os.close(go)
    os.close(read_)
    shown = b""
    try:
        while data := os.read(terminal, 65536):
            shown += data
    except OSError:
        pass
    os.waitpid(child, 0)
    os.close(terminal)
    return re.split("[\r\n]+", shown.decode().replace("\033[K", ""))


def main():
    signal.signal(signal.SIGINT, signal.SIG_DFL)    # may be ignored: nohup, &
    os.environ.pop("COLUMNS", None)
    os.environ["LC_ALL"] = "C"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for claim in (
                tables, verbatim, nothing_to_read, usage, terminal_tables,
                plot_says, plots, axes, families, no_gnuplot, article, bench_lines,
                bench_missing, bench_failures, bench_time_limit,
                bench_interrupted, bench_options, bench_full, bench_targets,
                bench_against, bench_python, bench_machine, bench_progress):
            claim()
        os.chdir("/")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
