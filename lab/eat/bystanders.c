// Processes that must not suffer from a memory hog, and one that takes a known amount of memory.
#include "eat.h"
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

void hold(uint64_t percent) {
    size_t size = sysconf(_SC_PHYS_PAGES) * PAGE * percent / 100;
    char *memory = malloc(size);
    if (!memory) die("malloc");
    for (int first = 1;; first = 0) {
        touch(memory, size);
        if (first && creat("/run/lab/hold.ready", 0644) < 0) die("/run/lab/hold.ready");
        rest(2000);
    }
}

void beat(void) {
    static char block[PAGE];
    for (uint64_t last = 0;;) {
        int file = open("/usr/bin/true", O_RDONLY);
        if (file < 0 || read(file, block, PAGE) < 0) die("/usr/bin/true");
        close(file);
        uint64_t time = now();
        if (last && time - last > page->gap) page->gap = time - last;
        page->beat = last = time;
        rest(50);
    }
}

// Takes memory of known size: `most` MB, and less than 2 MB for the program itself.
void take(uint64_t most, uint64_t us, int is_deaf) {
    if (is_deaf) signal(SIGTERM, SIG_IGN);
    for (uint64_t sum = 0; !most || sum < most; sum++) {
        char *more = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (more == MAP_FAILED) die("mmap");
        touch(more, MB);
        struct timespec pause = {us / 1000000, us % 1000000 * 1000};
        if (us) nanosleep(&pause, NULL);
    }
    if (write(1, "1\n", 2) < 0) die("standard output");
    for (char rest[64]; read(0, rest, sizeof rest) > 0;) {}
    exit(0);
}
