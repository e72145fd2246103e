"""Every method, or every reward, on one embedded task.

  python -m experiments.studies.bakeoff

entrants  the methods' own configs as arms of one base policy and one budget
table     what they differ in from GRPO, and how it is written
rewards   the rewards' own configs, in the same way
proxies   what they paid for against what was achieved, and how it is written
"""
