"""Compares training on pass@k with training on pass@1."""

from experiments.studies.claims import plots, settings
from experiments.studies.claims.claim import Claim, Comparison, Outcomes

K = 8  # k of the objective; the test also evaluates pass@1 and pass@64


def pass_at_k_training() -> Claim:
  """Compares training on pass@1 (RLOO) and on pass@8 on countdown.

  Both papers train on pass@k. The method `pass_at_k` is used with its default
  form of the advantages.
  """
  base = settings.countdown_base()
  return Claim(
    name="pass_at_k_training",
    statement=(
      "Training on pass@k lifts pass@k above what training on pass@1 gives in "
      "as many steps, and pass@1 does not suffer."
    ),
    source="Chen et al. 2025, Pass@k Training; Walder and Karkhanis 2025, PKPO",
    setting=(
      f"countdown, 4 numbers; {settings.STEPS} updates, each on 32 prompts "
      f"with 16 samples; RLOO (pass@1) is compared with analytic pass@{K} "
      "training; pass@1 is said to suffer if it ends below that of the base "
      "policy"
    ),
    arms={
      "base": settings.untrained(base, settings.COUNTDOWN),
      "pass@1 training": settings.trained(base, settings.COUNTDOWN, "rloo"),
      f"pass@{K} training": settings.trained(
        base, settings.COUNTDOWN, f"pass_at_k(k={K})"
      ),
    },
    test=_test,
    draw=plots.pass_at_k,
  )


def _test(outcomes: Outcomes) -> list[Comparison]:
  base, pass_at_1, pass_at_k = outcomes.values()
  return [
    Comparison(
      f"pass@{K}: pass@{K} training - pass@1 training",
      pass_at_k.pass_at(K) - pass_at_1.pass_at(K),
    ),
    Comparison(
      f"pass@64: pass@{K} training - pass@1 training",
      pass_at_k.pass_at(64) - pass_at_1.pass_at(64),
    ),
    Comparison(
      f"pass@1: pass@{K} training - base",
      pass_at_k.pass_at(1) - base.pass_at(1),
    ),
    Comparison(
      f"pass@1: pass@{K} training - pass@1 training",
      pass_at_k.pass_at(1) - pass_at_1.pass_at(1),
      "reported",
    ),
  ]
