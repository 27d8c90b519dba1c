// SPDX-License-Identifier: MIT

// chan.go: channels.
package main

import (
	"sync"
	"time"
)

const batch = 100

// A message in turn in each direction.
func chanSync(a ask) []line {
	c := make(chan int)
	return took(each(2, a.n, func(id, _ int) {
		for n := a.n / 2; n > 0; n-- {
			if id == 0 {
				c <- 0
				<-c
			} else {
				<-c
				c <- 0
			}
		}
	}))
}

// The same, but who has received computes for M us before it sends.
func chanAsleep(a ask) []line {
	c := make(chan time.Time)
	var late [2]time.Duration
	each(2, a.n, func(id, _ int) {
		send := func() {
			start := time.Now()
			for time.Since(start) < time.Duration(a.m)*time.Microsecond {
			}
			c <- time.Now()
		}
		for n := a.n / 2; n > 0; n-- {
			if id == 0 {
				send()
			}
			late[id] += time.Since(<-c)
			if id == 1 {
				send()
			}
		}
	})
	return took(float64((late[0] + late[1]).Nanoseconds()) / float64(a.n/2*2))
}

// Runs P goroutines of each sort, each with its share of N.
func pairs(a ask, send, receive func(n int)) float64 {
	return each(2*a.p, a.n, func(id, _ int) {
		if n := share(a.n, a.p, id/2); id%2 == 0 {
			send(n)
		} else {
			receive(n)
		}
	})
}

func chanBuffer(a ask) []line {
	c := make(chan int, a.m)
	return took(pairs(a, func(n int) {
		for ; n > 0; n-- {
			c <- n
		}
	}, func(n int) {
		for ; n > 0; n-- {
			<-c
		}
	}))
}

func fillAndDrain(c chan int, n int) {
	for ; n > 0; n -= batch {
		for i := 0; i < batch; i++ {
			c <- i
		}
		for i := 0; i < batch; i++ {
			<-c
		}
	}
}

func chanUncontended(a ask) []line {
	return took(each(a.p, a.n, func(id, n int) {
		fillAndDrain(make(chan int, batch), n)
	}))
}

func chanContended(a ask) []line {
	c := make(chan int, batch*a.p)
	return took(each(a.p, a.n, func(id, n int) {
		fillAndDrain(c, n)
	}))
}

func chanFanin(a ask) []line {
	c := make(chan int, 10)
	senders := 100 * a.p
	var all sync.WaitGroup
	all.Add(1)
	go func() {
		for i := 0; i < a.n; i++ {
			<-c
		}
		all.Done()
	}()
	t := each(senders, a.n, func(id, n int) {
		for ; n > 0; n-- {
			c <- n
		}
	})
	all.Wait()
	return took(t)
}

func chanSem(a ask) []line {
	c := make(chan struct{}, a.p)
	return took(each(a.p, a.n, func(id, n int) {
		for ; n > 0; n-- {
			c <- struct{}{}
			<-c
		}
	}))
}

func selectUncontended(a ask) []line {
	return took(each(a.p, a.n, func(id, n int) {
		c1, c2 := make(chan int, 1), make(chan int, 1)
		c1 <- 0
		for ; n > 0; n-- {
			select {
			case <-c1:
				c2 <- 0
			case <-c2:
				c1 <- 0
			}
		}
	}))
}

// P that select what to receive, P that select what to send.
func selectSync(a ask) []line {
	c1, c2, c3 := make(chan int), make(chan int), make(chan int)
	done := make(chan int)
	for i := 0; i < a.p; i++ {
		go func() {
			for {
				select {
				case c1 <- 0:
				case c2 <- 0:
				case c3 <- 0:
				case <-done:
					return
				}
			}
		}()
	}
	t := each(a.p, a.n, func(id, n int) {
		for ; n > 0; n-- {
			select {
			case <-c1:
			case <-c2:
			case <-c3:
			}
		}
	})
	close(done)
	return took(t)
}

func selectBuffer(a ask) []line {
	c := make(chan int, a.m)
	stop := make(chan int)
	return took(pairs(a, func(n int) {
		timer := time.NewTimer(time.Hour)
		x := uint64(n)
		for ; n > 0; n-- {
			x = work(x)
			select {
			case c <- n:
			case <-timer.C:
			case <-stop:
			}
		}
		worked.Add(x)
	}, func(n int) {
		timer := time.NewTimer(time.Hour)
		x := uint64(n)
		for ; n > 0; n-- {
			select {
			case <-c:
			case <-timer.C:
			case <-stop:
			}
			x = work(x)
		}
		worked.Add(x)
	}))
}
