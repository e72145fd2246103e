"""What things cost: `python -m experiments.studies.benchmark NAME`.

A benchmark is a function `(console, *, settings...) -> Outcome`, listed in
`__main__.BENCHMARKS`. Costs are told as ratios to something that everyone can
run, measured in turn in one process, so that they hold on a busy machine.
"""
