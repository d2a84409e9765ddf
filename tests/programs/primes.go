// A Go program: its own stacks, its own calling convention, many goroutines on few threads.
// build primes:
//
// primes [LIMIT]
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

//go:noinline
func isPrime(n int) bool {
	for d := 2; d*d <= n; d++ {
		if n%d == 0 {
			return false
		}
	}
	return n > 1
}

//go:noinline
func countRange(from, to int) int {
	count := 0
	for n := from; n < to; n++ {
		if isPrime(n) {
			count++
		}
	}
	return count
}

func main() {
	limit := 8000000
	if len(os.Args) > 1 {
		limit, _ = strconv.Atoi(os.Args[1])
	}
	const parts = 64
	counts := make([]int, parts)
	var group sync.WaitGroup
	for part := 0; part < parts; part++ {
		group.Add(1)
		go func() {
			defer group.Done()
			counts[part] = countRange(limit*part/parts, limit*(part+1)/parts)
		}()
	}
	group.Wait()
	sum := 0
	for _, count := range counts {
		sum += count
	}
	fmt.Println(sum)
}
