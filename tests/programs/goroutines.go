// Counts its own calls where Go is different: goroutines that take turns in threads and go on in others, stacks that grow
// and are moved, panics that are recovered from. Every call of nap takes 20 ms and a little more.
package main

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

var nFib, nDeep, nYield, nCatch, nNap int64

//go:noinline
func fib(n int) int {
	atomic.AddInt64(&nFib, 1)
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

//go:noinline
func deep(n int) int {
	atomic.AddInt64(&nDeep, 1)
	var room [512]byte
	room[n%512] = 1
	if n == 0 {
		return 0
	}
	return deep(n-1) + int(room[(n+1)%512])
}

//go:noinline
func yielding(n int) int {
	atomic.AddInt64(&nYield, 1)
	runtime.Gosched()
	return n + 1
}

//go:noinline
func catching(n int) (out int) {
	atomic.AddInt64(&nCatch, 1)
	defer func() {
		if recover() != nil {
			out = n
		}
	}()
	panic(n)
}

//go:noinline
func nap() {
	atomic.AddInt64(&nNap, 1)
	time.Sleep(20 * time.Millisecond)
}

func main() {
	var all sync.WaitGroup
	for g := 0; g < 8; g++ {
		all.Add(1)
		go func(g int) {
			defer all.Done()
			fib(10)
			for i := 0; i < 20; i++ {
				yielding(i)
				catching(i)
			}
			nap()
			deep(300 + g)
		}(g)
	}
	all.Wait()
	fmt.Printf("main.fib %d\nmain.deep %d\nmain.yielding %d\nmain.catching %d\nmain.nap %d\n", nFib, nDeep, nYield, nCatch, nNap)
}
