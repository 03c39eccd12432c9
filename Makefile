# Slotkeeper. `make` lists the targets; each installs what it needs first, into .venv in this folder.
# Standard output belongs to the program that a target runs; what make and the installers say goes to stderr.

.DEFAULT_GOAL := help
.SILENT:
MAKEFLAGS += --no-print-directory
# Each process that a target or a test starts would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
PY := $(VENV)/bin/python
# A checkout that was moved or copied is installed again: scripts and the editable install hold absolute paths.
STAMP := $(VENV)/.installed-$(shell pwd | cksum | cut -d' ' -f1)
ARGS ?=
# Tests wait for servers and processes two thirds of the time, so that two cores have work for six processes; one
# after another with ARGS="-n 0".
BESIDE := -n 6 --dist loadfile --no-loadscope-reorder
# Of everything, or of the files alone that ARGS names.
TESTS := $(if $(filter tests/%,$(ARGS)),,tests)
# The longest files first: the last one to start is the one that the others wait for.
FAST := tests/net tests/contract tests/property tests/architecture tests/unit
# Made when the fast tests pass; they run again once a file of the checkout is newer, has come or is gone.
FILES := find . \( -name .git -o -name '.[a-z]*_cache' -o -name .cache -o -name .venv -o -name .hypothesis \
  -o -name __pycache__ -o -name build -o -name dist -o -name '*.egg-info' \) -prune -o -type f -not -name '* *' -not -name '*.so' -print
SOURCES := $(shell $(FILES))
PASSED := $(VENV)/.fast-tests-passed-$(shell $(FILES) | cksum | cut -d' ' -f1)
# What is mutated, for how long at most, and from which seed; each part has as many minutes.
MINUTES ?= 60
SEED ?= 1
MUTATED := core/engine core/sinks core/slots core/domain
HISTORIES ?= 1000
HOURS ?= 8
FUZZER := .cache/fuzz/.installed
IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

.PHONY: help install demo test check docs messages dist bench bench-check bench-curves bench-console bench-dataframes bench-views snapshots simulate chaos matrix soak mutants fuzz fuzz-kernel sbom clean

help: ## list the targets
	sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | awk -F'|' '{ printf "%-19s %s\n", $$1, $$2 }'
	echo 'Arguments: make demo ARGS="--headless --duration 60s --json"'

install: $(STAMP) ## make .venv with everything that users and developers need

demo: $(STAMP) ## the pipeline and its console against an embedded warehouse
	exec $(VENV)/bin/slotkeeper demo $(ARGS)

ifneq ($(TESTS),)
test: $(STAMP) $(PASSED) ## all tests but the chaos runs; the fast ones only if a file changed since they passed
	$(PY) -m pytest tests -m "not chaos and not fast" $(BESIDE) $(ARGS)
else
test: $(STAMP)
	$(PY) -m pytest -m "not chaos" $(BESIDE) $(ARGS)
endif

check: $(STAMP) ## lint, format, types, import contracts, budgets and the fast tests
	$(PY) -m ruff check core console demo slotkeeper/*.py tests bench examples
	$(PY) -m ruff format --check core console demo slotkeeper/*.py tests bench examples
	# The second core compiles the tests meanwhile: otherwise seven processes do so at once in a new clone.
	$(PY) -m pytest tests --collect-only -qq -p no:cacheprovider >/dev/null 2>&1 & $(PY) -m mypy; code=$$?; wait; exit $$code
	$(MAKE) $(PASSED)

$(PASSED): $(STAMP) $(SOURCES)
	$(PY) -m pytest $(FAST) -q -m fast $(BESIDE) $(ARGS)
	rm -f $(VENV)/.fast-tests-passed-*
	touch $@

docs: $(STAMP) ## make the generated pages again: keys, parameters, schemas, manual page, chart
	$(PY) -m bench.generated

messages: $(STAMP) ## every message with its code and what to do
	exec $(PY) -m bench.messages

dist: $(STAMP) ## sdist and wheel, into dist; the wheel is built from the sdist
	rm -rf build dist *.egg-info
	$(PY) -m build --no-isolation --outdir dist . >/dev/null
	ls dist

bench: $(STAMP) ## the figures, each a ratio to something run beside it
	exec $(PY) -m bench $(ARGS)

bench-check: $(STAMP) ## the figures again, and which ratios fell by more than a fifth since the kept result
	exec $(PY) -m bench --check $(ARGS)

bench-curves: $(STAMP) ## what a change costs as backlog, DNs, rows, updates or channels grow
	exec $(PY) -m bench.curves $(ARGS)

bench-console: $(STAMP) ## what the console costs, beside an empty app and other consoles
	exec $(PY) -m bench.console $(ARGS)

bench-dataframes: $(STAMP) ## a changelog as a DataFrame, and its writer, beside a lane of the same changes
	exec $(PY) -m bench.dataframes $(ARGS)

bench-views: $(STAMP) ## SQL views: what capture adds to a step, rounds by method, freshness, beside Spark SQL
	exec $(PY) -m bench.views $(ARGS)

snapshots: $(STAMP) ## the pictures and the film of the console, from a run of the demo in tmux
	exec $(PY) -m bench.snapshots $(ARGS)

simulate: $(STAMP) ## histories of a job in virtual time, from one seed: HISTORIES=10000 SEED=1
	SLOTKEEPER_HISTORIES=$(HISTORIES) SLOTKEEPER_TEST_SEED=$(SEED) $(PY) -m pytest tests/chaos/test_simulation.py -m chaos -n 2 -rP $(ARGS)

chaos: $(STAMP) ## the tests that kill things at random for a while
	$(PY) -m pytest $(TESTS) -m chaos $(ARGS)

matrix: $(STAMP) ## each victim harmed in each phase of one job: SEED=1 ARGS="--victims driver,host --phases copy"
	exec $(PY) -m tests.support.matrix --seed $(SEED) $(ARGS)

soak: $(STAMP) ## two jobs, views, a query and a console under load and faults: what grows; HOURS=8 SEED=1
	exec $(PY) -m bench.soak --hours $(HOURS) --seed $(SEED) $(ARGS)

mutants: $(STAMP) ## which planted faults the tests find: those written by hand, then random ones; MINUTES=60 SEED=1
	$(PY) -m bench.planted --minutes $(MINUTES)
	exec $(PY) -m bench.mutants --seed $(SEED) --count 100 --minutes $(MINUTES) $(MUTATED)

fuzz: $(STAMP) $(FUZZER) ## every parser of others' bytes by coverage, 30 s each: ARGS="--seconds 600 binlog view"
	PYTHONPATH=.cache/fuzz exec $(PY) -m tests.support.fuzz $(ARGS)

# Apart from .venv: the checkout runs without it, and it exists for Linux on x86_64 only.
$(FUZZER): tests/support/fuzz/requirements.txt | $(STAMP)
	mkdir -p .cache/fuzz
	if command -v uv >/dev/null 2>&1; then set -- uv pip install -q --python $(PY); \
	else set -- $(PY) -m pip install -q --disable-pip-version-check; fi; \
	"$$@" --require-hashes --no-deps --target .cache/fuzz -r $< >&2 || echo "make: no atheris here: random changes" >&2
	touch $@

fuzz-kernel: $(STAMP) ## random rows and steps by the compiled kernels and by Python, under sanitizers: ARGS="--seconds 600"
	exec $(PY) -m tests.support.kernel_rows $(ARGS)

sbom: $(STAMP) ## what is installed, as an SBOM: CycloneDX JSON, to standard output
	exec $(PY) -m bench.sbom

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Every file that is downloaded has a hash in constraints.txt. setuptools comes first: it builds pyspark and this
# checkout, without the build isolation in which an installer would fetch a setuptools that nothing has checked.
# pyspark's wheel stays uncompressed, because its jars do not shrink and zipping them takes half a minute; as with uv,
# a module is compiled when it is first imported, not each of 5,600 here.
$(STAMP): pyproject.toml constraints.txt core/sources/mysql/kernel.c core/sinks/postgres/write/routing.c
	{ \
	  python=''; \
	  for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	    if "$$candidate" -c '$(IS_NEW_ENOUGH)' 2>/dev/null; then python=$$candidate; break; fi; \
	  done; \
	  if [ -z "$$python" ]; then \
	    echo "make: Python 3.11 or later is needed and was not found; install it, or: make PYTHON=/path/to/python3"; exit 1; \
	  fi; \
	  echo "Installing into $(VENV), once; this takes a minute or two"; \
	  "$(PY)" -c '$(IS_NEW_ENOUGH)' 2>/dev/null || rm -rf $(VENV); \
	  if command -v uv >/dev/null 2>&1; then \
	    export UV_PYTHON_DOWNLOADS=never; \
	    [ -e $(PY) ] || uv venv -q --python "$$python" $(VENV) || exit 1; \
	    set -- uv pip install -q --python $(PY); \
	  else \
	    if ! "$$python" -c 'import venv, ensurepip' 2>/dev/null; then \
	      echo "make: $$python has no venv or ensurepip; install them (Debian, Ubuntu: apt install python3-venv) or uv"; exit 1; \
	    fi; \
	    $(PY) -m pip --version >/dev/null 2>&1 || { rm -rf $(VENV); "$$python" -m venv $(VENV) || exit 1; }; \
	    set -- $(PY) -m pip install -q --disable-pip-version-check --use-pep517 --no-compile; \
	  fi; \
	  printf '[bdist_wheel]\ncompression = stored\n' >$(VENV)/build.cfg; \
	  export DIST_EXTRA_CONFIG="$$PWD/$(VENV)/build.cfg"; \
	  sed -n '/^setuptools==/,/[^\\]$$/p' constraints.txt | "$$@" --require-hashes -r /dev/stdin || exit 1; \
	  "$$@" --require-hashes --no-build-isolation -r constraints.txt || exit 1; \
	  "$$@" --no-deps --no-build-isolation -e . || exit 1; \
	  mkdir -p $(VENV)/share/man/man1; \
	  ln -sf "$$PWD/docs/man/slotkeeper.1" $(VENV)/share/man/man1/; \
	  rm -f $(VENV)/.installed-*; \
	  touch $@; \
	} >&2
