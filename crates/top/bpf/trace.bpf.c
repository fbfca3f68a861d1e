/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Sends the scheduling events of the watched processes, and of what else runs on the CPUs that they have used, to the
 * tracing process.
 */
#include "kernel.h"

/* Word by word as in src/trace/ring.rs. */
struct event {
	u64 at;
	u32 kind;
	u32 cpu;
	u32 tid;
	u32 pid;
	u32 other_tid;
	u32 other_pid;
	/* Of a switch: the state of the task that leaves, or DISPLACED. Of a migration: the new CPU. */
	u32 value;
	u32 unused;
	char name[16];
	char other_name[16];
};

enum { SWITCH = 1, WAKEUP, MIGRATION };

#define DISPLACED (1u << 31)

/* Its size in bytes is set before loading. */
MAP(events) = { BPF_MAP_TYPE_RINGBUF, 0, 0, 0, 0 };
/* The watched processes. */
MAP(processes) = { BPF_MAP_TYPE_HASH, 4, 4, 16384, BPF_F_NO_PREALLOC };
/* Whether a watched task has used each CPU. */
MAP(used) = { BPF_MAP_TYPE_ARRAY, 4, 8, 0, BPF_F_MMAPABLE };
/* Events that found the buffer full, and processes that found `processes` full. */
MAP(losses) = { BPF_MAP_TYPE_ARRAY, 4, 8, 2, BPF_F_MMAPABLE };

/* Whether all processes are watched. */
CONSTANT(is_unfiltered);

INLINE bool is_watched(struct task_struct *task)
{
	u32 tgid = task->tgid;

	return VALUE(is_unfiltered) || (task->pid && bpf_map_lookup_elem(&processes, &tgid));
}

INLINE void lose(u32 what)
{
	u64 *lost = bpf_map_lookup_elem(&losses, &what);

	if (lost)
		__sync_fetch_and_add(lost, 1);
}

INLINE struct event *begin(u32 kind, u32 cpu, struct task_struct *task, struct task_struct *other)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(struct event), 0);

	if (!event) {
		lose(0);
		return NULL;
	}
	event->at = bpf_ktime_get_ns();
	event->kind = kind;
	event->cpu = cpu;
	event->tid = task->pid;
	event->pid = task->tgid;
	event->other_tid = other->pid;
	event->other_pid = other->tgid;
	event->value = 0;
	event->unused = 0;
	bpf_probe_read_kernel_str(event->name, sizeof(event->name), task->comm);
	bpf_probe_read_kernel_str(event->other_name, sizeof(event->other_name), other->comm);
	return event;
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx[1], *next = (struct task_struct *)ctx[2];
	u32 number = bpf_get_smp_processor_id();
	u64 *is_used = bpf_map_lookup_elem(&used, &number);
	struct event *event;

	if (!is_used)
		return 0;
	if (!*is_used) {
		if (!is_watched(prev) && !is_watched(next))
			return 0;
		*is_used = 1;
	}
	event = begin(SWITCH, number, prev, next);
	if (!event)
		return 0;
	event->value = (bool)ctx[0] ? DISPLACED : (u32)ctx[3];
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

INLINE int wakeup(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	u32 number = task->thread_info.cpu;
	u64 *is_used = bpf_map_lookup_elem(&used, &number);
	struct event *event;

	if (!is_used || !is_watched(task))
		return 0;
	*is_used = 1;
	event = begin(WAKEUP, number, task, bpf_get_current_task_btf());
	if (event)
		bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int on_wakeup(u64 *ctx)
{
	return wakeup(ctx);
}

SEC("tp_btf/sched_wakeup_new")
int on_new(u64 *ctx)
{
	return wakeup(ctx);
}

SEC("tp_btf/sched_migrate_task")
int on_migrate(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct event *event;

	if (!is_watched(task))
		return 0;
	event = begin(MIGRATION, task->thread_info.cpu, task, bpf_get_current_task_btf());
	if (!event)
		return 0;
	event->value = ctx[1];
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Children of watched processes are watched. */
SEC("tp_btf/sched_process_fork")
int on_fork(u64 *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx[0], *child = (struct task_struct *)ctx[1];
	u32 tgid = child->tgid, one = 1;

	if (VALUE(is_unfiltered) || tgid == (u32)parent->tgid || !is_watched(parent))
		return 0;
	if (bpf_map_update_elem(&processes, &tgid, &one, 0))
		lose(1);
	return 0;
}
