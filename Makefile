# SPDX-License-Identifier: Apache-2.0
# `make bench` and `make test` install what they need into .venv, once, and do their job.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TOOLS := $(VENV)/.ready-test
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# No NPU on this machine: say so, and ask for the CPU implementation. An explicit GE_CORE_RUNTIME wins.
ifeq ($(origin GE_CORE_RUNTIME), undefined)
ifeq ($(wildcard /dev/davinci[0-9]*),)
export GE_CORE_RUNTIME := cpu
NOTICE := @echo "No NPU found (/dev/davinci*): running on ge_core's CPU implementation of AscendCL (GE_CORE_RUNTIME=cpu)."
endif
endif

.PHONY: help bench bench-report bench-truth test test-all campaign lint build sanitize wheel clean

help:
	@echo "make bench   compare direct AscendCL with Triton: latency tables"
	@echo "make bench-report  run every bench in full and write docs/bench-report.html and .md: best on a quiet machine"
	@echo "make bench-truth  check the bench against a model of known times (cpu runtime)"
	@echo "make test    run the tests, without those that take long and rarely break"
	@echo "make test-all  run all tests"
	@echo "make lint    ruff, cython-lint, clang-format, mypy, stubs against the compiled modules"
	@echo "make campaign  kills, reloads and device faults, recorded in docs/campaign.md (ten minutes)"
	@echo "make build   rebuild the native parts in place after a change"
	@echo "make sanitize  AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer over the CPU implementation"
	@echo "make wheel   build dist/ge_core-*.whl"

define CHECK_PYTHON
import sys
if not (3, 10) <= sys.version_info < (3, 14):
    sys.exit("Python 3.10 to 3.13 is needed here, found %d.%d: make PYTHON=python3.12 ..." % sys.version_info[:2])
if sys.version_info >= (3, 13):
    print("Python 3.13: installing without tritonserver, whose wheel needs numpy < 2, which does not exist for 3.13.\n"
          "Not available: `ge-core serve` and `make bench` without a tritonserver on PATH, and the preset ocr of the bench.\n"
          "Tests that start a server are skipped. With Python 3.10 to 3.12 all of it works.")
endef
export CHECK_PYTHON

# What ge_core and the bench need. The models of the preset ocr come from a package that has none for Python 3.13.
$(READY): pyproject.toml setup.py
	@$(PYTHON) -c "$$CHECK_PYTHON"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q "setuptools>=77" wheel "Cython>=3.1"
	$(BIN)/pip install -q --no-build-isolation -e ".[cpu,server,bench]"
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info >= (3, 13))' || exit 0; \
		$(BIN)/pip install -q --no-deps "rapidocr-onnxruntime==1.4.4"
	@touch $@

# What the tests and the linters need beside it: the extra `test`, without building ge_core a second time.
$(TOOLS): $(READY)
	@$(BIN)/python -c "from importlib.metadata import requires; print(*(r.partition(';')[0] for r in requires('ge_core') \
		if 'extra == \"test\"' in r), sep='\n')" > $(VENV)/test-requirements.txt
	$(BIN)/pip install -q -r $(VENV)/test-requirements.txt
	@touch $@

build: $(READY)
	@$(BIN)/python setup.py -q build_ext --inplace

bench: build
	$(NOTICE)
	@$(BIN)/python -m bench latency --quick

bench-report: build
	$(NOTICE)
	@mkdir -p docs
	@$(BIN)/python -m bench all --json docs/bench-all.json
	@$(BIN)/python -m bench load --json docs/bench-load.json
	@$(BIN)/python -m bench advice --json docs/bench-advice.json
	@$(BIN)/python -m bench report docs/bench-all.json docs/bench-load.json docs/bench-advice.json \
		--html docs/bench-report.html --markdown docs/bench-report.md

bench-truth: build
	@$(BIN)/python -m bench truth --runtime cpu

test: build $(TOOLS)
	$(NOTICE)
	@$(BIN)/python -m pytest -m "not slow"

test-all: build $(TOOLS)
	$(NOTICE)
	@$(BIN)/python -m pytest

campaign: build $(TOOLS)
	$(NOTICE)
	@$(BIN)/python tests/tools/campaign.py --output docs/campaign.md

lint: build $(TOOLS)
	$(BIN)/ruff check -q . && $(BIN)/ruff format -q --check .
	PATH=$(BIN):$$PATH cython-lint ge_core_pyx
	$(BIN)/clang-format --dry-run --Werror ge_core_pyx/acl_cpu/*/*.cpp ge_core_pyx/acl_cpu/*/*.h bench/paths/*.c \
		tests/acl_cpu/conformance/*.cpp tests/acl_cpu/conformance/*.h tests/acl_cpu/programs/*.cpp
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/core/test_stubs.py

sanitize: build $(TOOLS)
	@$(BIN)/python tests/tools/sanitized.py

wheel: $(READY)
	$(BIN)/pip wheel -q --no-deps --no-build-isolation -w dist .

clean:
	rm -rf build dist ge_core_pyx/*.c ge_core_pyx/*.so ge_core_pyx/acl_cpu/lib *.egg-info
