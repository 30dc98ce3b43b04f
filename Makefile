# From a fresh clone with only Python 3.11 or later: `make demo`, `make test`.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
JOBS ?= 2
ARGS ?=
LOCK_COMMAND := uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-header --quiet --output-file requirements.lock

.PHONY: help setup demo test bench lint types fmt fuzz lock clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY)  ## create .venv with everything from requirements.lock, and ensue itself

# A candidate counts only if it runs, is new enough and can make environments (Debian ships venv apart).
$(READY): requirements.lock pyproject.toml
	@set -euo pipefail; \
	if [ ! -x $(BIN)/python ]; then \
	  found=; \
	  for candidate in $(PYTHON) python3 python3.11 python3.12 python3.13 python; do \
	    if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	      found=$$candidate; break; \
	    fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "ensue needs Python 3.11 or later with its venv module, and none was found on the PATH." >&2; \
	    echo "Install python3.11 (on Debian and Ubuntu: apt install python3.11 python3.11-venv) or give its path:" >&2; \
	    echo "  make setup PYTHON=/path/to/python3.11" >&2; \
	    exit 1; \
	  fi; \
	  echo "Creating $(VENV) with $$("$$found" --version)"; \
	  "$$found" -m venv $(VENV); \
	fi; \
	echo "Installing from requirements.lock"; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .; \
	touch $(READY)

demo: $(READY)  ## three queries over a generated stream of trades
	$(BIN)/ensue demo

# The kernels are compiled before the workers start: each would wait for a compilation of its own otherwise.
test: $(READY)  ## all tests, JOBS=2 at a time (ARGS="tests/cli -k run" for some)
	@$(BIN)/ensue demo --events 10 --folder $(VENV)/warm >/dev/null && rm -rf $(VENV)/warm
	$(BIN)/python -m pytest -q -n $(JOBS) $(ARGS)

bench: $(READY)  ## measure ensue beside a Python loop, DuckDB and C (ARGS=--quick for a first look)
	$(BIN)/python benchmarks/run.py $(ARGS)

lint: $(READY)  ## ruff and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(READY)  ## mypy, strict
	$(BIN)/mypy

fmt: $(READY)  ## lay out the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

fuzz: $(READY)  ## the engine against the oracle on random cases not seen before (CASES=20000, ARGS="--first N")
	$(BIN)/python -m tests.fuzz --cases $(or $(CASES),20000) --jobs $(JOBS) $(ARGS)

lock: $(READY)  ## renew requirements.lock from pyproject.toml (UPGRADE=1 for newer versions)
	$(BIN)/$(LOCK_COMMAND) $(if $(UPGRADE),--upgrade)

clean:  ## remove what the other targets made
	rm -rf $(VENV) results dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
