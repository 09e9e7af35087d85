# make demo    train the demo on embedded data and translate its test split (minutes on 2 cores)
# make demo-unpaired  the same without pairs: house fronts by day into winter nights
# make test    run the tests          make check   lint, format, types
# make test-browser  the tests of the pages in chromium, if it is installed
# make test-all  the tests with all combinations, and the table of docs/reliability.md (minutes)
# make bench   measure training, translation and data on this machine, into bench/results (a CPU: about 10 minutes)
# make gpu-report  on a machine with a GPU: its tests, training and translation in 9 minutes, into bench/results
# make setup      install into .venv what training, translation and the demo need
# make setup-dev  install also what tests and checks need
# Each target installs what it needs on its first call.  Another interpreter: make PYTHON=python3.13 demo
# Without an NVIDIA GPU: make TORCH_INDEX=URL demo installs torch without CUDA's libraries (README.md)

PYTHON ?= python3
TORCH_INDEX ?=
BIN := .venv/bin
TRAIN := .venv/installed-train
DEV := .venv/installed-dev
# the packages of an extra and only pairgan.py of the tree; the constraints pin their versions
INSTALL := $(BIN)/python -m pip install --quiet $(TORCH_INDEX:%=--extra-index-url %) \
	--constraint constraints.txt --editable
PRODUCT := utils data models losses metrics configs inference training tools train.py test.py pairgan.py

.PHONY: help setup setup-dev demo demo-unpaired test test-browser test-all check bench gpu-report

help:  # the first target: plain make prints the targets
	@sed -n 's/^# //p;/^$$/q' Makefile

setup: $(TRAIN)
setup-dev: $(DEV)

$(TRAIN): pyproject.toml constraints.txt
	@test -n "$(TORCH_INDEX)" -o "$$(uname)" != Linux -o -e /dev/nvidia0 || command -v nvidia-smi >/dev/null || \
		echo "No NVIDIA GPU: make TORCH_INDEX=URL installs torch without CUDA's libraries, see README.md."
	$(PYTHON) -m venv .venv
	$(INSTALL) ".[train]"
	touch $@

$(DEV): $(TRAIN)
	$(INSTALL) ".[dev]"
	touch $@

demo: $(TRAIN)
	$(BIN)/python train.py --config configs/demo.yaml
	$(BIN)/python test.py --checkpoint runs/demo --output results/demo
	@echo
	@echo "Pictures (source, translated, target):  results/demo/contact_sheet.png"
	@echo "Curves and image grids:                 $(BIN)/tensorboard --logdir runs"

demo-unpaired: $(TRAIN)
	$(BIN)/python train.py --config configs/unpaired_small.yaml
	$(BIN)/python test.py --checkpoint runs/unpaired_small --output results/unpaired_small
	@echo
	@echo "Pictures (source, translated, the counterpart that no training saw):  results/unpaired_small/contact_sheet.png"

test: $(DEV)
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal

test-browser: $(DEV)
	$(BIN)/python -m pytest -m browser

test-all: $(DEV)
	$(BIN)/python -m pytest -m "" --ignore tests/reliability
	$(BIN)/python -m pytest -m "" tests/reliability --write-table

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 $(PRODUCT)

bench: $(TRAIN)
	$(BIN)/python -m bench.train_step
	$(BIN)/python -m bench.inference
	$(BIN)/python -m bench.data

gpu-report: $(DEV)
	$(BIN)/python -m bench.gpu_report
