/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The queues of the clusters: with what virtual time a task waits, for how long it runs, whom it interrupts, and from which
 * other queue a CPU takes one.
 */
#pragma once
#include "tasks.h"

/* Time that a task may run before others of its queue. */
#define SLICE_NS 5000000ULL
#define SHORTEST_SLICE_NS 1000000ULL
/* A queue that is so far behind another in virtual time is served first. */
#define LAG_NS 10000000ULL
/* A task that did not sleep keeps so much virtual time that it is owed: next to it, a slice of a task of nice 10 is 46 ms
 * of virtual time. */
#define OWED_NS 100000000ULL
/* A task of little weight waits about so long for its next turn, however many others there are. The kernel removes a
 * scheduler under which one waits for 20 s (engine.rs). */
#define LONGEST_WAIT_NS 2000000000ULL
/* A waking task so far behind a running one takes its CPU. */
#define PREEMPT_NS 3000000ULL

/* The largest virtual time of all clusters, brought up to date from time to time. */
ARRAY(u64, virtual_now, 1);

INLINE bool before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

INLINE void set_slice(struct task_struct *p, u64 slice)
{
	if (VALUE(has_scx_bpf_task_set_slice))
		scx_bpf_task_set_slice(p, slice);
	else
		p->scx.slice = slice;
}

INLINE void set_vtime(struct task_struct *p, u64 vtime)
{
	if (VALUE(has_scx_bpf_task_set_dsq_vtime))
		scx_bpf_task_set_dsq_vtime(p, vtime);
	else
		p->scx.dsq_vtime = vtime;
}

/* Returns the time that a task may run: less where others wait. */
INLINE u64 slice_in(u64 waiting, u64 size)
{
	if (waiting >= 4 * size)
		return SHORTEST_SLICE_NS;
	return SLICE_NS / (1 + waiting / size);
}

/* Returns how much virtual time a task may be owed when it is queued. Sleeping saves no more than one slice; what a task
 * was owed in another queue is lost, or its new one would serve only such tasks. Kernel threads keep what they are owed:
 * others wait for them. */
INLINE u64 owed(struct task_struct *p, bool slept, bool came)
{
	if (p->flags & PF_KTHREAD)
		return OWED_NS;
	return slept ? SLICE_NS : came ? LAG_NS : OWED_NS;
}

/* Returns the virtual time with which a task is queued: its own, within limits. `waiting`: number of tasks in the queue;
 * `slept`: it wakes; `came`: it waited in another queue before. */
INLINE u64 vtime_in(struct cluster *cluster, u64 waiting, u64 size, struct task_struct *p, bool slept, bool came)
{
	u64 weight = cluster->weight ? cluster->weight : UNIT_WEIGHT, vtime = p->scx.dsq_vtime;
	u64 now = cluster->vtime, least, longest = LONGEST_WAIT_NS / (1 + waiting / size) * UNIT_WEIGHT / weight;

	/* A cluster that was idle is not behind the others. One in which tasks wait may be. */
	if (!waiting && before(now, *virtual_now - LAG_NS))
		now = *virtual_now - LAG_NS;
	least = now - owed(p, slept, came);
	/* `longest`: so much virtual time passes until the longest wait is over, the more, the less weight the others have. A
	 * kernel thread that wakes does not wait for what it used before, and another queue may have been ahead of this one. */
	if (slept && p->flags & PF_KTHREAD)
		longest = 0;
	else if (came && longest > OWED_NS)
		longest = OWED_NS;
	if (before(vtime, least))
		return least;
	return before(now + longest, vtime) ? now + longest : vtime;
}

/* Interrupts the task of the cluster that is furthest ahead of a waking one, if it is far enough and has run for a while. */
INLINE void preempt_in(struct cluster *cluster, struct task_struct *p, u64 vtime)
{
	u64 latest = vtime + PREEMPT_NS, now = bpf_ktime_get_ns();
	s32 found = NONE;
	u32 i;

	FOR (i, cluster->first, cluster->first + cluster->size) {
		u32 place = i;
		u64 *number = bpf_map_lookup_elem(&cpu_order, &place);
		struct cpu *cpu = number ? cpu_at(*number) : NULL;

		if (!cpu)
			break;
		if (cpu->tid && before(latest, cpu->vtime) && now - cpu->since_ns > SHORTEST_SLICE_NS &&
		    bpf_cpumask_test_cpu(*number, p->cpus_ptr)) {
			latest = cpu->vtime;
			found = *number;
		}
	}
	if (found != NONE)
		scx_bpf_kick_cpu(found, VALUE(SCX_KICK_PREEMPT));
}

/* Queues a task in the cluster of the number `to`. */
INLINE void queue_in(u32 to, struct cluster *cluster, struct task_struct *p, struct task *task, u64 flags)
{
	s32 queued = scx_bpf_dsq_nr_queued(to);
	u64 waiting = queued > 0 ? queued : 0, size = cluster->size ? cluster->size : 1;
	u64 vtime = vtime_in(cluster, waiting, size, p, flags & VALUE(SCX_ENQ_WAKEUP), task->queue != to + 1);

	task->queue = to + 1;
	scx_bpf_dsq_insert_vtime(p, to, slice_in(waiting, size), vtime, flags);
	/* Where many tasks wait, slices are short. */
	if (flags & VALUE(SCX_ENQ_WAKEUP) && waiting < 2 * size)
		preempt_in(cluster, p, vtime);
}

/* Returns the virtual time that a cluster has reached on a CPU. `prev`: the task that ran there, and may go on. */
INLINE u64 reached(struct cluster *cluster, struct task_struct *prev)
{
	struct task *task = prev && prev->scx.flags & VALUE(SCX_TASK_QUEUED) ? task_of(prev) : NULL;
	u64 now = bpf_ktime_get_ns(), weight, vtime;

	if (!task || !task->since_ns)
		return cluster->vtime;
	/* The kernel gives the control groups of a task only in other operations. */
	weight = task->weight.share ? task->weight.share : UNIT_WEIGHT;
	vtime = prev->scx.dsq_vtime + (now - task->since_ns) * UNIT_WEIGHT / weight;
	return before(cluster->vtime, vtime) ? vtime : cluster->vtime;
}

/* Takes a task from the queue of another cluster: of the same LLC, then of others, the nearest first. Without `any`, only
 * of clusters that are behind the virtual time `than`, in the own LLC and one other, in turn. */
INLINE bool steal(struct cpu *cpu, u32 own, bool any, u64 than)
{
	struct cluster *cluster = cluster_at(own);
	u32 i, j, count = any ? VALUE(llc_count) : VALUE(llc_count) < 2 ? VALUE(llc_count) : 2;
	bool done = false;

	if (!cluster)
		return false;
	FOR (i, 0, count < LLCS_PER_CHOICE ? count : LLCS_PER_CHOICE) {
		u32 place = any || !i ? i : 1 + (cpu->turns >> 2) % (VALUE(llc_count) - 1);
		struct llc *llc = llc_at(near(cluster->llc, place));

		if (!llc)
			break;
		FOR (j, llc->first, llc->first + llc->size) {
			struct cluster *other = cluster_at(j);

			if (!other || j == own)
				continue;
			if (!any && !before(other->vtime, than))
				continue;
			if (scx_bpf_dsq_nr_queued(j) > 0 && scx_bpf_dsq_move_to_local(j)) {
				done = true;
				break;
			}
		}
		if (done)
			break;
	}
	if (done)
		cpu->stolen++;
	return done;
}
