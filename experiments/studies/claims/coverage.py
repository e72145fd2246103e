"""Reinforcement learning against its own base policy at many samples."""

from experiments.studies.claims import draw, settings
from experiments.studies.claims.claim import Claim, Comparison, Outcomes

MANY = 64


def coverage() -> Claim:
  """Countdown: RLOO, whose pass@1 and pass@64 are compared with the base's."""
  base = settings.countdown()
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
      f"countdown, 4 numbers; {settings.STEPS} updates of 32 x 16 samples of "
      f"RLOO; pass@1 and pass@{MANY} of 256 samples against the base policy"
    ),
    arms={
      "base": settings.untrained(base, settings.COUNTDOWN),
      "RLOO": settings.trained(base, settings.COUNTDOWN, "rloo"),
    },
    test=_test,
    draw=draw.pass_at_k,
  )


def _test(outcomes: Outcomes) -> list[Comparison]:
  base, trained = outcomes.values()
  return [
    Comparison("pass@1: RLOO - base", trained.pass_at(1) - base.pass_at(1)),
    Comparison(
      f"pass@{MANY}: base - RLOO", base.pass_at(MANY) - trained.pass_at(MANY)
    ),
  ]
