"""max@k of a continuous score, on-policy and with several updates a batch."""

from experiments.studies.claims import draw, settings
from experiments.studies.claims.claim import Claim, Comparison, Outcomes

K = 8
EPOCHS = 4


def max_at_k_training() -> Claim:
  """Closeness: the mean, max@8, and three corrections of stale batches."""
  base = settings.countdown()

  def arm(method, **changes):
    return settings.trained(base, settings.CLOSENESS, method, **changes)

  def stale(order):
    method = f"max_at_k_off_policy(k={K}, order='{order}')"
    return arm(method, steps=settings.STEPS // EPOCHS, plan__epochs=EPOCHS)

  return Claim(
    name="max_at_k_training",
    statement=(
      "Optimising max@k lifts the best of k on continuous scores; with several "
      "updates per batch the exact off-policy weights do at least as well as "
      "their first-order expansion, and that as the uncorrected weights."
    ),
    source=(
      "The Best of N Worlds (max@k, on-policy and off-policy to first order); "
      "the exact off-policy form is ours"
    ),
    setting=(
      f"closeness, exp(-|value - target| / 3); {settings.STEPS} updates of "
      f"RLOO on the mean and of max@{K}; then max@{K} with {EPOCHS} updates a "
      "batch, weights exact, first order, uncorrected"
    ),
    arms={
      "base": settings.untrained(base, settings.CLOSENESS),
      "mean": arm("rloo"),
      f"max@{K}": arm(f"max_at_k(k={K})"),
      "stale, exact": stale("exact"),
      "stale, first order": stale("first"),
      "stale, uncorrected": stale("zeroth"),
    },
    test=_test,
    draw=draw.max_at_k,
  )


def _test(outcomes: Outcomes) -> list[Comparison]:
  best = {name: outcome.max_at(K) for name, outcome in outcomes.items()}
  exact, first, none = (
    best[f"stale, {order}"] for order in ("exact", "first order", "uncorrected")
  )
  label = f"best of {K}: "
  return [
    Comparison(
      f"{label}max@{K} - mean training", best[f"max@{K}"] - best["mean"]
    ),
    Comparison(f"{label}max@{K} - base", best[f"max@{K}"] - best["base"]),
    Comparison(f"{label}exact - first order", exact - first, bound=-0.005),
    Comparison(f"{label}first order - uncorrected", first - none, bound=-0.005),
    Comparison(f"{label}stale, exact - base", exact - best["base"], "reported"),
  ]
