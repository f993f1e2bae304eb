# Needs make and Python 3.11 or newer; everything else goes into .venv, but for the browser of some tests.

PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help test lint browser faults learn learn-long results theory tuning mutants fuzz bench peers paper reproduction requirements clean .venv

help:  ## list the targets
	@sed -n 's/^\([a-z.-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

test: lint browser  ## what CI runs: format, lint, types, import contracts, tests
	$(BIN)/pytest -n 2 --dist worksteal

lint: .venv/package  ## everything in `test` that runs no code of the package
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The tests of report pages need Chromium. Where it is missing and root may install it, it is; otherwise they say so.
browser:  ## Chromium and its driver, by apt, if they are missing and may be installed
	@command -v chromedriver >/dev/null 2>&1 || { [ "$$(id -u)" = 0 ] && command -v apt-get && $(APT) update \
		&& $(APT) install --yes --no-install-recommends chromium chromium-driver; } >/dev/null 2>&1 \
		|| echo "no Chromium with its driver: the tests of report pages in a browser will not be run"

APT := DEBIAN_FRONTEND=noninteractive timeout 240 apt-get -o Acquire::Retries=1 -o Acquire::http::Timeout=20

faults: .venv/package  ## kill, damage, crowd and starve runs: 80 stops, 600 damages, ten minutes of memory (slow)
	XLA_FLAGS= $(BIN)/python -m tests.faults

learn: .venv/package  ## the learning tests (slow)
	XLA_FLAGS= $(BIN)/pytest -n 2 -m slow

learn-long: .venv/package  ## train the presets whose environments are stepped on the host, and write docs/control.md (slow)
	$(BIN)/python -m benchmarks.control

results: .venv/package  ## train every preset over 32 seeds and write docs/results.md (slow)
	$(BIN)/python -m benchmarks.learning

theory: .venv/package  ## exact numbers of the lemmas and the estimators, and docs/theory.md
	$(BIN)/python -m benchmarks.theory

tuning: .venv/package  ## search the numbers of the presets and write docs/tuning.md (slow)
	$(BIN)/python -m benchmarks.tuning

mutants: .venv/package  ## sabotage single lines and see that tests go red (slow)
	$(BIN)/python -m tests.mutations

fuzz: .venv/package  ## 10,000 spoilt files of each kind: only clear errors (minutes)
	PGSOM_FUZZ=10000 $(BIN)/pytest -n 2 tests/faults/test_fuzz.py

bench: .venv/package  ## the benchmarks
	$(BIN)/python -m benchmarks

peers:  ## what the benchmarks compare with, in .venv-peers: PyTorch, Gymnasium, Stable-Baselines3, BackPACK, curvlinops
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check "gymnasium>=1.0,<1.4"
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check stable-baselines3
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 backpack-for-pytorch curvlinops-for-pytorch

paper: .venv/package  ## the paper's experiments: verdicts, tables, figures, report in paper-results/ (slow)
	$(BIN)/pgsom paper

reproduction: paper  ## write docs/reproduction.md and its figures from what `make paper` found (slow)
	cp paper-results/reproduction.md docs/reproduction.md
	sed -n 's/.*(\(figures\/[^)]*\)).*/\1/p' docs/reproduction.md | while read -r figure; do \
		cp "paper-results/$$figure" "docs/$$figure"; done

requirements: .venv/package  ## renew the pinned requirements
	$(BIN)/uv pip compile $(PIN) --output-file requirements.txt pyproject.toml
	$(BIN)/uv pip compile $(PIN) --output-file requirements-dev.txt --extra dev pyproject.toml

# One resolution for every supported Python and platform, with the hash of every file of each release.
PIN := --upgrade --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
	--no-header --quiet

clean:  ## remove .venv, caches and build output
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv: .venv/package  ## the environment, renewed when its inputs changed

# Each stamp is written last: a run that was interrupted starts its step again.
.venv/requirements: requirements-dev.txt
	@command -v "$(PYTHON)" >/dev/null 2>&1 || { echo "$(PYTHON) not found: pgsom needs Python 3.11 or newer" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, and $(PYTHON) is %d.%d: set PYTHON, as in make test PYTHON=python3.12" % tuple(sys.version_info[:2]) or 0)'
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@touch $@

.venv/package: .venv/requirements pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
