# The verbs. Each takes INVENTORY=: `make apply` is the cluster of inventory.py, `make apply INVENTORY=tests/lab/inventory.py`
# the lab. DATA passes knobs for one run: `make apply DATA="topology=solo"`.
INVENTORY ?= inventory.py
ifeq ($(MACHINES),vm)
TOPOLOGY ?= replicas
# vLLM is too slow where its processor is emulated: a double has its ranks.
LAB := tests/lab/on_$(if $(filter cluster,$(TOPOLOGY)),vllm_double,machines)/inventory.py
else
LAB := tests/lab/inventory.py
TOPOLOGY ?= cluster
endif
EXECUTOR ?= mp
DATA ?=
CHAOS ?=
# Processes that run the tests without a lab.
TESTERS ?= $(shell expr $$(nproc) + 1)
# What a test starts would compile the same modules each time.
unexport PYTHONDONTWRITEBYTECODE

VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= python3
PYINFRA := PYINFRA_PROGRESS=off $(BIN)/pyinfra -y
data = $(foreach pair,$(1),--data $(pair))
# Of several models the one that a verb is about.
model = $(if $(MODEL),--data _model=$(MODEL))
# What only asks: pyinfra's own words are shown when it fails, a verb's notes always.
ask = @log=$$(mktemp) && { $(PYINFRA) $(INVENTORY) operations/verbs/$(1).py $(2) $(model) $(call data,$(DATA)) 2>"$$log" || { cat "$$log" >&2; rm "$$log"; exit 1; }; } && { grep '^note: ' "$$log" >&2; rm "$$log"; }

.DEFAULT_GOAL := help
.PHONY: test-touched test-lab test-other-kind test-long help venv plan apply rollback status starts endpoint key keys key-revoke doctor audit check recipes recipes-table verify prove prune audit-security sbom holes scrape-config alarm-test grafana down rehearse lab-up lab-down lab-packages lab-llama llama-server test test-fast lint chaos bench report advise bench-converge bench-models bench-switch bench-start bench-transfer bench-routing bench-door bench-door-cost bench-watching test-clients venv-proxy manual manual-pages imports lock bench-on-demand test-machines

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {gsub(/[$$][$$]/, "$$", $$2); printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  INVENTORY=FILE chooses the nodes ($(INVENTORY)), DATA=\"knob=value ...\" sets knobs for one run,"
	@echo "  MODEL=name is the one of several models that a verb is about"

venv: $(VENV)/.deploy ## pyinfra and what a deploy needs, pinned by hash, into .venv

plan: $(VENV)/.deploy ## show what a deploy would change, file by file
	@PYINFRA_PROGRESS=off $(BIN)/pyinfra $(INVENTORY) deploy.py --dry --diff $(call data,$(DATA))

apply: $(VENV)/.deploy ## make the nodes what the knobs say; again: no changes
	@$(PYINFRA) $(INVENTORY) deploy.py $(call data,$(DATA))

rollback: $(VENV)/.deploy ## back to the plan that served before the declared one (group_data, and DATA as it was given)
	@$(PYINFRA) $(INVENTORY) deploy.py $(call data,$(DATA)) --data _rollback=1

status: $(VENV)/.deploy ## what runs on each node, and whether it answers
	$(call ask,status)

starts: $(VENV)/.deploy ## how long the last starts of the engines took, phase by phase, and how far one is
	$(call ask,starts)

endpoint: $(VENV)/.deploy ## the proxy's URL and key, for scripts: eval "$$(make -s endpoint)"
	$(call ask,endpoint)

# The verbs for keys read these from the environment; some shells have a NAME of their own there.
key key-revoke: NAME =
key: EXPIRES =
key: REQUESTS =
key: TOKENS =

key: $(VENV)/.deploy ## a key for a client, printed once: NAME=alice (EXPIRES=30d or a day, REQUESTS= at once, TOKENS= a minute)
	$(call ask,key)

keys: $(VENV)/.deploy ## keys of clients: what they may, when they end, what they have used
	$(call ask,keys)

key-revoke: $(VENV)/.deploy ## the key of a client opens nothing any more: NAME=alice
	$(call ask,key_revoke)

doctor: $(VENV)/.deploy ## what no log says, on each node and between them; fails where something is bad (NET=0: no load on rails)
	$(call ask,doctor,$(if $(NET),--data _net=$(NET)))

check: $(VENV)/.deploy ## all that a deploy checks before its first change, and the recipe against its image
	$(call ask,check)

recipes: $(VENV)/.deploy ## which recipe for whom, or one of them (RECIPE=); of a folder (DIR=) what the lint says (FETCH=URL@COMMIT: mods)
	@[ -z "$$FETCH" ] || PYTHONPATH=. $(BIN)/python -m operations.verbs.fetch "$$FETCH"
	@PYTHONPATH=. $(BIN)/python -m operations.verbs.recipes "$$DIR"

recipes-table: $(VENV)/.deploy ## write docs/recipes.md anew: what each recipe is for, its release, figures, known holes
	@PYTHONPATH=. $(BIN)/python -m operations.verbs.recipe_table > docs/recipes.md.new && mv docs/recipes.md.new docs/recipes.md

verify: $(VENV)/.deploy ## is the model whole and the same on every node; DEEP=1 hashes every byte
	$(call ask,verify,$(if $(DEEP),--data _deep=1))

prove: $(VENV)/.deploy ## ask what serves questions whose answers are checked (MODEL=name: that one); fails where a form does not hold
	$(call ask,prove)

prune: $(VENV)/.deploy ## remove images of Tandem's that no unit needs any more; models and caches stay
	$(call ask,prune)

audit: $(VENV)/.deploy ## what the model's weights are made of: modules by quantisation and bytes, from the head's store
	$(call ask,audit)

audit-security: $(VENV)/.deploy ## known holes of what runs: engine, Ray, proxy, Docker, ours (RECIPE=name or DIR=folder: without a node)
	$(if $(RECIPE)$(DIR),@PYTHONPATH=. $(BIN)/python -m operations.verbs.recipe_holes $(or $(RECIPE),$(DIR)),$(call ask,audit_security))

sbom: $(VENV)/.deploy ## what the head runs, as CycloneDX: packages read in the images, the model's files (TO=sbom)
	$(call ask,sbom,$(if $(TO),--data _to=$(TO)))

holes: $(VENV)/.dev ## renew the list of known holes: FROM= a file, folder, zip or URL of OSV records, or pip-audit's JSON
	@PYTHONPATH=. $(BIN)/python -m operations.verbs.renew_holes $(FROM)

bench: $(VENV)/.bench ## measure what is deployed, or TOPOLOGIES="solo cluster replicas" in turn (PROFILE= USERS= FOR=30m SLO= RUN=: docs/bench.md)
	@INVENTORY="$(INVENTORY)" DATA="$(DATA)" $(BIN)/python -u -m bench

report: $(VENV)/.bench ## a run as a page, Markdown and CSV: RUN=folder, the newest without it (AGAINST=folder FIGURES= OUT=: docs/advise.md)
	@$(BIN)/python -m bench.report

advise: $(VENV)/.deploy ## which topology for LOAD="8 users chat ttft=2s", as a command, and why (RECIPE= NODES= RUN= DETAIL=1: docs/advise.md)
	@$(BIN)/python -m bench.advise

scrape-config: $(VENV)/.deploy ## for a Prometheus on a node: where the nodes' metrics are, and the alarms (docs/monitoring.md)
	$(call ask,scrape_config)

alarm-test: $(VENV)/.deploy ## a test alarm to all whom alarms are sent to, and whether each has taken it
	$(call ask,alarm_test)

grafana: $(VENV)/.deploy ## a dashboard for your Grafana's import, of the panels that the page at /tandem/ has (docs/page.md)
	@PYTHONPATH=. $(BIN)/python -m operations.verbs.grafana

down: $(VENV)/.deploy ## stop and remove what Tandem started (MODEL=name: that one's engines alone); images and models stay
	@$(PYINFRA) $(INVENTORY) operations/verbs/down.py $(model)

rehearse: lab-up ## the whole cluster on this machine, without a GPU: boot, deploy, chat (TOPOLOGY= EXECUTOR=, and lab-up's)
	@$(PYINFRA) $(LAB) deploy.py --data topology=$(TOPOLOGY) --data executor=$(EXECUTOR)
	@$(BIN)/python -m tests.lab.chat $(LAB)

lab-up: lab-packages $(VENV)/.dev ## boot the lab's hosts (NODES=2 WIRING=cable|ring|switch OS=debian12|debian13 RENDERER=networkd|NetworkManager MACHINES=vm ARCH=amd64|arm64 DISKS=kept)
	@$(BIN)/python -m tests.lab up

lab-down: $(VENV)/.dev ## remove the lab's hosts; what was built stays
	@$(BIN)/python -m tests.lab down

lab-packages: ## install what the lab needs from Debian or Ubuntu (root)
	@sh tests/lab/packages.sh

test: lab-packages lint ## every test, those on the lab included (root); takes the lab down before and at the end
	@# What somebody did to hosts that are still up is not what the tests expect.
	@$(MAKE) --no-print-directory lab-down
	@# Side by side: boots, engines that load and deploys leave half of the machine to the tests that need no lab.
	@$(MAKE) --no-print-directory -j 2 test-lab test-fast

test-lab: lab-up ## the tests on the lab (root); takes the lab down at the end
	@$(BIN)/pytest -m "lab and not long" --durations=12 -rR tests/e2e

lab-llama: lab-packages $(VENV)/.dev ## what the lab needs for llama.cpp: its image and its model; then INVENTORY=tests/lab/on_llama/inventory.py
	@$(BIN)/python -m tests.lab.on_llama

llama-server: ## Debian's llama-server for the tests, unpacked into $(VENV)-llama; without it they are left out
	@sh tests/lab/llama_server.sh $(VENV)-llama || :

test-fast: $(VENV)/.dev $(VENV)-proxy/.proxy $(VENV)-manual/.manual llama-server ## the tests that need no lab
	@# File by file: tests of one file share ports. By their names the last ones are short. Tests wait for something
	@# now and then: one process more than cores uses that time. With two more, and with tests that wait mixed among
	@# those that compute, 24 were tried again in place of 3.
	@$(BIN)/pytest -m "not lab" -n $(TESTERS) --dist loadfile --no-loadscope-reorder --durations=25 -rR

test-touched: $(VENV)/.dev $(VENV)-proxy/.proxy ## the tests near to what you changed since main (BASE=COMMIT), the nearest first, for two minutes at most
	@near=$$($(BIN)/python -m tests.touched $(BASE)); [ -n "$$near" ] || { echo "no test is near to what changed: make test-fast"; exit 0; }; \
		$(BIN)/pytest -m "not lab" -n 2 --dist loadfile --session-timeout 120 $$near

test-other-kind: lab-packages $(VENV)/.dev ## the topologies on Debian 13, NetworkManager and Docker's containerd store (root)
	@OS=debian13 RENDERER=NetworkManager $(MAKE) --no-print-directory lab-up
	@OS=debian13 RENDERER=NetworkManager $(BIN)/pytest -m lab --durations=12 tests/e2e/test_1_topologies.py tests/e2e/test_3_clusters.py

test-machines: export MACHINES = vm
MINUTES ?= 28
test-machines: export MINUTES := $(MINUTES)
test-machines: lab-packages $(VENV)/.dev ## virtual machines (root): what a kernel of their own has, the deploy, and faults under load (ARCH=amd64|arm64, or both; MINUTES=28 for each; docs/first-hour.md)
	@failed=0; for arch in $(or $(ARCH),amd64 arm64); do \
		ARCH=$$arch $(BIN)/pytest -m machines --durations=12 --no-fold-skipped tests/lab/qemu tests/chaos/machines || failed=1; done; exit $$failed

test-long: lab-packages $(VENV)/.dev ## what is too long for `make test`: renewals in turn, a Hub with a token, keys with a node away, `make bench` on the lab, all ports in each topology, TLS, the virtual address, the fallback, pipeline stages over four hosts and a ring of three, pairs side by side, some recipes (root), takes the lab down; and many random inputs
	@$(BIN)/pytest -m long --durations=12 tests/e2e
	@$(BIN)/pytest --hypothesis-profile=deep --durations=12 tests/plan/test_fuzz.py tests/plan/fit/test_shape.py tests/benchmark_advise/test_laws.py

lint: $(VENV)/.dev ## ruff and mypy --strict
	@$(BIN)/ruff check . && $(BIN)/ruff format --check --quiet . && $(BIN)/mypy
	@# Programs of files/ import their parts by name: each folder is looked at by itself.
	@for each in files/*/; do ! ls $$each*.py >/dev/null 2>&1 || \
		MYPYPATH=$$each:operations/node/door:operations/node/unit:operations/node/kernels:operations/node/image:files/engine:files/fallback $(BIN)/mypy $$each*.py || exit 1; done

chaos: lab-up ## every fault of a table, done to the lab under load: what was lost, how long it took (CHAOS="--help")
	@$(BIN)/python -m tests.chaos $(CHAOS)

bench-converge: lab-up ## a deploy with nothing to change, against an empty one on the same hosts
	@$(BIN)/python -m tests.bench.converge

bench-models: ## the same with three models on four nodes, against one model on them
	@NODES=4 $(MAKE) --no-print-directory lab-up
	@$(BIN)/python -m tests.bench.converge_models

bench-switch: lab-up ## what a switch of topology costs eight streaming clients on the lab: requests, seconds away, the engine's own start (ORDER="solo replicas ...")
	@$(BIN)/python -m tests.bench.switching

bench-on-demand: lab-up ## models on demand on the lab: first tokens of clients that ask in turn, a flood, a node that dies while it loads
	@$(BIN)/python -m tests.bench.on_demand

bench-start: $(VENV)/.dev ## how long a start takes, phase by phase, cold and warm, by loader, against O_DIRECT: ENGINE="vllm serve" (GIB= LOADERS= FLAGS= PLACE= TOKENIZER= ROUNDS=)
	@$(BIN)/python -m tests.bench.start

bench-watching: lab-up ## what monitoring costs on the lab: a deploy without changes, CPU and memory of its units (ROUNDS= SECONDS=)
	@$(BIN)/python -m tests.bench.watching

bench-transfer: ## copies of a model and an image between nodes, against cp and the peers' commands (ROUNDS=, GIB=)
	@NODES=8 $(MAKE) --no-print-directory lab-up
	@$(BIN)/python -m tests.bench.transfer

bench-routing: $(VENV)/.dev $(VENV)-proxy/.proxy ## how engines are chosen: LiteLLM's ways, ours, other balancers (ENGINES=url,url DOORS= USERS= REPEATS=)
	@$(BIN)/python -m tests.bench.routing

test-clients: $(VENV)/.dev $(VENV)-proxy/.proxy ## real client programs (Claude Code, Codex, SDKs ...) at the real door: the table in docs/clients.md (needs npm and the registries)
	@$(BIN)/python -m tests.clients

bench-door: $(VENV)/.dev $(VENV)-proxy/.proxy ## what the proxy costs: CPU a request and a chunk, first tokens of a burst, chunks a second (REPEATS=)
	@$(BIN)/python -m tests.bench.door

bench-door-cost: $(VENV)/.dev $(VENV)-proxy/.proxy ## what LiteLLM's process costs in instructions (valgrind), and what it did in another tree (BEFORE=FOLDER)
	@$(BIN)/python tests/bench/door/instructions.py

venv-proxy: $(VENV)-proxy/.proxy ## LiteLLM by the proxy image's lock, for bench-routing, bench-door, bench-door-cost and the tests that want the real one

manual: $(VENV)-manual/.manual ## the manual as a site in site/ (site/index.html)
	@NO_MKDOCS_2_WARNING=1 $(VENV)-manual/bin/mkdocs build --strict
	@echo "site/index.html; with search: python3 -m http.server --bind 127.0.0.1 --directory site"

manual-pages: $(VENV)/.deploy ## write docs/knobs.md, docs/messages.md and docs/verbs.md anew, from the code
	@PYTHONPATH=. $(BIN)/python -m manual
	@PYTHONPATH=. $(BIN)/python -m operations.command.verbs_page > docs/verbs.md.new && mv docs/verbs.md.new docs/verbs.md

imports: $(VENV)/.deploy ## draw which room of the code imports which (docs/assets/imports.svg); the longest file, and loose types
	@PYTHONPATH=. $(BIN)/python -m manual.imports

lock: ## renew the lock files from pyproject.toml and requirements*.in (needs uv)
	@sh tests/lock.sh

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Tandem needs Python 3.11 or newer, and $(PYTHON) is older or not here: make PYTHON=python3.12 ..." >&2; exit 1; }
	@# A python without pip would be taken for a whole one afterwards.
	@$(PYTHON) -m venv $(VENV) || { rm -f $@; echo "$(PYTHON) can't make a virtual environment: apt install python3-venv" >&2; exit 1; }

$(VENV)/.deploy: requirements.lock | $(VENV)/bin/python
	@echo "installing what a deploy needs into $(VENV) (once)" >&2
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

$(VENV)/.bench: requirements-bench.lock $(VENV)/.deploy
	@echo "installing what the bench needs into $(VENV) (once)" >&2
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bench.lock
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.deploy
	@echo "installing what the lab and the tests need into $(VENV) (once)" >&2
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

$(VENV)-proxy/.proxy: files/images/proxy/requirements.lock | $(VENV)/bin/python
	@echo "installing LiteLLM into $(VENV)-proxy (once)" >&2
	@$(PYTHON) -m venv $(VENV)-proxy
	@$(VENV)-proxy/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r files/images/proxy/requirements.lock
	@touch $@

$(VENV)-manual/.manual: requirements-manual.lock | $(VENV)/bin/python
	@echo "installing what makes the manual into $(VENV)-manual (once)" >&2
	@$(PYTHON) -m venv --without-pip $(VENV)-manual
	@$(BIN)/pip --python $(VENV)-manual install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes \
		-r requirements-manual.lock
	@touch $@
