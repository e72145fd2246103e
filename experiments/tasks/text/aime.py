"""AIME: thirty problems a year, each answered by an integer from 0 to 999.

The task is `math` on the file `aime24_test.jsonl`, whose lines have MATH's
form, with longer completions; `aime(dataset="aime25")` reads the file of
another year. The problems are for evaluation and need a tokenizer from a
folder. With a file `aime24_train.jsonl`, which may have the problems of other
years, the task can be trained on. Leading zeros, as on AIME's answer sheet, do
not change an answer: 073 is 73.

With thirty problems and one sample of each, a pass@1 of 0.5 has a standard
error of 0.09. Draw many samples per problem, and compare two policies on each
problem rather than their means.

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
