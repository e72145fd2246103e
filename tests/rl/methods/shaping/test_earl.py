"""Worked example of EARL."""

import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods


@pytest.mark.worked_example("method:earl")
@pytest.mark.parametrize(
  ("scope", "tokens"),
  # The highest entropy of each sample, or the two highest of seven tokens.
  [("response", [(0, 1), (1, 0), (2, 0)]), ("batch", [(0, 1), (1, 0)])],
)
def test_uncertain_tokens_and_kl(scope, tokens):
  """Sample 3 was cut off: it is in the z-scores, but not in the loss."""
  rollout = clipped_group.group(finished=np.array([[1, 1, 1, 0, 1]], bool))
  weights = np.zeros((5, 3))
  weights[tuple(np.transpose(tokens))] = 1 / len(tokens)
  loss, slopes = clipped_group.objective(
    clipped_group.Z_SCORES, weights, 0.8, 1.28
  )
  # 0.001 k3 over all 7 tokens: exp(d) - d - 1 with d = log ref - log pi.
  kl_weights = clipped_group.MASK / 7
  kl_weights[3] = 0
  pi = clipped_group.OLD * clipped_group.RATIOS
  loss += 0.001 * np.sum(kl_weights * (0.9 / pi - np.log(0.9 / pi) - 1))
  slopes = slopes + 0.001 * kl_weights * (1 - 0.9 / pi)
  m = methods.get("earl", scope=scope)
  other = {"ref": np.full((1, 5, 3), np.log(0.9))}
  clipped_group.check_loss(m, rollout, (loss, slopes), other=other)
  # A group of one verdict is not in the loss.
  wrong = rollout.replace(correct=np.array([[0, 0, 0, 0, 1]]))
  clipped_group.check_loss(m, wrong, (0, np.zeros((5, 3))), other=other)


def test_what_ties_with_the_quantile_and_what_does_not():
  """Interpolated between two values of 0.1, a quantile exceeds them."""
  rollout = worked_example.rollout(
    [1, 0],
    [2, 2],
    extras={"old/entropy": np.float32([[[0.1, 0.1], [0.7, 0.695]]])},
  )
  chosen = methods.get("earl").loss_filter
  np.testing.assert_array_equal(
    worked_example.apply(chosen, rollout), [[[True, True], [True, False]]]
  )
