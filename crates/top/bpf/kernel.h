/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the programs use of the kernel: fields of its types, which the loader finds in the running kernel by name. */
#pragma once
#include "manycore_bpf.h"

struct sched_info {
	unsigned long pcount;
	u64 run_delay;
	u64 last_queued;
} RELOCATED;

struct thread_info {
	u32 cpu;
} RELOCATED;

struct rq {
	u64 clock;
} RELOCATED;

struct cfs_rq {
	struct rq *rq;
} RELOCATED;

struct sched_entity {
	struct cfs_rq *cfs_rq;
} RELOCATED;

struct task_struct {
	struct thread_info thread_info;
	int pid;
	int tgid;
	u64 start_boottime;
	char comm[16];
	struct sched_entity se;
	struct sched_info sched_info;
} RELOCATED;

/* The state of a task that ends (include/linux/sched.h). */
#define TASK_DEAD 0x0080
