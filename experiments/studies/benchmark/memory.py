"""What the logits of an update cost in memory, whole and in chunks.

An update of a small decoder with a large vocabulary: the logits of all its
tokens are far larger than its parameters. With `plan.chunk` they exist for so
many positions of a prompt at a time, and the backward pass makes them again.
Compared is `temp_size_in_bytes` of the compiled update, AdamW's arithmetic
included: what it needs beside its arguments. Of the two forms' gradients the
largest difference counts, over the largest entry, of each parameter by itself.

The limits: at some chunk less than a sixth of the memory, and there a gradient
that differs by at most 1e-5. No peer takes part and nothing is timed, so a busy
machine changes no figure.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import optax
import rich.console

from experiments.cli import errors
from experiments.studies.benchmark import outcome, random_rollout, sizes
from models import policy as policies
from models import transformer
from models.config import ModelConfig
from rl import methods, prepare, step, types
from rl.minibatches import Plan

Array = jax.Array
LIMIT, TOLERANCE = 6.0, 1e-5
_TINY = 1e-30
PROMPTS, SAMPLES, PROMPT_LENGTH = 4, 4, 16


def memory(
  console: rich.console.Console,
  *,
  vocabulary: int = 151_936,
  tokens: int = 4096,
  width: int = 256,
  chunks: Sequence[int | None] = (None, 32, 8),
) -> outcome.Outcome:
  """Memory of an update with a large vocabulary, whole and in chunks.

  Args:
    console: where progress goes.
    vocabulary: V.
    tokens: of all completions; a multiple of 16.
    width: of the decoder, of two layers; a multiple of 128.
    chunks: values of `plan.chunk` to try, None the usual one; the one that
      needs least is judged.

  Returns:
    A row for each chunk, and one for the gradient there. Passed: the limits
    above hold.

  Raises:
    UsageError: `tokens` cannot be cut into the completions.
  """
  rows = PROMPTS * SAMPLES
  if tokens % rows or tokens < rows:
    nearest = max(rows, round(tokens / rows) * rows)
    raise errors.UsageError(
      f"tokens = {tokens} must be a multiple of {rows}; nearest: {nearest}"
    )
  config = sizes.decoder(2, width, vocabulary)
  rollout = random_rollout.make(
    vocabulary, PROMPTS, SAMPLES, PROMPT_LENGTH, tokens // rows
  )
  whole = tokens // PROMPTS
  bytes_of = {}
  for chunk in (whole, *chunks):
    with console.status(f"compiling, chunk {chunk}"):
      bytes_of[chunk] = update_bytes(config, rollout, chunk)
    console.print(f"chunk {chunk}: {bytes_of[chunk] / 2**30:.2f} GiB")
  best = min(chunks, key=bytes_of.get)
  with console.status(f"gradients, whole and with chunk {best}"):
    difference = gradient_difference(config, rollout, best, whole)
  shape = f"2 layers d{width} v{vocabulary}, {tokens} tokens"
  found = [
    outcome.Row(
      name=f"update, chunk {chunk}, beside whole logits",
      shape=shape,
      unit="GiB",
      ours=bytes_of[chunk] / 2**30,
      peer=bytes_of[whole] / 2**30,
      ratio=bytes_of[whole] / bytes_of[chunk],
      limit=LIMIT if chunk == best else None,
    )
    for chunk in chunks
  ]
  agreement = 1 / max(difference, _TINY)
  found.append(
    outcome.Row(
      name=f"gradient, chunk {best}: agreement with the whole's",
      shape=shape,
      unit="1 / relative difference",
      ours=agreement,
      ratio=TOLERANCE * agreement,
      limit=1.0,
    )
  )
  return outcome.of_rows(
    found, gradient_difference=difference, tolerance=TOLERANCE
  )


def update_bytes(
  config: ModelConfig, rollout: types.Rollout, chunk: int | None
) -> int:
  """Temporary memory of a compiled update, its state donated; in bytes."""
  method, tx = methods.get("grpo", beta=0.0), optax.adamw(1e-6)
  make = functools.partial(transformer.init, config)
  state = jax.eval_shape(
    lambda key: step.init(method, make(key), tx, key), jax.random.key(0)
  )
  update = step.make(method, policies.bind(config), tx, Plan(chunk=chunk))
  program = jax.jit(update, donate_argnums=0).lower(state, rollout).compile()
  return program.memory_analysis().temp_size_in_bytes


def gradient_difference(
  config: ModelConfig, rollout: types.Rollout, chunk: int | None, whole: int
) -> float:
  """Between the gradients with two chunks.

  Returns:
    The largest absolute difference over the largest absolute entry, of the
    parameter where this is largest.
  """
  method = methods.get("grpo", beta=0.0)
  params = transformer.init(config, jax.random.key(0))

  def compiled(chunk: int | None) -> Callable[..., types.PyTree]:
    plan = Plan(chunk=chunk)

    def gradient(params: types.PyTree, rollout: types.Rollout) -> types.PyTree:
      batch, scales, _ = prepare.prepare(method, rollout, method.init())
      return prepare.gradient(
        method, policies.bind(config), params, batch, scales, plan
      )[0]

    return jax.jit(gradient)

  found = compiled(chunk)(params, rollout)
  exact = compiled(whole)(params, rollout)
  return max(jax.tree.leaves(jax.tree.map(relative, found, exact)))


def relative(found: Array, exact: Array) -> float:
  """Largest difference over largest entry; infinite of what is no number."""
  largest = jnp.maximum(jnp.abs(exact).max(), _TINY)
  difference = jnp.abs(found - exact).max() / largest
  return float(jnp.where(jnp.isnan(difference), jnp.inf, difference))
