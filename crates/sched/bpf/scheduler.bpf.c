/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The scheduler. Each cluster of cores has one queue, ordered by virtual time: the CPU time of a task divided by its
 * weight. A task that wakes goes to an idle CPU at once (select.h), or else to the queue of its cluster. A CPU takes
 * tasks from the queue of its cluster, and from others when that is empty or too far ahead in virtual time, which keeps
 * the shares of all tasks in proportion to their weights and lets none starve. A running task is moved when its policy
 * wants it in another cluster that has idle CPUs.
 */
#include "moves.h"
#include "queues.h"

/* Why the kernel removed the scheduler. */
struct removal {
	u64 kind;
	u64 code;
	char reason[128];
	char message[1024];
};
MAP(removals) = { BPF_MAP_TYPE_ARRAY, 4, sizeof(struct removal), 1, BPF_F_MMAPABLE };

SEC("struct_ops/sched_ext_ops.select_cpu")
int select_cpu(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	s32 previous = ctx[1], cpu;
	u64 wake_flags = ctx[2];
	u32 here = bpf_get_smp_processor_id();
	struct task *task = task_of(p);
	struct cpu *cpu_here, *cpu_previous;

	if (!task)
		return previous;
	cpu = choose(p, task, previous, here, false);
	if (cpu != NONE) {
		struct cpu *chosen = cpu_at(cpu);

		if (chosen)
			__sync_fetch_and_add(&chosen->direct, 1);
		scx_bpf_dsq_insert(p, VALUE(SCX_DSQ_LOCAL), SLICE_NS, 0);
		return cpu;
	}
	/* The waker is about to sleep: its CPU is free next. Tasks of other classes come before this one, and so do tasks that
	 * wait: two that wake each other would keep the CPU from them. */
	if (wake_flags & VALUE(SCX_WAKE_SYNC)) {
		cpu_here = cpu_at(here);
		cpu_previous = cpu_at(previous);
		if (cpu_here && cpu_here->managed && cpu_here->tid && cpu_previous &&
		    cpu_here->cluster == cpu_previous->cluster && !scx_bpf_dsq_nr_queued(cpu_here->cluster) &&
		    bpf_cpumask_test_cpu(here, p->cpus_ptr) && !scx_bpf_dsq_nr_queued(VALUE(SCX_DSQ_LOCAL_ON) | here)) {
			scx_bpf_dsq_insert(p, VALUE(SCX_DSQ_LOCAL), SLICE_NS, 0);
			return here;
		}
	}
	return previous;
}

SEC("struct_ops/sched_ext_ops.enqueue")
int enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u64 flags = ctx[1];
	s32 at = scx_bpf_task_cpu(p), cpu;
	struct task *task = task_of(p);
	struct cpu *here = cpu_at(at), *chosen;
	struct cluster *cluster;

	/* Kernel threads of one CPU come first: others wait for them. */
	if (p->flags & PF_KTHREAD && p->nr_cpus_allowed == 1) {
		scx_bpf_dsq_insert(p, VALUE(SCX_DSQ_LOCAL), SLICE_NS, flags | VALUE(SCX_ENQ_PREEMPT));
		return 0;
	}
	if (!task || !here || !here->managed) {
		scx_bpf_dsq_insert(p, VALUE(SCX_DSQ_LOCAL), SLICE_NS, flags);
		return 0;
	}
	/* A task that is to be moved, that was woken without a choice of its CPU, or that another one follows. */
	if (p->nr_cpus_allowed > 1) {
		cpu = choose(p, task, at, at, !task->move && !(flags & VALUE(SCX_ENQ_WAKEUP)));
		chosen = cpu == NONE ? NULL : cpu_at(cpu);
		if (task->move)
			has_moved(p, task, here, chosen);
		if (chosen) {
			scx_bpf_dsq_insert(p, VALUE(SCX_DSQ_LOCAL_ON) | cpu, SLICE_NS, flags);
			return 0;
		}
	}
	cluster = cluster_at(here->cluster);
	if (!cluster)
		return 0;
	queue_in(here->cluster, cluster, p, task, flags);
	return 0;
}

SEC("struct_ops/sched_ext_ops.dispatch")
int dispatch(u64 *ctx)
{
	s32 number = ctx[0];
	struct task_struct *prev = (void *)ctx[1];
	struct cpu *cpu = cpu_at(number);
	struct cluster *cluster;
	struct task *task;
	u32 own;

	if (!cpu || !cpu->managed)
		return 0;
	own = cpu->cluster;
	cluster = cluster_at(own);
	if (!cluster)
		return 0;
	/* Now and then a queue that is behind comes first, also one far away. */
	cpu->turns++;
	if ((cpu->turns & 3) == 3 && steal(cpu, own, false, reached(cluster, prev) - LAG_NS)) {
		cpu->queued++;
		return 0;
	}
	if (scx_bpf_dsq_move_to_local(own)) {
		cpu->queued++;
		return 0;
	}
	/* The task that ran goes on, unless it is to be moved. */
	if (prev && prev->scx.flags & VALUE(SCX_TASK_QUEUED)) {
		task = task_of(prev);
		if (!task || !task->move)
			set_slice(prev, SLICE_NS);
		return 0;
	}
	/* The kernel reports only changes between idle and busy, and not that a chosen CPU has got no task after all. */
	if (!steal(cpu, own, true, 0) && !cpu->idle)
		set_idle(cpu, true);
	return 0;
}

SEC("struct_ops/sched_ext_ops.runnable")
int runnable(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u64 flags = ctx[1];
	struct task *task = task_of(p);

	if (!task)
		return 0;
	count_in_groups(p, &task->weight, true);
	if (flags & VALUE(SCX_ENQ_WAKEUP))
		task->woken_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("struct_ops/sched_ext_ops.quiescent")
int quiescent(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct task *task = task_of(p);

	if (task)
		count_in_groups(p, &task->weight, false);
	return 0;
}

/* Returns the index of a waiting time in its distribution. */
INLINE u32 bucket(u64 ns)
{
	u32 power = 0;
	u64 rest = ns >> 10;

	if (!rest)
		return 0;
	if (rest >> 16)
		rest = 0xffff;
	if (rest >= 1 << 8) {
		power += 8;
	}
	if (rest >> power >= 1 << 4)
		power += 4;
	if (rest >> power >= 1 << 2)
		power += 2;
	if (rest >> power >= 1 << 1)
		power += 1;
	return power * 4 + ((rest << 2 >> power) & 3);
}

SEC("struct_ops/sched_ext_ops.running")
int running(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct cpu *cpu = cpu_at(bpf_get_smp_processor_id());
	struct task *task = task_of(p);
	u64 now = bpf_ktime_get_ns(), vtime = p->scx.dsq_vtime;
	struct cluster *cluster;

	if (!cpu || !task)
		return 0;
	if (cpu->idle)
		set_idle(cpu, false);
	task->since_ns = now;
	cpu->tid = p->pid;
	cpu->tgid = p->tgid;
	cpu->since_ns = now;
	cpu->vtime = vtime;
	if (task->woken_ns) {
		u64 waited = now - task->woken_ns;
		u32 at = bucket(waited);

		task->woken_ns = 0;
		cpu->wakeups++;
		cpu->wait_ns += waited;
		if (at < 64)
			cpu->waits[at]++;
	}
	if (!cpu->managed)
		return 0;
	cluster = cluster_at(cpu->cluster);
	if (!cluster)
		return 0;
	if (before(cluster->vtime, vtime))
		cluster->vtime = vtime;
	/* Written only when it is late, so that CPUs do not fight for its cache line. */
	if (before(*virtual_now + LAG_NS / 4, vtime))
		*virtual_now = vtime;
	return 0;
}

SEC("struct_ops/sched_ext_ops.stopping")
int stopping(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	bool runnable = ctx[1];
	struct cpu *cpu = cpu_at(bpf_get_smp_processor_id());
	struct task *task = task_of(p);
	u64 now = bpf_ktime_get_ns(), used, weight;
	struct cluster *cluster;

	if (!cpu || !task || !task->since_ns)
		return 0;
	used = now - task->since_ns;
	task->since_ns = 0;
	cpu->busy_ns += used;
	cpu->tid = 0;
	cpu->tgid = 0;
	weight = weigh(p, &task->weight, now);
	weight = weight ? weight : 1;
	set_vtime(p, p->scx.dsq_vtime + used * UNIT_WEIGHT / weight);
	cluster = cluster_at(cpu->cluster);
	if (cluster)
		cluster->weight = cluster->weight ? (cluster->weight * 15 + weight) / 16 : weight;
	/* A task of a higher class takes this CPU, maybe for long. With time left, this one would wait for it here. */
	if (runnable && p->scx.slice)
		set_slice(p, 0);
	return 0;
}

SEC("struct_ops/sched_ext_ops.tick")
int tick(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct cpu *cpu = cpu_at(bpf_get_smp_processor_id());
	struct task *task = task_of(p);
	struct cluster *cluster;
	u64 now, since, *misplaced;
	bool pack;

	if (!cpu || !task || !cpu->managed || p->nr_cpus_allowed == 1)
		return 0;
	cluster = cluster_at(cpu->cluster);
	if (!cluster)
		return 0;
	now = bpf_ktime_get_ns();
	if (task->stays_ns && before(now, task->stays_ns))
		return 0;
	pack = policy_of(p, task) == PACK;
	misplaced = pack ? &cluster->misplaced_since_ns[PACK] : &cluster->misplaced_since_ns[SPREAD];
	since = *misplaced;
	if (!is_misplaced(p, pack, cpu, cluster)) {
		if (since)
			*misplaced = 0;
		return 0;
	}
	if (!since) {
		*misplaced = now;
		return 0;
	}
	/* One task at a time leaves the cluster. */
	if (now - since < PATIENCE_NS || !__sync_bool_compare_and_swap(misplaced, since, 0))
		return 0;
	task->move = 1;
	set_slice(p, 0);
	return 0;
}

SEC("struct_ops/sched_ext_ops.update_idle")
int update_idle(u64 *ctx)
{
	s32 number = ctx[0];
	bool idle = ctx[1];
	struct cpu *cpu = cpu_at(number);

	if (!cpu)
		return 0;
	set_idle(cpu, idle);
	/* A task that was queued while this CPU was about to become idle. */
	if (idle && cpu->managed && scx_bpf_dsq_nr_queued(cpu->cluster) > 0)
		scx_bpf_kick_cpu(number, VALUE(SCX_KICK_IDLE));
	return 0;
}

SEC("struct_ops/sched_ext_ops.enable")
int enable(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct cpu *cpu = cpu_at(scx_bpf_task_cpu(p));
	struct cluster *cluster = cpu && cpu->managed ? cluster_at(cpu->cluster) : NULL;

	/* In a cluster that is behind the others, a new task does not wait until it has caught up. */
	set_vtime(p, cluster && cluster->vtime ? cluster->vtime : *virtual_now);
	return 0;
}

SEC("struct_ops/sched_ext_ops.init_task")
int init_task(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	return bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -12;
}

SEC("struct_ops/sched_ext_ops.cgroup_init")
int cgroup_init(u64 *ctx)
{
	struct cgroup *cgroup = (void *)ctx[0];
	struct scx_cgroup_init_args *args = (void *)ctx[1];
	struct group *group = bpf_cgrp_storage_get(&groups, cgroup, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!group)
		return -12;
	group->weight = args->weight;
	return 0;
}

SEC("struct_ops/sched_ext_ops.cgroup_set_weight")
int cgroup_set_weight(u64 *ctx)
{
	struct cgroup *cgroup = (void *)ctx[0];
	u32 weight = ctx[1];
	struct group *group = bpf_cgrp_storage_get(&groups, cgroup, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (group)
		group->weight = weight;
	return 0;
}

SEC("struct_ops.s/sched_ext_ops.init")
int init(u64 *ctx)
{
	u32 i, count = VALUE(cluster_count);
	s32 error = 0;

	FOR (i, 0, count) {
		error = scx_bpf_create_dsq(i, NONE);
		if (error)
			break;
	}
	return error;
}

SEC("struct_ops/sched_ext_ops.exit")
int removed(u64 *ctx)
{
	struct scx_exit_info *info = (void *)ctx[0];
	u32 zero = 0;
	struct removal *removal = bpf_map_lookup_elem(&removals, &zero);

	if (!removal)
		return 0;
	bpf_probe_read_kernel_str(removal->reason, sizeof(removal->reason), info->reason);
	bpf_probe_read_kernel_str(removal->message, sizeof(removal->message), info->msg);
	removal->code = info->exit_code;
	__sync_lock_test_and_set(&removal->kind, info->kind + 1);
	return 0;
}
