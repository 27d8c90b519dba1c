#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh: each block of doc/embed.md builds a program that runs: commands,
# CMake and Meson, with two files, with the whole tree, and with what is
# installed. The program of the last two is a program of the README.

cd "$(dirname "$0")/.." || exit 1
. test/count
top=$PWD
export CC="${CC:-cc}" PKG_CONFIG_PATH="$dir/usr/lib/pkgconfig"
export LD_LIBRARY_PATH="$dir/usr/lib"

# Prints a block of a language; '' is that of the lines that CMake begins with.
block() { # language, number
	awk -v begin="\`\`\`$1" -v number="$2" '
		$0 == "```" && inside { exit }
		inside { print }
		$0 == begin && ++count == number { inside = 1 }
	' "$top/doc/embed.md"
}

# In the folder of the project.
with_sh() { # number
	block sh "$1" | sed "s|^cc |$CC |" >build.sh && sh -e build.sh
}

with_cmake() { # number
	{ block '' 1; block cmake "$1"; } >CMakeLists.txt &&
		cmake -S . -B out && MAKEFLAGS= cmake --build out && cp out/app .
}

with_meson() { # number
	{ echo "project('app', 'c')"; block meson "$1"; } >meson.build &&
		meson setup out && meson compile -C out && cp out/app .
}

project() { # number
	mkdir "$dir/project" && cd "$dir/project" || exit 1
	case $1 in
	1)	cp "$top/examples/hello.c" app.c
		cp "$top/examples/hello.expected" expected
		${MAKE:-make} -s -C "$top" single TO="$PWD" || exit 1 ;;
	*)	cp "$top/examples/first/workers.c" app.c
		echo 49995000 >expected ;;
	esac
	[ "$1" != 2 ] || ln -s "$top" usched
}

must() { # tool, number
	(
		project "$2" && "with_$1" "$2" && timeout 60 ./app >got &&
		diff expected got
	) >"$dir/log" 2>&1
	judge $(($? != 0)) "$1, block $2 of doc/embed.md" "$dir/log"
	rm -rf "$dir/project"
}

# What the tool needs that is not here, with its package.
missing() { # tool, number
	have "$1" || echo "no $1 (package $1)"
	[ "$2" != 3 ] || have pkg-config || echo 'no pkg-config (package pkgconf)'
	[ "$1" != meson ] || have ninja || echo 'no ninja (package ninja-build)'
}

${MAKE:-make} -s install CC="$CC" PREFIX="$dir/usr" || failed=1
for tool in sh cmake meson; do
	for number in 1 2 3; do
		why=$(missing $tool $number | head -n 1)
		if [ "$why" ]; then
			skip "$tool, block $number of doc/embed.md: $why"
		else
			must $tool $number
		fi
	done
done
counted
