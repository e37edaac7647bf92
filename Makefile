# make demo: the first numbers on a fresh machine.  make test, slow, lint, docs, figures: what CI runs.
# slow: real kills, Ray, browsers, packages of third parties, fuzz and tampering at full length.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip
export PATH := $(abspath $(BIN)):$(PATH)
SETTINGS := setup.cfg pyproject.toml constraints.txt
SOURCES := $(shell find harness plugins -type f ! -name '*.pyc')

.PHONY: demo test slow figures kills lint docs clean
.DELETE_ON_ERROR:

demo: $(VENV)/.package
	$(BIN)/edit-harness --editor rome --task counterfactplus --limit 100

test: $(VENV)/.test $(VENV)/.package
	$(BIN)/python -m pytest -n auto

slow: $(VENV)/.test $(VENV)/.package
	$(BIN)/python -m pytest -n auto --dist loadfile tests/slow

figures: $(VENV)/.package
	rm -rf build/figures
	$(BIN)/edit-harness reproduce pocket-figures --quiet --output build/figures

kills: $(VENV)/.test $(VENV)/.package
	$(BIN)/python -m tools.kills --kills 50

lint: $(VENV)/.test $(VENV)/.package
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build
	$(PIP) install --quiet --no-deps --no-build-isolation --target build/site .
	MYPYPATH=build/site $(BIN)/mypy -p edit_harness -p edit_harness_plugins -p tools.pocket -p tools.rule_edit
	$(BIN)/mypy examples/*/src
	$(BIN)/lint-imports --no-logo

docs: $(VENV)/.docs $(VENV)/.package
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	mkdir -p build/notebook
	cp docs/quickstart.ipynb build/notebook
	$(BIN)/jupyter execute build/notebook/quickstart.ipynb
	@echo "build/docs/index.html"

clean:
	rm -rf $(VENV) build dist .import_linter_cache .mypy_cache .pytest_cache .ruff_cache *.egg-info

# Stamp files say what is installed. `build` goes first each time: setuptools would pack modules
# from it that are no longer in the sources.
$(VENV)/.base: $(SETTINGS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	rm -rf build
	$(PIP) install -c constraints.txt .
	touch $@ $(VENV)/.package

$(VENV)/.test: $(VENV)/.base
	rm -rf build
	$(PIP) install -c constraints.txt '.[test]'
	touch $@ $(VENV)/.package

$(VENV)/.docs: $(VENV)/.base
	rm -rf build
	$(PIP) install -c constraints.txt '.[docs]'
	touch $@ $(VENV)/.package

$(VENV)/.package: $(VENV)/.base $(SOURCES)
	rm -rf build
	$(PIP) install --no-deps --force-reinstall .
	touch $@
