# The few commands of this project. CI calls only these.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Options for `run` and `serve`, as in: make run ARGS="--requests 20000 --seed 7"
ARGS ?=
# Where tools of a pinned version are installed, once for all clones.
TOOLS ?= $(HOME)/.cache/holdfast-tools
RUST_MIN := 1.94
REDIS_MIN := 7
DENY_VERSION := 0.20.2
SAM_PACKAGES := aws-sam-cli==1.170.0 cargo-lambda==1.9.2 cfn-lint==1.58.0 ziglang==0.17.1
SAM_VENV := $(TOOLS)/sam-1.170.0
FUZZ_VENV := $(TOOLS)/schemathesis-4.32.5
# boto3 and cryptography come with ministack; pinned, because the rehearsal uses them itself.
REHEARSE_PACKAGES := 'ministack[full]==1.5.33' boto3==1.43.106 cryptography==50.0.2
REHEARSE_VENV := $(TOOLS)/ministack-1.5.33
# This machine's, as SAM names it.
ARCHITECTURE := $(patsubst aarch64,arm64,$(shell uname -m))
# cargo-lambda finds zig and SAM finds cargo-lambda on the path.
SAM := PATH="$(SAM_VENV)/bin:$$PATH" SAM_CLI_TELEMETRY=0 sam

# Runs the functions that were built for this machine with events/. The runner is built with the whole workspace: the
# features are those of the tests, and so is what is built already.
define run_events
cargo build --locked --quiet --workspace --bin dev
"$${CARGO_TARGET_DIR:-target}/debug/dev" invoke --how $(1) --tools $(SAM_VENV) \
  $(if $(FUNCTION),--function $(FUNCTION)) $(if $(EVENT),--event $(EVENT)) $(ARGS)
endef

.PHONY: help
help: ## What there is
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | column -t -s $$'\t'

.PHONY: run
run: need-rust need-redis ## A whole flash sale on this machine, and the proof that nothing was oversold: options in ARGS
	cargo run --locked --quiet --profile local -p dev --bin dev -- sale $(ARGS)

.PHONY: size
size: need-rust need-redis ## Reconciles 50 activities and 200,000 orders, and measures it: options in ARGS
	cargo run --locked --quiet --profile local -p dev --bin dev -- size $(ARGS)

.PHONY: bench
bench: need-rust need-redis ## Ratios to aim for, measured within one run: a part and options in ARGS, as in ARGS="last-unit"
	@command -v redis-benchmark >/dev/null || { echo "redis-benchmark is needed: it comes with redis-tools" >&2; exit 1; }
	cargo run --locked --quiet --profile local -p dev --bin dev -- bench $(ARGS)

.PHONY: bench-start
bench-start: need-rust need-valgrind ## How functions start beside an empty one, in time and instructions; sizes: names of functions in ARGS
	cargo build --locked --quiet --release $(patsubst functions/%,-p %,$(wildcard functions/*)) -p empty-function
	cargo run --locked --quiet --profile local -p dev --bin dev -- bench-start --folder "$${CARGO_TARGET_DIR:-target}/release" $(ARGS)

.PHONY: cost
cost: need-rust need-redis ## Calls and write units of everything that can become of an order, and dollars for a million
	cargo run --locked --quiet --profile local -p dev --bin dev -- cost $(ARGS)

.PHONY: plan
plan: need-rust ## What a sale needs: ARGS="--rate 500 --orders 200000" (accepted orders a second, orders in all)
	cargo run --locked --quiet --profile local -p dev --bin dev -- plan $(ARGS)

.PHONY: serve
serve: need-rust need-redis ## The local stack on http://127.0.0.1:8080 until it is interrupted: options in ARGS
	cargo run --locked --quiet --profile local -p dev --bin dev -- serve $(ARGS)

.PHONY: test
test: need-rust need-redis ## Every test of the workspace
	@if cargo nextest --version >/dev/null 2>&1; then \
	  set -x; cargo nextest run --locked --workspace --no-fail-fast && cargo test --locked --workspace --doc --quiet; \
	else \
	  echo "test: cargo-nextest is not installed, so cargo test runs them, without its time limits"; \
	  set -x; cargo test --locked --workspace --no-fail-fast; \
	fi

.PHONY: model
model: need-rust ## The order protocol, explored exhaustively: options in ARGS, as in ARGS="--only failover"
	@# Built with the whole workspace: the features are those of the tests, and so is what is built already.
	cargo build --locked --quiet --workspace --bin model
	"$${CARGO_TARGET_DIR:-target}/debug/model" $(ARGS)

.PHONY: faults
faults: need-rust need-redis ## Every kind of failure under load, and the invariants after each: a filter and --seed in ARGS
	cargo run --locked --quiet -p dev --bin dev -- faults $(ARGS)

.PHONY: soak
soak: need-rust need-redis ## Half an hour of random faults under load, memory flat: --minutes and --seed in ARGS
	cargo run --locked --quiet -p dev --bin dev -- soak $(ARGS)

.PHONY: fuzz-http
fuzz-http: need-rust need-redis $(FUZZ_VENV)/ready ## The HTTP API under schemathesis, against openapi.yaml: --seed, --examples and --only in ARGS
	@# Built with the whole workspace, as above.
	cargo build --locked --quiet --workspace --bin dev
	"$${CARGO_TARGET_DIR:-target}/debug/dev" fuzz --schemathesis $(FUZZ_VENV)/bin/schemathesis $(ARGS)

.PHONY: lint
lint: need-rust $(TOOLS)/bin/cargo-deny-$(DENY_VERSION) ## Format, clippy, licences and sources of every dependency
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	$(TOOLS)/bin/cargo-deny-$(DENY_VERSION) --locked check licenses bans sources
	@if timeout 10 git ls-remote --exit-code https://github.com/RustSec/advisory-db HEAD >/dev/null 2>&1; then \
	  set -x; $(TOOLS)/bin/cargo-deny-$(DENY_VERSION) --locked check advisories; \
	else \
	  echo "lint: ADVISORIES NOT CHECKED: their database (a git repository) is not reachable from here"; \
	fi

.PHONY: validate
validate: $(SAM_VENV)/ready ## template.yaml by SAM's own rules and cfn-lint's
	$(SAM) validate --lint

.PHONY: build
build: need-rust $(SAM_VENV)/ready ## The functions as Lambda runs them, into .aws-sam
	$(SAM) build $(ARGS)

.PHONY: build-here
build-here: need-rust $(SAM_VENV)/ready
	$(SAM) build --parameter-overrides Architecture=$(ARCHITECTURE)

.PHONY: invoke
ifdef HOLDFAST_NO_DOCKER
invoke:
	@echo "invoke: SKIPPED: HOLDFAST_NO_DOCKER is set. No function was run in a container; make invoke-rie runs them without"
else
invoke: need-docker build-here need-redis ## Every file of events/ by sam local invoke; one: FUNCTION=PlaceOrder EVENT=events/place-order/ok.json
	$(call run_events,docker)
endif

.PHONY: invoke-rie
invoke-rie: build-here need-redis ## The same without Docker, under SAM's emulator of Lambda's runtime interface
	$(call run_events,rie)

.PHONY: rehearse
rehearse: need-rust need-redis $(SAM_VENV)/ready $(REHEARSE_VENV)/ready ## A deployment of template.yaml in a local AWS, end to end: docs/rehearse.md; --no-build in ARGS
	$(REHEARSE_VENV)/bin/python -B dev/rehearse --sam-venv $(SAM_VENV) $(ARGS)

.PHONY: deploy
deploy: build ## Builds and deploys to AWS, asking for what it needs
	$(SAM) deploy --guided

.PHONY: clean
clean: ## Removes what was built here; the tools stay
	cargo clean
	rm -rf .aws-sam report

# --- What the above need ---------------------------------------------------------------------------

.PHONY: need-rust
need-rust:
	@version=$$(rustc --version 2>/dev/null | cut -d' ' -f2) || true; \
	if [ -z "$$version" ] || [ "$$(printf '%s\n' $(RUST_MIN) "$$version" | sort -V | head -n1)" != $(RUST_MIN) ]; then \
	  echo "Rust $(RUST_MIN) or newer is needed ($${version:-none} found): https://rustup.rs, then: rustup update stable" >&2; \
	  exit 1; \
	fi

# Only the programs are wanted: `dev invoke` starts an engine of its own when none runs, and ends it.
.PHONY: need-docker
need-docker:
	@if ! docker version >/dev/null 2>&1 && ! command -v dockerd >/dev/null; then \
	  if ! command -v apt-get >/dev/null; then \
	    echo "Docker is needed: please install it (or HOLDFAST_NO_DOCKER=1 skips this, and make invoke-rie does without)" >&2; \
	    exit 1; \
	  fi; \
	  sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  echo "Docker is missing: installing it"; \
	  get="$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends"; \
	  $$get docker.io >/dev/null 2>&1 || { $$sudo apt-get update -q && $$get docker.io; }; \
	  command -v docker >/dev/null || $$get docker-cli; \
	fi

# Only the program is wanted: the runner and the tests start servers of their own on free ports.
.PHONY: need-redis
need-redis:
	@if ! command -v redis-server >/dev/null; then \
	  if ! command -v apt-get >/dev/null; then \
	    echo "redis-server $(REDIS_MIN) or newer is needed: please install it" >&2; exit 1; \
	  fi; \
	  sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  echo "redis-server is missing: installing it"; \
	  install="$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q redis-server"; \
	  $$install >/dev/null 2>&1 || { $$sudo apt-get update -q && $$install; }; \
	fi; \
	major=$$(redis-server --version | sed -n 's/.* v=\([0-9]*\)\..*/\1/p'); \
	if [ "$${major:-0}" -lt $(REDIS_MIN) ]; then \
	  echo "redis-server $(REDIS_MIN) or newer is needed: scripts with flags came with 7 (found: $$(redis-server --version))" >&2; \
	  exit 1; \
	fi

.PHONY: need-valgrind
need-valgrind:
	@command -v valgrind >/dev/null || { \
	  sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  echo "valgrind is missing: installing it"; \
	  $$sudo apt-get update -q >/dev/null && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q valgrind >/dev/null; \
	}

$(TOOLS)/bin/cargo-deny-$(DENY_VERSION):
	@echo "cargo-deny $(DENY_VERSION) is missing: building it once, into $(TOOLS)"
	cargo install --locked --quiet --root $(TOOLS)/deny --version =$(DENY_VERSION) cargo-deny
	@mkdir -p $(TOOLS)/bin
	@mv $(TOOLS)/deny/bin/cargo-deny $@
	@rm -rf $(TOOLS)/deny

$(SAM_VENV)/ready:
	@echo "SAM, cargo-lambda and zig are missing: installing them once, into $(SAM_VENV)"
	python3 -m venv $(SAM_VENV)
	$(SAM_VENV)/bin/pip install --quiet $(SAM_PACKAGES)
	@touch $@

$(FUZZ_VENV)/ready:
	@echo "schemathesis is missing: installing it once, into $(FUZZ_VENV)"
	python3 -m venv $(FUZZ_VENV)
	$(FUZZ_VENV)/bin/pip install --quiet schemathesis==4.32.5
	@touch $@

$(REHEARSE_VENV)/ready:
	@echo "ministack is missing: installing it once, into $(REHEARSE_VENV)"
	python3 -m venv $(REHEARSE_VENV)
	$(REHEARSE_VENV)/bin/pip install --quiet $(REHEARSE_PACKAGES)
	@touch $@
