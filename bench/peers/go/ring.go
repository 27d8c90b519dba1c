// SPDX-License-Identifier: MIT

// ring.go: the ring ping-pong on goroutines, a peer.
//
// WHAT IS MEASURED: see bench.h. R rings of N threads pass messages for M
// rounds. Here a thread is a goroutine, a wake is a send, and a wait is a
// receive, as a user of Go would write them: each goroutine receives from a
// channel of its own, of struct{}, without a buffer. P is GOMAXPROCS. All other
// settings are Go's defaults, also of the garbage collector.
//
// WITHOUT A BUFFER a send ends when it is received. The ring does not need
// that: a wake there is kept, and the waker does not wait. Of two goroutines
// that meet, one always comes first and blocks, so there is one block for each
// message, whatever N is. With N = 1 a goroutine would wait for itself forever,
// so then the channel has a buffer of one.
//
// A BUFFER with room for all wakes of the ring is as easy to write: a channel
// of capacity N. It keeps a wake that comes first, and blocks as seldom as the
// ring allows. That is ring-buffered, linked with buffered set.
//
// THE GATE is a channel to which nothing is sent. When all goroutines are made,
// it is closed; the time goes from then until the last has counted itself off
// the WaitGroup. Some goroutines have come to the gate by then, others have not
// run at all. To wait until all had come there made no visible difference.
//
// D: in Go the size of an array on the stack must be a constant. So deep()
// calls itself, with an array of 512 bytes in each frame, until D is used up,
// and the ring runs at the bottom. That is D rounded up to 512, and 48 bytes of
// the compiler's for each call. The arrays are on the stack: go build
// -gcflags=-m does not say that space was moved to the heap. Each byte is
// written on the way down and checked on the way up. The stack grows after the
// gate, within the time, by doubling from 2 KiB and copying. It ends below 1e9
// bytes, so at 512 MiB: larger D fail.
//
// BLOCKS are counted by a first try, with a select that has a default. If that
// fails, the goroutine blocks in the operation that follows. This is in a loop
// of its own, not in the timed loop. With P > 1, two goroutines that try at the
// same moment both fail, and both count, although only one blocks: a few too
// many in 100,000 messages. The count was compared with the transitions from
// running to waiting in a runtime/trace of the timed loop. It was the same, N *
// R * M, for N of 2, 3 and 8 and P of 1 and 2. Not counted: the runtime stops a
// goroutine that has run for 10 ms, together with those to which it has handed
// its time slice; and the stops at the gate.
//
// EMPTY: a goroutine only counts itself off the WaitGroup.
//
// BLOCKED: Go does not tell whether a goroutine has blocked. So each counts
// itself right before it receives. When all have, GOMAXPROCS becomes 1, and the
// only goroutine that runs lets the others run, again and again. Any that was
// between counting and receiving is in a queue, gets its turn, and blocks. Then
// each is woken by a send that does not wait, which works only if the goroutine
// is blocked; if it fails, the run has failed. Rejected: the states in a stack
// dump of all goroutines, which takes more memory than the goroutines.
//
// HOT OR COLD. A goroutine that is made runnable is the next to run on its
// processor (runnext), in the time slice of its waker, and displaces the
// previous runnext to the end of the queue. With N = 2 Go is hot: of 1,000
// rings with 1,000 rounds 1 or 2 had begun when the first ended. With N = 3 all
// 1,000 had, with N = 8 most. There several goroutines of a ring are runnable,
// and displace each other, and all rings take turns.
//
// EXIT STATUS. Errors that the runtime itself finds (no memory, or all
// goroutines asleep) end the program with status 2, like wrong arguments.
package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	exitFailed = 1
	exitUsage  = 2

	// Bytes in each frame of deep().
	frame = 512
	// More than the compiler adds to each frame.
	frameMore = 64
	// More than all other code needs.
	stackMore = 64 << 10
	// The largest stack of Go: it permits 1e9 bytes, and doubles.
	stackMax = 512 << 20

	// How often settle() lets the others run.
	yields = 1000
)

// A question. Numbers that it does not have are 1, but d is 0.
type bench struct {
	what string // "": rings
	n    int    // threads in a ring, or in all
	r    int    // rings
	m    int    // rounds
	d    int    // more bytes
	p    int    // native threads
}

// A thread gets a copy of this when it is made.
type thread struct {
	own   chan struct{} // it receives from this
	right chan struct{} // its right neighbour's
	turn  int           // rounds until it starts a round
}

// Set by the linker: the channels of rings have a buffer for all wakes.
var buffered string

var (
	b        bench
	gate     = make(chan struct{}) // opened by closing it
	alive    sync.WaitGroup
	received atomic.Int64 // messages
	blocks   atomic.Int64
	waiting  atomic.Int64 // threads that only receive from here on
	spoiled  atomic.Int64 // threads whose stack did not keep its value
)

func main() {
	if why := args(os.Args[1:]); why != "" {
		usage(why)
	}
	if b.d/frame*(frame+frameMore) > stackMax-stackMore {
		fail("D: a goroutine's stack cannot be that large")
	}
	runtime.GOMAXPROCS(b.p)
	switch b.what {
	case "":
		fmt.Printf("%f\n", rings(play).Seconds())
	case "blocks":
		rings(playCounted)
		fmt.Println(blocks.Load())
	case "empty":
		fmt.Printf("%f\n", empty().Seconds())
	case "blocked":
		fmt.Println(blocked())
	}
}

// Makes the rings, opens the gate, and returns the time until all have ended.
func rings(body func(thread)) time.Duration {
	alive.Add(b.n * b.r)
	for i := 0; i < b.r; i++ {
		ring(body)
	}
	start := time.Now()
	close(gate)
	alive.Wait()
	took := time.Since(start)
	all := int64(b.n) * int64(b.r) * int64(b.m)
	if received.Load() != all {
		fail(fmt.Sprintf("%d of %d messages were received",
			received.Load(), all))
	}
	inOrder()
	return took
}

func ring(body func(thread)) {
	size := 0
	if b.n == 1 || buffered != "" {
		size = b.n
	}
	chans := make([]chan struct{}, b.n)
	for i := range chans {
		chans[i] = make(chan struct{}, size)
	}
	for i := range chans {
		go member(thread{chans[i], chans[(i+1)%b.n], i}, body)
	}
}

func member(t thread, body func(thread)) {
	<-gate
	live(t, body)
}

// A thread, with its bytes.
func live(t thread, body func(thread)) {
	if b.d == 0 {
		body(t)
	} else if !deep(b.d, t, body) {
		spoiled.Add(1)
	}
	alive.Done()
}

// Calls body with at least left more bytes on the stack. True: they were kept.
func deep(left int, t thread, body func(thread)) bool {
	var space [frame]byte

	kept := true
	for i := range space {
		space[i] = 'D'
	}
	if left > frame {
		kept = deep(left-frame, t, body)
	} else {
		body(t)
	}
	for i := range space {
		kept = kept && space[i] == 'D'
	}
	return kept
}

// The loop that is timed.
func play(t thread) {
	got := 0
	for i := 0; i < b.m; i++ {
		if t.turn == 0 {
			t.right <- struct{}{}
			<-t.own
			t.turn = b.n
		} else {
			<-t.own
			t.right <- struct{}{}
		}
		t.turn--
		got++
	}
	received.Add(int64(got))
}

// The same loop, counting how often it blocks.
func playCounted(t thread) {
	got, stops := 0, 0
	for i := 0; i < b.m; i++ {
		if t.turn == 0 {
			stops += send(t.right) + receive(t.own)
			t.turn = b.n
		} else {
			stops += receive(t.own) + send(t.right)
		}
		t.turn--
		got++
	}
	received.Add(int64(got))
	blocks.Add(int64(stops))
}

// Sends, and returns how often that blocked: 0 or 1.
func send(c chan struct{}) int {
	select {
	case c <- struct{}{}:
		return 0
	default:
		c <- struct{}{}
		return 1
	}
}

func receive(c chan struct{}) int {
	select {
	case <-c:
		return 0
	default:
		<-c
		return 1
	}
}

// Adds n threads: alive.Wait() returns when all have counted themselves.
func empty() time.Duration {
	alive.Add(b.n)
	start := time.Now()
	for i := 0; i < b.p; i++ {
		share := b.n / b.p
		if i < b.n%b.p {
			share++
		}
		go maker(share)
	}
	alive.Wait()
	return time.Since(start)
}

func maker(share int) {
	for i := 0; i < share; i++ {
		go alive.Done()
	}
}

// Returns the most resident bytes so far, less those before the first thread.
func blocked() int64 {
	before := resident("VmRSS:")
	chans := make([]chan struct{}, b.n)
	alive.Add(b.n)
	for i := range chans {
		chans[i] = make(chan struct{})
		go live(thread{own: chans[i]}, waitOnce)
	}
	settle()
	for _, c := range chans {
		select {
		case c <- struct{}{}:
		default:
			fail("a thread has not blocked")
		}
	}
	alive.Wait()
	inOrder()
	return resident("VmHWM:") - before
}

// Returns when all have blocked, as all that could run have run.
func settle() {
	for waiting.Load() != int64(b.n) {
		runtime.Gosched()
	}
	runtime.GOMAXPROCS(1)
	for i := 0; i < yields; i++ {
		runtime.Gosched()
	}
}

func waitOnce(t thread) {
	waiting.Add(1)
	<-t.own
}

func inOrder() {
	all := int64(b.n) * int64(b.r)
	if spoiled.Load() != 0 {
		fail(fmt.Sprintf("%d of %d threads ended in order",
			all-spoiled.Load(), all))
	}
}

// Returns resident bytes: from /proc, or, without that, the most so far.
func resident(key string) int64 {
	if status, err := os.Open("/proc/self/status"); err == nil {
		defer status.Close()
		lines := bufio.NewScanner(status)
		for lines.Scan() {
			word := strings.Fields(lines.Text())
			if len(word) > 1 && word[0] == key {
				kib, _ := strconv.ParseInt(word[1], 10, 64)
				return kib * 1024
			}
		}
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fail("getrusage: " + err.Error())
	}
	return int64(usage.Maxrss) * 1024
}

// Fills b, or returns what is wrong.
func args(arg []string) string {
	b = bench{n: 1, r: 1, m: 1, p: 1}
	form := map[string][]*int{
		"":        {&b.n, &b.r, &b.m, &b.d, &b.p},
		"blocks":  {&b.n, &b.r, &b.m, &b.d, &b.p},
		"empty":   {&b.n, &b.p},
		"blocked": {&b.n, &b.d, &b.p},
	}
	if len(arg) > 0 && arg[0] != "" && form[arg[0]] != nil {
		b.what, arg = arg[0], arg[1:]
	}
	numbers := form[b.what]
	if len(arg) != len(numbers) {
		return "too few or too many arguments"
	}
	for i, at := range numbers {
		if !number(arg[i], at) || *at == 0 && at != &b.d {
			return "not a number, or out of range"
		}
	}
	if int64(b.n)*int64(b.r) > math.MaxInt32 {
		return "too many threads"
	}
	return ""
}

// A decimal number: digits only.
func number(text string, value *int) bool {
	v, err := strconv.ParseUint(text, 10, 31)
	*value = int(v)
	return err == nil
}

func usage(why string) {
	fmt.Fprintf(os.Stderr, "%[1]s: %[2]s\nusage:\n"+
		"  %[1]s N R M D P         seconds, for rings\n"+
		"  %[1]s blocks N R M D P  how often threads blocked in them\n"+
		"  %[1]s empty NR P        seconds, to make and run threads\n"+
		"  %[1]s blocked NR D P    bytes, of threads that are blocked\n"+
		"N threads in a ring, R rings, M rounds, D more bytes on each "+
		"stack (0 or more),\nP native threads (GOMAXPROCS), NR threads\n",
		os.Args[0], why)
	os.Exit(exitUsage)
}

func fail(why string) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", os.Args[0], why)
	os.Exit(exitFailed)
}
