// SPDX-License-Identifier: MIT
// pull.go: generators by iter.Pull; ../../gen.h says what is asked.

package main

import (
	"fmt"
	"iter"
	"os"
	"strconv"
	"syscall"
)

const nodes = 1023

type node struct {
	left, right *node
	key         int
}

func plant(from, to int) *node {
	middle := from + (to-from)/2
	if from >= to {
		return nil
	}
	return &node{plant(from, middle), plant(middle+1, to), middle}
}

func (n *node) walk(yield func(int) bool) bool {
	return n == nil || n.left.walk(yield) && yield(n.key) &&
		n.right.walk(yield)
}

func keys(root *node) iter.Seq[int] {
	return func(yield func(int) bool) { root.walk(yield) }
}

func counts(yield func(int) bool) {
	for i := 0; yield(i); i++ {
	}
}

func gives(key int) iter.Seq[int] {
	return func(yield func(int) bool) { yield(key) }
}

func take(seq iter.Seq[int], nr int) int {
	sum := 0
	next, stop := iter.Pull(seq)
	defer stop()
	for ; nr > 0; nr-- {
		value, ok := next()
		if !ok {
			break
		}
		sum += value
	}
	return sum
}

// now returns the processor time of the process, in nanoseconds.
func now() int64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

func main() {
	if len(os.Args) != 3 {
		os.Exit(2)
	}
	nr, err := strconv.Atoi(os.Args[2])
	if err != nil || nr <= 0 {
		os.Exit(2)
	}
	root := plant(0, nodes)
	sum, want := 0, nr*(nr-1)/2
	begun := now()
	switch os.Args[1] {
	case "count":
		sum = take(counts, nr)
	case "tree":
		nr = (nr + nodes - 1) / nodes * nodes
		for i := 0; i < nr; i += nodes {
			sum += take(keys(root), nodes+1)
		}
		want = nr / nodes * (nodes * (nodes - 1) / 2)
	case "short":
		for i := 0; i < nr; i++ {
			sum += take(gives(i), 2)
		}
	default:
		os.Exit(2)
	}
	if sum != want {
		fmt.Fprintln(os.Stderr, "gen: the sum is wrong")
		os.Exit(1)
	}
	fmt.Printf("%.2f\n", float64(now()-begun)/float64(nr))
}
