#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh: a person who does what doc/embed.md says, beside a fresh clone, gets
# programs that run. Each command runs as it stands there, and each block is built
# as it stands there, by cc, CMake, Meson and Conan: with two files, with the whole
# tree, with what is installed, and with a release. The program is that of the
# README for two files, and else workers.c of the README, which also links each
# function of each header of <usched/all.h>.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
. test/run/blocks
top=$PWD page=$dir/page
export CONAN_HOME="$dir/conan" CMAKE_BUILD_PARALLEL_LEVEL=2
unset MAKEFLAGS

# Saves the page, and prints what is to do, in order: section; "run" or the language of
# a block; file. What builds with CMake and Meson goes to files of these names, and the
# block without a language to "head".
steps() {
	awk -v page="$page" '
	function step(what)	{ file = page "/" ++nr; print section + 0, what, file }
	/^## /			{ section++ }
	/^```/ && inside	{ inside = 0; next }
	/^```./			{ inside = 1; step(substr($0, 4)); next }
	/^```/			{ inside = 1; file = page "/head"; next }
	inside			{ print > file; next }
	/^\t(cmake|meson) /	{ print substr($0, 2) > (page "/" substr($1, 1)); next }
	/^\t/			{ step("run"); print substr($0, 2) > file }
	' doc/embed.md
}

# A folder for each section of the page, in which its steps follow each other.
project() { # section
	mkdir "$dir/section$1" && cd "$dir/section$1" && ln -s "$dir/clone" usched || exit 1
	unset PKG_CONFIG_PATH LD_LIBRARY_PATH
	case $1 in
	1)	cp "$top/examples/hello.c" app.c
		cp "$top/examples/hello.expected" expected ;;
	*)	cat "$top/examples/first/workers.c" "$dir/calls.c" >app.c
		echo 49995000 >expected ;;
	esac
}

# What a step needs that is not here, with its package.
missing() { # section, run or language, file
	case $2 in
	run)	set -- "$1" "$(sed 's/ .*//' "$3")" ;;
	esac
	case $2 in
	conan)		have conan || echo 'no conan (conan of PyPI)' ;;
	cmake|meson)	have $2 || echo "no $2 (package $2)" ;;
	esac
	[ $2 != meson ] || have ninja || echo 'no ninja (package ninja-build)'
	[ "$1 $2" != '3 make' ] || have pkg-config || echo 'no pkg-config (package pkgconf)'
}

build() { # language, file
	case $1 in
	sh)	sh -e "$2" ;;
	cmake)	cat "$page/head" "$2" >CMakeLists.txt ;;
	meson)	{ echo "project('app', 'c')"; cat "$2"; } >meson.build ;;
	esac && { [ $1 = sh ] || { sh -e "$page/$1" && cp out/app .; }; }
}

runs() { # language, file
	rm -rf out app
	build "$@" && timeout 60 ./app >got && diff expected got
}

# A command acts on this shell.
step() { # section, run or language, file
	said="doc/embed.md, section $1, $2: $(sed -n '1p' "$3")"
	why=$(missing "$@" | head -n 1)
	[ -z "$why" ] || skip "$said: $why" || return
	case $2 in
	run)	. "$3" >"$dir/log" 2>&1 ;;
	*)	(runs "$2" "$3") >"$dir/log" 2>&1 ;;
	esac
	judge $? "$said" "$dir/log"
}

have git || { echo 'embed.sh: no git (package git)'; exit 77; }
mkdir "$page" && tools "$dir/tools" && committed "$dir/clone" && steps >"$dir/steps" &&
	every_call >"$dir/calls.c" || exit 1
PATH=$dir/tools:$PATH
section=none not=''
while read -r nr what file <&3; do
	[ $nr = $section ] || project $nr
	section=$nr
	# Without its commands a block is not tried.
	[ "$not" ] || step $nr $what "$file" || not=1
	[ $what = run ] || not=''
done 3<"$dir/steps"
counted
