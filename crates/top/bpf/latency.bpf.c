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
	/* Sums of waits: after wake-ups, and after being displaced. */
	u64 waits[2];
	u64 migrations[4];
	/* Histograms of these waits. */
	u64 wait_times[2][32];
	/* Histograms of times off the CPU, by reason. Those of NEW and DISPLACED are not read. */
	u64 off_times[8][32];
	/* Address of its queue; 0 is unknown. */
	u64 queue;
	u64 unused[2];
};

/* Why a task is off its CPU: because it is new, or for what it left. */
enum { NEW, DISPLACED, SLEEP, DISK, STOPPED };

struct task_key {
	u64 tid;
	u64 start;
};

struct task_migrations {
	u64 counts[4];
};

ARRAY(struct cpu, cpus, 8192);
/* Tasks that have migrated. Of more than fit, those are forgotten that have not migrated for long. */
MAP(migrants) = { BPF_MAP_TYPE_LRU_HASH, sizeof(struct task_key), sizeof(struct task_migrations), 32768, 0 };
/* A bit for each process id that the kernel can give (PID_MAX_LIMIT): whether it is watched, if not all are. */
ARRAY(u64, watched, 1 << 16);
/* The time of the queues' clocks when `observe` ran. */
MAP(clocks) = { BPF_MAP_TYPE_ARRAY, 4, 8, 1, BPF_F_MMAPABLE };

/* The number of `cpus`, a power of two, less 1. */
const volatile u32 cpu_mask SEC(".rodata");
/* Whether only processes in `watched` are watched. */
const volatile u32 is_filtered SEC(".rodata");
/* Whether conflicts are possible on this machine. */
const volatile u32 has_conflicts SEC(".rodata");

INLINE bool is_watched(struct task_struct *task, bool filter)
{
	u32 tgid = task->tgid;

	return !filter || watched[tgid / 64 & ((1 << 16) - 1)] >> tgid % 64 & 1;
}

INLINE struct cpu *cpu_of(u32 number)
{
	return &cpus[number & cpu_mask];
}

/*
 * Returns 1 for a number that is not 0 and below 2^31. Without a branch, like the functions below: on an AMD EPYC, that saves
 * some 8 ns per switch.
 */
INLINE u32 is_set(u32 number)
{
	asm volatile("" : "+r"(number));
	number = -number >> 31;
	asm volatile("" : "+r"(number));
	return number;
}

/* Returns the number, or 0 if it is negative. */
INLINE u64 from_0(s64 number)
{
	s64 sign = number;

	asm volatile("" : "+r"(sign));
	return number & ~(sign >> 63);
}

/* Classes of times below 4096 microseconds, by whole microseconds. */
#define TWICE(x) x, x
#define TIMES4(x) TWICE(x), TWICE(x)
#define TIMES16(x) TIMES4(x), TIMES4(x), TIMES4(x), TIMES4(x)
#define TIMES64(x) TIMES16(x), TIMES16(x), TIMES16(x), TIMES16(x)
#define TIMES256(x) TIMES64(x), TIMES64(x), TIMES64(x), TIMES64(x)
#define TIMES1024(x) TIMES256(x), TIMES256(x), TIMES256(x), TIMES256(x)
const u8 classes[4096] SEC(".rodata") = {
	0, 1, TWICE(2), TIMES4(3), TIMES4(4), TIMES4(4), TIMES16(5), TIMES16(6), TIMES16(6), TIMES64(7), TIMES64(8), TIMES64(8),
	TIMES256(9), TIMES256(10), TIMES256(10), TIMES1024(11), TIMES1024(12), TIMES1024(12),
};

/* Class 0 is below 1 microsecond, class i from 2^(i-1) to below 2^i microseconds, class 31 all above. */
INLINE u32 class_of(u64 ns)
{
	/* Classes from 4.3 s on begin at multiples of 4096 ns. */
	u32 is_above = is_set(ns >> 40), large = is_set(ns >> 32) * 12, us, larger;

	/* The quotient by 1000: exact for 32 bits. */
	us = (ns >> large) * 274877907 >> 38;
	larger = is_set(us >> 12) * 12;
	return ((large + larger + classes[us >> larger & 4095]) | -is_above) & 31;
}

/*
 * By the bits that decide: 1 if a state of a task is not 0, 2 uninterruptible, 4 stopped, 8 traced, 0x10 without load, 0x20
 * frozen.
 */
#define REASON(state) (!((state) & 1) ? DISPLACED : (state) & 0x2c ? STOPPED : ((state) & 0x12) == 2 ? DISK : SLEEP)
#define REASONS4(state) REASON(state), REASON(state + 1), REASON(state + 2), REASON(state + 3)
#define REASONS16(state) REASONS4(state), REASONS4(state + 4), REASONS4(state + 8), REASONS4(state + 12)
const u8 reasons[64] SEC(".rodata") = { REASONS16(0), REASONS16(16), REASONS16(32), REASONS16(48) };

/* Kernel threads without work are uninterruptible, but do not count as load. */
INLINE u32 reason_of(u32 state)
{
	u32 bits = state & (TASK_UNINTERRUPTIBLE | TASK_STOPPED | TASK_TRACED);

	bits |= (state & TASK_NOLOAD) >> 6 | (state & TASK_FROZEN) >> 10;
	return reasons[is_set(state) | bits];
}

INLINE void leave(struct task_struct *task, u32 tid, u64 now, bool preempt, u32 state)
{
	struct departure *departure = departure_of(task, tid, true);

	if (!departure)
		return;
	departure->at = now;
	departure->run_delay = task->sched_info.run_delay;
	/* A task that is preempted stays runnable, whatever its state. */
	departure->reason = reason_of(state & ((u32)preempt - 1));
	if (state & TASK_DEAD)
		forget(tid);
}

INLINE void arrive(struct cpu *cpu, struct task_struct *task, u32 tid, u64 now)
{
	struct departure *departure = departure_of(task, tid, false);
	u64 queued = task->sched_info.last_queued;
	u64 wait = task->sched_info.run_delay + from_0(now - (queued ? queued : now));
	u32 reason = NEW, is_displaced;
	s64 off = 0;

	if (departure) {
		wait -= departure->run_delay;
		reason = departure->reason;
		off = now - departure->at - wait;
	} else if (task->sched_info.pcount) {
		/* It left its CPU before counting began. */
		return;
	}
	is_displaced = is_set(reason ^ DISPLACED) ^ 1;
	cpu->waits[is_displaced & 1] += wait;
	cpu->wait_times[is_displaced & 1][class_of(wait)] += 1;
	cpu->off_times[reason & 7][class_of(from_0(off))] += 1;
}

INLINE int switched(u64 *ctx, bool filter)
{
	struct task_struct *prev = (struct task_struct *)ctx[1], *next = (struct task_struct *)ctx[2];
	struct cpu *cpu = cpu_of(prev->thread_info.cpu);
	/* The one way to its queue that needs no name of a variable: kernels without CONFIG_KALLSYMS_ALL have none. */
	u64 now = prev->se.cfs_rq->rq->clock, new = IDLE;
	u32 tid = prev->pid;

	if (tid && is_watched(prev, filter))
		leave(prev, tid, now, ctx[0], ctx[3]);
	if (cpu->since) {
		cpu->run += now - cpu->since;
		cpu->since = 0;
	}
	tid = next->pid;
	if (tid) {
		new = BUSY;
		if (is_watched(next, filter)) {
			new = WATCHED;
			cpu->since = now;
			arrive(cpu, next, tid, now);
		}
	}
	if (has_conflicts && new != cpu->state) {
		change(cpu->shared, cpu->state, new, now);
		cpu->state = new;
	}
	return 0;
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	return switched(ctx, false);
}

/* In place of on_switch if only some processes are watched. */
SEC("tp_btf/sched_switch.filter")
int on_switch_filter(u64 *ctx)
{
	return switched(ctx, true);
}

SEC("tp_btf/sched_migrate_task")
int on_migrate(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct cpu *new = cpu_of(ctx[1]), *old = cpu_of(task->thread_info.cpu), *own = cpu_of(bpf_get_smp_processor_id());
	u32 distance = 0;
	struct task_key key = { .tid = task->pid, .start = task->start_boottime };
	struct task_migrations *known, none = {};

	if (!is_watched(task, is_filtered))
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
	FOR (i, 0, cpu_mask + 1) {
		struct cpu *cpu = cpu_of(i);
		struct rq *rq;

		if (!cpu->queue)
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
	struct cpu *cpu = cpu_of(bpf_get_smp_processor_id());
	struct rq *rq = task->se.cfs_rq->rq;
	u64 now = rq->clock, new = BUSY;

	cpu->queue = (u64)rq;
	if (!task->pid)
		return 0;
	if (is_watched(task, is_filtered)) {
		new = WATCHED;
		if (!cpu->since)
			cpu->since = now;
	}
	if (has_conflicts && cpu->state == IDLE) {
		cpu->state = new;
		change(cpu->shared, IDLE, new, now);
	}
	return 0;
}
