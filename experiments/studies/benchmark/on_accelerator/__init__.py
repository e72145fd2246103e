"""Pieces that measure an accelerator; `accelerator` runs them in processes."""
