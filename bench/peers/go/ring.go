// SPDX-License-Identifier: MIT

// ring.go: the ring ping-pong on goroutines, a peer.
//
// WHAT IS MEASURED is said in bench.h: R rings of N threads pass messages for
// M rounds. Here a thread is a goroutine, a wake is a send and a wait a
// receive, as a user of Go would write it: each goroutine receives from a
// channel of its own, of struct{}, without a buffer. P is GOMAXPROCS. All
// else is as Go has it when nobody says anything, the garbage collector too.
//
// WITHOUT A BUFFER a send is over when it is received. That is more than the
// ring asks for, where a wake is kept and does not wait; and of the two who
// meet one always comes first and blocks, so there is one block for each
// message, whatever N is. A goroutine that is alone in its ring would wait
// for itself for ever: with N = 1 the channel has a buffer of one.
//
// A BUFFER that has room for all wakes of the ring is as easy to write, keeps a
// wake that comes first, and blocks as seldom as the ring allows: a channel of
// capacity N. That is ring-buffered, linked with buffered set.
//
// THE GATE is a channel that nobody sends to. All goroutines are made, then
// it is closed, and the time runs until the last has counted itself off the
// WaitGroup. Some have come to the gate by then, others have not run at all.
// To wait until all are there changed nothing that could be seen.
//
// D: there is no array on a goroutine's stack whose size is known only when
// it runs. So deep() calls itself, with an array of 512 bytes in each frame,
// until D is used up, and the ring runs at the bottom. That is D rounded up
// to 512, and the compiler's 48 bytes for each. That the arrays are on the
// stack is seen with go build -gcflags=-m, which does not say of space that
// it was moved to the heap; each byte is written on the way down and looked
// at on the way up. The stack grows after the gate, in the time, by doubling
// from 2 KiB and by copying. It ends below 1e9 bytes, thus at 512 MiB: larger
// D fail.
//
// BLOCKS are counted by trying first, with a select that has a default: if
// that does not go through, the goroutine blocks in the operation that
// follows. This is in a loop of its own, not in the timed one. With P > 1 two
// who try at the same moment both find nobody and both count, though only one
// of them blocks: that makes a few too many in 100,000 messages. The count
// was compared with the transitions from running to waiting in a
// runtime/trace of the timed loop: the same, N * R * M, for N of 2, 3 and 8
// and P of 1 and 2. What is not counted: the runtime stops a goroutine that
// has run for 10 ms, together with those it has handed its slice to. Nor are
// the stops at the gate counted.
//
// EMPTY: a goroutine counts itself off the WaitGroup, and is nothing else.
//
// BLOCKED: that a goroutine has blocked cannot be asked of Go. So each counts
// itself right before it receives. When all have, GOMAXPROCS becomes 1, and
// the only one that runs lets the others run, again and again: who was
// between counting and receiving is in a queue, gets his turn, and blocks.
// Then each is woken with a send that does not wait: it goes through only if
// the goroutine is blocked, and if one does not the run has failed. Rejected:
// the states in a stack dump of all goroutines, as it takes more memory than
// the goroutines.
//
// HOT OR COLD. A goroutine that is made runnable is the next one to run on
// its processor (runnext), in the slice of the one that woke it, and moves
// the one who was next to the end of the queue. With N = 2 Go is hot: of
// 1,000 rings with 1,000 rounds 1 or 2 had begun when the first ended. With N
// = 3 all 1,000 had, with N = 8 most: there more than one goroutine of a ring
// is runnable, they push each other out of that place, and all rings take
// turns.
//
// EXIT STATUS. What the runtime itself finds, no memory, or all goroutines
// asleep, ends the program with its status of 2, as wrong arguments do.
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
	// More than the compiler adds to each.
	frameMore = 64
	// More than all else needs.
	stackMore = 64 << 10
	// The largest stack of Go: it permits 1e9 bytes, and doubles.
	stackMax = 512 << 20

	// How often settle() lets the others run.
	yields = 1000
)

// What is asked. What is not asked is 1, but for d.
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
	turn  int           // rounds until it starts one
}

// Set by the linker: the channels of rings have a buffer for all wakes.
var buffered string

var (
	b        bench
	gate     = make(chan struct{}) // closed: it is open
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

// Makes the rings, opens the gate, and returns the time until all had ended.
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

// The thread, with its bytes.
func live(t thread, body func(thread)) {
	if b.d == 0 {
		body(t)
	} else if !deep(b.d, t, body) {
		spoiled.Add(1)
	}
	alive.Done()
}

// Calls body with left more bytes on the stack, or a few more. Were they kept?
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

// The same loop, which counts how often it blocks.
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

// alive counts them: Wait() returns when n have counted themselves.
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

// Bytes: the most that were resident, less those before the first thread.
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

// Returns when all have blocked: whoever can run has run.
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

// Resident bytes: of /proc, or the most so far where there is none.
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

// Fills b; or returns why not.
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
