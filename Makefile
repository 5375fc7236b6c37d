# Every target sets up .venv/ when it is missing or stale, so each works in a fresh clone.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || echo python3)
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: run test check test-slow bench format clean

run: $(STAMP)  ## the main job: priors -> pretrain -> evaluate -> register -> predict Titanic
	$(BIN)/priorline run --config smoke

test: $(STAMP)  ## everything but the slow tests
	$(BIN)/python -m pytest -m "not slow and not gpu"

test-slow: $(STAMP)
	$(BIN)/python -m pytest -m "slow and not gpu"

check: $(STAMP)  ## lint, types, import direction
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)  ## ours against the peer packages, in one sitting
	$(BIN)/python -m benchmarks

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[benchmark,test,lint]"
	touch $(STAMP)

clean:
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache
