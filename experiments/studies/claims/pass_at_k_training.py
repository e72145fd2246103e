"""Training on pass@k against training on pass@1."""

from experiments.studies.claims import draw, settings
from experiments.studies.claims.claim import Claim, Comparison, Outcomes

K = 8


def pass_at_k_training() -> Claim:
  """Countdown: the same steps on pass@1 (leave-one-out) and on pass@8."""
  base = settings.countdown()
  return Claim(
    name="pass_at_k_training",
    statement=(
      "Training on pass@k lifts pass@k above what training on pass@1 gives in "
      "as many steps, and pass@1 does not suffer."
    ),
    source="Chen et al. 2025, Pass@k Training; Walder and Karkhanis 2025, PKPO",
    setting=(
      f"countdown, 4 numbers; {settings.STEPS} updates of 32 x 16 samples; "
      f"RLOO (pass@1) against pass@{K} training (analytic); pass@1 suffers if "
      "it ends below the base policy's"
    ),
    arms={
      "base": settings.untrained(base, settings.COUNTDOWN),
      "pass@1 training": settings.trained(base, settings.COUNTDOWN, "rloo"),
      f"pass@{K} training": settings.trained(
        base, settings.COUNTDOWN, f"pass_at_k(k={K})"
      ),
    },
    test=_test,
    draw=draw.pass_at_k,
  )


def _test(outcomes: Outcomes) -> list[Comparison]:
  base, one, many = outcomes.values()
  return [
    Comparison(
      f"pass@{K}: pass@{K} training - pass@1 training",
      many.pass_at(K) - one.pass_at(K),
    ),
    Comparison(
      f"pass@64: pass@{K} training - pass@1 training",
      many.pass_at(64) - one.pass_at(64),
    ),
    Comparison(
      f"pass@1: pass@{K} training - base", many.pass_at(1) - base.pass_at(1)
    ),
    Comparison(
      f"pass@1: pass@{K} training - pass@1 training",
      many.pass_at(1) - one.pass_at(1),
      "reported",
    ),
  ]
