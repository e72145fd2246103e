"""AMC 12: forty problems of 2023 whose answers are written as numbers.

The task is `math` on the file `amc23_test.jsonl`, whose lines have MATH's form,
with longer completions. The file contains neither the five choices that the
examination offers nor solutions. The answer to each problem is an integer,
written as a float (`27.0`). The problems are for evaluation and need a
tokenizer from a folder.

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
