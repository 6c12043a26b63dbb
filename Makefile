PY := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help demo test test-shim lint reference shim shim-static bench bench-shim bench-slices bench-growth bench-scale bench-leaks cluster-up cluster-down setup tools clean

help: ## List all targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make .venv with the pinned packages
	@hack/setup.sh

tools: setup ## Find or build etcd and kube-apiserver (about 7 minutes the first time)
	@$(PY) -m hack.cluster tools

demo: tools shim ## Set everything up and run the main job on a real API server
	@$(PY) -m hack.demo

test: tools shim ## Set everything up and run all tests
	@$(PY) -m pytest $(PYTEST_ARGS)

test-shim: tools shim-static ## Run the plugin's tests against every form of it
	@SHIM_FORMS=folder,script,static $(PY) -m pytest tests/shim tests/faults/test_shim_*.py $(PYTEST_ARGS)

lint: setup ## Check style, types and import contracts
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports

reference: setup ## Write the pages of docs/reference that are made from the code
	@$(PY) -m hack.reference

shim: setup ## Build the CNI plugin: build/shim, and build/shim-static once that is compiled
	@$(PY) -m cni.build build/shim
	@$(PY) -m cni.static build/shim-static --cached

shim-static: setup ## Build it as one static executable (about 8 minutes the first time)
	@$(PY) -m cni.static build/shim-static $(if $(UPDATE),--update)

bench: bench-shim bench-slices bench-growth bench-scale bench-leaks ## Run all benchmarks and the long property tests
	@HYPOTHESIS_PROFILE=long $(PY) -m pytest tests/properties tests/faults/test_turmoil.py

bench-shim: tools shim ## Time the shim beside its bare interpreter (and WHEREABOUTS_BIN)
	@$(PY) -m benchmarks.bench_shim

bench-slices: tools ## Time slices for 1,000 nodes beside a plain client
	@$(PY) -m benchmarks.bench_slices

bench-growth: tools ## Time from a pool's want to a usable pool beside a plain client
	@$(PY) -m benchmarks.bench_growth

bench-scale: tools ## Compare the controller's memory and work at 500 and 5,000 nodes
	@$(PY) -m benchmarks.bench_scale

bench-leaks: tools ## Find 1,000 leaks among 20,000 pods under a memory cap
	@$(PY) -m benchmarks.bench_leaks

cluster-up: tools ## Start etcd and kube-apiserver; writes .cluster/kubeconfig
	@$(PY) -m hack.cluster up

cluster-down: setup ## Stop what cluster-up started
	@$(PY) -m hack.cluster down

clean: ## Remove build results, the virtual environment and caches in the tree
	@[ ! -f .cluster/state.json ] || $(MAKE) --no-print-directory cluster-down
	rm -rf .venv build .cluster .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
