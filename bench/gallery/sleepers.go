// SPDX-License-Identifier: MIT

// sleepers.go: a million jobs that sleep in Go, for measure.py. Prints bytes of
// memory for each: sleepers goroutines|timers NR.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

type job struct {
	id   int64
	text string
}

var due = make(chan *job, 1000)

// Bytes that this process has of its own.
func memory() int {
	data, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		panic(err)
	}
	for _, line := range strings.Split(string(data), "\n") {
		words := strings.Fields(line)
		if len(words) > 1 && words[0] == "Anonymous:" {
			kib, _ := strconv.Atoi(words[1])
			return kib * 1024
		}
	}
	panic("no Anonymous")
}

func main() {
	nr, _ := strconv.Atoi(os.Args[2])
	before := memory()
	for i := 0; i < nr; i++ {
		j := &job{int64(i), fmt.Sprintf("%032d", i)}
		if os.Args[1] == "goroutines" {
			go func() {
				time.Sleep(time.Hour)
				due <- j
			}()
		} else {
			time.AfterFunc(time.Hour, func() { due <- j })
		}
	}
	runtime.GC()
	time.Sleep(time.Second)
	fmt.Println((memory() - before) / nr)
}
