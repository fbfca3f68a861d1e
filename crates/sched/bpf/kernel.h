/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the programs use of the kernel: fields of its types, which the loader finds in the running kernel by name, and
 * functions. Fields that are not used are left out.
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
#define unlikely(x) __builtin_expect(!!(x), 0)

/* A map, as the loader reads it. Numbers of entries that are 0 are set before loading. */
struct map {
	u32 kind;
	u32 key_bytes;
	u32 value_bytes;
	u32 entries;
	u32 flags;
};
#define MAP(name) struct map name SEC("manycore_maps")
#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_MAP_TYPE_CGRP_STORAGE 32
#define BPF_F_NO_PREALLOC (1 << 0)
#define BPF_F_MMAPABLE (1 << 10)
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

#define RELOCATED __attribute__((preserve_access_index))

struct cpumask;

struct kernfs_node {
	u64 id;
} RELOCATED;

struct cgroup {
	int level;
	struct kernfs_node *kn;
} RELOCATED;

struct css_set {
	struct cgroup *dfl_cgrp;
} RELOCATED;

struct sched_ext_entity {
	u32 flags;
	u32 weight;
	u64 slice;
	u64 dsq_vtime;
} RELOCATED;

struct task_struct {
	u32 flags;
	int nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct css_set *cgroups;
	struct sched_ext_entity scx;
} RELOCATED;

enum scx_exit_kind { SCX_EXIT_NONE };

struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	char *msg;
} RELOCATED;

struct scx_init_task_args {
	bool fork;
	struct cgroup *cgroup;
} RELOCATED;

struct scx_cgroup_init_args {
	u32 weight;
} RELOCATED;

struct bpf_iter_num {
	u64 opaque[1];
};

/* Helpers, by their numbers (include/uapi/linux/bpf.h). */
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static s64 (*const bpf_probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static void *(*const bpf_task_storage_get)(void *map, struct task_struct *task, void *value, u64 flags) = (void *)156;
static void *(*const bpf_cgrp_storage_get)(void *map, struct cgroup *cgroup, void *value, u64 flags) = (void *)210;

extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) KERNEL_FUNCTION;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) KERNEL_FUNCTION;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) KERNEL_FUNCTION;
extern bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask) KERNEL_FUNCTION;
extern struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgroup, int level) KERNEL_FUNCTION;
extern void bpf_cgroup_release(struct cgroup *cgroup) KERNEL_FUNCTION;

extern s32 scx_bpf_create_dsq(u64 id, s32 node) KERNEL_FUNCTION;
extern void scx_bpf_dsq_insert(struct task_struct *p, u64 id, u64 slice, u64 flags) KERNEL_FUNCTION;
extern void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 id, u64 slice, u64 vtime, u64 flags) KERNEL_FUNCTION;
extern bool scx_bpf_dsq_move_to_local(u64 id) KERNEL_FUNCTION;
extern s32 scx_bpf_dsq_nr_queued(u64 id) KERNEL_FUNCTION;
extern void scx_bpf_kick_cpu(s32 cpu, u64 flags) KERNEL_FUNCTION;
extern s32 scx_bpf_task_cpu(const struct task_struct *p) KERNEL_FUNCTION;
extern struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) KERNEL_FUNCTION;
extern bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) KERNEL_FUNCTION;
extern s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags) KERNEL_FUNCTION;
extern bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) KERNEL_FUNCTION;
extern bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime) KERNEL_FUNCTION;

/* Repeats a statement for `index` from `from` to `to` - 1; the verifier needs no bound. Leave it only by `break`. */
#define FOR(index, from, to)                                                                                           \
	for (struct bpf_iter_num it##index __attribute__((aligned(8), cleanup(bpf_iter_num_destroy))), \
	     *begun##index __attribute__((unused)) = (bpf_iter_num_new(&it##index, (from), (to)), &it##index);         \
	     ({ int *next##index = bpf_iter_num_next(&it##index); index = next##index ? *next##index : 0; next##index; });)

/* Flags of tasks (include/linux/sched.h). */
#define PF_KTHREAD 0x00200000

/* Of sched_ext's enums; the loader sets each to the running kernel's value. */
const volatile u64 SCX_DSQ_LOCAL SEC(".rodata");
const volatile u64 SCX_DSQ_LOCAL_ON SEC(".rodata");
const volatile u64 SCX_ENQ_WAKEUP SEC(".rodata");
const volatile u64 SCX_ENQ_PREEMPT SEC(".rodata");
const volatile u64 SCX_KICK_IDLE SEC(".rodata");
const volatile u64 SCX_KICK_PREEMPT SEC(".rodata");
const volatile u64 SCX_WAKE_SYNC SEC(".rodata");
const volatile u64 SCX_TASK_QUEUED SEC(".rodata");

/* Whether the kernel has these functions; set by the loader. Kernels without them let programs write the fields. */
const volatile bool has_scx_bpf_task_set_slice SEC(".rodata");
const volatile bool has_scx_bpf_task_set_dsq_vtime SEC(".rodata");
