#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""page.py: shows pages in Chromium and tries what checks.js claims.

    page.py [--dump] EXPECT.json FULL PAGE [PICTURES]

Each page at 1280 and 400 pixels, light and dark, with the events of a person by
chromedriver. --dump: without chromedriver, the checks alone. Prints a line for each
claim that fails, and at the end how many passed and failed. With PICTURES, a folder,
leaves a picture of each screen there.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

CHECKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "checks.js")
SHOWN = [(1280, 800, False), (400, 800, False), (1280, 800, True), (400, 800, True)]
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
           "--force-device-scale-factor=1", "--no-first-run", "--disable-extensions",
           "--disable-background-networking", "--disable-dev-shm-usage"]

passed = failed = 0


def count(where, claim, wrong):
    """Counts a claim, and tells what is wrong with it."""
    global passed, failed
    if wrong:
        failed += 1
        print(f"FAIL  {where}: {claim}: {wrong}")
    else:
        passed += 1


def script(expect, full, width, dark):
    """What makes checks.js fit to the page."""
    with open(CHECKS, encoding="utf-8") as file:
        checks = file.read().replace('"use strict";', "")
    return (f"const EXPECT = {expect}, FULL = {full}, WIDTH = {width}, "
            f"DARK = {json.dumps(dark)};\n{checks}")


def driver():
    """A browser, by chromedriver."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    options = webdriver.ChromeOptions()
    for option in OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


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


def person(browser, where):
    """The mouse and keys of a person, as the browser gets them."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    def run(text):
        return browser.execute_script(text)

    def find(selector):
        return browser.find_element("css selector", selector)

    canvas = find("#canvas")
    run("reset(); g = some_run(0, g => R.end[g] - R.begin[g] > 1000); show_near(g)")
    x, y = run("const [x, y] = middle_of(g); return [x - canvas.clientWidth / 2,"
               "y - canvas.clientHeight / 2]")
    ActionChains(browser).move_to_element_with_offset(canvas, round(x), round(y)) \
        .click().perform()
    count(where, "a person's click", "" if run("return chosen.run === g") else "not selected")
    tip = run("return $('tip').hidden ? '' : $('tip').textContent")
    ActionChains(browser).move_by_offset(1, 1).perform()
    tip = tip or run("return $('tip').hidden ? '' : $('tip').textContent")
    count(where, "a tip under the mouse", "" if "ran " in tip else "none")
    ActionChains(browser).send_keys("f").perform()
    count(where, "a person's key",
          "" if run("return view.from === begin_all") else "the window is not whole")
    ActionChains(browser).send_keys("/").send_keys("worker").send_keys(Keys.ENTER).perform()
    count(where, "a person's search", "" if run(
        "return query === 'worker' && f_name(R.f[chosen.run]) === 'worker'") else "not found")
    for button in browser.find_elements("css selector", "#tabs button"):
        button.click()
        name = button.text
        count(where, f"a person's click on {name}",
              "" if run("return page") == name else "not shown")
    run("reset()")
    run("return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def pictures(browser, folder, name):
    """A picture of each screen."""
    screens = {"timeline": "reset()", "run": "reset(); show_run(some_run(1, g => R.holder[g] >= 0))",
               "threads": "reset(); set_by_thread(true)", "functions": "show_page('Functions')",
               "objects": "show_page('Objects'); select({ thing: things[0] })",
               "waits": "show_page('Waits')", "delays": "show_page('Delays')"}
    for screen, text in screens.items():
        browser.execute_script(text)
        browser.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0], 50))")
        browser.save_screenshot(os.path.join(folder, f"{name}-{screen}.png"))


def by_driver(page, expect, full, folder):
    """All screens, in one browser."""
    browser = driver()
    try:
        for width, height, dark in SHOWN:
            where = f"{width}{' dark' if dark else ''}"
            show(browser, page, width, height, dark)
            browser.execute_script(
                "const s = document.createElement('script'); s.textContent = arguments[0];"
                "document.body.append(s)", script(expect, full, width, dark))
            for claim, wrong in browser.execute_script("return try_all()"):
                count(where, claim, wrong)
            person(browser, where)
            if folder:
                pictures(browser, folder, where.replace(" ", "-"))
            said = messages(browser)
            count(where, "no message in the console", said[0] if said else "")
            print(where, "loaded in %.0f ms;" % browser.execute_script("return loaded"),
                  "; ".join("%s %.1f ms" % tuple(t) for t in
                            browser.execute_script("return TIMES")))
    finally:
        browser.quit()


def by_dump(page, expect, full, _):
    """The checks alone: Chromium prints the page with what they say."""
    with open(page, encoding="utf-8") as file:
        html = file.read()
    for width, height, dark in SHOWN:
        where = f"{width}{' dark' if dark else ''}, dumped"
        more = ("const said = document.createElement('pre'); said.id = 'said';"
                "said.textContent = JSON.stringify(try_all());"
                "document.body.replaceChildren(said);")
        checks = script(expect, full, "innerWidth", dark) + more
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "page.html")
            with open(path, "w", encoding="utf-8") as file:
                file.write(html.replace("</body>", "<script>" +
                                        checks.replace("</script>", "<\\/script>") +
                                        "</script></body>"))
            got = subprocess.run(
                ["chromium", *OPTIONS, f"--window-size={width},{height}",
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


def main():
    """See above."""
    words = sys.argv[1:]
    way = by_dump if words[0] == "--dump" else by_driver
    words = words[words[0] == "--dump":]
    with open(words[0], encoding="utf-8") as file:
        expect = file.read().strip()
    way(words[2], expect, words[1], words[3] if len(words) > 3 else None)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
