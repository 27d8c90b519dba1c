// SPDX-License-Identifier: MIT

// main.go: the server as goroutines, a peer.
//
// WHAT IT IS ASKED: see io.h. A connection is a goroutine, P is GOMAXPROCS, and
// all other settings are Go's defaults. Sockets send no keep-alive probes,
// since those of the other servers send none; Go sets TCP_NODELAY by itself.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const (
	exitFailed = 1
	exitUsage  = 2

	message = 100
	room    = 512
	longest = 4096 // line
	slice   = 50 * time.Microsecond
	most    = 64
)

var okay = []byte("ok\n")

type ask struct {
	mode    string
	network string
	address string
	p       int
	k       int
}

func main() {
	a := arguments(os.Args[1:])
	runtime.GOMAXPROCS(a.p)
	config := net.ListenConfig{KeepAlive: -1}
	l, err := config.Listen(context.Background(), a.network, a.address)
	if err != nil {
		fail(err)
	}
	for i := 0; i < a.k; i++ {
		go compute()
	}
	ready(a, l)
	for {
		c, err := l.Accept()
		if err != nil {
			fail(err)
		}
		switch a.mode {
		case "once":
			go serveOnce(c)
		case "line":
			go serveLines(c)
		default:
			go serve(c)
		}
	}
}

func serve(c net.Conn) {
	defer c.Close()
	var bytes [room]byte
	for {
		n, err := c.Read(bytes[:])
		if err != nil {
			return
		}
		if _, err = c.Write(bytes[:n]); err != nil {
			return
		}
	}
}

func serveLines(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, longest)
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		if _, err = c.Write(okay); err != nil {
			return
		}
		if _, err = c.Write(line); err != nil {
			return
		}
	}
}

func serveOnce(c net.Conn) {
	defer c.Close()
	var bytes [message]byte
	if _, err := io.ReadFull(c, bytes[:]); err == nil {
		c.Write(bytes[:])
	}
}

var sink uint64

func compute() {
	x := uint64(1)
	for {
		for start := time.Now(); time.Since(start) < slice; {
			for i := 0; i < 300; i++ {
				x = (x ^ x>>31) * 6364136223846793005
			}
		}
		sink = x
		runtime.Gosched()
	}
}

func ready(a ask, l net.Listener) {
	where := l.Addr().String()
	if a.network == "unix" {
		where = "unix:" + where
	}
	fmt.Printf("ready %s %d\n", where, os.Getpid())
}

func arguments(args []string) ask {
	if len(args) != 4 || (args[0] != "echo" && args[0] != "line" &&
		args[0] != "once") {
		usage()
	}
	a := ask{mode: args[0], p: number(args[2], 1), k: number(args[3], 0)}
	if path, unix := strings.CutPrefix(args[1], "unix:"); unix {
		a.network, a.address = "unix", path
	} else if args[1] == "tcp" {
		a.network, a.address = "tcp4", "127.0.0.1:0"
	} else {
		usage()
	}
	return a
}

func number(text string, least int) int {
	v, err := strconv.Atoi(text)
	if err != nil || v < least || v > most {
		usage()
	}
	return v
}

func usage() {
	fmt.Fprintf(os.Stderr, "usage: %s echo|line|once tcp|unix:PATH P K\n",
		os.Args[0])
	os.Exit(exitUsage)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(exitFailed)
}
