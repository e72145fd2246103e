"""Half of the samples from a policy that has just forgotten the other half."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses.aggregates import seq_mean_token_mean
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.sampling.samplers import PromptBatch, Sampler, join, once
from rl.transforms import chain, group_normalize, scores

Array = jax.Array
_LARGEST = 1 - 1e-4  # of a probability, so that log(1 - p) is finite


def unlearning_loss(log_probs: Array, mask: Array) -> Array:
  """mean over samples of mean_t - log(1 - p_t); d/d log p = p / (1 - p).

  Descending it lowers the probability of what was sampled, most where the
  policy is sure.

  Args:
    log_probs, mask: `[P, S, T]`.
  """
  p = jnp.minimum(jnp.exp(log_probs), _LARGEST)
  each = masked.mean(-jnp.log1p(-p), mask)
  return masked.mean(each, mask.any(-1), (0, 1))


def forget(rate: float, threshold: float, window: int) -> Sampler:
  """The second half is drawn after one step of `unlearning_loss` on the first.

  Only while the mean entropy of the last `window` steps is below `threshold`
  (nats); the forgetful parameters last for this rollout. Memory: the entropies.
  Its gradient is over the whole first half at once, whatever the plan's
  microbatches: so much memory it takes.
  """

  def run(batch: PromptBatch, memory: Any) -> types.Rollout:
    half = batch.samples // 2
    if not half:
      return once().run(batch, memory).replace(memory=memory)
    first = batch.sample(batch.params, half)
    mask = first.valid("token")

    def read(params, *wanted):
      return scoring.read(
        batch.policy,
        params,
        first.tokens,
        wanted,
        types.Named(),
        batch.temperature,
      )

    def loss(params):
      found = read(params, scoring.log_probs, scoring.entropy)
      entropy = masked.mean(found["entropy"], mask, (0, 1, 2))
      return unlearning_loss(found["log_probs"], mask), entropy

    gradient, entropy = jax.grad(loss, has_aux=True)(batch.params)
    recent = jnp.append(memory["entropies"][1:], entropy)
    seen = jnp.minimum(memory["seen"] + 1, window)
    mean = jnp.nansum(recent) / seen
    step = jnp.where(mean < threshold, rate, 0.0)
    forgetful = jax.tree.map(
      lambda p, g: (p - step * g).astype(p.dtype), batch.params, gradient
    )
    second = batch.sample(forgetful, batch.samples - half, first=half)
    rollout = join(first, second)
    return rollout.replace(memory={"entropies": recent, "seen": seen})

  def init():
    return {
      "entropies": jnp.zeros(window),
      "seen": jnp.zeros((), jnp.int32),
    }

  name = f"forget(rate={rate:g}, threshold={threshold:g}, window={window})"
  return Sampler(name, run, init)


def eepo(
  rate: float = 3e-3,
  threshold: float = 0.3,
  window: int = 3,
  clip: float = 0.2,
  ddof: int = 1,
) -> Method:
  """Samples half, forgets it for a moment, and samples the other half.

  GRPO on all samples, with ratios to the parameters that drew each half: the
  behavior log-probs of the second are those of theta' = theta - rate grad of
  `unlearning_loss` on the first, one plain SGD step. rate = 0: GRPO.
  Source: EEPO: Exploration-Enhanced Policy Optimization via Sample-Then-Forget,
  2025.
  """
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss=policy_gradient(
      ppo_clip(clip, clip),
      aggregate=seq_mean_token_mean(),
      against="behavior",
    ),
    sampler=forget(rate, threshold, window) if rate else once(),
  )
