#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""page.py: shows pages in Chromium and tries what checks.js claims.

    page.py [--dump] known TEMPLATE COPY EXPECT FULL [PICTURES]
    page.py mutants TEMPLATE COPY EXPECT
    page.py real PAGE FINDING [PICTURE]

known: a page of a copy that made.c has made, and that says EXPECT, at 1280 and 400
pixels, light and dark (a large copy at 1280 light and 400 dark), with the events of a
person, too. --dump: without chromedriver,
the checks alone. FULL: true if nothing was lost. mutants: pages with an error each, of
which some check must tell. real: a page of the tool; FINDING is the kind that stands out
most, or none. Prints a line for each claim that fails, and then how many passed and failed. With
PICTURES, a folder, leaves a picture of each screen there.
"""

import base64
import json
import os
import re
import subprocess
import sys
import tempfile

CHECKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "checks.js")
PLACE, PLACE_OF_WHY = 'const DATA = "";', "const WHY = null;"
SHOWN = [(1280, 800, False), (400, 800, False), (1280, 800, True), (400, 800, True)]
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
           "--force-device-scale-factor=1", "--no-first-run", "--disable-extensions",
           "--disable-background-networking", "--disable-dev-shm-usage"]

# What stands in the page, and an error in its place.
MUTANTS = [
    ("R.end[g] = t;", "R.end[g] = t - 100;"),
    ("this.wake[s] = t;\n\t\tthis.by[s] = how", "this.wake[s] = -1;\n\t\tthis.by[s] = how"),
    ("this.by[s] = ring.run;\n\t\tthis.from[s] = FROM.POST", "this.from[s] = FROM.POST"),
    ("const is_known = this.wake[s] >= ring.oldest;", "const is_known = false;"),
    ("ring.depth += ring.run >= 0;", ""),
    ("ring.holder = this.slot(lo, hi);", "ring.holder = -1;"),
    ("T.name[this.thread[s]] = name;", ";"),
    ("return wake < 0 ? end_all : Math.max(wake, R.end[g]);", "return end_all;"),
    ("sums.steals += arg;", "sums.steals++;"),
    ("e[name] = value;", "e.innerHTML = value;"),
    ("e.append(...children.filter(c => c !== null && c !== undefined && c !== \"\"));",
     "children.forEach(c => typeof c === 'string' ? e.innerHTML += c : c && e.append(c));"),
    ("return view.from + (x - view.left) / view.scale;", "return view.from + x / view.scale;"),
    ("set_window(t - (t - view.from) * factor, t + (view.to - t) * factor);",
     "set_window(view.from, view.from + (view.to - view.from) * factor);"),
    ("const wide = width * drag.spread.size / now.size;", "const wide = width;"),
    ("return set_window(drag.from - by, drag.to - by);", "return undefined;"),
    ("pen.globalAlpha = lit ? strength(part) : 0.15;\n\tpen.fillStyle = colour(f);\n\tbox(x",
     "pen.fillStyle = colour(f);\n\tbox(x"),
    ("down = i === by ? !down : i > 0;", ""),
    ("drawn.arrows++;", ""),
    ("b: () => step(g => R.by[g]),", ""),
    ('" " + object_name(row.object) : "")), row.nr);', '" " + object_name(row.object) : "")), 1);'),
    ("main { flex-direction: column; }", ""),
    ("--text: #e4e7eb; --dim: #98a1ad;", "--text: #404040; --dim: #98a1ad;"),
    ("if (a < to && could_run_since(run(a)) <= t)", "if (false)"),
    ("|| s_match[R.stack[g]] ||", "||"),
    ("end: b.u64(56) - b.u64(48),", "end: 0,"),
    ("this.wake[s] = this.due[s];", ";"),
    ("this.expire(s, end_all);", ";"),
    ("return arg < 0x800 ? arg :", "return true ? arg :"),
    ("ready: new Uint32Array(nr),\n\t\trow", "ready: new Uint8Array(nr),\n\t\trow"),
    ("nr = new Uint32Array(size);", "nr = new Uint8Array(size);"),
    ("floor = is_next ? Math.min(R.ready[g - 1], next) : 0;", "floor = R.ready[g - 1];"),
    ("wake <= begin) {\n\t\t\tdue++;", "wake <= begin) {"),
    ("last[R.row[g]].push(wait_end(g));", ";"),
    ("level[i >> 4] = Math.max(level[i >> 4], below[i]);", "level[i >> 4] = below[i];"),
    ("top[x] = most_of(queue.levels, from, i);", "top[x] = 5;"),
    ("Math.min(1, 0.3 + 10 * part)", "1"),
    ("off * view.scale : begin + 4;", "1e9 : begin + 4;"),
    ("is_asleep(g) ? theme.asleep : theme.taken", "theme.taken"),
    ("return R.sleeps[g] > 0;", "return true;"),
    ("(R.off[g] >= 0 && off_of(g) <= OFF_LEAST)", "true"),
    ("R.turns[h] === 1 ? 1 : Math.ceil(part / length_of(h))", "1"),
    ("by.set(R.f[h], (by.get(R.f[h]) || 0) + part);", "by.set(R.f[h], part);"),
    ("list.splice(3).length", "0"),
    ("replace(/(\\d) us\\b/g, \"$1 µs\")", "replace('', '')"),
    ("open: unknown > 0", "open: true"),
    ("return own > nr / 2;", "return true;"),
    ("...x.is_lock ? held_side(x.held) : woken_side(x),", "...held_side(x.held),"),
    ("c === sorts || !is_empty(c, list)", "true"),
    ("set_window(R.end[g] - margin, wait_end(g) + margin);", ""),
    ("R.object[g] === chosen.thing.o", "false"),
    ("list.push(...stack_before(g));", ";"),
    ("all >= 2e6 ? [1e6", "true ? [1e6"),
    ("td.left, td.words { white-space: normal;", "td.left, td.words {"),
    ("2 ** (Math.floor(Math.log2(nr)) - 8)", "0"),
    ("state: b.u32(at + 24), ...processor_of(b, at, file),", "state: b.u32(at + 24),"),
    ("ring.state === 1 && turns_at", "false && turns_at"),
    ("list.sort((a, b) => a.last - b.last)", "list"),
    ("? (group.end - group.begin) / sum : 1;", "? 1 : 1;"),
    ("R.turns[g] = m.nr;", ""),
    ("group.end = t < 0 ? last.last : t;", "group.end = last.last;"),
    ("ring.turns && (w[k] >>> 12 & 15) !== KIND.NOTE", "false"),
    ("stopped_at(g));\n}", "R.end[g]);\n}"),
    ("x.lengths.add(length, R.turns[g]);", "x.lengths.add(length);"),
    ("sums.runs += R.turns[g];", "sums.runs++;"),
    ("nr += R.turns[g];", "nr++;"),
    ("pen.fillStyle = theme.many;\n\tbox(x, y, z - x, h);", ""),
    ("if (R.member[g] >= 0 && t > R.begin[g] - slop)", "if (false)"),
    ("last.slot, last.f);", "list[0].slot, list[0].f);"),
    ("lo === 0xffffffff && hi === 65535 ? -1 :", ""),
    ("R.sleeps[g] = sleeps;", ""),
    ("sum.asleep += off;", ";"),
    ("sum.taken += off;", ";"),
    ("\t\tadd_off(sum, g);", ""),
    ("(x.unknown ? \"≥ \" : \"\")", '""'),
    ("taken - (q.taken[j - 1] >>> 0) | 0", "taken - q.taken[j - 1]"),
    ("q.k < q.first ? q.first : q.k + 1", "q.k < q.first ? q.first : q.k"),
    ("more < 0 || q.put[j] < q.put[j - 1]", "more < 0"),
    ("more < 0 || q.put[j] < q.put[j - 1]", "q.put[j] < q.put[j - 1]"),
    ("values[i] * ((i + 1 < nr ? q.t[i + 1] : end_all) - q.t[i])", "values[i]"),
    ("const nr = values.length, all = end_all - q.t[0];",
     "const nr = values.length, all = q.t[nr - 1] - q.t[0];"),
    ("this.queue?.o === this.o", "false"),
    ("file.objects.set(name.at, text);", "file.objects.has(name.at) || "
     "file.objects.set(name.at, text);"),
    ("own.length ? own.map(finding_box)", "false ? own.map(finding_box)"),
    ("unknown.length ? [\"unknown\"", "false ? [\"unknown\""),
    ("return thing ? () => show_thing", "return false ? () => show_thing"),
    ("() => show_span(run_at(t, to - 1), from, to);", "() => show_time(from, to);"),
    ("() => show_span(run_at(t, to - 1), from, to);",
     "() => show_span(run_at(t, from), from, to);"),
    ("el(\"div\", { className: \"finding \" + (finding.machine", "el(\"div\", { className: "
     "\"finding \" + (!finding.machine"),
    ("if (why?.cost >= 0)", "if (false)"),
]

passed = failed = 0


def count(where, claim, wrong):
    """Counts a claim, and tells what is wrong with it."""
    global passed, failed
    if wrong:
        failed += 1
        print(f"FAIL  {where}: {claim}: {wrong}")
    else:
        passed += 1


def text_of(path):
    """The text of a file."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def page_of(html, copy, expect, folder):
    """Puts a copy, and what was found in it, into the template, as the tool does.
    Returns the path of the page."""
    with open(copy, "rb") as file:
        data = base64.b64encode(file.read()).decode()
    why = json.dumps(json.loads(text_of(expect))["why"]).replace("<", "\\u003c")
    for place in (PLACE, PLACE_OF_WHY):
        assert html.count(place) == 1, f"{html.count(place)} times in the template: {place}"
    path = os.path.join(folder, "page.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(html.replace(PLACE, f'const DATA = "{data}";').replace(
            PLACE_OF_WHY, f"const WHY = {why};"))
    return path


def script(expect, full, width, dark):
    """What makes checks.js fit to the page."""
    return (f"const EXPECT = {text_of(expect)}, FULL = {full}, WIDTH = {width}, "
            f"DARK = {json.dumps(dark)};\n" +
            text_of(CHECKS).replace('"use strict";', ""))


def driver():
    """A browser, by chromedriver."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    options = webdriver.ChromeOptions()
    for option in OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    browser.set_script_timeout(60)
    return browser


def show(browser, page, width, height, dark):
    """Loads a page. All that it writes to the console is read by messages()."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
        {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
    browser.get("file://" + os.path.abspath(page))


def messages(browser):
    """Messages of the console, but those about how the checks read pixels."""
    return [m["message"] for m in browser.get_log("browser")
            if "willReadFrequently" not in m["message"]]


def add_script(browser, text):
    """Adds a script to the page."""
    browser.execute_script("const s = document.createElement('script');"
                           "s.textContent = arguments[0]; document.body.append(s)", text)


def person(browser, where):
    """The mouse and keys of a person, as the browser gets them."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys
    run = browser.execute_script
    canvas = browser.find_element("css selector", "#canvas")

    def claim(what, holds):
        count(where, "a person's " + what, "" if holds else "has no effect")

    run("reset(); window.g = some_run(0, g => R.end[g] - R.begin[g] > 1000 && !is_turns(g));"
        "show_near(g)")
    x, y = run("const [x, y] = middle_of(g); return [x - canvas.clientWidth / 2,"
               "y - canvas.clientHeight / 2]")
    tip = "return $('tip').hidden ? '' : $('tip').textContent"
    ActionChains(browser).move_to_element_with_offset(canvas, round(x), round(y)).perform()
    claim("mouse", "ran " in run(tip))
    ActionChains(browser).click().perform()
    claim("click", run("return chosen.run === g"))
    ActionChains(browser).send_keys("f").perform()
    claim("key", run("return view.from === begin_all"))
    ActionChains(browser).send_keys("/").send_keys("worker").send_keys(Keys.ENTER).perform()
    claim("search", run("return query === 'worker' && f_name(R.f[chosen.run]) === 'worker'"))
    for button in browser.find_elements("css selector", "#tabs button"):
        button.click()
        claim("click on " + button.text, run("return page") == button.text)
    run("reset()")


def pictures(browser, folder, name):
    """A picture of each screen."""
    screens = {"timeline": "reset()",
               "run": "reset(); show_run(some_run(1, g => R.holder[g] >= 0))",
               "threads": "reset(); set_by_thread(true)", "functions": "show_page('Functions')",
               "turns": "reset(); window.g = all_runs().find(g => is_turns(g) && R.ready[g]"
                        "&& R.end[g] - R.begin[g] > 2000); show_run(g);"
                        "set_window(R.begin[g] - 30000, R.end[g] + 30000)",
               "cpu": "show_run(all_runs().find(g => FULL ? R.off[g] > 0 : R.off[g] < 0))",
               "objects": "show_page('Objects'); select({ thing: lock() })",
               "queue": "select({ thing: things.find(x => x.queue) })",
               "waits": "show_page('Waits')", "delays": "show_page('Delays')"}
    for screen, text in screens.items():
        browser.execute_script(text)
        picture(browser, os.path.join(folder, f"{name}-{screen}.png"))


def picture(browser, path):
    """What is on the screen, when it is drawn."""
    browser.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0], 50))")
    browser.save_screenshot(path)


def by_driver(page, expect, full, folder):
    """All screens, in one browser."""
    browser = driver()
    try:
        for width, height, dark in SHOWN if full == "true" else SHOWN[::3]:
            where = f"{width}{' dark' if dark else ''}"
            show(browser, page, width, height, dark)
            add_script(browser, script(expect, full, width, dark))
            for claim, wrong in browser.execute_script("return try_all()"):
                count(where, claim, wrong)
            person(browser, where)
            if folder:
                pictures(browser, folder, where.replace(" ", "-"))
            said = messages(browser)
            count(where, "no message in the console", said[0] if said else "")
            print(f"{where}: loaded in",
                  f"{browser.execute_script('return window.loaded'):.0f} ms;",
                  "; ".join(f"{what} {ms:.1f} ms ({looks})" for what, ms, looks in
                            browser.execute_script("return TIMES")))
    finally:
        browser.quit()


def by_dump(page, expect, full, _):
    """The checks alone: Chromium prints the page with what they say."""
    html = text_of(page)
    for width, height, dark in SHOWN:
        where = f"{width}{' dark' if dark else ''}, dumped"
        checks = script(expect, full, "innerWidth", dark) + (
            "const said = document.createElement('pre'); said.id = 'said';"
            "said.textContent = JSON.stringify(try_all()); document.body.append(said);")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "page.html")
            with open(path, "w", encoding="utf-8") as file:
                file.write(html.replace("</body>", "<script>" +
                                        checks.replace("</script>", "<\\/script>") +
                                        "</script></body>"))
            got = subprocess.run(
                ["chromium", *OPTIONS, f"--window-size={width},{height + 150}",
                 f"--blink-settings=preferredColorScheme={0 if dark else 1}",
                 "--enable-logging=stderr", f"--user-data-dir={folder}", "--dump-dom",
                 "file://" + path], capture_output=True, text=True, timeout=60, check=False)
        said = re.search(r'<pre id="said">(.*?)</pre>', got.stdout, re.S)
        if not said:
            count(where, "the checks run", got.stderr[-300:] or "they say nothing")
            continue
        said = said.group(1).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        for claim, wrong in json.loads(said):
            count(where, claim, wrong)
        lines = [line for line in got.stderr.splitlines() if "CONSOLE" in line and
                 "willReadFrequently" not in line]
        count(where, "no message in the console", lines[0] if lines else "")


def mutants(template, copy, expect):
    """Some check must tell of each error, be it of two widths and colour schemes."""
    html, browser = text_of(template), driver()
    try:
        for old, new in MUTANTS:
            assert html.count(old) == 1, f"{html.count(old)} times in the page: {old}"
            told = []
            with tempfile.TemporaryDirectory() as folder:
                page = page_of(html.replace(old, new), copy, expect, folder)
                for width, height, dark in (SHOWN[0], SHOWN[3]):
                    show(browser, page, width, height, dark)
                    if not browser.execute_script("return window.loaded > 0"):
                        told.append("it does not load")
                        break
                    add_script(browser, script(expect, "true", width, dark))
                    told += [claim for claim, wrong in
                             browser.execute_script("return try_all('', true)") if wrong]
                    if told:
                        break
            count("mutants", f"{old!r} -> {new!r}", "" if told else "no check tells")
            if os.environ.get("VERBOSE"):
                print(f"{old.strip()[:50]!r}: {told[:2]}")
    finally:
        browser.quit()


def real(page, finding, path):
    """A page of the tool: it loads, says nothing, and finds what there is to find."""
    browser = driver()
    try:
        show(browser, page, *SHOWN[0])
        told = browser.execute_script(
            "return WHY ? WHY.found.filter(f => !f.machine).map(f => f.kind) : ['not asked']")
        count(page, "what stands out is " + finding,
              "" if (told or ["none"])[0] == finding else str(told))
        shown = browser.execute_script(
            "return document.querySelectorAll('.finding.program').length")
        count(page, "the page shows what was found", "" if shown == len(told) else str(shown))
        wrong = browser.execute_script(
            "for (let t = 0; t < T.nr; t++)"
            "  for (let i = T.first[t]; i + 1 < T.first[t + 1]; i++) {"
            "    const g = T.runs[i], h = T.runs[i + 1];"
            "    if (!(R.begin[g] <= R.end[g] && R.end[g] <= wait_end(g) &&"
            "        wait_end(g) <= R.begin[h] && delay(h) <= R.begin[h] - R.end[g] + 1e-3))"
            "      return `${thread_text(t)}: ${at_text(R.begin[g])}`;"
            "  } return ''")
        count(page, "run, wait, wake and run come in this order", wrong)
        for name in browser.execute_script("return Object.keys(PAGES)"):
            browser.execute_script("show_page(arguments[0])", name)
        said = messages(browser)
        count(page, "no message in the console", said[0] if said else "")
        if path:
            browser.execute_script("show_page('Timeline')")
            picture(browser, path)
    finally:
        browser.quit()


def main():
    """See above."""
    words = sys.argv[1:]
    way = by_dump if words[0] == "--dump" else by_driver
    words = words[words[0] == "--dump":]
    if words[0] == "known":
        with tempfile.TemporaryDirectory() as folder:
            way(page_of(text_of(words[1]), *words[2:4], folder), *words[3:5],
                words[5] if len(words) > 5 else None)
    elif words[0] == "mutants":
        mutants(*words[1:4])
    else:
        real(words[1], words[2], words[3] if len(words) > 3 else None)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
