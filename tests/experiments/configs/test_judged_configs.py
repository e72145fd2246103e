"""The configs that a judge pays: what the judge says reaches the gradient."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import method_contract, worked_example

from experiments.cli import spec
from experiments.configs import judged, reward
from experiments.training import build

CONFIGS = [
  *(("judged", name) for name in judged.names()),
  *(("reward", name) for name in reward.names()),
]


@pytest.mark.parametrize(("file", "name"), CONFIGS)
def test_a_method_reads_the_reward_of_its_config(file, name):
  """A method that pays verdicts of its own does not."""
  config = {"judged": judged, "reward": reward}[file].get_config(name)
  method, _ = spec.parse(config.method)
  signal = method_contract.rows()[method].signal
  assert not config.reward or "scores" in signal
  assert not config.step_reward or "step_scores" in signal


def test_relevance_reaches_the_gradient():
  """The distinct trigrams are 2 of 2, 1 of 2, 2 of 2 and 1 of 3."""
  texts = [[0, 1, 0, 1, 1], [0, 0, 0, 0, 1], [0, 0, 1, 1, 0], [0] * 5]
  rollout = worked_example.rollout(
    np.ones(4),
    [4, 4, 4, 5],
    components={
      "near": [0.5, 0.5, 0.5, 0.9],
      "right": [0.8, 0.6, 0.4, 0.2],
      "open": [0, 0, 0, 0],
    },
  )
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(completions=jnp.array([texts]))
  )
  method = build.build(judged.relevant()).method
  paid, _ = method.reward.apply(rollout, method.init())
  expected = [0.8, 0.6 / 2, 0.4, 0.2 / 3]
  np.testing.assert_allclose(paid.scores, [expected], rtol=1e-5)
  is_open = {**rollout.components, "open": jnp.ones((1, 4))}
  paid, _ = method.reward.apply(
    rollout.replace(components=is_open), method.init()
  )
  expected = [0.5 * 0.04, 0.5 * 0.04 / 2, 0.5 * 0.04, 0.9 * 0.05 / 3]
  np.testing.assert_allclose(paid.scores, [expected], rtol=1e-5)

  # The samples have the same verdict; their relevance changes places.
  other = {**rollout.components}
  other["right"] = other["right"][:, ::-1]
  log_probs = np.full((1, 4, 5), np.log(0.3))
  slopes = [
    worked_example.loss(method, rollout.replace(components=c), log_probs)[1]
    for c in (rollout.components, other)
  ]
  # A sample with a larger reward becomes likelier, here at tokens of id 0.
  assert slopes[0][0, 0, 2] < 0 < slopes[0][0, 3, 4]
  assert np.abs(slopes[0] - slopes[1]).max() > 0.01
