"""What clipping does when the reward is a coin toss."""

from experiments.studies.claims import draw, settings
from experiments.studies.claims.claim import Claim, Comparison, Outcomes

EPOCHS, BATCHES = 4, 60  # 240 updates
TOLERANCE = 0.05  # nats per token


def random_rewards() -> Claim:
  """Countdown with coin tosses for rewards: GRPO clipped and unclipped."""
  base = settings.countdown()
  coin = "false_positive=0.5, false_negative=0.5"
  noisy = f'noisy(of="{settings.COUNTDOWN}", {coin})'

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
      f"countdown, 4 numbers; rewards are coin tosses; GRPO with {EPOCHS} "
      f"updates on each of {BATCHES} batches, clipped at 0.2 and not at all; "
      "entropy of the next token, last tenth of the steps minus the first"
    ),
    arms={"clipped": arm(0.2), "unclipped": arm(1e6)},
    test=_test,
    draw=draw.entropies,
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
