"""AIME: thirty problems a year, each answered by an integer from 0 to 999.

`math` on `aime24_test.jsonl`, lines of its form, and room for longer solutions;
`aime(dataset="aime25")` is another year in a file of its own. The problems are
there to evaluate a policy, whose tokenizer they are written in; a file
`aime24_train.jsonl`, of other years, makes them a task to train on. Leading
zeros, which AIME's answer sheet has, do not matter: 073 is 73.

Thirty problems are few: of one sample each, a pass@1 of a half has a standard
error of .09, so take many samples and compare by problem.

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
