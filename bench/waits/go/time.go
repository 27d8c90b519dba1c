// SPDX-License-Identifier: MIT

// time.go: timers, and waits with deadlines.
//
// CHURN resets timers of time.AfterFunc, which are in the heap of a processor
// from when they are made. Since Go 1.23 a timer with a channel is in no heap
// while nobody receives from the channel, so to reset such a timer would not
// show what a running timer costs.
//
// TIMED is the loop that the documentation of time.Timer recommends: a timer
// for each goroutine, reset before each select.
package main

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// At least 10 s away, so that none fires while the benchmark runs.
func deadline(r *random) time.Duration {
	return 10*time.Second + time.Duration(r.next()%uint64(ahead))
}

func outstanding(m int) []*time.Timer {
	r := random(1)
	timers := make([]*time.Timer, m)
	for i := range timers {
		timers[i] = time.AfterFunc(deadline(&r), func() {
			fail("a timer fired")
		})
	}
	return timers
}

func churnRandom(a ask) []line {
	timers := outstanding(a.m)
	r := random(2)
	start := time.Now()
	for i := 0; i < a.n; i++ {
		timers[r.next()%uint64(a.m)].Reset(deadline(&r))
	}
	return took(per(start, a.n))
}

func churnSame(a ask) []line {
	timers := outstanding(a.m)
	r := random(2)
	start := time.Now()
	for i := 0; i < a.n; i++ {
		timers[r.next()%uint64(a.m)].Reset(ahead)
	}
	return took(per(start, a.n))
}

func timed(a ask) []line {
	timers := outstanding(a.m)
	there, back := make(chan int), make(chan int)
	t := each(2, a.n, func(id, _ int) {
		timer := time.NewTimer(ahead)
		receive := func(c chan int) {
			timer.Reset(ahead)
			select {
			case <-c:
			case <-timer.C:
				fail("a wait ended too early")
			}
		}
		for n := a.n / 2; n > 0; n-- {
			if id == 0 {
				there <- 0
				receive(back)
			} else {
				receive(there)
				back <- 0
			}
		}
		timer.Stop()
	})
	for _, timer := range timers {
		timer.Stop()
	}
	return took(t)
}

// The first deadline is M s after the start.
func sleepers(a ask) []line {
	late := make([]int64, a.n)
	for i := range late {
		late[i] = -1
	}
	var all sync.WaitGroup
	all.Add(a.n)
	before := resident()
	start := time.Now()
	first := start.Add(time.Duration(a.m) * time.Second)
	for i := range late {
		go func() {
			until := first.Add(time.Duration(i%1000) * time.Millisecond)
			time.Sleep(time.Until(until))
			late[i] = int64(time.Since(until))
			all.Done()
		}()
	}
	// Those that have not run yet do so before this one again.
	time.Sleep(time.Millisecond)
	made := time.Since(start)
	if time.Until(first) < 2300*time.Millisecond {
		fail("making took too long to see the sleepers idle")
	}
	time.Sleep(time.Until(first.Add(-2300 * time.Millisecond)))
	bytes, cpu, then := resident()-before, used(), time.Now()
	time.Sleep(2 * time.Second)
	idle := float64(used()-cpu) / float64(time.Since(then)) * 100
	all.Wait()
	slices.Sort(late)
	if late[0] < 0 {
		fail("a sleeper was woken too early")
	}
	us := func(i int) float64 { return float64(late[i]) / 1e3 }
	return []line{
		{".make_ns", float64(made.Nanoseconds()) / float64(a.n)},
		{".bytes", float64(bytes) / float64(a.n)},
		{".idle_cpu_percent", idle},
		{".late_median_us", us(a.n / 2)},
		{".late_99_us", us(a.n - 1 - a.n/100)},
		{".late_max_us", us(a.n - 1)},
	}
}

func resident() int {
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	if fields := strings.Fields(rest); len(fields) > 0 {
		if kib, err := strconv.Atoi(fields[0]); err == nil {
			return kib * 1024
		}
	}
	fail("/proc/self/status does not say how much is resident")
	return 0
}

// The time of the processors.
func used() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
