// Two goroutines count in elements of one slice, side by side and apart.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sync"
)

const rounds = 200000

func count(counter *uint64, start, done *sync.WaitGroup) {
	runtime.LockOSThread()
	start.Done()
	start.Wait()
	for i := 0; i < rounds; i++ {
		*counter += uint64(i & 1) // A
		if i%200 == 0 {
			runtime.Gosched()
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
	go count(&counters[0], &start, &done)
	go count(&counters[stride], &start, &done)
	done.Wait()
	fmt.Println(counters[0] + counters[stride])
}
