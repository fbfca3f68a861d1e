// Two goroutines with counters of their own; the first argument selects where these are. Written for Go 1.19 of
// Debian 12, in which a loop has one variable for all iterations.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

const rounds = 100000

// The thread whose turn it is, so that both alternate even on a busy machine; on a line of its own.
var baton struct {
	before [64]byte
	turn   atomic.Int32
	after  [64]byte
}

var together struct {
	before [64]byte
	count  atomic.Uint64
	after  [64]byte
}

var table = [8]uint64{1, 2, 3, 4, 5, 6, 7, 8}

func both(step func(me, round int)) {
	var start, done sync.WaitGroup
	start.Add(2)
	done.Add(2)
	for me := 0; me < 2; me++ {
		go func(me int) {
			runtime.LockOSThread()
			start.Done()
			start.Wait()
			for i := 0; i < rounds; i++ {
				step(me, i)
				if i%1000 == 0 {
					for baton.turn.Load() != int32(me) {
						runtime.Gosched()
					}
					baton.turn.Store(int32(1 - me))
				}
			}
			done.Done()
		}(me)
	}
	done.Wait()
}

//go:noinline
func neighbour() *[2]uint64 {
	return new([2]uint64)
}

func main() {
	runtime.GOMAXPROCS(4)
	switch os.Args[1] {
	case "false":
		counters := make([]uint64, 64)
		both(func(me, i int) {
			counters[me] += uint64(i & 1) // A
		})
		fmt.Println(counters[0] + counters[1])
	case "apart":
		counters := make([]uint64, 64)
		both(func(me, i int) { counters[16+16*me] += uint64(i & 1) })
		fmt.Println(counters[16] + counters[32])
	case "true":
		both(func(_, _ int) {
			together.count.Add(1) // E
		})
	case "readonly":
		var sums [2][32]uint64
		both(func(me, i int) { sums[me][16] += table[i%8] })
		fmt.Println(sums[0][16] + sums[1][16])
	case "neighbours":
		blocks := [3]*[2]uint64{neighbour(), neighbour(), neighbour()}
		// Two of three are on one line, wherever that starts.
		line := func(at int) uintptr { return uintptr(unsafe.Pointer(blocks[at])) / 64 }
		first := 0
		if line(0) != line(1) {
			first = 1
		}
		both(func(me, i int) {
			blocks[first+me][0] += uint64(i & 1) // F
		})
		fmt.Println(blocks[0][0], blocks[1][0], blocks[2][0])
	default:
		os.Exit(2)
	}
}
