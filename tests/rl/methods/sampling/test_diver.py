"""Worked example of DIVER."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods, scoring
from rl.methods.sampling import diver


@pytest.mark.worked_example("method:diver")
def test_bonus_of_different_right_samples():
  """R + min(d, 0.09), or 0.42 for steps, in the first 100 training steps."""
  exists = np.array([[True, True, True, True, False]])
  for kind, cap in (("bleu", 0.09), ("steps", 0.42)):
    rollout = worked_example.rollout(
      [1, 1, 0.2, 0, 9],
      correct=[1, 1, 0, -1, 1],
      sample_mask=exists,
      step=jnp.int32(99),
      extras={f"host/diversity({kind})": [[0.05, 0.5, 0.4, 0.3, np.nan]]},
    )
    m = methods.get("diver", kind=kind)
    rewards = np.array([1.05, 1 + cap, 0.2, 0])
    target = (rewards - rewards.mean()) / rewards.std(ddof=1)
    actual = worked_example.advantages(m, rollout)
    np.testing.assert_allclose(actual, [[*target, 0]], rtol=1e-5)
    rewards = np.array([1, 1, 0.2, 0])
    target = (rewards - rewards.mean()) / rewards.std(ddof=1)
    rollout = rollout.replace(step=jnp.int32(100))
    actual = worked_example.advantages(m, rollout)
    np.testing.assert_allclose(actual, [[*target, 0]], rtol=1e-5)


@pytest.mark.worked_example("method:diver")
def test_diversity_of_tokens_and_clip():
  """A right sample 0 0, and wrong ones 1 1 1, 0 1 and 0: d > 0.09.

  BLEU is 0 where no bigram is shared; that of 0 against 0 0 or 0 1 is exp(1 -
  2/1), and 0 in the other direction.
  """
  rollout = clipped_group.group()
  ids = jnp.array([[[0, 0, 7], [1, 1, 1], [0, 1, 7], [0, 7, 7], [0, 0, 7]]])
  tokens = rollout.tokens.replace(completions=ids)
  m = methods.get("diver")
  scored = scoring.compute_on_host(
    m.signal_needs, rollout.replace(tokens=tokens)
  )
  e = 1 / np.e / 2
  d = np.asarray(scored.extras["host/diversity(bleu)"])[0]
  np.testing.assert_allclose(
    d, [1 - e / 3, 1, 1 - e / 3, 1 - 2 * e / 3, 0], rtol=1e-5
  )
  # With the bonus the mean of the scores changes, but not their z-scores.
  expected = clipped_group.objective(
    clipped_group.Z_SCORES, clipped_group.TOKEN_MEAN, 0.8, 1.28
  )
  scored = scored.replace(tokens=rollout.tokens)
  clipped_group.check_loss(m, scored, expected)


@pytest.mark.worked_example("method:diver")
def test_bleu_of_a_sequence_and_its_beginning():
  """Precisions 5/6, 4/5, 3/4, 2/3 and 1/2; in reverse the brevity penalty."""
  precisions = np.array([5 / 6, 4 / 5, 3 / 4, 2 / 3, 1 / 2])
  log_bleu = np.array([0.02, 0.1, 0.15, 0.25, 0.38]) @ np.log(precisions)
  sequence, part = [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5]
  np.testing.assert_allclose(diver.bleu(sequence, part), np.exp(log_bleu))
  np.testing.assert_allclose(diver.bleu(part, sequence), np.exp(1 - 6 / 5))
  assert diver.bleu([], part) == diver.bleu(part, []) == 0


@pytest.mark.worked_example("method:diver")
def test_diversity_of_steps():
  """Shares of steps that no other sample has; tokens outside have no part."""
  rollout = worked_example.rollout(
    [0, 0, 0, 0],
    steps=[[1, 2], [1, 1, 1], [2], [2, 1]],
    sample_mask=jnp.array([[True, True, True, False]]),
  )
  ids = jnp.array([[[1, 2, 3], [1, 4, 5], [2, 3, 8], [6, 7, 8]]])
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(completions=ids),
    # The last token of the second sample is in no step.
    step_ids=rollout.step_ids.at[0, 1, 2].set(-1),
  )
  # The steps are (1), (2, 3); (1), (4); (2, 3), and of no sample (6, 7), (8).
  needs = methods.get("diver", kind="steps").signal_needs
  scored = scoring.compute_on_host(needs, rollout)
  d = scored.extras["host/diversity(steps)"]
  np.testing.assert_allclose(d, [[0, 1 / 2, 0, 0]])
  with pytest.raises(ValueError, match="the rollout has no steps"):
    scoring.compute_on_host(needs, rollout.replace(step_ids=None))
