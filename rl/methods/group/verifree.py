"""VeriFree: the likelihood of the reference answer trains thought and answer.

Axes: P prompts, S samples per prompt (a group), T tokens of a text.
"""

import jax
import jax.numpy as jnp

from rl import scoring, types
from rl.losses.aggregates import seq_mean_token_sum
from rl.losses.surrogates import reinforce
from rl.losses.terms import Term, policy_gradient
from rl.method import Method
from rl.transforms import chain, leave_one_out, scores, transform

VIEW = "reference"  # the text in which the reference follows the thought
_LOG_PROBS = scoring.Need("policy", scoring.log_probs, VIEW)


@transform(takes="sample", gives="token")
def at_thoughts(signal: jax.Array, rollout: types.Rollout) -> jax.Array:
  """Copies the advantage of a sample to the tokens of its thought.

  The thought is what stands before the reference in `VIEW`. Other tokens have
  0. They are no loss filter, since a sample without a thought counts in the
  mean over samples.
  """
  view = scoring.view_tokens(rollout, VIEW)
  # [P, S], number of tokens before the reference; all if it has no token.
  lengths = jnp.where(
    view.mask.any(-1), jnp.argmax(view.mask, -1), view.lengths
  )
  positions = jnp.arange(rollout.mask.shape[-1])
  inside = rollout.mask & (positions < lengths[..., None])
  return jnp.where(inside, signal[..., None], 0.0)


def _reference_likelihood() -> Term:
  """Builds the term - R log pi of the reference's tokens after each thought."""
  return Term(
    name="reference_likelihood",
    fn=lambda score, policy, rollout: (
      -score[..., None] * policy[f"{VIEW}/{scoring.log_probs}"]
    ),
    takes="sample",
    gives="token",
    aggregate=seq_mean_token_sum(),
    view=VIEW,
    needs=frozenset({_LOG_PROBS}),
  ).of(signal=scores())


def verifree() -> Method:
  """The exact gradient of the mean probability of the reference, E_z[p(a*|z)].

    loss_i = - A_i sum_{t in z_i} log pi(z_it) - R_i sum_t log pi(a*_t | z_i)
    A_i    = R_i - mean of the others' R

  z_i is the thought of sample i, the tokens before its answer, and a* the
  reference answer, which takes the place of its answer in the view "reference"
  of the task. R_i [P, S] is the score of the sample: the reward `probability`,
  p(a*|z_i), and 0 for a thought without an end. Since grad E_z[p] = E_z[p grad
  log pi(z) + p grad log p(a*|z)], the second sum is supervised learning of the
  reference with the weight R, without a baseline. The tokens of the sampled
  answer are not trained. The loss is averaged over samples; it has no ratio and
  no KL, so that it is right for one update per rollout.
  Source: Zhou et al. 2025, Reinforcing General Reasoning without Verifiers
  (VeriFree).
  Quantity: probability.
  """
  gradient = policy_gradient(reinforce(), aggregate=seq_mean_token_sum())
  return Method(
    advantage=chain(scores(), leave_one_out(), at_thoughts()),
    loss=gradient + _reference_likelihood(),
  )
