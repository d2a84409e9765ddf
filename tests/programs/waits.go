// Goroutines that wait for known things: as its arguments say, in functions of these names. Prints what it has.
package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

var lock sync.Mutex
var rw sync.RWMutex
var group sync.WaitGroup
var never = make(chan int)
var full = make(chan int)

//go:noinline
func locked() { lock.Lock(); lock.Unlock() }

//go:noinline
func reads() { rw.RLock(); rw.RUnlock() }

//go:noinline
func receives() { <-never }

//go:noinline
func sends() { full <- 1 }

//go:noinline
func selects() {
	select {
	case <-never:
	case full <- 1:
	}
}

//go:noinline
func sleeps() { time.Sleep(time.Hour) }

//go:noinline
func joins() { group.Wait() }

//go:noinline
func listens() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		l.Accept()
	}
}

var kinds = []func(){locked, reads, receives, sends, selects, sleeps, joins, listens}

func main() {
	seconds, _ := strconv.Atoi(os.Args[1])
	lock.Lock()
	rw.Lock()
	group.Add(1)
	for at, kind := range kinds {
		count := 0
		if at+2 < len(os.Args) {
			count, _ = strconv.Atoi(os.Args[at+2])
		}
		for i := 0; i < count; i++ {
			go kind()
		}
	}
	time.Sleep(time.Duration(seconds) * time.Second)
	fmt.Println("done")
}
