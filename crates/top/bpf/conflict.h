/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The time in which two watched tasks run in one cluster while another cluster is idle, exactly and without a lock.
 *
 * A CPU changes the count of its cluster only when it becomes idle or busy, and the counts of the machine only when its
 * cluster becomes idle or shared by that, or ends to be. The atomic change of the machine's counts also says whether it
 * begins or ends a conflict: its time is subtracted or added. All ends less all begins is the time of all conflicts, in
 * whatever order they are added.
 */
#pragma once
#include "kernel.h"

/* Added to the number of idle clusters, which may be below 0 for a moment: changes can arrive in another order. */
#define BIAS (1 << 20)

struct cluster {
	/* Its busy CPUs, and from bit 32 those on which a watched task runs. */
	u64 running;
	u64 unused[7];
};

struct machine {
	/* Idle clusters plus BIAS, and from bit 32 those on which at least two watched tasks run. */
	u64 clusters;
	/* Time of conflicts in nanoseconds; one that has not ended is missing, and its begin is subtracted. */
	u64 conflict;
};

ARRAY(struct cluster, clusters, 8192);
ARRAY(struct machine, machine, 1);

/* The number of `clusters`. */
CONSTANT(cluster_count);

/* What a CPU does. */
enum { IDLE, BUSY, WATCHED };

INLINE bool is_conflict(u64 clusters)
{
	return (s32)(clusters >> 32) > 0 && (s32)(u32)clusters > BIAS;
}

/* Counts that a CPU of a cluster did `old`, and does `new` from now on. */
INLINE void change(u64 number, u64 old, u64 new, u64 now)
{
	u64 difference = (u64)(new != IDLE) - (old != IDLE) + (((u64)(new == WATCHED) - (old == WATCHED)) << 32);
	u64 before, after;

	if (number >= VALUE(cluster_count))
		return;
	before = __sync_fetch_and_add(&clusters[number].running, difference);
	after = before + difference;
	difference = (u64)!(u32)after - !(u32)before;
	difference += ((u64)(after >> 32 >= 2) - (before >> 32 >= 2)) << 32;
	if (!difference)
		return;
	before = __sync_fetch_and_add(&machine->clusters, difference);
	after = before + difference;
	if (is_conflict(after) && !is_conflict(before))
		__sync_fetch_and_add(&machine->conflict, -now);
	else if (is_conflict(before) && !is_conflict(after))
		__sync_fetch_and_add(&machine->conflict, now);
}
