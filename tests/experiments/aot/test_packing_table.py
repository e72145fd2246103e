"""The operations in the table of packed texts, on numbers small enough to add.

The table itself takes minutes of compilation; the compiled programs of a TPU
are tested in `test_aot.py`.
"""

import pytest

from experiments.aot import packing


@pytest.mark.parametrize(
  ("prompt", "fed", "length", "expected"),
  [
    # A block of 512 queries reads the prompt and the keys up to its end.
    (10, 512, 4095, 512 * (10 + 512)),
    (10, 513, 4095, 512 * (10 + 512) + 512 * (10 + 1024)),
    (0, 0, 4095, 0),
  ],
)
def test_splash_computes_blocks_that_have_a_token(
  prompt, fed, length, expected
):
  assert packing._attended_pairs("splash", prompt, fed, length) == expected


def test_blocked_computes_all_queries_of_a_row():
  # Four blocks of two queries, whatever is padding.
  expected = sum(2 * (3 + stop) for stop in (2, 4, 6, 8))
  assert packing._attended_pairs("blocked", 3, 1, 8) == expected
