# Thin: each target calls one script of scripts/. `make` alone prints the targets.
PRESET ?= cpu
export PRESET JOBS KHA_PYTHON

.DEFAULT_GOAL := help
.PHONY: help build test test-interop demo bench evidence asan fuzz clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  PRESET=cpu|ci         the CMake preset; ci makes warnings errors"
	@echo "  JOBS=N                compile jobs (default: cores, at most one for 2 GB of memory)"
	@echo "  KHA_PYTHON=/path      a Python with its own torch 2.11 or newer, to use instead of the pinned one"
	@echo "  ARGS='...'            passed on to pytest by \`make test\` (-k NAME), to the program by \`make bench\` and \`make evidence\`"

build:  ## install what is missing, build, install into .venv (program: .venv/bin/kha)
	@scripts/build

test: build  ## build, then every C++ and Python test in one run
	@scripts/test $(ARGS)

test-interop: build  ## exports in llama.cpp, which ARGS=--install brings (some ten minutes)
	@scripts/test-interop $(ARGS)

demo: build  ## build, then the demonstration
	@scripts/demo

bench:  ## build, then the benchmark beside torch and transformers (some 30 minutes; ARGS=--quick)
	@scripts/bench $(ARGS)

evidence:  ## build, then runs that judge the paper's orderings (hours; resumed when stopped; ARGS=--list)
	@scripts/evidence $(ARGS)

asan:  ## the C++ tests under sanitizers (ARGS='LAYER... --gtest_filter=...'; the build is slow)
	@scripts/asan $(ARGS)

fuzz:  ## the readers of files under libFuzzer (ARGS='SECONDS TARGET...'; clang builds for minutes)
	@scripts/fuzz $(ARGS)

clean:  ## remove build/ (.venv stays; delete it by hand to start over)
	rm -rf build
