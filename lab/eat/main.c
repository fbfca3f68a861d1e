// The programs of lab/memory's guests. Memory hogs are in hogs.c, processes that must not suffer from them in
// bystanders.c, the observer that reports what happened in observe.c. The first argument selects the program.
//
//   eat fast                 allocates and touches memory as fast as possible
//   eat leak MB              the same, MB megabytes each second
//   eat forks RATE           processes of 4 MB, RATE new ones each second; any survivor goes on forking
//   eat erlang               an Erlang node that spawns processes of some KB for ever
//   eat mmap                 shared anonymous mappings, touched
//   eat mmap-private FILE    private mappings of a file, written to
//   eat mmap-tmp DIRECTORY      a file in this tmpfs, mapped and written to
//   eat tmpfs DIRECTORY         files written into this tmpfs and closed
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
//   eat hold PERCENT         bystander: holds this part of memory, touches all of it every two seconds
//   eat beat                 bystander: writes a time stamp and reads one page of a file every 50 ms
//   eat idle                 bystander: waits
//
//   eat take MB US [deaf]    for tests of thresholds, outside of the laboratory: takes a megabyte every US microseconds
//                            until it has MB (0: for ever), prints a line, and exits when its input ends; deaf: ignores
//                            SIGTERM
//
//   eat observe LIMIT NAME=PID ...   observes for LIMIT seconds, or until the memory hog has exited; see observe()
//
// All times are CLOCK_MONOTONIC in milliseconds, comparable within one guest. All files are below /run/lab.
#include "eat.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

struct page *page;

static void map_page(void) {
    int file = open("/run/lab/page", O_RDWR);
    if (file < 0) die("/run/lab/page");
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) die("/run/lab/page");
    close(file);
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
    int is_bystander = !strcmp(kind, "hold") || !strcmp(kind, "beat") || !strcmp(kind, "idle");
    snprintf(name, sizeof name, "%s%s", is_bystander ? "" : "eat-", kind);
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
