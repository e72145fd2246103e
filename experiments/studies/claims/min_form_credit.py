"""Sums of step scores against their minimum, where the scores can be gamed."""

from experiments.studies.claims import draw, settings
from experiments.studies.claims.claim import Claim, Comparison, Outcomes

LABELLED = 0.1
COEFFICIENTS = (1, 3, 10, 30)


def min_form_credit() -> Claim:
  """Chained arithmetic under two process rewards that overlook something."""
  base = settings.chain()

  def arm(prm, method):
    task = f"chain(operations=3, prm='{prm}')"
    return settings.trained(
      base,
      task,
      method,
      rollout__prompts=16,
      optimizer__learning_rate=2e-4,
    )

  def rescued(prm, form, coefficient):
    verifiable = f"verifiable={coefficient:g}, labelled={LABELLED}"
    return arm(prm, f"{form}({verifiable})")

  return Claim(
    name="min_form_credit",
    statement=(
      "With an exploitable process reward, credit by sums collapses and credit "
      "by the minimum does not; where the minimum has a hack of its own, a "
      "tenth of verifiable rewards rescues it and does not rescue the sum."
    ),
    source="Cheng et al. 2025, Stop Summation (PURE)",
    setting=(
      "chained arithmetic, 3 operations; a reward that passes any true "
      "arithmetic (filler), and one that also passes any answer that repeats "
      f"the running value (local); {settings.STEPS} updates of 16 x 16 samples; "
      f"the verdicts of {LABELLED:.0%} of the prompts with coefficient "
      f"{', '.join(map(str, COEFFICIENTS))}"
    ),
    arms={
      "base": settings.untrained(base, "chain(operations=3)"),
      "filler, sum": arm("filler", "sum_form"),
      "filler, min": arm("filler", "min_form"),
      "local, min": arm("local", "min_form"),
      **{
        f"local, min + {c}": rescued("local", "min_form", c)
        for c in COEFFICIENTS
      },
      **{
        f"local, sum + {c}": rescued("local", "sum_form", c) for c in (10, 30)
      },
    },
    test=_test,
    draw=draw.accuracies,
  )


def _test(outcomes: Outcomes) -> list[Comparison]:
  """To collapse is to lose more than half of the base's right answers."""
  right = {name: outcome.pass_at(1) for name, outcome in outcomes.items()}
  base = right["base"]
  return [
    Comparison(
      "filler: sum - half of base", right["filler, sum"] - base / 2, "below"
    ),
    Comparison("filler: min - base", right["filler, min"] - base),
    Comparison(
      "local: min - half of base", right["local, min"] - base / 2, "below"
    ),
    Comparison(
      "local: min + 10 x a tenth - base", right["local, min + 10"] - base
    ),
    Comparison(
      "local: sum + 10 x a tenth - half of base",
      right["local, sum + 10"] - base / 2,
      "below",
    ),
    *(
      Comparison(
        f"local: {name} x a tenth - base",
        right[f"local, {name}"] - base,
        "reported",
      )
      for name in ("min + 1", "min + 3", "min + 30", "sum + 30")
    ),
  ]
