"""Anytime reasoning (BRPO): rewards for a thought cut off at any budget.

Axes: P prompts, S samples per prompt (a group), T completion tokens, K budgets.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from rl import masked, metrics, types
from rl.losses.aggregates import seq_mean_token_mean
from rl.losses.surrogates import ppo_clip, reinforce
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.parameter_sets import learned
from rl.sampling import samplers
from rl.sampling.samplers import PromptBatch, Sampler
from rl.transforms import (
  broadcast_steps,
  center,
  chain,
  scores,
  step_scores,
  transform,
)

Array = jax.Array


def anytime(budgets: tuple[float, ...], summaries: int) -> Sampler:
  """Cuts every sample at each budget and lets the "summary" policy complete it.

  `step_scores[..., s]` is the mean score of `summaries` completions of the
  tokens within budget s, a share of T; a sample that ended before has its own
  score there. `step_ids` is the first budget that contains a token. The
  completions are the rollout of the learner "summary", `[P S (K - 1),
  summaries]` for K budgets; their tokens are counted in the policy's
  "sampler/tokens".
  """

  def run(batch: PromptBatch, memory: Any) -> dict[str, types.Rollout]:
    rollout = samplers.once().run(batch, memory)
    size = rollout.mask.shape[-1]
    ends = [max(round(share * size), 1) for share in budgets]
    sample_scores = rollout.scores[..., None]  # [P, S, 1]
    all_scores, all_exist, parts = [], [], []  # by budget
    num_tokens = metrics.sampled_tokens(rollout)
    for end in ends:
      if end >= size:  # no sample is cut
        all_scores.append(sample_scores)
        all_exist.append(jnp.ones_like(sample_scores, bool))
        continue
      prefix_lengths = jnp.minimum(rollout.tokens.lengths, end)
      is_cut = rollout.tokens.lengths > end
      part = batch.extend(
        batch.parameter_sets["summary"],
        rollout,
        prefix_lengths,
        summaries,
        is_cut,
      )
      summary_mask = part.sample_mask & is_cut.reshape(-1, 1)
      num_tokens += part.extras["sampler/drawn"].sum()
      # The policy's rollout counts the tokens of the summaries, so here are 0.
      extras = part.extras.update({"sampler/tokens": jnp.zeros((), jnp.int32)})
      parts.append(part.replace(sample_mask=summary_mask, extras=extras))
      mean = masked.mean(part.scores, summary_mask).reshape(is_cut.shape)
      all_scores.append(jnp.where(is_cut, mean, rollout.scores)[..., None])
      has_summary = summary_mask.any(-1).reshape(is_cut.shape)
      all_exist.append((~is_cut | has_summary)[..., None])
    # Index of the first budget that contains token t, [T].
    budget_ids = jnp.searchsorted(
      jnp.asarray(ends[:-1]), jnp.arange(size), side="right"
    )
    policy_rollout = rollout.replace(
      step_ids=jnp.where(rollout.mask, budget_ids, -1),
      step_scores=jnp.concatenate(all_scores, -1),
      step_mask=jnp.concatenate(all_exist, -1),
    )
    policy_rollout = samplers.add_extras(policy_rollout, tokens=num_tokens)
    if not parts:
      empty = rollout.replace(sample_mask=jnp.zeros_like(rollout.sample_mask))
      return {"policy": policy_rollout, "summary": empty}
    return {"policy": policy_rollout, "summary": jax.tree.map(_stacked, *parts)}

  shares = ", ".join(f"{share:g}" for share in budgets)
  name = f"anytime(({shares}), summaries={summaries})"
  return Sampler(name, run, gives=("step_scores",))


def _stacked(*parts: Array) -> Array:
  """Concatenates along prompts; scalars are the same in all parts."""
  return jnp.concatenate(parts, 0) if parts[0].ndim else parts[0]


@transform(takes="step")
def budget_relative(signal: Array, rollout: types.Rollout) -> Array:
  """A_s = return_s - (s V1_s + (K - s) V2_s) / K, budgets s = 0, ..., K - 1.

  return_s = sum_{j >= s} score_j / K. V1 = (K - s) / K times the mean of the
  sample's earlier scores with weights 2^j; V2 is the group's mean return. A
  budget that does not exist has the score of the last one before it that does,
  or else of the first.
  """
  size = signal.shape[-1]
  # The index of the last budget up to s that exists, or else of the first one.
  first = jnp.argmax(rollout.step_mask, -1, keepdims=True)
  index = jnp.where(rollout.step_mask, jnp.arange(size), first)
  index = jax.lax.cummax(index, axis=index.ndim - 1)
  valid_scores = jnp.where(rollout.valid("step"), signal, 0.0)
  score = jnp.take_along_axis(valid_scores, index, -1)
  returns = jnp.flip(jnp.cumsum(jnp.flip(score, -1), -1), -1) / size
  s = jnp.arange(size)
  # V1 before the factor: the mean of the earlier scores with weights 2^j.
  weights = 2.0**s
  past = jnp.cumsum(weights * score, -1) - weights * score
  past = past / jnp.maximum(jnp.cumsum(weights) - weights, 1.0)
  sample_baseline = (size - s) / size * past
  valid = rollout.sample_mask[..., None]
  group_baseline = masked.mean(
    returns, jnp.broadcast_to(valid, returns.shape), 1, True
  )
  baseline = (s * sample_baseline + (size - s) * group_baseline) / size
  has_others = masked.count(valid, 1, True) > 1
  return jnp.where(valid & has_others, returns - baseline, 0.0)


def brpo_anytime(
  budgets: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0),
  summaries: int = 4,
  clip: float = 0.2,
) -> dict[str, Method]:
  """Rewards a thought by the score it leads to at every budget that it reaches.

  There are two learners. "policy" has A of `budget_relative`, [P, S, K], at the
  tokens of each budget, under PPO-clip. "summary", a policy of its own that
  starts from the same parameters, is trained with REINFORCE on the score minus
  the mean score of the summaries of the same prefix, without a standard
  deviation. Both losses are averaged over the tokens of a sample, then over
  samples. With one budget A is that of Dr. GRPO. A group with one sample has
  A = 0.
  Deviations: budgets are shares of T (the paper: 2000 to 8000 tokens with equal
  weights); a summary continues the thought itself, and a complete sample is its
  own answer.
  Source: Qi et al. 2025, Optimizing Anytime Reasoning via Budget Relative
  Policy Optimization.

  Args:
    budgets: shares of T, which rise to 1.
    summaries: completions per sample and budget.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    ValueError: if the budgets do not rise from above 0 to 1.
  """
  is_rising = all(a < b for a, b in zip((0, *budgets), budgets, strict=False))
  if not budgets or not is_rising or budgets[-1] != 1:
    raise ValueError(
      f"budgets = {budgets} must rise from above 0 to 1, as (0.25, 0.5, 1.0)"
    )
  return {
    "policy": Method(
      advantage=chain(step_scores(), budget_relative(), broadcast_steps()),
      loss=policy_gradient(
        ppo_clip(clip, clip), aggregate=seq_mean_token_mean()
      ),
      sampler=anytime(tuple(budgets), summaries),
      parameter_sets=(("summary", learned()),),
    ),
    "summary": Method(
      advantage=chain(scores(), center()),
      loss=policy_gradient(reinforce(), aggregate=seq_mean_token_mean()),
    ),
  }
