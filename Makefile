# firsttouch: `make run` measures this machine, `make test` tests the program. Both need Python 3.10+ and a C++20 compiler.
# Everything is installed into .venv; the package is rebuilt only when a source changed.

PYTHON ?= python3
VENV ?= .venv
SOURCE ?= .
EXTRAS ?= test
ARGS ?=
JOBS ?= $(shell n=$$(nproc); echo $$((n < 8 ? n + 1 : 8)))

PIP := $(VENV)/bin/python -m pip --disable-pip-version-check
WHEELS := build/wheel
SOURCES := $(shell find pyproject.toml README.md LICENSE CMakeLists.txt cmake native src -type f \
             -not -name '*.pyc' -not -name '*.so' 2>/dev/null)

# A copy without git's history is named by its sources: 0.2.0.dev0+src.1a2b3c4d.
ifeq ($(wildcard .git PKG-INFO),)
export SETUPTOOLS_SCM_PRETEND_VERSION_FOR_FIRSTTOUCH ?= $(shell sed -n 's/^fallback_version = "\(.*\)".*/\1/p' \
  pyproject.toml)+src.$(shell cat $(sort $(SOURCES)) | sha256sum | cut -c1-8)
endif

.PHONY: help build run test types docs evidence screenshots stub codebook schemas wording clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20
	@echo "Variables: PYTHON (to make .venv with), ARGS (for 'firsttouch run' or pytest), EXTRAS (to install with make test),"
	@echo "  JOBS (test processes at once: one more than cores, as many tests wait; at most 8)"

build: $(VENV)/.installed  ## build the package and install it into .venv

run: $(VENV)/.installed  ## measure this machine and print what was found: make run ARGS="latency --device cpu"
	$(VENV)/bin/firsttouch run $(ARGS)

# Each process has one thread of numpy, as there are as many processes as cores.
test: $(VENV)/.installed-$(EXTRAS)  ## run the tests: make test ARGS="tests/machine -x"
	@echo "Running the tests: about two minutes on two cores, or three with those that take more than a second each (ARGS=tests)"
	PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations=40 $(ARGS)

docs: $(VENV)/.installed  ## build the docs as a site: build/site
	$(PIP) install -q "$$(echo $(WHEELS)/*.whl)[docs]"
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict

evidence: $(VENV)/.installed  ## recompute the tables of the docs that quote measured runs
	$(VENV)/bin/python evidence/recompute

screenshots: $(VENV)/.installed  ## draw the screenshots of the docs again (needs chromium)
	$(VENV)/bin/python docs/figures/screenshots.py

types: $(VENV)/.installed  ## check the types of the installed package with mypy
	$(PIP) install -q mypy types-psutil
	$(VENV)/bin/mypy

stub: $(VENV)/.installed  ## regenerate src/firsttouch/__init__.pyi after a change in the declaration of a command
	$(PIP) install -q ruff
	$(VENV)/bin/python tests/python_stub.py

codebook: $(VENV)/.installed  ## regenerate src/firsttouch/records/codebook.json after a change in what experiments declare
	$(VENV)/bin/python tests/codebook.py

schemas: $(VENV)/.installed  ## regenerate docs/schemas after a change in what --json prints or files hold
	$(VENV)/bin/python tests/schemas.py

wording: $(VENV)/.installed  ## record tests/report/wording.txt after a change of what claims or first screens say
	$(VENV)/bin/python -m tests.wording

clean:  ## remove .venv and all build output
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.tools: Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "firsttouch needs Python 3.10 or newer; this is " \
	  + sys.version.split()[0] + ". Name another: make PYTHON=python3.11 ...")'
	@echo "Making $(VENV) with the tools that build the package: half a minute"
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q 'scikit-build-core>=0.10' 'nanobind>=2.2' 'setuptools-scm>=8' 'hatch-fancy-pypi-readme>=23.1' 'typing_extensions' cmake ninja
	@touch $@

# Build with the tools above, not in an isolated environment, which would invalidate CMake's cache each time.
$(VENV)/.installed: $(VENV)/.tools $(SOURCES)
	@echo "Compiling the C++ core and packing the wheel: one to two minutes on two cores, without output"
	rm -rf $(WHEELS)
	$(PIP) wheel -q --no-deps --no-build-isolation -w $(WHEELS) $(SOURCE)
	$(PIP) install -q --force-reinstall --no-deps $(WHEELS)/*.whl
	@echo "Installing what it needs"
	$(PIP) install -q "$$(echo $(WHEELS)/*.whl)[pocl,codegen]"
	@touch $@

$(VENV)/.installed-$(EXTRAS): $(VENV)/.installed
	@echo "Installing what the tests need"
	$(PIP) install -q "$$(echo $(WHEELS)/*.whl)[$(EXTRAS)]"
	@touch $@
