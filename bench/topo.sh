#!/bin/bash
# CPU time of `manycore topo` and of `lstopo --of console` on the same machines, interleaved.
#
# usage: bench/topo.sh [FOLDER ...]        (default: built machines of 256 and of 4096 CPUs)
#
# MANYCORE is the program (default target/release/manycore), RUNS how often each runs (default 21).
# Each FOLDER holds a copy of sysfs and procfs. Prints the medians in milliseconds of user and system time,
# and the ratio manycore/lstopo: its median over pairs and the middle half of them.
set -euo pipefail
export LC_ALL=C TIMEFORMAT='%U %S'
manycore=${MANYCORE:-target/release/manycore}
runs=${RUNS:-21}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

roots=("$@")
if [ ${#roots[@]} -eq 0 ]; then
    cargo run --quiet --release -p manycore-host --example build-machine -- 256 "$scratch/256-cpus"
    cargo run --quiet --release -p manycore-host --example build-machine -- 4096 "$scratch/4096-cpus"
    roots=("$scratch/256-cpus" "$scratch/4096-cpus")
fi

# Milliseconds of CPU time of a command.
cost() { { time "$@" >/dev/null 2>&1; } 2>&1 | awk '{ print 1000 * ($1 + $2) }'; }
ours() { cost "$manycore" topo --root "$1"; }
theirs() {
    HWLOC_FSROOT=$1 HWLOC_THISSYSTEM=0 HWLOC_COMPONENTS=linux,stop cost lstopo --of console
}
quantile() { sort -n | awk -v q="$1" '{ v[NR] = $1 } END { print v[int(q * (NR - 1) + 0.5) + 1] }'; }

command -v lstopo >/dev/null || { echo "SKIPPED: lstopo is not installed (package hwloc)"; exit 0; }
printf '%-40s %12s %12s %8s %s\n' machine 'manycore ms' 'lstopo ms' ratio 'middle half'
for root in "${roots[@]}"; do
    : >"$scratch/pairs"
    ours "$root" >/dev/null; theirs "$root" >/dev/null
    for ((run = 0; run < runs; run++)); do
        if ((run % 2)); then a=$(ours "$root"); b=$(theirs "$root"); else b=$(theirs "$root"); a=$(ours "$root"); fi
        echo "$a $b" >>"$scratch/pairs"
    done
    # bash times in whole milliseconds; a run below one counts as half of one.
    awk '{ print ($1 > 0 ? $1 : 0.5) / ($2 > 0 ? $2 : 0.5) }' "$scratch/pairs" >"$scratch/ratios"
    printf '%-40s %12s %12s %8.2f %.2f-%.2f\n' "$(basename "$root")" \
        "$(cut -d' ' -f1 "$scratch/pairs" | quantile 0.5)" "$(cut -d' ' -f2 "$scratch/pairs" | quantile 0.5)" \
        "$(quantile 0.5 <"$scratch/ratios")" "$(quantile 0.25 <"$scratch/ratios")" "$(quantile 0.75 <"$scratch/ratios")"
done
