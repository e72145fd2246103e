"""What `tests/capture.py` records, one module for each kind of item."""
