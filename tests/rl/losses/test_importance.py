"""Tests of `rl.losses.importance`: weights of stale tokens by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl import transforms
from rl.losses import importance, surrogates, terms
from rl.method import Method
from rl.transforms import chain, scores

close = np.testing.assert_allclose
# Two samples of three and two tokens, and one that does not exist. The weights
# of their tokens are exp(old - behavior).
WEIGHTS = np.array([[[0.5, 2.0, 8.0], [3.0, 0.25, 1e9], [1e9] * 3]])
BEHAVIOR = np.array([[[-3.0, -2.5, -4.0], [-2.0, -1.0, -9.0], [-5.0] * 3]])
SCORES = [3.0, -2.0, 7.0]
ROLLOUT = worked_example.rollout(
  SCORES,
  [3, 2, 3],
  behavior_log_probs=BEHAVIOR,
  extras={"old/log_probs": jnp.float32(BEHAVIOR + np.log(WEIGHTS))},
  sample_mask=jnp.array([[True, True, False]]),
)
PPO = terms.policy_gradient(surrogates.ppo_clip())
ADVANTAGE = chain(scores())


def _apply(transform, signal):
  return np.asarray(transform.apply(jnp.asarray(signal), ROLLOUT, ())[0])


def test_an_advantage_is_multiplied_by_the_truncated_ratio_of_its_token():
  advantages = np.array([[[1.0, -2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]])
  weighted = _apply(importance.truncated_importance(4.0), advantages)
  # Tokens that are not scored keep their advantage.
  close(
    weighted,
    [[[0.5, -4.0, 12.0], [12.0, 1.25, 6.0], [7.0, 8.0, 9.0]]],
    rtol=1e-5,
  )


def test_all_tokens_of_a_sample_have_the_geometric_mean_of_its_weights():
  advantages = np.array([[[1.0, -2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]])
  transform = importance.truncated_geometric_importance(4.0)
  # (0.5 * 2 * 4)^(1/3) and (3 * 0.25)^(1/2); 1 without a scored token.
  means = np.array([4 ** (1 / 3), 0.75**0.5, 1.0])
  close(_apply(transform, advantages), advantages * means[:, None], rtol=1e-5)


def test_weights_multiply_the_advantages_of_samples_at_their_tokens():
  method = importance.add_importance_weights(Method(PPO, ADVANTAGE), 4.0)
  tokens = np.array([[[1.5, 6.0, 12.0], [-6.0, -0.5, 0.0], [0.0] * 3]])
  weighted = worked_example.apply(method.advantage, ROLLOUT)
  close(np.where(ROLLOUT.valid("token"), weighted, 0), tokens, rtol=1e-5)
  assert method.advantage.gives == "token"
  # An advantage of tokens is not copied to them.
  by_token = chain(scores(), transforms.place_last())
  method = importance.add_importance_weights(Method(PPO, by_token), 4.0)
  weighted = worked_example.apply(method.advantage, ROLLOUT)
  last = np.array([[[0, 0, 12.0], [0, -0.5, 0], [0, 0, 7.0]]])
  close(weighted, last, rtol=1e-5)


def test_a_term_with_a_signal_of_its_own_stays_as_it_is():
  """A term without a signal stays as it is, too."""
  rescored = PPO.of(signal=chain(scores(), transforms.center()))
  loss = 0.5 * terms.kl() + rescored + PPO
  method = importance.add_importance_weights(Method(loss, ADVANTAGE), 2.0)
  assert method.loss.terms == loss.terms
  assert "truncated_importance(cap=2)" in str(method.advantage)
  alone = importance.add_importance_weights(Method(rescored, ADVANTAGE), 2.0)
  assert "truncated_importance(cap=2)" in str(alone.advantage)


def test_the_advantage_has_the_weights_of_the_first_term_that_reads_it():
  """A term without a signal is not asked; another kind gets a signal."""

  @surrogates.surrogate(gives="sample", token_mean="geometric")
  def product(log_ratio, advantages, policy, rollout):
    """A geometric mean of ratios."""
    del policy, rollout
    return (log_ratio * advantages).sum(-1)

  loss = terms.kl() + terms.policy_gradient(product()) + PPO
  method = importance.add_importance_weights(Method(loss, ADVANTAGE), 2.0)
  assert "truncated_geometric_importance(cap=2)" in str(method.advantage)
  kl, geometric, arithmetic = method.loss.terms
  assert kl.signal is geometric.signal is None
  assert "truncated_importance(cap=2)" in str(arithmetic.signal)


def test_methods_that_cannot_be_weighted_are_refused():
  method = Method(PPO, ADVANTAGE)
  for cap in (0, -1.0):
    with pytest.raises(ValueError, match=f"cap = {cap} must be above 0"):
      importance.add_importance_weights(method, cap)
  importance.add_importance_weights(method, 0.5)
  with pytest.raises(ValueError, match="method has no advantage that"):
    importance.add_importance_weights(Method(terms.nll()), 2.0)
  behind = terms.policy_gradient(surrogates.ppo_clip(), denominator="behavior")
  with pytest.raises(ValueError, match=r"policy_gradient.*behavior policy alr"):
    importance.add_importance_weights(Method(behind, ADVANTAGE), 2.0)
