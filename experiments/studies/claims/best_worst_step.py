"""Compares max@k of the worst step with max@k and min-form credit alone."""

from experiments.studies.claims import plots, settings
from experiments.studies.claims.claim import Claim, Comparison, Outcomes

K = 4  # of the sets in training
TESTED = 8  # k of pass@k in the test
OPERATIONS = 5


def best_worst_step() -> Claim:
  """Compares max@4 of the worst step with min-form credit and with max@4.

  The process reward accepts every step of true arithmetic, even if it does not
  lead to the answer. Credit by sums collapses on it (`min_form_credit`).
  """
  # More operations than in `min_form_credit`, so that pass@k stays below 1.
  base = settings.chain_base(OPERATIONS)

  def arm(method: str):
    return settings.trained(
      base,
      f"chain(operations={OPERATIONS}, prm='filler')",
      method,
      rollout__prompts=16,
      optimizer__learning_rate=2e-4,
    )

  return Claim(
    name="best_worst_step",
    statement=(
      "Training on the best of k samples of the score of the worst step raises "
      "accuracy under an exploitable process reward, as min-form credit does, "
      "and ends with a higher pass@k than min-form credit."
    ),
    source=(
      "this project; max@k is that of Walder & Karkhanis 2025, min-form that "
      "of Cheng et al. 2025, Stop Summation (PURE)"
    ),
    setting=(
      f"chained arithmetic, {OPERATIONS} operations, a process reward that "
      f"accepts every step of true arithmetic; {settings.STEPS} updates on 16 "
      f"prompts with 16 samples each; max@{K} is trained on the verdict"
    ),
    arms={
      "base": settings.untrained(base, f"chain(operations={OPERATIONS})"),
      "min-form": arm("min_form"),
      f"max@{K}": arm(f"max_at_k(k={K})"),
      f"max@{K} of the worst step": arm(f"max_at_k_min_form(k={K})"),
    },
    test=_test,
    draw=plots.pass_at_k,
  )


def _test(outcomes: Outcomes) -> list[Comparison]:
  both = outcomes[f"max@{K} of the worst step"]
  base, min_form, max_at_k = (
    outcomes[name] for name in ("base", "min-form", f"max@{K}")
  )
  label = f"pass@{TESTED}: max@{K} of the worst step - "
  return [
    Comparison(
      f"pass@1: max@{K} of the worst step - base",
      both.pass_at(1) - base.pass_at(1),
    ),
    Comparison(
      "pass@1: min-form - base", min_form.pass_at(1) - base.pass_at(1)
    ),
    Comparison(
      f"{label}min-form", both.pass_at(TESTED) - min_form.pass_at(TESTED)
    ),
    Comparison(
      f"{label}max@{K}",
      both.pass_at(TESTED) - max_at_k.pass_at(TESTED),
      "reported",
    ),
    Comparison(
      f"pass@1: max@{K} of the worst step - min-form",
      both.pass_at(1) - min_form.pass_at(1),
      "reported",
    ),
  ]
