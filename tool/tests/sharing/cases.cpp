// The worker of a pool counts in its own element of a vector: elements share lines.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <barrier>
#include <memory>
#include <new>
#include <thread>
#include <vector>

constexpr int rounds = 200000;

struct Packed {
    std::atomic<std::uint64_t> done{0};
    void step() { done.fetch_add(1, std::memory_order_relaxed); } // A
};

struct alignas(64) Apart {
    std::atomic<std::uint64_t> done{0};
    void step() { done.fetch_add(1, std::memory_order_relaxed); }
};

alignas(64) std::atomic<int> baton{0};

template <typename Counter>
std::uint64_t work() {
    auto counters = std::make_unique<Counter[]>(2); // B
    std::barrier start(2);
    std::vector<std::thread> threads;
    for (int at = 0; at < 2; at++)
        threads.emplace_back([&, at] {
            start.arrive_and_wait();
            for (int i = 0; i < rounds; i++) {
                counters[at].step();
                if (i % 1000 == 0) {
                    while (baton != at)
                        std::this_thread::yield();
                    baton = !at;
                }
            }
        });
    for (auto &thread : threads)
        thread.join();
    return counters[0].done + counters[1].done;
}

int main(int, char **arguments) {
    bool packed = !std::strcmp(arguments[1], "false");
    std::printf("%lu\n", static_cast<unsigned long>(packed ? work<Packed>() : work<Apart>()));
}
