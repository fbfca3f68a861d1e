/* The loads with which the benchmark `contention` compares ours. Runs for SECONDS and prints operations per second.
 *
 *   contention counter SECONDS   one thread: additions to one atomic
 *   contention pipe SECONDS      round trips of an unsigned long through two pipes and another process
 *   contention SECONDS           the same, with the output of UnixBench's context1: COUNT|round trips|1|lps
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t over;

static void end(int signal) { (void)signal; over = 1; }

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static unsigned long counter(void) {
    static _Alignas(128) atomic_ulong shared;
    while (!over) {
        for (int i = 0; i < 256; i++) atomic_fetch_add_explicit(&shared, 1, memory_order_relaxed);
    }
    return shared;
}

static unsigned long trips(void) {
    int there[2], back[2];
    unsigned long count = 0, seen;
    if (pipe(there) || pipe(back)) exit(1);
    if (fork() == 0) {
        signal(SIGALRM, SIG_IGN);
        close(there[1]);
        close(back[0]);
        while (read(there[0], &seen, sizeof seen) == sizeof seen && seen == count++) {
            if (write(back[1], &seen, sizeof seen) != sizeof seen) break;
        }
        _exit(0);
    }
    close(there[0]);
    close(back[1]);
    while (!over) {
        if (write(there[1], &count, sizeof count) != sizeof count) break;
        if (read(back[0], &seen, sizeof seen) != sizeof seen) break;
        if (seen != count) exit(1);
        count++;
    }
    return count;
}

int main(int argc, char **argv) {
    if (argc != 2 && argc != 3) return 2;
    double seconds = atof(argv[argc - 1]);
    struct sigaction action = {.sa_handler = end};
    timer_t timer;
    struct itimerspec length = {.it_value = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)}};
    sigaction(SIGALRM, &action, NULL);
    if (timer_create(CLOCK_MONOTONIC, NULL, &timer) || timer_settime(timer, 0, &length, NULL)) return 1;
    double began = now();
    unsigned long count = argc == 3 && strcmp(argv[1], "pipe") ? counter() : trips();
    if (argc == 2) {
        fprintf(stderr, "COUNT|%lu|1|lps\n", count);
    } else {
        printf("%.3f\n", count / (now() - began));
    }
    return 0;
}
