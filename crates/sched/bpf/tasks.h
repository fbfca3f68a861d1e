/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What is kept for each task, and which policy it has: that of its control group, or that of all tasks.
 */
#pragma once
#include "groups.h"
#include "select.h"

#define SPREAD 0
#define PACK 1

/* Set by the loading program, at any time. */
struct control {
	u64 policy; /* of tasks for which no other is set */
	u64 generation; /* changes whenever policies do, so that tasks look up theirs again */
};
MAP(controls) = { BPF_MAP_TYPE_ARRAY, 4, sizeof(struct control), 1, BPF_F_MMAPABLE };

/* Policies of control groups, by their ids. */
MAP(policies) = { BPF_MAP_TYPE_HASH, 8, 8, 65536, BPF_F_NO_PREALLOC };

/* What is kept for each task. */
struct task {
	u64 woken_ns; /* 0: runs, or waits since it was preempted */
	u64 since_ns; /* runs since */
	struct weight weight;
	u64 policy;
	u64 group; /* control group of `policy` */
	u64 generation; /* of `policy` */
	u64 home; /* of the first thread: cluster + 1 of the process under pack; 0: none yet */
	u64 move; /* is to be moved to another cluster */
	u64 stays_ns; /* until then it is not moved: it may not use the clusters with idle CPUs */
	u64 queue; /* in which it waited last: cluster + 1 */
};
MAP(tasks) = { BPF_MAP_TYPE_TASK_STORAGE, 4, sizeof(struct task), 0, BPF_F_NO_PREALLOC };

INLINE struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

/* Returns the policy of a task: that of its control group, or that of all tasks. */
INLINE u64 policy_of(struct task_struct *p, struct task *task)
{
	u32 zero = 0;
	struct control *control = bpf_map_lookup_elem(&controls, &zero);
	u64 generation, key, *policy;
	struct css_set *set;

	if (!control)
		return SPREAD;
	generation = control->generation;
	set = p->cgroups;
	key = set ? set->dfl_cgrp->kn->id : 0;
	if (task->generation == generation + 1 && task->group == key)
		return task->policy;
	policy = bpf_map_lookup_elem(&policies, &key);
	task->policy = policy ? *policy : control->policy;
	task->generation = generation + 1;
	task->group = key;
	return task->policy;
}

/* Returns the cluster of a process under pack, which is that of `otherwise` from now on if it has none yet. */
INLINE s32 home_of(struct task_struct *p, s32 otherwise)
{
	struct task_struct *leader = p->group_leader;
	struct task *first = leader ? bpf_task_storage_get(&tasks, leader, NULL, 0) : NULL;

	if (!first)
		return NONE;
	if (!first->home && otherwise >= 0)
		first->home = otherwise + 1;
	return (s32)first->home - 1;
}
