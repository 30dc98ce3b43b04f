# From a fresh clone with only Python 3.11 or later: `make demo`, `make test`. (Java comes with the set-up where there is none.)
SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
JOBS ?= 3
ARGS ?=
LOCK_COMMAND := uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet
COUNTED = QUERY one PATTERN SEQ(A a, B b) WITHIN 9 AGG COUNT(*); QUERY two PATTERN SEQ(A a, !N n, B b) WITHIN 9 AGG MAX(a.ts)
WARM = $(BIN)/ensue demo --backend local --events 10 --folder $(VENV)/warm >/dev/null && rm -rf $(VENV)/warm && \
  printf '{"type": "%s", "ts": %d}\n' A 1 B 2 | $(BIN)/ensue run "$(COUNTED)" --input - --quiet >/dev/null
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps

.PHONY: help setup demo test test-kafka test-delta chaos bench bench-spark bench-peers paper-rules paper-adaptive paper-apam paper-aseq lint types fmt fuzz lock clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY)  ## create .venv with everything from requirements.lock, Java where there is none, and ensue itself

# A candidate counts only if it runs, is new enough and can make environments (Debian ships venv apart). Likewise Java:
# Spark needs 17 or later.
$(READY): requirements.lock requirements-java.lock pyproject.toml
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
	$(INSTALL) --require-hashes -r requirements.lock; \
	runs_spark() { "$$1" --list-modules 2>/dev/null | grep -E '^java\.base@(1[7-9]|[2-9][0-9])' >/dev/null; }; \
	if ! runs_spark "$${JAVA_HOME:-/nonexistent}/bin/java" && ! runs_spark java; then \
	  echo "No Java 17 or later here: installing one into $(VENV) from requirements-java.lock"; \
	  $(INSTALL) --require-hashes -r requirements-java.lock; \
	fi; \
	$(INSTALL) --no-build-isolation --editable .; \
	$(WARM); \
	touch $(READY)

demo: $(READY)  ## three queries over a generated stream of trades
	$(BIN)/ensue demo

# Kernels that have changed are compiled before the workers start: each would wait for a compilation of its own otherwise.
test: $(READY)  ## all tests, JOBS=3 at a time (ARGS="tests/cli -k run" for some)
	@$(WARM)
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal $(ARGS)

test-kafka: $(READY)  ## Kafka for real: fetch a broker and Spark's connector by their names, run pipelines between topics
	$(BIN)/python -m tests.connectors.artifacts kafka
	$(BIN)/python -m pytest -q -m "" tests/connectors/test_kafka.py $(ARGS)

test-delta: $(READY)  ## Delta Lake for real, in an environment with the newest Spark that it is made for
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(VENV)-delta
	$(BIN)/uv pip install --quiet --python $(VENV)-delta/bin/python --editable . pyspark==4.2.0 pytest
	$(VENV)-delta/bin/python -m tests.connectors.artifacts delta
	$(VENV)-delta/bin/python -m pytest -q -m "" tests/connectors/test_delta.py $(ARGS)

chaos: $(READY)  ## kill streaming runs at random moments, damage checkpoints, compare with batch (ARGS="--help")
	$(BIN)/python -m tests.spark.chaos $(ARGS)

bench: $(READY)  ## measure ensue beside a Python loop, DuckDB and C (ARGS=--quick for a first look)
	$(BIN)/python benchmarks/run.py $(ARGS)

bench-spark: $(READY)  ## measure ensue on Spark beside Spark alone and Spark SQL (ARGS=--quick for a first look)
	$(BIN)/python benchmarks/spark.py $(ARGS)

bench-peers: $(READY)  ## measure ensue beside Flink CEP, Esper, Siddhi, DuckDB, Spark SQL, pandas (QUICK=1: ten minutes)
	@$(WARM)
	$(BIN)/python -m benchmarks.peers $(if $(QUICK),--quick) $(ARGS)

paper-rules: $(READY)  ## what the order of time saves rules: tuples kept, time, state over 10M events (ARGS=--quick)
	$(BIN)/python benchmarks/paper_rules.py $(ARGS)

paper-adaptive: $(READY)  ## adaptation methods on streams that drift: tables and plots in results/ (ARGS=--quick, --traffic FILE)
	$(BIN)/python benchmarks/paper_adaptive.py $(ARGS)

paper-apam: $(READY)  ## how soon matches are known with eager, lazy and hybrid plans at several rates (ARGS=--quick)
	$(BIN)/python benchmarks/paper_apam.py $(ARGS)

paper-aseq: $(READY)  ## counting matches beside building them, and what queries share: tables and plots (ARGS=--quick)
	$(BIN)/python benchmarks/paper_aseq.py $(ARGS)

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

lock: $(READY)  ## renew the lock files from pyproject.toml (UPGRADE=1 for newer versions)
	$(BIN)/$(LOCK_COMMAND) $(if $(UPGRADE),--upgrade) pyproject.toml --all-extras --group dev -o requirements.lock
	$(BIN)/$(LOCK_COMMAND) $(if $(UPGRADE),--upgrade) --group java -o requirements-java.lock

clean:  ## remove what the other targets made
	rm -rf $(VENV) $(VENV)-delta results spark-warehouse dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
