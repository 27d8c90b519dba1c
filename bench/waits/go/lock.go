// SPDX-License-Identifier: MIT

// lock.go: mutexes and read-write locks.
package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	slackThreads = 10
	hold         = 100 * time.Microsecond
)

type ownMutex struct {
	sync.Mutex
	_ [128]byte
}

func mutexOwn(a ask) []line {
	return took(each(a.p, a.n, func(id, n int) {
		var m ownMutex
		for ; n > 0; n-- {
			m.Lock()
			m.Unlock()
		}
	}))
}

func lockAndUnlock(threads int, a ask) []line {
	var m sync.Mutex
	return took(each(threads, a.n, func(id, n int) {
		for ; n > 0; n-- {
			m.Lock()
			m.Unlock()
		}
	}))
}

func mutex(a ask) []line {
	return lockAndUnlock(a.p, a)
}

func mutexSlack(a ask) []line {
	return lockAndUnlock(slackThreads*a.p, a)
}

func mutexWork(a ask) []line {
	var m sync.Mutex
	return took(each(a.p, a.n, func(id, n int) {
		x := uint64(id)
		for ; n > 0; n-- {
			m.Lock()
			m.Unlock()
			x = work(x)
		}
		worked.Add(x)
	}))
}

// All run until the n-th lock of them all, so they need not get equal shares.
func mutexHold(a ask) []line {
	var m sync.Mutex
	threads, left := slackThreads*a.p, a.n
	got := make([]int, threads)
	t := each(threads, a.n, func(id, n int) {
		for more := true; more; {
			m.Lock()
			runtime.Gosched()
			if more = left > 0; more {
				left--
				got[id]++
			}
			m.Unlock()
		}
	})
	least, most := a.n, 0
	for _, g := range got {
		least, most = min(least, g), max(most, g)
	}
	return []line{{"", t}, {".most_to_least",
		float64(most) / float64(max(least, 1))}}
}

// The first holds the lock nearly always; the second wants it now and then.
func skew(a ask) []line {
	var m sync.Mutex
	var done atomic.Bool
	held, end := 0, make(chan int)
	go func() {
		for !done.Load() {
			m.Lock()
			time.Sleep(hold)
			held++
			m.Unlock()
		}
		close(end)
	}()
	start := time.Now()
	for i := 0; i < a.n; i++ {
		time.Sleep(hold)
		m.Lock()
		m.Unlock()
	}
	t := per(start, a.n)
	done.Store(true)
	<-end
	return []line{{"", t}, {".most_to_least", float64(held) / float64(a.n)}}
}

type ownRW struct {
	sync.RWMutex
	_ [128]byte
}

func rwOwn(a ask) []line {
	return took(each(a.p, a.n, func(id, n int) {
		var m ownRW
		for ; n > 0; n-- {
			m.RLock()
			m.RLock()
			m.RUnlock()
			m.RUnlock()
			m.Lock()
			m.Unlock()
		}
	}))
}

// Each M-th operation writes.
func rwWrite(a ask) []line {
	var m sync.RWMutex
	return took(each(a.p, a.n, func(id, n int) {
		for ; n > 0; n-- {
			if n%a.m == 0 {
				m.Lock()
				m.Unlock()
			} else {
				m.RLock()
				m.RUnlock()
			}
		}
	}))
}
