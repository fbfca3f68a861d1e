// Two threads with counters of their own; the first argument selects where these are. Lines that a finding must
// name have markers.
#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

constexpr int rounds = 100000;

struct Packed {
    std::atomic<std::uint64_t> done{0};
    void step() { done.fetch_add(1, std::memory_order_relaxed); } // A
};

struct alignas(64) Apart {
    std::atomic<std::uint64_t> done{0};
    void step() { done.fetch_add(1, std::memory_order_relaxed); }
};

struct alignas(64) Table {
    std::uint64_t values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
};

alignas(64) std::atomic<int> baton{0};
alignas(64) Packed together;
Table table;
thread_local volatile std::uint64_t own = 0;

// Both take turns, so that they alternate even on a busy machine.
void both(const std::function<void(int, int)> &step) {
    std::barrier start(2);
    std::vector<std::thread> threads;
    for (int at = 0; at < 2; at++)
        threads.emplace_back([&, at] {
            start.arrive_and_wait();
            for (int i = 0; i < rounds; i++) {
                step(at, i);
                if (i % 1000 == 0) {
                    while (baton != at)
                        std::this_thread::yield();
                    baton = !at;
                }
            }
        });
    for (auto &thread : threads)
        thread.join();
}

template <typename Counter>
void elements() {
    auto counters = std::make_unique<Counter[]>(2); // B
    both([&](int at, int) { counters[at].step(); });
}

__attribute__((noinline)) Packed *neighbour() {
    return new Packed; // C
}

void neighbours() {
    Packed *blocks[3] = {neighbour(), neighbour(), neighbour()};
    // Two of three are on one line, wherever that starts.
    auto line = [&](int at) { return reinterpret_cast<std::uintptr_t>(blocks[at]) / 64; };
    int first = line(0) == line(1) ? 0 : 1;
    both([&](int at, int) { blocks[first + at]->step(); });
}

void stack() {
    alignas(64) Packed counters[2];
    both([&](int at, int) { counters[at].step(); });
}

int main(int, char **arguments) {
    std::string name = arguments[1];
    if (name == "false")
        elements<Packed>();
    else if (name == "apart")
        elements<Apart>();
    else if (name == "true")
        both([](int, int) { together.step(); });
    else if (name == "readonly")
        both([](int, int i) { own = own + const_cast<volatile Table &>(table).values[i % 8]; });
    else if (name == "local")
        both([](int, int) { own = own + 1; });
    else if (name == "neighbours")
        neighbours();
    else if (name == "stack")
        stack();
    else
        return 2;
    std::puts("done");
}
