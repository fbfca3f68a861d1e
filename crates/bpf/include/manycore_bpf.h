/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What all BPF programs of this workspace use: names for types, declarations of maps as the loader reads them, helpers
 * and kinds of maps by their numbers (include/uapi/linux/bpf.h), and loops.
 */
#pragma once

typedef unsigned char u8;
typedef signed int s32;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed long long s64;
typedef _Bool bool;

#define true ((bool)1)
#define false ((bool)0)
#define NULL ((void *)0)
#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define KERNEL_FUNCTION __attribute__((section(".ksyms")))
#define likely(x) __builtin_expect(!!(x), 1)

/* A map, as the loader reads it. Numbers of entries that are 0 are set before loading. */
struct map {
	u32 kind;
	u32 key_bytes;
	u32 value_bytes;
	u32 entries;
	u32 flags;
};
#define MAP(name) struct map name SEC("manycore_maps")
/*
 * An array at a fixed address: access takes no lookup, and only the check of a bound that the verifier knows. The loader
 * treats it as a map; its number of entries is `most` or less.
 */
#define ARRAY(type, name, most) type name[most] SEC(".bss." #name)
/*
 * A constant of 64 bits, whose value the loader knows: the address of a symbol that is defined nowhere. So the verifier
 * and the compiler of the kernel know it too, and no memory is read. The symbol is weak, since clang takes any other
 * address for one that is not 0, and has bytes, since it takes the address of larger elements for a multiple of their size.
 */
#define CONSTANT(name) extern const u8 name[] __attribute__((weak))
#define VALUE(name) ((u64)(name))
#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_LRU_HASH 9
#define BPF_MAP_TYPE_RINGBUF 27
#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_MAP_TYPE_CGRP_STORAGE 32
#define BPF_F_NO_PREALLOC (1 << 0)
#define BPF_F_MMAPABLE (1 << 10)
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1
#define BPF_NOEXIST 1
#define BPF_RB_NO_WAKEUP 1

#define RELOCATED __attribute__((preserve_access_index))

struct task_struct;

struct bpf_iter_num {
	u64 opaque[1];
};

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static s64 (*const bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static s64 (*const bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static s64 (*const bpf_probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static void *(*const bpf_ringbuf_reserve)(void *map, u64 size, u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;
static void *(*const bpf_task_storage_get)(void *map, struct task_struct *task, void *value, u64 flags) = (void *)156;
static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;

extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) KERNEL_FUNCTION;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) KERNEL_FUNCTION;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) KERNEL_FUNCTION;

/* Repeats a statement for `index` from `from` to `to` - 1; the verifier needs no bound. Leave it only by `break`. */
#define FOR(index, from, to)                                                                                           \
	for (struct bpf_iter_num it##index __attribute__((aligned(8), cleanup(bpf_iter_num_destroy))), \
	     *begun##index __attribute__((unused)) = (bpf_iter_num_new(&it##index, (from), (to)), &it##index);         \
	     ({ int *next##index = bpf_iter_num_next(&it##index); index = next##index ? *next##index : 0; next##index; });)
