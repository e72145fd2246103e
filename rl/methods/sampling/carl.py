"""CARL: branches at states of high action entropy, and trains on branches.

A state is the prompt, or a prefix of a sample that ends with an action and with
the reply of a tool or user to it, if there is one. An action is the text of one
reasoning step.

Axes: P prompts, S samples per prompt (a group), T completion tokens, K actions.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from rl import UsageError, masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.sampling import trees
from rl.sampling import samplers
from rl.sampling.samplers import PromptBatch, Sampler
from rl.transforms import broadcast_steps, chain, scores, transform

Array = jax.Array


def select_state(
  entropies: Array, creators: Array, counts: Array, sample_mask: Array
) -> tuple[Array, Array]:
  """Returns the state with the largest H(s) / n(s) of each prompt.

  n(s) is the number of actions that were drawn in the state s, and H(s) the
  mean of their `entropies`.

  Args:
    entropies: `[P, S, K]`, -mean over the tokens of an action of log pi.
    creators, counts, sample_mask: same as in `trees.drawn_actions`.

  Returns:
    A sample that passes the state, and the number of the action that it takes
    there; both `[P]` int32. In a group without a sample that exists, they are
    0.
  """
  is_sibling = trees.siblings(creators, counts, sample_mask)
  number = is_sibling.sum(2)  # [P, S, K]
  total = jnp.where(is_sibling, entropies[:, None], 0.0).sum(2)
  # H / n, the mean over the number.
  merit = total / jnp.maximum(number, 1) ** 2
  exists = (number > 0) & sample_mask[..., None]
  merit = jnp.where(exists, merit, -jnp.inf)
  best = jnp.argmax(merit.reshape(len(merit), -1), -1).astype(jnp.int32)
  return best // creators.shape[-1], best % creators.shape[-1]


def action_ids(rollout: types.Rollout, max_actions: int) -> Array:
  """Returns the number of each token's action, `[P, S, T]`; -1 on padding.

  An action is a run of tokens with the same step id, and the tokens outside of
  steps that precede it. Actions beyond the largest number belong to the last
  one.

  Raises:
    UsageError: if the task does not divide completions into steps.
  """
  if rollout.step_ids is None:
    raise UsageError(
      "carl branches between the reasoning steps of a sample, and the task "
      "does not provide step_ids; choose a task with steps, such as chain"
    )
  ends = masked.run_ends(rollout.step_ids, rollout.mask)
  ids = jnp.minimum(jnp.cumsum(ends, -1) - ends, max_actions - 1)
  return jnp.where(rollout.mask, ids, -1).astype(jnp.int32)


def fork(initial: int, max_actions: int) -> Sampler:
  """Returns a sampler that draws a tree of samples for each prompt.

  It draws the first `initial` samples of a group from the prompt, and every
  further one from the state that `select_state` returns, with the tokens before
  that state copied. The rollout has these fields:

    step_ids [P, S, T]   `action_ids`
    step_mask [P, S, K]  actions that were drawn for this sample, in a state in
                         which another one was drawn too
    extra "sampler/creators" [P, S, K]; see `trees.siblings`
    extra "sampler/tokens" []: number of tokens drawn, copies not counted
  """

  def run(batch: PromptBatch, memory: Any) -> types.Rollout:
    rollout = batch.sample(batch.params, min(initial, batch.samples))
    actions = action_ids(rollout, max_actions)  # [P, S, T]
    num_prompts, num_samples = actions.shape[:2]
    creators = jnp.broadcast_to(
      jnp.arange(num_samples, dtype=jnp.int32)[:, None],
      (num_prompts, num_samples, max_actions),
    )
    num_tokens = rollout.mask.sum()
    each = jnp.arange(num_prompts)
    k, t = jnp.arange(max_actions), jnp.arange(rollout.mask.shape[-1])
    for number in range(num_samples, batch.samples):
      entropies = _entropies(rollout.behavior_log_probs, actions, max_actions)
      rows, action = select_state(
        entropies, creators, actions.max(-1) + 1, rollout.sample_mask
      )
      before = actions[each, rows]  # [P, T], of the sample that is copied
      # The position of the first token of the action.
      prefix_lengths = jnp.argmax(before >= action[:, None], -1)
      copied = t < prefix_lengths[:, None]
      new = batch.branch(
        batch.params, rollout, rows[:, None], prefix_lengths[:, None], number
      )
      # The first action after the prefix has the number `action`.
      after = new.replace(
        step_ids=jnp.where(copied[:, None], -1, new.step_ids),
        tokens=new.tokens.replace(mask=new.mask & ~copied[:, None]),
      )
      ids = action_ids(after, max_actions)[:, 0] + action[:, None]
      ids = jnp.where(copied, before, jnp.minimum(ids, max_actions - 1))
      ids = jnp.where(new.mask[:, 0], ids, -1)
      actions = jnp.concatenate([actions, ids[:, None]], 1)
      new_creators = jnp.where(
        k < action[:, None], creators[each, rows], number
      )
      creators = jnp.concatenate([creators, new_creators[:, None]], 1)
      num_tokens += (new.mask[:, 0] & ~copied).sum()
      rollout = samplers.join(rollout, new)
    counts = actions.max(-1) + 1  # [P, S]
    tree = creators, counts, rollout.sample_mask
    trained = trees.drawn_actions(*tree) & (trees.siblings(*tree).sum(2) > 1)
    rollout = rollout.replace(
      step_ids=actions,
      step_scores=None,
      step_mask=trained,
      memory=memory,
    )
    return samplers.add_extras(rollout, creators=creators, tokens=num_tokens)

  name = f"fork(initial={initial}, max_actions={max_actions})"
  return Sampler(name, run, gives=(str(trees.CREATORS),))


def _entropies(log_probs: Array, actions: Array, max_actions: int) -> Array:
  """Returns -mean of `log_probs` over the tokens of each action, [P, S, K]."""
  in_action = actions[..., None, :] == jnp.arange(max_actions)[:, None]
  spread = jnp.broadcast_to(-log_probs[..., None, :], in_action.shape)
  return masked.mean(spread, in_action)


@transform(takes="sample", gives="step", needs={trees.CREATORS})
def branch_advantages(signal: Array, rollout: types.Rollout) -> Array:
  """Returns V(state after an action) - V(state before it), `[P, S, K]`.

  V is that of `trees.state_values`, for the signal as the score of a sample. It
  is 0 outside of `step_mask`.
  """
  values = trees.state_values(
    signal,
    rollout.extras[trees.CREATORS],
    rollout.step_ids.max(-1) + 1,
    rollout.sample_mask,
  )
  return jnp.where(rollout.valid("step"), jnp.diff(values, axis=-1), 0.0)


def carl(initial: int = 1, max_actions: int = 32, clip: float = 0.2) -> Method:
  """Draws further actions where actions are uncertain, and trains on these.

    A(s, a) = V(state after a) - V(s),    V(s) = mean over the a drawn in s

  V of a whole sample is its score, so A [P, S, K] compares an action with the
  others that were drawn in the same state, each valued by all samples below it.
  Of the S samples of a group, `initial` are drawn from the prompt; each further
  one starts in the state s with the largest H(s) / n(s), where n(s) is the
  number of actions that were drawn in s, and H(s) the mean of -log pi of their
  tokens, averaged over the tokens of an action first. An action is trained on
  if at least two were drawn in its state: all others, and copies, are left out
  of the loss and of its denominator. An action is a run of tokens with the same
  step id. The paper's settings are S = 17 with `initial` = 1, and S = 24 with
  `initial` = 8. The loss is PPO-clip, a mean over tokens. With S = `initial`,
  the first action has the advantage R - mean R, and no other is trained on.
  Not checked against the paper, but against a transcription of its equations
  and algorithms. It does not give the clip range, or how the tokens of an
  action are averaged.
  Source: Shen et al. 2025, CARL: Criticality-Aware Agentic Reinforcement
  Learning, arXiv 2512.04949.
  Quantity: branch_advantages.

  Args:
    initial: number of samples that are drawn from the prompt.
    max_actions: K, largest number of actions; later steps of a sample belong to
      the last action.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    UsageError: if `initial` or `max_actions` is not positive.
  """
  for name, value in (("initial", initial), ("max_actions", max_actions)):
    if value < 1:
      raise UsageError(f"{name} = {value} must be at least 1")
  return Method(
    advantage=chain(scores(), branch_advantages(), broadcast_steps()),
    loss=policy_gradient(ppo_clip(clip, clip)),
    loss_filter=trees.in_step_mask(),
    sampler=fork(initial, max_actions),
  )
