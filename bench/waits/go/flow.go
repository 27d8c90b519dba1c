// SPDX-License-Identifier: MIT

// flow.go: the prime sieve, power series, and a queue with workers.
package main

import (
	"sync"
	"time"
)

func numbers(to chan<- int) {
	for i := 2; ; i++ {
		to <- i
	}
}

func filter(prime int, from <-chan int, to chan<- int) {
	for {
		if i := <-from; i%prime != 0 {
			to <- i
		}
	}
}

// What has not ended by then ends with the program.
func sieve(a ask) []line {
	start := time.Now()
	from, prime := make(chan int), 0
	go numbers(from)
	for i := 0; i < a.n; i++ {
		prime = <-from
		to := make(chan int)
		go filter(prime, from, to)
		from = to
	}
	t := per(start, a.n)
	if prime != nthPrime(a.n) {
		fail("that is not the prime")
	}
	return took(t)
}

func nthPrime(n int) int {
	primes := []int{2}
next:
	for i := 3; len(primes) < n; i += 2 {
		for _, p := range primes {
			if i%p == 0 {
				continue next
			}
			if p*p > i {
				break
			}
		}
		primes = append(primes, i)
	}
	return primes[n-1]
}

const modulus = 2147483647

// A series answers each ask with a coefficient.
type series struct {
	ask   chan struct{}
	value chan uint64
}

func newSeries() series {
	return series{make(chan struct{}), make(chan uint64)}
}

func (s series) get() uint64 {
	s.ask <- struct{}{}
	return <-s.value
}

// Two copies, each of which may be ahead of the other. While one coefficient
// is under way, the series may ask again.
func split(s series) (series, series) {
	a, b := newSeries(), newSeries()
	go splitter(s, a, b)
	return a, b
}

// One of the two copies.
type branch struct {
	series
	at    int  // coefficients it has got
	waits bool // for the next
}

func splitter(s, first, second series) {
	var known []uint64
	a, b := &branch{series: first}, &branch{series: second}
	under := false
	for {
		select {
		case <-a.ask:
			a.waits = true
		case <-b.ask:
			b.waits = true
		case v := <-s.value:
			known = append(known, v)
			under = false
		}
		for _, x := range [...]*branch{a, b} {
			if x.waits && x.at < len(known) {
				x.waits = false
				x.value <- known[x.at]
				x.at++
			}
		}
		if (a.waits || b.waits) && !under {
			under = true
			s.ask <- struct{}{}
		}
	}
}

// (f + xF)(g + xG) = fg + x(fG + gF) + x * x * FG.
func product(f, g, to series) {
	<-to.ask
	f0, g0 := f.get(), g.get()
	to.value <- f0 * g0 % modulus
	<-to.ask
	f1, f2 := split(f)
	g1, g2 := split(g)
	cross := func() uint64 { return f0*g1.get()%modulus + g0*f1.get()%modulus }
	to.value <- cross() % modulus
	<-to.ask
	rest := newSeries()
	go product(f2, g2, rest)
	for {
		to.value <- (cross() + rest.get()) % modulus
		<-to.ask
	}
}

// Integrates 1 plus a series, from 0.
func integral(s, to series) {
	<-to.ask
	to.value <- 0
	for i := uint64(1); ; i++ {
		<-to.ask
		v := s.get()
		if i == 1 {
			v++
		}
		to.value <- v % modulus * inverse(i) % modulus
	}
}

func inverse(x uint64) uint64 {
	r := uint64(1)
	for n := uint64(modulus - 2); n > 0; n /= 2 {
		if n%2 == 1 {
			r = r * x % modulus
		}
		x = x * x % modulus
	}
	return r
}

// The tangent: T' = 1 + T * T.
func powser(a ask) []line {
	got := make([]uint64, a.n)
	start := time.Now()
	tangent, square := newSeries(), newSeries()
	all, factors := split(tangent)
	f, g := split(factors)
	go product(f, g, square)
	go integral(square, tangent)
	for i := range got {
		got[i] = all.get()
	}
	t := per(start, a.n)
	if !right(got) {
		fail("that is not the tangent")
	}
	return took(t)
}

func right(t []uint64) bool {
	for i := 0; i+1 < len(t); i++ {
		sum := uint64(0)
		if i == 0 {
			sum = 1
		}
		for j := 0; j <= i; j++ {
			sum = (sum + t[j]*t[i-j]) % modulus
		}
		if t[i+1]*uint64(i+1)%modulus != sum {
			return false
		}
	}
	return t[0] == 0
}

func pool(a ask) []line {
	start := time.Now()
	jobs := make(chan int, 1000)
	done, sum := 0, uint64(0)
	var all sync.WaitGroup
	var lock sync.Mutex
	for i := 0; i < a.m; i++ {
		all.Add(1)
		go func() {
			mine, x := 0, uint64(0)
			for j := range jobs {
				x += work(uint64(j))
				mine++
			}
			lock.Lock()
			done += mine
			sum += x
			lock.Unlock()
			all.Done()
		}()
	}
	for i := 0; i < a.n; i++ {
		jobs <- i
	}
	close(jobs)
	all.Wait()
	t := per(start, a.n)
	worked.Add(sum)
	if done != a.n {
		fail("a job was lost")
	}
	return took(t)
}
