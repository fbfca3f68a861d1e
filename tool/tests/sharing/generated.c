/* A program that generates code for x86-64 as it runs, and writes its name into the map for profilers. The name is the
   first argument; none is written where that is empty. Two threads run the code in turns. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void (*count)(volatile long *);
static volatile long *shared;
static struct { _Alignas(64) _Atomic int turn; } baton;

static void *work(void *data) {
    int me = (int)(size_t)data;
    for (int round = 0; round < 500; round++) {
        while (baton.turn != me)
            sched_yield();
        count(&shared[me]);
        baton.turn = !me;
    }
    return NULL;
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
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
