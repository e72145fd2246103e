"""AIME: thirty problems a year, each answered by an integer from 0 to 999.

The task is `math` on `aime24_test.jsonl`, whose lines have MATH's form, with
more tokens for solutions; `aime(dataset="aime25")` reads another year's file.
The problems are for evaluation and need a tokenizer from a folder. A file
`aime24_train.jsonl` with the problems of other years makes it a task to train
on. Leading zeros, as on AIME's answer sheet, do not matter: 073 is 73.

With thirty problems and one sample of each, a pass@1 of one half has a standard
error of .09. Draw many samples per problem, and compare policies by problem.

Usage:
  python -m experiments.evaluate --policy FOLDER --task aime \\
    --problems 30

Source: American Invitational Mathematics Examination 2024, I and II, of the
Mathematical Association of America.
"""

from __future__ import annotations

import functools

from experiments.tasks.text.math import math

aime = functools.partial(
  math, dataset="aime24", prompt_length=1024, completion_length=4096
)
