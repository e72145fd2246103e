"""A judge looks again at some of the answers that a verifier has rejected."""

from __future__ import annotations

import hashlib

import numpy as np

from rewards.judged import agrees as verdicts
from rewards.judged import base
from rewards.verifiers import Item
from rl import UsageError

NOT_ASKED = -1.0  # answer about a sample that was not appealed


def appeal(share: float = 0.25) -> base.Question:
  """Asks whether a rejected answer is right after all: 1, 0, or -1 unasked.

  A sample is rejected if its score is 0. A share of the rejected samples,
  chosen by a hash of the prompt and the completion, is asked about by the
  question `agrees`; all other samples are -1 without a request. The method
  `noisy_appeals` estimates the verifier's rate of false negatives from them.
  Source: Reinforcement Learning with Verifiable yet Noisy Rewards under
  Imperfect Verifiers (its appeals).
  Quantity: none, since the answers become one rate of the batch.

  Args:
    share: share of the rejected samples, approximately, above 0 and at most 1.

  Raises:
    UsageError: the share is out of range.
  """
  if not 0 < share <= 1:
    raise UsageError(f"share = {share} must be above 0 and at most 1")
  question = verdicts.agrees()

  def is_appealed(item: Item) -> bool:
    text = f"{item.prompt}\n{item.completion}"
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).digest()
    uniform = int.from_bytes(digest[:8], "big") / 2**64
    return item.meta["score"] == 0 and uniform < share

  def ask(groups, complete, workers):
    items = [item for group in groups for item in group]
    chosen = [i for i, item in enumerate(items) if is_appealed(item)]
    values = np.full(len(items), NOT_ASKED, np.float32)
    if chosen:
      values[chosen] = question.ask(
        [[items[i]] for i in chosen], complete, workers
      )[:, 0]
    return values.reshape(len(groups), -1)

  return base.Question(ask)
