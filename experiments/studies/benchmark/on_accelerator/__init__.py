"""Measures an accelerator, in pieces that run one after another.

`pieces` measures, in one process per piece; `accelerator`, the benchmark in the
folder above, starts the processes and keeps their results.
"""
