# Everything starts here, on a machine with Python 3.11 and pip: `make help`.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

export PYTHON ?= python3
# The environment's Python, unless PYTHON is given: a distribution's is built with profiles, others
# often are not, and run our code a third slower. A part of one (python3-minimal) would not do.
SYSTEM := $(shell /usr/bin/python3.11 -c 'import ctypes, sqlite3, ssl, sys; print(sys.executable)' 2>/dev/null)
INTERPRETER := $(if $(filter file,$(origin PYTHON)),$(or $(SYSTEM),$(PYTHON)),$(PYTHON))
# Tests start many processes: without compiled modules each would compile 2 s long.
unexport PYTHONDONTWRITEBYTECODE
export UV_COMPILE_BYTECODE := 1
UV := .ci/uv
BIN := .venv/bin
READY := .venv/.ready
SOURCES := src tests $(wildcard bench) $(wildcard examples)
# pytest's status 5: the selection is empty, which is no failure.
OR_NONE := || [ $$? -eq 5 ]

.PHONY: help demo docs docs-serve pictures reference check ready test test-full test-gcs stock-answers suite unit lint format types imports parts jar lock bench-log bench-appenders bench-arrow bench-adopt bench-mirror bench-scale bench-scale-data bench-maintenance bench-spark bench-spark-dml bench-spark-sql bench-serve soak clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  \033[1m%-12s\033[0m %s\n", $$1, $$2 }' Makefile

demo: $(READY) ## Run the guided example
	$(BIN)/python examples/demo.py

docs: $(READY) ## Build the documentation into build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-serve: $(READY) ## Show the documentation at http://127.0.0.1:8000, anew after every change
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

pictures: $(READY) ## Draw the pictures of the documentation anew
	$(BIN)/python -m tests.docs.pictures

reference: $(READY) ## Write the generated pages of the documentation anew
	$(BIN)/python -m tests.docs.reference

check: lint types imports unit ## What takes a minute: style, types, layers, unit tests

test: export DELTASQL_STRESS ?= 0.1
test: ready suite ## All checks and tests; of large matrices each pair, stress tests at a tenth

test-full: export DELTASQL_STRESS ?= 1
test-full: ready suite ## All checks and tests at full size, before a release

# Checks keep one core busy while parts are fetched, and one waits for the other where none are.
ready: $(READY)
	$(MAKE) --jobs=2 --output-sync=target lint types imports unit parts

stock-answers: $(READY) parts ## Ask stock Delta anew what tests compare Spark SQL with
	DELTASQL_STOCK_ANSWERS=write $(BIN)/pytest -n 0 tests/spark/sql/test_statements.py

test-gcs: $(READY) ## Run the object-store contract on a real bucket: BUCKET=…
	BUCKET=$(BUCKET) $(BIN)/pytest -n 0 -m gcs tests/objectstore

# Some tests run alone: they measure fairness, and want the machine to themselves. The others wait
# for timeouts and servers now and then: three workers keep two cores busy (tests/workers.py).
suite: $(READY) parts
	$(BIN)/pytest -n 3 --no-loadscope-reorder --durations=10 -m "not alone" --ignore=tests/unit
	$(BIN)/pytest -n 0 --durations=10 -m alone tests/stress $(OR_NONE)

unit: $(READY) ## Tests of the pure layers only: no database, no files
	$(BIN)/pytest -n 2 tests/unit $(OR_NONE)

lint: $(READY) ## Check style and formatting
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

format: $(READY) ## Format, and fix what can be fixed
	$(BIN)/ruff check --fix-only $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

types: $(READY) ## Check the types
	$(BIN)/mypy

imports: $(READY) ## Check that imports go down the layers only
	$(BIN)/lint-imports

parts: $(READY) ## Install what tests need beyond Python: pgbouncer, an old PostgreSQL, faketime, toxiproxy, Azurite, Spark
	$(BIN)/python -m tests.parts
	DELTASQL_SPARK_JARS=.tools/jars $(MAKE) jar

# The sources decide: whatever compiler there is, see java/build.py.
JAR := src/deltasql/spark/catalog/deltasql-spark.jar
jar: $(JAR) ## Compile the Java side of the Spark catalog into the package

$(JAR): $(wildcard java/io/deltasql/spark/*.java) java/build.py | $(READY)
	$(BIN)/python java/build.py

bench-log: $(READY) ## Measure the SQL log
	$(BIN)/python -m bench.log

bench-appenders: $(READY) ## Measure appenders beside plain appends
	$(BIN)/python -m bench.appenders

bench-adopt: $(READY) ## Measure adoption
	$(BIN)/python -m bench.adopt

bench-mirror: $(READY) ## Measure the mirror
	$(BIN)/python -m bench.mirror

bench-scale: $(READY) ## Measure slow stores, many commits and many tables
	$(BIN)/python -m bench.scale

bench-maintenance: $(READY) ## Measure upkeep: optimize, vacuum
	$(BIN)/python -m bench.maintenance
	$(BIN)/python -m bench.spark_upkeep

bench-scale-data: $(READY) ## Measure large rows and many partitions
	$(BIN)/python -m bench.scale_data

bench-arrow: $(READY) ## Measure Python's deletes, updates, merges and scans beside delta-rs
	$(BIN)/python -m bench.arrow

bench-spark: $(READY) parts ## Measure PySpark beside stock Delta Spark
	$(BIN)/python -m bench.spark

bench-spark-dml: $(READY) parts ## Measure merges, deletes and streams beside stock Delta Spark
	$(BIN)/python -m bench.spark_dml

bench-spark-sql: $(READY) parts ## Measure Spark SQL on a lake beside stock Delta Spark
	$(BIN)/python -m bench.spark_sql

bench-serve: $(READY) ## Measure the service beside writers, and on a large table
	$(BIN)/python -m bench.serve

MINUTES ?= 30
soak: $(READY) parts ## Run everything at once for MINUTES (30): nothing may grow, no row be lost
	$(BIN)/python -m bench.soak --minutes $(MINUTES)

# A hash names a file wherever it comes from; a lock that names hosts would work in one place only.
lock: ## Resolve the dependencies again into requirements.lock
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
	  --no-header --no-emit-index-url --no-emit-find-links \
	  --extra postgres --extra duckdb --extra spark --extra serve --extra otel --group dev --group docs --group bench \
	  --output-file requirements.lock pyproject.toml
	! grep -nE '://|^--|(^|[^a-z])(file|find-links|index)[ =:]' requirements.lock

clean: ## Remove what was made, the environment and the tools included
	rm -rf .venv .tools build dist .*_cache .hypothesis .import_linter_cache
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml $(UV)
	test -x $(BIN)/python || $(UV) venv --quiet --python "$$(command -v $(INTERPRETER))" .venv
	$(UV) pip sync --quiet --require-hashes requirements.lock
	$(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@
