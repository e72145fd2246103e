"""Benchmarks of speed and memory: `python -m experiments.studies.benchmark`.

A benchmark is a function `(console, *, settings...) -> Outcome`, listed in
`__main__.BENCHMARKS`. Most costs are ratios to a reference that anyone can run,
such as a sort, another codebase, or an unfused loop. The two are timed back to
back, so that the ratios are stable on a busy machine.
"""
