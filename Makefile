# Python ≥ 3.11 and make are enough: each target makes .venv and installs what it needs.

PYTHON ?= python3
BIN := .venv/bin
COMMA := ,
INSTALL := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt

# Packages are installed without bytecode; were it never kept, each process would compile them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: app class test lint bench tables peers

app: .venv/app.stamp
	$(BIN)/streamlit run app.py

# For a room: WORD=… keeps strangers out, PROCESSES=4 needs nginx; PORT=…, and ADDRESS=https://…
# where a proxy of yours is in front.
class: .venv/app.stamp
	@WORD='$(WORD)' $(BIN)/python -m pages.ui.classroom --processes '$(or $(PROCESSES),1)' \
	  --port '$(or $(PORT),8501)' --address '$(ADDRESS)'

test: lint
	$(BIN)/python tests/browser/get_browser.py
	nice -n 10 $(BIN)/python -m pytest -n auto --no-loadscope-reorder

lint: .venv/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/codespell app.py pages README.md

bench: .venv/test.stamp
	$(BIN)/python -m benchmarks.bench

# The README's tables, from what the benchmarks left.
tables: .venv/test.stamp
	$(BIN)/python -m benchmarks.tables

# GPyTorch and GPflux, each in an environment of its own. DATA=… is a folder of the paper's sets, as
# `python -m benchmarks.paper` takes it, for the seconds to its quality.
peers: .venv/test.stamp .venv-peers-torch/made.stamp .venv-peers-tf/made.stamp
	$(BIN)/python -m benchmarks.peers --json benchmarks/peers.json \
	  $(if $(DATA),--data '$(DATA)',--only numbers$(COMMA)steps$(COMMA)first$(COMMA)memory)

.venv-peers-torch/made.stamp:
	$(PYTHON) -m venv .venv-peers-torch
	.venv-peers-torch/bin/python -m pip install --quiet --disable-pip-version-check \
	  torch==2.13.0 gpytorch==1.15 scipy
	@touch $@

.venv-peers-tf/made.stamp:
	$(PYTHON) -m venv .venv-peers-tf
	.venv-peers-tf/bin/python -m pip install --quiet --disable-pip-version-check \
	  tensorflow==2.21.0 tf_keras==2.21.0 numpy==1.26.4 gpflow==2.11.2 gpflux==0.4.5
	@touch $@

.venv/app.stamp: .venv/made.stamp pyproject.toml constraints.txt
	$(INSTALL) -e .
	@touch $@

.venv/test.stamp: .venv/made.stamp pyproject.toml constraints.txt
	$(INSTALL) -e ".[test]"
	@touch $@ .venv/app.stamp

.venv/made.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed: make PYTHON=python3.12 app names another one."; exit 1; }
	@$(PYTHON) -m venv .venv || { \
	  echo "Python could not make .venv: on Debian and Ubuntu, apt install python3-venv."; exit 1; }
	@touch $@
