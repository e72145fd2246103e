"""DPO, direct preference optimisation, also with a length-normalised reward.

Axes: P prompts, S samples per prompt (a group).
"""

from rl import UsageError
from rl.method import Method
from rl.methods.pairs.contrast import (
  best_against_worst,
  contrasted,
  contrastive,
)
from rl.parameter_sets import frozen
from rl.transforms import chain, scores


def dpo(
  beta: float = 0.1,
  label_smoothing: float = 0.0,
  length_normalized: bool = False,
) -> Method:
  """A logistic loss on the difference of two implicit rewards beta d.

    loss = -(1 - eps) log sigma(x) - eps log sigma(-x)
    x    = beta (d(y_+) - d(y_-)),  d(y) = log pi(y) - log ref(y)

  The chosen sample y_+ is the first with the highest score of its group, and
  the rejected sample y_- the first with the lowest. With `kind = "preferences"`
  a group is one line of the file, whose chosen completion has the score 1 and
  whose rejected completion has 0. d is a sum over the tokens of a sample; with
  `length_normalized` it is their mean. sigma is the sigmoid, eps is
  `label_smoothing`, and ref is the policy at the start of the run. A group of
  equal scores has no pair. The loss is averaged over the groups with a pair.
  Mitchell adds eps, and Tulu 3 uses `length_normalized` with beta = 5.
  Open: releases of DPO use beta between 0.01 and 0.5; the default is that of
  most experiments of its paper.
  Source: Rafailov et al. 2023, Direct Preference Optimization; Mitchell 2023, A
  note on DPO with noisy preferences; Lambert et al. 2024, Tulu 3: Pushing
  Frontiers in Open Language Model Post-Training.

  Args:
    beta: factor of the log-ratios d.
    label_smoothing: eps, the probability that a pair is the wrong way round.
    length_normalized: whether d is a mean over tokens in place of a sum.

  Raises:
    UsageError: `beta` is not above 0, or `label_smoothing` is not at least 0
      and below 0.5.
  """
  if not beta > 0:
    raise UsageError(f"beta={beta} must be above 0, such as 0.1")
  if not 0 <= label_smoothing < 0.5:
    raise UsageError(
      f"label_smoothing={label_smoothing} must be at least 0 and below 0.5, "
      "where the order of a pair has no effect; nearest: "
      f"{0.0 if label_smoothing < 0 else 0.49}"
    )
  pair = chain(scores(), best_against_worst())
  return Method(
    advantage=pair,
    loss_filter=chain(pair, contrasted()),
    loss=contrastive(beta, label_smoothing, length_normalized),
    parameter_sets=(("ref", frozen()),),
  )
