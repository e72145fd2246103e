"""Free process rewards: log-ratios that predict the verdict."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.process.step_losses import base
from rl import UsageError

KINDS = ("ce", "dpo", "nca", "kto")


def implicit(kind: str = "ce", beta: float = 0.05) -> base.StepLoss:
  """A loss of r(y) = beta sum_t (log phi(y_t) - log ref(y_t)) of a sample y.

    ce:   -(c log sigmoid(r) + (1 - c) log sigmoid(-r)), c the verdict
    dpo:  -log sigmoid(r_+ - r_-)
    nca:  -log sigmoid(r_+) - 1/2 log sigmoid(-r_+) - 1/2 log sigmoid(-r_-)
    kto:  (1 - sigmoid(r_+ - z_-) + 1 - sigmoid(z_+ - r_-)) / 2

  phi is the decoder, and ref the decoder before the first update. + and - are a
  right and a wrong sample of a problem: every pair is an example of "dpo",
  "nca" and "kto". z_+ and z_- are the means of r_+ and r_- over the batch, at
  least 0, and have no gradient. The score of a step is beta times the sum of
  the log-ratios of its tokens, so that the scores of a sample add up to r. No
  head and no label of a step is read.
  Source: Yuan et al. 2024, Free Process Rewards without Process Labels. The
  form of KTO is that of OpenRLHF, whose estimates z come from the batch.

  Args:
    kind: one of `KINDS`.
    beta: factor of the log-ratio.

  Raises:
    UsageError: `kind` is unknown.
  """
  if kind not in KINDS:
    raise UsageError(f"kind = {kind!r} must be one of {', '.join(KINDS)}")

  def rewards(outputs, data):
    return beta * base.log_ratios_of_steps(outputs, data).sum(-1)  # [E, S]

  def cross_entropy(outputs, data):
    r = rewards(outputs, data)
    values = jax.nn.softplus(r) - (data.correct == 1) * r
    total = jnp.sum(jnp.where(data.correct >= 0, values, 0.0))
    return total / jnp.maximum(base.num_verdicts(data), 1)

  def pairwise(outputs, data):
    right, wrong = jnp.moveaxis(rewards(outputs, data), -1, 0)
    if kind == "dpo":
      return jax.nn.softplus(wrong - right).mean()
    if kind == "kto":
      z = jax.lax.stop_gradient(
        jnp.maximum(jnp.stack([right.mean(), wrong.mean()]), 0.0)
      )
      gains = jax.nn.sigmoid(right - z[1]) + jax.nn.sigmoid(z[0] - wrong)
      return 1 - gains.mean() / 2
    both = jax.nn.softplus(right) + jax.nn.softplus(wrong)
    return (jax.nn.softplus(-right) + both / 2).mean()

  return base.StepLoss(
    f"implicit({kind})",
    1,
    cross_entropy if kind == "ce" else pairwise,
    score=lambda outputs, data: beta * base.log_ratios_of_steps(outputs, data),
    count=base.num_verdicts if kind == "ce" else None,
    examples=base.each_line if kind == "ce" else base.right_and_wrong,
    reads_reference=True,
    targets=("verdicts",),
    is_probability=False,
  )
