/* Two threads that take turns, so that they alternate even on a busy machine. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

enum { TURNS = 500 };

static struct { _Alignas(64) _Atomic int turn; } baton;

/* The work of a thread in its turn; the argument is its number, 0 or 1. */
static void touch(int me);

static void *work(void *data) {
    int me = (int)(size_t)data;
    for (int round = 0; round < TURNS; round++) {
        while (baton.turn != me)
            sched_yield();
        touch(me);
        baton.turn = !me;
    }
    return NULL;
}

static void in_turns(void) {
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}
