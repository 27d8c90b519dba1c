// SPDX-License-Identifier: MIT

// main.go: the questions to pools of workers (tasks.h) on goroutines, a peer.
//
// HOW is "channel": P goroutines take tasks from a channel with room; the
// submitter has a native thread beside them if there is a cpu for it. Or HOW is
// "each": a goroutine for each task, and the submitter runs on one of P native
// threads, but beside them in half. All other settings are Go's defaults. urgent
// has no counterpart there: a new goroutine is the next to run, so tasks that
// submit themselves again keep all others waiting, also the submitter.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

const (
	exitFailed = 1
	exitUsage  = 2
	exitNone   = 77

	room       = 1024
	load       = 1000
	submitters = 64
)

// A question: HOW NAME:M N P.
type ask struct {
	text string
	each bool
	m    int
	n    int
	p    int
}

type bench struct {
	run   func(a *ask)
	m     bool // is given
	apart bool // the submitter must not take the time of a worker
}

var benches = map[string]bench{
	"empty":  {empty, false, false},
	"work":   {works, true, false},
	"submit": {submit, true, false},
	"half":   {half, true, true},
	"urgent": {urgent, true, false},
	"queued": {queued, false, false},
	"steps":  {steps, false, false},
}

// A task, as it is in the channel.
type job struct {
	f func(i int)
	i int
}

// Submits f(i), and waits for all.
type pool struct {
	jobs chan job // nil: a goroutine for each task
	all  sync.WaitGroup
}

var tasks pool

func (p *pool) begin(workers, room int) {
	p.jobs = make(chan job, room)
	for i := 0; i < workers; i++ {
		go func() {
			for j := range p.jobs {
				j.f(j.i)
				p.all.Done()
			}
		}()
	}
}

func (p *pool) submit(f func(i int), i int) {
	p.all.Add(1)
	if p.jobs != nil {
		p.jobs <- job{f, i}
		return
	}
	go func() {
		f(i)
		p.all.Done()
	}()
}

func main() {
	a, name, b := arguments(os.Args[1:])
	if a.each {
		threads := a.p
		if b.apart {
			threads++
		}
		runtime.GOMAXPROCS(threads)
	} else {
		if a.p+1 < runtime.GOMAXPROCS(0) {
			runtime.GOMAXPROCS(a.p + 1)
		}
		tasks.begin(a.p, roomOf(name, a))
	}
	b.run(a)
}

func roomOf(name string, a *ask) int {
	switch name {
	case "queued":
		return a.n + a.p
	case "urgent":
		return a.n + 2*load
	}
	return room
}

func arguments(args []string) (*ask, string, bench) {
	if len(args) != 4 {
		usage("too few or too many arguments")
	}
	if args[0] != "channel" && args[0] != "each" {
		usage("neither channel nor each")
	}
	name, m, more := strings.Cut(args[1], ":")
	a := &ask{text: args[1], each: args[0] == "each",
		n: number(args[2], 1<<31-1), p: number(args[3], 256)}
	if more {
		a.m = number(m, 1<<31-1)
	}
	b, known := benches[name]
	if !known || b.m != more {
		usage("no such question")
	}
	if a.each && name == "urgent" {
		os.Exit(exitNone)
	}
	return a, name, b
}

func number(text string, most int) int {
	v, err := strconv.Atoi(text)
	if err != nil || v < 1 || v > most {
		usage("not a number, or out of range")
	}
	return v
}

func usage(why string) {
	fmt.Fprintf(os.Stderr, "%s: %s\nusage: %s channel|each NAME[:M] N P\n",
		os.Args[0], why, os.Args[0])
	os.Exit(exitUsage)
}

func (a *ask) fail(why string) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", a.text, why)
	os.Exit(exitFailed)
}

func (a *ask) say(suffix string, value float64) {
	fmt.Printf("%s%s %.2f\n", a.text, suffix, value)
}

func (a *ask) once(times int) {
	if times != 1 {
		a.fail(fmt.Sprintf("a task has run %d times", times))
	}
}
