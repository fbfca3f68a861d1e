/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What is known of the tasks that are off the CPU.
 *
 * An array costs a tenth of the kernel's storage for tasks. A task's place follows from its id, and belongs to it until it
 * ends. A task whose place belongs to another one gets storage.
 */
#pragma once
#include "kernel.h"

struct departure {
	/* The task to which the place belongs; 0 if to none. */
	u64 owner;
	/* When it left its CPU; 0 if it has not since counting began. */
	u64 at;
	/* All its waits until then. */
	u64 run_delay;
	/* One of the histograms. */
	u64 reason;
};

/* The size, a power of two, is set before loading. */
MAP(departures) = { BPF_MAP_TYPE_ARRAY, 4, sizeof(struct departure), 0, 0 };
MAP(further_departures) = { BPF_MAP_TYPE_TASK_STORAGE, 4, sizeof(struct departure), 0, BPF_F_NO_PREALLOC };

const volatile u32 departure_mask SEC(".rodata");

/* Returns what is known of a task; NULL if nothing is, or with `create` if there is no memory. */
INLINE struct departure *departure_of(struct task_struct *task, bool create)
{
	u64 tid = task->pid;
	u32 place = tid & departure_mask;
	struct departure *departure = bpf_map_lookup_elem(&departures, &place);

	if (!departure)
		return NULL;
	if (departure->owner == tid)
		return departure;
	if (!departure->owner) {
		if (!create)
			return NULL;
		if (!__sync_val_compare_and_swap(&departure->owner, 0, tid))
			return departure;
	}
	return bpf_task_storage_get(&further_departures, task, NULL, create ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
}

/* Frees the place of a task that ends. */
INLINE void forget(struct task_struct *task)
{
	u64 tid = task->pid;
	u32 place = tid & departure_mask;
	struct departure *departure = bpf_map_lookup_elem(&departures, &place);

	if (departure && departure->owner == tid) {
		departure->at = 0;
		__sync_fetch_and_sub(&departure->owner, tid);
	}
}
