"""Compares learning from wrong samples only and from right samples only."""

from experiments.studies.claims import plots, settings
from experiments.studies.claims.claim import Claim, Comparison, Outcomes

MANY = 64  # k of pass@k in the test
EPOCHS = 4  # updates on each batch of the off-policy arms


def negative_reinforcement() -> Claim:
  """Compares positive and negative reinforcement alone on countdown.

  Positive reinforcement raises the probability of right samples, and negative
  reinforcement lowers that of wrong samples. With one update per batch both
  have the same expected gradient: E[grad log pi] = 0 for samples of the policy
  pi, so E[right * grad log pi] = -E[wrong * grad log pi], where right and wrong
  are 1 for such a sample and 0 otherwise. The two can then differ only by
  noise. With several clipped updates per batch they differ, because clipping
  treats tokens of rising and of falling probability differently. This is the
  setting of the paper, and the test uses it. The arms with one update per batch
  are only plotted.
  """
  base = settings.countdown_base()

  def on_policy(method):
    return settings.trained(base, settings.COUNTDOWN, method)

  def off_policy(method):
    # As many updates as the on-policy arms, on 1 / EPOCHS of the batches.
    return settings.trained(
      base,
      settings.COUNTDOWN,
      method,
      steps=settings.STEPS // EPOCHS,
      plan__epochs=EPOCHS,
    )

  return Claim(
    name="negative_reinforcement",
    statement=(
      "Negative reinforcement alone keeps pass@k at large k, where positive "
      "reinforcement alone loses it."
    ),
    source=(
      "Zhu et al. 2025, The Surprising Effectiveness of Negative Reinforcement"
    ),
    setting=(
      f"countdown, 4 numbers; {settings.STEPS} updates, each on 32 prompts "
      "with 16 samples; positive reinforcement alone (PSR) and negative "
      "reinforcement alone "
      f"(NSR), with one update per batch and with {EPOCHS} clipped updates per "
      f"batch; the test compares the arms with {EPOCHS} updates"
    ),
    arms={
      "base": settings.untrained(base, settings.COUNTDOWN),
      "positive, 1 update": on_policy("psr"),
      "negative, 1 update": on_policy("nsr"),
      f"positive, {EPOCHS} updates": off_policy("psr"),
      f"negative, {EPOCHS} updates": off_policy("nsr"),
    },
    test=_test,
    draw=plots.pass_at_k,
  )


def _test(outcomes: Outcomes) -> list[Comparison]:
  base, _, _, positive, negative = (
    outcome.pass_at(MANY) for outcome in outcomes.values()
  )
  label = f"pass@{MANY}, {EPOCHS} updates: "
  return [
    Comparison(f"{label}positive - base", positive - base, "below"),
    Comparison(f"{label}negative - positive", negative - positive),
    # "Keeps pass@k" in the statement allows a loss of 0.02.
    Comparison(f"{label}negative - base (kept)", negative - base, bound=-0.02),
  ]
