"""Bake-off: trains every method, or every reward, on one embedded task.

  python -m experiments.studies.bakeoff

method_setting  the configs of all methods, with one base policy and one budget
method_table    differences of each method to GRPO, as Markdown, HTML and JSON
reward_setting  the configs of all rewards, in the same way
reward_table    what each reward paid, beside the held-out accuracy
"""
