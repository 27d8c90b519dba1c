#!/bin/sh
# SPDX-License-Identifier: MIT
# entry.sh: entry points for libFuzzer, as OSS-Fuzz runs them. http: the parser of
# examples/httpd reads a head alike however it is cut. channels: threads on two
# channels do what a plain queue says. sim: the simulated kernel answers a script of
# calls as Linux does. The inputs in test/whole/entry/ pass, and find planted bugs. Where
# clang has libFuzzer, new inputs are tried, too, with the sanitizers of address and
# undefined behaviour; an input that fails is printed, and kept in out/entry.
#
# FUZZ_SECONDS: for the new inputs of all. SEED: of libFuzzer's draws. Each run tries the
# same inputs, as far as its time goes, unless SEED is 0, as in make soak. CC compiles
# what needs no libFuzzer. To look for an input that fails:
#
#	SEED=0 FUZZ_SECONDS=3600 test/whole/entry.sh

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
. test/run/mutants
cc=${CC:-cc} seconds=$((${FUZZ_SECONDS:-12} / 3))
export UBSAN_OPTIONS=print_stacktrace=1
unset USCHED USCHED_DEBUG
ulimit -c 0

modules="usched.c $waits umem.c uproc.c rr.c usymbol.c uguard.c"
sim_modules="usched.c rr.c $waits uscope.c uthread.c $syncs $chans uproc.c umem.c
	ucall.c uwork.c usymbol.c uio.c upoll.c unet.c ufile.c usignal.c uuntil.c userve.c"
warn="-std=gnu11 -g -Wall -Wextra -Werror $includes"
sim_flags='-DENTRY -D_exit=entry_exit -Iext/sim'

# libFuzzer keeps an input at which a program aborts. Unquoted: several words.
kept='-D_exit(status)=abort()'
build() { # compiler, entry point, program, flags ...
	by=$1 entry=$2 out=$3
	shift 3
	case $entry in
	http)		$by $warn $kept -DENTRY -Iexamples/httpd "$@" test/examples/httpd/fuzz.c \
				"${http:-examples/httpd/http.c}" -o "$out" ;;
	channels)	$by $warn $kept "$@" test/whole/entry/channels.c -o "$out" \
				${uchan:-$(where $chans)} ${objects:-$(where $modules)} \
				-pthread ;;
	sim)		sim_build "$by" "$out" "$@" ;;
	esac
}

# The script is linked twice: its calls reach Linux, and by sim.flags the simulator. sim.c
# names the counters of libFuzzer, so it must not be the file whose constructor has them:
# that is the first.
sim_build() { # compiler, program, flags and sources ...
	by=$1 out=$2
	shift 2
	sources=$(for word; do case $word in *.c) echo "$word" ;; esac; done)
	flags=$(for word; do case $word in *.c) ;; *) echo "$word" ;; esac; done)
	rm -rf "$out.o" && mkdir "$out.o" &&
	$by $warn $sim_flags $flags -c test/ext/sim/truth.c -o "$out.o/linux.o" &&
	$by $warn $sim_flags $flags -DSIMULATED -c test/ext/sim/truth.c -o "$out.o/host.o" &&
	$by -nostdlib -r @ext/sim/sim.flags "$out.o/host.o" -o "$out.o/simulated.o" &&
	rm "$out.o/host.o" &&
	$by $warn $sim_flags $flags "$out.o"/*.o test/whole/entry/sim.c $sources \
		${simulator:-ext/sim/*.c $(where $sim_modules)} -pthread -o "$out"
}

# The library's other files, for mutants.
objects_make() {
	for source in $(where $modules); do
		$cc $warn -O1 -c "$source" -o "$dir/${source##*/}.o" || return 1
	done
	mkdir "$dir/sim.objects" && for source in ext/sim/*.c $(where $sim_modules); do
		to=$dir/sim.objects/$(basename "$source" .c).o
		$cc $warn $sim_flags -O1 -c "$source" -o "$to" || return 1
	done
}

tries() { # entry point, file
	http= uchan= simulator=
	cp "$dir/broken" "$dir/broken.c"
	case $1 in
	http)		http=$dir/broken.c ;;
	channels)	rm -rf "$dir/chan" && mkdir "$dir/chan"
			cp $(where $chans) lib/wait/uchan_inside.h "$dir/chan"
			cp "$dir/broken" "$dir/chan/${2##*/}"
			uchan=$(ls "$dir"/chan/*.c) ;;
	sim)		simulator="$(ls "$dir"/sim.objects/*.o |
				grep -v "/$(basename "$2" .c).o") $dir/broken.c" ;;
	esac
	build $cc $1 "$dir/mutant" -O1 -Wno-unused test/whole/entry/files.c >"$dir/log" 2>&1 ||
		status='it does not compile'
	http= uchan= simulator=
	timeout 60 "$dir/mutant" test/whole/entry/$1/* >"$dir/log" 2>&1
}

# New inputs, until the time is over.
fuzz() { # entry point
	hard=
	[ $1 = http ] || hard="-DUSCHED_HARD $(where uhard.c)"
	simulator=
	build clang $1 "$dir/fuzz-$1" -O1 $hard -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all || return 1
	mkdir -p "$dir/new-$1" out/entry
	"$dir/fuzz-$1" -max_total_time=$seconds -timeout=60 -max_len=9000 -seed=${SEED:-1} \
		-print_final_stats=1 -artifact_prefix=out/entry/$1- \
		"$dir/new-$1" test/whole/entry/$1 >"$dir/$1.log" 2>&1 && return
	sed -n '/^SUMMARY: [^l]/p' "$dir/$1.log" | sort -u
	tail -n 40 "$dir/$1.log"
	return 1
}

# Fails if libFuzzer ran nothing beyond the files.
tried() { # entry point
	nr=$(sed -n 's/^stat::number_of_executed_units: *//p' "$dir/$1.log")
	echo "$nr inputs"
	[ "${nr:-0}" -gt "$(ls test/whole/entry/$1 | wc -l)" ]
}

have_libfuzzer() {
	echo 'int LLVMFuzzerTestOneInput(const char *p, long n);
		int LLVMFuzzerTestOneInput(const char *p, long n)
		{ return p == 0 && n > 0; }' >"$dir/none.c"
	have clang && clang -fsanitize=fuzzer,address "$dir/none.c" \
		-o "$dir/none" 2>"$dir/log"
}

try objects silent objects_make
for entry in http channels sim; do
	simulator=$(ls "$dir"/sim.objects/*.o)
	try "$entry compiles" silent build $cc $entry "$dir/$entry" -O1 test/whole/entry/files.c
	try "$entry: the inputs" timeout 120 "$dir/$entry" test/whole/entry/$entry/*
	if have_libfuzzer; then
		try "$entry: libFuzzer" fuzz $entry
		try "$entry: new inputs" tried $entry
	else
		skip "$entry: no clang with libFuzzer (packages clang, libclang-rt-14-dev)"
	fi
done

objects=$(ls "$dir"/*.c.o)
broken 'a byte that is skipped' http examples/httpd/http.c \
	's/h->h_seen = n;/h->h_seen = n + 1;/'
broken 'a bare LF' http examples/httpd/http.c "s/\*--q != '.r'/*--q == 0/"
broken 'a room less' channels lib/wait/uchan_inside.h \
	's/ch_count < c->ch_room/ch_count + 1 < c->ch_room/'
broken 'the last waiter first' channels lib/wait/uchan_inside.h \
	'/^static void uchan_line_put/,/^}/{s/line->ln_prev/line->LN/g;s/ln_prev/ln_P/g
	s/ln_next/ln_prev/g;s/ln_P/ln_next/g;s/LN/ln_next/g;}'
broken 'a sender that waits, before the ring' channels lib/wait/uchan_inside.h \
	's/^	if (ring)$/	if (ring \&\& c->ch_head == 0)/'
broken 'close leaves senders' channels lib/wait/uchan.c '/end = claim_all(c, SENDERS, end);/d'
broken 'a case that was not chosen stays' channels lib/wait/uselect.c \
	'/^static NOINLINE void leave_all/,/^}/s/i != chosen/i > 1 \&\& &/'
broken 'a peer that reads nothing more' sim ext/sim/sflow.c \
	's/k->k_fin ? EPIPE : ECONNRESET/ECONNRESET/'
broken 'one shot' sim ext/sim/sepoll.c 's/t->t_events & EPOLLONESHOT/false/'
broken 'a stream that ends unread' sim ext/sim/sunix.c \
	's/unread ? ECONNRESET : v->u_error/v->u_error/'
broken 'a counter that is full' sim ext/sim/sevent.c \
	's/nr > COUNT_MOST - i->i_count/nr >= COUNT_MOST - i->i_count/'
broken 'a datagram that is cut' sim ext/sim/scalls.c 's/rc > size ? MSG_TRUNC : 0/0/'
counted
