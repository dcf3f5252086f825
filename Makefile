# firsttouch: `make run` measures this machine, `make test` tests the program. Both need Python 3.10+ and a C++20 compiler.
# Everything is installed into .venv; nothing is built again unless a source changed.

PYTHON ?= python3
VENV ?= .venv
EXTRAS ?= test
ARGS ?=

PIP := $(VENV)/bin/python -m pip --disable-pip-version-check
WHEELS := build/wheel
SOURCES := $(shell find pyproject.toml README.md LICENSE CMakeLists.txt cmake native src -type f \
             -not -name '*.pyc' -not -name '*.so' 2>/dev/null)

.PHONY: help build run test clean
.DEFAULT_GOAL := help

help:  ## say what there is to make
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16
	@echo "Variables: PYTHON (to make .venv with), ARGS (for 'firsttouch run' or pytest), EXTRAS (to install with make test)"

build: $(VENV)/.installed  ## install the package into .venv

run: $(VENV)/.installed  ## measure this machine, print the path of the report: make run ARGS="latency --device cpu"
	$(VENV)/bin/firsttouch run $(ARGS)

test: $(VENV)/.installed-$(EXTRAS)  ## run the tests: make test ARGS="tests/machine -x"
	$(VENV)/bin/python -m pytest $(ARGS)

clean:  ## remove .venv and what was built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.tools:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "firsttouch needs Python 3.10 or newer; this is " \
	  + sys.version.split()[0] + ". Name another: make PYTHON=python3.11 ...")'
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q 'scikit-build-core>=0.10' 'nanobind>=2.2' cmake ninja
	@touch $@

# The tools above build the wheel: CMake's cache would not survive a new build environment each time.
$(VENV)/.installed: $(VENV)/.tools $(SOURCES)
	rm -rf $(WHEELS)
	$(PIP) wheel -q --no-deps --no-build-isolation -w $(WHEELS) .
	$(PIP) install -q --force-reinstall --no-deps $(WHEELS)/*.whl
	$(PIP) install -q $(WHEELS)/*.whl
	@touch $@

$(VENV)/.installed-$(EXTRAS): $(VENV)/.installed
	$(PIP) install -q "$$(echo $(WHEELS)/*.whl)[$(EXTRAS)]"
	@touch $@
