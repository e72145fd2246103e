"""Worked examples of PRIME."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example, worked_example

from rl import methods

# Accuracies 1/2 (of a group of three with an unknown verdict, of which a right
# sample does not exist), 1 and 2/3, one with a sample that was cut, and 1/4.
VERDICTS = [[1, 1, 0, -1], [1, 1, 1, 1], [1, 0, 1, -1]]
VERDICTS += [[1, 0, 0, 0], [0, 1, 0, 0]]
# q = log pi_prm - log pi_ref, by sample, token and group.
Q = 3 * np.cos(np.arange(1, 61)).reshape(5, 4, 3)
LENGTHS = clip_example.LENGTHS[[0, 1, 2, 0, 1], :4]
# The groups that are learned from.
GROUPS = {0: (0, 2, 3), 2: (0, 1, 2, 3), 4: (0, 1, 2, 3)}


def rollout():
  example = clip_example.rollout(np.full((5, 4), 0.5))
  finished = np.ones((5, 4), bool)
  finished[3, 1] = finished[0, 1] = False
  return example.replace(
    correct=jnp.array(VERDICTS, jnp.int8), finished=jnp.asarray(finished)
  )


def to_go(rewards):
  return np.cumsum(rewards[::-1])[::-1]


def advantages(baseline, weight):
  """Whitened returns of the process rewards and of the verdicts."""
  rewards = {
    (p, i): np.append(Q[p, i, : LENGTHS[p, i] - 1], 0)  # 0 at the last token
    for p, members in GROUPS.items()
    for i in members
  }
  largest = max(abs(to_go(r)).max() for r in rewards.values()) + 1e-6
  returns = {}
  for p, members in GROUPS.items():
    r = {i: rewards[p, i] / largest for i in members}
    n = len(members)
    labelled = [i for i in members if VERDICTS[p][i] >= 0]
    for i in members:
      if baseline == "released":
        # n / (n - 1) r_it - sum_j mean_t r_jt / (n - 1)
        total = sum(r[j].mean() for j in members)
        centered = n / (n - 1) * r[i] - total / (n - 1)
      else:
        # r_it - the mean over j != i of mean_t r_jt
        centered = r[i] - np.mean([r[j].mean() for j in members if j != i])
      centered = weight * centered
      if i in labelled:
        others = [VERDICTS[p][j] for j in labelled if j != i]
        centered[-1] += VERDICTS[p][i] - np.mean(others)
      returns[p, i] = to_go(centered)
  present = np.concatenate(list(returns.values()))
  result = np.zeros((5, 4, 3))
  for (p, i), values in returns.items():
    z = (values - present.mean()) / np.sqrt(present.var(ddof=1) + 1e-8)
    result[p, i, : len(values)] = z
  return result


@pytest.mark.worked_example("method:prime")
@pytest.mark.parametrize(
  ("hyper", "weight"),
  [({}, 1), ({"baseline": "paper", "process_coef": 3.0}, 3)],
)
def test_policy(hyper, weight):
  """Process rewards and verdicts of three groups, of 6, 7 and 8 tokens."""
  example = rollout()
  mask = clip_example.mask(example)
  mask[[1, 3]] = 0
  ref = np.full(mask.shape, -5.0)
  clip_example.check_clip(
    methods.get("prime", **hyper)["policy"],
    example,
    advantages(hyper.get("baseline", "released"), weight),
    mask / 21,
    0.2,
    0.2,
    other={"ref": ref, "prm": ref + Q},
  )


@pytest.mark.worked_example("method:prime")
def test_reward_model():
  """-[y log sigma(r) + (1 - y) log(1 - sigma(r))], r = 0.05 sum_t q_t."""
  example = rollout()
  mask = clip_example.mask(example)
  q = 10 * Q
  ref = np.full(mask.shape, -40.0)
  loss, slopes = worked_example.loss(
    methods.get("prime")["prm"], example, ref + q, other={"ref": ref}
  )
  expected, wanted_slopes = 0, np.zeros(mask.shape)
  # The 2 + 3 + 4 samples with a known verdict.
  labelled = [(0, 0), (0, 2), (2, 0), (2, 1), (2, 2)]
  for p, i in labelled + [(4, i) for i in range(4)]:
    r = 0.05 * (q * mask)[p, i].sum()
    sigma, y = 1 / (1 + np.exp(-r)), VERDICTS[p][i]
    expected -= (y * np.log(sigma) + (1 - y) * np.log(1 - sigma)) / 9
    wanted_slopes[p, i] = 0.05 * (sigma - y) * mask[p, i] / 9
  np.testing.assert_allclose(loss, expected, rtol=1e-5)
  np.testing.assert_allclose(slopes, wanted_slopes, rtol=1e-4, atol=1e-7)


@pytest.mark.worked_example("method:prime")
def test_order_of_updates():
  """By default the reward model is updated after the policy."""
  assert list(methods.get("prime")) == ["policy", "prm"]
  assert list(methods.get("prime", update="before")) == ["prm", "policy"]
