/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Counts waits, time off the CPU and migrations, for each CPU.
 *
 * Times are those of the scheduler itself: the clock of the CPU's queue, which it has just read, and the task's
 * `sched_info`, whose `run_delay` is in /proc/PID/schedstat. So no program runs at a wake-up and no clock is read, and
 * waits are those of schedstat to the nanosecond, also if a task migrates while it waits.
 */
#include "conflict.h"
#include "departure.h"

/* Word by word as in src/bpf/words.rs. Only its CPU changes an entry, with interrupts off. */
struct cpu {
	/* Units from 1; 0 is unknown. */
	u64 cluster;
	u64 llc;
	u64 node;
	/* The unit of conflicts, from 0. */
	u64 shared;
	/* One of IDLE, BUSY, WATCHED. */
	u64 state;
	/* Since when a watched task runs; 0 if none does. */
	u64 since;
	u64 run;
	/* Sums of waits. */
	u64 wakeup;
	u64 displaced;
	u64 migrations[4];
	u64 histograms[5][32];
	/* Address of its queue; 0 is unknown. */
	u64 queue;
	u64 unused[2];
};

/* Histograms. The reason for which a task left its CPU is the one of the time that it is off. */
enum { AFTER_WAKEUP, DISPLACED, SLEEP, DISK, STOPPED };

struct task_key {
	u64 tid;
	u64 start;
};

struct task_migrations {
	u64 counts[4];
};

MAP(cpus) = { BPF_MAP_TYPE_ARRAY, 4, sizeof(struct cpu), 0, BPF_F_MMAPABLE };
/* Tasks that have migrated. Of more than fit, those are forgotten that have not migrated for long. */
MAP(migrants) = { BPF_MAP_TYPE_LRU_HASH, sizeof(struct task_key), sizeof(struct task_migrations), 32768, 0 };
/* The watched processes, if not all are. */
MAP(processes) = { BPF_MAP_TYPE_HASH, 4, 4, 16384, BPF_F_NO_PREALLOC };
/* The time of the queues' clocks when `observe` ran. */
MAP(clocks) = { BPF_MAP_TYPE_ARRAY, 4, 8, 1, BPF_F_MMAPABLE };

const volatile u32 cpu_count SEC(".rodata");
/* Whether only `processes` are watched. */
const volatile u32 is_filtered SEC(".rodata");
/* Whether conflicts are possible on this machine. */
const volatile u32 has_conflicts SEC(".rodata");

INLINE bool is_watched(struct task_struct *task)
{
	u32 tgid;

	if (!is_filtered)
		return true;
	tgid = task->tgid;
	return bpf_map_lookup_elem(&processes, &tgid);
}

/* Class 0 is below 1 microsecond, class i from 2^(i-1) to below 2^i microseconds, class 31 all above. */
INLINE u32 class_of(u64 ns)
{
	u32 us, class = 1;

	if (ns < 1000)
		return 0;
	if (ns >= 1000ULL << 30)
		return 31;
	/* Division by 1000 takes as long as all the rest here; for 32 bits this product is exact. */
	us = ns >> 32 ? (u32)(ns / 1000) : (u32)(ns * 274877907 >> 38);
	if (us >> 16) {
		class += 16;
		us >>= 16;
	}
	if (us >> 8) {
		class += 8;
		us >>= 8;
	}
	if (us >> 4) {
		class += 4;
		us >>= 4;
	}
	if (us >> 2) {
		class += 2;
		us >>= 2;
	}
	return class + (us >> 1);
}

INLINE void count(struct cpu *cpu, u32 histogram, u64 ns)
{
	if (histogram < 5)
		cpu->histograms[histogram][class_of(ns) & 31] += 1;
}

INLINE u32 reason_of(bool preempt, u32 state)
{
	if (preempt || !state)
		return DISPLACED;
	if (state & (TASK_STOPPED | TASK_TRACED | TASK_FROZEN))
		return STOPPED;
	/* Kernel threads without work are uninterruptible, but do not count as load. */
	if (state & TASK_UNINTERRUPTIBLE && !(state & TASK_NOLOAD))
		return DISK;
	return SLEEP;
}

INLINE void leave(struct cpu *cpu, struct task_struct *task, u64 now, bool preempt, u32 state)
{
	struct departure *departure;

	if (cpu->since)
		cpu->run += now - cpu->since;
	cpu->since = 0;
	if (state & TASK_DEAD) {
		forget(task);
		return;
	}
	departure = departure_of(task, true);
	if (!departure)
		return;
	departure->at = now;
	departure->run_delay = task->sched_info.run_delay;
	departure->reason = reason_of(preempt, state);
}

INLINE void arrive(struct cpu *cpu, struct task_struct *task, u64 now)
{
	struct departure *departure = departure_of(task, false);
	u64 queued = task->sched_info.last_queued, wait = task->sched_info.run_delay, off;

	cpu->since = now;
	if (queued && queued < now)
		wait += now - queued;
	if (!departure || !departure->at) {
		/* A new task, or one that left its CPU before counting began. */
		if (task->sched_info.pcount)
			return;
		cpu->wakeup += wait;
		count(cpu, AFTER_WAKEUP, wait);
		return;
	}
	wait -= departure->run_delay;
	if (departure->reason == DISPLACED) {
		cpu->displaced += wait;
		count(cpu, DISPLACED, wait);
		return;
	}
	cpu->wakeup += wait;
	count(cpu, AFTER_WAKEUP, wait);
	off = now - departure->at;
	count(cpu, departure->reason, off > wait ? off - wait : 0);
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	bool preempt = ctx[0];
	struct task_struct *prev = (struct task_struct *)ctx[1], *next = (struct task_struct *)ctx[2];
	u32 state = ctx[3], number = bpf_get_smp_processor_id();
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &number);
	u64 now, new = IDLE;

	if (!cpu)
		return 0;
	/* The one way to its queue that needs no name of a variable: kernels without CONFIG_KALLSYMS_ALL have none. */
	now = prev->se.cfs_rq->rq->clock;
	if (prev->pid && is_watched(prev))
		leave(cpu, prev, now, preempt, state);
	cpu->since = 0;
	if (next->pid) {
		new = BUSY;
		if (is_watched(next)) {
			new = WATCHED;
			arrive(cpu, next, now);
		}
	}
	if (new != cpu->state) {
		u64 old = cpu->state;

		cpu->state = new;
		if (has_conflicts)
			change(cpu->shared, old, new, now);
	}
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int on_migrate(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	u32 to = ctx[1], from = task->thread_info.cpu, here = bpf_get_smp_processor_id(), distance = 0;
	struct cpu *new = bpf_map_lookup_elem(&cpus, &to), *old = bpf_map_lookup_elem(&cpus, &from);
	struct cpu *own = bpf_map_lookup_elem(&cpus, &here);
	struct task_key key = { .tid = task->pid, .start = task->start_boottime };
	struct task_migrations *known, none = {};

	if (!old || !new || !own || !is_watched(task))
		return 0;
	if (old->node && new->node && old->node != new->node)
		distance = 3;
	else if (old->llc && new->llc && old->llc != new->llc)
		distance = 2;
	else if (old->cluster && new->cluster && old->cluster != new->cluster)
		distance = 1;
	own->migrations[distance] += 1;
	known = bpf_map_lookup_elem(&migrants, &key);
	if (!known) {
		bpf_map_update_elem(&migrants, &key, &none, BPF_NOEXIST);
		known = bpf_map_lookup_elem(&migrants, &key);
	}
	if (known)
		known->counts[distance] += 1;
	return 0;
}

/* Sets the time: that of the queue whose clock was read last. A busy CPU reads its clock at each tick. */
SEC("syscall")
int observe(void *ctx)
{
	u32 i, zero = 0;
	u64 *clock = bpf_map_lookup_elem(&clocks, &zero), latest, read;

	if (!clock)
		return 1;
	latest = *clock;
	FOR (i, 0, cpu_count) {
		u32 number = i;
		struct cpu *cpu = bpf_map_lookup_elem(&cpus, &number);
		struct rq *rq;

		if (!cpu || !cpu->queue)
			continue;
		rq = (struct rq *)cpu->queue;
		if (!bpf_probe_read_kernel(&read, sizeof(read), &rq->clock) && read > latest)
			latest = read;
	}
	*clock = latest;
	return 0;
}

/*
 * Sets what this CPU does, whose next switch may be far. Runs on each CPU in an interrupt, once the other programs are
 * attached.
 */
SEC("raw_tp")
int begin(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 number = bpf_get_smp_processor_id();
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &number);
	struct rq *rq = task->se.cfs_rq->rq;
	u64 now = rq->clock, new = IDLE;

	if (!cpu)
		return 0;
	cpu->queue = (u64)rq;
	if (!task->pid || cpu->state != IDLE)
		return 0;
	new = BUSY;
	if (is_watched(task)) {
		new = WATCHED;
		cpu->since = now;
	}
	cpu->state = new;
	if (has_conflicts)
		change(cpu->shared, IDLE, new, now);
	return 0;
}
