"""Trains max@k with stale samples at rates at which importance ratios move."""

import dataclasses

import numpy as np

from experiments.studies.claims import plots, settings
from experiments.studies.claims.claim import Claim, Comparison, Outcomes

K = 8  # k of max@k, in training and in the test
EPOCHS = 4  # updates on each batch
RATES = (1.5e-4, 6e-4, 2.4e-3)  # the first is that of `max_at_k_training`
# Largest |log ratio| of a sample. The default of 1 would make a trust region of
# every order.
BOUND = 3.0
ORDERS = {"exact": "exact", "first order": "first", "uncorrected": "zeroth"}


def stale_max_at_k() -> Claim:
  """Compares orders of the off-policy weights of max@8 at three rates.

  Each batch is sampled one training step ahead, and used for `EPOCHS` updates:
  the last update is up to 2 `EPOCHS` - 1 updates away from the sampling policy.
  At the first rate the importance ratios of samples stay near 1, so that all
  orders are nearly equal.
  """
  base = settings.countdown_base()

  def arm(order: str, rate: float):
    trained = settings.trained(
      base,
      settings.CLOSENESS,
      f"max_at_k_off_policy(k={K}, order='{ORDERS[order]}', bound={BOUND})",
      steps=settings.STEPS // EPOCHS,
      plan__epochs=EPOCHS,
      optimizer__learning_rate=rate,
    )
    return dataclasses.replace(trained, ahead=True)

  return Claim(
    name="stale_max_at_k",
    statement=(
      "On stale batches, and at learning rates at which importance ratios "
      "move, exact off-policy weights of max@k train better than their "
      "first-order expansion, and the expansion trains better than uncorrected "
      "weights."
    ),
    source=(
      "The Best of N Worlds (off-policy max@k to first order); the exact "
      "off-policy form is ours"
    ),
    setting=(
      f"closeness; {settings.STEPS} updates of max@{K}, {EPOCHS} on each "
      "batch, which is sampled one step ahead; learning rates of "
      f"{', '.join(f'{rate:g}' for rate in RATES)}; |log ratio| of a sample is "
      f"bounded by {BOUND:g} in all orders"
    ),
    arms={
      "base": settings.untrained(base, settings.CLOSENESS),
      **{
        _name(order, rate): arm(order, rate)
        for rate in RATES
        for order in ORDERS
      },
    },
    test=_test,
    draw=_draw,
  )


def _name(order: str, rate: float) -> str:
  return f"{order}, {rate:g}"


def _test(outcomes: Outcomes) -> list[Comparison]:
  best = {name: outcome.max_at(K) for name, outcome in outcomes.items()}
  pairs = (("exact", "first order"), ("first order", "uncorrected"))
  moved = [
    Comparison(
      f"mean absolute log ratio of a sample, rate {rate:g}, exact",
      outcomes[_name("exact", rate)].first("policy/sample_log_ratio", share=1),
      "reported",
    )
    for rate in RATES
  ]
  return moved + [
    Comparison(
      f"best of {K}, rate {rate:g}: {better} - {worse}",
      best[_name(better, rate)] - best[_name(worse, rate)],
      # Where ratios stay near 1, nothing is claimed.
      "reported" if rate == RATES[0] else "above",
    )
    for rate in RATES
    for better, worse in pairs
  ]


def _draw(axes, outcomes: Outcomes) -> None:
  curves = {
    order: np.stack(
      [outcomes[_name(order, rate)].max_at(K) for rate in RATES], axis=-1
    )
    for order in ORDERS
  }
  plots.against_rate(axes, RATES, curves, f"best of {K}")
