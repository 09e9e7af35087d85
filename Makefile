# make demo    train the demo on embedded data and translate its test split (minutes on 2 cores)
# make test    run the tests          make check   lint, format, types
# make test-browser  the tests of the pages in chromium, if it is installed
# make test-all  the tests with their long loops, and the table of docs/reliability.md (minutes)
# make bench   measure training, translation and data on this machine, into bench/results (a CPU: about 10 minutes)
# Each sets up .venv on its first call.  Another interpreter: make PYTHON=python3.13 demo

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
PRODUCT := utils data models losses metrics configs inference training tools train.py test.py pairgan.py

.PHONY: help setup demo test test-browser test-all check bench

help:  # the first target: plain make prints the targets
	@sed -n 's/^# //p;/^$$/q' Makefile

setup: $(INSTALLED)

# --editable installs the dependencies, and of the tree pairgan.py alone; the constraints pin their versions
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[dev]" --constraint constraints.txt
	touch $@

demo: $(INSTALLED)
	$(BIN)/python train.py --config configs/demo.yaml
	$(BIN)/python test.py --checkpoint runs/demo --output results/demo
	@echo
	@echo "Pictures (source, translated, target):  results/demo/contact_sheet.png"
	@echo "Curves and image grids:                 $(BIN)/tensorboard --logdir runs"

test: $(INSTALLED)
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal

test-browser: $(INSTALLED)
	$(BIN)/python -m pytest -m browser

test-all: $(INSTALLED)
	$(BIN)/python -m pytest -m "" --ignore tests/reliability
	$(BIN)/python -m pytest -m "" tests/reliability --write-table

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 $(PRODUCT)

bench: $(INSTALLED)
	$(BIN)/python -m bench.train_step
	$(BIN)/python -m bench.inference
	$(BIN)/python -m bench.data
	$(BIN)/python -m bench.scaling
