"""Anytime reasoning (BRPO): rewards for a thought cut off at any budget.

Axes: P prompts, S samples per prompt (a group), T completion tokens, K budgets.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from rl import UsageError, masked, metrics, types
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
  """Returns a sampler that completes each sample from a cut at each budget.

  A sample is cut after the tokens of each budget, a share of T, and the policy
  "summary" completes it `summaries` times. The rollout of the learner "policy"
  has these fields, with K budgets:

    step_scores [P, S, K]  mean score of the completions from budget k; the
                           sample's own score if it ended within the budget
    step_mask [P, S, K]    False if a sample was cut and no completion exists
    step_ids [P, S, T]     first budget that contains the token

  The completions are the rollout of the learner "summary", `[P S B, summaries]`
  for the B budgets below T. Their tokens are counted in the extra
  "sampler/tokens" of the policy's rollout.
  """

  def run(batch: PromptBatch, memory: Any) -> dict[str, types.Rollout]:
    rollout = samplers.once().run(batch, memory)
    size = rollout.mask.shape[-1]  # T
    ends = [max(round(share * size), 1) for share in budgets]
    sample_scores = rollout.scores[..., None]  # [P, S, 1]
    all_scores, all_exist, completion_rollouts = [], [], []  # one per budget
    num_tokens = metrics.sampled_tokens(rollout)
    for end in ends:
      if end >= size:  # no sample is cut
        all_scores.append(sample_scores)
        all_exist.append(jnp.ones_like(sample_scores, bool))
        continue
      prefix_lengths = jnp.minimum(rollout.tokens.lengths, end)
      is_cut = rollout.tokens.lengths > end
      completions = batch.extend(
        batch.parameter_sets["summary"],
        rollout,
        prefix_lengths,
        summaries,
        is_cut,
      )
      summary_mask = completions.sample_mask & is_cut.reshape(-1, 1)
      num_tokens += completions.extras["sampler/drawn"].sum()
      # 0, because the policy's rollout counts the tokens of the completions.
      extras = completions.extras.update(
        {"sampler/tokens": jnp.zeros((), jnp.int32)}
      )
      completion_rollouts.append(
        completions.replace(sample_mask=summary_mask, extras=extras)
      )
      mean = masked.mean(completions.scores, summary_mask).reshape(is_cut.shape)
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
    if not completion_rollouts:
      empty = rollout.replace(sample_mask=jnp.zeros_like(rollout.sample_mask))
      return {"policy": policy_rollout, "summary": empty}
    return {
      "policy": policy_rollout,
      "summary": jax.tree.map(_concatenate, *completion_rollouts),
    }

  shares = ", ".join(f"{share:g}" for share in budgets)
  name = f"anytime(({shares}), summaries={summaries})"
  return Sampler(name, run, gives=("step_scores",))


def _concatenate(*arrays: Array) -> Array:
  """Concatenates along prompts; scalars are the same in all rollouts."""
  return jnp.concatenate(arrays, 0) if arrays[0].ndim else arrays[0]


@transform(takes="step")
def budget_relative(signal: Array, rollout: types.Rollout) -> Array:
  """A_s = return_s - (s V1_s + (K - s) V2_s) / K, budgets s = 0, ..., K - 1.

  return_s = sum_{j >= s} score_j / K is the return from budget s on. V1_s is
  (K - s) / K times the mean of the sample's scores j < s with weights 2^j, and
  V2_s the mean of return_s over the group. A budget that does not exist
  (`step_mask`) has the score of the last earlier budget that does, or else of
  the first budget that does. A group with one sample has 0.
  """
  num_budgets = signal.shape[-1]  # K
  # The index of the last budget up to s that exists, or else of the first one.
  first = jnp.argmax(rollout.step_mask, -1, keepdims=True)
  index = jnp.where(rollout.step_mask, jnp.arange(num_budgets), first)
  index = jax.lax.cummax(index, axis=index.ndim - 1)
  valid_scores = jnp.where(rollout.valid("step"), signal, 0.0)
  score = jnp.take_along_axis(valid_scores, index, -1)
  returns = jnp.flip(jnp.cumsum(jnp.flip(score, -1), -1), -1) / num_budgets
  s = jnp.arange(num_budgets)
  # Mean of the sample's earlier scores with weights 2^j.
  weights = 2.0**s
  past = jnp.cumsum(weights * score, -1) - weights * score
  past = past / jnp.maximum(jnp.cumsum(weights) - weights, 1.0)
  sample_baseline = (num_budgets - s) / num_budgets * past  # V1
  valid = rollout.sample_mask[..., None]
  group_baseline = masked.mean(
    returns, jnp.broadcast_to(valid, returns.shape), axis=1, keepdims=True
  )  # V2
  baseline = s * sample_baseline + (num_budgets - s) * group_baseline
  baseline = baseline / num_budgets
  has_others = masked.count(valid, axis=1, keepdims=True) > 1
  return jnp.where(valid & has_others, returns - baseline, 0.0)


def brpo_anytime(
  budgets: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0),
  summaries: int = 4,
  clip: float = 0.2,
) -> dict[str, Method]:
  """Rewards a thought by the score it leads to at every budget that it reaches.

  A thought is a sample up to a budget of tokens. There are two learners.
  "policy" writes the thoughts: it has the advantage of `budget_relative`, [P,
  S, K], at the tokens of each budget, under PPO-clip. "summary", a policy of
  its own that starts from the same parameters, completes thoughts to answers:
  it is trained with REINFORCE on the score of a completion minus the mean score
  of the completions of the same thought, without a division by the standard
  deviation. Both losses are averaged over the tokens of each sample, then over
  samples. With one budget the policy's advantage is that of Dr. GRPO. A group
  with one sample has A = 0.
  Deviation: the paper's budgets are 2000 to 8000 tokens with equal weights; in
  this implementation they are shares of T. A completion continues the thought
  itself, and a sample that ended within a budget is its own answer.
  Source: Qi et al. 2025, Optimizing Anytime Reasoning via Budget Relative
  Policy Optimization.
  Quantity: step_scores.

  Args:
    budgets: shares of T, the largest number of completion tokens; they must
      rise to 1.
    summaries: number of completions per sample and budget.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    UsageError: if the budgets do not rise from above 0 to 1.
  """
  is_rising = all(a < b for a, b in zip((0, *budgets), budgets, strict=False))
  if not budgets or not is_rising or budgets[-1] != 1:
    raise UsageError(
      f"budgets = {budgets} must rise from above 0 to 1, such as "
      "(0.25, 0.5, 1.0)"
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
