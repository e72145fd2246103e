"""Groups that agree are judged against other prompts, the others within."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, group_normalize, scores, transform

_ANSWERS = scoring.provided("task", "answer_ids")


@transform("sample")
def group_mean_z_score(signal: jax.Array, rollout: types.Rollout) -> jax.Array:
  """z-score (ddof 0) of the group's mean among the prompts of the batch."""
  means = masked.mean(signal, rollout.sample_mask)
  z = masked.whiten(means, rollout.valid("prompt"), 0)
  return jnp.where(rollout.sample_mask, z[:, None], 0.0)


@transform("sample", needs={_ANSWERS})
def gate_by_disagreement(
  signal: jax.Array, rollout: types.Rollout, *, gamma: float, rho: float
) -> jax.Array:
  """A sigmoid(gamma (H - rho)), H the entropy of the group's answers / log n.

  Answers are the same where their ids are; H is 0 of a single sample.
  """
  ids, real = rollout.extras[_ANSWERS], rollout.sample_mask
  n = masked.count(real, keepdims=True)
  same = (ids[:, :, None] == ids[:, None, :]) & real[:, None, :]
  surprise = jnp.log(jnp.maximum(n, 1.0) / jnp.maximum(same.sum(-1), 1))
  entropy = masked.mean(surprise, real, keepdims=True)
  share = entropy / jnp.log(jnp.maximum(n, 2.0))
  return signal * jax.nn.sigmoid(gamma * (share - rho))


def copo(gamma: float = 10.0, rho: float = 0.5, clip: float = 0.2) -> Method:
  """L = w L(z-score in the group) + (1 - w) L(its mean's z-score in the batch).

  w = sigmoid(gamma (H - rho)), H the entropy of the group's final answers as a
  share of log n. A group of one opinion has no advantage of its own, so its
  mean is held against the other prompts': unanimous and wrong is pushed down.
  Two PPO-clips, token mean, no KL. Unparsed answers are one answer, if the task
  gives them one id.
  What is open: the form of the gate, gamma and rho, the aggregate.
  Source: Han et al. 2025, COPO: Consistency-Aware Policy Optimization.
  """
  within = chain(scores(), group_normalize(), gate_by_disagreement(gamma, rho))
  across = chain(
    scores(), group_mean_z_score(), gate_by_disagreement(-gamma, rho)
  )
  loss = policy_gradient(ppo_clip(clip, clip))
  return Method(advantage=within, loss=loss + loss.of(signal=across))
