"""The advantages that a method gives to correct and incorrect samples.

They depend on how many of a prompt's S samples are correct. The method's own
`prepare` runs on S + 1 groups, one for each count of correct samples from 0 to
S, in which the verdict is the score.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from rl import prepare, types
from rl.method import Method

_TOKENS = 4  # of every sample; advantages of tokens are averaged over them
_NOT_COMPUTED = "No advantages over the counts"


@dataclasses.dataclass(frozen=True)
class AdvantagesByCount:
  """Mean advantages by the number c of correct samples, 0 to S.

  Samples that the method keeps out of its loss count as 0.

  Attributes:
    right: `[S + 1]`, advantage of the correct samples; NaN at c = 0.
    wrong: `[S + 1]`, advantage of the incorrect samples; NaN at c = S.
    note: the method's name, and what else the values depend on.
  """

  right: np.ndarray
  wrong: np.ndarray
  note: str


def compute(method: Method, samples: int) -> AdvantagesByCount:
  """Computes the advantages of correct and incorrect samples at every count.

  Args:
    method: a method whose advantage is a function of the rollout alone.
    samples: S.

  Raises:
    ValueError: the method reads more than verdicts, or gives samples no
      advantage.
  """
  if method.reward is not None:
    raise ValueError(
      f"{_NOT_COMPUTED}: {method.name} is paid by a mix of rewards, not by "
      "verdicts."
    )
  needs = sorted(map(str, method.signal_needs))
  if needs:
    raise ValueError(
      f"{_NOT_COMPUTED}: {method.name} reads {', '.join(needs)}."
    )
  if all(term.takes not in ("sample", "token") for term in method.loss.terms):
    raise ValueError(
      f"{_NOT_COMPUTED}: no term of the loss of {method.name} reads an "
      "advantage of samples."
    )
  rollout = _make_groups(samples)
  signal_fn = jax.jit(lambda rollout: _sample_signal(method, rollout))
  try:
    signal = np.asarray(signal_fn(rollout))
  except (KeyError, ValueError) as error:
    reason = error.args[0].partition(";")[0]
    raise ValueError(
      f"{_NOT_COMPUTED}: {method.name} reads more than verdicts ({reason})."
    ) from None
  # The first half of the groups again, beside other groups than before: their
  # advantages change if they depend on the rest of the batch.
  half = samples // 2
  counts = np.arange(samples + 1)
  order = np.where(counts <= half, counts, 0)
  other_batch = jax.tree.map(lambda x: _reorder(x, order), rollout)
  signal_in_other_batch = np.asarray(signal_fn(other_batch))
  notes = [f"Advantages of {method.name}, where scores are verdicts"]
  if not np.allclose(
    signal[: half + 1], signal_in_other_batch[: half + 1], atol=1e-5
  ):
    notes.append(
      "in a batch with one group of every count, as they depend on it"
    )
  if jax.tree.leaves(method.init()):
    notes.append("at its first step")
  correct = np.asarray(rollout.correct) == 1
  return AdvantagesByCount(
    right=_masked_mean(signal, correct),
    wrong=_masked_mean(signal, ~correct),
    note=", ".join(notes),
  )


def _sample_signal(method: Method, rollout: types.Rollout) -> jax.Array:
  """Returns the first signal that the loss reads, as `[P, S]`."""
  batch, _, _ = prepare.prepare(method, rollout, method.init())
  signal, mask = prepare.first_signal(method, batch)
  signal = jnp.where(mask, signal, 0.0)
  return signal.mean(-1) if signal.ndim == 3 else signal  # [P, S, T] -> [P, S]


def _masked_mean(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
  """Means over samples, `[P, S] -> [P]`; NaN where the mask is empty."""
  count = mask.sum(-1)
  total = np.where(mask, values, 0.0).sum(-1)
  return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _reorder(leaf: jax.Array, order: np.ndarray) -> jax.Array:
  """Takes groups of every leaf that has a group axis."""
  return leaf[order] if leaf.ndim and len(leaf) == len(order) else leaf


def _make_groups(samples: int) -> types.Rollout:
  """Makes a rollout of S + 1 groups; the first c samples of group c are correct."""
  P, S, T = samples + 1, samples, _TOKENS
  correct = jnp.arange(S) < jnp.arange(P)[:, None]  # [P, S]
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
