# SPDX-License-Identifier: GPL-2.0
# Kbuild describes the module; here is how to call it and everything else.
# make help lists the targets.

# KDIR= or KERNEL= choose the kernel, see scripts/build.
export KDIR KERNEL V SVCRDMA_CACHE
export TESTS SEED

.DEFAULT_GOAL := modules

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20
	@echo
	@echo '  KERNEL=7.2    for the newest packaged kernel of that family'
	@echo '  KDIR=DIR      for the kernel built in DIR; without both: for the running kernel'
	@echo '  TESTS=PATTERN of make test: only tests whose names match (host.*, vm areas, ...)'
	@echo '  V=1           show commands'

modules: ## build svcrdma.ko into build/VERSION
	@scripts/build modules

.PHONY: help modules
