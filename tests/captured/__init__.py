"""Items that `tests/capture.py` records, one module for each kind."""
