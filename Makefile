# Run `make help`.

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
# A static executable starts fastest, and runs on any node.
STATIC := -- -C target-feature=+crt-static
export CATENA_CNI_PLUGINS ?= $(if $(wildcard /usr/lib/cni/ptp),/usr/lib/cni,$(if $(wildcard /opt/cni/bin/ptp),/opt/cni/bin,/usr/lib/cni))

.PHONY: help setup build fast lint unit fuzz stages panics integration test soak soak-routes soak-faults cost runtimes
.PHONY: examples examples-rust demo bench bench-growth bench-parts bench-timeline bench-tools instructions clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what building and testing need (Debian; root only if something is missing)
	@.ci/setup.sh

# Two cargo calls: in one, feature unification would link catenactl's compiler into catena as well.
build: setup ## Build catena and catenactl into target/release
	$(CARGO) rustc --locked --release -p catena --bin catena $(STATIC)
	$(CARGO) build --locked --release -p catenactl

# The same binaries without the minutes that fat LTO takes: what tests, CI and the demo of CI run.
fast: setup
	$(CARGO) rustc --locked --profile fast -p catena --bin catena $(STATIC)
	$(CARGO) build --locked --profile fast -p catenactl

lint: ## Check formatting and lints
	@.ci/setup.sh --lint
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets --profile fast -- -D warnings
	$(CARGO) clippy --locked -p catena --bin catena --features inject-panics,timeline --profile fast -- -D warnings

unit: setup ## Run the unit tests
	$(CARGO) test --locked -q $(LIGHT)
	$(CARGO) test --locked -q --profile fast -p catena --lib --test '*'
	$(CARGO) test --locked -q --profile fast -p catenactl
	$(CARGO) test --locked -q --profile fast -p catena-bench

fuzz: setup ## Run each fuzz target on many inputs (FUZZ_INPUTS of each, by FUZZ_SEED)
	FUZZ_INPUTS=$(or $(FUZZ_INPUTS),1000000) $(CARGO) test --locked --profile fuzz -p catena --test fuzz
	FUZZ_INPUTS=$(or $(FUZZ_INPUTS),1000000) $(CARGO) test --locked --profile fuzz -p catena --lib fuzz

LIGHT := -p catena-cni -p catena-contract -p catena-routes -p catena-sdk -p deny-network -p route-override -p catena-plugin-result-conversion \
	-p catena-plugin-empty-result -p catena-plugin-default-gateway -p catena-plugin-network-status

stages: setup
	$(CARGO) run --locked -q -p catena-test-stages -- $(abspath $(TARGET))/test-stages

# A catena that panics on demand, for one test; then the ordinary one takes its place again.
panics: setup
	$(CARGO) rustc --locked --profile fast -p catena --bin catena --features inject-panics $(STATIC)
	cp $(TARGET)/fast/catena $(TARGET)/fast/catena-panics
	$(MAKE) fast

BINARIES := CATENA_BIN=$(abspath $(TARGET))/fast/catena CATENACTL_BIN=$(abspath $(TARGET))/fast/catenactl \
	CATENA_PANICS_BIN=$(abspath $(TARGET))/fast/catena-panics CATENA_TEST_STAGES=$(abspath $(TARGET))/test-stages

integration: stages panics ## Run the integration tests: real binary, kernel and CNI plugins (root or user namespaces)
	$(BINARIES) $(CARGO) test --locked -q -p catena-tests

soak: soak-routes soak-faults ## Run for long what the tests only sample

# Every kill, loss and failing call of the tables that the tests sample: some hours.
soak-faults: stages panics
	$(BINARIES) CATENA_SOAK=1 $(CARGO) test --locked -q -p catena-tests --test faults

runtimes: fast stages ## Run the tests under containerd and podman (root; installs them)
	@.ci/setup.sh --runtimes
	$(CARGO) build --locked -q -p catena-tests --bins
	$(BINARIES) $(CARGO) test --locked -q -p catena-runtime-tests

# Each file of vectors leaves its counts in a folder; a file that nobody ran has none there.
export CATENA_VECTOR_COUNTS = $(abspath $(TARGET))/vector-counts

test: ## Run all tests
	@rm -rf $(CATENA_VECTOR_COUNTS)
	@$(MAKE) unit
	@$(MAKE) integration
	@tests/count-vectors $(CATENA_VECTOR_COUNTS)

examples: fast stages ## Build and run the examples and the tutorial, in Rust, Python and JavaScript (registries needed)
	@.ci/setup.sh --examples
	PATH="$(abspath $(TARGET))/node/bin:$$PATH" $(BINARIES) $(CARGO) test --locked -q -p catena-tests --test examples

examples-rust: fast stages ## The part of it in Rust, the next version of the contract included
	$(BINARIES) $(CARGO) test --locked -q -p catena-tests --test examples -- --skip python --skip javascript

# Each prints its counts and its seed; SOAK_SEED=N does the same again. The kernel tests share two processors badly.
soak-routes: export SOAK_APPLIES ?= 200000
soak-routes: export SOAK_SWAPS ?= 20000
soak-routes: export SOAK_ALL = 1
soak-routes: setup ## Run the random route tests for long: SOAK_APPLIES (200000), SOAK_SWAPS, SOAK_SEED (root or user namespaces)
	$(CARGO) test --locked -q --profile fast -p catena-routes --test it -- --nocapture random exhaustive
	$(CARGO) test --locked -q --profile fast -p catena --lib -- --nocapture --test-threads 1 \
		routes::tests::random routes::tests::gap routes::tests::concurrent

demo: build ## Attach two networks to a pod in namespaces of its own, and show what happens
	@tests/demo $(TARGET)/release/catena

BENCH := $(abspath $(TARGET))/fast/catena-bench

bench-tools: setup
	$(CARGO) rustc --locked --profile fast -p catena-bench --bin bench-empty $(STATIC)
	$(CARGO) rustc --locked --profile fast -p catena-bench --bin bench-delegate $(STATIC)
	$(CARGO) build --locked --profile fast -p catena-bench --bin catena-bench

bench: build stages bench-tools ## Measure whole calls beside the delegates alone, with the budgets (ROUNDS=100)
	CATENA_BIN=$(abspath $(TARGET))/release/catena CATENACTL_BIN=$(abspath $(TARGET))/release/catenactl \
		CATENA_TEST_STAGES=$(abspath $(TARGET))/test-stages $(BENCH) calls --rounds $(or $(ROUNDS),100) \
		--dir $(abspath $(TARGET))/bench/place --json $(or $(JSON),$(abspath $(TARGET))/bench/calls.json)

cost: bench-tools ## Measure a default route swap beside 10 to 100,000 other routes (ROUNDS=200; root or user namespaces)
	$(BENCH) routes --rounds $(or $(ROUNDS),200)

bench-parts: setup ## Measure parts of a call inside a process (root or user namespaces; ARGS='modules' for some of them)
	$(CARGO) bench --locked --profile fast -p catena --bench parts -- $(ARGS)

bench-growth: build bench-tools ## Measure how costs grow with attachments, routes, results and state (ROUNDS=10)
	CATENA_BIN=$(abspath $(TARGET))/release/catena $(BENCH) growth --rounds $(or $(ROUNDS),10) \
		--dir $(abspath $(TARGET))/bench/place --json $(or $(JSON),$(abspath $(TARGET))/bench/growth.json)

# Such a build measures itself while it works, so it is moved away: the next `make build` makes the one for people.
bench-timeline: setup bench-tools ## Measure when an ADD gets where, in a build for that (ROUNDS=100)
	$(CARGO) rustc --locked --release -p catena --bin catena --features timeline $(STATIC)
	mkdir -p $(TARGET)/bench/timeline && mv $(TARGET)/release/catena $(TARGET)/bench/timeline/catena
	CATENA_BIN=$(abspath $(TARGET))/bench/timeline/catena $(BENCH) timeline --rounds $(or $(ROUNDS),100) \
		--dir $(abspath $(TARGET))/bench/place --json $(or $(JSON),$(abspath $(TARGET))/bench/timeline.json)

instructions: fast bench-tools ## Compare the instructions of each command with their bounds (callgrind)
	@.ci/setup.sh --valgrind
	CATENA_BIN=$(abspath $(TARGET))/fast/catena $(BENCH) instructions --dir $(abspath $(TARGET))/bench/place

clean: ## Remove what was built
	$(CARGO) clean
