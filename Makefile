# `make bench` and `make test` install what they need into .venv, once, and do their job.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH_READY := $(VENV)/.ready-bench
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# No NPU on this machine: say so, and ask for the CPU implementation. An explicit GE_CORE_RUNTIME wins.
ifeq ($(origin GE_CORE_RUNTIME), undefined)
ifeq ($(wildcard /dev/davinci[0-9]*),)
export GE_CORE_RUNTIME := cpu
NOTICE := @echo "No NPU found (/dev/davinci*): running on ge_core's CPU implementation of AscendCL (GE_CORE_RUNTIME=cpu)."
endif
endif

.PHONY: help bench bench-report bench-truth test lint build sanitize wheel clean

help:
	@echo "make bench   compare direct AscendCL with Triton: latency tables"
	@echo "make bench-report  run every bench in full and write docs/bench-report.html and .md: best on a quiet machine"
	@echo "make bench-truth  check the bench against a model of known times (cpu runtime)"
	@echo "make test    run the tests"
	@echo "make campaign  kills, reloads and device faults, recorded in docs/campaign.md (ten minutes)"
	@echo "make lint    ruff, cython-lint, clang-format"
	@echo "make build   rebuild the native parts in place after a change"
	@echo "make sanitize  AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer over the CPU implementation"
	@echo "make wheel   build dist/ge_core-*.whl"

# What is installed: everything, or, for `make bench` in a fresh clone, what the bench needs.
$(READY): EXTRAS := cpu,server,bench,test
$(BENCH_READY): EXTRAS := cpu,server,bench
$(READY) $(BENCH_READY): pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 10) <= v < (3, 13) else \
	"Python 3.10 to 3.12 is needed here (the tritonserver wheel needs numpy < 2), found %d.%d: make PYTHON=python3.12 ..." % v)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q "setuptools>=77" wheel "Cython>=3.1"
	$(BIN)/pip install -q --no-build-isolation -e ".[$(EXTRAS)]"
	$(BIN)/pip install -q --no-deps "rapidocr-onnxruntime==1.4.4"
	@touch $@

build: $(READY)
	@$(BIN)/python setup.py -q build_ext --inplace

bench: $(if $(wildcard $(READY)),$(READY),$(BENCH_READY))
	$(NOTICE)
	@$(BIN)/python setup.py -q build_ext --inplace
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

test: build
	$(NOTICE)
	@$(BIN)/python -m pytest

campaign: build
	$(NOTICE)
	@$(BIN)/python tests/tools/campaign.py --output docs/campaign.md

lint: $(READY)
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	PATH=$(BIN):$$PATH cython-lint ge_core_pyx
	$(BIN)/clang-format --dry-run --Werror ge_core_pyx/acl_cpu/*/*.cpp ge_core_pyx/acl_cpu/*/*.h bench/paths/*.c \
		tests/acl_cpu/conformance/*.cpp tests/acl_cpu/conformance/*.h tests/acl_cpu/programs/*.cpp

sanitize: build
	@$(BIN)/python tests/tools/sanitized.py

wheel: $(READY)
	$(BIN)/pip wheel -q --no-deps --no-build-isolation -w dist .

clean:
	rm -rf build dist ge_core_pyx/*.c ge_core_pyx/*.so ge_core_pyx/acl_cpu/lib *.egg-info
