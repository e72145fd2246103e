"""Learning from wrong samples only against learning from right ones only."""

from experiments.studies.claims import draw, settings
from experiments.studies.claims.claim import Claim, Comparison, Outcomes

MANY = 64
EPOCHS = 4


def negative_reinforcement() -> Claim:
  """Countdown: reward the right or punish the wrong, on-policy and stale.

  With one update a batch the two have the same expected direction, since
  E[grad log pi] = 0 makes E[1_right grad log pi] = -E[1_wrong grad log pi]. They
  can differ by noise, and where clipped updates on a stale batch treat a rising
  and a falling token differently: that is the paper's setting and the tested
  one; the other is drawn beside it.
  """
  base = settings.countdown()

  def on_policy(method):
    return settings.trained(base, settings.COUNTDOWN, method)

  def stale(method):
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
      f"countdown, 4 numbers; {settings.STEPS} updates of 32 x 16 samples; "
      "positive only (PSR) and negative only (NSR), with one update a batch "
      f"and with {EPOCHS} clipped ones (tested)"
    ),
    arms={
      "base": settings.untrained(base, settings.COUNTDOWN),
      "positive, 1 update": on_policy("psr"),
      "negative, 1 update": on_policy("nsr"),
      f"positive, {EPOCHS} updates": stale("psr"),
      f"negative, {EPOCHS} updates": stale("nsr"),
    },
    test=_test,
    draw=draw.pass_at_k,
  )


def _test(outcomes: Outcomes) -> list[Comparison]:
  base, _, _, positive, negative = (
    outcome.pass_at(MANY) for outcome in outcomes.values()
  )
  label = f"pass@{MANY}, {EPOCHS} updates: "
  return [
    Comparison(f"{label}positive - base", positive - base, "below"),
    Comparison(f"{label}negative - positive", negative - positive),
    Comparison(f"{label}negative - base (kept)", negative - base, bound=-0.02),
  ]
