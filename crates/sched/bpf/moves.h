/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Running tasks that should be in another cluster: when one is moved, and what came of it.
 */
#pragma once
#include "claim.h"
#include "queues.h"

/* Running tasks are moved when they were in the wrong place for so long. */
#define PATIENCE_NS 6000000ULL
/* A task that may use only some CPUs, and none of another cluster that has idle ones, stays for so long. */
#define STAY_NS 1000000000ULL

/* Notes what came of the request to move a task: `chosen` is the idle CPU that it gets, NULL if there is none. */
INLINE void has_moved(struct task_struct *p, struct task *task, struct cpu *here, struct cpu *chosen)
{
	task->move = 0;
	if (chosen && chosen->cluster != here->cluster)
		__sync_fetch_and_add(&chosen->moved, 1);
	else if ((u32)p->nr_cpus_allowed < VALUE(possible_cpus))
		task->stays_ns = bpf_ktime_get_ns() + STAY_NS;
}

/* Whether a running task should be in another cluster, which has an idle CPU. */
INLINE bool is_misplaced(struct task_struct *p, bool pack, struct cpu *cpu, struct cluster *cluster)
{
	u32 i, count = VALUE(llc_count);
	bool found = false;

	if (pack) {
		s32 number = home_of(p, cpu->cluster);
		struct cluster *home;

		if (number < 0 || number == (s32)cpu->cluster)
			return false;
		home = cluster_at(number);
		return home && home->idle;
	}
	if (cluster->idle + 1 >= cluster->size)
		return false;
	FOR (i, 0, count < LLCS_PER_CHOICE ? count : LLCS_PER_CHOICE) {
		struct llc *llc = llc_at(near(cluster->llc, i));

		if (llc && llc->idle_clusters) {
			found = true;
			break;
		}
	}
	return found;
}
