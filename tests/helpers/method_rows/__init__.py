"""Rows of the contract test of methods, one module for each family."""
