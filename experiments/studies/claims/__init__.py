"""A study that tests claims of papers: `python -m experiments.studies.claims`.

claim     data types: a claim, a comparison of its test, the verdict
settings  base policies and sizes that all claims share
plots     functions that draw a claim's figure
page      the results as an HTML page, a Markdown table and a JSON file

Each other file defines one claim, in a function that has the name of the file.
"""

from __future__ import annotations

import importlib

from experiments.studies.claims.claim import Claim
from rl import registry

NAMES = (
  "pass_at_k_training",
  "max_at_k_training",
  "min_form_credit",
  "negative_reinforcement",
  "coverage",
  "flipped_rewards",
  "random_rewards",
  "stale_max_at_k",
  "best_worst_step",
)


def check(name: str) -> str:
  """Checks the name of a claim and returns it.

  Raises:
    ValueError: no claim has this name.
  """
  if name not in NAMES:
    raise ValueError(registry.describe_unknown("claim", name, NAMES))
  return name


def get(name: str) -> Claim:
  """Returns the claim with a name from `NAMES`."""
  return getattr(importlib.import_module(f"{__name__}.{name}"), name)()
