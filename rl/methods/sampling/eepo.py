"""EEPO: half of the samples from a policy that has unlearned the other half.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

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
_MAX_PROBABILITY = 1 - 1e-4  # a bound of p that keeps log(1 - p) finite


def unlearning_loss(log_probs: Array, mask: Array) -> Array:
  """Returns the mean over samples of mean_t -log(1 - p_t).

  p_t is the probability of token t. The derivative of its summand in log p is p
  / (1 - p): a step of gradient descent lowers the probabilities of the sampled
  tokens, most where the policy is certain.

  Args:
    log_probs: `[P, S, T]`, log p.
    mask: `[P, S, T]` bool, True for the scored tokens.
  """
  p = jnp.minimum(jnp.exp(log_probs), _MAX_PROBABILITY)
  losses = masked.mean(-jnp.log1p(-p), mask)  # [P, S]
  return masked.mean(losses, mask.any(-1), (0, 1))


def forget(rate: float, threshold: float, window: int) -> Sampler:
  """Returns a sampler that unlearns one half of a group, then draws the other.

  It draws the first half of every group, makes one step of gradient descent on
  its `unlearning_loss`, and draws the second half with the changed parameters,
  which are used for this rollout only. The step is made if the mean entropy of
  the first halves of the last `window` training steps, this one included, is
  below `threshold` (nats); otherwise both halves have the same parameters. The
  memory of the sampler holds these entropies. The gradient is over the whole
  first half at once and takes as much memory as that needs: the microbatches of
  the plan do not apply. With one sample per prompt there is one pass.
  """

  def run(batch: PromptBatch, memory: Any) -> types.Rollout:
    half = batch.samples // 2
    if not half:
      return once().run(batch, memory).replace(memory=memory)
    first = batch.sample(batch.params, half)
    mask = first.valid("token")

    def read(params, *probes):
      return scoring.read(
        batch.policy,
        params,
        first.tokens,
        probes,
        types.Named(),
        batch.temperature,
      )

    def loss(params):
      values = read(params, scoring.log_probs, scoring.entropy)
      entropy = masked.mean(values["entropy"], mask, (0, 1, 2))
      return unlearning_loss(values["log_probs"], mask), entropy

    gradient, entropy = jax.grad(loss, has_aux=True)(batch.params)
    recent = jnp.append(memory["entropies"][1:], entropy)
    count = jnp.minimum(memory["seen"] + 1, window)
    # Entries before the first step are 0, so the sum is over `count` entropies.
    mean = jnp.nansum(recent) / count
    step_size = jnp.where(mean < threshold, rate, 0.0)
    unlearned = jax.tree.map(
      lambda p, g: (p - step_size * g).astype(p.dtype), batch.params, gradient
    )
    second = batch.sample(unlearned, batch.samples - half, first=half)
    rollout = join(first, second)
    return rollout.replace(memory={"entropies": recent, "seen": count})

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
  """GRPO with half of each group drawn after unlearning the other half.

  The second half is drawn with theta' = theta - rate * grad of
  `unlearning_loss` on the first half: one step of gradient descent, whose
  result is used for this rollout only (see `forget`). A [P, S] is the z-score
  of a sample's score in its group, over both halves. The loss is PPO-clip with
  ratios to the parameters that drew each half (the log-probs that the sampler
  reported), averaged over the tokens of each sample, then over samples. rate =
  0 is GRPO without a KL, with ratios to the sampler's log-probs.
  Source: EEPO: Exploration-Enhanced Policy Optimization via Sample-Then-Forget,
  2025.
  Quantity: behavior_log_probs.

  Args:
    rate: learning rate of the unlearning step.
    threshold: mean entropy in nats below which the unlearning step is made.
    window: number of training steps over which that entropy is averaged.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss=policy_gradient(
      ppo_clip(clip, clip),
      aggregate=seq_mean_token_mean(),
      denominator="behavior",
    ),
    sampler=forget(rate, threshold, window) if rate else once(),
  )
