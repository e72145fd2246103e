"""Genius: advantage-calibrated optimisation (ACO), without any label.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.method import Method
from rl.methods.pairs.contrast import best_and_worst, contrasted, contrastive
from rl.methods.pairs.pairwise import members
from rl.parameter_sets import frozen
from rl.transforms import chain, transform


@transform(takes="none", gives="sample")
def foresight(_, rollout: types.Rollout) -> jax.Array:
  """Returns w_i `[P, S]`, the mean log-prob per token after the first step.

  Log-probs are those of the policy that sampled, in nats. If sample i has no
  token after its first reasoning step, or the rollout has no step ids, the mean
  is over all tokens of the sample.
  """
  tokens = rollout.valid("token")
  if rollout.step_ids is not None:
    later = tokens & (rollout.step_ids > 0)  # [P, S, T]
    tokens = jnp.where(later.any(-1, keepdims=True), later, tokens)
  return masked.mean(rollout.behavior_log_probs, tokens)


@transform(takes="sample")
def calibrated_pair(
  signal: jax.Array, rollout: types.Rollout, *, alpha: float, max_factor: float
) -> jax.Array:
  """Returns +1 for the best sample, -f for the worst and 0 for the others.

  f = max(1, exp((w_+ - w_-) / alpha)), at most `max_factor`. The signal is w; +
  and - are the best and the worst sample of the group. A group of equal w has
  0.
  """
  best, worst = best_and_worst(signal, members(rollout))
  gap = masked.sum(signal, best) - masked.sum(signal, worst)  # [P]
  factor = jnp.clip(jnp.exp(gap / alpha), 1.0, max_factor)[..., None]
  return best - factor * worst


def aco(beta: float = 0.1, alpha: float = 1.0, most: float = 10.0) -> Method:
  """DPO between a group's most and least promising sample, without a label.

    w_i   mean log-prob per token after the first reasoning step of sample i
    loss  -log sigma(beta (d_+ - f d_-)), d = log pi - log ref of a sample
    f     max(1, exp((w_+ - w_-) / alpha)), at most `most`

  w and d are [P, S]; + and - are the samples with the largest and the smallest
  w of a group, sigma is the sigmoid and ref the policy at the start of the run.
  The further w_- is below w_+, the harder the rejected sample is pushed down;
  with f = 1 this is DPO. A group whose w are all equal has no pair. The loss is
  averaged over the groups with a pair.
  Deviation: the paper searches step by step with a beam of short simulated
  futures of each candidate step; in this implementation the samples of a group
  are the candidates for the first step, and their continuations are the
  futures. The paper rejects a random candidate; this implementation rejects the
  one with the smallest w. If the rollout has no step ids, w is the mean over
  the whole sample. The cap `most` and the default of beta are not from the
  paper.
  Source: Xu et al. 2025, Genius: A Generalizable and Purely Unsupervised
  Self-Training Framework for Advanced Reasoning.
  Quantity: foresight.

  Args:
    beta: factor of the log-ratios d.
    alpha: difference of w, in nats, at which f is e.
    most: largest f.
  """
  pair = chain(foresight(), calibrated_pair(alpha, most))
  return Method(
    advantage=pair,
    loss_filter=chain(pair, contrasted()),
    loss=contrastive(beta),
    parameter_sets=(("ref", frozen()),),
  )
