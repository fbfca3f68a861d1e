/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The scheduler. Each cluster of cores has one queue, ordered by virtual time: the CPU time of a task divided by its
 * weight. A task that wakes goes to an idle CPU at once (select.h), or else to the queue of its cluster. A CPU takes
 * tasks from the queue of its cluster, and from others when that is empty or too far ahead in virtual time, which keeps
 * the shares of all tasks in proportion to their weights and lets none starve. A running task is moved when its policy
 * wants it in another cluster that has idle CPUs.
 */
#include "select.h"
#include "groups.h"

#define SPREAD 0
#define PACK 1

/* Time that a task may run before others of its queue. */
#define SLICE_NS 5000000ULL
#define SHORTEST_SLICE_NS 1000000ULL
/* A queue that is so far behind another in virtual time is served first. */
#define LAG_NS 10000000ULL
/* A task that did not sleep keeps so much virtual time that it is owed: next to it, a slice of a task of nice 10 is 46 ms
 * of virtual time. */
#define OWED_NS 100000000ULL
/* A task of the least weight waits about so long for its next turn, however many others there are. The kernel removes a
 * scheduler under which one waits for 20 s (engine.rs). */
#define LONGEST_WAIT_NS 4000000000ULL
/* A waking task so far behind a running one takes its CPU. */
#define PREEMPT_NS 3000000ULL
/* Running tasks are moved when they were in the wrong place for so long. */
#define PATIENCE_NS 6000000ULL

/* Number of possible CPUs: tasks that may use all of them are not restricted. Set by the loading program. */
const volatile u32 possible_cpus SEC(".rodata");
/* Set by the loading program, at any time. */
struct control {
	u64 policy; /* of tasks for which no other is set */
	u64 generation; /* changes whenever policies do, so that tasks look up theirs again */
};
MAP(controls) = { BPF_MAP_TYPE_ARRAY, 4, sizeof(struct control), 1, BPF_F_MMAPABLE };

/* The largest virtual time of all clusters, brought up to date from time to time. */
u64 virtual_now SEC(".data");

/* Why the kernel removed the scheduler. */
struct removal {
	u64 kind;
	u64 code;
	char reason[128];
	char message[1024];
};
MAP(removals) = { BPF_MAP_TYPE_ARRAY, 4, sizeof(struct removal), 1, BPF_F_MMAPABLE };

/* Policies: of processes by their id, of control groups by theirs (with bit 63 set). */
MAP(policies) = { BPF_MAP_TYPE_HASH, 8, 8, 65536, BPF_F_NO_PREALLOC };
#define OF_GROUP (1ULL << 63)

/* What is kept for each task. */
struct task {
	u64 woken_ns; /* 0: runs, or waits since it was preempted */
	u64 since_ns; /* runs since */
	struct weight weight;
	u64 policy;
	u64 generation; /* of `policy` */
	u64 home; /* of the first thread: cluster + 1 of the process under pack; 0: none yet */
	u64 move; /* is to be moved to another cluster */
	u64 queue; /* in which it waited last: cluster + 1 */
};
MAP(tasks) = { BPF_MAP_TYPE_TASK_STORAGE, 4, sizeof(struct task), 0, BPF_F_NO_PREALLOC };

INLINE struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

INLINE bool before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

INLINE void set_slice(struct task_struct *p, u64 slice)
{
	if (has_scx_bpf_task_set_slice)
		scx_bpf_task_set_slice(p, slice);
	else
		p->scx.slice = slice;
}

INLINE void set_vtime(struct task_struct *p, u64 vtime)
{
	if (has_scx_bpf_task_set_dsq_vtime)
		scx_bpf_task_set_dsq_vtime(p, vtime);
	else
		p->scx.dsq_vtime = vtime;
}

/* ---- Policies and places ---- */

/* Returns the policy of a task: of its process, of its control group, or that of all. */
INLINE u64 policy_of(struct task_struct *p, struct task *task)
{
	u32 zero = 0;
	struct control *control = bpf_map_lookup_elem(&controls, &zero);
	u64 generation, key, *policy;
	struct css_set *set;

	if (!control)
		return SPREAD;
	generation = control->generation;
	if (task->generation == generation + 1)
		return task->policy;
	key = p->tgid;
	policy = bpf_map_lookup_elem(&policies, &key);
	if (!policy) {
		set = p->cgroups;
		key = OF_GROUP | (set ? set->dfl_cgrp->kn->id : 0);
		policy = bpf_map_lookup_elem(&policies, &key);
	}
	task->policy = policy ? *policy : control->policy;
	task->generation = generation + 1;
	return task->policy;
}

/* Returns the cluster of a process under pack, which is that of `otherwise` from now on if it has none yet. */
INLINE s32 home_of(struct task_struct *p, s32 otherwise)
{
	struct task_struct *leader = p->group_leader;
	struct task *first = leader ? bpf_task_storage_get(&tasks, leader, NULL, 0) : NULL;

	if (!first)
		return NONE;
	if (!first->home && otherwise >= 0)
		first->home = otherwise + 1;
	return (s32)first->home - 1;
}

/* Chooses an idle CPU for a task and claims it; NONE if there is none. `stay` prefers its own cluster. */
INLINE s32 choose(struct task_struct *p, struct task *task, u32 previous, u32 waker, bool stay)
{
	struct wish wish = {
		.p = p,
		.restricted = (u32)p->nr_cpus_allowed < possible_cpus,
		.previous = previous,
		.home = NONE,
		.waker = NONE,
	};
	struct cpu *here = cpu_at(bpf_get_smp_processor_id()), *chosen;
	u64 begun = bpf_ktime_get_ns();
	s32 cpu;

	if (policy_of(p, task) == PACK) {
		struct cpu *at = cpu_at(waker);

		wish.pack = true;
		wish.waker = at && at->managed ? (s32)at->cluster : NONE;
		wish.home = home_of(p, wish.waker);
	} else if (stay) {
		struct cpu *at = cpu_at(previous);

		wish.home = at ? (s32)at->cluster : NONE;
	}
	cpu = choose_idle(&wish);
	/* It may have been taken since it was counted as idle: the kernel's own record decides. */
	if (cpu != NONE && !scx_bpf_test_and_clear_cpu_idle(cpu))
		cpu = NONE;
	if (cpu == NONE)
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (here) {
		here->choices++;
		here->choice_ns += bpf_ktime_get_ns() - begun;
	}
	if (cpu < 0)
		return NONE;
	chosen = cpu_at(cpu);
	if (chosen)
		set_idle(chosen, false);
	return cpu;
}

/* Returns the time that a task may run: less where others wait. */
INLINE u64 slice_in(u32 cluster)
{
	s32 waiting = scx_bpf_dsq_nr_queued(cluster);
	struct cluster *at = cluster_at(cluster);
	u64 size = at && at->size ? at->size : 1;

	if (waiting <= 0)
		return SLICE_NS;
	if (waiting >= 4 * (s32)size)
		return SHORTEST_SLICE_NS;
	return SLICE_NS / (1 + waiting / size);
}

/* ---- Operations ---- */

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
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, 0);
		return cpu;
	}
	/* The waker is about to sleep: its CPU is free next. Tasks of other classes come before this one. */
	if (wake_flags & SCX_WAKE_SYNC) {
		cpu_here = cpu_at(here);
		cpu_previous = cpu_at(previous);
		if (cpu_here && cpu_here->tid && cpu_previous && cpu_here->cluster == cpu_previous->cluster &&
		    bpf_cpumask_test_cpu(here, p->cpus_ptr) && !scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | here)) {
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, 0);
			return here;
		}
	}
	return previous;
}

/* Interrupts the task of the cluster that is furthest ahead of a waking one, if it is far enough and has run for a while. */
INLINE void preempt_in(u32 cluster, struct task_struct *p, u64 vtime)
{
	struct cluster *at = cluster_at(cluster);
	u64 latest = vtime + PREEMPT_NS, now = bpf_ktime_get_ns();
	s32 found = NONE;
	u32 i;

	if (!at)
		return;
	FOR (i, at->first, at->first + at->size) {
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
		scx_bpf_kick_cpu(found, SCX_KICK_PREEMPT);
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

/* Returns the virtual time with which a task is queued: its own, within limits. */
INLINE u64 vtime_in(u32 number, struct cluster *cluster, u64 vtime, u64 owed)
{
	u64 waiting = scx_bpf_dsq_nr_queued(number), size = cluster->size ? cluster->size : 1;
	/* A cluster that was idle is not behind the others. */
	u64 now = before(cluster->vtime, virtual_now - LAG_NS) ? virtual_now - LAG_NS : cluster->vtime;
	u64 least = now - owed, most = now + LONGEST_WAIT_NS / (1 + waiting / size);

	if (before(vtime, least))
		return least;
	return before(most, vtime) ? most : vtime;
}

SEC("struct_ops/sched_ext_ops.enqueue")
int enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u64 flags = ctx[1], vtime, most_owed;
	s32 at = scx_bpf_task_cpu(p), cpu;
	struct task *task = task_of(p);
	struct cpu *here = cpu_at(at);
	struct cluster *cluster;

	/* Kernel threads of one CPU come first: others wait for them. */
	if (p->flags & PF_KTHREAD && p->nr_cpus_allowed == 1) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, flags | SCX_ENQ_PREEMPT);
		return 0;
	}
	if (!task || !here || !here->managed) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, flags);
		return 0;
	}
	/* A task that is to be moved, that was woken without a choice of its CPU, or that another one follows. */
	if (p->nr_cpus_allowed > 1) {
		cpu = choose(p, task, at, at, !task->move && !(flags & SCX_ENQ_WAKEUP));
		if (cpu != NONE) {
			struct cpu *chosen = cpu_at(cpu);

			if (chosen && task->move && chosen->cluster != here->cluster)
				__sync_fetch_and_add(&chosen->moved, 1);
			task->move = 0;
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, SLICE_NS, flags);
			return 0;
		}
		task->move = 0;
	}
	cluster = cluster_at(here->cluster);
	if (!cluster)
		return 0;
	most_owed = owed(p, flags & SCX_ENQ_WAKEUP, task->queue != here->cluster + 1);
	task->queue = here->cluster + 1;
	vtime = vtime_in(here->cluster, cluster, p->scx.dsq_vtime, most_owed);
	scx_bpf_dsq_insert_vtime(p, here->cluster, slice_in(here->cluster), vtime, flags);
	if (flags & SCX_ENQ_WAKEUP)
		preempt_in(here->cluster, p, vtime);
	return 0;
}

/* Takes a task from the queue of another cluster: of the same LLC, then of others, the nearest first. Without `any`, only
 * of clusters that are behind the virtual time `than`, in the own LLC and one other, in turn. */
INLINE bool steal(struct cpu *cpu, u32 own, bool any, u64 than)
{
	struct cluster *cluster = cluster_at(own);
	u32 i, j, count = any ? llc_count : llc_count < 2 ? llc_count : 2;
	bool done = false;

	if (!cluster)
		return false;
	FOR (i, 0, count < LLCS_PER_CHOICE ? count : LLCS_PER_CHOICE) {
		u32 place = any || !i ? i : 1 + (cpu->queued >> 2) % (llc_count - 1);
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
	if ((cpu->queued & 3) == 3 && steal(cpu, own, false, cluster->vtime - LAG_NS)) {
		cpu->queued++;
		return 0;
	}
	if (scx_bpf_dsq_move_to_local(own)) {
		cpu->queued++;
		return 0;
	}
	/* The task that ran goes on, unless it is to be moved. */
	if (prev && prev->scx.flags & SCX_TASK_QUEUED) {
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
	if (flags & SCX_ENQ_WAKEUP)
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
	if (before(virtual_now + LAG_NS / 4, vtime))
		virtual_now = vtime;
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

	if (!cpu || !task || !task->since_ns)
		return 0;
	used = now - task->since_ns;
	task->since_ns = 0;
	cpu->busy_ns += used;
	cpu->tid = 0;
	cpu->tgid = 0;
	weight = weigh(p, &task->weight, now);
	set_vtime(p, p->scx.dsq_vtime + used * UNIT_WEIGHT / (weight ? weight : 1));
	/* A task of a higher class takes this CPU, maybe for long. With time left, this one would wait for it here. */
	if (runnable && p->scx.slice)
		set_slice(p, 0);
	return 0;
}

/* Whether a running task should be in another cluster, which has an idle CPU. */
INLINE bool is_misplaced(struct task_struct *p, struct task *task, struct cpu *cpu, struct cluster *cluster)
{
	u32 i, count = llc_count;
	bool found = false;

	if (policy_of(p, task) == PACK) {
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

SEC("struct_ops/sched_ext_ops.tick")
int tick(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct cpu *cpu = cpu_at(bpf_get_smp_processor_id());
	struct task *task = task_of(p);
	struct cluster *cluster;
	u64 now, since;

	if (!cpu || !task || !cpu->managed || p->nr_cpus_allowed == 1)
		return 0;
	cluster = cluster_at(cpu->cluster);
	if (!cluster)
		return 0;
	if (!is_misplaced(p, task, cpu, cluster)) {
		if (cluster->crowded_since_ns)
			cluster->crowded_since_ns = 0;
		return 0;
	}
	now = bpf_ktime_get_ns();
	since = cluster->crowded_since_ns;
	if (!since) {
		cluster->crowded_since_ns = now;
		return 0;
	}
	/* One task at a time leaves the cluster. */
	if (now - since < PATIENCE_NS || !__sync_bool_compare_and_swap(&cluster->crowded_since_ns, since, 0))
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
		scx_bpf_kick_cpu(number, SCX_KICK_IDLE);
	return 0;
}

SEC("struct_ops/sched_ext_ops.enable")
int enable(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	set_vtime(p, virtual_now);
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
	u32 i, count = cluster_count;
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
