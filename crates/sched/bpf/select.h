/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The choice of an idle CPU. It knows the machine by four arrays, which the loading program fills: CPUs, cores,
 * clusters and last-level caches (LLCs). The CPUs of a cluster follow each other in `cpu_order`, core by core, and the
 * clusters of an LLC have successive numbers. `llc_order` has for each LLC all of them, nearest first.
 *
 * Idle CPUs are counted in each core, cluster and LLC, and idle clusters in each LLC, so that most choices look at a
 * few counters of the task's own LLC, whatever the size of the machine.
 *
 * Words of 64 bits only, so that the loading program reads and writes them by their index (src/layout.rs).
 */
#pragma once
#include "kernel.h"

struct cpu {
	/* Set by the loading program. */
	u64 cluster;
	u64 core;
	u64 managed; /* isolated and unknown CPUs are not chosen */
	/* Idle, and not yet chosen for a task. */
	u64 idle;
	/* What runs: the task's and its process's id, 0 while idle; its virtual time; since when. */
	u64 tid;
	u64 tgid;
	u64 vtime;
	u64 since_ns;
	/* Counters. Changed on this CPU only, but for the choices, which are counted on the CPU that makes them. */
	u64 direct; /* tasks that were given to an idle CPU when they woke */
	u64 queued; /* tasks taken from the queue of the cluster */
	u64 stolen; /* tasks taken from the queue of another cluster */
	u64 moved; /* running tasks moved to another cluster */
	u64 busy_ns;
	u64 choices;
	u64 choice_ns;
	u64 wakeups;
	u64 wait_ns; /* total time from waking to running */
	u64 waits[64]; /* its distribution: four parts per power of two, from 1024 ns on */
	u64 turns; /* how often it looked for its next task */
};

struct core {
	u64 size;
	u64 idle;
};

struct cluster {
	/* Set by the loading program. */
	u64 first; /* in cpu_order */
	u64 size;
	u64 llc;
	u64 capacity; /* of its CPUs; the largest of the machine is 1024 */
	u64 idle; /* number of idle CPUs */
	u64 vtime; /* the largest virtual time at which a task began to run here */
	u64 weight; /* mean of the tasks that ran here of late; 0: not known */
	/* By policy: since when tasks run here that should be in another cluster, which has idle CPUs; 0: none does. */
	u64 misplaced_since_ns[2];
	u64 spare[7]; /* a cluster has cache lines of its own */
};

struct llc {
	/* Set by the loading program. */
	u64 first; /* cluster */
	u64 size; /* number of clusters */
	u64 idle; /* number of idle CPUs */
	u64 idle_clusters;
	u64 spare[12];
};

MAP(cpus) = { BPF_MAP_TYPE_ARRAY, 4, sizeof(struct cpu), 0, BPF_F_MMAPABLE };
MAP(cores) = { BPF_MAP_TYPE_ARRAY, 4, sizeof(struct core), 0, BPF_F_MMAPABLE };
MAP(clusters) = { BPF_MAP_TYPE_ARRAY, 4, sizeof(struct cluster), 0, BPF_F_MMAPABLE };
MAP(llcs) = { BPF_MAP_TYPE_ARRAY, 4, sizeof(struct llc), 0, BPF_F_MMAPABLE };
MAP(cpu_order) = { BPF_MAP_TYPE_ARRAY, 4, 8, 0, BPF_F_MMAPABLE };
MAP(llc_order) = { BPF_MAP_TYPE_ARRAY, 4, 8, 0, BPF_F_MMAPABLE };

/* Numbers of CPU ids, clusters and LLCs. Set by the loading program. */
CONSTANT(cpu_count);
CONSTANT(cluster_count);
CONSTANT(llc_count);

/* LLCs that one choice looks at. */
#define LLCS_PER_CHOICE 64
#define NONE (-1)

INLINE struct cpu *cpu_at(u32 index)
{
	return bpf_map_lookup_elem(&cpus, &index);
}

INLINE struct core *core_at(u32 index)
{
	return bpf_map_lookup_elem(&cores, &index);
}

INLINE struct cluster *cluster_at(u32 index)
{
	return bpf_map_lookup_elem(&clusters, &index);
}

INLINE struct llc *llc_at(u32 index)
{
	return bpf_map_lookup_elem(&llcs, &index);
}

/* Notes that a CPU is idle, or that it is not. */
INLINE void set_idle(struct cpu *cpu, bool idle)
{
	struct cluster *cluster;
	struct core *core;
	struct llc *llc;
	u64 before;

	if (__sync_lock_test_and_set(&cpu->idle, idle) == idle || !cpu->managed)
		return;
	core = core_at(cpu->core);
	cluster = cluster_at(cpu->cluster);
	if (!core || !cluster)
		return;
	llc = llc_at(cluster->llc);
	if (!llc)
		return;
	__sync_fetch_and_add(&core->idle, idle ? 1 : -1);
	__sync_fetch_and_add(&llc->idle, idle ? 1 : -1);
	before = __sync_fetch_and_add(&cluster->idle, idle ? 1 : -1);
	if (idle && before + 1 == cluster->size)
		__sync_fetch_and_add(&llc->idle_clusters, 1);
	if (!idle && before == cluster->size)
		__sync_fetch_and_add(&llc->idle_clusters, -1);
}

/* A task that needs a CPU. */
struct wish {
	struct task_struct *p; /* NULL in measurements of the choice alone */
	bool restricted; /* to some of the CPUs */
	u32 previous; /* CPU */
	bool pack; /* the policy; otherwise spread */
	s32 home; /* cluster that is preferred: of its process under pack, its own for a running task; or NONE */
	s32 waker; /* cluster of the task that wakes it, for the policy pack; or NONE */
};

INLINE bool may_use(struct wish *wish, u32 cpu)
{
	return !wish->restricted || !wish->p || bpf_cpumask_test_cpu(cpu, wish->p->cpus_ptr);
}

/* What makes a CPU better than another one, in the order of importance. */
#define IDLE_CLUSTER (1 << 21)
#define IDLE_CORE (1 << 20)

/* Whether all CPUs of the core of a CPU are idle. */
INLINE bool core_is_idle(struct cpu *cpu)
{
	struct core *core = core_at(cpu->core);

	return core && core->idle >= core->size;
}

/* Returns an idle CPU of cluster `own`, in `*whole` whether its core is idle; NONE if there is none for the task. Of
 * equal ones it is the previous CPU of the task. */
INLINE s32 idle_cpu_of(u32 own, struct wish *wish, bool *whole)
{
	struct cluster *cluster = cluster_at(own);
	struct cpu *previous = cpu_at(wish->previous);
	s32 found = NONE;
	u32 i, at;

	*whole = previous && previous->managed && previous->cluster == own && previous->idle && core_is_idle(previous) &&
		 may_use(wish, wish->previous);
	if (*whole)
		return wish->previous;
	if (!cluster)
		return NONE;
	FOR (i, cluster->first, cluster->first + cluster->size) {
		struct cpu *cpu;
		u64 *number;

		at = i;
		number = bpf_map_lookup_elem(&cpu_order, &at);
		if (!number)
			break;
		cpu = cpu_at(*number);
		if (!cpu || !cpu->idle || !may_use(wish, *number))
			continue;
		if (core_is_idle(cpu)) {
			*whole = true;
			found = *number;
			break;
		}
		if (found == NONE || *number == wish->previous)
			found = *number;
	}
	return found;
}

/* Returns the best idle CPU of an LLC, with its merit; NONE if no CPU is better than `least`. The policy pack
 * prefers the cluster with the fewest idle CPUs instead of the one with the most. */
INLINE s32 idle_cpu_of_llc(struct llc *llc, struct wish *wish, u32 least, u32 *merit)
{
	struct cpu *previous = cpu_at(wish->previous);
	bool pack = wish->pack;
	u32 i, best = least;
	s32 found = NONE;

	FOR (i, llc->first, llc->first + llc->size) {
		struct cluster *cluster = cluster_at(i);
		u32 idle, size, score;
		bool whole;
		s32 cpu;

		if (!cluster)
			break;
		idle = cluster->idle;
		size = cluster->size;
		if (!idle || !size)
			continue;
		/* 0 to 1023 for idle CPUs, above it 0 to 1024 x 2 for capacity: of idle clusters the fastest one. */
		score = idle >= size ? 1023 : idle * 1022 / size;
		if (pack)
			score = 1023 - score;
		else
			score += idle >= size ? cluster->capacity << 8 : cluster->capacity >> 2;
		/* Of equal clusters the task stays in its own. */
		score = 2 * score + (previous && previous->cluster == i);
		if (!pack && idle >= size)
			score += IDLE_CLUSTER;
		if (score + (pack ? 0 : IDLE_CORE) < best)
			continue;
		cpu = idle_cpu_of(i, wish, &whole);
		if (cpu == NONE)
			continue;
		if (whole && !pack)
			score += IDLE_CORE;
		if (score + 1 > best) {
			best = score + 1;
			found = cpu;
		}
	}
	*merit = best;
	return found;
}

/* Returns the number of the LLC that is at `place` in the order of nearness to `llc`. */
INLINE u32 near(u32 llc, u32 place)
{
	u32 at = llc * VALUE(llc_count) + place;
	u64 *number = bpf_map_lookup_elem(&llc_order, &at);

	return number ? *number : llc;
}

/* Returns an idle CPU, the nearest LLC first, in a first pass only of an idle cluster; NONE if there is none. */
INLINE s32 idle_cpu_nearby(u32 own, struct wish *wish)
{
	u32 i, pass, merit, count = VALUE(llc_count) < LLCS_PER_CHOICE ? VALUE(llc_count) : LLCS_PER_CHOICE;
	s32 found = NONE;

	FOR (pass, wish->pack ? 1 : 0, 2) {
		FOR (i, 0, count) {
			struct llc *llc = llc_at(near(own, i));

			if (!llc || !(pass ? llc->idle : llc->idle_clusters))
				continue;
			found = idle_cpu_of_llc(llc, wish, pass ? 0 : IDLE_CLUSTER, &merit);
			if (found != NONE)
				break;
		}
		if (found != NONE)
			break;
	}
	return found;
}

/*
 * Chooses an idle CPU for a task; NONE if there is none.
 *
 * Spread: the previous CPU if its cluster is idle otherwise; an idle cluster; the cluster with the most idle CPUs.
 * Pack: the cluster of the process, that of the waker, then the fullest that has an idle CPU.
 */
INLINE s32 choose_idle(struct wish *wish)
{
	struct cpu *previous = cpu_at(wish->previous);
	struct cluster *cluster;
	bool whole, fits;
	s32 found = NONE;
	u32 i;

	if (!previous)
		return NONE;
	cluster = cluster_at(previous->cluster);
	if (!cluster)
		return NONE;
	fits = wish->pack ? (s32)previous->cluster == wish->home :
			    cluster->idle >= cluster->size && cluster->capacity >= 1024;
	if (previous->managed && previous->idle && fits && may_use(wish, wish->previous))
		return wish->previous;
	FOR (i, wish->home < 0 && wish->waker < 0 ? 2 : 0, 2) {
		s32 number = i ? wish->waker : wish->home;
		struct cluster *preferred = number >= 0 ? cluster_at(number) : NULL;

		if (!preferred || !preferred->idle)
			continue;
		found = idle_cpu_of(number, wish, &whole);
		if (found != NONE)
			break;
	}
	if (found != NONE)
		return found;
	if (wish->home >= 0) {
		cluster = cluster_at(wish->home);
		if (!cluster)
			return NONE;
	}
	return idle_cpu_nearby(cluster->llc, wish);
}
