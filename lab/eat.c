// The programs of lab/memory's guests, in one file: memory hogs, processes that must not suffer from them (innocents),
// and the observer that reports what happened. Linked statically. The first argument selects the program.
//
//   eat fast                 allocates and touches memory as fast as possible
//   eat leak MB              the same, MB megabytes each second
//   eat forks RATE           processes of 4 MB, RATE new ones each second; any survivor goes on forking
//   eat erlang               an Erlang node that spawns processes of some KB for ever
//   eat mmap                 shared anonymous mappings, touched
//   eat mmap-private FILE    private mappings of a file, written to
//   eat mmap-tmp FOLDER      a file in this tmpfs, mapped and written to
//   eat tmpfs FOLDER         files written into this tmpfs and closed
//   eat memfd                one memfd, written to
//   eat sysv                 System V segments, touched and detached
//   eat pipes                pipes of 1 MB, filled
//   eat sockets              pairs of sockets, filled
//   eat immune               like fast, as user 1000 and with the name sshd
//   eat crowd COUNT          COUNT idle processes, then one like fast
//   eat cookie MB            like leak, as user 1000 and as an Erlang node whose cookie is a link to /dev/zero
//   eat spike PERCENT        like fast until PERCENT are available, holds the memory for 3 s, and exits by itself
//   eat cache SECONDS FILE   reads a file larger than memory, by read and through a mapping; exits by itself
//
//   eat hold PERCENT         innocent: holds this part of memory, touches all of it every two seconds
//   eat beat                 innocent: writes a time stamp and reads one page of a file every 50 ms
//   eat idle                 innocent: waits
//
//   eat take MB US [deaf]    for tests of thresholds, outside of the laboratory: takes a megabyte every US microseconds
//                            until it has MB (0: for ever), prints a line, and exits when its input ends; deaf: ignores
//                            SIGTERM
//
//   eat observe LIMIT NAME=PID ...   observes for LIMIT seconds, or until the memory hog has exited; see observe()
//
// All times are CLOCK_MONOTONIC in milliseconds, comparable within one guest. All files are below /run/lab.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MB (1024UL * 1024)
#define PAGE 4096UL

// The content of /run/lab/page, which the observer keeps in memory.
struct page {
    _Atomic uint64_t beat;      // time of the last beat, ms
    _Atomic uint64_t gap;       // the longest time between two beats, ms
    _Atomic uint64_t eaten;     // memory taken by the memory hog, KB
    _Atomic uint64_t next_fork; // time when the next process may be forked, ms
};
static struct page *page;

static void die(const char *what) {
    fprintf(stderr, "eat: %s: %s\n", what, strerror(errno));
    exit(3);
}

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000UL + t.tv_nsec / 1000000;
}

static void rest(uint64_t ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static void map_page(void) {
    int file = open("/run/lab/page", O_RDWR);
    if (file < 0) die("/run/lab/page");
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) die("/run/lab/page");
    close(file);
}

static void touch(char *memory, size_t size) {
    for (size_t at = 0; at < size; at += PAGE) *(volatile char *)(memory + at) += 1;
}

// Counts memory that was taken, and logs `ms MB` every 16 MB.
static void ate(size_t size) {
    uint64_t kb = size / 1024, sum = page->eaten += kb;
    if (sum / 16384 == (sum - kb) / 16384) return;
    char line[64];
    int length = snprintf(line, sizeof line, "%lu %lu\n", now(), sum / 1024);
    int file = open("/run/lab/eater.log", O_WRONLY | O_APPEND);
    if (file < 0) return;
    if (write(file, line, length) < 0) { /* it is a log */ }
    close(file);
}

// --- memory hogs ---

static void leak(uint64_t rate) {
    for (uint64_t start = now(), sum = 0;;) {
        if (rate && sum >= (now() - start) * rate / 1000) {
            rest(50);
            continue;
        }
        char *more = malloc(MB);
        if (!more) {
            rest(10);
            continue;
        }
        touch(more, MB);
        ate(MB);
        sum++;
    }
}

static void forks(uint64_t rate) {
    signal(SIGCHLD, SIG_IGN);
    for (char *held = NULL;;) {
        free(held); // the copy of the parent's
        held = malloc(4 * MB);
        if (held) touch(held, 4 * MB);
        ate(4 * MB);
        // The first process that is awake when the time comes forks.
        for (;;) {
            uint64_t next = page->next_fork, time = now();
            if (time >= next && __atomic_compare_exchange_n((uint64_t *)&page->next_fork, &next,
                                    time + 1000 / rate, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
                fork() == 0)
                break;
            rest(100);
        }
    }
}

// Maps and touches 8 MB at a time of the file `name`, or of anonymous memory without a name.
static void mappings(int flags, const char *name, int grows) {
    int file = name ? open(name, grows ? O_RDWR | O_CREAT : O_RDONLY, 0600) : -1;
    if (name && file < 0) die(name);
    for (uint64_t at = 0;;) {
        if (grows && ftruncate(file, at + 8 * MB)) die("ftruncate");
        char *more = mmap(NULL, 8 * MB, PROT_READ | PROT_WRITE, flags, file, file < 0 ? 0 : at);
        if (more == MAP_FAILED) {
            rest(10);
            continue;
        }
        for (int i = 0; i < 8; i++) {
            touch(more + i * MB, MB);
            ate(MB);
        }
        at += 8 * MB;
    }
}

static void fill(const char *folder) {
    static char block[MB];
    memset(block, 7, sizeof block);
    for (int number = 0;; number++) {
        char name[256];
        snprintf(name, sizeof name, "%s/%d", folder, number);
        int file = open(name, O_WRONLY | O_CREAT, 0600);
        for (int i = 0; i < 16; i++) {
            ssize_t written = file < 0 ? -1 : write(file, block, sizeof block);
            if (written > 0) ate(written);
            if (written < 0) rest(100);
        }
        if (file >= 0) close(file);
    }
}

static char block[MB];

static void memfd(void) {
    int file = memfd_create("eater", 0);
    if (file < 0) die("memfd_create");
    for (memset(block, 1, MB);;) {
        ssize_t written = write(file, block, MB);
        if (written > 0) ate(written);
        if (written < 0) rest(10);
    }
}

static void segments(void) {
    for (;;) {
        int id = shmget(IPC_PRIVATE, 4 * MB, 0600);
        void *memory = id < 0 ? (void *)-1 : shmat(id, NULL, 0);
        if (memory == (void *)-1) {
            rest(10);
            continue;
        }
        touch(memory, 4 * MB);
        shmdt(memory);
        ate(4 * MB);
    }
}

// Opens pairs of descriptors and writes to the second one until the buffer is full.
static void buffers(int pair(int *)) {
    struct rlimit most;
    getrlimit(RLIMIT_NOFILE, &most);
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
    for (int both[2];;) {
        if (pair(both)) {
            rest(10);
            continue;
        }
        fcntl(both[1], F_SETFL, O_NONBLOCK);
        for (ssize_t written; (written = write(both[1], block, 64 * 1024)) > 0;) ate(written);
    }
}

static int pipe_pair(int *both) {
    if (pipe(both)) return -1;
    fcntl(both[1], F_SETPIPE_SZ, MB);
    return 0;
}

static int socket_pair(int *both) {
    int size = MB;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, both)) return -1;
    return setsockopt(both[1], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
}

static void become_user(const char *name) {
    if (getuid() == 0 && (setgid(1000) || setuid(1000))) die("setuid");
    prctl(PR_SET_NAME, name);
}

static void crowd(uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        pid_t child = fork();
        if (child == 0)
            for (;;) pause();
        if (child < 0) rest(10);
    }
    if (fork() == 0) leak(0);
    for (;;) pause();
}

// A node does not exit at once. If it did, its command line would be gone when the guard reads it.
static void end_as_a_node(int number) {
    (void)number;
    sleep(1);
    _exit(0);
}

static void cookie(int count, char **words) {
    if (count > 2) { // as started below
        signal(SIGTERM, end_as_a_node);
        become_user("beam.smp");
        leak(atoi(words[1]));
    }
    mkdir("/tmp/node", 0755);
    if (symlink("/dev/zero", "/tmp/node/.erlang.cookie") && errno != EEXIST) die("/tmp/node");
    char *line[] = {"beam.smp", "cookie", words[1], "-sname", "node", NULL}, *home[] = {"HOME=/tmp/node", NULL};
    execve("/proc/self/exe", line, home);
    die("/proc/self/exe");
}

static uint64_t field(const char *text, const char *name);
static void reread(int file, char *text, size_t size);

static void spike(uint64_t percent) {
    static char text[8192];
    int meminfo = open("/proc/meminfo", O_RDONLY);
    if (meminfo < 0) die("/proc/meminfo");
    for (;;) {
        reread(meminfo, text, sizeof text);
        if (field(text, "MemAvailable:") * 100 <= field(text, "MemTotal:") * percent) break;
        char *more = malloc(MB);
        if (more) touch(more, MB);
        ate(MB);
    }
    rest(3000);
    if (creat("/run/lab/shared/done", 0644) < 0) die("/run/lab/shared/done");
    exit(0);
}

static void read_cache(uint64_t seconds, const char *name) {
    int file = open(name, O_RDONLY);
    if (file < 0) die(name);
    uint64_t size = lseek(file, 0, SEEK_END), end = now() + seconds * 1000;
    for (uint64_t at = 0; now() < end; at = (at + 64 * MB) % (size - 64 * MB)) {
        for (int i = 0; i < 32; i++)
            if (pread(file, block, MB, at + i * MB) < 0) die(name);
        char *map = mmap(NULL, 32 * MB, PROT_READ, MAP_SHARED, file, at + 32 * MB);
        if (map == MAP_FAILED) die(name);
        for (size_t i = 0; i < 32 * MB; i += PAGE) (void)*(volatile char *)(map + i);
        munmap(map, 32 * MB);
        ate(64 * MB);
    }
    // Reported in a file, because systemd takes an exit by SIGTERM for a success and forgets it.
    if (creat("/run/lab/shared/done", 0644) < 0) die("/run/lab/shared/done");
    exit(0);
}

static void erlang(void) {
    setenv("HOME", "/tmp", 0); // erl needs it, and a service does not have it
    execl("/usr/bin/erl", "erl", "+P", "10000000", "-noshell", "-eval",
          "F = fun F() -> spawn(fun() -> L = lists:seq(1, 500), receive X -> X ! L end end), F() end, F().", NULL);
    die("/usr/bin/erl");
}

// An abstract socket, by which the observer detects that the last process of the memory hog has exited. Thus no open
// file of the memory hog reveals where its memory is.
static int alive(struct sockaddr_un *address, socklen_t *length) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX, .sun_path = "\0lab-eater"};
    *length = offsetof(struct sockaddr_un, sun_path) + sizeof "\0lab-eater" - 1;
    return socket(AF_UNIX, SOCK_STREAM, 0);
}

static void eater(int count, char **words) {
    struct sockaddr_un address;
    socklen_t length;
    int way = alive(&address, &length);
    // After an exec of itself it has the connection already.
    int is_again = getenv("HOME") && !strcmp(getenv("HOME"), "/tmp/node");
    if (!is_again && connect(way, (void *)&address, length)) die("the observer");
    const char *kind = words[0], *first = count > 1 ? words[1] : "";
    if (!strcmp(kind, "fast")) leak(0);
    if (!strcmp(kind, "leak")) leak(atoi(first));
    if (!strcmp(kind, "forks")) forks(atoi(first));
    if (!strcmp(kind, "erlang")) erlang();
    if (!strcmp(kind, "mmap")) mappings(MAP_SHARED | MAP_ANONYMOUS, NULL, 0);
    if (!strcmp(kind, "mmap-private")) mappings(MAP_PRIVATE, first, 0);
    if (!strcmp(kind, "mmap-tmp")) {
        char name[256];
        snprintf(name, sizeof name, "%s/mapped", first);
        mappings(MAP_SHARED, name, 1);
    }
    if (!strcmp(kind, "tmpfs")) fill(first);
    if (!strcmp(kind, "memfd")) memfd();
    if (!strcmp(kind, "sysv")) segments();
    if (!strcmp(kind, "pipes")) buffers(pipe_pair);
    if (!strcmp(kind, "sockets")) buffers(socket_pair);
    if (!strcmp(kind, "immune")) become_user("sshd"), leak(0);
    if (!strcmp(kind, "crowd")) crowd(atoi(first));
    if (!strcmp(kind, "cookie")) cookie(count, words);
    if (!strcmp(kind, "spike")) spike(atoi(first));
    if (!strcmp(kind, "cache") && count > 2) read_cache(atoi(first), words[2]);
    fprintf(stderr, "eat: unknown memory hog: %s\n", kind);
    exit(2);
}

// --- innocents ---

static void hold(uint64_t percent) {
    size_t size = sysconf(_SC_PHYS_PAGES) * PAGE * percent / 100;
    char *memory = malloc(size);
    if (!memory) die("malloc");
    for (int first = 1;; first = 0) {
        touch(memory, size);
        if (first && creat("/run/lab/hold.ready", 0644) < 0) die("/run/lab/hold.ready");
        rest(2000);
    }
}

static void beat(void) {
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
static void take(uint64_t most, uint64_t us, int is_deaf) {
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

// --- the observer ---

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

static uint64_t field(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

// Reads the file from its start through an open descriptor, for which the kernel needs no memory.
static void reread(int file, char *text, size_t size) {
    ssize_t length = pread(file, text, size - 1, 0);
    text[length > 0 ? length : 0] = 0;
}

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
static void observe(uint64_t limit, int count, char **words) {
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

int main(int count, char **words) {
    if (count < 2) {
        fprintf(stderr, "eat: the name of a program is expected\n");
        return 2;
    }
    const char *kind = words[1];
    // This one keeps the name of its executable.
    if (!strcmp(kind, "take") && count > 3) take(atoi(words[2]), atoi(words[3]), count > 4);
    char name[32];
    int innocent = !strcmp(kind, "hold") || !strcmp(kind, "beat") || !strcmp(kind, "idle");
    snprintf(name, sizeof name, "%s%s", innocent ? "" : "eat-", kind);
    prctl(PR_SET_NAME, name);
    map_page();
    if (!strcmp(kind, "hold") && count > 2) hold(atoi(words[2]));
    if (!strcmp(kind, "beat")) beat();
    if (!strcmp(kind, "idle"))
        for (;;) pause();
    if (!strcmp(kind, "observe") && count > 2)
        observe(atoi(words[2]), count - 3, words + 3);
    else
        eater(count - 1, words + 1);
}
