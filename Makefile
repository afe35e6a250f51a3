# make lab | test | test-full | course | student | colab | answers | clean. All but clean first build .venv from pyproject.toml and constraints.txt.
.DEFAULT_GOAL := help
.PHONY: help setup lab test test-full course student colab answers clean

VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.set-up
EDITION := en
WHEEL   :=
ARGS    :=

# The newest interpreter found that is supported and can make .venv; `make lab PYTHON=/path/to/python3.12` names another.
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	$$python -c 'import ensurepip, venv; $(SUPPORTED)' 2>/dev/null && echo $$python && break; done)

# JupyterLab refuses to run as root, which is who one is in most containers.
ALLOW_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

help:
	@echo "make lab      open JupyterLab on the course   (ARGS=\"--no-browser --port 8899\")"
	@echo "make test     ruff, mypy and pytest           (ARGS=\"tests/core -x\")"
	@echo "make test-full   what takes too long for make test; writes benchmarks/results/"
	@echo "make course   build course/ from solutions/"
	@echo "make student  pack what a student gets        (EDITION=en or EDITION=zh)"
	@echo "make colab    pack an edition for Colab       (EDITION=en WHEEL=https://... or /content/drive/...)"
	@echo "make answers  run every notebook with its answers, for after the deadline"
	@echo "make clean    remove what was built; .venv stays"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) from pyproject.toml and constraints.txt (the first time takes minutes) ..."
	@'$(or $(PYTHON),python3)' -c '$(SUPPORTED)' 2>/dev/null || { \
		echo "minivllm needs Python 3.11, 3.12 or 3.13, and '$(or $(PYTHON),python3)' is not one of them: install one, or name it with PYTHON=/path/to/python3.11." >&2; exit 2; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || '$(PYTHON)' -m venv $(VENV)
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt pip
	@$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e ".[lab,grade,dev]"
	@touch $@

lab: $(STAMP)
	@echo "Opening JupyterLab on course/ ..."
	@PATH="$(CURDIR)/$(BIN):$$PATH" jupyter lab --LabApp.default_url=/lab/tree/course $(ARGS) $(ALLOW_ROOT)

test: $(STAMP)
	@echo "Checking with ruff, mypy and pytest ..."
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest $(ARGS)

test-full: $(STAMP)
	@echo "Answering 32 prompts under every pair of settings (tens of minutes) ..."
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -m full -s $(ARGS)

course: $(STAMP)
	@echo "Building course/en and course/zh from solutions/ ..."
	@$(BIN)/python -m autograder course
	@$(BIN)/python tools/claims.py

student: $(STAMP)
	@echo "Packing the $(EDITION) edition for students into dist/ ..."
	@$(BIN)/python tools/student_bundle.py $(EDITION)

colab: $(STAMP)
	@echo "Packing the $(EDITION) edition for Colab into dist/ ..."
	@$(BIN)/python tools/colab_bundle.py $(EDITION) --wheel "$(WHEEL)"

answers: $(STAMP)
	@echo "Running every notebook with its answers into dist/answers/ (minutes) ..."
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/answers.py $(ARGS)

clean:
	@echo "Removing build/, dist/, artifacts/ and caches; delete $(VENV) by hand to start afresh."
	@rm -rf build dist artifacts .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
