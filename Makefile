# make demo and make test do everything on a machine with Python 3.11; see README.md.
PYTHON ?= python3.11
BIN := .venv/bin
DISENT_HOME ?= $(CURDIR)/data
export DISENT_HOME
# Threads that spin while they wait make small training steps many times slower when other processes use the cores.
export OMP_WAIT_POLICY ?= PASSIVE

# Only files with the hashes of requirements/*.txt are installed, and nothing beside them.
LOCKED := $(BIN)/pip install --quiet --no-deps --no-build-isolation --require-hashes

.PHONY: setup lock demo results paper papers-dry tables model model-massive test quick same-results mteb-test scale-test scale-faults install-test faults dev dev-test ui-read-only fuzz audit sbom lint bench docs release release-test clean

setup: .venv/.stamp ## make the environment in .venv

.venv/.stamp: pyproject.toml $(wildcard requirements/*.txt)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(LOCKED) --requirement requirements/build.txt
	$(LOCKED) --requirement requirements/test.txt
	$(BIN)/pip install --quiet --requirement requirements/torch.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

# torch has a version and no hash: which build it is, for CUDA or not, depends on the machine.
COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --annotation-style line \
	--no-emit-package torch --constraint requirements/torch.txt $(UPGRADE)

lock: setup ## write requirements/*.txt again after a change of pyproject.toml; UPGRADE=--upgrade for newer versions
	$(LOCKED) --requirement requirements/lint.txt
	$(COMPILE) pyproject.toml --extra lineage --extra export --extra test --output-file requirements/test.txt
	$(COMPILE) pyproject.toml --extra mteb --constraint requirements/test.txt --output-file requirements/mteb.txt
	$(COMPILE) pyproject.toml --extra sign --extra s3 --extra postgres --extra ray --extra k8s --group scale --constraint requirements/test.txt --output-file requirements/scale.txt
	$(COMPILE) pyproject.toml --extra lineage --extra s3 --extra postgres --extra ray --extra k8s \
		--constraint requirements/test.txt --output-file requirements/image.txt
	$(COMPILE) --group interop --constraint requirements/test.txt --constraint requirements/scale.txt --output-file requirements/interop.txt
	for group in build lint bench audit docs; do \
		$(COMPILE) --group $$group --constraint requirements/test.txt --output-file requirements/$$group.txt || exit; done
	echo duckdb==1.2.0 | $(COMPILE) - --output-file requirements/duckdb-1.2.0.txt

# The oldest DuckDB that has to read the warehouse, ibis and dbt: each in a folder that only one test imports from.
OLDEST_DUCKDB := .venv/duckdb-1.2.0
INTEROP := .venv/interop

$(OLDEST_DUCKDB) $(INTEROP): .venv/%: | setup
	$(LOCKED) --target $@ --requirement requirements/$*.txt

demo: setup ## run the whole lineage on the sample corpora, write its report, show the best methods on one screen
	$(BIN)/disent materialize
	@$(BIN)/disent report > /dev/null
	$(BIN)/disent leaderboard

results: setup ## run what is stale of CONFIGS="configs/a.toml" (default: all of the pages), then write docs/results and the tables of the pages
	$(BIN)/python -m tools.results --run $(foreach home,$(HOMES),--home $(home)) $(CONFIGS)

paper: setup ## make a table of a paper with the paper's encoders, TABLE=fmda_table2 (docs/papers.md); needs a model hub, a GPU (or CPU=1) and hours
	@$(BIN)/python -m tools.paper $(if $(CPU),--cpu) '$(TABLE)'

papers-dry: setup ## run the configurations of make paper on stand-ins of encoders and corpora
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/sql/test_paper_configurations.py

tables: setup ## write docs/results and the tables of the pages from the runs that there are; HOMES="configs/a.toml=/folder" for other folders
	$(BIN)/python -m tools.results $(foreach home,$(HOMES),--home $(home))

model: model-massive ## train the models and write disent/models/small and dist/disent_massive-*.whl; MASSIVE=ARCHIVE: the release of MASSIVE, else downloaded
	DISENT_CONFIG=configs/static.toml DISENT_HOME=data/static $(BIN)/disent materialize
	$(BIN)/python -m tools.model small

model-massive: setup ## the same without the model small, which a release takes as it is committed
	$(if $(MASSIVE),mkdir -p data/real/massive && ln -sfn $(abspath $(MASSIVE)) data/real/massive/amazon-massive-dataset-1.1.tar.gz)
	DISENT_CONFIG=configs/static_massive.toml DISENT_HOME=data/static_massive $(BIN)/disent materialize
	$(BIN)/python -m tools.model massive

test: setup $(OLDEST_DUCKDB) ## run all tests on two cores
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

quick: setup ## run the tests of what has changed since SINCE (default: the last commit), and the architecture's
	$(BIN)/python -m tools.quick --since $(or $(SINCE),HEAD)

same-results: setup ## run the demo in a new home and compare all results with FILE=before.json; without the file, write it
	$(BIN)/python -m tools.same_results run $(or $(FILE),build/results.json)

mteb-test: setup ## test heads and tasks in mteb; installs it, which make test does without
	$(LOCKED) --requirement requirements/mteb.txt
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/core/mteb_bridge tests/assets/test_mteb_command.py

scale-test: setup $(INTEROP) ## test homes in buckets, all else that needs more than one machine, signatures, ibis and dbt; installs what make test does without
	$(LOCKED) --requirement requirements/scale.txt
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/scale tests/security/test_signatures.py
	PYTHONPATH=$(INTEROP) OMP_NUM_THREADS=1 $(BIN)/pytest tests/sql/test_readers_of_others.py

scale-faults: setup ## kill steps and nodes on Ray, stop Postgres and a store, break requests to it, let writers race; takes hours
	$(LOCKED) --requirement requirements/scale.txt
	OMP_NUM_THREADS=1 $(BIN)/python harness/scale/scale_faults.py --kills-on-ray 100 --outages 5 --requests 50 --stores-away 1 --publishes 10000
	OMP_NUM_THREADS=1 $(BIN)/python harness/scale/scale_faults.py --kills-in-a-bucket 60

install-test: setup ## do what a new user does, from an empty environment to a search, and time each step; needs the network
	$(BIN)/python harness/fresh_install.py --python $(PYTHON)

faults: setup ## test kills, full disks, damaged files, wrong clocks, random edits, readers during rebuilds; takes an hour or more
	OMP_NUM_THREADS=1 $(BIN)/python harness/faults.py --kills 1000 --writes 60 --disks 10 --damages 60 --clocks 6
	OMP_NUM_THREADS=1 $(BIN)/python harness/every_call.py --places 20
	DISENT_TEST_REBUILDS=100 $(BIN)/pytest -s tests/sql/test_readers_and_rebuilds.py
	$(BIN)/pytest -s -m slow tests/end_to_end/test_rebuild.py

dev: setup ## start the Dagster UI on http://127.0.0.1:3000
	$(BIN)/disent dev --port $(or $(PORT),3000)

dev-test: setup ## test that a running make dev notices edits; takes minutes
	$(BIN)/pytest -m daemon -s tests/end_to_end/test_refresh.py tests/end_to_end/test_edited_code.py

ui-read-only: setup ## start a read-only UI on http://127.0.0.1:3000
	$(BIN)/python -m disent_assets.web.server --read-only --workspace workspace.yaml --host 127.0.0.1 --port $(or $(PORT),3000)

fuzz: setup ## give 147,000 mutated files to the readers; SEED=1 for other files
	$(BIN)/python -m harness.fuzz --inputs $(or $(INPUTS),7000) --seed $(or $(SEED),0)

sbom: setup ## write what all extras install, as CycloneDX, to build/sbom.json
	mkdir -p build
	$(BIN)/python -m tools.supply_chain sbom > build/sbom.json

audit: setup ## list known vulnerabilities of the installed packages; needs the network, or OSV=all.zip, an export of osv.dev
	$(if $(OSV),,$(LOCKED) --requirement requirements/audit.txt)
	mkdir -p build
	$(BIN)/pip freeze --all --exclude-editable | sed 's/+[a-z0-9.]*$$//' > build/installed.txt
	$(BIN)/python -m tools.audit build/installed.txt $(OSV)

lint: setup ## run ruff, basedpyright and sqlfluff
	$(LOCKED) --requirement requirements/lint.txt
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/sqlfluff lint sql
	$(BIN)/sqlfluff lint --config sql/.sqlfluff docs

bench: setup ## measure us beside other libraries on one thread, and write docs/benchmarks.md; ONLY=encoding for one part
	$(LOCKED) --requirement requirements/bench.txt
	OMP_NUM_THREADS=1 POLARS_MAX_THREADS=1 $(BIN)/python -m bench $(if $(ONLY),--only $(ONLY))

docs: setup ## build the documentation site in build/site; fails on a dead link, or a page over 60 kB
	$(LOCKED) --requirement requirements/docs.txt
	$(BIN)/python -m tools.build_site

release: docs ## build wheel, source distribution, notes, SBOM, site and checksums of this version in dist/; TAG=v0.3.0 must name it
	$(BIN)/python -m tools.release

release-test: setup ## install dist/ from an index on this machine into an empty environment, and run the README's first lines
	cd dist && sha256sum --check --quiet SHA256SUMS
	$(BIN)/python harness/fresh_install.py --python $(PYTHON) --dist dist

clean: ## remove the environment and all results, but not the sample corpora
	rm -rf .venv data/tables data/heads data/plots data/encoders data/checkpoints data/cache data/dagster data/warehouse.*
