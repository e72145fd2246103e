"""Semi-online DPO: pairs sampled by a generator that lags behind."""

import jax
import jax.numpy as jnp

from rl import types
from rl.losses.terms import nll
from rl.method import Method
from rl.methods.pairs.contrast import (
  best_and_worst,
  best_of_group,
  contrasted,
  contrastive,
)
from rl.methods.pairs.pairwise import members
from rl.parameter_sets import frozen, sync
from rl.transforms import chain, scores, transform


@transform(takes="sample")
def best_against_worst(signal: jax.Array, rollout: types.Rollout) -> jax.Array:
  """+1 on the first best sample, -1 on the first worst, 0 on the others."""
  best, worst = best_and_worst(signal, members(rollout))
  return best.astype(jnp.float32) - worst


def semi_online_dpo(
  every: int = 10, beta: float = 0.1, nll_coef: float = 0.0
) -> Method:
  """DPO on the best and the worst sample of each group of an older policy.

    loss = -log sigma(beta [d(y_+) - d(y_-)]), d = log pi - log ref

  y_+ and y_- are the first samples of a group with the highest and the lowest
  score, and sigma is the sigmoid. A group of equal scores has no pair and is
  left out. ref is the policy at the start of the run.
  Source: Lanchantin et al. 2025, Bridging Offline and Online Reinforcement
  Learning for LLMs.

  Args:
    every: training steps between copies of the policy's parameters to the
      generator; 1 is online, the paper's largest is 100.
    beta: scale of the log-ratios.
    nll_coef: weight of the mean of -log pi over the tokens of y_+.
  """
  pair = chain(scores(), best_against_worst())
  loss = contrastive(beta)
  if nll_coef:
    chosen = chain(pair, best_of_group()) & chain(pair, contrasted())
    loss = loss + nll_coef * nll().of(loss_filter=chosen)
  return Method(
    advantage=pair,
    loss_filter=chain(pair, contrasted()),
    loss=loss,
    parameter_sets=(("ref", frozen()), ("generator", sync(every))),
    behavior="generator",
  )
