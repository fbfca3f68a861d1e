/* A program that executes itself in the way that its first argument selects. The second instance shares a line
   between two threads, which alternate even on a busy machine. */
#define _GNU_SOURCE
#include "turns.h"
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct { _Alignas(64) volatile long own[2]; } shared;
static void touch(int me) {
    shared.own[me] += 1;
}

/* Returns an anonymous copy of the file. */
static int copied(const char *file) {
    char bytes[4096];
    int from = open(file, O_RDONLY), to = memfd_create("copy", MFD_CLOEXEC);
    ssize_t count;
    while ((count = read(from, bytes, sizeof bytes)) > 0)
        if (write(to, bytes, (size_t)count) != count)
            return -1;
    return to;
}

extern char **environ;

int main(int count, char **arguments) {
    const char *route = count > 1 ? arguments[1] : "", *self = arguments[0];
    char *words[] = { arguments[0], "share", NULL }, *none[] = { NULL };
    int status = 0;
    pid_t child = 0;
    if (!strcmp(route, "share")) {
        in_turns();
        return 0;
    }
    if (!strcmp(route, "execl"))
        execl(self, self, "share", (char *)NULL);
    else if (!strcmp(route, "execlp"))
        execlp(self, self, "share", (char *)NULL);
    else if (!strcmp(route, "execle"))
        execle(self, self, "share", (char *)NULL, none);
    else if (!strcmp(route, "syscall"))
        syscall(SYS_execve, self, words, none);
    else if (!strcmp(route, "execveat"))
        syscall(SYS_execveat, open(self, O_PATH | O_CLOEXEC), "", words, environ, AT_EMPTY_PATH);
    else if (!strcmp(route, "fexecve"))
        fexecve(open(self, O_RDONLY | O_CLOEXEC), words, environ);
    else if (!strcmp(route, "memfd"))
        fexecve(copied(self), words, environ);
    else if (!strcmp(route, "self"))
        execv("/proc/self/exe", words);
    else if (!strcmp(route, "link")) {
        char link[] = "/tmp/routes-XXXXXX";
        if (!mkdtemp(link))
            return 8;
        if (chdir(link) || symlink("/proc/self/exe", "self")) {
            rmdir(link);
            return 8;
        }
        child = fork();
        if (!child)
            execl("./self", "self", "share", (char *)NULL);
    } else if (!strcmp(route, "vfork")) {
        child = vfork();
        if (!child) {
            execl(self, self, "share", (char *)NULL);
            _exit(9);
        }
    } else if (!strcmp(route, "spawn"))
        status = posix_spawn(&child, self, NULL, NULL, words, none);
    else if (!strcmp(route, "shell")) {
        setenv("SELF", self, 1);
        return system("exec \"$SELF\" share");
    }
    if (child <= 0 || status || waitpid(child, &status, 0) != child)
        return 9;
    if (!strcmp(route, "link") && (unlink("self") || rmdir(get_current_dir_name())))
        return 8;
    return WEXITSTATUS(status);
}
