"""Benchmarks of speed and memory: `python -m experiments.studies.benchmark`.

A benchmark is a function `(console, *, settings...) -> Outcome`, listed in
`__main__.BENCHMARKS`. Most results are ratios to a reference that anyone can
run, such as a sort, another codebase (a *peer*), or an unfused loop. What is
compared is called a *side*; "ours" is the side of this project. The two sides
are timed back to back, so that the ratios are stable on a busy machine.
"""
