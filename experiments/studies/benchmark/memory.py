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

import jax
import jax.numpy as jnp
import optax
import rich.console

from experiments.studies.benchmark import outcome, sizes
from models import policy, transformer
from models.config import ModelConfig
from rl import UsageError, method_loss, methods, step, training_state, types
from rl.update_plan import Plan

Array = jax.Array
MIN_MEMORY_RATIO, TOLERANCE = 2.5, 1e-5
_TINY = 1e-30  # avoids a division by zero
WIDTH, PROMPTS, SAMPLES, PROMPT_LENGTH = 256, 4, 4, 16
# Values of `plan.chunk`; None has logits of at most 512 MiB at a time.
CHUNKS = (None, 32, 8)
METHOD = methods.get("grpo", beta=0.0)


def memory(
  console: rich.console.Console,
  *,
  vocabulary: int = 151_936,
  tokens: int = 4096,
) -> outcome.Outcome:
  """Memory of an update with a large vocabulary, with and without chunks.

  There is a row for each chunk, and one for the gradient of the chunk that
  needs least memory, to which the limits above apply.

  Args:
    console: console for progress.
    vocabulary: size of the vocabulary.
    tokens: number of tokens of all 16 completions; a multiple of 16.
  """
  completions = PROMPTS * SAMPLES
  if tokens % completions or tokens < completions:
    nearest = max(completions, round(tokens / completions) * completions)
    raise UsageError(
      f"tokens = {tokens} must be a multiple of {completions}; the nearest "
      f"valid value is {nearest}."
    )
  config = sizes.decoder(2, WIDTH, vocabulary)
  rollout = sizes.random_rollout(
    vocabulary, PROMPTS, SAMPLES, PROMPT_LENGTH, tokens // completions
  )
  all_positions = tokens // PROMPTS
  gib = {}
  for chunk in (all_positions, *CHUNKS):
    with console.status(f"compiling, chunk {chunk}"):
      gib[chunk] = update_bytes(config, rollout, chunk) / 2**30
    console.print(f"chunk {chunk}: {gib[chunk]:.2f} GiB")
  best = min(CHUNKS, key=gib.get)
  with console.status(f"gradients, with all logits and with chunk {best}"):
    difference = gradient_difference(config, rollout, best, all_positions)
  shape = f"2 layers d{WIDTH} v{vocabulary}, {tokens} tokens"
  rows = [
    outcome.Row(
      f"update, chunk {chunk}, beside whole logits",
      shape,
      "GiB",
      gib[chunk],
      peer=gib[all_positions],
      ratio=gib[all_positions] / gib[chunk],
      limit=MIN_MEMORY_RATIO if chunk == best else None,
    )
    for chunk in CHUNKS
  ]
  name = f"gradient, chunk {best}: agreement with the whole's"
  agreement = 1 / max(difference, _TINY)
  ratio = TOLERANCE * agreement
  rows.append(
    outcome.Row(
      name, shape, "1 / relative difference", agreement, ratio=ratio, limit=1.0
    )
  )
  return outcome.from_rows(
    rows, gradient_difference=difference, tolerance=TOLERANCE
  )


def update_bytes(
  config: ModelConfig, rollout: types.Rollout, chunk: int | None
) -> int:
  """Returns the temporary bytes of a compiled update that donates its state."""
  tx = optax.adamw(1e-6)
  state = jax.eval_shape(
    lambda key: training_state.init(
      METHOD, transformer.init(config, key), tx, key
    ),
    jax.random.key(0),
  )
  update = step.make(METHOD, policy.bind(config), tx, Plan(chunk=chunk))
  program = jax.jit(update, donate_argnums=0).lower(state, rollout).compile()
  return program.memory_analysis().temp_size_in_bytes


def gradient_difference(
  config: ModelConfig,
  rollout: types.Rollout,
  chunk: int | None,
  reference_chunk: int,
) -> float:
  """Returns the largest `relative_difference` over all parameter arrays.

  It compares the gradients with two values of `plan.chunk`.
  """
  params = transformer.init(config, jax.random.key(0))

  @functools.partial(jax.jit, static_argnames="chunk")
  def gradient(
    params: types.PyTree, rollout: types.Rollout, chunk: int | None
  ) -> types.PyTree:
    batch, scales, _ = method_loss.prepare(METHOD, rollout, METHOD.init())
    return method_loss.gradient(
      METHOD, policy.bind(config), params, batch, scales, Plan(chunk=chunk)
    )[0]

  gradients, reference = (
    gradient(params, rollout, chunk=value) for value in (chunk, reference_chunk)
  )
  return max(
    jax.tree.leaves(jax.tree.map(relative_difference, gradients, reference))
  )


def relative_difference(gradient: Array, reference: Array) -> float:
  """Returns the largest difference over the largest entry; inf for a NaN."""
  scale = jnp.maximum(jnp.abs(reference).max(), _TINY)
  difference = jnp.abs(gradient - reference).max() / scale
  return float(jnp.where(jnp.isnan(difference), jnp.inf, difference))
