# Every target sets up what it needs. A machine needs python3 (3.11 or newer, with venv), make,
# git and a C compiler; `make PYTHON=python3.12 test` names another python.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The tool that builds the package is pinned too (the second name is for pip 25.3 and newer).
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt

# The benchmarks, the shortest first.
CLAIMS := expected_utility choose count_distribution platt lists reading cold_start threads growth \
  whole

.DEFAULT_GOAL := help
.PHONY: help demo test bounds check format bench bench-quick figures docs pins clean unfit

help: ## this list
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

demo: $(VENV)/core ## the method at work on a simulated world: a table, and a report to open
	$(VENV)/bin/topperk demo

test: $(VENV)/developer ## all tests (make test TESTS="tests/test_split.py -x" for some)
	$(RUN) -m pytest $(TESTS)

# Inside kernels nothing looks at bounds; here they are compiled so that each access does.
bounds: $(VENV)/developer ## the tests of the kernels, every access to an array within its bounds
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$$(mktemp -d) $(RUN) -m pytest \
	  tests/test_calibration.py tests/test_choice.py tests/test_counting.py tests/test_curves.py \
	  tests/test_fused.py tests/test_lanes.py tests/test_online.py tests/test_ranking.py tests/test_tiles.py

check: $(VENV)/developer ## formatting, lint and types; changes nothing
	@status=0; for command in "ruff format --check" "ruff check" mypy; do \
	  echo "== $$command"; $(RUN) -m $$command || status=1; \
	done; exit $$status

format: $(VENV)/developer ## put the code into the form that `make check` asks for
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

bench: $(VENV)/developer ## every claim on speed, measured beside its peer; leave the machine alone
	@status=0; for script in $(CLAIMS); do \
	  echo "== $$script"; $(RUN) benchmarks/bench_$$script.py || status=1; \
	done; echo "== whole --amazon"; $(RUN) benchmarks/bench_whole.py --amazon || status=1; \
	$(RUN) docs/pictures/draw.py || status=1; exit $$status

bench-quick: $(VENV)/developer ## the same with less work, and nothing recorded
	@status=0; for script in $(CLAIMS); do \
	  echo "== $$script"; $(RUN) benchmarks/bench_$$script.py --quick || status=1; \
	done; exit $$status

figures: $(VENV)/developer ## the figures of the README, made anew from the real data sets
	$(RUN) experiments/core/run.py

docs: $(VENV)/developer ## the documentation, into site/; no network needed to build or to read it
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --quiet --strict --clean --site-dir site
	@echo "open site/index.html"

pins: ## constraints.txt with the newest versions; run the tests before you commit it
	@temporary=$$(mktemp -d) && trap 'rm -rf "$$temporary"' EXIT && set -e && \
	unset PIP_CONSTRAINT PIP_BUILD_CONSTRAINT && \
	$(PYTHON) -m venv "$$temporary" && \
	torch=$$(grep '^torch==' constraints.txt) && \
	"$$temporary/bin/python" -m pip install --quiet editables "$$torch" '.[test,check,docs,experiments]' && \
	{ grep '^#' constraints.txt; \
	  "$$temporary/bin/python" -m pip list --format=freeze \
	  | sed -E 's/\+[a-z0-9.]+$$//' | grep -vE '^(pip|setuptools|topperk)==' | sort -f; \
	} > "$$temporary/constraints.txt" && cp "$$temporary/constraints.txt" constraints.txt

clean: ## remove what the other targets made, except .venv
	rm -rf site build dist topperk-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests docs benchmarks experiments -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# The environment, in two layers, each with a stamp that is written last. The first holds what
# somebody who uses topperk needs, the second what somebody who works on it needs besides.
# It is made anew where an earlier making was interrupted, where its python does not start, and
# where the folder was copied from elsewhere (its scripts and its link to src would lead there).
UNFIT := test -e $(VENV)/unfinished \
  || ! $(RUN) -c 'import pip' >/dev/null 2>&1 \
  || { test -e $(VENV)/place && test "$$(cat $(VENV)/place)" != "$$(pwd -P)"; }

$(VENV)/core $(VENV)/developer: pyproject.toml constraints.txt $(shell { $(UNFIT); } && echo unfit)

$(VENV)/core:
	$(call install,.)
	@touch $(VENV)/core

$(VENV)/developer: $(VENV)/core
	$(call install,.[test$(comma)check$(comma)docs$(comma)experiments])
	@touch $(VENV)/core $(VENV)/developer

comma := ,

define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "topperk needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo missing)." >&2; \
	  echo "Install one, or name it: make PYTHON=python3.12 $(or $(MAKECMDGOALS),help)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' comes without venv. Install it (Debian, Ubuntu: apt install python3-venv)." >&2; exit 1; }
	@if test -e $(VENV) && { $(UNFIT); }; then echo "making $(VENV) anew"; rm -rf $(VENV); fi
	@mkdir -p $(VENV) && touch $(VENV)/unfinished
	@test -x $(RUN) || { echo "making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@pwd -P > $(VENV)/place
	@echo "installing $(1) into $(VENV)"
	@$(RUN) -m pip install --quiet --editable '$(1)'
	@rm $(VENV)/unfinished
endef
