#!/bin/sh
# SPDX-License-Identifier: MIT
# site.sh: make doc writes a man page for each function of doc/api.md, without a
# word from mandoc -T lint, and a site whose links lead somewhere, which loads
# nothing from a network. Two runs write the same. In a browser the search finds
# a function, and no page is wider than a phone. Each page has a heading. Planted
# errors are found.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
have python3 || { echo 'site.sh: no python3'; exit 77; }
for tool in mandoc cmark-gfm; do
	have $tool || { echo "site.sh: no $tool (package $tool)"; exit 77; }
done
unset MAKEFLAGS
export SOURCE_DATE_EPOCH=1700000000

site() { # folder, tree
	python3 "${2:-.}/doc/site.py" "$1"
}

# Prints what mandoc says. The pages that a page names are those beside it.
lint() { # folder of man pages
	(cd "$1" && mandoc -T lint $(find . -type f)) 2>&1 | sed 's/^mandoc: //' |
	while read -r line; do
		page=$(expr "$line" : '.*manual not found: Xr \([a-z_]* [13]\)')
		[ "$page" ] && [ -e "$1/man${page#* }/${page% *}.${page#* }" ] ||
			echo "$line"
	done
}

# Prints functions of doc/api.md that have no page, but for those of C++ and parts.
without_page() {
	sed -n 's/^| `[^`]*\<\([a-z][a-z0-9_]*\)(.*/\1/p' doc/api.md | sort -u |
	while read -r name; do
		[ -e "$dir/one/man/man3/$name.3" ] || echo "$name"
	done
}

# Prints what a page would load from elsewhere.
loads() { # folder
	grep -rhoE '<(script|img|link|iframe)[^>]*(src|href)="[a-z]*:?//[^>]*>|@import|url\(' \
		"$1" --include=*.html --include=*.css
}

browse() { # what the browser prints of an URL
	timeout 100 chromium --headless --no-sandbox --disable-gpu \
		--allow-file-access-from-files --virtual-time-budget=8000 \
		--user-data-dir="$dir/profile" --dump-dom "$1" 2>/dev/null
}

# The first result of the search.
search() { # words
	browse "file://$dir/one/html/doc/guide.html?q=$1" |
		grep -o '<div id="found"><p><a href="[^"]*"'
}

# Prints pages that are wider than a window of this width.
wider() { # width, page ...
	width=$1
	shift
	{
		for page; do
			echo "<iframe width=$width height=600 src='$page'></iframe>"
		done
		cat <<-'END'
		<pre id="out"></pre><script>
		onload = () => { for (const f of document.querySelectorAll("iframe")) {
			const d = f.contentDocument.documentElement;
			out.append(`${f.getAttribute("src")} ${d.clientWidth} ${d.scrollWidth}\n`);
		} };
		</script>
		END
	} >"$dir/one/html/widths.html"
	browse "file://$dir/one/html/widths.html" >"$dir/dom"
	rm "$dir/one/html/widths.html"
	sed -n 's/.*<pre id="out">//; /html [0-9]* [0-9]*$/p' "$dir/dom" >"$dir/widths"
	[ "$(wc -l <"$dir/widths")" = $# ] || echo "$(wc -l <"$dir/widths") of $# pages"
	awk '$3 > $2 { print $1 " is " $3 " wide in " $2 }' "$dir/widths"
}

in_a_browser() {
	have chromium || { skip 'a browser: no chromium (package chromium)'; return; }
	try 'search for a function' [ "$(search uchan_send)" = \
		'<div id="found"><p><a href="../man/uchan.3.html#uchan_send"' ]
	pages=$(cd "$dir/one/html" && find . -name '*.html')
	for width in 400 1280; do
		empty "wider than $width" "$(wider $width $pages)"
	done
	sed -i 's/overflow-x: auto/overflow: visible/' "$dir/one/html/style.css"
	[ "$(wider 400 $pages)" ] || fail 'not seen: pages that are too wide' && pass
}

# A copy of the tree, with an error by sed, or without.
wrong() { # file, sed script
	rm -rf "$dir/tree" "$dir/bad" && mkdir "$dir/tree" &&
	tar cf - $(ls -d ./* | grep -vE '^\./(build|out|libu|.*\.o$)') |
		tar xf - -C "$dir/tree" &&
	sed "$2" "$1" >"$dir/tree/$1" || exit 1
	! site "$dir/bad" "$dir/tree" >"$dir/log" 2>&1 || [ "$(lint "$dir/bad/man")" ]
}

planted() { # what, file, sed script
	wrong "$2" "$3"
	judge $? "not seen: $1" "$dir/log"
}

try 'make doc' ${MAKE:-make} -s doc TO="$dir/one"
try 'again' site "$dir/two"
try 'the same' diff -r "$dir/one" "$dir/two"
empty 'mandoc -T lint' "$(lint "$dir/one/man")"
empty 'functions without a page' "$(without_page)"
try 'a list of a comment' grep -qx '\.Bl -dash' "$dir/one/man/man3/ugen.3"
[ "$(find "$dir/one/html" -name '*.html' | wc -l)" -gt 100 ]
judge $? 'pages'
empty 'pages without a heading' "$(grep -rL '<h1' --include='*.html' "$dir/one/html")"
empty 'loads from a network' "$(loads "$dir/one/html")"
in_a_browser
planted 'a link to a file that is not there' doc/guide.md 's,(servers\.md,(none.md,'
planted 'a link to a heading that is not there' README.md 's/#where-it-runs/#nowhere/'
planted 'a page that mandoc complains of' doc/site.py 's/out.append(".Ed")/pass/'
! wrong README.md ''
judge $? 'a copy without an error' "$dir/log"
counted
