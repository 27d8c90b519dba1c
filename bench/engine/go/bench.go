// SPDX-License-Identifier: MIT

// bench.go: the questions of tasks.h.
package main

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	tasksProbe = time.Millisecond
)

var (
	seen   []uint8
	worked uint64
)

func work(steps int) {
	x := uint64(1)
	for ; steps > 0; steps-- {
		x = (x ^ x>>31) * 6364136223846793005
	}
	if x == 0 {
		worked = x // never; so the compiler computes x
	}
}

func touched(n int) []uint8 {
	s := make([]uint8, n)
	for i := range s {
		s[i] = 1
	}
	clear(s)
	return s
}

func none(i int) {
	seen[i]++
}

func (a *ask) check() {
	for _, times := range seen {
		a.once(int(times))
	}
}

// Nanoseconds that the process has computed.
func cpu() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

func (a *ask) took(start time.Time, used float64) {
	took := time.Since(start)
	used = cpu() - used
	a.say(".per_s", float64(a.n)/took.Seconds())
	a.say(".cpu_ns", used/float64(a.n))
}

func (a *ask) fromOne(f func(i int)) {
	seen = touched(a.n)
	tasks.submit(func(int) {}, 0)
	tasks.all.Wait()
	used, start := cpu(), time.Now()
	for i := 0; i < a.n; i++ {
		tasks.submit(f, i)
	}
	tasks.all.Wait()
	a.took(start, used)
	a.check()
}

func empty(a *ask) {
	a.fromOne(none)
}

func works(a *ask) {
	a.fromOne(func(i int) {
		work(a.m)
		seen[i]++
	})
}

func submit(a *ask) {
	if a.m > submitters {
		a.fail("so many submitters are not possible")
	}
	var all sync.WaitGroup
	seen = touched(a.n)
	begin := make(chan bool)
	for id := 0; id < a.m; id++ {
		all.Add(1)
		go func(i, end int) {
			defer all.Done()
			<-begin
			for ; i < end; i++ {
				tasks.submit(none, i)
			}
		}(a.n*id/a.m, a.n*(id+1)/a.m)
	}
	used, start := cpu(), time.Now()
	close(begin)
	all.Wait()
	tasks.all.Wait()
	a.took(start, used)
	a.check()
}

type probe struct {
	sent, begun time.Time
	times       int
}

func (p *probe) begin() {
	p.begun = time.Now()
	p.times++
}

func (a *ask) late(probes []probe) {
	late := make([]time.Duration, len(probes))
	for i, p := range probes {
		a.once(p.times)
		late[i] = p.begun.Sub(p.sent)
	}
	slices.Sort(late)
	n := len(late)
	a.say(".p50_us", float64(late[n/2])/1e3)
	a.say(".p99_us", float64(late[n-1-n/100])/1e3)
}

// Returns at this time or later. Sleeps if workers need all cpus.
func (a *ask) until(due time.Time) {
	if runtime.NumCPU() <= a.p {
		t := syscall.NsecToTimespec(int64(time.Until(due)))
		if t.Sec >= 0 && t.Nsec > 0 {
			_ = syscall.Nanosleep(&t, nil)
		}
	}
	for time.Now().Before(due) {
	}
}

// Sends n probes, a distance apart, then ends.
func (a *ask) probes(f func(p *probe), apart float64, end func()) {
	runtime.LockOSThread()
	probes := make([]probe, a.n)
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL,
		syscall.PR_SET_TIMERSLACK, 1, 0)
	start := time.Now()
	for i := range probes {
		p := &probes[i]
		a.until(start.Add(time.Duration(apart * float64(i+1))))
		p.sent = time.Now()
		tasks.submit(func(int) { f(p) }, 0)
	}
	end()
	tasks.all.Wait()
	a.late(probes)
}

// Nanoseconds that these steps take.
func lasts(steps int) float64 {
	least := time.Hour
	for i := 0; i < 100; i++ {
		start := time.Now()
		work(steps)
		least = min(least, time.Since(start))
	}
	return float64(least)
}

func steps(a *ask) {
	a.say(".steps", float64(a.n)*1e3*1e6/lasts(1e6))
}

func half(a *ask) {
	a.probes(func(p *probe) {
		p.begin()
		work(a.m)
	}, 2*lasts(a.m)/float64(a.p), func() {})
}

func urgent(a *ask) {
	var over atomic.Bool
	var again func(i int)
	again = func(i int) {
		work(a.m)
		if !over.Load() {
			tasks.submit(again, i)
		}
	}
	for i := 0; i < load; i++ {
		tasks.submit(again, i)
	}
	a.probes((*probe).begin, float64(tasksProbe), func() {
		over.Store(true)
	})
}

func (a *ask) resident() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		a.fail(err.Error())
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		a.fail(err.Error())
	}
	return float64(kib) * 1024
}

// Holds the workers; but in "each", where a goroutine holds no worker, all
// tasks wait until they may go on.
func queued(a *ask) {
	seen = touched(a.n)
	f, held, goOn := none, make(chan bool), make(chan bool)
	if a.each {
		f = func(i int) {
			<-goOn
			seen[i]++
		}
	} else {
		for i := 0; i < a.p; i++ {
			tasks.submit(func(int) {
				held <- true
				<-goOn
			}, i)
			<-held
		}
	}
	before, start := a.resident(), time.Now()
	for i := 0; i < a.n; i++ {
		tasks.submit(f, i)
	}
	took := time.Since(start)
	a.say(".bytes", (a.resident()-before)/float64(a.n))
	a.say(".queue_ns", float64(took)/float64(a.n))
	start = time.Now()
	close(goOn)
	tasks.all.Wait()
	a.say(".run_ns", float64(time.Since(start))/float64(a.n))
	a.check()
}
