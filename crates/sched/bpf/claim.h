/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The idle CPU that a task gets: chosen by its policy (select.h), and claimed in the kernel's own record.
 */
#pragma once
#include "tasks.h"

/* Number of possible CPUs: tasks that may use all of them are not restricted. Set by the loading program. */
CONSTANT(possible_cpus);

/* Chooses an idle CPU for a task and claims it; NONE if there is none. `stay` prefers its own cluster. */
INLINE s32 choose(struct task_struct *p, struct task *task, u32 previous, u32 waker, bool stay)
{
	struct wish wish = {
		.p = p,
		.restricted = (u32)p->nr_cpus_allowed < VALUE(possible_cpus),
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
	chosen = cpu < 0 ? NULL : cpu_at(cpu);
	/* A task may stay on an isolated CPU, as under the kernel's own scheduler, but does not get there. */
	if (!chosen || (!chosen->managed && (u32)cpu != previous))
		return NONE;
	set_idle(chosen, false);
	return cpu;
}
