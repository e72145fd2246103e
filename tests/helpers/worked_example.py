"""Rollouts of a few given numbers, for worked examples of methods and rewards.

A worked example compares a method or a reward with numbers that come from the
equation of its paper. Its tests are marked with what they are an example of:

  @pytest.mark.worked_example("method:grpo")      a method of `rl.methods`
  @pytest.mark.worked_example("reward:majority")  a reward of `rewards.names()`
  @pytest.mark.worked_example("function:brier.brier_scores")
                                                  a row of `catalogue rewards`

`tests/test_worked_examples.py` finds what has none. Choose numbers with which
every sign, order of arguments, index, mask and default changes the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import rewards
from rl import method, method_loss, scoring, transforms, types
from rl.update_plan import Plan


def rollout(
  scores: Any,
  lengths: Any = None,
  *,
  correct: Any = None,
  extras: Mapping[str, Any] | None = None,
  components: Mapping[str, Any] | None = None,
  steps: Any = None,
  step_scores: Any = None,
  behavior_log_probs: Any = None,
  **fields: Any,
) -> types.Rollout:
  """Makes a rollout.

  Args:
    scores: `[P, S]`, or `[S]` for a single prompt.
    lengths: number of tokens of each sample, like `scores`; None: one token.
    correct: verdicts; None: whether the score is positive.
    extras: `{"source/probe": array}`.
    components: `{name: [P, S]}`.
    steps: for each sample of the single prompt, the number of tokens of each of
      its steps; they replace `lengths`.
    step_scores: for each sample of the single prompt, the scores of its steps.
    behavior_log_probs: `[P, S, T]`; None: 0.
    **fields: further fields of `Rollout`.
  """
  scores = np.atleast_2d(np.asarray(scores, np.float32))
  p, s = scores.shape
  if steps is not None:
    lengths = [[sum(sizes) for sizes in steps]]
  lengths = np.ones((p, s), int) if lengths is None else np.atleast_2d(lengths)
  t = int(np.max(lengths))
  mask = np.arange(t) < lengths[..., None]
  verdicts = scores > 0 if correct is None else np.atleast_2d(correct)
  if behavior_log_probs is None:
    behavior_log_probs = np.zeros((p, s, t))
  result = types.Rollout(
    tokens=types.Tokens(
      prompts=np.arange(p)[:, None],
      prompt_mask=np.ones((p, 1), bool),
      completions=np.zeros((p, s, t), np.int32),
      lengths=np.asarray(lengths, np.int32),
      mask=mask,
    ),
    sample_mask=np.ones((p, s), bool),
    behavior_log_probs=np.asarray(behavior_log_probs, np.float32),
    finished=np.ones((p, s), bool),
    scores=scores,
    correct=np.asarray(verdicts, np.int8),
    prompt_ids=np.arange(p),
    keys=jax.random.split(jax.random.key(0), p),
    step=np.int32(0),
    components={
      name: np.atleast_2d(np.asarray(value, np.float32))
      for name, value in (components or {}).items()
    },
    extras=types.Named(
      {name: np.asarray(value) for name, value in (extras or {}).items()}
    ),
  )
  if steps is not None:
    result = result.replace(**_step_fields(steps, step_scores, t))
  # One transfer; `jnp.asarray` would compile a program for each shape.
  return jax.device_put(result.replace(**fields))


def _step_fields(steps: Any, step_scores: Any, t: int) -> dict[str, np.ndarray]:
  """Returns the fields of the steps of a single prompt."""
  k = max(map(len, steps))
  step_ids = np.full((1, len(steps), t), -1)
  step_mask = np.zeros((1, len(steps), k), bool)
  padded_scores = np.zeros((1, len(steps), k), np.float32)
  for i, sizes in enumerate(steps):
    step_ids[0, i, : sum(sizes)] = np.repeat(np.arange(len(sizes)), sizes)
    step_mask[0, i, : len(sizes)] = True
    if step_scores is not None:
      padded_scores[0, i, : len(sizes)] = step_scores[i]
  return {
    "step_ids": step_ids,
    "step_mask": step_mask,
    "step_scores": padded_scores,
  }


def apply(transform: transforms.Transform, rollout: types.Rollout) -> Any:
  """Applies a transform that starts from the rollout, in its first state."""
  value, _ = jax.jit(transform.apply)(None, rollout, transform.init())
  return np.asarray(value)


def advantages(m: method.Method, rollout: types.Rollout) -> np.ndarray:
  """Returns the advantages of a method, `[P, S]` or `[P, S, T]`."""
  return apply(m.advantage, rollout)


def reward(name: str, rollout: types.Rollout, /, **settings: Any) -> np.ndarray:
  """Returns the values of a reward, `[P, S]` or `[P, S, K]`."""
  return apply(rewards.get(name, **settings), rollout)


def _score(
  params: Mapping[str, Any], tokens: types.Tokens, depth: float = 1.0
) -> types.Scored:
  """Reads given log-probs and values, the parameters of this policy.

  The vocabulary has two tokens. Token 0, which all completions repeat, has the
  given log-prob, and token 1 the remaining probability. The first token of a
  prompt is its number; the others are scored like those of the first sample.
  The hidden states, of every depth, are the log-prob and the value.
  """
  del depth
  ids = tokens.prompts[:, 0]
  s, t = tokens.completions.shape[1:]  # of prompts, these are 1 and L - 1
  hidden = jnp.stack([params["log_probs"][ids], params["values"][ids]], -1)
  hidden = hidden[:, :s, :t]

  def logits(h: jax.Array) -> jax.Array:
    first = h[..., 0]
    return jnp.stack([first, jnp.log1p(-jnp.exp(first))], -1)

  return types.Scored(hidden, {"logits": logits, "value": lambda h: h[..., 1]})


def _undefined(*arguments: Any) -> Any:
  raise AssertionError("a given rollout has nothing to decode", arguments)


POLICY = types.Policy(_score, _undefined, _undefined)


def loss(
  m: method.Method,
  rollout: types.Rollout,
  log_probs: Any,
  old: Any = None,
  *,
  values: Any = None,
  other: Mapping[str, Any] | None = None,
  earlier: Any = None,
) -> tuple[float, np.ndarray]:
  """Computes the loss of a method and its slopes, as the training step does.

  Args:
    m: the method.
    rollout: the rollout.
    log_probs: `[P, S, T]`, log pi of the tokens under the trained policy.
    old: `[P, S, T]`, log pi_old; None: `log_probs`.
    values: `[P, S, T]`, outputs of the value head, of all policies; None: 0.
    other: `{parameter set: log-probs [P, S, T]}`, for example of "ref"; a
      parameter set that is missing has `old`.
    earlier: `[P, S, T]`, log pi_old of an earlier rollout of the same samples,
      after which the method has its state; None: its first state.

  Returns:
    The loss, and its derivative with respect to `log_probs`, `[P, S, T]`.
  """

  def params_of(table: Any) -> dict[str, jax.Array]:
    table = jnp.asarray(table, jnp.float32)
    head = jnp.zeros_like(table) if values is None else jnp.asarray(values)
    return {"log_probs": table, "values": head.astype(jnp.float32)}

  @jax.jit
  def total_and_gradient(policy, sources, first_sources, rollout, state):
    if first_sources is not None:
      first = scoring.passes(POLICY, first_sources, needs, rollout)
      _, _, state = method_loss.prepare(m, first, state)
    scored = scoring.passes(POLICY, sources, needs, rollout)
    batch, term_weights, _ = method_loss.prepare(m, scored, state)
    gradient, tally = method_loss.gradient(
      m, POLICY, policy, batch, term_weights, Plan()
    )
    return tally.merge()["loss/total"], gradient["log_probs"]

  policy = params_of(log_probs)
  sources = {name: old for name, _ in m.parameter_sets} | dict(other or {})
  sources["old"] = old
  sources = {
    name: policy if table is None else params_of(table)
    for name, table in sources.items()
  }
  needs = method_loss.required(m, updates=2)
  first_sources = None
  if earlier is not None:
    first_sources = sources | {"old": params_of(earlier)}
  total, slopes = total_and_gradient(
    policy, sources, first_sources, rollout, m.init()
  )
  return float(total), np.asarray(slopes)
