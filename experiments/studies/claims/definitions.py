"""The claims. Each function returns the claim that has its name."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import matplotlib.axes
import numpy as np

from experiments.studies.arms import Arm, Outcome
from experiments.studies.claims import plots
from experiments.studies.claims.claim import (
  Claim,
  Difference,
  Measure,
  Outcomes,
  best_of,
  pass_at,
)
from experiments.studies.claims.settings import (
  CLOSENESS,
  COUNTDOWN,
  STEPS,
  chain_base,
  countdown_base,
  trained,
  untrained,
)
from experiments.studies.plots import against_rate
from rl import UsageError, registry

EPOCHS = 4  # updates on each batch of an arm with several updates
# As many updates as with one update per batch, on 1 / EPOCHS of the batches.
SEVERAL_UPDATES = {"steps": STEPS // EPOCHS, "plan.epochs": EPOCHS}
# The changes of runs on chained arithmetic.
ON_CHAIN = {"rollout.prompts": 16, "optimizer.learning_rate": 2e-4}


def pass_at_k_training() -> Claim:
  """Compares training on pass@1 (RLOO) and on pass@8 on countdown.

  Both papers train on pass@k. The method `pass_at_k` is used with its default
  form of the advantages.
  """
  base = countdown_base()
  pass_at_1, pass_at_8 = "pass@1 training", "pass@8 training"
  return Claim(
    name="pass_at_k_training",
    statement=(
      "Training on pass@k lifts pass@k above what training on pass@1 gives in "
      "as many steps, and pass@1 does not suffer."
    ),
    source="Chen et al. 2025, Pass@k Training; Walder and Karkhanis 2025, PKPO",
    setting=(
      f"countdown, 4 numbers; {STEPS} updates, each on 32 prompts "
      "with 16 samples; RLOO (pass@1) is compared with analytic pass@8 "
      "training; pass@1 is said to suffer if it ends below that of the base "
      "policy"
    ),
    arms={
      "base": untrained(base, COUNTDOWN),
      pass_at_1: trained(base, COUNTDOWN, "rloo"),
      pass_at_8: trained(base, COUNTDOWN, "pass_at_k(k=8)"),
    },
    differences=(
      Difference(pass_at(8), pass_at_8, pass_at_1),
      Difference(pass_at(64), pass_at_8, pass_at_1),
      Difference(pass_at(1), pass_at_8, "base"),
      Difference(pass_at(1), pass_at_8, pass_at_1, "reported"),
    ),
    draw=plots.pass_at_k,
  )


def max_at_k_training() -> Claim:
  """Compares training on the mean score and on forms of max@8 on closeness.

  The score of a sample is exp(-|value - target| / 3). The three off-policy arms
  ("stale") make `EPOCHS` updates per batch, so that most updates use samples of
  an older policy. They correct for this by weights from the importance ratio of
  policy and sampling policy: exactly, to first order, or not at all.
  """
  base = countdown_base()

  def off_policy(order: str) -> Arm:
    method = f"max_at_k_off_policy(k=8, order='{order}')"
    return trained(base, CLOSENESS, method, SEVERAL_UPDATES)

  def at_least(better: str, worse: str) -> Difference:
    # "At least as well" in the statement allows a loss of 0.005, which is small
    # compared with the gain of training on max@k.
    return Difference(
      *(best_of(8), f"stale, {better}", f"stale, {worse}"),
      bound=-0.005,
      label=f"best of 8: {better} - {worse}",
    )

  return Claim(
    name="max_at_k_training",
    statement=(
      "Optimising max@k lifts the best of k on continuous scores; with several "
      "updates per batch the exact off-policy weights do at least as well as "
      "their first-order expansion, and the expansion at least as well as the "
      "uncorrected weights."
    ),
    source=(
      "The Best of N Worlds (max@k, on-policy and off-policy to first order); "
      "the exact off-policy form is ours"
    ),
    setting=(
      "closeness, score exp(-|value - target| / 3); on-policy: "
      f"{STEPS} updates of RLOO (the mean score) and of max@8; "
      f"off-policy ('stale'): {STEPS} updates of max@8, {EPOCHS} on "
      "each batch, with exact, first-order and uncorrected weights"
    ),
    arms={
      "base": untrained(base, CLOSENESS),
      "mean": trained(base, CLOSENESS, "rloo"),
      "max@8": trained(base, CLOSENESS, "max_at_k(k=8)"),
      "stale, exact": off_policy("exact"),
      "stale, first order": off_policy("first"),
      "stale, uncorrected": off_policy("zeroth"),
    },
    differences=(
      Difference(
        *(best_of(8), "max@8", "mean"),
        label="best of 8: max@8 - mean training",
      ),
      Difference(best_of(8), "max@8", "base"),
      at_least("exact", "first order"),
      at_least("first order", "uncorrected"),
      Difference(best_of(8), "stale, exact", "base", "reported"),
    ),
    draw=plots.max_at_k,
  )


def min_form_credit() -> Claim:
  """Trains on chained arithmetic with two exploitable process rewards.

  A process reward scores each reasoning step. Sum-form credit adds the scores
  of a sample's steps; min-form credit takes their minimum. The reward "filler"
  accepts every step of true arithmetic, even if it does not lead to the answer.
  The reward "local" also accepts a final answer that merely repeats the value
  of the step before.
  """
  base = chain_base()
  labelled = (
    0.1  # fraction of the prompts for which the verdict is rewarded too
  )
  coefficients = (1, 3, 10, 30)  # weights of the verdict in the reward

  def arm(prm: str, method: str) -> Arm:
    task = f"chain(operations=3, prm='{prm}')"
    return trained(base, task, method, ON_CHAIN)

  def with_verdicts(form: str, c: int) -> Arm:
    return arm("local", f"{form}_form(verifiable={c}, labelled={labelled})")

  def gain(arm: str, label: str, region: str = "above") -> Difference:
    label = f"{label} - base"
    return Difference(pass_at(1), arm, "base", region, label=label)

  def collapse(arm: str, label: str) -> Difference:
    # A collapse is the loss of more than half of the base policy's accuracy.
    label = f"{label} - half of base"
    return Difference(pass_at(1), arm, "base", "below", label=label, share=0.5)

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
      f"answer that repeats the running value (local); {STEPS} "
      "updates on 16 prompts with 16 samples each; 'c x a tenth' adds c times "
      f"the verdict for {labelled:.0%} of the prompts, c = "
      f"{', '.join(map(str, coefficients))}"
    ),
    arms={
      "base": untrained(base, "chain(operations=3)"),
      "filler, sum": arm("filler", "sum_form"),
      "filler, min": arm("filler", "min_form"),
      "local, min": arm("local", "min_form"),
      **{f"local, min + {c}": with_verdicts("min", c) for c in coefficients},
      **{f"local, sum + {c}": with_verdicts("sum", c) for c in (10, 30)},
    },
    differences=(
      collapse("filler, sum", "filler: sum"),
      gain("filler, min", "filler: min"),
      collapse("local, min", "local: min"),
      gain("local, min + 10", "local: min + 10 x a tenth"),
      collapse("local, sum + 10", "local: sum + 10 x a tenth"),
      *(
        gain(f"local, {name}", f"local: {name} x a tenth", "reported")
        for name in ("min + 1", "min + 3", "min + 30", "sum + 30")
      ),
    ),
    draw=plots.accuracies,
  )


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
  base = countdown_base()
  positive, negative = (
    f"{sign}, {EPOCHS} updates" for sign in ("positive", "negative")
  )
  label = f"pass@64, {EPOCHS} updates: "
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
      f"countdown, 4 numbers; {STEPS} updates, each on 32 prompts "
      "with 16 samples; positive reinforcement alone (PSR) and negative "
      "reinforcement alone "
      f"(NSR), with one update per batch and with {EPOCHS} clipped updates per "
      f"batch; the test compares the arms with {EPOCHS} updates"
    ),
    arms={
      "base": untrained(base, COUNTDOWN),
      "positive, 1 update": trained(base, COUNTDOWN, "psr"),
      "negative, 1 update": trained(base, COUNTDOWN, "nsr"),
      positive: trained(base, COUNTDOWN, "psr", SEVERAL_UPDATES),
      negative: trained(base, COUNTDOWN, "nsr", SEVERAL_UPDATES),
    },
    differences=(
      Difference(
        *(pass_at(64), positive, "base", "below"),
        label=f"{label}positive - base",
      ),
      Difference(
        *(pass_at(64), negative, positive),
        label=f"{label}negative - positive",
      ),
      Difference(
        *(pass_at(64), negative, "base"),
        bound=-0.02,  # "keeps pass@k" in the statement allows this loss
        label=f"{label}negative - base (kept)",
      ),
    ),
    draw=plots.pass_at_k,
  )


def coverage() -> Claim:
  """Compares pass@1 and pass@64 of RLOO and of its base policy on countdown."""
  base = countdown_base()
  return Claim(
    name="coverage",
    statement=(
      "RL with verifiable rewards lifts pass@1, while the base policy catches "
      "up at large k: it sharpens more than it adds."
    ),
    source=(
      "Yue et al. 2025, Does Reinforcement Learning Really Incentivize "
      "Reasoning Capacity Beyond the Base Model?"
    ),
    setting=(
      f"countdown, 4 numbers; RLOO, {STEPS} updates, each on 32 "
      "prompts with 16 samples; pass@1 and pass@64, estimated from 256 "
      "samples, are compared with the base policy"
    ),
    arms={
      "base": untrained(base, COUNTDOWN),
      "RLOO": trained(base, COUNTDOWN, "rloo"),
    },
    differences=(
      Difference(pass_at(1), "RLOO", "base"),
      Difference(pass_at(64), "base", "RLOO"),
    ),
    draw=plots.pass_at_k,
  )


def flipped_rewards() -> Claim:
  """Compares true rewards, flipped rewards and two corrections on countdown.

  A reward is the verdict (1 right, 0 wrong), flipped with probability 0.4. This
  probability is the same for all prompts, so both corrections are affine
  functions of the reward. The backward correction multiplies the leave-one-out
  advantage of the flipped rewards by 1 / (1 - 2 * 0.4) = 5, and Adam cancels
  the factor. The forward correction differs only by its baseline. Both
  corrections are implemented as in the papers; a large effect is not expected.
  """
  base = countdown_base()
  rates = "false_positive=0.4, false_negative=0.4"
  noisy = f'noisy(task="{COUNTDOWN}", {rates})'
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
      f"countdown, 4 numbers; {STEPS} updates, each on 32 prompts "
      "with 16 samples; RLOO with true rewards, RLOO with rewards that are "
      "flipped independently for each sample, and both corrections with the "
      "true rates; the corrections are affine in the reward, so under Adam the "
      "backward one is a control; the held-out evaluation uses true verdicts"
    ),
    arms={
      "base": untrained(base, COUNTDOWN),
      "true": trained(base, COUNTDOWN, "rloo"),
      "flipped": trained(base, noisy, "rloo"),
      "backward": trained(base, noisy, f"noisy_backward({rates})"),
      "forward": trained(base, noisy, "noisy_forward(false_negative=0.4)"),
    },
    differences=(
      Difference(pass_at(1), "flipped", "base"),
      Difference(pass_at(1), "true", "flipped", "reported"),
      Difference(pass_at(1), "backward", "flipped"),
      Difference(pass_at(1), "forward", "flipped"),
    ),
    draw=plots.accuracies,
  )


def random_rewards() -> Claim:
  """Compares GRPO with and without clipping on random rewards."""
  base = countdown_base()
  # Flipping each verdict with probability 1/2 makes it a coin toss.
  flip_rates = "false_positive=0.5, false_negative=0.5"
  noisy = f'noisy(task="{COUNTDOWN}", {flip_rates})'
  batches = 60  # 240 updates in total

  def arm(clip: float) -> Arm:
    changes = {"steps": batches, "plan.epochs": EPOCHS}
    return trained(base, noisy, f"grpo(beta=0.0, clip={clip:g})", changes)

  def entropy_change(outcome: Outcome) -> np.ndarray:
    return outcome.last("policy/entropy") - outcome.first("policy/entropy")

  entropy = Measure("entropy", entropy_change)
  return Claim(
    name="random_rewards",
    statement=(
      "With random rewards the bias of clipping lowers the entropy; without "
      "clipping it does not fall."
    ),
    source="Shao et al. 2025, Spurious Rewards",
    setting=(
      f"countdown, 4 numbers; the rewards are coin tosses; GRPO with {EPOCHS} "
      f"updates on each of {batches} batches, with clip range 0.2 and without "
      "clipping; the effect is the entropy of the next token in the last tenth "
      "of the steps minus that in the first tenth"
    ),
    # No ratio reaches 1e6, so nothing is clipped.
    arms={"clipped": arm(0.2), "unclipped": arm(1e6)},
    differences=(
      Difference(
        *(entropy, "clipped", "", "below"),
        label="entropy, clipped: last tenth - first tenth",
      ),
      Difference(
        *(entropy, "unclipped", ""),
        # A fall by less than 0.05 nats per token counts as "does not fall".
        bound=-0.05,
        label="entropy, unclipped: last tenth - first tenth",
      ),
      Difference(entropy, "unclipped", "clipped"),
    ),
    draw=plots.entropies,
  )


def stale_max_at_k() -> Claim:
  """Compares orders of the off-policy weights of max@8 at three rates.

  Each batch is sampled one training step ahead, and used for `EPOCHS` updates:
  the last update is up to 2 `EPOCHS` - 1 updates away from the sampling policy.
  At the first rate, that of `max_at_k_training`, the importance ratios of
  samples stay near 1, so that all orders are nearly equal.
  """
  base = countdown_base()
  rates = (1.5e-4, 6e-4, 2.4e-3)
  # Largest |log ratio| of a sample. The default of 1 would make a trust region
  # of every order.
  bound = 3.0
  orders = {"exact": "exact", "first order": "first", "uncorrected": "zeroth"}

  def arm(order: str, rate: float) -> Arm:
    method = f"max_at_k_off_policy(k=8, order='{order}', bound={bound})"
    changes = {**SEVERAL_UPDATES, "optimizer.learning_rate": rate}
    return dataclasses.replace(
      trained(base, CLOSENESS, method, changes), ahead=True
    )

  moved = Measure(
    "log ratio",
    lambda outcome: outcome.first("policy/sample_log_ratio", share=1),
  )

  def draw(axes: matplotlib.axes.Axes, outcomes: Outcomes) -> None:
    curves = {
      name: np.stack(
        [outcomes[f"{name}, {rate:g}"].max_at(8) for rate in rates], axis=-1
      )
      for name in orders
    }
    against_rate(axes, rates, curves, "best of 8")

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
      f"closeness; {STEPS} updates of max@8, {EPOCHS} on each "
      "batch, which is sampled one step ahead; learning rates of "
      f"{', '.join(f'{rate:g}' for rate in rates)}; |log ratio| of a sample is "
      f"bounded by {bound:g} in all orders"
    ),
    arms={
      "base": untrained(base, CLOSENESS),
      **{
        f"{name}, {rate:g}": arm(order, rate)
        for rate in rates
        for name, order in orders.items()
      },
    },
    differences=(
      *(
        Difference(
          *(moved, f"exact, {rate:g}", "", "reported"),
          label=f"mean absolute log ratio of a sample, rate {rate:g}, exact",
        )
        for rate in rates
      ),
      *(
        Difference(
          *(best_of(8), f"{better}, {rate:g}", f"{worse}, {rate:g}"),
          # Where ratios stay near 1, nothing is claimed.
          "reported" if rate == rates[0] else "above",
          label=f"best of 8, rate {rate:g}: {better} - {worse}",
        )
        for rate in rates
        for better, worse in itertools.pairwise(orders)
      ),
    ),
    draw=draw,
  )


def best_worst_step() -> Claim:
  """Compares max@4 of the worst step with min-form credit and with max@4.

  The process reward accepts every step of true arithmetic, even if it does not
  lead to the answer. Credit by sums collapses on it (`min_form_credit`).
  """
  # More operations than in `min_form_credit`, so that pass@k stays below 1.
  operations = 5
  base = chain_base(operations)
  both = "max@4 of the worst step"

  def arm(method: str) -> Arm:
    task = f"chain(operations={operations}, prm='filler')"
    return trained(base, task, method, ON_CHAIN)

  return Claim(
    name="best_worst_step",
    statement=(
      "Training on the best of k samples of the score of the worst step raises "
      "accuracy under an exploitable process reward, as min-form credit does, "
      "and ends with a higher pass@k than min-form credit."
    ),
    source=(
      "this project; max@k is that of Walder & Karkhanis 2025, min-form that "
      "of Cheng et al. 2025, Stop Summation (PURE)"
    ),
    setting=(
      f"chained arithmetic, {operations} operations, a process reward that "
      f"accepts every step of true arithmetic; {STEPS} updates on 16 "
      "prompts with 16 samples each; max@4 is trained on the verdict"
    ),
    arms={
      "base": untrained(base, f"chain(operations={operations})"),
      "min-form": arm("min_form"),
      "max@4": arm("max_at_k(k=4)"),
      both: arm("max_at_k_min_form(k=4)"),
    },
    differences=(
      Difference(pass_at(1), both, "base"),
      Difference(pass_at(1), "min-form", "base"),
      Difference(pass_at(8), both, "min-form"),
      Difference(pass_at(8), both, "max@4", "reported"),
      Difference(pass_at(1), both, "min-form", "reported"),
    ),
    draw=plots.pass_at_k,
  )


_FUNCTIONS: Sequence[Callable[[], Claim]] = (
  pass_at_k_training,
  max_at_k_training,
  min_form_credit,
  negative_reinforcement,
  coverage,
  flipped_rewards,
  random_rewards,
  stale_max_at_k,
  best_worst_step,
)
NAMES = tuple(function.__name__ for function in _FUNCTIONS)


def get(name: str) -> Claim:
  """Returns the claim with a name from `NAMES`.

  Raises:
    UsageError: no claim has this name.
  """
  if name not in NAMES:
    raise UsageError(registry.describe_unknown("claim", name, NAMES))
  return _FUNCTIONS[NAMES.index(name)]()
