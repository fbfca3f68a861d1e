// What the programs of lab/memory's guests have in common: see main.c.
#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#define MB (1024UL * 1024)
#define PAGE 4096UL

// The content of /run/lab/page, which the observer keeps in memory.
struct page {
    _Atomic uint64_t beat;      // time of the last beat, ms
    _Atomic uint64_t gap;       // the longest time between two beats, ms
    _Atomic uint64_t eaten;     // memory taken by the memory hog, KB
    _Atomic uint64_t next_fork; // time when the next process may be forked, ms
};
extern struct page *page;

// Prints what failed, with errno, and exits with 3.
void die(const char *what) __attribute__((noreturn));
// Returns the time of CLOCK_MONOTONIC in ms.
uint64_t now(void);
void rest(uint64_t ms);
// Writes to each page.
void touch(char *memory, size_t size);
// Returns the number after `name` in the text of a file such as /proc/meminfo; 0 without the name.
uint64_t field(const char *text, const char *name);
// Reads the file from its start through an open descriptor, for which the kernel needs no memory.
void reread(int file, char *text, size_t size);
// An abstract socket, by which the observer detects that the last process of the memory hog has exited. Thus no open
// file of the memory hog reveals where its memory is.
int alive(struct sockaddr_un *address, socklen_t *length);

// hogs.c: the memory hog that the first word names.
void eater(int count, char **words);
// bystanders.c
void hold(uint64_t percent);
void beat(void);
void take(uint64_t most, uint64_t us, int is_deaf);
// observe.c
void observe(uint64_t limit, int count, char **words);
