# What a newcomer types. `make demo` and `make test` need nothing but Python 3.11 or newer: each makes .venv from a lock
# file, checks every hash, and leaves a stamp, so that the second call starts at once.

VENV := .venv
BIN := $(VENV)/bin
# The first interpreter on PATH that is new enough. To choose another one: make PYTHON=/path/to/python3.12 test
CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in $(CANDIDATES); do $$p -c '$(NEW_ENOUGH)' 2>/dev/null && echo $$p && break; done)
PIP_INSTALL := $(BIN)/python -m pip install --no-input --progress-bar off --disable-pip-version-check
LOCKED := $(PIP_INSTALL) --require-hashes -r
# An install of a minute is not silent: what pip says, as the names of the packages on one line. (sh has no pipefail.)
NAMES = while read -r word name rest; do if [ "$$word" = Collecting ]; then printf ' %s' "$${name%%==*}"; fi; done
SAYING = exec 4>&1; status=$$({ { $(1); echo $$? >&3; } | $(NAMES) >&4; } 3>&1); echo; exit $$status
COMPILE := uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet
# For one test more or fewer: make test ARGS='-k timeline'
ARGS ?=
# How many seeds `make sim` plays, and how many at a time.
SEEDS ?= 300
PROCESSES ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)

.DEFAULT_GOAL := help
.PHONY: help demo up test test-integration test-deep sim lint types bench chart docs dist lock clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

demo: $(VENV)/.runtime  ## twenty Jobs over simulated clusters, with an embedded PostgreSQL; ends by itself
	@$(BIN)/controlplane demo $(ARGS)

up: $(VENV)/.runtime  ## the same, to stay: the service, its database and the clusters, until Ctrl-C
	@$(BIN)/controlplane up $(ARGS)

test: $(VENV)/.dev  ## run the tests of the parts; needs neither Docker nor a cluster
	$(BIN)/python -m pytest --numprocesses auto --dist loadscope -m 'not deep and not integration' $(ARGS)

test-integration: $(VENV)/.dev  ## the tests of the whole: its processes, its commands, simulated fleets; needs no more than that
	$(BIN)/python -m pytest --numprocesses auto --dist loadscope -m 'integration and not deep' $(ARGS)

test-deep: $(VENV)/.dev  ## the tests that take long: every state of a protocol, hundreds of seeds, many examples, every deliberate bug
	$(BIN)/python -m pytest --numprocesses auto --dist loadscope -m 'deep or generated' $(ARGS)

sim: $(VENV)/.runtime  ## play seeds of the deterministic simulation: make sim SEEDS=10000
	@$(BIN)/controlplane simulate --seeds 1..$(SEEDS) --processes $(PROCESSES) $(ARGS)

lint: $(VENV)/.dev  ## ruff, its formatter, and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.dev  ## mypy, strict
	$(BIN)/mypy

bench: $(VENV)/.dev  ## measure on this machine
	$(BIN)/python -m benchmarks $(ARGS)

chart: $(VENV)/.dev  ## copy the manifests into the Helm chart, and write the schema of its values
	$(BIN)/python -m tests.deploy.chart_files

docs: $(VENV)/.release  ## build the site of docs/ into site/; a link that leads nowhere fails
	$(BIN)/zensical build --strict

dist: $(VENV)/.release  ## what a release consists of, in dist/: wheel, sdist, chart, bill of materials, checksums
	@rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/cyclonedx-py requirements requirements.lock --output-reproducible --of JSON -o dist/controlplane.cdx.json
	@PATH="$(BIN):$$PATH"; command -v helm >/dev/null || { echo 'make dist needs helm, for the chart' >&2; exit 1; }; \
	  helm package deploy/chart --destination dist
	cd dist && sha256sum * > SHA256SUMS

lock:  ## resolve the dependencies anew and write the lock files (needs uv)
	@command -v uv >/dev/null || { echo 'make lock needs uv: $(PYTHON) -m pip install uv' >&2; exit 1; }
	$(COMPILE) --upgrade pyproject.toml --extra embedded --extra otel --extra web --output-file requirements.lock
	$(COMPILE) --upgrade pyproject.toml --extra embedded --extra archive --extra otel --extra web --group dev --constraint requirements.lock --output-file requirements-dev.lock
	$(COMPILE) --upgrade --group release --constraint requirements-dev.lock --output-file requirements-release.lock
	printf '%s\n' hatchling editables | $(COMPILE) --upgrade - --output-file requirements-build.lock

clean:  ## remove what was built here: the environment, caches, the demo's database
	rm -rf $(VENV) site .cache .controlplane .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A directory that was left half made (Ctrl-C) has no stamp, so it is made again from nothing.
$(VENV)/.made:
	@test -n '$(PYTHON)' || { echo 'No Python 3.11 or newer on PATH (looked for: $(CANDIDATES)).' >&2; \
	  echo 'Install one, or name it: make PYTHON=/path/to/python3.12 ...' >&2; exit 1; }
	@'$(PYTHON)' -c '$(NEW_ENOUGH)' || { echo "$(PYTHON) is $$('$(PYTHON)' -V 2>&1), but 3.11 or newer is needed." >&2; \
	  echo 'Name another one: make PYTHON=/path/to/python3.12 ...' >&2; exit 1; }
	@'$(PYTHON)' -c 'import venv, ensurepip' 2>/dev/null || { echo '$(PYTHON) cannot make virtual environments (no ensurepip).' >&2; \
	  echo 'On Debian and Ubuntu: apt-get install python3-venv' >&2; exit 1; }
	@'$(PYTHON)' -m venv --clear $(VENV)
	@touch $@

# Controlplane itself, from this tree: its entry point and its version. What builds it is locked as well.
$(VENV)/.project: requirements-build.lock pyproject.toml | $(VENV)/.made
	@$(LOCKED) requirements-build.lock --quiet
	@$(PIP_INSTALL) --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# Not compiled: half of the time of the install is for modules that nobody imports. What is imported, Python compiles itself.
$(VENV)/.runtime: requirements.lock $(VENV)/.project
	@printf 'Installing the locked dependencies into $(VENV) (once):'
	@$(call SAYING,$(LOCKED) requirements.lock --no-compile)
	@touch $@

# What builds the site and the bill of materials, beside the development dependencies.
$(VENV)/.release: requirements-release.lock | $(VENV)/.dev
	@$(LOCKED) requirements-release.lock --no-compile --quiet
	@touch $@

# The development lock contains the runtime one, version for version (tests/house holds it to that).
$(VENV)/.dev: requirements-dev.lock $(VENV)/.project
	@printf 'Installing the locked development dependencies into $(VENV) (once):'
	@$(call SAYING,$(LOCKED) requirements-dev.lock --no-compile)
	@touch $(VENV)/.runtime $@
