// SPDX-License-Identifier: MIT

// main.go: the benchmarks of waits on goroutines, a peer.
//
// WHAT IS MEASURED: see waits.h. A thread is a goroutine, P is GOMAXPROCS, and
// all other settings are Go's defaults, also of the garbage collector.
//
// EXIT STATUS. Errors that the runtime itself finds (no memory, or all
// goroutines asleep) end the program with status 2, like wrong arguments.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	exitFailed = 1
	exitUsage  = 2
	exitNone   = 77 // no counterpart

	workSteps = 30
	ahead     = 60 * time.Second
)

// A question: NAME:M N P.
type ask struct {
	name string
	m    int
	n    int
	p    int
}

// An answer: what is printed. Fields that are not used stay empty.
type line struct {
	what  string // behind the name
	value float64
}

type bench func(a ask) []line

var benches = map[string]bench{
	"churn-random": churnRandom,
	"churn-same":   churnSame,
	"timed":        timed,
	"sleepers":     sleepers,

	"sync":          chanSync,
	"asleep":        chanAsleep,
	"buffer":        chanBuffer,
	"uncontended":   chanUncontended,
	"contended":     chanContended,
	"fanin":         chanFanin,
	"sem":           chanSem,
	"select":        selectUncontended,
	"select-sync":   selectSync,
	"select-buffer": selectBuffer,

	"mutex-own":   mutexOwn,
	"mutex":       mutex,
	"mutex-slack": mutexSlack,
	"mutex-work":  mutexWork,
	"mutex-hold":  mutexHold,
	"skew":        skew,
	"rw-own":      rwOwn,
	"rw-write":    rwWrite,

	"sieve":  sieve,
	"powser": powser,
	"pool":   pool,
}

func main() {
	a := arguments(os.Args[1:])
	runtime.GOMAXPROCS(a.p)
	for _, l := range benches[a.name](a) {
		fmt.Printf("%s%s %.2f\n", os.Args[1], l.what, l.value)
	}
}

func arguments(args []string) ask {
	if len(args) != 3 {
		usage("too few or too many arguments")
	}
	name, m, more := strings.Cut(args[0], ":")
	a := ask{name: name, n: number(args[1], 1), p: number(args[2], 1)}
	if more {
		a.m = number(m, 0)
	}
	switch name {
	case "flag", "futex", "wake":
		os.Exit(exitNone)
	}
	if benches[name] == nil {
		usage("no such benchmark")
	}
	return a
}

func number(text string, least int) int {
	v, err := strconv.Atoi(text)
	if err != nil || v < least {
		usage("not a number, or out of range")
	}
	return v
}

func usage(why string) {
	fmt.Fprintf(os.Stderr, "%s: %s\nusage: %s NAME[:M] N P\n",
		os.Args[0], why, os.Args[0])
	os.Exit(exitUsage)
}

func fail(why string) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", os.Args[0], why)
	os.Exit(exitFailed)
}

func took(nanoseconds float64) []line {
	return []line{{"", nanoseconds}}
}

// Returns how many of n things number id gets, if nr share them.
func share(n, nr, id int) int {
	s := n / nr
	if id < n%nr {
		s++
	}
	return s
}

// Runs nr goroutines, each with its share of n. Returns the time, as
// nanoseconds of one of n.
func each(nr, n int, f func(id, n int)) float64 {
	var all sync.WaitGroup
	all.Add(nr)
	start := time.Now()
	for i := 0; i < nr; i++ {
		go func() {
			defer all.Done()
			f(i, share(n, nr, i))
		}()
	}
	all.Wait()
	return per(start, n)
}

func per(start time.Time, n int) float64 {
	return float64(time.Since(start).Nanoseconds()) / float64(n)
}

var worked atomic.Uint64

// Computes for about 50 ns.
func work(x uint64) uint64 {
	for i := 0; i < workSteps; i++ {
		x = (x ^ x>>31) * 6364136223846793005
	}
	return x
}

// A generator of Marsaglia's kind, for what need not be good.
type random uint64

func (r *random) next() uint64 {
	x := uint64(*r)
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	*r = random(x)
	return x
}
