"""Compares sum-form and min-form credit for exploitable step scores."""

from experiments.studies.claims import plots, settings
from experiments.studies.claims.claim import Claim, Comparison, Outcomes

LABELLED = 0.1  # fraction of the prompts for which the verdict is rewarded too
COEFFICIENTS = (1, 3, 10, 30)  # weights of the verdict in the reward


def min_form_credit() -> Claim:
  """Trains on chained arithmetic with two exploitable process rewards.

  A process reward scores each reasoning step. Sum-form credit adds the scores
  of a sample's steps; min-form credit takes their minimum. The reward "filler"
  accepts every step of true arithmetic, even if it does not lead to the answer.
  The reward "local" also accepts a final answer that merely repeats the value
  of the step before.
  """
  base = settings.chain_base()

  def arm(prm, method):
    task = f"chain(operations=3, prm='{prm}')"
    return settings.trained(
      base,
      task,
      method,
      rollout__prompts=16,
      optimizer__learning_rate=2e-4,
    )

  def with_verdicts(prm, form, coefficient):
    verifiable = f"verifiable={coefficient:g}, labelled={LABELLED}"
    return arm(prm, f"{form}({verifiable})")

  return Claim(
    name="min_form_credit",
    statement=(
      "With an exploitable process reward, credit by sums collapses and credit "
      "by the minimum does not; where the minimum can be exploited as well, "
      "verifiable rewards for a tenth of the prompts rescue it and do not "
      "rescue the sum."
    ),
    source="Cheng et al. 2025, Stop Summation (PURE)",
    setting=(
      "chained arithmetic, 3 operations; a process reward that accepts every "
      "step of true arithmetic (filler), and one that also accepts every "
      f"answer that repeats the running value (local); {settings.STEPS} "
      "updates on 16 prompts with 16 samples each; 'c x a tenth' adds c times "
      f"the verdict for {LABELLED:.0%} of the prompts, c = "
      f"{', '.join(map(str, COEFFICIENTS))}"
    ),
    arms={
      "base": settings.untrained(base, "chain(operations=3)"),
      "filler, sum": arm("filler", "sum_form"),
      "filler, min": arm("filler", "min_form"),
      "local, min": arm("local", "min_form"),
      **{
        f"local, min + {c}": with_verdicts("local", "min_form", c)
        for c in COEFFICIENTS
      },
      **{
        f"local, sum + {c}": with_verdicts("local", "sum_form", c)
        for c in (10, 30)
      },
    },
    test=_test,
    draw=plots.accuracies,
  )


def _test(outcomes: Outcomes) -> list[Comparison]:
  # A collapse is the loss of more than half of the base policy's accuracy.
  accuracy = {name: outcome.pass_at(1) for name, outcome in outcomes.items()}
  base = accuracy["base"]
  return [
    Comparison(
      "filler: sum - half of base", accuracy["filler, sum"] - base / 2, "below"
    ),
    Comparison("filler: min - base", accuracy["filler, min"] - base),
    Comparison(
      "local: min - half of base", accuracy["local, min"] - base / 2, "below"
    ),
    Comparison(
      "local: min + 10 x a tenth - base", accuracy["local, min + 10"] - base
    ),
    Comparison(
      "local: sum + 10 x a tenth - half of base",
      accuracy["local, sum + 10"] - base / 2,
      "below",
    ),
    *(
      Comparison(
        f"local: {name} x a tenth - base",
        accuracy[f"local, {name}"] - base,
        "reported",
      )
      for name in ("min + 1", "min + 3", "min + 30", "sum + 30")
    ),
  ]
