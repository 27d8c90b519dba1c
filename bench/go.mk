# SPDX-License-Identifier: MIT
# go.mk: builds a folder of Go as PROG. Nothing is downloaded.
export GOTOOLCHAIN = local
export GOWORK = off
export GOFLAGS = -buildvcs=false

all: $(PROG)

$(PROG): $(wildcard *.go) go.mod
	go build -o $@ .

clean:
	rm -f $(PROG)

.PHONY: all clean
