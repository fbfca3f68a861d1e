# On a fresh machine: `make eval` evaluates it, `make test` runs all tests.

MANYCORE := target/release/manycore
GUARD := target/small/manycore-guard
PREFIX ?= /usr/local
# Version of mdBook that `make book` installs if there is none.
MDBOOK := 0.5.4

.PHONY: all build guard eval test test-all test-fast fresh percpu lab domains memory arm bench calibrate man doc book install \
	uninstall dist dist-check clean

all: build guard

build:
	@scripts/need build
	cargo build --release --locked -p manycore

# The guard as a small program of its own.
guard:
	@scripts/need build
	cargo build --profile small --locked -p manycore-guard-daemon

eval: build
	@scripts/need eval
	$(MANYCORE) eval $(EVAL)

# All Rust tests, pages in Chromium, packages and scripts: about ten minutes on two CPUs, build included.
test:
	@scripts/need build
	@scripts/need test
	@lab/domains fetch
	scripts/test

# Also the emulated machines, domains of libvirt, Miri and AArch64; see CONTRIBUTING.md.
test-all:
	@scripts/need build
	@scripts/need test
	@scripts/need lab
	@lab/domains fetch
	scripts/test all

# Unit tests of all crates: under two minutes after a build.
test-fast:
	@scripts/need build
	scripts/test unit

# Runs `make eval` and `make test` with nothing installed but Rust and make: in a minimal Debian root, and
# in a Fedora or openEuler root if this machine can create one. Needs root and debootstrap; takes half an
# hour, not part of `make test`.
fresh:
	@scripts/need fresh
	scripts/fresh

# Tests the counters of percpu/ under Miri, with musl and for AArch64, as far as the tools are installed.
# Part of `make test-all`.
percpu:
	@scripts/need test
	scripts/percpu

# Sets up the emulated many-core machines of `lab/run`, which `make test-all` runs.
lab:
	@scripts/need lab
	lab/vm setup

# Plans and defines all domains of libvirt's own tests. Takes two minutes; `make test-all` uses every sixteenth
# domain.
domains:
	@scripts/need test
	lab/domains

# Compares programs that act when memory runs out, in small emulated machines. Takes half an hour, not part
# of `make test-all`.
memory:
	@scripts/need lab
	lab/memory

# Tests the counters of percpu/ on an emulated AArch64 kernel with restartable sequences. Not part of
# `make test-all`.
arm:
	@scripts/need test
	@scripts/need lab
	lab/arm

# Measures ratios to other programs, each in one interleaved run. Takes about a quarter of an hour.
bench: build
	@scripts/need bench
	cargo bench --locked --bench prime
	cargo bench --locked --bench slicing
	cargo bench --locked --bench matrix
	cargo bench --locked --bench latency
	cargo bench --locked --bench noise
	cargo bench --locked --bench plan
	cargo bench --locked --bench vm
	cargo bench --locked --bench watch
	cargo bench --locked --bench guard
	cargo bench --locked --bench audit
	cargo bench --locked --bench run
	cargo bench --locked --bench settings
	cargo bench --locked -p manycore-sched --bench choice
	cargo bench --locked -p manycore-load --bench generator
	cargo bench --locked --manifest-path crates/percpu/peers/Cargo.toml --target-dir target/peers
	cargo bench --locked --bench contention
	cargo bench --locked --bench stream
	cargo bench --locked --bench falseshare
	scripts/bench-topo

calibrate: build
	@scripts/need calibrate
	cargo bench --locked --bench calibrate
	cargo bench --locked --bench calibrate_variants
	cargo bench --locked -p manycore-stats --bench estimators
	cargo bench --locked --bench tune

man: build
	$(MANYCORE) man target/man
	@echo "man pages are in target/man"

doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

# The book (docs/src) as HTML, in target/book.
book:
	@command -v mdbook >/dev/null || test -x target/tools/bin/mdbook || \
	cargo install mdbook --locked --version $(MDBOOK) --root target/tools
	PATH="$$PATH:$(CURDIR)/target/tools/bin" mdbook build docs

# `make`, then `sudo make install`: root does not need cargo. PREFIX and DESTDIR say where to install.
install:
	@test -x $(MANYCORE) && test -x $(GUARD) || $(MAKE) all
	PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install $(MANYCORE) $(GUARD)

# Removes exactly what `make install` with the same PREFIX and DESTDIR has installed.
uninstall:
	PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install --remove

# Builds the files of a release in target/dist: static programs for x86_64 and aarch64, deb, rpm, checksums. Not part of
# `make test`.
dist:
	@scripts/need build
	@scripts/need dist
	scripts/dist

# Installs, runs and removes what `make dist` has built, in clean roots, containers and emulators.
dist-check:
	@scripts/need dist
	scripts/dist --check

clean:
	cargo clean
