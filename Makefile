# Two commands do everything, set-up included: `make demo` and `make test`.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
PEERS := corruptions curvature metrics optim  # benchmarks against other tools, which need .venv-peers
BENCHMARKS := $(patsubst benchmarks/%.py,%,$(filter-out benchmarks/_%,$(wildcard benchmarks/*.py)))

ifneq ($(filter bench,$(MAKECMDGOALS)),)
ifeq ($(filter $(NAME),$(BENCHMARKS)),)
$(error NAME must be one of: $(sort $(BENCHMARKS)); got "$(NAME)")
endif
endif

.PHONY: $(shell sed -nE 's/^([a-z-]+):.*/\1/p' Makefile)

help:
	@awk -F ':.*## ' '/^##@/ {print substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use
setup: .venv/demo-is-set-up  ## create .venv and install surefoot with its report

demo: setup  ## run the default study on embedded data, print its table and the report's path
	$(BIN)/surefoot study coupling --scale digits

##@ Develop
setup-dev: .venv/dev-is-set-up  ## create .venv with the tools for development

check: setup-dev lint types  ## lint, check types and run the fast tests
	$(BIN)/python -m pytest --numprocesses 2 -m "not slow"

test: setup-dev lint types  ## lint, check types and run all tests
	$(BIN)/python -m pytest --numprocesses 2

test-ray: setup-dev  ## run the tests of studies on a Ray cluster (installs 250 MB more)
	$(PIP) --editable '.[ray]'
	$(BIN)/python -m pytest tests/studies/engines/test_ray.py

test-peers: .venv-peers/is-set-up  ## run the tests against tools that need a virtual environment of their own
	.venv-peers/bin/python -m pytest tests/peers/test_curvature.py

docs: setup-dev  ## build the documentation into site/, offline
	$(BIN)/mkdocs build --strict

screenshot: setup-dev  ## write docs/report.png, with Chromium
	$(BIN)/python docs/screenshot.py

clean:  ## remove virtual environments, caches and runs
	rm -rf .venv .venv-peers .mypy_cache .ruff_cache .pytest_cache .hypothesis runs dist site

lint: setup-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup-dev
	$(BIN)/mypy

##@ Results (some need SUREFOOT_DATA, the folder with CIFAR-10)
bench: $(if $(filter $(NAME),$(PEERS)),.venv-peers/is-set-up,setup-dev)  ## run a benchmark and write results/benchmarks, e.g. make bench NAME=curvature
	$(if $(filter $(NAME),$(PEERS)),.venv-peers/bin,$(BIN))/python benchmarks/$(NAME).py

reproduce: setup-dev  ## repeat the shortest run of every committed study, write results/REPRODUCED.md
	$(BIN)/python -m surefoot_papers.reproduce results

tables: setup-dev  ## make the tables of the committed results from their rows
	$(BIN)/python -m surefoot_papers.recorded results

claims: setup-dev  ## write results/CLAIMS.md from the committed results
	$(BIN)/python -m surefoot_papers.claims_page results

evidence: setup-dev  ## write the evidence that diagnoses cite, from the committed results
	$(BIN)/python -m surefoot_papers.evidence results

# torch-uncertainty's and curvlinops' own requirements would replace torch and bring a torchvision that does not match it
.venv-peers/is-set-up: pyproject.toml constraints.txt benchmarks/peers.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install --quiet --constraint constraints.txt --editable '.[peers,test]' --requirement benchmarks/peers.txt
	.venv-peers/bin/pip install --quiet --no-deps torch-uncertainty==0.13.0 lightning==2.6.6 einops==0.8.2
	.venv-peers/bin/pip install --quiet --no-deps curvlinops-for-pytorch==3.0.1 backpack-for-pytorch==1.7.1 unfoldNd==0.2.3
	@touch $@

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/demo-is-set-up: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) --editable '.[report]'
	@touch $@

.venv/dev-is-set-up: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) --editable '.[dev]'
	@touch $@ .venv/demo-is-set-up
