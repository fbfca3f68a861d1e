/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The weight of a task among all others that are runnable now. Each control group shares its weight among its runnable
 * tasks and groups, so that the weight of a task is its own one times the share of each group above it.
 */
#pragma once
#include "kernel.h"

/* Weights of groups are looked up again after this time. */
#define WEIGHT_LIFE_NS 10000000ULL
/* Levels of groups that have a weight. */
#define DEPTH 16
/* Virtual time runs at the speed of the clock for this weight, in fixed point. */
#define UNIT_WEIGHT (100ULL << 10)

/* What is kept for each task. */
struct weight {
	u64 counted; /* what its group counts for it; 0: not runnable */
	u64 share; /* of the machine, UNIT_WEIGHT for a task of weight 100 in no group */
	u64 looked_up_ns; /* when `share` was; 0: it has to be */
};

/* What is kept for each control group. */
struct group {
	u64 weight;
	u64 load; /* weights of its runnable tasks and groups */
	u64 active; /* number of them */
	u64 counted; /* what the parent counts for it */
};
MAP(groups) = { BPF_MAP_TYPE_CGRP_STORAGE, 4, sizeof(struct group), 0, BPF_F_NO_PREALLOC };
/* Whether this kernel keeps data for control groups with weights. */
CONSTANT(has_scx_bpf_task_cgroup);

INLINE u64 weight_of(struct group *group)
{
	return group->weight ? group->weight : 100;
}

/* Adds a task to its group, or removes it, and a group that becomes active or ceases to be to its parent. */
INLINE void count_in_groups(struct task_struct *p, struct weight *own, bool add)
{
	struct cgroup *cgroup;
	s64 weight;
	int level, i, top;

	if (!VALUE(has_scx_bpf_task_cgroup))
		return;
	if (add == !!own->counted)
		return;
	weight = add ? p->scx.weight : own->counted;
	own->counted = add ? weight : 0;
	own->looked_up_ns = 0;
	cgroup = scx_bpf_task_cgroup(p);
	if (!cgroup)
		return;
	top = cgroup->level;
	FOR (i, 0, DEPTH) {
		struct cgroup *at;
		struct group *group;
		s64 active;

		level = top - i;
		if (level < 0)
			break;
		at = bpf_cgroup_ancestor(cgroup, level);
		if (!at)
			break;
		group = bpf_cgrp_storage_get(&groups, at, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
		bpf_cgroup_release(at);
		if (!group)
			break;
		__sync_fetch_and_add(&group->load, add ? weight : -weight);
		active = __sync_fetch_and_add(&group->active, add ? 1 : -1);
		if (active != (add ? 0 : 1))
			break;
		/* The group itself counts for its parent from now on, or no longer. */
		if (add)
			group->counted = weight_of(group);
		weight = group->counted;
	}
	bpf_cgroup_release(cgroup);
}

/* Returns the share of a task, of all tasks that are runnable now, in units of UNIT_WEIGHT. */
INLINE u64 weigh(struct task_struct *p, struct weight *own, u64 now)
{
	u64 weight = (u64)p->scx.weight << 10;
	struct cgroup *cgroup;
	int i, top;

	if (!VALUE(has_scx_bpf_task_cgroup))
		return weight;
	if (own->looked_up_ns && now - own->looked_up_ns < WEIGHT_LIFE_NS)
		return own->share;
	cgroup = scx_bpf_task_cgroup(p);
	if (!cgroup)
		return weight;
	top = cgroup->level;
	FOR (i, 0, DEPTH) {
		struct cgroup *at;
		struct group *group;
		u64 load;

		/* The root has no weight. */
		if (top - i <= 0)
			break;
		at = bpf_cgroup_ancestor(cgroup, top - i);
		if (!at)
			break;
		group = bpf_cgrp_storage_get(&groups, at, NULL, 0);
		bpf_cgroup_release(at);
		if (!group)
			continue;
		load = group->load;
		if ((s64)load > 0)
			weight = weight * weight_of(group) / load;
	}
	bpf_cgroup_release(cgroup);
	own->share = weight ? weight : 1;
	own->looked_up_ns = now;
	return own->share;
}
