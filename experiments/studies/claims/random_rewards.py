"""Measures the effect of clipping on the entropy when rewards are random."""

from experiments.studies.claims import plots, settings
from experiments.studies.claims.claim import Claim, Comparison, Outcomes

EPOCHS = 4  # updates on each batch
BATCHES = 60  # 240 updates in total
# A fall of the entropy by less than this, in nats per token, counts as "does
# not fall".
TOLERANCE = 0.05


def random_rewards() -> Claim:
  """Compares GRPO with and without clipping on random rewards."""
  base = settings.countdown_base()
  # Flipping each verdict with probability 1/2 makes it a coin toss.
  flip_rates = "false_positive=0.5, false_negative=0.5"
  noisy = f'noisy(task="{settings.COUNTDOWN}", {flip_rates})'

  def arm(clip):
    return settings.trained(
      base,
      noisy,
      f"grpo(beta=0.0, clip={clip:g})",
      steps=BATCHES,
      plan__epochs=EPOCHS,
    )

  return Claim(
    name="random_rewards",
    statement=(
      "With random rewards the bias of clipping lowers the entropy; without "
      "clipping it does not fall."
    ),
    source="Shao et al. 2025, Spurious Rewards",
    setting=(
      f"countdown, 4 numbers; the rewards are coin tosses; GRPO with {EPOCHS} "
      f"updates on each of {BATCHES} batches, with clip range 0.2 and without "
      "clipping; the effect is the entropy of the next token in the last tenth "
      "of the steps minus that in the first tenth"
    ),
    # No ratio reaches 1e6, so nothing is clipped.
    arms={"clipped": arm(0.2), "unclipped": arm(1e6)},
    test=_test,
    draw=plots.entropies,
  )


def _test(outcomes: Outcomes) -> list[Comparison]:
  change = {
    name: outcome.last("policy/entropy") - outcome.first("policy/entropy")
    for name, outcome in outcomes.items()
  }
  return [
    Comparison(
      "entropy, clipped: last tenth - first tenth", change["clipped"], "below"
    ),
    Comparison(
      "entropy, unclipped: last tenth - first tenth",
      change["unclipped"],
      "above",
      -TOLERANCE,
    ),
    Comparison(
      "entropy: unclipped - clipped",
      change["unclipped"] - change["clipped"],
    ),
  ]
