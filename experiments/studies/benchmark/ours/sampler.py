"""The sampler of this project, `rl.sampling.generation.generate`.

Used by `experiments.studies.benchmark.decode`. Entries of its job besides those
of the peers: `devices`; `rows`, samples of a prompt that decode at once; fields
of `ModelConfig`.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.studies.benchmark.ours import common
from experiments.studies.benchmark.peers import protocol
from models import hf, policy
from rl import types
from rl.sampling import generation


def prepare(job: dict[str, Any]) -> protocol.Served:
  """Builds the side of a job."""
  loaded = common.load(job)
  sampling = common.sampling(job)
  model = policy.bind(loaded.config)

  @functools.partial(jax.jit, static_argnames="sampling")
  def generate(
    params: types.PyTree,
    prompts: jax.Array,
    numbers: jax.Array,
    call: jax.Array,
    sampling: generation.Sampling,
  ) -> generation.Samples:
    keys = generation.prompt_keys(jax.random.key(0), call, numbers)
    mask = jnp.ones(prompts.shape, bool)
    return generation.generate(model, params, prompts, mask, keys, sampling)

  def draw(
    params: types.PyTree,
    prompts: np.ndarray,
    call: int,
    sampling: generation.Sampling,
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns completions `[P, S, T]` and lengths `[P, S]`, by microbatches."""
    parts = []
    for start in range(0, len(prompts), job["micro"]):
      part = prompts[start : start + job["micro"]]
      numbers = np.arange(start, start + len(part))
      placed = common.place(loaded.mesh, (part, numbers))
      samples = generate(params, *placed, call, sampling)
      parts.append(jax.device_get((samples.completions, samples.lengths)))
    completions, lengths = zip(*parts, strict=True)
    return np.concatenate(completions), np.concatenate(lengths)

  def call(number: int, prompts: int | None = None) -> dict[str, Any]:
    batch = loaded.prompts[:prompts]
    _, lengths = draw(loaded.params, batch, number, sampling)
    return {"tokens": int(lengths.sum()), "lengths": lengths.tolist()}

  def greedy(folder: str, prompts: int, tokens: int) -> dict[str, Any]:
    _, params = hf.load(folder, mesh=loaded.mesh)
    greedy_sampling = generation.Sampling(
      1, tokens, eos_ids=(), pad_id=job["pad_id"], temperature=0.0
    )
    completions, _ = draw(params, loaded.prompts[:prompts], 0, greedy_sampling)
    return {"tokens": completions[:, 0].tolist()}

  facts = {"jax": jax.__version__, "devices": len(jax.devices())}
  return protocol.Served(facts, call, {"greedy": greedy})


if __name__ == "__main__":
  protocol.serve(prepare)
