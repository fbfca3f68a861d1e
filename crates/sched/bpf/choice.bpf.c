/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Measures the choice of a CPU alone, on an invented machine, without a scheduler: tasks wake on random CPUs, and go to
 * sleep when `busy` others have woken after them.
 */
#include "select.h"

CONSTANT(choices);
CONSTANT(busy);
CONSTANT(pack);

/* The CPUs on which tasks run, in the order in which they woke. */
MAP(running) = { BPF_MAP_TYPE_ARRAY, 4, 8, 8192, BPF_F_MMAPABLE };
/* Time of all choices in nanoseconds, and number of those that found a CPU. */
MAP(results) = { BPF_MAP_TYPE_ARRAY, 4, 8, 2, BPF_F_MMAPABLE };
/* State of the random numbers: in memory, so that the verifier does not follow each of them. */
MAP(seeds) = { BPF_MAP_TYPE_ARRAY, 4, 8, 1, BPF_F_MMAPABLE };

SEC("syscall")
int measure(void *ctx)
{
	u32 i, slot, zero = 0, one = 1;
	u64 *total = bpf_map_lookup_elem(&results, &zero), *found = bpf_map_lookup_elem(&results, &one);
	u64 *seed = bpf_map_lookup_elem(&seeds, &zero);

	if (!total || !found || !seed)
		return 1;
	FOR (i, 0, VALUE(choices)) {
		struct wish wish = { .pack = VALUE(pack), .home = NONE, .waker = NONE };
		struct cpu *chosen;
		u64 *place, begun;
		s32 cpu;

		/* Numerical Recipes' generator; its high bits are the random ones. */
		*seed = (u32)(*seed * 1664525 + 1013904223);
		wish.previous = (*seed * VALUE(cpu_count)) >> 32;
		begun = bpf_ktime_get_ns();
		cpu = choose_idle(&wish);
		*total += bpf_ktime_get_ns() - begun;
		slot = i % 8192;
		place = bpf_map_lookup_elem(&running, &slot);
		if (!place)
			break;
		*place = cpu + 1;
		if (cpu != NONE) {
			*found += 1;
			chosen = cpu_at(cpu);
			if (chosen)
				set_idle(chosen, false);
		}
		if (i < VALUE(busy))
			continue;
		slot = (i - VALUE(busy)) % 8192;
		place = bpf_map_lookup_elem(&running, &slot);
		if (place && *place) {
			chosen = cpu_at(*place - 1);
			if (chosen)
				set_idle(chosen, true);
			*place = 0;
		}
	}
	return 0;
}
