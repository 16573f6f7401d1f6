# The project's commands. Each makes .venv first when it is missing or older than pyproject.toml,
# so that a fresh clone needs Python 3.11 and make, and a second run installs nothing.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The interpreter that makes .venv. `make BASE_PYTHON=/path/to/python3.13 …` chooses another, which
# gets an environment of its own, .venv-3.13.
BASE_PYTHON ?=
BASE_VERSION := $(if $(BASE_PYTHON),$(shell "$(BASE_PYTHON)" -c \
  'import sys; print("%d.%d" % sys.version_info[:2])'))
ifneq ($(BASE_PYTHON),)
ifeq ($(BASE_VERSION),)
$(error BASE_PYTHON=$(BASE_PYTHON) does not run)
endif
endif

VENV := .venv$(addprefix -,$(BASE_VERSION))
PYTHON := $(VENV)/bin/python
# What runs programs, and all that tests, checks and documents need besides.
RUNTIME := $(VENV)/.runtime-installed
STAMP := $(VENV)/.installed

# Where the environment forbids bytecode files, every process of a test would compile all of
# Millrace again: a second each, hundreds of times.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test unit interop schedules chaos check format docs docs-serve bench profile release clean

help:
	@echo 'make demo    a cluster on this machine learns MNIST'
	@echo 'make test    run every test'
	@echo 'make unit    run the unit tests alone'
	@echo 'make interop run what needs a stock TensorFlow beside Millrace'
	@echo 'make schedules   10,000 random schedules of the protocols (SCHEDULES=50000: more)'
	@echo 'make chaos   kill and stop the tasks of a training, hundreds of times (STANDBY=1: with standbys)'
	@echo 'make check   ruff, mypy and import-linter'
	@echo 'make format  let ruff rewrite the sources'
	@echo 'make docs-serve   the documentation as a site, on this machine'
	@echo 'make docs    write docs/api-coverage.md, and the tables of docs/architecture.md'
	@echo 'make bench   time Millrace, TensorFlow and PyTorch by turns, in one process and on clusters'
	@echo 'make profile tell where each microsecond of a step goes, for every workload of the benchmark'
	@echo 'make release check, build and tag the version that millrace/platform/version.py states'
	@echo 'make clean   remove .venv and the caches'

demo: $(RUNTIME)
	@$(PYTHON) examples/demo.py

# Many tests wait for processes: one more worker than cores keeps the cores busy, and who has no
# tests left takes them from the others.
PARALLEL := -n $(shell expr `nproc` + 1) --dist worksteal

# test_tiny.py tells in seconds whether anything works at all, so it goes first and alone.
test: $(STAMP)
	@$(INSTALL_SERVERS)
	@$(PYTHON) -m pytest -q tests/test_tiny.py
	@$(PYTHON) -m pytest -q $(PARALLEL) tests --ignore=tests/test_tiny.py --ignore=tests/interop

unit: $(STAMP)
	@$(PYTHON) -m pytest -q $(PARALLEL) tests/unit

# TensorFlow has an environment of its own, .bench/tensorflow.
interop: $(STAMP)
	@python=$$($(PYTHON) benchmarks/environments.py tensorflow); \
	  MILLRACE_TENSORFLOW_PYTHON=$$python $(PYTHON) -m pytest -q tests/interop

schedules: $(STAMP)
	@MILLRACE_SCHEDULES=$(or $(SCHEDULES),10000) $(PYTHON) -m pytest -q -n 2 tests/scenarios -k random

# As many faults as FAULTS says, asynchronous and synchronous, and a table of what they cost.
chaos: $(STAMP)
	@$(PYTHON) tests/process/$(if $(STANDBY),standby_chaos.py --together 3,chaos.py) \
	  --faults $(or $(FAULTS),200)

check: $(STAMP)
	@echo 'ruff check';    $(PYTHON) -m ruff check .
	@echo 'ruff format';   $(PYTHON) -m ruff format --check .
	@echo 'mypy';          $(PYTHON) -m mypy --strict -p millrace
	@echo 'import-linter'; $(VENV)/bin/lint-imports
	@echo 'mkdocs';        NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet

format: $(STAMP)
	@$(PYTHON) -m ruff check --fix .
	@$(PYTHON) -m ruff format .

docs: $(STAMP)
	@$(PYTHON) docs/tools/api_coverage.py
	@$(PYTHON) docs/tools/pass_tables.py

docs-serve: $(STAMP)
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs serve

# All parts run, whatever the first one says; a ratio below its target is a failure. The last table
# has all of them. TensorFlow and PyTorch have environments of their own, in .bench.
bench: $(STAMP)
	@status=0; \
	$(PYTHON) benchmarks/local.py || status=1; \
	$(PYTHON) benchmarks/cluster.py || status=1; \
	$(PYTHON) benchmarks/session.py || status=1; \
	$(PYTHON) benchmarks/start.py || status=1; \
	$(PYTHON) benchmarks/scaling.py || status=1; \
	$(PYTHON) benchmarks/summary.py || status=1; \
	exit $$status

# On a machine with nothing else to do: benchmarks/results/profiles.md.
profile: $(STAMP)
	@$(PYTHON) benchmarks/step_profile.py --all

# Stops before it changes anything if the tree, the changelog or the tag is not ready.
release: $(STAMP)
	@$(PYTHON) .ci/release.py check
	@$(MAKE) check test
	@$(PYTHON) .ci/release.py build
	@$(PYTHON) .ci/release.py tag

clean:
	rm -rf .venv .venv-* .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Prints an interpreter that is new enough and can make a venv with pip, or fails. An entry on PATH
# that does not answer (a version manager's placeholder, say) is passed over.
FIND_PYTHON := \
	for candidate in $(BASE_PYTHON) python3.11 python3 python3.14 python3.13 python3.12; do \
	  if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	    2>/dev/null; then command -v "$$candidate"; exit 0; fi; \
	done; \
	exit 1

# Debian splits venv off from python3; root on Debian gets the packages, anybody else the command.
INSTALL_PYTHON := \
	if [ -f /etc/debian_version ] && [ "$$(id -u)" = 0 ]; then \
	  echo 'Installing python3 and python3-venv with apt-get ...'; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  apt-get update -qq; \
	  apt-get install -y -qq python3 python3-venv >/dev/null; \
	else \
	  echo 'Millrace needs Python 3.11 or newer with its venv module. On Debian and Ubuntu:' >&2; \
	  echo '    sudo apt-get install -y python3 python3-venv' >&2; \
	  exit 1; \
	fi

# The election of the chief is tested on real servers, launching over ssh on a real sshd and on
# Slurm on a real Slurm, and what TensorBoard shows in a real browser; tests start them, on ports of their own.
TEST_PACKAGES := zookeeper etcd-server openssh-server chromium chromium-driver \
  slurmctld slurmd slurm-client munge
INSTALL_SERVERS := \
	if command -v etcd >/dev/null && [ -f /usr/share/java/zookeeper.jar ] \
	  && [ -x /usr/sbin/sshd ] && command -v chromium >/dev/null \
	  && command -v chromedriver >/dev/null \
	  && command -v slurmctld >/dev/null && command -v munged >/dev/null; then \
	  :; \
	elif [ -f /etc/debian_version ] && [ "$$(id -u)" = 0 ]; then \
	  echo 'Installing $(TEST_PACKAGES) with apt-get ...'; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  apt-get update -qq; \
	  apt-get install -y -qq --no-install-recommends $(TEST_PACKAGES) >/dev/null; \
	else \
	  echo 'The tests need some servers and a browser. On Debian and Ubuntu:' >&2; \
	  echo '    sudo apt-get install -y --no-install-recommends $(TEST_PACKAGES)' >&2; \
	  exit 1; \
	fi

# A .venv that is already there and works is installed into; one that does not work is rebuilt.
# pip's own configuration (index, proxy, certificates) is left as the environment has it, and so is
# its progress: the first time it fetches some 200 MB.
MAKE_VENV := \
	if ! $(PYTHON) -m pip --version >/dev/null 2>&1; then \
	  base=$$($(FIND_PYTHON)) || { \
	    $(INSTALL_PYTHON); \
	    base=$$($(FIND_PYTHON)) || { \
	      echo 'Found no Python 3.11 or newer with venv: make BASE_PYTHON=/path/to/python3' >&2; \
	      exit 1; \
	    }; \
	  }; \
	  echo "Making $(VENV) with $$("$$base" --version) ..."; \
	  "$$base" -m venv --clear $(VENV); \
	fi
PIP_INSTALL := $(PYTHON) -m pip install --disable-pip-version-check --editable

$(RUNTIME): pyproject.toml
	@$(MAKE_VENV)
	@echo 'Installing Millrace and its dependencies into $(VENV) ...'
	@$(PIP_INSTALL) .
	@touch $@

$(STAMP): pyproject.toml
	@$(MAKE_VENV)
	@echo 'Installing Millrace with all that tests and checks need into $(VENV) ...'
	@$(PIP_INSTALL) '.[test,dev]'
	@touch $(RUNTIME) $@
