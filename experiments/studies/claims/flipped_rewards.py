"""Learning from rewards of which 40 % are flipped."""

from experiments.studies.claims import draw, settings
from experiments.studies.claims.claim import Claim, Comparison, Outcomes

RATE = 0.4


def flipped_rewards() -> Claim:
  """Countdown: true rewards, flipped ones, and two corrections of those.

  With one rate for all prompts both corrections are affine in the reward: the
  backward one is the leave-one-out advantage of the flipped rewards times 5,
  which Adam cancels, and the forward one differs by its baseline. They are
  tried as the papers say them; little is to be expected.
  """
  base = settings.countdown()
  rates = f"false_positive={RATE}, false_negative={RATE}"
  noisy = f'noisy(of="{settings.COUNTDOWN}", {rates})'
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
      f"countdown, 4 numbers; {settings.STEPS} updates of 32 x 16 samples; RLOO "
      "on true rewards and on rewards flipped sample by sample, and both "
      "corrections with the true rates, which are affine in the reward: under "
      "Adam the backward one is a control; held-out accuracy is exact"
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
    draw=draw.accuracies,
  )


def _test(outcomes: Outcomes) -> list[Comparison]:
  right = {name: outcome.pass_at(1) for name, outcome in outcomes.items()}
  return [
    Comparison("pass@1: flipped - base", right["flipped"] - right["base"]),
    Comparison(
      "pass@1: true - flipped", right["true"] - right["flipped"], "reported"
    ),
    Comparison(
      "pass@1: backward - flipped", right["backward"] - right["flipped"]
    ),
    Comparison(
      "pass@1: forward - flipped", right["forward"] - right["flipped"]
    ),
  ]
