# Each target is enough on a fresh machine: it makes .venv and installs first.
PYTHON ?= python3
RUN := runs/demo
OUT := runs/accelerator/results

.PHONY: demo smollm2 test long notebooks coverage accelerator

demo: .venv/installed
	.venv/bin/python -m experiments.run \
	  --config experiments/configs/demo.py --workdir $(RUN)

# Downloads a small pretrained model, once.
smollm2: .venv/installed
	.venv/bin/python -c "import gguf" 2>/dev/null || \
	  .venv/bin/python -m pip install --quiet --constraint constraints.txt \
	    --editable '.[gguf]'
	.venv/bin/python -m experiments.pretrained smollm2

test: .venv/installed
	.venv/bin/python -m pytest -n 2 -m "not long"

# Whole runs, several processes, other compilers.
long: .venv/installed
	.venv/bin/python -m pytest -n 2 -m long --ignore tests/test_notebooks.py

# Fails where tests reach less than 95 % of the lines and branches of rl/.
coverage: .venv/installed
	.venv/bin/python -m pytest -n 2 -m "not long" --cov

notebooks: .venv/installed
	.venv/bin/python -m pytest -n 2 --dist load tests/test_notebooks.py

# Measures this machine's GPU or TPU; started again, it goes on.
accelerator: .venv/installed
	.venv/bin/python -m experiments.studies.benchmark accelerator --out $(OUT)

.venv/installed: setup.py constraints.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --constraint constraints.txt \
	  --editable '.[test]'
	touch $@
