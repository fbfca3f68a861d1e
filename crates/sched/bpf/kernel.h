/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the programs use of the kernel: fields of its types, which the loader finds in the running kernel by name, and
 * functions. Fields that are not used are left out.
 */
#pragma once

#include "manycore_bpf.h"

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

/* A helper, by its number (include/uapi/linux/bpf.h). */
static void *(*const bpf_cgrp_storage_get)(void *map, struct cgroup *cgroup, void *value, u64 flags) = (void *)210;

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

/* Flags of tasks (include/linux/sched.h). */
#define PF_KTHREAD 0x00200000

/* Of sched_ext's enums; the loader sets each to the running kernel's value. */
CONSTANT(SCX_DSQ_LOCAL);
CONSTANT(SCX_DSQ_LOCAL_ON);
CONSTANT(SCX_ENQ_WAKEUP);
CONSTANT(SCX_ENQ_PREEMPT);
CONSTANT(SCX_KICK_IDLE);
CONSTANT(SCX_KICK_PREEMPT);
CONSTANT(SCX_WAKE_SYNC);
CONSTANT(SCX_TASK_QUEUED);

/* Whether the kernel has these functions; set by the loader. Kernels without them let programs write the fields. */
CONSTANT(has_scx_bpf_task_set_slice);
CONSTANT(has_scx_bpf_task_set_dsq_vtime);
