#!/bin/sh
# SPDX-License-Identifier: MIT
# packages.sh: the README's server is built with what others take a library from,
# and answers: CMake's FetchContent, a wrap of Meson; with --full also the recipe
# for Conan. Nothing is loaded from a network.

cd "$(dirname "$0")/.." || exit 1
. test/layout
. test/count
top=$PWD cc=${CC:-cc}
version=$(sed -n 's/^#define USCHED_VERSION "\(.*\)"/\1/p' usched.h)
unset MAKEFLAGS

# The tree, as a release has it.
release() { # folder
	mkdir "$1" && {
		git ls-files -co --exclude-standard 2>/dev/null | grep . ||
			find . ! -type d ! -path './build/*' ! -path './out/*'
	} | tar cf - -T - | tar xf - -C "$1"
}

# Starts the server, and is its client.
cat >"$dir/answers.py" <<'END'
import socket, subprocess, sys, time
server = subprocess.Popen([sys.argv[1]])
got = b""
try:
    for _ in range(400):
        try:
            with socket.create_connection(("127.0.0.1", int(sys.argv[2])), 10) as s:
                s.sendall(b"hello")
                while len(got) < 5:
                    got += s.recv(5) or sys.exit("no answer")
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
finally:
    server.kill()
    server.wait()
sys.exit(0 if got == b"hello" else "no answer")
END

# The server, with a port of its own.
server() { # folder
	mkdir -p "$1" && sed "s/7777/$port/" examples/first/echo.c >"$1/echo.c" &&
		grep -q $port "$1/echo.c"
}

fetch_content() {
	server "$dir/cmake" && cat >"$dir/cmake/CMakeLists.txt" <<-END || return 1
	cmake_minimum_required(VERSION 3.18)
	project(app C)
	include(FetchContent)
	FetchContent_Declare(usched URL $dir/$name.tar.gz SOURCE_SUBDIR pack)
	FetchContent_MakeAvailable(usched)
	add_executable(app echo.c)
	target_link_libraries(app PRIVATE usched::usched)
	END
	cmake -S "$dir/cmake" -B "$dir/cmake/out" -DCMAKE_BUILD_TYPE=Release &&
		cmake --build "$dir/cmake/out" && check "$dir/cmake/out/app"
}

meson_wrap() {
	sub=$dir/meson/subprojects
	server "$dir/meson" && mkdir -p "$sub/packagefiles/usched" &&
	cp pack/meson/meson.build "$sub/packagefiles/usched" &&
	cp "$dir/$name.tar.gz" "$sub/packagefiles" &&
	sed "s/@VERSION@/$version/; s/@SHA256@/$(sha256sum "$dir/$name.tar.gz" |
		cut -d' ' -f1)/" pack/meson/usched.wrap >"$sub/usched.wrap" &&
	cat >"$dir/meson/meson.build" <<-'END' || return 1
	project('app', 'c')
	executable('app', 'echo.c', dependencies: dependency('usched'))
	END
	(cd "$dir/meson" && meson setup out && meson compile -C out) &&
		check "$dir/meson/out/app"
}

conan_recipe() {
	export CONAN_HOME="$dir/conan"
	server "$dir/app" && conan profile detect --force &&
	conan create "$dir/$name/pack" --no-remote >"$dir/conan.log" 2>&1 || {
		tail -n 40 "$dir/conan.log"
		return 1
	}
	at=$(sed -n 's/^Package folder //p' "$dir/conan.log")
	$cc -O2 -I"$at/include" "$dir/app/echo.c" "$at/lib/libusched.a" -pthread \
		-o "$dir/app/app" && check "$dir/app/app"
}

check() { # the server
	timeout 60 python3 "$dir/answers.py" "$1" $port
}

missing() { # tool, package
	have "$1" && return 1
	skip "$2: no $1"
	return 0
}

have python3 || { echo 'packages.sh: no python3'; exit 77; }
name=usched-$version port=$((20000 + $$ % 20000))
release "$dir/$name" && (cd "$dir" && tar czf "$name.tar.gz" "$name") || exit 1
missing cmake 'FetchContent (package cmake)' || try FetchContent fetch_content
port=$((port + 1))
missing meson 'a wrap of Meson (package meson)' || missing ninja \
	'a wrap of Meson (package ninja-build)' || try 'a wrap of Meson' meson_wrap
port=$((port + 1))
! check /bin/true >/dev/null 2>&1
judge $? 'not seen: a server that does not answer'
if [ "$1" = --full ]; then
	missing conan 'the recipe for Conan (conan of PyPI)' ||
		try 'the recipe for Conan' conan_recipe
fi
counted
