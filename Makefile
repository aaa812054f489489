# Two commands do everything, set-up included: `make demo` and `make test`.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: $(shell sed -nE 's/^([a-z-]+):.*/\1/p' Makefile)

help:  ## say what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

demo: setup  ## set up, run the default study on embedded data, print its table and the report's path
	$(BIN)/surefoot study coupling --scale digits

test: setup-dev lint types  ## set up, then lint, types and all tests
	$(BIN)/python -m pytest --numprocesses 2

check: setup-dev lint types  ## the same with the fast tests only, for while you work
	$(BIN)/python -m pytest --numprocesses 2 -m "not slow"

lint: setup-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup-dev
	$(BIN)/mypy

bench: setup-dev  ## run the benchmarks, write results/benchmarks
	$(BIN)/python benchmarks/observing.py

bench-stepping: setup-dev  ## the one of steps and forward passes on a CPU
	$(BIN)/python benchmarks/stepping.py

bench-studies: setup-dev  ## the one of the local engine and of many runs
	$(BIN)/python benchmarks/studies.py

bench-metrics: .venv-peers/is-set-up  ## the one against other tools, in a venv of their own
	.venv-peers/bin/python benchmarks/metrics.py

bench-curvature: .venv-peers/is-set-up  ## the one of curvature; SUREFOOT_DATA must name the folder with CIFAR-10
	.venv-peers/bin/python benchmarks/curvature.py

bench-optim: .venv-peers/is-set-up  ## the one of optimizers
	.venv-peers/bin/python benchmarks/optim.py

bench-corruptions: .venv-peers/is-set-up  ## the one of corruptions; SUREFOOT_DATA must name the folder with CIFAR-10
	.venv-peers/bin/python -W ignore benchmarks/corruptions.py

bench-losses: setup-dev  ## the one of losses
	$(BIN)/python benchmarks/losses.py

bench-ensembles: setup-dev  ## the one of ensembles
	$(BIN)/python benchmarks/ensembles.py

bench-certificates: setup-dev  ## the one of certificates; SUREFOOT_DATA must name the folder with CIFAR-10
	$(BIN)/python benchmarks/certificates.py

test-ray: setup-dev  ## the tests of studies on a Ray cluster, which needs 250 MB more
	$(PIP) --editable '.[ray]'
	$(BIN)/python -m pytest tests/studies/engines/test_ray.py

docs: setup-dev  ## build the documentation into site/, offline
	$(BIN)/mkdocs build --strict

evidence: setup-dev  ## read again what the committed results say, for diagnoses
	$(BIN)/python -m surefoot.diagnosis.evidence results

criteria: setup-dev  ## write how claims are tested into the committed results again, from the studies' files, and their tables
	$(BIN)/python -m surefoot_papers.recorded results
	for folder in $$(dirname results/*/*/study.json); do $(BIN)/surefoot report $$folder --no-page > /dev/null || exit 1; done

reproduce: setup-dev  ## do the shortest run of every committed study again, write results/REPRODUCED.md; SUREFOOT_DATA as for benchmarks
	$(BIN)/python -m surefoot_papers.reproduce results

claims: setup-dev  ## write results/CLAIMS.md again, from claims.toml and the committed results
	$(BIN)/python -m surefoot_papers.claims_page results

screenshot: setup-dev  ## make docs/report.png, with Chromium
	$(BIN)/python docs/screenshot.py

bench-report: setup-dev  ## time the page of 200 runs, in Chromium too
	$(BIN)/python benchmarks/report.py

bench-watch: setup-dev  ## the one of the watch in loops that are not surefoot's
	$(BIN)/python benchmarks/watch.py
bench-imports: setup-dev  ## the one of `import surefoot` and its parts
	$(BIN)/python benchmarks/imports.py

test-peers: .venv-peers/is-set-up  ## the tests against tools that only this venv can hold
	.venv-peers/bin/python -m pytest tests/peers/test_curvature.py

# torch-uncertainty's and curvlinops' own requirements would replace torch and bring a torchvision that does not match it
.venv-peers/is-set-up: pyproject.toml constraints.txt benchmarks/peers.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install --quiet --constraint constraints.txt --editable '.[peers,test]' --requirement benchmarks/peers.txt
	.venv-peers/bin/pip install --quiet --no-deps torch-uncertainty==0.13.0 lightning==2.6.6 einops==0.8.2
	.venv-peers/bin/pip install --quiet --no-deps curvlinops-for-pytorch==3.0.1 backpack-for-pytorch==1.7.1 unfoldNd==0.2.3
	@touch $@

setup: .venv/demo-is-set-up  ## make .venv and install surefoot with its report

setup-dev: .venv/dev-is-set-up  ## the same with the tools for development

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/demo-is-set-up: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) --editable '.[report]'
	@touch $@

.venv/dev-is-set-up: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) --editable '.[dev]'
	@touch $@ .venv/demo-is-set-up

clean:  ## remove .venv, caches and runs
	rm -rf .venv .venv-peers .mypy_cache .ruff_cache .pytest_cache .hypothesis runs dist site
