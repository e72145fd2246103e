# Each target is enough on a fresh machine: it makes .venv and installs first.
PYTHON ?= python3
RUN := runs/demo

.PHONY: demo test long notebooks

demo: .venv/installed
	.venv/bin/python -m experiments.run \
	  --config experiments/configs/demo.py --workdir $(RUN)

test: .venv/installed
	.venv/bin/python -m pytest -n 2 -m "not long"

# Whole runs, several processes, other compilers.
long: .venv/installed
	.venv/bin/python -m pytest -n 2 -m long --ignore tests/test_notebooks.py

notebooks: .venv/installed
	.venv/bin/python -m pytest -n 2 --dist load tests/test_notebooks.py

.venv/installed: setup.py constraints.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --constraint constraints.txt \
	  --editable '.[test]'
	touch $@
