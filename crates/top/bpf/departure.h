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
	/* When it left its CPU. */
	u64 at;
	/* All its waits until then. */
	u64 run_delay;
	/* Why it did. */
	u64 reason;
};

/* A power of two, so that most tasks of a machine with 100,000 have a place. */
#define PLACES (1 << 18)
ARRAY(struct departure, departures, PLACES);
MAP(further_departures) = { BPF_MAP_TYPE_TASK_STORAGE, 4, sizeof(struct departure), 0, BPF_F_NO_PREALLOC };

INLINE struct departure *place_of(u32 tid)
{
	return &departures[tid & (PLACES - 1)];
}

/* Returns true also for the idle tasks, whose id is 0: place 0 is nobody's. */
INLINE bool has_place(u32 tid)
{
	return place_of(tid)->owner == tid;
}

/* Returns what is known of a task; NULL if nothing is, or with `create` if there is no memory. */
INLINE struct departure *departure_of(struct task_struct *task, u32 tid, bool create)
{
	struct departure *departure = place_of(tid);

	if (has_place(tid))
		return departure;
	if (!departure->owner && departure != departures) {
		if (!create)
			return NULL;
		if (!__sync_val_compare_and_swap(&departure->owner, 0, tid))
			return departure;
	}
	return bpf_task_storage_get(&further_departures, task, NULL, create ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
}

/* Frees the place of a task that ends. */
INLINE void forget(u32 tid)
{
	if (has_place(tid))
		__sync_fetch_and_sub(&place_of(tid)->owner, (u64)tid);
}
