// Light processes of Go: see protocol.rs for the messages on standard input and output. Written for Go 1.19, which
// Debian 12 has.
package main

import (
	"bufio"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Buckets of times: as in manycore's histogram, 64 per power of two, below 2^40 ns.
const buckets = 2240

// Shared state.
var (
	begun, ended     sync.WaitGroup
	end              = make(chan struct{})
	work             atomic.Value // of func(number int)
	workers          sync.WaitGroup
	begin            = make(chan struct{})
	stop             atomic.Bool
	sink             atomic.Uint32
	times            [buckets]atomic.Uint64
	rounds, failures atomic.Uint64
	failure          atomic.Value // of string
)

func main() {
	fmt.Printf("ready\tunit=goroutine\tschedulers=%d\tversion=%s\n", runtime.GOMAXPROCS(0), runtime.Version())
	alive := 0
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		switch words[0] {
		case "start":
			alive = number(words[1])
			start(alive, number(words[2]))
		case "look":
			fmt.Printf("look\town=%d\n", own())
		case "spin":
			spin(alive, milliseconds(words[1]), milliseconds(words[2]))
		case "io":
			files(alive, milliseconds(words[1]), number(words[2]), words[3])
		case "end":
			close(end)
			ended.Wait()
			fmt.Println("gone")
			return
		}
	}
	os.Exit(1)
}

func start(count, step int) {
	begun.Add(count)
	ended.Add(count)
	began := time.Now()
	for i := 0; i < count; i++ {
		go live(i)
		if step > 0 && i%step == 0 {
			fmt.Printf("alive\t%d\n", i)
		}
	}
	begun.Wait()
	fmt.Printf("started\talive=%d\tseconds=%.9f\n", count, time.Since(began).Seconds())
}

func live(number int) {
	begun.Done()
	select {
	case <-begin:
		work.Load().(func(int))(number)
		workers.Done()
		<-end
	case <-end:
	}
	ended.Done()
}

// Memory that the runtime has obtained from the system and not returned, in bytes.
func own() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.Sys - stats.HeapReleased
}

func spin(alive int, length, interval time.Duration) {
	var queued []string
	workers.Add(alive)
	work.Store(burn)
	close(begin)
	fmt.Println("spinning")
	for began := time.Now(); time.Since(began) < length; {
		time.Sleep(interval)
		if count, told := waiting(); told {
			queued = append(queued, strconv.FormatUint(count, 10))
		}
	}
	stop.Store(true)
	workers.Wait()
	fmt.Printf("spun\tqueued=%s\n", strings.Join(queued, ","))
}

// Goroutines that are ready to run, if this version of Go reports them (1.26).
func waiting() (uint64, bool) {
	sample := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0, false
	}
	return sample[0].Value.Uint64(), true
}

func burn(number int) {
	x := uint32(number)
	for !stop.Load() {
		for i := 0; i < 20000; i++ {
			x = x*1103515245 + 12345
		}
	}
	sink.Store(x)
}

func files(alive int, length time.Duration, bytes int, folder string) {
	data := []byte(strings.Repeat("m", bytes))
	workers.Add(alive)
	work.Store(func(number int) { rewrite(filepath.Join(folder, strconv.Itoa(number)), data) })
	began := time.Now()
	close(begin)
	fmt.Println("working")
	time.Sleep(length)
	stop.Store(true)
	// Rounds that have begun are completed and counted: leaving out the last ones would leave out the slow ones.
	workers.Wait()
	seconds := time.Since(began).Seconds()
	var latency []string
	for index := range times {
		if count := times[index].Load(); count > 0 {
			latency = append(latency, fmt.Sprintf("%d:%d", index, count))
		}
	}
	why, _ := failure.Load().(string)
	fmt.Printf("done\tseconds=%.9f\toperations=%d\tfailed=%d\twhy=%s\tlatency=%s\n",
		seconds, rounds.Load(), failures.Load(), why, strings.Join(latency, ","))
}

func rewrite(name string, data []byte) {
	back := make([]byte, len(data))
	for !stop.Load() {
		began := time.Now()
		if err := round(name, data, back); err != nil {
			failures.Add(1)
			failure.CompareAndSwap(nil, err.Error())
			time.Sleep(10 * time.Millisecond)
			continue
		}
		times[bucket(uint64(time.Since(began)))].Add(1)
		rounds.Add(1)
	}
}

func round(name string, data, back []byte) error {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if _, err = file.Write(data); err == nil {
		_, err = file.ReadAt(back, 0)
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

func bucket(ns uint64) uint64 {
	if ns > 1<<40-1 {
		ns = 1<<40 - 1
	}
	if ns < 64 {
		return ns
	}
	exponent := uint64(bits.Len64(ns) - 7)
	return (exponent+1)<<6 + ns>>exponent - 64
}

func number(word string) int {
	value, err := strconv.Atoi(word)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func milliseconds(word string) time.Duration {
	return time.Duration(number(word)) * time.Millisecond
}
