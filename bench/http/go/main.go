// SPDX-License-Identifier: MIT

// main.go: the server on net/http, a peer.
//
// WHAT IT IS ASKED: see http.h. P is GOMAXPROCS, and all other settings are
// Go's defaults, but sockets send no keep-alive probes, since those of the other
// servers send none.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
)

var plain = []byte("Hello, World!")

func plaintext(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Length", strconv.Itoa(len(plain)))
	w.Write(plain)
}

func main() {
	port := flag.Int("p", 0, "port")
	root := flag.String("r", ".", "folder of files")
	p := flag.Int("n", 1, "native threads")
	flag.Int("c", 0, "connections; there is no limit here")
	flag.Parse()
	if flag.NArg() > 0 || *p < 1 {
		flag.Usage()
		os.Exit(2)
	}
	runtime.GOMAXPROCS(*p)
	config := net.ListenConfig{KeepAlive: -1}
	l, err := config.Listen(context.Background(), "tcp4",
		fmt.Sprintf("127.0.0.1:%d", *port))
	if err != nil {
		fail(err)
	}
	http.HandleFunc("/plaintext", plaintext)
	http.Handle("/", http.FileServer(http.Dir(*root)))
	fmt.Printf("listening on %s\n", l.Addr())
	fail(http.Serve(l, nil))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
