# SPDX-License-Identifier: MIT
"""site.py: man pages, and a site that needs no network, from the comments of the
public headers and from the texts.

    python3 doc/site.py DIR     DIR/man/man1, man3; DIR/html

A man page is made of each public header: the comment at its head describes it, and
the comment above a prototype describes the function, as in doc/api.md. Each function
is a link to its page. The programs uview and utop have pages from what they print
about their use.

The site has README.md as index.html, and all that links lead to from there: texts by
cmark-gfm, man pages by mandoc, sources as they are. Pages load nothing but a style
sheet, the search and its index, which lie beside them. So they work from a disk.

Anchors of headings are those of GitHub. A link to what is not there ends the program
with a message.
"""
import datetime
import html
import json
import os
import pathlib
import posixpath
import re
import subprocess
import sys
import textwrap

TOP = pathlib.Path(__file__).resolve().parent.parent
NAV = [("Guide", "doc/guide.md"), ("Functions", "doc/api.md"),
       ("Servers", "doc/servers.md"), ("Examples", "examples/README.md"),
       ("Recorder", "doc/view.md"), ("Simulator", "doc/sim.md"),
       ("Build", "doc/embed.md"), ("Plugins", "doc/plugins.md"),
       ("From pthreads", "doc/from-pthreads.md"), ("Go", "doc/from-go.md"),
       ("libuv", "doc/from-libuv.md"), ("Tested", "doc/tested.md"),
       ("Changes", "CHANGELOG.md")]
FRAME = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><link rel="stylesheet" href="{up}style.css">
</head><body>
<header><nav><a class="name" href="{up}index.html">usched {version}</a>
{nav}</nav>
<input id="search" type="search" placeholder="Search" aria-label="Search"
 data-up="{up}"></header>
<div id="found"></div>
<main>
{body}
</main>
<script src="{up}index.js"></script><script src="{up}search.js"></script>
</body></html>
"""


def run(*command, text=None):
    """Returns what a command prints."""
    return subprocess.run(command, input=text, check=True, cwd=TOP, text=True,
                          stdout=subprocess.PIPE).stdout


def version():
    return re.search(r'USCHED_VERSION "(.*)"', (TOP / "usched.h").read_text()).group(1)


def date():
    """Returns the day of the last commit; without git, of usched.h."""
    when = os.environ.get("SOURCE_DATE_EPOCH")
    if not when:
        git = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=TOP, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        when = git.stdout.strip() or os.stat(TOP / "usched.h").st_mtime
    return datetime.datetime.fromtimestamp(int(when), datetime.timezone.utc)


# HEADERS


class Header:
    """A public header: its name, purpose, essay, and functions with comments."""

    def __init__(self, name, text, told):
        self.name = name
        self.path = "usched/" + name
        self.told = told        # rows of doc/api.md
        self.purpose = ""
        self.essay = []
        self.groups = []        # (comment, [prototype ...])
        self.seen = set()
        self.read(text)

    def read(self, text):
        comment, code, depth, adjacent = "", "", 0, False
        begun = False
        for piece in re.findall(r"/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|[^\n/]+|\n|/",
                                text, re.S | re.M):
            if piece.startswith("/*"):
                if not code.strip() and depth == 0:
                    words = plain(piece)
                    if not begun:
                        begun = self.head(words)
                    comment, adjacent = words, False
                continue
            if piece.lstrip().startswith("#"):
                if re.match(r"\s*#\s*define", piece):
                    comment = ""
                    begun = begun and "essay"
                continue
            if piece == "\n" and not code.strip() and depth == 0:
                if adjacent:
                    comment = ""
                adjacent = True
                continue
            adjacent = False
            if depth == 0:
                code += piece
            depth += piece.count("{") - piece.count("}")
            if depth == 0 and (code.rstrip().endswith(";") or "}" in piece):
                if 'extern "C"' not in code:
                    begun = "code"
                    self.statement(code, comment)
                code = ""
            elif depth == 1 and 'extern "C" {' in code:
                depth, code = 0, ""

    def head(self, words):
        """Takes comments up to the first code as the essay."""
        if words.startswith("SPDX"):
            return False
        match = re.match(re.escape(self.name) + r": (.*)", words, re.S)
        if match:
            self.purpose = " ".join(match.group(1).split()).rstrip(".")
            return False
        self.essay.append(words)
        return True

    def statement(self, code, comment):
        code = re.sub(r"__attribute__\(\([^()]*(\([^()]*\)[^()]*)*\)\)", "", code)
        code = re.sub(r"\s+", " ", code)
        code = re.sub(r"\{.*|;.*", "", code).strip()
        if comment.startswith("Not API") or "(" not in code or re.match(
                r"(struct|enum|union) \w*$|__asm__|extern |typedef", code) or "=" in code:
            return
        code = re.sub(r"\b(static|__inline__|inline|[A-Z][A-Z_]+) ", "", code)
        # A function that returns a pointer to a function is of another form.
        code = re.sub(r"^(.*)\(\*(\w+)(\(.*\))\)\((.*)\)$", r"\1(*)(\4) \2\3", code)
        match = re.match(r"(.*?[ *])([a-z]\w*) ?\((.*)\)$", code)
        if not match or match.group(2) in self.seen or match.group(2) not in self.told:
            return
        self.seen.add(match.group(2))
        if self.groups and self.groups[-1][0] == comment:
            self.groups[-1][1].append(match.groups())
        else:
            self.groups.append((comment, [match.groups()]))


def plain(comment):
    """Returns the words of a comment, without its frame."""
    lines = comment[2:-2].strip("\n").split("\n")
    lines = [re.sub(r"^\s*\* ?", "", line) if re.match(r"\s*\*", line) else line.lstrip()
             for line in lines]
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def headers():
    told = dict(re.findall(r"^\| `[^`]*?\b((?!void\b)[a-z]\w*)\([^`]*` \| (.*) \|$",
                           run("sh", "doc/api.sh"), re.M))
    for path in run("sh", "doc/api.sh", "--headers").split():
        name = posixpath.basename(path)
        text = run("awk", "-v", "file=" + path, "-f", "core/single.awk") \
            if name == "usched.h" else (TOP / path).read_text()
        header = Header(name, text, told)
        if (TOP / "include/usched/private" / name).exists():
            header.path = "usched/private/" + name
        if header.groups:
            yield header


# MAN PAGES


def roff(text):
    """Escapes a line of text."""
    text = re.sub(r"(?<=\w)\(\)", r"\\&()", text.replace("\\", "\\e"))
    return "\\&" + text if text[:1] in (".", "'") else text


def word(text):
    """Escapes a word of a macro's line."""
    text = text.strip().replace("\\", "\\e").replace('"', "\\(dq")
    return '"%s"' % text if " " in text else text


def body(text):
    """Turns the words of a comment into mdoc: paragraphs, lists, and code as it is."""
    out, literal, gap, items = [], False, True, None
    for line in text.split("\n"):
        item = re.match(r"(-|\d+\.) +(?=\S)", line)
        if item and not literal:
            if items is None:
                items = "dash" if item.group(1) == "-" else "enum"
                if out and out[-1] == ".Pp":
                    out.pop()
                out.append(".Bl -%s" % items)
            out.append(".It")
            line, gap = line[item.end():], True
        elif items and line.startswith("  "):
            line = line.strip()
        elif items and line:
            end_list(out)
            items, gap = None, False
        code = line.startswith(("\t", "  ")) or (literal and line == "")
        if code and not literal and line:
            if out and out[-1] == ".Pp":
                out.pop()
            out.append(".Bd -literal -offset indent")
            literal, gap = True, False
        elif literal and line and not code:
            end_literal(out)
            literal, gap = False, False
            out.append(".Pp")
            gap = True
        if literal:
            out.append(roff(line.expandtabs(8).removeprefix("        ")))
        elif line == "":
            if not gap:
                out.append(".Pp")
            gap = True
        elif re.match(r"[A-Z][A-Z ,-]+$", line):
            if out and out[-1] == ".Pp":
                out.pop()
            out.append(".Ss " + line.capitalize())
            gap = True
        else:
            for part in re.split(r"(?<=[.?!]) +(?=[A-Z])", line.replace("\t", " ")):
                out += [roff(row) for row in textwrap.wrap(
                    part, 72, break_long_words=False, break_on_hyphens=False)]
            gap = False
    if literal:
        end_literal(out)
    if items:
        end_list(out)
    while out and out[-1] == ".Pp":
        out.pop()
    return out


def end_list(out):
    while out[-1] == ".Pp":
        out.pop()
    out.append(".El")


def end_literal(out):
    while out[-1] == "":
        out.pop()
    out.append(".Ed")


def arguments(text):
    """Splits the parameters of a prototype."""
    out, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            out.append("")
        else:
            out[-1] += char
    return [] if text == "void" else [word(part) for part in out]


def begin(title, section, names, purpose):
    day = date()
    out = [".Dd %s %d, %d" % (day.strftime("%B"), day.day, day.year),
           ".Dt %s %d" % (title.upper(), section), ".Os", ".Sh NAME"]
    out += [".Nm %s%s" % (name, " ," if n + 1 < len(names) else "")
            for n, name in enumerate(names)]
    return out + [".Nd " + roff(purpose)]


def man_header(header, others):
    names = [name for _, group in header.groups for _, name, _ in group]
    stem = header.name[:-2]
    out = begin(stem, 3, names, header.purpose or "functions")
    out += [".Sh SYNOPSIS", ".In " + header.path]
    for _, group in header.groups:
        for kind, name, args in group:
            out += [".Ft " + word(kind), ".Fo " + name]
            out += [".Fa " + arg for arg in arguments(args)] + [".Fc"]
    out.append(".Sh DESCRIPTION")
    essay = [line for text in header.essay for line in body(text)]
    out += essay or ["The functions of", ".In " + header.path + " ."]
    out += [".Sh FUNCTIONS", ".Bl -tag -width Ds"]
    for comment, group in header.groups:
        out += [".It Fn " + name for _, name, _ in group]
        text = comment or "\n\n".join(header.told[name].replace("\\|", "|")
                                      for _, name, _ in group)
        out += [line.replace(".Ss ", ".Sy ") for line in body(text)]
    out += [".El", ".Sh SEE ALSO"]
    return out + [".Xr %s 3%s" % (other, " ," if n + 1 < len(others) else "")
                  for n, other in enumerate(others)]


def man_script(name):
    """Makes a page of what a script says of itself."""
    source = (TOP / "ext/view" / (name + ".py")).read_text()
    purpose, text = re.search('"""%s: (.*?)\n\n(.*?)"""' % name, source, re.S).groups()
    return begin(name, 1, [name], " ".join(purpose.split()).rstrip(".")) + [
        ".Sh DESCRIPTION"] + body(text) + [".Sh SEE ALSO", ".Xr uview 1"]


def man_program(name, purpose):
    """Makes a page of what a program prints about its use."""
    source = (TOP / "ext/view" / (name + "_main.c")).read_text()
    text = re.search(r"usage\[\] =\n(.*?);", source, re.S).group(1)
    usage = "".join(json.loads(part) for part in re.findall(r'"(?:\\.|[^"\\])*"', text))
    out = begin(name, 1, [name], purpose) + [".Sh DESCRIPTION", "Its use is:",
                                             ".Bd -literal"]
    out += [roff(line.expandtabs(8)) for line in usage.rstrip("\n").split("\n")]
    return out + [".Ed", ".Sh SEE ALSO", ".Xr uview 3"]


def man(folder):
    """Writes all man pages. Returns the functions, and the page of each."""
    pages, where = list(headers()), {}
    stems = sorted(header.name[:-2] for header in pages)
    for part in ("man1", "man3"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for header in pages:
        stem = header.name[:-2]
        others = [name for name in stems if name != stem]
        write(folder / "man3" / (stem + ".3"), man_header(header, others))
        for _, group in header.groups:
            for _, name, _ in group:
                where.setdefault(name, stem)
    for name, stem in where.items():
        if name not in stems:
            alias = folder / "man3" / (name + ".3")
            alias.unlink(missing_ok=True)
            alias.symlink_to(stem + ".3")
    for name, purpose in (("uview", "a page of what a process did lately"),
                          ("utop", "what the threads of a process do now")):
        write(folder / "man1" / (name + ".1"), man_program(name, purpose))
    write(folder / "man1/uview-perf.1", man_script("uview-perf"))
    return where


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


# THE SITE


def slug(text):
    """Returns the anchor that GitHub gives to a heading."""
    text = html.unescape(re.sub(r"<[^>]*>", "", text)).lower().strip()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


class Site:
    def __init__(self, out, functions):
        self.out = out
        self.functions = functions
        self.todo = ["README.md"]
        self.done = {}          # path in the tree: page
        self.anchors = {}       # page: anchors
        self.index = []
        self.files = sorted(run("sh", "-c", ". test/run/layout; files").split())

    def page(self, path):
        """Returns the page of a file of the tree, which is made later."""
        if path == "README.md":
            return "index.html"
        if path.endswith("/README.md"):
            return path[:-len("README.md")] + "index.html"
        return re.sub(r"\.md$", "", path) + ".html"

    def make(self):
        self.todo += ["README.md"] + [path for _, path in NAV]
        while self.todo:
            path = self.todo.pop()
            if path not in self.done:
                self.done[path] = self.page(path)
                self.one(path)
        for stem in sorted(set(self.functions.values())):
            self.man_page(stem, 3)
        for name in ("uview", "utop", "uview-perf"):
            self.man_page(name, 1)
        (self.out / "index.js").write_text("const INDEX = " + json.dumps(
            self.index, separators=(",", ":")) + ";\n")
        for name in ("style.css", "search.js"):
            (self.out / name).write_text((TOP / "doc/site" / name).read_text())
        for page in self.anchors:
            self.check(page)

    def check(self, page):
        """Ends the program if a link of a page leads nowhere."""
        text = (self.out / page).read_text() if page.endswith(".html") else ""
        for href in set(re.findall(r'(?:href|src)="([^"]*)"', text)):
            if re.match(r"[a-z]+:", href):
                continue
            path, _, anchor = html.unescape(href).partition("#")
            to = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) \
                if path else page
            if not (self.out / to).is_file() or \
                    anchor and anchor not in self.anchors[to]:
                sys.exit("site.py: %s links to %s, which is not there" % (page, href))

    def one(self, path):
        file = TOP / path
        if path.endswith(".md"):
            text = run("cmark-gfm", "-e", "table", text=file.read_text())
            title = "" if "<h1>" in text else "<h1>%s</h1>" % path
            self.text(path, title + text)
        elif file.is_dir():
            names = [name for name in self.files if name.startswith(path + "/")]
            items = "".join('<li><a href="%s">%s</a></li>' % (
                posixpath.relpath(name, path), html.escape(name)) for name in names)
            self.done[path] = path + "/index.html"
            self.text(path + "/x", "<h1>%s</h1><ul>%s</ul>" % (path, items),
                      self.done[path])
        elif file.suffix in (".png", ".svg"):
            self.done[path] = path
            target = self.out / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
            self.anchors[path] = set()
        else:
            text = file.read_text(errors="replace")
            self.finish(self.page(path), path, "<h1>%s</h1><pre><code>%s</code></pre>"
                        % (path, html.escape(text)), False)

    def text(self, path, text, page=None):
        page = page or self.page(path)
        folder = posixpath.dirname(path)
        anchors = {}

        def heading(match):
            name = slug(match.group(2))
            nr = anchors[name] = anchors.get(name, -1) + 1
            name += "-%d" % nr if nr else ""
            return '<h%s id="%s">%s</h%s>' % (match.group(1), name, match.group(2),
                                              match.group(1))

        def link(match):
            return '%s="%s"' % (match.group(1), self.to(
                page, folder, html.unescape(match.group(2))))

        text = re.sub(r"<h([1-6])>(.*?)</h\1>", heading, text, flags=re.S)
        text = re.sub(r'(href|src)="([^"]*)"', link, text)
        text = re.sub(r"<code>([a-z]\w*)\(\)</code>", lambda m: self.function(
            page, m), text)
        text = re.sub(r"<td><code>([^<]*?\b([a-z]\w*)\([^<]*)</code></td>",
                      lambda m: self.prototype(page, m), text)
        # A median may have its least and most in the line below, as a whole.
        text = re.sub(r"\[[-\d.kM]+, [-\d.kM]+\]", lambda m: m.group(0).replace(
            ", ", ",&nbsp;"), text)
        text = text.replace("<table>", '<div class="table"><table>')
        text = text.replace("</table>", "</table></div>")
        # Two programs, side by side where there is room.
        if page.startswith("doc/from"):
            text = re.sub(r"((?:<pre(?:(?!</pre>).)*</pre>\s*){2})",
                          r'<div class="side">\1</div>', text, flags=re.S)
        title = re.search(r"<h1[^>]*>(.*?)</h1>", text, re.S)
        self.finish(page, re.sub("<[^>]*>", "", title.group(1)) if title else page, text)

    def function(self, page, match):
        name = match.group(1)
        if name not in self.functions:
            return match.group(0)
        return '<a href="%s">%s</a>' % (self.man_of(page, name), match.group(0))

    def prototype(self, page, match):
        if match.group(2) not in self.functions:
            return match.group(0)
        return '<td><a href="%s"><code>%s</code></a></td>' % (
            self.man_of(page, match.group(2)), match.group(1))

    def man_of(self, page, name):
        to = "man/%s.3.html" % self.functions[name]
        return posixpath.relpath(to, posixpath.dirname(page) or ".") + "#" + name

    def to(self, page, folder, href):
        """Returns where a link of a text leads on the site."""
        if re.match(r"[a-z]+:", href) :
            return html.escape(href)
        path, _, anchor = href.partition("#")
        if path == "":
            return "#" + anchor
        path = posixpath.normpath(posixpath.join(folder, path))
        if not (TOP / path).exists():
            sys.exit("site.py: %s links to %s, which is not there" % (page, path))
        if (TOP / path / "README.md").exists():
            path = posixpath.normpath(path + "/README.md")
        self.todo.append(path)
        file = TOP / path
        to = path + "/index.html" if file.is_dir() else \
            path if file.suffix in (".png", ".svg") else self.page(path)
        return posixpath.relpath(to, posixpath.dirname(page) or ".") + (
            "#" + anchor if anchor else "")

    def man_page(self, name, section):
        path = self.out.parent / ("man/man%d/%s.%d" % (section, name, section))
        text = subprocess.run(
            ["mandoc", "-T", "html", "-I", "os=usched " + version(),
             "-O", "fragment,man=%N.%S.html", str(path)],
            check=True, text=True, stdout=subprocess.PIPE).stdout
        if section == 1:
            text = re.sub(r'href="[^"]*uview\.3\.html"', 'href="uview.3.html"', text)
        for function, stem in self.functions.items():
            if stem == name:    # the first of its anchors
                text = re.sub(r'<dt id="%s~\d+">' % function, '<dt id="%s">' % function,
                              text, count=1)
                text = re.sub(r'(?<!">)(<code class="Fn">%s</code>)' % function,
                              r'<a href="#%s">\1</a>' % function, text)
        page = "man/%s.%d.html" % (name, section)
        text = re.sub(r"(?<![\w>])(\w+)(?=\(\))", lambda m: self.function(page, m), text)
        self.finish(page, "%s(%d)" % (name, section), text)

    def finish(self, page, title, text, search=True):
        up = "../" * page.count("/")
        nav = "\n".join('<a href="%s%s"%s>%s</a>' % (
            up, self.page(path), ' class="here"' if self.page(path) == page else "", name)
            for name, path in NAV)
        target = self.out / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(FRAME.format(title=html.escape(html.unescape(title)), up=up,
                                       nav=nav, body=text, version=version()))
        self.anchors[page] = set(re.findall(r'id="([^"]*)"', text))
        if search:
            self.add(page, title, text)

    def add(self, page, title, text):
        """Adds the sections of a page to the index of the search."""
        parts = re.split(r'<(?:h[1-6]|dt) [^>]*?id="([^"]*)"[^>]*>(.*?)</(?:h[1-6]|dt)>',
                         text, flags=re.S)
        for n in range(0, len(parts), 3):
            name = re.sub(r"\s+", " ", html.unescape(re.sub(
                "<[^>]*>", "", parts[n - 1]))).strip() if n else ""
            words = re.sub(r"\s+", " ", html.unescape(re.sub(
                "<[^>]*>", " ", parts[n]))).strip()
            anchor = "#" + parts[n - 2] if n else ""
            if words or name:
                self.index.append([title, name, page + anchor, words])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    missing = [tool for tool in ("cmark-gfm", "mandoc") if not any(
        os.access(os.path.join(folder, tool), os.X_OK)
        for folder in os.environ["PATH"].split(":"))]
    out = pathlib.Path(sys.argv[1]).resolve()
    functions = man(out / "man")
    if missing:
        sys.exit("site.py: man pages, but no site: no %s (package %s)"
                 % (missing[0], missing[0]))
    (out / "html").mkdir(parents=True, exist_ok=True)
    Site(out / "html", functions).make()


if __name__ == "__main__":
    main()
