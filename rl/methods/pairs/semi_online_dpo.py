"""Semi-online DPO: pairs of samples of a generator that lags behind."""

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


@transform("sample")
def best_against_worst(signal: jax.Array, rollout: types.Rollout) -> jax.Array:
  """+1 on the first best sample, -1 on the first worst, 0 on the others."""
  best, worst = best_and_worst(signal, members(rollout))
  return best.astype(jnp.float32) - worst


def semi_online_dpo(
  every: int = 10, beta: float = 0.1, nll_coef: float = 0.0
) -> Method:
  """DPO on the best and the worst of each group, sampled by an older policy.

  loss = -log sigma(beta [(log pi - log ref)(y_+) - (log pi - log ref)(y_-)])

  y_+ and y_- are the first samples with the highest and the lowest score: the
  first right and the first wrong one where scores are verdicts. A group of
  equal scores has no pair and is left out. The generator takes the policy's
  parameters after `every` training steps: 1 is online, the paper goes to 100.
  The reference stays where the run started. `nll_coef` adds the mean of
  -log pi over the tokens of y_+.
  Source: Lanchantin et al. 2025, Bridging Offline and Online Reinforcement
  Learning for LLMs.
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
