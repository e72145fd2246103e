"""Computes a method's advantages by the number of correct samples in a group.

A group is the S samples of one prompt. `rl.method_loss` computes the advantages
of an artificial rollout of P = S + 1 groups, in which group c has c correct
samples, c = 0 to S. The score of a sample is 1 if it is correct, else 0. All
samples have the same T tokens and log-probabilities.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from rl import UsageError, method_loss, types
from rl.method import Method

# T, tokens of every sample. Its value hardly matters, because advantages of
# tokens are averaged over the sample.
_TOKENS = 4
_NOT_COMPUTED = "No advantages over the counts"  # start of the error messages


@dataclasses.dataclass(frozen=True)
class AdvantagesByCount:
  """Mean advantages in groups with c correct samples, c = 0 to S.

  A sample that the method's filters remove counts as advantage 0.

  Attributes:
    right: `[S + 1]`, mean over the correct samples; NaN at c = 0.
    wrong: `[S + 1]`, mean over the incorrect samples; NaN at c = S.
    note: a phrase with the method's name and, if the values depend on the batch
      or on the method's state, with that condition.
  """

  right: np.ndarray
  wrong: np.ndarray
  note: str


def compute(method: Method, samples: int) -> AdvantagesByCount:
  """Computes the mean advantages in groups with 0 to S correct samples.

  Args:
    method: a method whose advantages depend on nothing but the scores.
    samples: S, samples per group.

  Raises:
    UsageError: the method has a reward of its own, needs arrays that the
      artificial rollout does not have, or no term of its loss reads a signal of
      samples or tokens.
  """
  if method.reward is not None:
    raise UsageError(
      f"{_NOT_COMPUTED}: the score of {method.name} is a mix of rewards, not "
      "the verdict."
    )
  needs = sorted(map(str, method.signal_needs))
  if needs:
    raise UsageError(
      f"{_NOT_COMPUTED}: {method.name} reads {', '.join(needs)}."
    )
  if all(term.takes not in ("sample", "token") for term in method.loss.terms):
    raise UsageError(
      f"{_NOT_COMPUTED}: no term of the loss of {method.name} reads an "
      "advantage of samples."
    )
  counts = np.arange(samples + 1)

  @jax.jit
  def signal_fn(counts: jax.Array) -> jax.Array:
    """Returns the first signal that the loss reads, `[P, S]`; 0 if filtered."""
    rollout = _make_groups(counts, samples)
    batch, _, _ = method_loss.prepare(method, rollout, method.init())
    signal, mask = method_loss.first_signal(method, batch)
    signal = jnp.where(mask, signal, 0.0)
    # A signal of tokens, [P, S, T], is averaged over those of each sample.
    return signal.mean(-1) if signal.ndim == 3 else signal

  try:
    signal = np.asarray(signal_fn(counts))
  except (KeyError, ValueError) as error:
    reason = error.args[0].partition(";")[0]
    raise UsageError(
      f"{_NOT_COMPUTED}: {method.name} reads more than verdicts ({reason})."
    ) from None
  # Computes the first half of the groups once more, with copies of group 0 in
  # place of the second half. If this changes their advantages, the advantages
  # depend on the rest of the batch.
  half = samples // 2
  other_counts = np.where(counts <= half, counts, 0)
  signal_in_other_batch = np.asarray(signal_fn(other_counts))
  notes = [f"Advantages of {method.name}, where scores are verdicts"]
  if not np.allclose(
    signal[: half + 1], signal_in_other_batch[: half + 1], atol=1e-5
  ):
    notes.append(
      "in a batch with one group of every count, as they depend on it"
    )
  if jax.tree.leaves(method.init()):
    notes.append("at its first step")
  correct = np.arange(samples) < counts[:, None]  # [P, S]
  return AdvantagesByCount(
    right=_masked_mean(signal, correct),
    wrong=_masked_mean(signal, ~correct),
    note=", ".join(notes),
  )


def _masked_mean(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
  """Returns `[P]` means of the samples where `mask` is True; NaN if none is."""
  count = mask.sum(-1)
  total = np.where(mask, values, 0.0).sum(-1)
  return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _make_groups(counts: jax.Array, samples: int) -> types.Rollout:
  """Returns an artificial rollout with `counts` correct samples per group."""
  P, S, T = len(counts), samples, _TOKENS  # counts: [P]
  correct = jnp.arange(S) < counts[:, None]  # [P, S]
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
