#!/bin/sh
# SPDX-License-Identifier: MIT
# bare.sh: all that README says works on a bare machine, which has git, make, a
# compiler and libc's headers. An ordinary user without a network clones this tree,
# and runs make, the commands of README, make test, make bench, make install in the
# user's home, and make uninstall, which leaves no file. No command fails, and no
# compiler warns. What is missing is skipped by the name of its package, always in
# the same words. A break of each kind that only such machines show is found.
#
#	sudo sh test/whole/bare.sh [--full] [ROOT ...]
#
# Machines are roots, which mmdebstrap makes from packages of Debian:
#
#	bookworm	gcc 12. Also: a path with spaces, umask 077, a language
#			that is not installed; a tree that cannot be written
#	clang		clang 14 as cc, and no gcc
#	bullseye	gcc 10, glibc 2.31. Also: musl
#	sid		the newest gcc. Its language is Turkish, in which i and I
#			are two letters
#
# bookworm runs all. The others make, and compile and link each test for one scheduler,
# but clang, which is also elsewhere (matrix.sh).
# With --full each root runs all, with all schedulers. Roots stay in build/bare for a
# week. Each command has its own mounts, processes and network, which end with the
# command, and of the network only loopback. With BARE=must a root that cannot be made
# is a failure; else it is skipped.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
. test/run/blocks
. test/run/mutants

unset MAKEFLAGS
most=13		# parts that make test may skip
child=''

# Prints suite, packages and language.
machine() { # root
	case $1 in
	bookworm)	echo bookworm gcc C ;;
	clang)		echo bookworm clang C ;;
	bullseye)	echo bullseye gcc,musl-tools C ;;
	sid)		echo sid gcc,locales tr_TR.UTF-8 ;;
	*)		return 1 ;;
	esac
}

unable() { # why
	if [ "${BARE:-}" = must ]; then
		fail "$1"
	else
		skip "$1: $(tail -n 1 "$dir/log" 2>/dev/null)"
	fi
}

# Makes a root, unless there is a new one. Lists of sid are valid for a few days.
make_root() { # suite, packages, language
	at=build/bare/$root
	[ -z "$(find $at -maxdepth 0 -mtime -7 2>/dev/null)" ] || return 0
	mkdir -p build/bare && rm -rf --one-file-system $at $at.new || return 1
	unshare --mount mmdebstrap --quiet --variant=apt \
		--include="git,make,libc6-dev,$2" \
		--aptopt='Acquire::Check-Valid-Until "false"' \
		--customize-hook="echo you:x:1000:1000::/home/you:/bin/sh \
			>>\"\$1/etc/passwd\"" \
		--customize-hook="[ $3 = C ] || chroot \"\$1\" \
			localedef -i ${3%.*} -f ${3#*.} $3" \
		"$1" $at.new >"$dir/log" 2>&1 && mv $at.new $at ||
		unable "$root: no root"
}

# Makes the home of the user, with a repository to clone.
make_home() {
	home=build/bare/$root/home/you
	rm -rf --one-file-system $home && mkdir -p $home &&
		cp -r "$dir/tree/.git" $home/usched.git &&
		chown -R 1000:1000 $home
}

# Runs a command as the user.
inside() { # command
	unshare --mount --net --pid --fork --kill-child sh -c '
		ip link set lo up && cd "$1" && mount -t proc proc proc &&
		mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts &&
		mount -t tmpfs -o mode=1777 shm dev/shm &&
		mount -t tmpfs -o mode=1777 tmp tmp &&
		exec timeout -k 9 1800 chroot --userspec=1000:1000 . \
			env -i HOME=/home/you LC_ALL="$2" \
			PATH=/usr/local/bin:/usr/bin:/bin sh -c "set -e; cd; $3"
		' sh "build/bare/$root" "$language" "$1" </dev/null &
	child=$!
	wait $child
}

# Ends the command, and with it all that it began.
stop() {
	[ -z "$child" ] || kill -9 "$child" 2>/dev/null
}

# Tries a command, which must end with status 0 and without a warning.
step() { # what, command
	try "$root: $1" inside "$2" || return
	grep -i 'warning:' "$dir/log" >"$dir/warned" && cat "$dir/log" >>"$dir/warned"
	[ ! -s "$dir/warned" ]
	judge $? "$root: $1: a warning" "$dir/warned"
}

# Prints the commands of README, but those for libcurl (stranger.sh).
readme() {
	commands README.md | grep -v -e -lcurl
}

# Prints what is wrong with the skipped parts of make test: no package brings a part,
# a package has two texts, or too much is skipped.
skips_wrong() { # output of make test
	sed -n 's/^	skip  *//p; s/^skipped //p' "$1" >"$dir/skips"
	grep -vE 'package|Debian' "$dir/skips" | sed 's/^/which package? /'
	sed 's/.*: //' "$dir/skips" | sort -u | grep -oE '\((packages?|Debian:) [^)]*\)' |
		sort | uniq -d | sed 's/^/told in two ways: /'
	nr=$(tail -n 1 "$1" | sed -n 's/.* \([0-9]*\) skipped$/\1/p')
	[ "${nr:-99}" -le $most ] || echo "${nr:-no end} skipped, $most allowed"
	[ "${nr:-99}" -le "$(wc -l <"$dir/skips")" ] || echo 'not all are named'
}

# Tries make test and make bench; the latter not for long.
tests() {
	try 'README names make test' grep -q '`make test`' README.md
	try 'README names make bench' grep -q '`make bench`' README.md
	if step 'make test' 'cd usched; make test'; then
		cp "$dir/log" "$dir/tested"
		empty "$root: make test skips" "$(skips_wrong "$dir/tested")"
		echo "$root: make test: $(tail -n 1 "$dir/tested")"
		sed 's/^/	/' "$dir/skips"
	fi
	step 'make bench' 'cd usched; make bench BENCH=--short'
}

# Installs by the command that make install names to a user who may not write to
# /usr/local.
install() {
	step install "cd usched
		if make install >../said 2>&1; then exit 1; fi
		sed -n 's/.*\\(make install PREFIX=[^ ]*\\).*/\\1/p' ../said >../install
		grep . ../install && . ../install" &&
	step uninstall "cd usched && sed s/install/uninstall/ ../install >../uninstall
		ls \$HOME/.local/lib/libusched.a && . ../uninstall
		left=\$(find \$HOME/.local ! -type d -o -path '*usched*')
		echo \"\$left\"; [ -z \"\$left\" ]"
}

# Without --full, make compiles one file by each rule in the path with spaces, not all
# files.
odd() {
	copy="mkdir 'a b'; cp -a usched 'a b'; cd 'a b/usched'
		touch usched.c ext/wrap/uwrap.c ext/cxx/ucxx.cc ext/view/page.html"
	[ -z "$full" ] || copy="git clone -q usched.git 'a b/usched'; cd 'a b/usched'"
	step 'spaces, umask 077, a language that is not here' "
		umask 077; export LC_ALL=de_DE.UTF-8
		$copy
		$(readme)
		make -s install PREFIX=\$HOME/all
		[ -z \"\$(find \$HOME/all ! -perm -444)\" ]
		${full:+make test}"
	step 'a tree that cannot be written' "
		git clone -q usched.git shut; chmod -R a-w shut
		! make -C shut >said 2>&1; cat said; grep 'cannot be written' said"
}

# Builds as Alpine does.
musl() {
	step musl "cd usched; $built CC=musl-gcc O=-Os LDFLAGS=-static
		${full:+make test CC=musl-gcc O=-Os LDFLAGS=-static}"
}

newcomer() {
	step clone 'git clone -q usched.git usched' || return
	step make 'cd usched; make' || return
	step README "cd usched; $(readme)" && cp "$dir/log" "$dir/sum" &&
		try "$root: README: the sum" grep -qx 49995000 "$dir/sum"
	[ "$root$full" != "$root" ] || [ $root = bookworm ] && tests
	case $root$full in
	bookworm|clang)	;;
	*)		step 'all tests' "cd usched; $built" ;;
	esac
	install
	case $root in
	bookworm)	odd ;;
	bullseye)	musl ;;
	esac
	plant
}

# Breaks a file of the clone, and runs a command there.
tries() { # command, file
	cp "$dir/broken" "$home/usched/$2"
	inside "cd usched; $1" >"$dir/log" 2>&1 && ! grep -q warning: "$dir/log"
	set -- $? "$2"
	cp "$2" "$home/usched/$2"
	return $1
}

breaks() { # what, command, lines of C
	broken "$root: $1" "$2" test/core/core_order.c "\$a\\$3"
}

plant() {
	undeclared='int planted(void); int planted(void)\
		{ return gnu_get_libc_version() != 0; }'
	order='make test DOCS= SHORT= ONCE=core_order'
	case $root in
	bookworm)
		breaks 'a header of a package' "$order" '#include <curl/curl.h>'
		breaks 'a test for root alone' "$order" '#include <unistd.h>\
			__attribute__((constructor)) static void root_only(void)\
			{ if (geteuid() != 0) _exit(1); }' ;;
	clang)
		breaks 'an implicit declaration' "$order" "$undeclared" ;;
	bullseye)
		breaks 'a call that glibc 2.31 lacks' "$built" '#include <stdlib.h>\
			unsigned planted(void); unsigned planted(void)\
			{ return arc4random(); }' ;;
	*)
		breaks 'an implicit declaration' "$built" "$undeclared" ;;
	esac
}

# Plants a skipped part that must not be.
wrongly_skipped() { # what, output of make test
	printf '%s\n' "$2" '1 passed, 0 failed, 1 skipped' >"$dir/tested"
	[ "$(skips_wrong "$dir/tested")" ] || fail "not seen: $1" && pass
}

built='make -s built O=-O1'	# as make test compiles
if [ "${1:-}" = --full ]; then
	full=1
	shift
else
	built="$built SCHEDULERS=RR"
fi
for tool in git mmdebstrap unshare ip; do
	have $tool || unable "no $tool" || counted
done
[ "$(id -u)" = 0 ] || unable 'not root' || counted
unshare --mount --net --pid --fork true 2>"$dir/log" || unable 'unshare' || counted
committed "$dir/tree" >"$dir/log" 2>&1 || { fail 'no clone' "$dir/log"; counted; }
wrongly_skipped 'a package in two ways' \
	"$(printf '\tskip  a: no b (package b)\n\tskip  c: b is not there (package b)')"
wrongly_skipped 'no package' "$(printf '\tskip  a')"
wrongly_skipped 'one without a name' ''
for root in ${*:-bookworm clang bullseye sid}; do
	machine "$root" >"$dir/machine" || { echo "bare.sh: no root $root"; exit 2; }
	read -r suite packages language <"$dir/machine"
	make_root "$suite" "$packages" "$language" && make_home || continue
	set -- $passed $failed "$(date +%s)"
	newcomer
	echo "$root: $((passed - $1)) passed, $((failed - $2)) failed," \
		"$(($(date +%s) - $3)) s"
done
counted
