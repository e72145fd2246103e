"""Trains with 40 % of the verdicts flipped, with and without a correction."""

from experiments.studies.claims import plots, settings
from experiments.studies.claims.claim import Claim, Comparison, Outcomes

RATE = 0.4  # probability that the verdict on a sample is flipped


def flipped_rewards() -> Claim:
  """Compares true rewards, flipped rewards and two corrections on countdown.

  A reward is the verdict (1 right, 0 wrong), flipped with probability `RATE`.
  This probability is the same for all prompts, so both corrections are affine
  functions of the reward. The backward correction multiplies the leave-one-out
  advantage of the flipped rewards by 1 / (1 - 2 * RATE) = 5, and Adam cancels
  the factor. The forward correction differs only by its baseline. Both
  corrections are implemented as in the papers; a large effect is not expected.
  """
  base = settings.countdown_base()
  rates = f"false_positive={RATE}, false_negative={RATE}"
  noisy = f'noisy(task="{settings.COUNTDOWN}", {rates})'
  return Claim(
    name="flipped_rewards",
    statement=(
      "Learning survives rewards of which 40 % are flipped; backward and "
      "forward corrections recover more."
    ),
    source=(
      "RL with Verifiable yet Noisy Rewards under Imperfect Verifiers; The "
      "Climb Carves Wisdom Deeper Than the Summit"
    ),
    setting=(
      f"countdown, 4 numbers; {settings.STEPS} updates, each on 32 prompts "
      "with 16 samples; RLOO with true rewards, RLOO with rewards that are "
      "flipped independently for each sample, and both corrections with the "
      "true rates; the corrections are affine in the reward, so under Adam the "
      "backward one is a control; the held-out evaluation uses true verdicts"
    ),
    arms={
      "base": settings.untrained(base, settings.COUNTDOWN),
      "true": settings.trained(base, settings.COUNTDOWN, "rloo"),
      "flipped": settings.trained(base, noisy, "rloo"),
      "backward": settings.trained(base, noisy, f"noisy_backward({rates})"),
      "forward": settings.trained(
        base, noisy, f"noisy_forward(false_negative={RATE})"
      ),
    },
    test=_test,
    draw=plots.accuracies,
  )


def _test(outcomes: Outcomes) -> list[Comparison]:
  accuracy = {name: outcome.pass_at(1) for name, outcome in outcomes.items()}
  return [
    Comparison(
      "pass@1: flipped - base", accuracy["flipped"] - accuracy["base"]
    ),
    Comparison(
      "pass@1: true - flipped",
      accuracy["true"] - accuracy["flipped"],
      "reported",
    ),
    Comparison(
      "pass@1: backward - flipped", accuracy["backward"] - accuracy["flipped"]
    ),
    Comparison(
      "pass@1: forward - flipped", accuracy["forward"] - accuracy["flipped"]
    ),
  ]
