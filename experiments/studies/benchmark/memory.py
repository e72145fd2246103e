"""Measures the memory of an update with all logits at once and with chunks.

The decoder is small and its vocabulary large, so that the logits of all tokens
are far larger than the parameters. With `plan.chunk` set to n, logits exist for
n positions of a prompt at a time, and the backward pass computes them again.

The memory is `temp_size_in_bytes` of the compiled update: what it needs besides
its arguments, AdamW included. The gradients with and without chunks are
compared for each parameter array, by the largest difference divided by the
largest entry.

Two limits hold for the chunk that needs the least memory. The memory is less
than two fifths of that with all logits, and the gradient differs by at most
1e-5. Nothing is timed, so other work on the machine changes no number.
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
from models import policy, transformer
from models.config import ModelConfig
from rl import method_loss, methods, step, training_state, types
from rl.update_plan import Plan

Array = jax.Array
MIN_MEMORY_RATIO, TOLERANCE = 2.5, 1e-5
_TINY = 1e-30  # avoids a division by zero
PROMPTS, SAMPLES, PROMPT_LENGTH = 4, 4, 16


def memory(
  console: rich.console.Console,
  *,
  vocabulary: int = 151_936,
  tokens: int = 4096,
  width: int = 256,
  chunks: Sequence[int | None] = (None, 32, 8),
) -> outcome.Outcome:
  """Memory of an update with a large vocabulary, with and without chunks.

  Args:
    console: console for progress.
    vocabulary: size of the vocabulary.
    tokens: number of tokens of all 16 completions; a multiple of 16.
    width: width of the decoder, which has two layers; a multiple of 128.
    chunks: values of `plan.chunk` to try; None chooses the chunk whose logits
      take at most 512 MiB.
      The limits apply to the one that needs least memory.

  Returns:
    A row for each chunk, and a row for the gradient of the best chunk. The
    outcome passes if the limits above hold.

  Raises:
    UsageError: `tokens` is not a multiple of the number of completions.
  """
  completions = PROMPTS * SAMPLES
  if tokens % completions or tokens < completions:
    nearest = max(completions, round(tokens / completions) * completions)
    raise errors.UsageError(
      f"tokens = {tokens} must be a multiple of {completions}; the nearest "
      f"valid value is {nearest}."
    )
  config = sizes.decoder(2, width, vocabulary)
  rollout = random_rollout.make(
    vocabulary, PROMPTS, SAMPLES, PROMPT_LENGTH, tokens // completions
  )
  all_positions = tokens // PROMPTS
  bytes_by_chunk = {}
  for chunk in (all_positions, *chunks):
    with console.status(f"compiling, chunk {chunk}"):
      bytes_by_chunk[chunk] = update_bytes(config, rollout, chunk)
    console.print(f"chunk {chunk}: {bytes_by_chunk[chunk] / 2**30:.2f} GiB")
  best = min(chunks, key=bytes_by_chunk.get)
  with console.status(f"gradients, with all logits and with chunk {best}"):
    difference = gradient_difference(config, rollout, best, all_positions)
  shape_text = f"2 layers d{width} v{vocabulary}, {tokens} tokens"
  table_rows = [
    outcome.Row(
      name=f"update, chunk {chunk}, beside whole logits",
      shape=shape_text,
      unit="GiB",
      ours=bytes_by_chunk[chunk] / 2**30,
      peer=bytes_by_chunk[all_positions] / 2**30,
      ratio=bytes_by_chunk[all_positions] / bytes_by_chunk[chunk],
      limit=MIN_MEMORY_RATIO if chunk == best else None,
    )
    for chunk in chunks
  ]
  agreement = 1 / max(difference, _TINY)
  table_rows.append(
    outcome.Row(
      name=f"gradient, chunk {best}: agreement with the whole's",
      shape=shape_text,
      unit="1 / relative difference",
      ours=agreement,
      ratio=TOLERANCE * agreement,
      limit=1.0,
    )
  )
  return outcome.from_rows(
    table_rows, gradient_difference=difference, tolerance=TOLERANCE
  )


def update_bytes(
  config: ModelConfig, rollout: types.Rollout, chunk: int | None
) -> int:
  """Returns the temporary bytes of a compiled update that donates its state."""
  method, tx = methods.get("grpo", beta=0.0), optax.adamw(1e-6)
  make = functools.partial(transformer.init, config)
  state = jax.eval_shape(
    lambda key: training_state.init(method, make(key), tx, key),
    jax.random.key(0),
  )
  update = step.make(method, policy.bind(config), tx, Plan(chunk=chunk))
  program = jax.jit(update, donate_argnums=0).lower(state, rollout).compile()
  return program.memory_analysis().temp_size_in_bytes


def gradient_difference(
  config: ModelConfig,
  rollout: types.Rollout,
  chunk: int | None,
  reference_chunk: int,
) -> float:
  """Compares the gradients with two values of `plan.chunk`.

  Returns:
    The largest relative difference over all parameters (`relative_difference`).
  """
  method = methods.get("grpo", beta=0.0)
  params = transformer.init(config, jax.random.key(0))

  def compile_gradient(chunk: int | None) -> Callable[..., types.PyTree]:
    plan = Plan(chunk=chunk)

    def gradient(params: types.PyTree, rollout: types.Rollout) -> types.PyTree:
      batch, scales, _ = method_loss.prepare(method, rollout, method.init())
      return method_loss.gradient(
        method, policy.bind(config), params, batch, scales, plan
      )[0]

    return jax.jit(gradient)

  gradients = compile_gradient(chunk)(params, rollout)
  reference = compile_gradient(reference_chunk)(params, rollout)
  return max(
    jax.tree.leaves(jax.tree.map(relative_difference, gradients, reference))
  )


def relative_difference(gradient: Array, reference: Array) -> float:
  """Returns the largest difference over the largest entry; inf for a NaN."""
  scale = jnp.maximum(jnp.abs(reference).max(), _TINY)
  difference = jnp.abs(gradient - reference).max() / scale
  return float(jnp.where(jnp.isnan(difference), jnp.inf, difference))
