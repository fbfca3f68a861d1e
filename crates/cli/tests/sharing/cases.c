/* Cases of sharing with known layouts, selected by the first argument. Lines that a finding must name have the
   markers A, B and so on. Threads pass a baton to each other, so that they alternate even on a busy machine. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

enum { ROUNDS = 200000, TURN = 1000, LINE = 64 };

static _Alignas(LINE) pthread_barrier_t start;

struct pair { volatile uint64_t first, second; };
struct padded { _Alignas(LINE) volatile uint64_t first; _Alignas(LINE) volatile uint64_t second; };

static _Alignas(LINE) struct pair counters;
static _Alignas(2 * LINE) struct padded apart;
static _Alignas(LINE) _Atomic uint64_t together;
static _Alignas(LINE) struct { volatile uint64_t limit, count; char rest[48]; } config = { .limit = ROUNDS };
static _Alignas(LINE) uint64_t table[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
static _Alignas(LINE) volatile uint64_t slots[16];
static __thread volatile uint64_t own;
static _Alignas(LINE) struct { pthread_mutex_t lock; volatile uint64_t count; } guarded = { PTHREAD_MUTEX_INITIALIZER, 0 };

static _Alignas(LINE) struct { _Atomic int lock; volatile uint64_t count; } spun;

static _Alignas(LINE) struct { _Atomic int arrived, baton; char rest[56]; } order;
static __thread int me = -1;

static void begin(void) {
    pthread_barrier_wait(&start);
    me = order.arrived++;
}

static void turn(int round) {
    if (round % TURN)
        return;
    while (order.baton != me)
        sched_yield();
    order.baton = !me;
}

static void *first(void *data) {
    struct pair *pair = data;
    begin();
    for (int i = 0; i < ROUNDS; i++) {
        pair->first += 1; /* A */
        turn(i);
    }
    return NULL;
}

static void *second(void *data) {
    struct pair *pair = data;
    begin();
    for (int i = 0; i < ROUNDS; i++) {
        pair->second += 1; /* B */
        turn(i);
    }
    return NULL;
}

static void *first_apart(void *data) {
    struct padded *padded = data;
    begin();
    for (int i = 0; i < ROUNDS; i++) {
        padded->first += 1;
        turn(i);
    }
    return NULL;
}

static void *second_apart(void *data) {
    struct padded *padded = data;
    begin();
    for (int i = 0; i < ROUNDS; i++) {
        padded->second += 1;
        turn(i);
    }
    return NULL;
}

static void *count_together(void *data) {
    (void)data;
    begin();
    for (int i = 0; i < ROUNDS; i++) {
        together += 1; /* C */
        turn(i);
    }
    return NULL;
}

static void *reader(void *data) {
    volatile uint64_t seen = 0;
    (void)data;
    begin();
    for (int i = 0; i < ROUNDS; i++) {
        if ((uint64_t)i < config.limit) /* D */
            seen += 1;
        turn(i);
    }
    return NULL;
}

static void *writer(void *data) {
    (void)data;
    begin();
    for (int i = 0; i < ROUNDS; i++) {
        config.count += 1; /* E */
        turn(i);
    }
    return NULL;
}

static void *read_table(void *data) {
    volatile uint64_t sum = 0;
    (void)data;
    begin();
    for (int i = 0; i < ROUNDS; i++) {
        sum += ((volatile uint64_t *)table)[i % 8];
        turn(i);
    }
    return NULL;
}

static void *slot(void *data) {
    volatile uint64_t *mine = data;
    begin();
    for (int i = 0; i < ROUNDS; i++) {
        *mine += 1; /* F */
        turn(i);
    }
    return NULL;
}

static void *thread_local_count(void *data) {
    (void)data;
    begin();
    for (int i = 0; i < ROUNDS; i++) {
        own += 1;
        turn(i);
    }
    return NULL;
}

static void *locked(void *data) {
    (void)data;
    begin();
    for (int i = 0; i < ROUNDS / 10; i++) {
        pthread_mutex_lock(&guarded.lock); /* K */
        guarded.count += 1;
        pthread_mutex_unlock(&guarded.lock);
        turn(10 * i);
    }
    return NULL;
}

static void *spinning(void *data) {
    (void)data;
    begin();
    for (int i = 0; i < ROUNDS / 10; i++) {
        while (atomic_exchange(&spun.lock, 1)) /* L */
            sched_yield();
        spun.count += 1;
        atomic_store(&spun.lock, 0);
        turn(10 * i);
    }
    return NULL;
}

static void *filled(void *data) {
    int zeros = open("/dev/zero", O_RDONLY);
    begin();
    for (int i = 0; i < 200; i++) {
        if (read(zeros, data, sizeof(uint64_t)) != sizeof(uint64_t))
            abort();
        turn(0);
    }
    return NULL;
}

static void both(void *(*one)(void *), void *a, void *(*two)(void *), void *b) {
    pthread_t threads[2];
    pthread_barrier_init(&start, NULL, 2);
    pthread_create(&threads[0], NULL, one, a);
    pthread_create(&threads[1], NULL, two, b);
    pthread_setname_np(threads[0], "first");
    pthread_setname_np(threads[1], "second");
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

static uint64_t *neighbour(void) {
    return malloc(sizeof(uint64_t)); /* G */
}

int main(int count, char **arguments) {
    const char *name = count > 1 ? arguments[1] : "";
    struct pair on_stack __attribute__((aligned(LINE))) = { 0 };
    if (!strcmp(name, "false")) {
        both(first, &counters, second, &counters);
    } else if (!strcmp(name, "padded")) {
        both(first_apart, &apart, second_apart, &apart);
    } else if (!strcmp(name, "true")) {
        both(count_together, NULL, count_together, NULL);
    } else if (!strcmp(name, "split")) {
        both(reader, NULL, writer, NULL);
    } else if (!strcmp(name, "readonly")) {
        both(read_table, NULL, read_table, NULL);
    } else if (!strcmp(name, "slots")) {
        both(slot, (void *)&slots[2], slot, (void *)&slots[3]);
    } else if (!strcmp(name, "vast")) {
        /* More lines than can be followed with 16 MiB. */
        size_t bytes = (size_t)1 << 30;
        char *memory = malloc(bytes);
        for (size_t at = 0; at < bytes; at += 4096)
            memory[at] = 1;
        free(memory);
    } else if (!strcmp(name, "one")) {
        for (int i = 0; i < ROUNDS; i++) {
            counters.first += 1;
            counters.second += 1;
        }
    } else if (!strcmp(name, "heap")) {
        struct pair *pair = aligned_alloc(LINE, LINE); /* H */
        memset(pair, 0, sizeof *pair);
        both(first, pair, second, pair);
        free(pair);
    } else if (!strcmp(name, "neighbours")) {
        uint64_t *blocks[3] = { neighbour(), neighbour(), neighbour() };
        /* Two of three are on one line, wherever that starts. */
        int at = (uintptr_t)blocks[0] / LINE == (uintptr_t)blocks[1] / LINE ? 0 : 1;
        *blocks[at] = *blocks[at + 1] = 0;
        both(slot, blocks[at], slot, blocks[at + 1]);
    } else if (!strcmp(name, "local")) {
        both(thread_local_count, NULL, thread_local_count, NULL);
    } else if (!strcmp(name, "stack")) {
        both(first, &on_stack, second, &on_stack);
    } else if (!strcmp(name, "mutex")) {
        both(locked, NULL, locked, NULL);
    } else if (!strcmp(name, "spin")) {
        both(spinning, NULL, spinning, NULL);
    } else if (!strcmp(name, "filled")) {
        both(filled, (void *)&slots[2], filled, (void *)&slots[3]);
    } else if (!strcmp(name, "crash")) {
        both(first, &counters, second, &counters);
        volatile uintptr_t nowhere = 8;
        *(volatile int *)nowhere = 1;
    } else if (!strcmp(name, "fail")) {
        both(first_apart, &apart, second_apart, &apart);
        return 7;
    } else if (!strcmp(name, "endless")) {
        both(first, &counters, second, &counters);
        puts("shared");
        fflush(stdout);
        for (;;)
            pause();
    } else if (!strcmp(name, "fork")) {
        pid_t child = fork();
        both(child ? first_apart : first, child ? (void *)&apart : (void *)&counters,
             child ? second_apart : second, child ? (void *)&apart : (void *)&counters);
        if (child)
            waitpid(child, NULL, 0);
    } else if (!strcmp(name, "exec")) {
        execl(arguments[0], arguments[0], "false", (char *)NULL);
        return 9;
    } else {
        fprintf(stderr, "no case %s\n", name);
        return 2;
    }
    puts("done");
    return 0;
}
