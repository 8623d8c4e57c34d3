# Needs Python 3.11 or newer with pip, and make; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
TORCH := torch==2.13.0

RECENT := import sys; sys.exit(sys.version_info < (3, 11))

# The environment must be the project's own, whatever the caller has activated.
unexport PYTHONHOME PYTHONPATH VIRTUAL_ENV

# $(call quietly,COMMAND): silent when it succeeds, its whole output when it fails.
define quietly
@output=$$($(1) 2>&1) || { printf '%s\n' "$$output" 'failed: $(1)' >&2; exit 1; }
endef

.DEFAULT_GOAL := help
.PHONY: help quickstart test lint bench evidence clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

quickstart: $(VENV)/.installed ## install, then run the reference MLP and train on the digits
	@$(BIN)/torchlean quickstart_mlp --show-backend
	@$(BIN)/torchlean digits

test: lint ## install the test tools, then lint, type-check and run every test
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest

lint: $(VENV)/.installed-test ## ruff, import contracts, basedpyright
	$(call quietly,$(BIN)/ruff check .)
	$(call quietly,$(BIN)/ruff format --check .)
	$(call quietly,$(BIN)/lint-imports --no-logo)
	$(call quietly,$(BIN)/basedpyright --pythonpath $(BIN)/python)

bench: $(VENV)/.installed ## run every benchmark, which writes JSON; then print every goal with its ratio
	@for file in $(filter-out benchmarks/table.py,$(sort $(wildcard benchmarks/[a-z]*.py))); do \
	  echo "$$file"; $(BIN)/python "$$file" || exit 1; done
	@$(BIN)/python benchmarks/table.py

evidence: $(VENV)/.installed-test ## try every claim of every capsule and rewrite the shipped records
	@$(BIN)/torchlean evidence run --shipped
	@$(BIN)/torchlean evidence run --shipped --provider xla
	@PYTHONPATH=examples/torchlean-wide $(BIN)/torchlean evidence run --shipped --module torchlean_wide:MODULE --provider wide

clean: ## remove the environment, caches and build results
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find torchlean cuda_kernels tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# An environment that is there and recent enough is kept; one whose Python has gone is made anew.
$(VENV)/.python: pyproject.toml
	@$(BIN)/python -c '$(RECENT)' 2>/dev/null || { \
	  $(PYTHON) -c '$(RECENT)' 2>/dev/null || { \
	    echo "torchlean needs Python 3.11 or newer, '$(PYTHON)' is $$($(PYTHON) --version 2>&1 | tail -n 1); try: make PYTHON=python3.11" >&2; exit 1; }; \
	  rm -rf $(VENV) && $(PYTHON) -m venv $(VENV); }
	@touch $@

$(VENV)/.installed: $(VENV)/.python
	@echo 'installing torchlean and its dependencies into $(VENV) (a few minutes the first time)'
	@$(PIP) -e .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.python
	@echo 'installing torchlean and its test tools into $(VENV) (a few minutes the first time)'
	@$(PIP) -e '.[test]'
	@$(PIP) $(TORCH) >/dev/null 2>&1 || echo '$(TORCH) cannot be installed here: the tests that compare with it will skip'
	@touch $(VENV)/.installed $@
