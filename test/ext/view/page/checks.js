// checks.js: what page.sh tries in a page. Each check is a function with a name
// that is its claim; it throws, or returns false, if that does not hold. EXPECT is
// what made.c has printed, FULL says whether nothing was lost, WIDTH and DARK how
// the page is shown. Events are made here; page.py also sends those of a person.
"use strict";

const near_to = (a, b) => Math.abs(a - b) <= 1e-9 * Math.abs(b) + 0.51;
const side = () => $("side").innerText;
const text = () => $("text").innerText;

function same(what, got, expected) {
	if (!(typeof expected === "number" ? near_to(got, expected) : got === expected))
		throw new Error(`${what} is ${got}, and not ${expected}`);
	return true;
}

function press(key, target = document.body) {
	target.dispatchEvent(new KeyboardEvent("keydown",
		{ key, bubbles: true, cancelable: true }));
}

function pointer(type, x, y, id = 1, kind = "mouse") {
	const at = canvas.getBoundingClientRect();

	canvas.dispatchEvent(new PointerEvent(type, { clientX: at.left + x, clientY: at.top + y,
		pointerId: id, pointerType: kind, bubbles: true, cancelable: true }));
}

function click(x, y) {
	pointer("pointerdown", x, y);
	pointer("pointerup", x, y);
	draw();
}

function wheel(x, deltaY, more = {}) {
	const at = canvas.getBoundingClientRect();

	canvas.dispatchEvent(new WheelEvent("wheel", { clientX: at.left + x, clientY: at.top + 80,
		deltaY, bubbles: true, cancelable: true, ...more }));
	draw();
}

function search_for(words) {
	$("search").value = words;
	$("search").dispatchEvent(new Event("input", { bubbles: true }));
	draw();
}

// As if nothing had been done.
function reset() {
	search_for("");
	if (view.by_thread)
		set_by_thread(false);
	show_page("Timeline");
	select({});
	show_whole();
	draw();
}

const row_of = ring => rows.find(row => row.ring.number === ring && row.depth === 0);

// A run from the middle of a ring that has a predicate, or -1.
function some_run(ring, f) {
	const row = row_of(ring);

	for (let g = row.from + row.to >> 1; g < row.to - 9; g++)
		if (f(g))
			return g;
	return -1;
}

// Shows a run with some others of its row around it.
function show_near(g) {
	const length = R.end[g] - R.begin[g];

	set_window(R.begin[g] - 4 * length, R.end[g] + 6 * length);
	draw();
}

function middle_of(g) {
	return [x_of((R.begin[g] + R.end[g]) / 2), y_of(g)];
}

function pixel(x, y) {
	const ratio = window.devicePixelRatio || 1;

	return [...pen.getImageData(Math.round(x * ratio), Math.round(y * ratio), 1, 1).data];
}

// The numbers of a colour of CSS, as it is painted.
function painted(style) {
	const one = new OffscreenCanvas(1, 1).getContext("2d");

	one.fillStyle = style;
	one.fillRect(0, 0, 1, 1);
	return [...one.getImageData(0, 0, 1, 1).data];
}

// Contrast of two colours, as WCAG has it.
function contrast(a, b) {
	const light = style => painted(style).slice(0, 3)
		.map(x => x / 255).map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
		.reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
	const [low, high] = [light(a), light(b)].sort((x, y) => x - y);

	return (high + 0.05) / (low + 0.05);
}

// The least of some times of a function, in ms, drawn to the last pixel.
function least_time(f) {
	let least = Infinity;

	for (let i = 0; i < 9; i++) {
		const began = performance.now();

		f();
		pen.getImageData(0, 0, 1, 1);
		least = Math.min(least, performance.now() - began);
	}
	return least;
}

function function_of(name) {
	return [...functions.values()].find(x => f_name(x.f).startsWith(name));
}

const ended = g => next_run(g) >= 0 || T.pending[R.thread[g]] >= 0;

const CHECKS = {
	"all records are read"() {
		return FULL ? same("records", sums.records, EXPECT.records) :
			sums.records > EXPECT.records / 2;
	},
	"runs of a function, and how long they are"() {
		for (const name of FULL ? ["worker", "client"] : []) {
			const x = function_of(name), all = T.runs.filter(g => R.f[g] === x.f &&
				R.why[g]);
			const ran = all.reduce((sum, g) => sum + R.end[g] - R.begin[g], 0);

			same(name + ": runs", all.length, EXPECT[name][0]);
			same(name + ": ran", ran, EXPECT[name][1]);
		}
		return function_of("worker").runs > 1000;
	},
	"the end is that of the copy"() {
		return same("end", end_all, EXPECT.end);
	},
	"a dispatcher in a thread has a row of its own"() {
		const inner = rows.filter(row => row.depth === 1), x = function_of("inner");
		const g = inner[0].from, outer = some_run(inner[0].ring.number, o =>
			R.begin[o] <= R.end[g] && R.end[o] >= R.begin[g]);

		if (FULL)
			same("runs", x.runs, EXPECT.inner);
		show_near(g);
		click(...middle_of(g));
		return chosen.run === g && x.runs === x.threads && R.end[g] - R.begin[g] === 150 &&
			(outer < 0 || R.begin[outer] < R.begin[g]);
	},
	"thefts and calls"() {
		if (FULL)
			same("stolen", sums.steals, EXPECT.stolen) &&
				same("calls", calls.length, EXPECT.calls);
		const at = steals.find(s => s.ring === rows[0].ring),
			call = calls[calls.length >> 1];

		set_window(at.t - 1000, at.t + 1000);
		draw();
		same("theft", pixel(x_of(at.t), y_of(rows[0].from) - 17).join(),
			painted(theme.mark).join());
		set_window(call.t - 2000, call.until + 2000);
		draw();
		const row = view.list.find(i => i.row && i.row.ring === call.ring);
		const x = x_of(call.until) - 9;

		return call.until - call.t === 1500 && side().includes("Thefts") &&
			pixel(x, row.y - view.top + 8).join() !== pixel(x + 20, row.y - view.top +
				8).join();
	},
	"wakes, here and from elsewhere"() {
		if (FULL)
			same("here", sums.here, EXPECT.here) &&
				same("posts", sums.posts, EXPECT.posts);
		return sums.posts > 100 && sums.here > 100;
	},
	"waits for the mutex, from stop to wake"() {
		const waits = [...things[0].runs].filter(ended).map(g => wait_end(g) - R.end[g]);

		if (!FULL)
			return waits.length > 100;
		same("waits", waits.length, EXPECT.lock[0]);
		same("together", waits.reduce((a, b) => a + b), EXPECT.lock[1]);
		return same("longest", Math.max(...waits), EXPECT.lock[2]);
	},
	"a sleep ends at its deadline, whenever its processor looks"() {
		const is_sleep = g => g >= 0 && why_text(R.why[g]) === "sleep";
		const all = [...R.begin.keys()], over = all.filter(g => is_sleep(g) && ended(g));
		const late = all.filter(h => R.from[h] === FROM.DUE && is_sleep(run_before(h)));
		const h = late.find(h => delay(h) > 1000 && in_its_way(h).run >= 0);

		if (FULL) {
			same("sleeps", over.length, EXPECT.sleep[0]);
			same("together", over.reduce((sum, g) => sum + wait_end(g) - R.end[g], 0),
				EXPECT.sleep[1]);
		}
		show_run(h);
		return side().includes("its deadline had come") && side().includes("due at") &&
			late.length > EXPECT.sleep[2] * (FULL ? 0.9 : 0.3);
	},
	"the time of a waiter is its waits, its delays and its runs"() {
		const t = R.thread[things[0].runs[9]];
		let at = R.begin[T.runs[T.first[t]]];

		for (let i = T.first[t]; i < T.first[t + 1]; i++) {
			const g = T.runs[i], h = next_run(g);

			if (R.begin[g] < at)
				throw new Error("runs of a thread overlap");
			at = R.end[g];
			if (h >= 0 && waits(R.why[g]) && (wait_end(g) < R.end[g] ||
				wait_end(g) > R.begin[h]))
				throw new Error("a wait ends outside of its gap");
		}
		return true;
	},
	"who is waited for is the holder that was noted"() {
		const g = some_run(1, g => R.holder[g] >= 0 && R.by[next_run(g)] >= 0);

		show_run(g);
		return side().includes("held by worker") &&
			side().includes("Why it stopped: mutex") &&
			side().includes("take_stock+0x64") && !side().includes("umutex_lock");
	},
	"an arrow leads from the waker to a run"() {
		const g = some_run(1, g => R.by[g] >= 0 && R.row[R.by[g]] !== R.row[g]);

		show_near(g);
		return drawn.arrows > 0 && R.wake[g] <= R.begin[g] &&
			R.wake[g] >= R.begin[R.by[g]] && R.wake[g] <= R.end[R.by[g]];
	},
	"names of the program are text"() {
		for (const name of Object.keys(PAGES)) {
			show_page(name);
			if (document.querySelector("img, u, #name i, td b, aside u"))
				throw new Error("a name has become an element in " + name);
		}
		const scripts = document.querySelectorAll("script").length;

		return $("name").textContent.startsWith("made <i>&amp;</i> [4711]") &&
			document.title === $("name").textContent &&
				side().includes("lock_<b>stock</b>") &&
			scripts <= 2 && !window.attacked;
	},
	"threads have the names that they were given"() {
		return !FULL || same("names", T.name.filter(name => name).sort().join(),
			'reader,writer "7"');
	},
	"a line at a lock stands out"() {
		return side().includes("Threads stand in line for the mutex lock_<b>stock</b>");
	},
	"what is found leads to where it is"() {
		$("side").querySelector(".crowd button").click();
		return chosen.thing === things[0] && side().includes("What its holders do");
	},
	"what no ring holds is hatched"() {
		const row = row_of(3), y = () => y_of(row.from);
		const seen = new Set();

		draw();
		for (let x = view.left + 2; x < view.left + 40; x++)
			seen.add(pixel(x, y() + 9).join());
		if (FULL)
			return row.ring.lost === 0 && side().indexOf("Hatched") < 0;
		return row.ring.lost > 0 && seen.size > 1 && side().includes("Hatched");
	},
	"that the machine slept late is told"() {
		show_page("Delays");
		return FULL ? text().includes("None woke more than") :
			text().includes("The machine slept late") && text().includes("7.00 ms");
	},
	"a click on a late sleep tells of it"() {
		const park = parks.find(is_late);

		if (FULL || !park)
			return FULL && !park;
		set_window(park.t, park.until + lateness(park));
		draw();
		const item = view.list.find(i => i.row && i.row.ring === park.ring);

		click(x_of(park.until) - 5, item.y - view.top + LANE / 2);
		return chosen.park === park && side().includes(time_text(lateness(park)) +
			" after its deadline");
	},
	"a click selects a run"() {
		const g = some_run(1, g => R.end[g] - R.begin[g] > 1000);

		show_near(g);
		click(...middle_of(g));
		same("selected", chosen.run, g);
		const [x, y] = middle_of(g), colour_of = pixel(x, y + 9).join();

		same("its colour", colour_of, painted(colour(R.f[g])).join());
		return side().includes("Why it ran") && side().includes(thread_name(R.thread[g]));
	},
	"a delay leads to the run that is late, and says who had the processor"() {
		const g = some_run(1, g => in_its_way(g).time > delay(g) / 2 &&
			asleep_for(g) < delay(g) / 2 && delay(g) > 1000);

		select({ run: g });
		set_window(R.begin[g] - 2 * delay(g), R.end[g] + delay(g));
		draw();
		const item = view.list.find(i => i.thread === R.thread[g]);
		const [x, y] = [x_of(R.begin[g] - delay(g) / 2), item.y - view.top + 9];

		same("found", run_at_point(x, y), g);
		show_tip(x, y);
		return $("tip").textContent.includes(`ran ${time_text(delay(g))} later, because ` +
			f_name(R.f[in_its_way(g).run]));
	},
	"a delay is the kernel's if the native thread slept"() {
		const g = [...R.begin.keys()].find(g => delay(g) > 1000 &&
			asleep_for(g) > delay(g) / 2);

		select({ run: g });
		return side().includes("woke its native thread late");
	},
	"a click beside selects nothing"() {
		select({ run: rows[0].from });
		draw();
		click(view.width - 5, view.height - 3);
		return chosen.run === -1 && side().includes("What stands out");
	},
	"keys go along a thread and to its waker"() {
		const g = some_run(0, g => R.by[g] >= 0 && next_run(g) >= 0);

		select({ run: g });
		press("ArrowRight");
		same("the next run", chosen.run, next_run(g));
		press("ArrowLeft");
		same("the run before", chosen.run, g);
		press("b");
		same("the waker", chosen.run, R.by[g]);
		press("Escape");
		return same("nothing", chosen.run, -1);
	},
	"the wheel zooms, and its point stays"() {
		const x = (view.left + view.width) / 2 + 40, t = t_of(x),
			width = view.to - view.from;

		wheel(x, -300);
		if (view.to - view.from > 0.9 * width || Math.abs(x_of(t) - x) > 0.5)
			throw new Error("the point has moved by " + (x_of(t) - x));
		wheel(x, 300);
		return Math.abs(view.to - view.from - width) < 1e-3 * width;
	},
	"keys zoom and move"() {
		press("w");
		press("w");
		const from = view.from, width = view.to - view.from;

		press("d");
		if (!(view.from > from) || width > 0.6 * (end_all - begin_all))
			throw new Error("d has not moved");
		press("a");
		same("from", view.from, from);
		press("s");
		press("f");
		return same("from", view.from, begin_all) && same("to", view.to, end_all);
	},
	"a drag moves"() {
		zoom(0.1);
		draw();
		const t = t_of(view.left + 150);

		pointer("pointerdown", view.left + 150, 100);
		pointer("pointermove", view.left + 90, 100);
		pointer("pointerup", view.left + 90, 100);
		draw();
		return Math.abs(x_of(t) - view.left - 90) < 1 && chosen.run === -1;
	},
	"two fingers zoom"() {
		const width = view.to - view.from;

		pointer("pointerdown", view.left + 80, 100, 11, "touch");
		pointer("pointerdown", view.left + 120, 100, 12, "touch");
		pointer("pointermove", view.left + 180, 100, 12, "touch");
		pointer("pointerup", view.left + 180, 100, 12, "touch");
		pointer("pointerup", view.left + 80, 100, 11, "touch");
		return Math.abs((view.to - view.from) / width - 0.4) < 0.01 && chosen.run === -1;
	},
	"the overview moves the window"() {
		zoom(0.1);
		pointer("pointerdown", view.left + (view.width - view.left) * 0.75, 8);
		pointer("pointerup", view.left + (view.width - view.left) * 0.75, 8);
		const at = ((view.from + view.to) / 2 - begin_all) / (end_all - begin_all);

		return Math.abs(at - 0.75) < 0.02;
	},
	"search finds functions, threads, objects"() {
		const all = R.begin.length, nr = () => {
			let found = 0;

			for (let g = 0; g < all; g++)
				found += is_found(g) ? 1 : 0;
			return found;
		};

		search_for("worker");
		same("workers", nr(), function_of("worker").runs);
		const runs = function_of("worker").runs.toLocaleString("en");

		if (!$("found").textContent.includes(runs))
			throw new Error("it says " + $("found").textContent);
		search_for('WRITER "7"');
		const writer = T.name.indexOf('writer "7"');

		same("the writer", nr(), T.first[writer + 1] - T.first[writer]);
		search_for("lock_<b>");
		same("the lock", nr(), things[0].runs.length);
		search_for("take_stock");
		const inside = [...R.stack].filter(stack =>
			frames(stack, true).some(name => frame_name(name) === "take_stock"));

		same("runs that stop in take_stock", nr(), inside.length);
		if (!inside.length || !shown_threads().length)
			throw new Error("take_stock is not found");
		search_for("no such thing");
		same("none", nr(), 0);
		show_page("Functions");
		return !text().includes("worker");
	},
	"what is not found is pale"() {
		const g = some_run(1, g => f_name(R.f[g]) === "worker" &&
			R.end[g] - R.begin[g] > 1000);

		show_near(g);
		const at = middle_of(g), [x, y] = [at[0], at[1] + 9], before = pixel(x, y).join();

		search_for("client");
		return before === painted(colour(R.f[g])).join() && pixel(x, y).join() !== before;
	},
	"Enter goes to the next that is found"() {
		search_for("writer");
		press("Enter", $("search"));
		const first = chosen.run;

		press("Enter", $("search"));
		return first >= 0 && is_found(first) && is_found(chosen.run) &&
			R.begin[chosen.run] > R.begin[first];
	},
	"functions, objects, waits, delays have pages"() {
		const expected = { Functions: "worker", Objects: "lock_<b>stock</b>",
			Waits: "take_stock", Delays: "Runs without giving way" };

		for (const [i, name] of Object.keys(expected).entries()) {
			press(String(i + 2));
			if (!text().includes(expected[name]) || !$("line").hidden)
				throw new Error(name);
		}
		press("1");
		return $("text").hidden && !$("line").hidden;
	},
	"a table is sorted by the title that is clicked"() {
		show_page("Functions");
		const title = [...document.querySelectorAll("th")].find(th =>
			th.textContent === "threads");
		const column = () => [...document.querySelectorAll("tbody tr")]
			.map(tr => Number(tr.children[1].textContent));

		title.click();
		const down = column();

		title.click();
		return down[0] > down[1] && column()[0] < column()[1];
	},
	"a row of a table leads to a run"() {
		show_page("Functions");
		document.querySelector("tbody tr").click();
		return page === "Timeline" && chosen.run >= 0;
	},
	"the census shows threads that never ran"() {
		show_page("Waits");
		[...document.querySelectorAll(".choices button")].find(b =>
			b.textContent.includes("census")).click();
		return text().includes("1,000,000 threads") && text().includes("1,000,050") &&
			document.querySelectorAll("tbody tr").length === 4;
	},
	"a dead lock stands out"() {
		return side().includes("A dead lock: worker waits for the mutex 0x1000, which " +
			"0x2001 holds; worker waits for the mutex 0x1001, which 0x2000 holds.");
	},
	"a part of the icicle becomes wide, and back"() {
		waits_by = "time";
		show_page("Waits");
		const part = [...document.querySelectorAll(".flame button")].find(b =>
			b.textContent.startsWith("take_stock"));
		const before = part.offsetWidth;

		part.click();
		const wide = document.querySelector(".flame button").offsetWidth;

		document.querySelector("#text button.link").click();
		return wide > 1.2 * before && !document.querySelector("#text button.link");
	},
	"a part of the icicle is as wide as its share"() {
		waits_by = "time";
		show_page("Waits");
		const of = start => [...document.querySelectorAll(".flame button")].find(b =>
			b.title.startsWith(start)).offsetWidth;
		let mutex = 0, all = 0;

		for (const place of places.values()) {
			all += place.time;
			if (why_text(place.why) === "mutex")
				mutex += place.time;
		}
		return Math.abs(of("[mutex]") / of("all") - mutex / all) < 0.02;
	},
	"rows of threads"() {
		$("rows").click();
		draw();
		if (view.thread_y.size < 3 || drawn.shapes < 100)
			throw new Error(`${view.thread_y.size} rows, ${drawn.shapes} shapes`);
		const g = T.runs[T.first[shown_threads()[1]] + 5];

		show_near(g);
		click(...middle_of(g));
		same("selected", chosen.run, g);
		set_window(begin_all, end_all);
		scroll(1e9);
		draw();
		return view.top > 0 && view.thread_y.has(shown_threads()[T.nr - 1]);
	},
	"nothing is wider than the window"() {
		for (const name of Object.keys(PAGES)) {
			show_page(name);
			if (document.documentElement.scrollWidth > innerWidth)
				throw new Error(`${name}: ${document.documentElement.scrollWidth}`);
			for (const e of document.querySelectorAll("header *, aside h2")) {
				const box = e.getBoundingClientRect();

				if (box.width && (box.left < 0 || box.right > innerWidth + 1))
					throw new Error(`${name}: ${e.id} ends at ${box.right}`);
			}
		}
		return innerWidth === WIDTH;
	},
	"timeline and side have room"() {
		const a = $("stage").getBoundingClientRect(), b = $("side").getBoundingClientRect();

		return a.width >= Math.min(WIDTH, 600) && a.height > 250 && b.width >= 300 &&
			b.height > 250 && a.bottom <= innerHeight && b.bottom <= innerHeight + 1;
	},
	"text can be read"() {
		const body = getComputedStyle(document.body);

		if (theme.dark !== DARK || contrast(body.color, body.backgroundColor) < 7)
			throw new Error(`dark: ${theme.dark}`);
		for (const [over, under] of [["dim", "page"], ["dim", "panel"], ["link", "panel"],
				["mark", "page"]])
			if (contrast(theme[over], theme[under]) < 4.5)
				throw new Error(`${over} on ${under}`);
		for (const x of functions.values())
			if (contrast(colour(x.f), theme.on_run) < 3)
				throw new Error(colour(x.f));
		return true;
	},
	"a picture of a million records looks at few of them"() {
		const look = x_of;
		const measure = what => {
			const time = least_time(draw);
			let looks = 0;

			x_of = t => (looks++, look(t));
			draw();
			x_of = look;
			TIMES.push([what, time, looks]);
			if (!FULL && looks > sums.records / 10)
				throw new Error(`${what}: ${looks} of ${sums.records}`);
		};

		measure("whole");
		set_window(begin_all + (end_all - begin_all) * 0.7, begin_all +
			(end_all - begin_all) * 0.75);
		measure("part");
		search_for("worker");
		measure("search");
		set_by_thread(true);
		measure("part, threads");
		show_whole();
		measure("threads");
		return FULL || sums.records > 1000000;
	},
};

const TIMES = [];

// Tries all, or those whose claim holds a word. Returns [claim, what is wrong or ""].
function try_all(word = "") {
	const results = [];

	canvas.setPointerCapture = () => {};	// events that are made have no pointer
	for (const [claim, check] of Object.entries(CHECKS)) {
		if (!claim.includes(word))
			continue;
		let wrong = "";

		reset();
		try {
			wrong = check() ? "" : "does not hold";
		} catch (error) {
			wrong = error.message;
		}
		results.push([claim, wrong]);
	}
	reset();
	return results;
}
