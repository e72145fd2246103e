"""Trains on max@k of a continuous score, with one and several updates."""

from experiments.studies.claims import plots, settings
from experiments.studies.claims.claim import Claim, Comparison, Outcomes

K = 8  # k of max@k, in training and in the test
EPOCHS = 4  # updates on each batch of the off-policy arms


def max_at_k_training() -> Claim:
  """Compares training on the mean score and on forms of max@8 on closeness.

  The score of a sample is exp(-|value - target| / 3). The three off-policy arms
  ("stale") make `EPOCHS` updates per batch, so that most updates use samples of
  an older policy. They correct for this by weights from the importance ratio of
  policy and sampling policy: exactly, to first order, or not at all.
  """
  base = settings.countdown_base()

  def arm(method, **changes):
    return settings.trained(base, settings.CLOSENESS, method, **changes)

  def off_policy(order):
    # As many updates as the on-policy arms, on 1 / EPOCHS of the batches.
    method = f"max_at_k_off_policy(k={K}, order='{order}')"
    return arm(method, steps=settings.STEPS // EPOCHS, plan__epochs=EPOCHS)

  return Claim(
    name="max_at_k_training",
    statement=(
      "Optimising max@k lifts the best of k on continuous scores; with several "
      "updates per batch the exact off-policy weights do at least as well as "
      "their first-order expansion, and the expansion at least as well as the "
      "uncorrected weights."
    ),
    source=(
      "The Best of N Worlds (max@k, on-policy and off-policy to first order); "
      "the exact off-policy form is ours"
    ),
    setting=(
      "closeness, score exp(-|value - target| / 3); on-policy: "
      f"{settings.STEPS} updates of RLOO (the mean score) and of max@{K}; "
      f"off-policy ('stale'): {settings.STEPS} updates of max@{K}, {EPOCHS} on "
      "each batch, with exact, first-order and uncorrected weights"
    ),
    arms={
      "base": settings.untrained(base, settings.CLOSENESS),
      "mean": arm("rloo"),
      f"max@{K}": arm(f"max_at_k(k={K})"),
      "stale, exact": off_policy("exact"),
      "stale, first order": off_policy("first"),
      "stale, uncorrected": off_policy("zeroth"),
    },
    test=_test,
    draw=plots.max_at_k,
  )


def _test(outcomes: Outcomes) -> list[Comparison]:
  best = {name: outcome.max_at(K) for name, outcome in outcomes.items()}
  exact, first, uncorrected = (
    best[f"stale, {order}"] for order in ("exact", "first order", "uncorrected")
  )
  label = f"best of {K}: "
  # "At least as well" in the statement allows a loss of 0.005, which is small
  # compared with the gain of training on max@k.
  return [
    Comparison(
      f"{label}max@{K} - mean training", best[f"max@{K}"] - best["mean"]
    ),
    Comparison(f"{label}max@{K} - base", best[f"max@{K}"] - best["base"]),
    Comparison(f"{label}exact - first order", exact - first, bound=-0.005),
    Comparison(
      f"{label}first order - uncorrected", first - uncorrected, bound=-0.005
    ),
    Comparison(f"{label}stale, exact - base", exact - best["base"], "reported"),
  ]
