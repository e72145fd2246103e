"""Tests claims of papers: `python -m experiments.studies.claims`.

claim     a claim: statement, arms (`experiments.studies.arms`), test, verdict
settings  base policies and sizes that all claims share
plots     plots of a claim's figure
page      the HTML page, the table and the JSON file of the results

Each other file defines one claim in a function that has the name of the file.
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
)


def check(name: str) -> str:
  """Returns the name if it is in `NAMES`.

  Raises:
    ValueError: no claim has this name.
  """
  if name not in NAMES:
    raise ValueError(registry.describe_unknown("claim", name, NAMES))
  return name


def get(name: str) -> Claim:
  """Returns the claim with a name from `NAMES`."""
  return getattr(importlib.import_module(f"{__name__}.{name}"), name)()
