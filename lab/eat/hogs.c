// Memory hogs. Each runs until it is killed, if main.c does not say otherwise.
#include "eat.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

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

void eater(int count, char **words) {
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
