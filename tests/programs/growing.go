// Goroutines whose stacks grow from their first size on, by several depths. With an argument, Go's own profile is
// written to that file.
package main

import (
	"fmt"
	"os"
	"runtime/pprof"
	"sync"
	"time"
)

//go:noinline
func descend(n int) int {
	var room [200]byte
	room[n%200] = byte(n)
	if n == 0 {
		return int(room[0])
	}
	return descend(n-1) + int(room[(n+1)%200])
}

//go:noinline
func shallow() int { return descend(40) }

//go:noinline
func middle() int { return descend(150) }

//go:noinline
func deep() int { return descend(220) }

//go:noinline
func spawn(f func() int, n int) {
	var all sync.WaitGroup
	for i := 0; i < n; i++ {
		all.Add(1)
		go func() { f(); all.Done() }()
	}
	all.Wait()
}

func main() {
	if len(os.Args) > 1 {
		f, _ := os.Create(os.Args[1])
		pprof.StartCPUProfile(f)
		defer pprof.StopCPUProfile()
	}
	begin := time.Now()
	for time.Since(begin) < 2*time.Second {
		spawn(shallow, 400)
		spawn(middle, 40)
		spawn(deep, 4)
	}
	fmt.Println("done")
}
