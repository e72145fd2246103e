"""Reasoning that is worth something wherever it is cut off."""

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
  """Cuts every sample at each budget and has the "summary" policy finish it.

  `step_scores[..., s]` is the mean score of `summaries` completions of the
  tokens within budget s, a share of T; a sample that has ended keeps its own
  score. `step_ids` is the budget a token first lies in. The completions are the
  rollout of the learner "summary", `[P S (K - 1), summaries]`; the policy's
  "stage/tokens" counts them too.
  """

  def run(batch: PromptBatch, memory: Any) -> dict[str, types.Rollout]:
    rollout = samplers.once().run(batch, memory)
    room = rollout.mask.shape[-1]
    ends = [max(round(share * room), 1) for share in budgets]
    own = rollout.scores[..., None]
    found, known, parts = [], [], []
    drawn = metrics.sampled_tokens(rollout)
    for end in ends:
      if end >= room:  # the whole sample
        found.append(own)
        known.append(jnp.ones_like(own, bool))
        continue
      kept = jnp.minimum(rollout.tokens.lengths, end)
      open_ = rollout.tokens.lengths > end
      part = batch.extend(
        batch.parameter_sets["summary"], rollout, kept, summaries, open_
      )
      real = part.sample_mask & open_.reshape(-1, 1)
      drawn += part.extras["stage/drawn"].sum()
      counted = part.extras.update({"stage/tokens": jnp.zeros((), jnp.int32)})
      parts.append(part.replace(sample_mask=real, extras=counted))
      mean = masked.mean(part.scores, real).reshape(open_.shape)
      found.append(jnp.where(open_, mean, rollout.scores)[..., None])
      judged = real.any(-1).reshape(open_.shape)
      known.append((~open_ | judged)[..., None])
    at = jnp.searchsorted(
      jnp.asarray(ends[:-1]), jnp.arange(room), side="right"
    )
    whole = rollout.replace(
      step_ids=jnp.where(rollout.mask, at, -1),
      step_scores=jnp.concatenate(found, -1),
      step_mask=jnp.concatenate(known, -1),
    )
    whole = samplers.add_extras(whole, tokens=drawn)
    if not parts:
      nothing = rollout.replace(sample_mask=jnp.zeros_like(rollout.sample_mask))
      return {"policy": whole, "summary": nothing}
    return {"policy": whole, "summary": jax.tree.map(_stacked, *parts)}

  shares = ", ".join(f"{share:g}" for share in budgets)
  name = f"anytime(({shares}), summaries={summaries})"
  return Sampler(name, run, gives=("step_scores",))


def _stacked(*parts: Array) -> Array:
  """Prompts after prompts; what is no array of prompts is the same in all."""
  return jnp.concatenate(parts, 0) if parts[0].ndim else parts[0]


@transform("step")
def budget_relative(signal: Array, rollout: types.Rollout) -> Array:
  """A_s = return_s - (s V1_s + (K - s) V2_s) / K, every budget weighing 1 / K.

  return_s = sum_{j >= s} score_j / K. V1 = (K - s) / K times the sample's own
  past scores, weighed 2^j; V2 the group's mean return. A budget that does not
  exist has the score of the last one that does, or of the first.
  """
  size = signal.shape[-1]
  first = jnp.argmax(rollout.step_mask, -1, keepdims=True)
  index = jnp.where(rollout.step_mask, jnp.arange(size), first)
  index = jax.lax.cummax(index, axis=index.ndim - 1)
  known = jnp.where(rollout.valid("step"), signal, 0.0)
  score = jnp.take_along_axis(known, index, -1)
  returns = jnp.flip(jnp.cumsum(jnp.flip(score, -1), -1), -1) / size
  s = jnp.arange(size)
  weights = 2.0**s
  past = jnp.cumsum(weights * score, -1) - weights * score
  past = past / jnp.maximum(jnp.cumsum(weights) - weights, 1.0)
  own = (size - s) / size * past
  real = rollout.sample_mask[..., None]
  group = masked.mean(returns, jnp.broadcast_to(real, returns.shape), 1, True)
  baseline = (s * own + (size - s) * group) / size
  several = masked.count(real, 1, True) > 1
  return jnp.where(real & several, returns - baseline, 0.0)


def brpo_anytime(
  budgets: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0),
  summaries: int = 4,
  clip: float = 0.2,
) -> dict[str, Method]:
  """Thinking is paid for what it is worth at every budget it passes.

  "policy": A of `budget_relative` on the tokens of each budget, PPO-clip.
  "summary", a policy of its own that starts as the same: REINFORCE with the
  score minus the mean of the summaries of the same cut, no standard deviation.
  One budget has the advantage of Dr. GRPO. A group of one has advantage 0.
  Deviations: budgets are shares of T (the paper: 2000 to 8000 tokens, each
  weighing the same); a summary continues the thought itself, and the whole
  sample answers for itself.
  Source: Qi et al. 2025, Optimizing Anytime Reasoning via Budget Relative
  Policy Optimization.

  Raises:
    ValueError: budgets that do not rise to 1.
  """
  rising = all(a < b for a, b in zip((0, *budgets), budgets, strict=False))
  if not budgets or not rising or budgets[-1] != 1:
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
