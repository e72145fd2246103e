"""Compares RL with its base policy at few and at many samples per problem."""

from experiments.studies.claims import plots, settings
from experiments.studies.claims.claim import Claim, Comparison, Outcomes

MANY = 64  # k of pass@k at which the claim expects the base policy to be better


def coverage() -> Claim:
  """Compares pass@1 and pass@64 of RLOO and of its base policy on countdown."""
  base = settings.countdown_base()
  return Claim(
    name="coverage",
    statement=(
      "RL with verifiable rewards lifts pass@1, while the base policy catches "
      "up at large k: it sharpens more than it adds."
    ),
    source=(
      "Yue et al. 2025, Does Reinforcement Learning Really Incentivize "
      "Reasoning Capacity Beyond the Base Model?"
    ),
    setting=(
      f"countdown, 4 numbers; RLOO, {settings.STEPS} updates, each on 32 "
      f"prompts with 16 samples; pass@1 and pass@{MANY}, estimated from 256 "
      "samples, are compared with the base policy"
    ),
    arms={
      "base": settings.untrained(base, settings.COUNTDOWN),
      "RLOO": settings.trained(base, settings.COUNTDOWN, "rloo"),
    },
    test=_test,
    draw=plots.pass_at_k,
  )


def _test(outcomes: Outcomes) -> list[Comparison]:
  base, trained = outcomes.values()
  return [
    Comparison("pass@1: RLOO - base", trained.pass_at(1) - base.pass_at(1)),
    Comparison(
      f"pass@{MANY}: base - RLOO", base.pass_at(MANY) - trained.pass_at(MANY)
    ),
  ]
