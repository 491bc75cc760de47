# Sluice. `make help` lists the targets.
#
# The toolchain is pinned: a machine whose Go is older fetches this one by itself. Bare `go` commands need the same:
#   export GOTOOLCHAIN=go1.27.3
export GOTOOLCHAIN := go1.27.3

GO       ?= go
BIN      := $(CURDIR)/bin
# Modules of their own inside the repository, so that what they need reaches nobody else.
NESTED   := $(patsubst ./%/go.mod,%,$(shell find . -mindepth 2 -name go.mod -not -path './bin/*' -not -path '*/testdata/*' | sort))
PRODUCT  := $(filter-out internal/tools,$(NESTED))
EXAMPLES := $(sort $(patsubst %/,%,$(dir $(wildcard examples/*/main.go))))
LDFLAGS  := -s -w

.DEFAULT_GOAL := help
.PHONY: help build gen check format vet portable static generated laws test speed demo jepsen jepsen-long jepsen-mutants bench verify data clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## bin/sluice, bin/bench-load for sluice bench, and every examples/NAME as bin/examples/NAME
	@mkdir -p $(BIN)/examples
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/sluice ./cmd/sluice
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/bench-load ./bench/load
	@set -e; for e in $(EXAMPLES); do \
		echo "build $$e"; \
		CGO_ENABLED=0 $(GO) build -C $$e -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/examples/$$(basename $$e) .; \
	done

gen: ## compile the wire contracts under proto/ with pinned tools
	$(GO) -C internal/tools run ./protogen -root ../..

check: format vet static generated laws ## everything a reviewer would ask for: format, vet, staticcheck, generated code, laws

# gofmt of the pinned toolchain: an older one cannot parse generic methods.
format:
	@out=$$("$$($(GO) env GOROOT)/bin/gofmt" -l $$(find . -name '*.go' -not -name '*.pb.go' -not -path './bin/*')); \
	if [ -n "$$out" ]; then echo "not formatted (go fmt ./...):"; echo "$$out"; exit 1; fi

vet:
	$(GO) vet ./...
	@set -e; for m in $(NESTED); do echo "vet $$m"; $(GO) -C $$m vet ./...; done
	$(GO) vet -tags jepsen,mutants ./jepsen/...

portable: ## what runs on a developer's machine compiles for macOS
	GOOS=darwin $(GO) vet ./flow/... ./connector/... ./cmd/sluice/...

# Built in the module that pins it, run in the one that it judges.
static:
	@$(GO) -C internal/tools build -o $(BIN)/tools/staticcheck honnef.co/go/tools/cmd/staticcheck
	$(BIN)/tools/staticcheck ./...
	@set -e; for m in $(NESTED); do echo "staticcheck $$m"; (cd $$m && $(BIN)/tools/staticcheck ./...); done

generated:
	@sums() { find proto -name '*.pb.go' | sort | xargs cksum; }; \
	before=$$(sums); $(MAKE) --no-print-directory gen; \
	if [ "$$before" != "$$(sums)" ]; then echo "generated code was stale; it is up to date now: commit it"; exit 1; fi

laws:
	$(GO) test -count=1 ./internal/law

# Without goroutines of their own, as operators are: the race detector would only make them slow. Vetting is the business of check,
# and so are the laws.
PLAIN := bench/|examples/|flow/codec|internal/demo|internal/trial|internal/verify|jepsen/(model|validate|report|history|traffic)|worker/operator/(batch|join|process|window)

test: ## every test but the laws, which check runs; the engine's under the race detector
	$(GO) test -vet=off -race $$($(GO) list ./... | grep -vE '^github.com/sluiceio/sluice/($(PLAIN)|internal/law)')
	$(GO) test -vet=off $$($(GO) list ./... | grep -E '^github.com/sluiceio/sluice/($(PLAIN))')
	@set -e; for m in $(PRODUCT); do echo "test $$m"; $(GO) -C $$m test -vet=off ./...; done

speed: ## the tests that protect speed, as ratios against plain loops in the same run
	$(GO) test -count=1 -p 1 -run '^TestSpeed' $$(grep -rl --include='*_test.go' '^func TestSpeed' . | xargs -n 1 dirname | sort -u)

demo: build ## the main job on a cluster of 3 + 3 processes whose leader is killed in the middle
	$(GO) run ./internal/demo

# With JEPSEN, the tests of scenarios/bounded alone, which have flags of their own: -run ALoss -kills 30 -seed 7
jepsen: build ## real processes under faults: the gate of twenty scenarios, and the tests of users' interface (JEPSEN='-run ALoss -kills 30': one test of bounded jobs)
ifeq ($(strip $(JEPSEN)),)
	$(BIN)/sluice jepsen run gate --parallel 2
	$(GO) test -count=1 -tags jepsen -timeout 5m ./jepsen
else
	$(GO) test -count=1 -tags jepsen -timeout 20m -v ./jepsen/scenarios/bounded $(JEPSEN)
endif

jepsen-long: build ## every scenario that can run here, and an hour of random faults
	$(BIN)/sluice jepsen run all
	$(BIN)/sluice jepsen run random --duration 1h --workers 4

jepsen-mutants: ## builds without one protection each: the suite must find every one
	CGO_ENABLED=0 $(GO) build -trimpath -tags mutant -ldflags '$(LDFLAGS)' -o $(BIN)/sluice-mutant ./cmd/sluice
	$(GO) test -count=1 -tags jepsen,mutants -timeout 20m -v ./jepsen/scenarios -run EachMutant

bench: ## every benchmark, once
	$(GO) test -run '^$$' -bench . -benchmem -p 1 ./...

verify: build portable ## what takes an hour: full data, full matrices; writes docs/verified.md; an interrupted run goes on (VERIFY='-again -only f8')
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/trial ./internal/trial
	$(GO) run ./internal/verify $(VERIFY)

data: ## fetch the full flights data as CSV below data/ (13 MB, needs npm); no part of demo or test
	@examples/flights/fetch.sh data

clean: ## remove what build and data made
	rm -rf bin data
