"""What an objective pays a right and a wrong sample, by how many are right.

The method itself is asked: its `prepare` runs on groups of S samples, one group
for each count of right ones from 0 to S, in which verdicts are the scores.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from rl import prepare, types
from rl.method import Method

_TOKENS = 4  # of every sample; what is paid at tokens is averaged over them


@dataclasses.dataclass(frozen=True)
class Worth:
  """Mean advantages, 0 for what the method keeps out of its loss.

  Attributes:
    right: `[S + 1]` of the right samples where c of S are right; NaN at c = 0.
    wrong: `[S + 1]` of the wrong ones; NaN at c = S.
    note: on what they depend besides.
  """

  right: np.ndarray
  wrong: np.ndarray
  note: str


def worth(method: Method, samples: int) -> Worth:
  """The advantages of right and of wrong samples at every count.

  Args:
    method: whose advantage needs the rollout alone.
    samples: S.

  Returns:
    The advantages.

  Raises:
    ValueError: it needs more, or gives samples no advantage.
  """
  needs = sorted(map(str, method.signal_needs))
  if needs:
    raise ValueError(
      f"No advantages over the counts: {method.name} reads {', '.join(needs)}."
    )
  if all(term.takes not in ("sample", "token") for term in method.loss.terms):
    raise ValueError(
      f"No advantages over the counts: the loss of {method.name} reads none "
      "of samples."
    )
  rollout = _groups(samples)
  paid = jax.jit(lambda rollout: _paid(method, rollout))
  try:
    found = np.asarray(paid(rollout))
  except (KeyError, ValueError) as error:
    why = error.args[0].partition(";")[0]
    raise ValueError(
      f"No advantages over the counts: {method.name} reads more than verdicts "
      f"({why})."
    ) from None
  # The first half of the groups, beside others than before.
  half = samples // 2
  order = np.where(np.arange(samples + 1) <= half, np.arange(samples + 1), 0)
  mixed = np.asarray(paid(jax.tree.map(lambda x: _taken(x, order), rollout)))
  notes = [f"Advantages of {method.name}, where scores are verdicts"]
  if not np.allclose(found[: half + 1], mixed[: half + 1], atol=1e-5):
    notes.append(
      "in a batch with one group of every count, as they depend on it"
    )
  if jax.tree.leaves(method.init()):
    notes.append("at its first step")
  right = np.asarray(rollout.correct) == 1
  return Worth(
    right=_mean(found, right), wrong=_mean(found, ~right), note=", ".join(notes)
  )


def _paid(method: Method, rollout: types.Rollout) -> jax.Array:
  """What the loss reads first, `[P, S]`."""
  batch, _, _ = prepare.prepare(method, rollout, method.init())
  signal, mask = prepare.first_signal(method, batch)
  paid = jnp.where(mask, signal, 0.0)
  return paid.mean(-1) if paid.ndim == 3 else paid


def _mean(values: np.ndarray, where: np.ndarray) -> np.ndarray:
  count = where.sum(-1)
  total = np.where(where, values, 0.0).sum(-1)
  return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _taken(leaf: jax.Array, order: np.ndarray) -> jax.Array:
  return leaf[order] if leaf.ndim and len(leaf) == len(order) else leaf


def _groups(samples: int) -> types.Rollout:
  """Group c has its first c samples right."""
  P, S, T = samples + 1, samples, _TOKENS
  correct = jnp.arange(S) < jnp.arange(P)[:, None]
  return types.Rollout(
    tokens=types.Tokens(
      prompts=jnp.ones((P, 1), jnp.int32),
      prompt_mask=jnp.ones((P, 1), bool),
      completions=jnp.ones((P, S, T), jnp.int32),
      lengths=jnp.full((P, S), T),
      mask=jnp.ones((P, S, T), bool),
    ),
    sample_mask=jnp.ones((P, S), bool),
    behavior_log_probs=jnp.full((P, S, T), -1.0),
    finished=jnp.ones((P, S), bool),
    scores=correct.astype(jnp.float32),
    correct=correct.astype(jnp.int8),
    prompt_ids=jnp.arange(P),
    keys=jax.random.split(jax.random.key(0), P),
    step=jnp.zeros((), jnp.int32),
  )
