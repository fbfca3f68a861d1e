/* A program that generates code for x86-64 at run time, and writes its name to the map for profilers. The name is the
   first argument; if that is empty, no map is written. Two threads run the code in turns. */
#define _GNU_SOURCE
#include "turns.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void (*count)(volatile long *);
static volatile long *shared;
static void touch(int me) {
    count(&shared[me]);
}

int main(int arguments, char **words) {
    /* incq (%rdi); ret */
    static const unsigned char code[] = { 0x48, 0xff, 0x07, 0xc3 };
    char *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED || shared == MAP_FAILED)
        return 1;
    memcpy(made, code, sizeof code);
    count = (void (*)(volatile long *))made;
    char map[64];
    snprintf(map, sizeof map, "/tmp/perf-%d.map", getpid());
    unlink(map);
    if (arguments > 1 && *words[1]) {
        FILE *file = fopen(map, "w");
        if (!file)
            return 1;
        fprintf(file, "%lx %zx %s\n", (unsigned long)made, sizeof code, words[1]);
        fclose(file);
    }
    in_turns();
    return 0;
}
