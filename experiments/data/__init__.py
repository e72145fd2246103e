"""Readers of datasets."""
