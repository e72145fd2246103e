"""Papers' claims as commands: `python -m experiments.studies.claims`.

claim     a statement, its arms (`experiments.studies.arms`), its test, and what the
          test says
settings  the base policies and sizes they share
draw      panels of their figures
page      one page and one table of what came out

Each other file is a claim, with a function of its name.
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
  """The name, if there is such a claim.

  Raises:
    ValueError: there is none.
  """
  if name not in NAMES:
    raise ValueError(registry.describe_unknown("claim", name, NAMES))
  return name


def get(name: str) -> Claim:
  """The claim of a name of `NAMES`."""
  return getattr(importlib.import_module(f"{__name__}.{name}"), name)()
