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

// The mutex, which many wait for.
const lock = () => things.find(x => x.kind === "mutex");

const sum_of = (list, f) => list.reduce((sum, x) => sum + f(x), 0);
const all_runs = () => [...R.begin.keys()];
const is_turns = g => R.member[g] >= 0;

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

// Members of groups: their runs.
const all_turns = new Map([...R.begin.keys()].filter(g => R.member[g] >= 0)
	.map(g => [members[R.member[g]], g]));

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
		for (const name of FULL ? ["worker", "client", "poller", "drain", "spinner"] : []) {
			const x = function_of(name), all = T.runs.filter(g => R.f[g] === x.f &&
				R.why[g]);
			const ran = sum_of(all, g => R.end[g] - R.begin[g]);

			same(name + ": runs", sum_of(all, g => R.turns[g]), EXPECT[name][0]);
			same(name + ": lengths", x.lengths.nr, EXPECT[name][0]);
			same(name + ": sum of lengths", x.lengths.sum, EXPECT[name][1]);
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
		const waits = [...lock().runs].filter(ended).map(g => wait_end(g) - R.end[g]);

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
		const t = R.thread[lock().runs[9]];
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
		let objects = "";

		for (const name of Object.keys(PAGES)) {
			show_page(name);
			objects += name === "Objects" ? text() : "";
			if (document.querySelector("img, u, #name i, td b, aside u"))
				throw new Error("a name has become an element in " + name);
		}
		const scripts = document.querySelectorAll("script").length;

		return $("name").textContent.startsWith("made <i>&amp;</i> [4711]") &&
			document.title === $("name").textContent &&
			objects.includes("lock_<b>stock</b>") && objects.includes("orders <b>") &&
			scripts <= 2 && !window.attacked;
	},
	"threads have the names that they were given"() {
		return !FULL || same("names", T.name.filter(name => name).sort().join(),
			'reader,writer "7"');
	},
	"what the tool has found stands out, and is text"() {
		const boxes = [...document.querySelectorAll(".finding")].map(e => e.innerText);

		if (!FULL)
			return boxes.length === 2 && boxes[1].startsWith("< 1% of the time") &&
				boxes[0] === "Nothing found, but not looked for: sleeps in the " +
					"kernel.";
		return boxes.length === 3 && boxes[0].startsWith("43% of the time: Threads " +
			"stand in line <img src=x onerror=attacked=3></script>.") &&
			document.querySelectorAll(".finding")[2].className === "finding machine";
	},
	"a finding leads to its object, or to the run of its thread"() {
		const links = () => [...document.querySelectorAll(".finding button")];

		if (FULL) {
			set_by_thread(true);
			links()[0].click();
			if (chosen.thing !== lock() || !side().includes("What its holders do"))
				throw new Error("the lock is not shown");
			draw();
			const g = lock().runs.find(g =>
				wait_end(g) - R.end[g] >= lock().longest - 1e-3);

			if (!(view.from < R.end[g] && wait_end(g) < view.to &&
					view.to - view.from < 4 * lock().longest))
				throw new Error("its longest wait is not in sight");
			same("its mark", pixel(x_of((R.end[g] + wait_end(g)) / 2),
				y_of(g) + 10).join(), painted(theme.link).join());
			reset();
			links()[1].click();
			const { from, to, thread } = EXPECT.why.found[1], t = R.thread[chosen.run];

			if (hex(threads.address(T.slot[t])) !== thread ||
					R.begin[chosen.run] >= to || view.from > from ||
					view.to < to || R.begin[next_run(chosen.run)] < to)
				throw new Error(`run ${chosen.run} is shown`);
			select({});
		}
		links().at(-1).click();
		const { from, to } = EXPECT.why.found.at(-1);

		return chosen.run === -1 && view.from <= from && view.to >= to &&
			view.to - view.from < end_all / 20;
	},
	"what was looked for is listed"() {
		const list = [...document.querySelectorAll(".looked li")].map(e => e.textContent);

		const details = document.querySelector(".looked");

		same("kinds", list.length, 3);
		same("open", details.open, !FULL);
		same("in short", details.querySelector("summary").textContent,
			"Looked for 3 kinds: 2 not found" + (FULL ? "" : ", 1 not looked for"));
		if (details.compareDocumentPosition(document.querySelector(".processor")) !== 2)
			throw new Error("processors are below");
		same("the first", list[0], (FULL ? "●" : "✓") +
			"a line at a lock: 2.1 wait <b>; limit: 1");
		return same("the last", list[2], FULL ? "✓sleeps in the kernel: 3%; limit: 10%" :
			"?sleeps in the kernel: not looked for: the kernel does not tell");
	},
	"nothing stands out only if all was looked for"() {
		const says = why => found_side(why).map(e => `${e.className}: ${e.textContent}`)[0];
		const kind = state => ({ found: [], kinds: [{ title: "hogs", state }] });

		same("none", says(kind("none")), "finding none: Nothing stands out.");
		same("unknown", says(kind("unknown")),
			"finding unknown: Nothing found, but not looked for: hogs.");
		return says(null).startsWith("finding machine: Not asked") &&
			says({ found: [], kinds: [] }).startsWith("finding machine: Not asked");
	},
	"what was overwritten, and what recording took, are told"() {
		return side().includes("Recording took 3% of the processors' time.") &&
			side().includes("of all records are overwritten: the page shows the last " +
				time_text(end_all - begin_all)) !== FULL;
	},
	"turns of a group lie one behind the other in its time"() {
		const groups = new Set(members.filter(m => m.group.list.length === 3 &&
			m.group.list.every(o => o.nr)).map(m => m.group));

		for (const { begin, end, list } of groups) {
			const runs = list.map(o => all_turns.get(o));
			const is_scaled = sum_of(list, o => o.time) > end - begin;
			let at = begin, last = 0;

			for (const g of runs) {
				if (R.begin[g] < at - 1e-3 || R.end[g] > end ||
						R.why[g] !== STOP.YIELDED)
					throw new Error(`run ${g} lies outside`);
				if (!is_scaled && R.end[g] > members[R.member[g]].until + 1e-3)
					throw new Error(`run ${g} is longer than it can be`);
				if (members[R.member[g]].last < last)
					throw new Error(`run ${g} stands behind a later one`);
				at = R.end[g];
				last = members[R.member[g]].last;
			}
			same("its ready threads", R.ready[runs[0]], 2);
		}
		return groups.size > 5 && members.every(m => all_turns.has(m));
	},
	"turns are hatched, and say how many they are"() {
		const g = some_run(1, g => is_turns(g) && f_name(R.f[g]) === "drain<u>" &&
			R.end[g] - R.begin[g] > 2000), m = members[R.member[g]];

		show_near(g);
		const [x, y] = middle_of(g), seen = new Set();

		for (let i = 0; i < 8; i++)
			seen.add(pixel(x + i, y + 11).join());
		if (seen.size < 2)
			throw new Error("it is not hatched");
		show_tip(x, y);
		const text = `gave way ${R.turns[g].toLocaleString("en")} times from ` +
			`${at_text(m.group.begin)} to ${at_text(m.until)}, in turn with poller: ` +
			`${time_text((R.end[g] - R.begin[g]) / R.turns[g])} a turn; drawn one ` +
			"behind the other";

		if (!$("tip").textContent.includes(text))
			throw new Error("the tip says " + $("tip").textContent);
		click(x, y);
		return chosen.run === g && side().includes(text);
	},
	"a thread that gives way to no other"() {
		const g = all_runs().find(g => is_turns(g) && f_name(R.f[g]) === "spinner");

		show_run(g);
		return side().includes("with no other thread in between") &&
			members[R.member[g]].group.begin === R.begin[g] && R.ready[g] === 0;
	},
	"a wake between turns delays nothing"() {
		const late = all_runs().filter(h => R.from[h] === FROM.POST &&
			R.member[run_before(h)] >= 0);

		for (const h of late)
			if (R.begin[h] - delay(h) < members[R.member[run_before(h)]].last)
				throw new Error(`run ${h} is late by ${delay(h)}`);
		return late.length > 1;
	},
	"the last of turns goes on at the end"() {
		const row = row_of(EXPECT.turner), g = row.to - 1, m = members[R.member[g - 1]];

		same("why", R.why[g], STOP.OPEN);
		same("begins", R.begin[g], m.group.end);
		same("ends", R.end[g], end_all);
		same("runs of the row", row.to - row.from, row.nr);
		return f_name(R.f[g]) === "poller" && !is_turns(g) &&
			m.group.list.length === 3 && m.group.end > R.end[g - 1];
	},
	"turns are counted as runs"() {
		const all = sum_of(all_runs(), g => R.turns[g]);

		search_for("spinner");
		const found = $("found").textContent;

		search_for("");
		same("found", found, nr_text(function_of("spinner").runs, "run"));
		same("lengths", lengths.nr,
			sum_of(all_runs().filter(g => R.why[g]), g => R.turns[g]));
		show_page("Functions");
		return side().includes(`, ${all.toLocaleString("en")} runs`) &&
			text().includes(function_of("poller").runs.toLocaleString("en"));
	},
	"how many threads can run, also if they are many"() {
		const g = all_runs().find(g => R.ready[g] > 2047), row = rows[R.row[g]];

		same("in bits", R.ready[g], 9984);
		for (const level of row.queue.levels)
			same("in the pyramid", level.reduce((a, b) => Math.max(a, b)), 9984);
		show_run(g);
		draw();
		return ready_text(4) === "4" && ready_text(2047) === "2,047" &&
			side().includes("about 10,000 other threads");
	},
	"a processor has its name, also without its BEGIN"() {
		return [0, 1, 2, 3].every(i =>
			same("name", row_name(row_of(i)), `processor ${i}`) &&
			same("scheduler", row_of(i).ring.scheduler, "rr"));
	},
	"how long runs were not on a cpu"() {
		const all = all_runs(), client = function_of("client");

		if (!FULL) {
			show_run(rows[0].from);
			return all.every(g => R.off[g] === -1) &&
				side().includes("how much of it on a cpu: unknown");
		}
		same("off", sum_of(all, g => Math.max(0, R.off[g])), EXPECT.off[0]);
		same("unknown", sum_of(all.filter(g => R.off[g] < 0), g => R.end[g] - R.begin[g]),
			EXPECT.off[1]);
		same("sleeps", sum_of(all, g => R.sleeps[g]), EXPECT.off[2]);
		same("taken from clients", client.taken, EXPECT.off[3]);
		same("asleep in clients", client.asleep, EXPECT.off[0] - EXPECT.off[3]);
		return same("unknown in clients", client.unknown, EXPECT.off[1]);
	},
	"a run says why it had no cpu"() {
		const says = f => {
			const g = all_runs().find(f);

			if (g === undefined)
				return "";
			show_run(g);
			return side().includes(`of which ${time_text(R.off[g])} `) ? side() : "";
		};

		return !FULL || (says(g => R.sleeps[g] && !lost_in.has(g)).includes(
			"asleep in the kernel, by a call that blocks (2 times)") &&
			says(g => R.sleeps[g] && lost_in.has(g)).includes(
				"(2 times), or waiting for a cpu") &&
			says(g => R.off[g] > 0 && !R.sleeps[g] && lost_in.has(g)).includes(
				"waiting for a cpu"));
	},
	"the cpu of functions and processors is told, or unknown"() {
		const bars = [...document.querySelectorAll(".processor .bar")];
		const part = style => sum_of(bars, bar =>
			parseFloat(bar.querySelector("." + style).style.width));
		const all = end_all - row_of(0).ring.oldest;

		show_page("Functions");
		const row = [...document.querySelectorAll("tbody tr")]
			.map(tr => [...tr.children].map(td => td.textContent))
			.find(tr => tr[0].startsWith("client"));

		if (!FULL)
			return same("cpu", row[4], "unknown") && !text().includes("asleep") &&
				part("cpu") === 0 && part("unknown") > 0 &&
				side().includes("whether on a cpu: unknown");
		const x = function_of("client");

		const cpu = x.ran - EXPECT.off[0] - EXPECT.off[1];

		same("cpu", row[4], "≥ " + percent(cpu / processor_time()));
		const [off, , , taken] = EXPECT.off;

		same("asleep", row[5], "≥ " + time_text(off - taken));
		same("taken", row[6], "≥ " + time_text(taken));
		return Math.abs(part("asleep") / (100 * (off - taken) / all) - 1) < 0.01 &&
			Math.abs(part("taken") / (100 * taken / all) - 1) < 0.01 &&
			part("cpu") > part("asleep");
	},
	"a line is as long as a run had no cpu, and has the colour of why"() {
		for (const style of ["asleep", "taken"]) {
			const is_it = g => is_asleep(g) === (style === "asleep");
			const g = all_runs().find(g => R.off[g] > 0 && is_it(g));

			if (!FULL)
				continue;
			show_near(g);
			const y = y_of(g) + LANE / 2 - 2, at = t => pixel(x_of(t), y).join();
			const line = painted(theme[style]).join();

			same(style, at(R.begin[g] + R.off[g] / 2), line);
			if (at((R.begin[g] + R.off[g] + R.end[g]) / 2) === line)
				throw new Error("the line is too long");
		}
		return true;
	},
	"how many threads are ready over time"() {
		for (const row of rows.filter(row => row.nr > 100)) {
			const { t, nr, sum, levels } = row.queue, last = last_of_rows()[row.number];
			const from = row.from + (row.nr >> 1);
			const some = all_runs().slice(from, from + 60);
			const crowd = all_runs().find(g => R.ready[g] > 2047);

			if (R.row[crowd] === row.number)
				some.push(crowd);
			for (const g of some.filter(g => g + 1 < row.to))
				for (const at of [(R.begin[g] + R.end[g]) / 2,
						(R.end[g] + R.begin[g + 1]) / 2]) {
					const k = lower(t, at, 0, t.length) - 1;
					const runs = at < R.end[g];
					let known = last.filter(x => x < at).length;

					for (let h = row.from; h < row.to; h++)
						known += at < R.begin[h] &&
							waits_to_run_since(h) < at ? 1 : 0;
					const least = runs ? R.ready[g] :
						R.begin[g + 1] - R.end[g] >= AT_ONCE ? 0 :
						Math.min(R.ready[g], R.ready[g + 1] + 1);

					if (at !== R.begin[g + 1])
						same("ready", nr[k], Math.max(known, least));
				}
			for (let i = 0; i < 40; i++) {
				const a = i * 7 * t.length / 300 | 0;
				const z = Math.min(t.length, a + i * i * 9);

				same("the most", most_of(levels, a, z),
					nr.subarray(a, z).reduce((x, y) => Math.max(x, y), 0));
			}
			same("the sum", sum.at(-1), t.reduce((x, at, i) =>
				x + (i ? nr[i - 1] * (at - t[i - 1]) : 0), 0));
		}
		return rows.some(row => row.nr > 100);
	},
	"what is woken after its last run is ready until the end"() {
		const last = last_of_rows();

		return !FULL || same("ready", sum_of(last, list => list.length), T.nr -
			[...Array(T.nr).keys()].filter(t => {
				const g = T.runs[T.first[t + 1] - 1];

				return R.why[g] === STOP.OPEN || R.why[g] === STOP.ENDED ||
					(waits(R.why[g]) && T.pending[t] < 0) ||
					(is_turns(g) && R.end[g] < end_all &&
						stopped_at(g) >= end_all);
			}).length);
	},
	"the strip is empty where none is ready, and the lane pale where it is seldom busy"() {
		const row = rows.find(row => row.ring.parks.length > 9 && row.nr > 99);
		const { t, levels } = row.queue, place = at => lower(t, at, 0, t.length);
		const park = row.ring.parks.find(p => p.until - p.t > 2000 && p.until < end_all &&
			most_of(levels, place(p.t) - 1, place(p.until)) === 0);

		for (const zoom of park ? [1, 4] : []) {
			set_window(park.t - zoom * (park.until - park.t), park.until +
				zoom * (park.until - park.t));
			draw();
			const { y } = view.list.find(i => i.row === row);

			same("the strip", pixel(x_of((park.t + park.until) / 2),
				y - view.top + LANE + STRIP).join(), painted(theme.page).join());
		}
		return strength(0.006) < 0.4 && strength(0.5) === 1;
	},
	"texts of the tool have its units, and count rightly"() {
		same("units", said("5 us, 1 us."), "5 µs, 1 µs.");
		same("one", said("1 runs, 11 runs, 2.1 runs, 1,001 runs"),
			"1 run, 11 runs, 2.1 runs, 1,001 runs");
		return (!FULL ||
			document.querySelectorAll(".finding")[1].innerText
				.includes("5 µs, 11 µs: 1 run."));
	},
	"a semaphore is a lock only if its waiters wake each other"() {
		const x = lock(), t = R.thread[x.runs[9]];

		same("a lock", is_woken_by_waiters(x.runs), true);
		same("a signal", is_woken_by_waiters(x.runs.filter(g => R.thread[g] === t)),
			false);
		x.is_lock = false;
		select({ thing: x });
		const says = side();

		x.is_lock = true;
		return says.includes("Woken by") && says.includes("worker: 100%, ") &&
			!says.includes("holders");
	},
	"columns that are empty are left out"() {
		const columns = [["a", x => x], ["b", () => -1, () => ""], ["c", x => x]];
		const t = table(columns, [1, 2], 2, null);

		return same("columns", [...t.querySelectorAll("th")].map(th => th.textContent)
			.join(), "a,c");
	},
	"the functions fit in the window"() {
		show_page("Functions");
		const box = document.querySelector("table").getBoundingClientRect();

		return WIDTH < 1000 || box.right <= $("stage").getBoundingClientRect().right;
	},
	"turns show where they gave way before"() {
		const of = name => all_runs().find(g => is_turns(g) && f_name(R.f[g]) === name);

		show_run(of("drain<u>"));
		if (!side().includes("in the run before them") || !side().includes("take_stock"))
			throw new Error("no stack");
		show_run(of("poller"));
		return side().includes("Turns have no backtrace.");
	},
	"points in time have one unit"() {
		const end = end_all;

		for (const [all, unit] of [[5e9, "s"], [5e7, "ms"], [5e5, "µs"]]) {
			end_all = begin_all + all;
			const says = [at_text(begin_all + 1e5), tick_text(begin_all, 1e5)];

			end_all = end;
			if (!says.every(text => text.endsWith(" " + unit)))
				throw new Error(says.join());
		}
		return true;
	},
	"queues: how long they are, how old their oldest value"() {
		for (const name of FULL ? ["orders", "nameless"] : []) {
			const q = [...queues.values()][name === "orders" ?
				+(object_name([...queues.keys()][0]) !== "orders <b>") :
				+(object_name([...queues.keys()][0]) === "orders <b>")];
			const [looks, most, mean, oldest, old] = EXPECT[name];
			const close = (what, a, b) => Math.abs(a - b) < 1e-6 * b ||
				same(name + what, a, b);

			same(name + ": looks", q.t.length, looks);
			same(name + ": most", over_time(q, q.length).most, most);
			close(": mean", over_time(q, q.length).mean, mean);
			close(": most age", over_time(q, q.age).most, oldest);
			close(": mean age", over_time(q, q.age).mean, old);
		}
		return queues.size === 2;
	},
	"a queue on which none waits is an object, and has charts"() {
		const address = [...queues.keys()].find(a => object_name(a) === "orders <b>");
		const q = queues.get(address);

		show_page("Objects");
		[...document.querySelectorAll("tbody tr")].find(tr =>
			tr.textContent.startsWith("orders <b>channel")).click();
		const charts = [...document.querySelectorAll("svg[role=img]")];

		same("rows", document.querySelectorAll("tbody tr").length, 3);
		same("charts", charts.length, 2);
		same("queue", chosen.thing.queue, q);
		return side().includes("No thread has waited for it.") &&
			charts[0].getAttribute("aria-label").startsWith("length: last ") &&
			charts[1].textContent.startsWith(time_text(Math.max(...q.age))) &&
			charts.every(c => c.querySelector(".line").getAttribute("d").length > 40);
	},
	"of names of an object, the last counts"() {
		return same("name", lock().name, "lock_<b>stock</b>");
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
		const g = some_run(1, g => R.end[g] - R.begin[g] > 1000 && !is_turns(g));

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
		const { by } = in_its_way(g), since = waits_to_run_since(g), row = rows[R.row[g]];
		const way = all_runs().filter(h => h >= row.from && h < g && R.end[h] > since);
		const part = h => R.end[h] - Math.max(since, R.begin[h]);

		for (const [f, time] of by)
			same(f_name(f), time, sum_of(way.filter(h => R.f[h] === f), part));
		const nr = sum_of(way, h => Math.ceil(part(h) / length_of(h) - 1e-9));

		return $("tip").textContent.includes(`ran ${time_text(delay(g))} later, because ` +
			names_of(by) + " had the processor") && (nr < 2 ||
			side().includes(`: ${nr_text(nr, "run")}, ` +
				`${time_text(sum_of(way, part))} together`));
	},
	"of many functions that had the processor, three have names"() {
		const names = nr => names_of(new Map([...functions.keys()].slice(0, nr)
			.map((f, i) => [f, 9 - i])));
		const [a, b, c] = [...functions.keys()].map(f_name);

		return same("one", names(1), a) && same("two", names(2), `${a} and ${b}`) &&
			same("three", names(3), `${a}, ${b} and ${c}`) &&
			same("five", names(5), `${a}, ${b}, ${c} and 2 others`);
	},
	"of turns in its way, all are counted"() {
		const g = all_runs().find(g => R.turns[in_its_way(g).run] > 9);

		return g === undefined || in_its_way(g).runs > 9;
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
		same("the lock", nr(), lock().runs.length);
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
			.map(tr => Number(tr.children[1].textContent.replaceAll(",", "")));

		title.click();
		const down = column();

		title.click();
		return down[0] > down.at(-1) && column()[0] < column().at(-1);
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
	"a part of the icicle becomes wide, and back"() {
		waits_by = "time";
		show_page("Waits");
		const part = [...document.querySelectorAll(".flame button")].find(b =>
			b.textContent.startsWith("[sleep]"));
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

// Tries all, or those whose claim holds a word, or until a claim does not hold. Returns
// [claim, what is wrong or ""].
function try_all(word = "", until_wrong = false) {
	const results = [];

	canvas.setPointerCapture = () => {};	// events that are made have no pointer
	for (const [claim, check] of Object.entries(CHECKS)) {
		if (!claim.includes(word) || (until_wrong && claim.startsWith("a picture")))
			continue;	/* that takes long */
		let wrong = "";

		reset();
		try {
			wrong = check() ? "" : "does not hold";
		} catch (error) {
			wrong = error.message;
		}
		results.push([claim, wrong]);
		if (wrong && until_wrong)
			break;
	}
	reset();
	return results;
}
