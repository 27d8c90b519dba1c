/* SPDX-License-Identifier: MIT */
/* search.js: shows the sections that have all words of the search, best first. */
"use strict";
(() => {
	const box = document.getElementById("search");
	const found = document.getElementById("found");
	const MOST = 30;

	/* A word in a heading counts more than one in the text. */
	const worth = ([title, name, , text], words) => {
		const head = name.toLowerCase(), top = title.toLowerCase();
		const body = text.toLowerCase();
		let sum = 0;
		for (const word of words) {
			const here = head === word || head.startsWith(word + "(") ? 20 :
				head.includes(word) ? 8 : top.includes(word) ? 4 :
				body.includes(word) ? 1 : 0;
			if (here === 0)
				return 0;
			sum += here;
		}
		return sum;
	};

	const around = (text, word) => {
		const at = Math.max(0, text.toLowerCase().indexOf(word) - 60);
		return (at > 0 ? "… " : "") + text.slice(at, at + 180) +
			(at + 180 < text.length ? " …" : "");
	};

	const show = () => {
		const words = box.value.toLowerCase().split(/\s+/).filter((w) => w);
		found.textContent = "";
		if (words.length === 0)
			return;
		const best = INDEX.map((part) => [worth(part, words), part])
			.filter(([sum]) => sum > 0).sort((a, b) => b[0] - a[0]);
		for (const [, [title, name, url, text]] of best.slice(0, MOST)) {
			const p = document.createElement("p");
			const a = document.createElement("a");
			a.href = box.dataset.up + url;
			a.textContent = name && name !== title ? title + ": " + name : title;
			p.append(a, document.createElement("br"), around(text, words[0]));
			found.append(p);
		}
		if (best.length === 0)
			found.append("Nothing found.");
	};

	box.addEventListener("input", show);
	box.value = new URLSearchParams(location.search).get("q") || "";
	show();
})();
