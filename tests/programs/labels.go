// Goroutines with labels (runtime/pprof) that share the CPU time in known parts, by work and not by time:
// 60 % route=/pay user=7, half of it while their thread calls the system; 30 % route=/list; 10 % without labels.
// In addition one with more labels than are kept and long ones. Labels are set a thousand times a second.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
)

var sink [64]int

//go:noinline
func burn(units, slot int) {
	for ; units > 0; units-- {
		for i := 0; i < 5000; i++ {
			sink[slot] += i * i % 7
		}
	}
}

//go:noinline
func call(units, slot int) {
	for ; units > 0; units-- {
		os.Getppid()
		burn(1, slot)
	}
}

func labels(pairs ...string) pprof.LabelSet { return pprof.Labels(pairs...) }

func serve(rounds, slot int) {
	ctx := context.Background()
	for i := 0; i < rounds; i++ {
		pprof.Do(ctx, labels("route", "/pay", "user", "7"), func(context.Context) {
			burn(30, slot)
			call(30, slot)
		})
		pprof.Do(ctx, labels("route", "/list"), func(context.Context) { burn(30, slot) })
		burn(10, slot)
	}
}

func many(rounds, slot int) {
	var pairs []string
	for i := 0; i < 20; i++ {
		pairs = append(pairs, fmt.Sprintf("key%02d", i), strings.Repeat("v", 10*i))
	}
	pprof.Do(context.Background(), labels(pairs...), func(context.Context) { burn(100*rounds, slot) })
}

func main() {
	rounds, _ := strconv.Atoi(os.Args[1])
	var all sync.WaitGroup
	for g := 0; g < 4; g++ {
		all.Add(1)
		go func(slot int) {
			defer all.Done()
			serve(rounds, slot)
		}(16 * g)
	}
	if len(os.Args) > 2 {
		all.Add(1)
		go func() {
			defer all.Done()
			many(rounds, 8)
		}()
	}
	all.Wait()
}
