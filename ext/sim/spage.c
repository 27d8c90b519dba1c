/* SPDX-License-Identifier: MIT */
/* spage.c: the story of a run as a page, with messages as arrows. */

/*
 * A run that is asked for a page prints lines, which are the page's data, and the
 * search prints what a browser needs before and behind them. So a page is what
 * comes out of the program, in one piece: it needs no network and no other file.
 *
 *	~H	number, name					a host
 *	~L	us, number, text				a line of the story
 *	~F	us, us that it lasts, number, number, text	a fault
 *	~M	us sent, us arrived, from, to, kind, bytes	a message
 *	~E	us						the end
 *
 * Numbers are those of hosts, 0 is none. Fields end with a tab. Lines that a host
 * prints by printf() lie between these, and the page does not show them.
 *
 * The script is written as it is, and the macro TEXT makes a string of it. So it
 * has neither a backslash nor a comment.
 */

#include "sim.h"

#include <stdarg.h>
#include <stdio.h>

#define TEXT(...)	#__VA_ARGS__

bool sim_is_page;

static const char head[] = "<!doctype html><meta charset=utf-8>\n"
	"<title>The story of a run</title>\n<style>\n" TEXT(
	body { margin: 0; font: 13px sans-serif; color: #222; height: 100vh;
		display: flex; flex-direction: column }
	h1 { font-size: 15px; margin: 8px 12px 2px }
	p { margin: 2px 12px 8px; color: #555 }
	main { flex: 1; display: flex; min-height: 0; border-top: 1px solid #ccc }
	canvas { flex: 2; min-width: 0; cursor: grab }
	ol { flex: 1; margin: 0; padding: 4px 0; overflow: auto; list-style: none;
		border-left: 1px solid #ccc; font: 12px monospace }
	li { padding: 1px 8px; cursor: pointer; white-space: pre-wrap }
	li:hover { background: #eef }
	.fault { background: #fdebd0 }
	.end { background: #f8d0d0 }
	b { font-weight: bold }
	) "\n</style>\n<h1 id=title></h1>\n"
	"<p>Time goes down. Wheel: zoom. Drag: move. A line at the right leads to "
	"its time. <span style='color:#26c'>&mdash;</span> bytes "
	"<span style='color:#e80'>&mdash;</span> late "
	"<span style='color:#aaa'>&mdash;</span> begin, end "
	"<span style='color:#d00'>&mdash;</span> reset; a band is a fault; a dashed "
	"host is down</p>\n"
	"<main><canvas id=draw></canvas><ol id=lines></ol></main>\n<pre id=data hidden>\n";

static const char script[] = "</pre>\n<script>\n" TEXT(
	const hosts = [], texts = [], faults = [], messages = [];
	let end = 1, result = "";
	for (const line of document.getElementById("data").textContent.split(
			String.fromCharCode(10))) {
		const f = line.split(String.fromCharCode(9)), n = f.map(Number);
		if (f[0] == "~H")
			hosts.push({ name: f[2], downs: [], at: 0 });
		else if (f[0] == "~L")
			texts.push({ at: n[1], host: n[2], text: f[3] });
		else if (f[0] == "~F")
			faults.push({ at: n[1], to: n[1] + n[2], host: n[3],
				other: n[4], text: f[5] });
		else if (f[0] == "~M")
			messages.push({ at: n[1], to: n[2], from: n[3], host: n[4],
				kind: f[5], size: n[6] });
		else if (f[0] == "~E")
			end = Math.max(1, n[1]);
		else if (f[0] == "~R")
			result = f[1];
	}
	for (const t of texts) {
		const h = hosts[t.host - 1];
		if (!h)
			continue;
		if (t.text.startsWith("boots") && h.down) {
			h.downs.push([h.down, t.at]);
			h.down = 0;
		} else if (t.text.startsWith("crashes (") ||
			   t.text.startsWith("ends with "))
			h.down = t.at;
	}
	for (const h of hosts)
		if (h.down)
			h.downs.push([h.down, end]);
	document.getElementById("title").textContent = result;

	const canvas = document.getElementById("draw");
	const c = canvas.getContext("2d"), TOP = 26, LEFT = 74;
	let from = Math.max(0, end - 3e6), to = end + (end - from) * .04;
	const y = t => TOP + (t - from) / (to - from) * (canvas.clientHeight - TOP);
	const x = n => LEFT + (n - .85) * (canvas.clientWidth - LEFT) / hosts.length;
	const seconds = (us, digits) => (us / 1e6).toFixed(digits);

	function line(x0, y0, x1, y1, color, width) {
		c.strokeStyle = color;
		c.lineWidth = width;
		c.beginPath();
		c.moveTo(x0, y0);
		c.lineTo(x1, y1);
		c.stroke();
	}
	function arrow(m) {
		const color = m.kind == "RST" ? "#d00" : m.to - m.at > 1e5 ? "#e80" :
			m.kind == "DATA" || m.kind == "datagram" ? "#26c" : "#aaa";
		const x0 = x(m.from), y0 = y(m.at), x1 = x(m.host), y1 = y(m.to);
		const a = Math.atan2(y1 - y0, x1 - x0);
		if (m.from == m.host)
			return;
		line(x0, y0, x1, y1, color, 1);
		line(x1, y1, x1 - 7 * Math.cos(a - .4), y1 - 7 * Math.sin(a - .4),
			color, 1);
		line(x1, y1, x1 - 7 * Math.cos(a + .4), y1 - 7 * Math.sin(a + .4),
			color, 1);
	}
	function axis() {
		const step = [1e2, 1e3, 1e4, 1e5, 1e6, 1e7].find(
			s => (to - from) / s < 25) || 1e8;
		for (let t = Math.ceil(from / step) * step; t < to; t += step) {
			line(LEFT - 12, y(t), canvas.clientWidth, y(t), "#eee", 1);
			c.fillStyle = "#888";
			c.fillText(seconds(t, step < 1e4 ? 4 : step < 1e6 ? 2 : 0),
				8, y(t) + 4);
		}
	}
	function band(n, f) {
		const y0 = Math.max(TOP, y(f.at)), y1 = Math.max(y0 + 4, y(f.to));
		if (f.to < from)
			return;
		c.fillStyle = "rgba(240,150,30,.25)";
		c.fillRect(x(n) - 9, y0, 18, y1 - y0);
	}
	function host(h, n) {
		line(x(n), TOP, x(n), y(end), "#333", 1.5);
		for (const d of h.downs) {
			line(x(n), y(d[0]), x(n), y(d[1]), "#fff", 3);
			c.setLineDash([3, 4]);
			line(x(n), y(d[0]), x(n), y(d[1]), "#c00", 1.5);
			c.setLineDash([]);
		}
	}
	function labels() {
		const free = {};
		const room = (canvas.clientWidth - LEFT) / hosts.length - 20;
		const all = texts.concat(faults.map(f => ({ at: f.at, host: f.host,
			text: f.text, isFault: true }))).sort((a, b) => a.at - b.at);
		for (const t of all) {
			const at = y(t.at);
			if (!t.host || at < TOP || at > canvas.clientHeight)
				continue;
			c.fillStyle = t.isFault ? "#b50" : "#000";
			c.beginPath();
			c.arc(x(t.host), at, 2.5, 0, 7);
			c.fill();
			if (at < (free[t.host] || 0))
				continue;
			free[t.host] = at + 13;
			c.save();
			c.beginPath();
			c.rect(x(t.host) + 8, 0, room, canvas.clientHeight);
			c.clip();
			c.fillStyle = "rgba(255,255,255,.8)";
			c.fillRect(x(t.host) + 9, at - 7, c.measureText(
				t.text).width + 4, 14);
			c.fillStyle = t.isFault ? "#b50" : "#000";
			c.fillText(t.text, x(t.host) + 11, at + 4);
			c.restore();
		}
	}
	function draw() {
		const scale = window.devicePixelRatio || 1;
		canvas.width = canvas.clientWidth * scale;
		canvas.height = canvas.clientHeight * scale;
		c.scale(scale, scale);
		c.font = "12px sans-serif";
		axis();
		for (const f of faults) {
			if (f.host)
				band(f.host, f);
			if (f.other)
				band(f.other, f);
		}
		for (const m of messages)
			if (m.to > from && m.at < to)
				arrow(m);
		hosts.forEach((h, i) => host(h, i + 1));
		line(LEFT - 12, y(end), canvas.clientWidth, y(end), "#d00", 1);
		labels();
		c.fillStyle = "#fff";
		c.fillRect(0, 0, canvas.clientWidth, TOP - 4);
		c.fillStyle = "#000";
		c.font = "bold 13px sans-serif";
		hosts.forEach((h, i) => c.fillText(h.name, x(i + 1) - 8, 16));
	}
	function move(a, b) {
		const least = 200, most = end * 1.2 + 1e5;
		if (b - a < least || b - a > most)
			return;
		from = a;
		to = b;
		draw();
	}
	canvas.onwheel = e => {
		const t = from + (e.offsetY - TOP) / (canvas.clientHeight - TOP) *
			(to - from), by = e.deltaY > 0 ? 1.25 : .8;
		e.preventDefault();
		move(t - (t - from) * by, t + (to - t) * by);
	};
	canvas.onpointerdown = e => canvas.setPointerCapture(e.pointerId);
	canvas.onpointermove = e => {
		const by = e.movementY * (to - from) / canvas.clientHeight;
		if (e.buttons)
			move(from - by, to - by);
	};
	window.onresize = draw;

	const list = document.getElementById("lines");
	const rows = faults.map(f => ({ at: f.at, host: 0,
		text: "FAULT " + f.text })).concat(texts).sort((a, b) => a.at - b.at);
	for (const t of rows) {
		const row = document.createElement("li"), name = t.host ?
			hosts[t.host - 1].name + ": " : "";
		row.textContent = seconds(t.at, 6).padStart(10) + "  " + name + t.text;
		row.className = t.text.startsWith("FAULT") ? "fault" :
			t.text.startsWith("FAILED") ? "end" : "";
		row.onclick = () => move(t.at - (to - from) / 2,
			t.at + (to - from) / 2);
		list.append(row);
	}
	list.scrollTop = list.scrollHeight;
	draw();
	) "\n</script>\n";

/* Prints what the page shows as text. */
static void escaped(const char *at)
{
	for (; *at != 0; at++)
		if (*at == '&' || *at == '<')
			printf("&#%d;", *at);
		else
			putchar(*at == '\n' || *at == '\t' ? ' ' : *at);
}

static long long us(utime_ns at)
{
	return (long long)(at / UTIME_US);
}

void sim_page_begin(void)
{
	sim_is_page = true;
	fputs(head, stdout);
}

void sim_page_end(const char *result)
{
	printf("\n~E\t%lld\t\n~R\t", us(sim_report->p_time));
	escaped(result);
	printf("\t\n%s", script);
}

void sim_page_hosts(void)
{
	int i;

	for (i = 1; sim_is_page && i <= sim_host_nr; i++) {
		printf("\n~H\t%d\t", i);
		escaped(sim_hosts[i].h_name);
		printf("\t\n");
	}
}

void sim_page_text(const struct sim_host *h, const char *format, va_list args)
{
	char text[400];

	vsnprintf(text, sizeof text, format, args);
	printf("\n~L\t%lld\t%d\t", us(sim_now()), h != NULL ? h->h_number : 0);
	escaped(text);
	printf("\t\n");
}

/* A fault begins at a host, and may have another. */
void sim_page_fault(const struct sim_fault *f, const struct sim_host *h)
{
	printf("\n~F\t%lld\t%lld\t%d\t%d\t", us(sim_now()),
	       sim_fault_lasts(f) ? us(f->f_length) : 0, h->h_number,
	       f->f_kind == FAULT_CUT ? sim_cut_to(f, h->h_number) : 0);
	escaped(f->f_text);
	printf("\t\n");
}

void sim_page_message(const struct sim_host *from, const struct sim_host *to,
		      utime_ns sent, const char *kind, size_t size)
{
	printf("\n~M\t%lld\t%lld\t%d\t%d\t%s\t%zu\t\n", us(sent), us(sim_now()),
	       from->h_number, to->h_number, kind, size);
}
