# SPDX-License-Identifier: GPL-2.0
# Kbuild describes the module; here is how to call it, and everything else.
# KDIR= or KERNEL= choose the kernel, see scripts/build; make help lists the targets.

export KDIR KERNEL V SVCRDMA_CACHE SERVER TESTS MINUTES SLOW CPUS WITH VERSION GROUP FASTEST XFSTESTS RESUME
export CELLS ROUNDS SECONDS_EACH FROM
export DEB_SIGN MODULE_SIGN_KEY MODULE_SIGN_CERT

.DEFAULT_GOAL := modules

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22
	@echo
	@echo '  KERNEL=7.3           for the newest packaged kernel of that family'
	@echo '  KERNEL=debug         for the debug kernel, which is built first (see Documentation/testing.rst)'
	@echo '  KDIR=DIR             for the kernel built in DIR; without both: for the running kernel'
	@echo '  TESTS="PATTERN ..."  only tests whose names match, as in TESTS="host.* check.fmt"'
	@echo '  SERVER=stock         runs tests that fit both against the kernel'"'"'s own server'
	@echo '  CPUS=4               gives the server of each test in VMs four CPUs; more than two run in parallel'
	@echo '  WITH="SEED=7"        sets variables of tests in VMs'
	@echo '  MINUTES=60           begins no test after an hour, and names those that were not run'
	@echo '  SLOW=3               gives tests three times as long, on a busy machine'
	@echo '  JUNIT=FILE           writes the results of tests to FILE as JUnit XML, too'
	@echo '  DEB_SIGN=KEYID       lets make deb sign the repository; MODULE_SIGN_KEY=FILE the modules'
	@echo '  V=1                  show commands'

modules: ## build svcrdma.ko into build/VERSION (the default)
	@scripts/build modules

install: ## install it for this host's kernel, so that nfsd finds it
	@scripts/install

deb: ## build the Debian packages into build/deb
	@scripts/deb

host: ## unit and property tests of the protocol crates, and the tests of the tools
	@scripts/cargo host test
	@scripts/cargo smbdirect test
	@scripts/cargo probe test
	@scripts/cargo ctl test

bench-host: ## instructions of the protocol crate for an RPC, by step; by function for OPERATION=read-4k
	@scripts/cargo host bench $(OPERATION)

fuzz: ## fuzz the protocol crate with cargo-fuzz: SECONDS=60 for each of TARGETS="reply sq"
	@scripts/cargo host fuzz $(or $(SECONDS),60) $(TARGETS)

sim: ## run the module under SEEDS=1000 schedules, on models of the kernel; SEED=n repeats one
	@scripts/cargo sim run $(or $(SEED),1 $(or $(SEEDS),1000))
	@$(if $(SEED),,scripts/cargo sim run failures)
	@$(if $(SEED),,scripts/cargo sim run example 1 50)

loom: ## run the lock-free parts in all orders, on a model of weakly ordered memory
	@scripts/cargo loom test

loom-mutants: ## check that these tests find the faults in tools/loom/mutants
	@scripts/mutants --loom $(MUTANTS)

sim-mutants: ## check that the simulator finds the faults in tools/sim/mutants
	@scripts/mutants $(MUTANTS)

probe: ## build tools/probe, which VMs find as rpcrdma-probe
	@scripts/cargo probe build

tools: probe ## build the probe and tools/ctl, which is svcrdmactl
	@scripts/cargo ctl build

fmt: ## format all Rust code
	@scripts/fmt

clippy: ## lints, the kernel's set, for the module and for the tools
	@SUFFIX=-clippy scripts/build modules CLIPPY=1 W=e SVCRDMA_EXAMPLES=m
	@scripts/cargo . clippy
	@scripts/cargo sim clippy
	@scripts/cargo loom clippy

rust-analyzer: modules ## describe all crates to rust-analyzer, in rust-project.json
	@scripts/rust-analyzer

check: modules ## imports, reachable panics, stack; shell and Python code
	@scripts/check-shell
	@scripts/check-python
	@scripts/check-runner
	@scripts/check-imports
	@scripts/check-panics
	@scripts/check-stack

# For the kernel that VMs boot, whatever this host runs.
vm-modules:
	@KDIR= KERNEL="$${KERNEL:-$$(scripts/families | sed -n 1p)}" scripts/build modules SVCRDMA_EXAMPLES=m

vm: vm-modules ## a shell in a VM with the module at hand
	@scripts/need-qemu
	@tools/vm/vm.py shell --cpus 2

demo: ## NFS over RDMA served by the module, shown in a VM
	@tools/vm/demo

test: ## every test, but what takes long or needs the debug kernel; the last line is "N passed, N failed"
	@scripts/need-qemu
	@scripts/test $(if $(JUNIT),--junit "$(JUNIT)")

test-list: ## the names of the tests that make test would run
	@scripts/test --list

test-debug: ## the tests for a kernel with KASAN, lockdep and kmemleak, on that
	@scripts/need-qemu
	@KERNEL=debug scripts/test $(if $(JUNIT),--junit "$(JUNIT)")

test-long: ## tests that take long, and do more of what others do
	@scripts/need-qemu
	@scripts/test --long $(if $(JUNIT),--junit "$(JUNIT)")

soak: ## new seeds of the simulator and rounds in VMs for HOURS=1; goes on where the last one ended
	@scripts/need-qemu
	@tools/vm/soak.py $(or $(HOURS),1)

test-packages: ## all tests of the Debian packages; those of DKMS take long
	@scripts/need-qemu
	@scripts/test --packages $(if $(JUNIT),--junit "$(JUNIT)")

htmldocs: vm-modules ## render Documentation to build/htmldocs, and crates to build/htmldocs/rust
	@scripts/htmldocs

nfstest: vm-modules ## a suite of nfstest: SUITE=posix VERSION=4.2 RUNTEST=all
	@scripts/need-qemu
	@tools/vm/vm.py run --vms 2 --limit 7200 --server "$(or $(SERVER),ours)" --out build/nfstest \
		tools/vm/tests/nfstest "$(or $(SUITE),posix)" "$(or $(VERSION),4.2)" "$(or $(RUNTEST),all)"

xfstests: vm-modules ## xfstests on RDMA mounts: XFSTESTS=TREE VERSION=4.2, or GROUP=quick, not tools/vm/xfstests-list
	@scripts/need-qemu
	@scripts/xfstests

bench: ## the figures, ours beside the stock server's
	@scripts/need-qemu
	@scripts/test --bench

clean: ## remove what was built here; the cache stays
	rm -rf build tools/target tools/loom/target tools/sim/target tools/host/fuzz/artifacts rust-project.json

clean-cache: ## remove the build root, kernels and images that were made
	rm -rf --one-file-system "$${SVCRDMA_CACHE:-/var/cache}/svcrdma"

.PHONY: help modules vm-modules install deb host bench-host fuzz loom loom-mutants sim sim-mutants probe tools fmt clippy rust-analyzer check vm demo test test-list test-debug test-long soak test-packages htmldocs nfstest xfstests bench clean clean-cache
