// The observer: what happened to the guest and its processes while a memory hog ran.
#include "eat.h"
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WATCHED 16
static struct {
    char name[24];
    struct pollfd fd;
    uint64_t died; // ms, or 0
} watched[WATCHED];
static int count_watched;

// The observations. Times are in ms since the start of the observation; -1 means never.
static struct {
    uint64_t begin;
    int64_t sign, gone, probe;
    uint64_t total, least, swap_total, swap_most; // KB
    uint64_t full_total, full_longest;            // ms
} seen = {.sign = -1, .gone = -1, .probe = -1, .least = UINT64_MAX};

static void sample(int meminfo, int pressure) {
    static char text[8192];
    reread(meminfo, text, sizeof text);
    uint64_t available = field(text, "MemAvailable:"), swap_used;
    seen.total = field(text, "MemTotal:");
    seen.swap_total = field(text, "SwapTotal:");
    swap_used = seen.swap_total - field(text, "SwapFree:");
    if (available < seen.least) seen.least = available;
    if (swap_used > seen.swap_most) seen.swap_most = swap_used;
    if (seen.sign < 0 && available < seen.total / 4) seen.sign = now() - seen.begin;

    // The longest sequence of 100 ms windows in which all tasks stalled for at least half of the time.
    static uint64_t window, window_total, row, first_total;
    reread(pressure, text, sizeof text);
    const char *full = strstr(text, "full");
    uint64_t total = full ? field(full, "total=") / 1000 : 0, time = now();
    if (!window) window = time, first_total = window_total = total;
    seen.full_total = total - first_total;
    if (time - window < 100) return;
    row = (total - window_total) * 2 >= time - window ? row + (time - window) : 0;
    if (row > seen.full_longest) seen.full_longest = row;
    window = time, window_total = total;
}

// Prints one line of JSON: `NOW` each second, so that something is known if the guest dies, and `END`.
static void tell(const char *word) {
    uint64_t time = now(), heard = time;
    for (int i = 0; i < count_watched; i++)
        if (!strcmp(watched[i].name, "beat") && watched[i].died) heard = watched[i].died;
    uint64_t silent = page->beat && heard > page->beat ? heard - page->beat : 0;
    uint64_t gap = silent > page->gap ? silent : page->gap;
    printf("%s {\"at_ms\":%lu,\"sign_ms\":%ld,\"gone_ms\":%ld,\"total_kb\":%lu,\"least_kb\":%lu,"
           "\"swap_total_kb\":%lu,\"swap_most_kb\":%lu,\"gap_ms\":%lu,\"silent_ms\":%lu,\"full_total_ms\":%lu,"
           "\"full_longest_ms\":%lu,\"eaten_kb\":%lu,\"probe_ms\":%ld,\"died\":{",
           word, time - seen.begin, seen.sign, seen.gone, seen.total, seen.least, seen.swap_total, seen.swap_most, gap,
           silent, seen.full_total, seen.full_longest, (uint64_t)page->eaten, seen.probe);
    const char *comma = "";
    for (int i = 0; i < count_watched; i++) {
        if (!watched[i].died) continue;
        printf("%s\"%s\":%ld", comma, watched[i].name, (int64_t)(watched[i].died - seen.begin));
        comma = ",";
    }
    printf("}}\n");
    fflush(stdout);
}

// Returns the time in which an ordinary process can be started, at most 5 s; -1 if it takes longer or fails.
static int64_t probe(void) {
    uint64_t start = now();
    pid_t child = fork();
    if (child == 0) {
        struct sched_param normal = {0};
        sched_setscheduler(0, SCHED_OTHER, &normal);
        int adjust = open("/proc/self/oom_score_adj", O_WRONLY);
        if (write(adjust, "0", 1) == 1) execl("/usr/bin/true", "true", NULL);
        _exit(1);
    }
    if (child < 0) return -1;
    int status, fd = syscall(SYS_pidfd_open, child, 0);
    struct pollfd wait = {fd, POLLIN, 0};
    if (poll(&wait, 1, 5000) != 1) return -1;
    waitpid(child, &status, 0);
    return status == 0 ? (int64_t)(now() - start) : -1;
}

static void watch(const char *word) {
    char *end = strchr(word, '=');
    pid_t pid = end ? atoi(end + 1) : 0;
    if (pid <= 0 || count_watched == WATCHED) return;
    int fd = syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) die(word);
    snprintf(watched[count_watched].name, sizeof watched[0].name, "%.*s", (int)(end - word), word);
    watched[count_watched++].fd = (struct pollfd){fd, POLLIN, 0};
}

// Samples every 10 ms, with real-time priority and locked memory, until two seconds after the exit of the memory hog,
// or until `limit`. The memory hog has exited when no process has its socket open any more.
void observe(uint64_t limit, int count, char **words) {
    for (int i = 0; i < count; i++) watch(words[i]);
    int meminfo = open("/proc/meminfo", O_RDONLY), pressure = open("/proc/pressure/memory", O_RDONLY);
    struct sockaddr_un address;
    socklen_t length;
    int door = alive(&address, &length);
    struct pollfd eater = {-1, POLLRDHUP, 0};
    if (meminfo < 0 || pressure < 0 || bind(door, (void *)&address, length) || listen(door, 1)) die("what is observed");
    fcntl(door, F_SETFL, O_NONBLOCK);
    struct sched_param first = {.sched_priority = 50};
    if (mlockall(MCL_CURRENT | MCL_FUTURE) || sched_setscheduler(0, SCHED_FIFO, &first)) die("rights");
    seen.begin = now();
    sample(meminfo, pressure);
    if (creat("/run/lab/observer.ready", 0644) < 0) die("/run/lab/observer.ready");
    for (uint64_t told = now();; rest(10)) {
        sample(meminfo, pressure);
        for (int i = 0; i < count_watched; i++)
            if (!watched[i].died && poll(&watched[i].fd, 1, 0) == 1) watched[i].died = now();
        if (eater.fd < 0) eater.fd = accept(door, NULL, NULL);
        if (eater.fd >= 0) poll(&eater, 1, 0);
        if (seen.gone < 0 && eater.revents & (POLLHUP | POLLRDHUP)) seen.gone = now() - seen.begin;
        uint64_t time = now() - seen.begin;
        if (time >= limit * 1000 || (seen.gone >= 0 && time >= (uint64_t)seen.gone + 2000)) break;
        if (now() - told < 1000) continue;
        told += 1000;
        tell("NOW");
    }
    seen.probe = probe();
    tell("END");
}
