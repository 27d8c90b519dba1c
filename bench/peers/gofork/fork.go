// SPDX-License-Identifier: MIT

// fork.go: forks and joins on goroutines, a peer.
//
// WHAT IS MEASURED: see fork.h. A thread is a goroutine, P is GOMAXPROCS, and
// all other settings are Go's defaults, also of the garbage collector. Go
// starts native threads when there is work for them, within the time.
//
// A JOIN is a WaitGroup, from which each child counts itself off. The
// children's results go to variables of the parent, or to a slice. A channel
// with room for all results is as fast, within a tenth either way.
//
// THE HASH is crypto/sha1, which is in assembler on amd64, arm64 and others: 90
// ns on the machine where C took 85. The same in Go took 130.
//
// ORDER. A new goroutine is the next to run, but all goroutines made before it
// are in a queue, first in, first out. So a tree is searched in breadth. If
// each node is a goroutine, most of a level is alive at once.
//
// EXIT STATUS. Errors that the runtime itself finds (no memory) end the program
// with status 2, like wrong arguments.
package main

import (
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

const (
	exitFailed = 1
	exitUsage  = 2

	fibMax    = 90
	queensMax = 16
	skyLeaves = 1000000
	skyFan    = 10
)

// The parameters of a geometric tree of UTS.
type tree struct {
	linear bool
	depth  int
	fan    int
	seed   uint32
	nodes  int
}

// A question.
type ask struct {
	what  string
	n     int
	batch int
	cut   int
	p     int
	tree  *tree
}

var (
	a     ask
	trees = map[string]*tree{
		"T1": {false, 10, 4, 19, 4130071},
		"T5": {true, 20, 4, 34, 4147582},
	}
	queensKnown = [queensMax + 1]int{1, 1, 0, 0, 2, 10, 4, 40, 92, 352,
		724, 2680, 14200, 73712, 365596, 2279184, 14772512}
	logs []float64 // by depth: the logarithm of 1 - p
)

func main() {
	if why := args(os.Args[1:]); why != "" {
		usage(why)
	}
	runtime.GOMAXPROCS(a.p)
	type answer struct {
		result int
		took   time.Duration
	}
	answers := make(chan answer)
	go func() {
		start := time.Now()
		result := solve()
		answers <- answer{result, time.Since(start)}
	}()
	got := <-answers
	if got.result != known() {
		fail(fmt.Sprintf("the result is %d, and should be %d",
			got.result, known()))
	}
	fmt.Printf("%f\n", got.took.Seconds())
}

// Runs the root, or the plain recursion.
func solve() int {
	switch a.what {
	case "fib":
		if plain() {
			return fib(a.n)
		}
		return fibThread(a.n)
	case "queens":
		if plain() {
			return queens(empty(), 0)
		}
		return queensThread(empty(), 0)
	case "uts":
		root := a.tree.root()
		if plain() {
			return uts(&root, 0)
		}
		return utsThread(&root, 0)
	case "skynet":
		return skynet(0, skyLeaves)
	default:
		return empties()
	}
}

func known() int {
	switch a.what {
	case "fib":
		x, y := 0, 1
		for i := 0; i < a.n; i++ {
			x, y = y, x+y
		}
		return x
	case "queens":
		return queensKnown[a.n]
	case "uts":
		return a.tree.nodes
	case "skynet":
		return skyLeaves * (skyLeaves - 1) / 2
	default:
		return a.n
	}
}

func empties() int {
	var alive sync.WaitGroup

	ended := 0
	for ended < a.n {
		batch := min(a.n-ended, a.batch)
		alive.Add(batch)
		for i := 0; i < batch; i++ {
			go alive.Done()
		}
		alive.Wait()
		ended += batch
	}
	return ended
}

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func fibThread(n int) int {
	var alive sync.WaitGroup
	var one, two int

	if n < 2 || n-1 < a.cut {
		return fib(n)
	}
	alive.Add(1)
	go func() {
		one = fibThread(n - 1)
		alive.Done()
	}()
	if n-2 < a.cut {
		two = fib(n - 2)
	} else {
		alive.Add(1)
		go func() {
			two = fibThread(n - 2)
			alive.Done()
		}()
	}
	alive.Wait()
	return one + two
}

// Squares of this row: those not attacked, and those attacked in each way.
type board struct {
	free, column, left, right uint32
}

func empty() board {
	return board{free: 1<<a.n - 1}
}

func (b board) place(bit uint32) board {
	c := board{
		column: b.column | bit,
		left:   (b.left | bit) << 1,
		right:  (b.right | bit) >> 1,
	}
	c.free = ^(c.column | c.left | c.right) & (1<<a.n - 1)
	return c
}

func queens(b board, row int) int {
	if row == a.n {
		return 1
	}
	sum := 0
	for left := b.free; left != 0; left &= left - 1 {
		sum += queens(b.place(left&-left), row+1)
	}
	return sum
}

func queensThread(b board, row int) int {
	var alive sync.WaitGroup
	var found [queensMax]int

	if row == a.cut {
		return queens(b, row)
	}
	nr := bits.OnesCount32(b.free)
	result := found[:nr]
	alive.Add(nr)
	for i, left := 0, b.free; left != 0; i, left = i+1, left&(left-1) {
		i, bit := i, left&-left
		go func() {
			result[i] = queensThread(b.place(bit), row+1)
			alive.Done()
		}()
	}
	alive.Wait()
	return sum(result)
}

func sum(result []int) int {
	sum := 0
	for _, r := range result {
		sum += r
	}
	return sum
}

type hash = [sha1.Size]byte

// Prepares a search, before all other calls.
func (t *tree) root() hash {
	var text [sha1.Size]byte

	for d := 0; d <= t.depth; d++ {
		fan := 0.0
		if t.linear {
			fan = float64(t.fan) * (1 - float64(d)/float64(t.depth))
		} else if d < t.depth {
			fan = float64(t.fan)
		}
		logs = append(logs, math.Log(1-1/(1+fan))) // or -infinity
	}
	binary.BigEndian.PutUint32(text[16:], t.seed)
	return sha1.Sum(text[:])
}

func child(parent *hash, i int) hash {
	var text [sha1.Size + 4]byte

	copy(text[:], parent[:])
	binary.BigEndian.PutUint32(text[sha1.Size:], uint32(i))
	return sha1.Sum(text[:])
}

// Returns the number of children.
func fan(h *hash, depth int) int {
	u := float64(binary.BigEndian.Uint32(h[16:])&math.MaxInt32) / (1 << 31)
	return int(math.Log(1-u) / logs[depth])
}

func uts(h *hash, depth int) int {
	sum := 1
	for i, nr := 0, fan(h, depth); i < nr; i++ {
		c := child(h, i)
		sum += uts(&c, depth+1)
	}
	return sum
}

func utsThread(h *hash, depth int) int {
	var alive sync.WaitGroup

	if depth == a.cut {
		return uts(h, depth)
	}
	nr := fan(h, depth)
	if nr == 0 {
		return 1
	}
	result := make([]int, nr)
	alive.Add(nr)
	for i := range result {
		i := i
		go func() {
			c := child(h, i)
			result[i] = utsThread(&c, depth+1)
			alive.Done()
		}()
	}
	alive.Wait()
	return 1 + sum(result)
}

func skynet(first, size int) int {
	var alive sync.WaitGroup
	var result [skyFan]int

	if size == 1 {
		return first
	}
	size /= skyFan
	alive.Add(skyFan)
	for i := range result {
		i := i
		go func() {
			result[i] = skynet(first+i*size, size)
			alive.Done()
		}()
	}
	alive.Wait()
	return sum(result[:])
}

func min(x, y int) int {
	if x < y {
		return x
	}
	return y
}

func plain() bool {
	return a.what == "fib" && a.cut > a.n ||
		(a.what == "queens" || a.what == "uts") && a.cut == 0
}

// Fills a, or returns what is wrong.
func args(arg []string) string {
	form := map[string][]*int{
		"empty":   {&a.n, &a.p},
		"batches": {&a.n, &a.batch, &a.p},
		"fib":     {&a.n, &a.cut, &a.p},
		"queens":  {&a.n, &a.cut, &a.p},
		"uts":     {&a.cut, &a.p},
		"skynet":  {&a.p},
	}
	if len(arg) == 0 || form[arg[0]] == nil {
		return "what?"
	}
	a.what, arg = arg[0], arg[1:]
	if a.what == "uts" {
		if len(arg) == 0 || trees[arg[0]] == nil {
			return "which tree?"
		}
		a.tree, arg = trees[arg[0]], arg[1:]
	}
	numbers := form[a.what]
	if len(arg) != len(numbers) {
		return "too few or too many arguments"
	}
	for i, at := range numbers {
		zero := at == &a.cut || at == &a.n && a.what == "fib"
		if !number(arg[i], at) || *at == 0 && !zero {
			return "not a number, or out of range"
		}
	}
	if a.what == "empty" {
		a.batch = a.n
	}
	return inRange()
}

func inRange() string {
	switch {
	case a.what == "fib" && a.n > fibMax,
		a.what == "queens" && a.n > queensMax:
		return "N is too large"
	case a.what == "queens" && a.cut > a.n:
		return "there are no CUT rows"
	case plain() && a.p != 1:
		return "no thread is made: P is 1"
	}
	return ""
}

// A decimal number: digits only.
func number(text string, value *int) bool {
	v, err := strconv.ParseUint(text, 10, 31)
	*value = int(v)
	return err == nil
}

func usage(why string) {
	fmt.Fprintf(os.Stderr, "%[1]s: %[2]s\nusage:\n"+
		"  %[1]s empty NR P\n  %[1]s batches NR B P\n"+
		"  %[1]s fib N CUT P\n  %[1]s queens N CUT P\n"+
		"  %[1]s uts T1|T5 CUT P\n  %[1]s skynet P\n"+
		"seconds. NR threads, at once or B at a time; N to %[3]d "+
		"(fib) or %[4]d (queens);\nCUT: see fork.h; P native "+
		"threads, 1 if no thread is made\n",
		os.Args[0], why, fibMax, queensMax)
	os.Exit(exitUsage)
}

func fail(why string) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", os.Args[0], why)
	os.Exit(exitFailed)
}
