"""Denials: before and after an answer, and what denies nothing."""

import re

import pytest

from rewards.verifiers.denials import is_denied


@pytest.mark.parametrize(
  "text",
  [
    "not B", "It can't be B", "I rule out B", "I rule B out", "ruling out B",
    "B is wrong", "B is incorrect", "B cannot be right", "eliminate B",
    "B can't be the answer", "all but B", "B has been eliminated", "neither B",
    "(B) is clearly wrong", "B isn't correct", "B, which is wrong", "B is not.",
    "it is not the option (B)", "I don't think it is B", "B is out",
    "B, but that is wrong", "except option B", "rather than B", "B is too low",
    "B. No, wait", "it could not be B", "B (Paris) is wrong", "won't be B",
  ],
)  # fmt: skip
def test_a_denial(text):
  assert is_denied(text, *re.search(r"\bB\b", text).span())


@pytest.mark.parametrize(
  "text",
  [
    "I think B", "It is not hard: B", "B, since it does not melt",
    "B because the others are wrong", "nothing but B", "It must be B",
    "B is right", "B. It is not hot", "B, no doubt", "Not sure, but B",
    "B is not wrong", "There is no doubt that it is B", "B, and A is wrong",
    "B is out of the four the best",
  ],
)  # fmt: skip
def test_no_denial(text):
  assert not is_denied(text, *re.search(r"\bB\b", text).span())
