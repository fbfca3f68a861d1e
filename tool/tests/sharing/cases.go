// Two goroutines count in elements of one slice, side by side and apart.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
)

const rounds = 200000

// Whose turn it is, so that both run however busy the machine is; on a line of its own.
var baton struct {
	before [64]byte
	turn   atomic.Int32
	after  [64]byte
}

func count(me int32, counter *uint64, start, done *sync.WaitGroup) {
	runtime.LockOSThread()
	start.Done()
	start.Wait()
	for i := 0; i < rounds; i++ {
		*counter += uint64(i & 1) // A
		if i%1000 == 0 {
			for baton.turn.Load() != me {
				runtime.Gosched()
			}
			baton.turn.Store(1 - me)
		}
	}
	done.Done()
}

func main() {
	runtime.GOMAXPROCS(4)
	stride := 1
	if os.Args[1] != "false" {
		stride = 16
	}
	counters := make([]uint64, 64) // B
	var start, done sync.WaitGroup
	start.Add(2)
	done.Add(2)
	go count(0, &counters[0], &start, &done)
	go count(1, &counters[stride], &start, &done)
	done.Wait()
	fmt.Println(counters[0] + counters[stride])
}
