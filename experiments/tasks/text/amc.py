"""AMC 12: forty problems of 2023, whose answers are written as numbers.

`math` on `amc23_test.jsonl`, lines of its form, and room for longer solutions.
The examination offers five choices; here they are gone, and the answer of each
problem is an integer, written as a float (`27.0`). No solutions are given. The
problems are there to evaluate a policy, whose tokenizer they are written in.

Usage:
  python -m experiments.evaluate --policy FOLDER --task amc \\
    --problems 40

Source: American Mathematics Competitions 12A and 12B, 2023, of the Mathematical
Association of America; as selected in Qwen2.5-Math (Yang et al. 2024) and AIMO.
"""

from __future__ import annotations

import functools

from experiments.tasks.text.math import math

amc = functools.partial(
  math, dataset="amc23", prompt_length=1024, completion_length=4096
)
