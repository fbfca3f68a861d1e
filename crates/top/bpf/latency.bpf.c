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

/* Of tasks that were off the CPU for one reason: histograms of their waits and of the rest of that time. */
struct times {
	u64 waits[32];
	u64 off[32];
};

/* Word by word as in src/bpf/words.rs. Only its CPU changes an entry, with interrupts off. */
struct cpu {
	/* Since when a watched task runs; 0 if none does. */
	u64 since;
	u64 run;
	/* Sums of waits, by reason. */
	u64 waits[8];
	/* Units from 1; 0 is unknown. */
	u64 cluster;
	u64 llc;
	u64 node;
	/* The unit of conflicts, from 0. */
	u64 shared;
	/* One of IDLE, BUSY, WATCHED. */
	u64 state;
	/* Address of its queue; 0 is unknown. */
	u64 queue;
	/* By reason, of which there are 5. */
	struct times times[8];
	u64 migrations[4];
	u64 unused[4];
};

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
ARRAY(u64, clock, 1);

/* The reason of a task that has not run yet. */
#define NEW 0

/* Filled by src/bpf/tables.rs. */
struct tables {
	/* Classes of times below 4096 microseconds, by whole microseconds. */
	u8 classes[4096];
	/* Why a task is off its CPU, by its state (include/linux/sched.h): numbers of `reason` in src/bpf/words.rs, from 1. */
	u8 reasons[1 << 16];
};
ARRAY(struct tables, tables, 1);

/* The number of `cpus`, a power of two, less 1. */
CONSTANT(cpu_mask);
/* Whether only processes in `watched` are watched. */
CONSTANT(is_filtered);
/* Whether conflicts are possible on this machine. */
CONSTANT(counts_conflicts);

INLINE bool is_watched(struct task_struct *task, bool filter)
{
	u32 tgid = task->tgid;

	return !filter || watched[tgid / 64 & ((1 << 16) - 1)] >> tgid % 64 & 1;
}

INLINE struct cpu *cpu_of(u32 number)
{
	return &cpus[number & VALUE(cpu_mask)];
}

/* Class 0 is below 1 microsecond, class i from 2^(i-1) to below 2^i microseconds, class 31 all above. */
INLINE u32 class_of(s64 ns)
{
	u32 below = 12;
	u64 us;

	/* The quotient by 1000: exact for 32 bits. */
	if (likely((u64)ns < 4096 * 1000))
		return tables->classes[(u64)ns * 274877907 >> 38];
	/* The clocks of two CPUs may differ. */
	if (ns < 0)
		return 0;
	us = (u64)ns / 1000 >> 12;
	if (us >= 4096) {
		us >>= 12;
		below = 24;
	}
	if (us >= 4096)
		return 31;
	below += tables->classes[us];
	return below < 31 ? below : 31;
}

INLINE void leave(struct departure *departure, struct task_struct *task, u64 now, bool preempt, u32 state)
{
	departure->at = now;
	departure->run_delay = task->sched_info.run_delay;
	/* A task that is preempted stays runnable, whatever its state. */
	departure->reason = tables->reasons[preempt ? 0 : state & 0xffff];
}

/* As `leave`, for a task that may have no place or ends. */
INLINE void leave_slowly(struct task_struct *task, u32 tid, u64 now, bool preempt, u32 state)
{
	struct departure *departure = departure_of(task, tid, true);

	if (departure)
		leave(departure, task, now, preempt, state);
	if (state & TASK_DEAD)
		forget(tid);
}

/* Returns what is known of a task that arrives. The place of a new one may still be that of an older task with its id. */
INLINE struct departure *departure_of_next(struct task_struct *task, u32 tid)
{
	return task->sched_info.pcount ? departure_of(task, tid, false) : NULL;
}

/* `departure` is NULL if nothing is known: of a new task, and of one that left its CPU before counting began. */
INLINE void arrive(struct cpu *cpu, struct departure *departure, struct task_struct *task, u64 now)
{
	u64 queued = task->sched_info.last_queued, wait = task->sched_info.run_delay, reason = NEW;
	struct times *times;
	s64 off = 0;

	if (likely(queued))
		wait += now - queued;
	if (departure) {
		wait -= departure->run_delay;
		reason = departure->reason & 7;
		off = now - departure->at - wait;
	} else if (task->sched_info.pcount) {
		return;
	}
	times = &cpu->times[reason];
	cpu->waits[reason] += wait;
	times->waits[class_of(wait) & 31] += 1;
	times->off[class_of(off) & 31] += 1;
}

/* `have_places`: both tasks have their places, neither ends, and the next one is not new. */
INLINE int switched(u64 *ctx, u32 from, u32 to, bool filter, bool have_places)
{
	struct task_struct *prev = (struct task_struct *)ctx[1], *next = (struct task_struct *)ctx[2];
	struct cpu *cpu = cpu_of(prev->thread_info.cpu);
	/* The one way to its queue that needs no name of a variable: kernels without CONFIG_KALLSYMS_ALL have none. */
	u64 now = prev->se.cfs_rq->rq->clock, new = IDLE, since = cpu->since;

	if (from && is_watched(prev, filter)) {
		if (have_places)
			leave(place_of(from), prev, now, ctx[0], ctx[3]);
		else
			leave_slowly(prev, from, now, ctx[0], ctx[3]);
	}
	if (since)
		cpu->run += now - since;
	since = 0;
	if (to) {
		new = BUSY;
		if (is_watched(next, filter)) {
			new = WATCHED;
			since = now;
		}
	}
	cpu->since = since;
	if (since)
		arrive(cpu, have_places ? place_of(to) : departure_of_next(next, to), next, now);
	if (VALUE(counts_conflicts) && new != cpu->state) {
		change(cpu->shared, cpu->state, new, now);
		cpu->state = new;
	}
	return 0;
}

/*
 * Most switches are between tasks that have places and do not end: their code calls nothing, and is shorter. The other code
 * reads the ids again, so that no more than 48 bytes are on the stack: with more, the kernel (from 6.13) gives the program
 * a stack of its own, at some cost.
 */
INLINE int on_switch_of(u64 *ctx, bool filter)
{
	struct task_struct *prev = (struct task_struct *)ctx[1], *next = (struct task_struct *)ctx[2];
	u32 from = prev->pid, to = next->pid;

	if (likely(has_place(from) && has_place(to) && !(ctx[3] & TASK_DEAD) && (!to || next->sched_info.pcount)))
		return switched(ctx, from, to, filter, true);
	return switched(ctx, prev->pid, next->pid, filter, false);
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	return on_switch_of(ctx, false);
}

/* In place of on_switch if only some processes are watched. */
SEC("tp_btf/sched_switch.filter")
int on_switch_filter(u64 *ctx)
{
	return on_switch_of(ctx, true);
}

SEC("tp_btf/sched_migrate_task")
int on_migrate(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct cpu *new = cpu_of(ctx[1]), *old = cpu_of(task->thread_info.cpu), *own = cpu_of(bpf_get_smp_processor_id());
	u32 distance = 0;
	struct task_key key = { .tid = task->pid, .start = task->start_boottime };
	struct task_migrations *known, none = {};

	if (!is_watched(task, VALUE(is_filtered)))
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
	u64 latest = *clock, read;
	u32 i;

	FOR (i, 0, VALUE(cpu_mask) + 1) {
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
	if (is_watched(task, VALUE(is_filtered))) {
		new = WATCHED;
		if (!cpu->since)
			cpu->since = now;
	}
	if (VALUE(counts_conflicts) && cpu->state == IDLE) {
		cpu->state = new;
		change(cpu->shared, IDLE, new, now);
	}
	return 0;
}
