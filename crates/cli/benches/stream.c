/* STREAM's kernels as McCalpin defines them, for comparison with ours in the benchmark `stream`.
 *
 *   stream BYTES    arrays of BYTES bytes each, on OMP_NUM_THREADS threads
 *
 * Reads lines such as "triad 0.5" and runs that kernel for about that many seconds; prints bytes per second, where each
 * element that is read or written counts once. Keeps running, so that its memory is touched only once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static double *array(size_t bytes, size_t shift) {
    /* Shifted relative to each other, like STREAM's OFFSET, so that no two start at the same offset in a page. */
    char *memory = aligned_alloc(4096, bytes + 8192);
    if (!memory) exit(1);
    return (double *)(memory + shift);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    size_t n = strtoull(argv[1], NULL, 10) / sizeof(double);
    double *restrict a = array(n * sizeof(double), 0);
    double *restrict b = array(n * sizeof(double), 1344);
    double *restrict c = array(n * sizeof(double), 2688);
    const double scalar = 0.41421356237309515;
    char kernel[16];
    double seconds;

#pragma omp parallel for
    for (size_t j = 0; j < n; j++) {
        a[j] = 1.0;
        b[j] = 2.0;
        c[j] = 0.0;
    }
    while (scanf("%15s %lf", kernel, &seconds) == 2) {
        double began = now(), moved = 0;
        do {
            if (!strcmp(kernel, "copy")) {
#pragma omp parallel for
                for (size_t j = 0; j < n; j++) c[j] = a[j];
                moved += 2.0 * sizeof(double) * n;
            } else if (!strcmp(kernel, "scale")) {
#pragma omp parallel for
                for (size_t j = 0; j < n; j++) b[j] = scalar * c[j];
                moved += 2.0 * sizeof(double) * n;
            } else if (!strcmp(kernel, "add")) {
#pragma omp parallel for
                for (size_t j = 0; j < n; j++) c[j] = a[j] + b[j];
                moved += 3.0 * sizeof(double) * n;
            } else if (!strcmp(kernel, "triad")) {
#pragma omp parallel for
                for (size_t j = 0; j < n; j++) a[j] = b[j] + scalar * c[j];
                moved += 3.0 * sizeof(double) * n;
            } else {
                return 2;
            }
        } while (now() - began < seconds);
        printf("%.0f\n", moved / (now() - began));
        fflush(stdout);
    }
    return 0;
}
