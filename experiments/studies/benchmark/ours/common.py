"""Functions that the programs of our side share."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from experiments.cli import devices
from models import hf, sharding, transformer
from models.config import ModelConfig
from rl.sampling import generation

Array = jax.Array


class Loaded(NamedTuple):
  """A decoder on its devices, and the prompts.

  Attributes:
    mesh: mesh of the job's number of CPU devices; batches are split over it.
    config: config of the saved decoder, with fields of `ModelConfig` that the
      job overrides, such as `unroll`.
    params: parameters, replicated on every device.
    prompts: `[P, L]` on the host.
  """

  mesh: Mesh
  config: ModelConfig
  params: transformer.Params
  prompts: np.ndarray


def load(job: dict[str, Any]) -> Loaded:
  """Loads the decoder and the prompts of a job.

  It sets the number of CPU devices, so it must be called before JAX computes.
  """
  devices.configure(job["devices"])
  mesh = sharding.make_mesh(devices=jax.devices()[: job["devices"]])
  config, params = hf.load(job["weights"], mesh=mesh)
  fields = {field.name for field in dataclasses.fields(ModelConfig)}
  overrides = {name: value for name, value in job.items() if name in fields}
  config = dataclasses.replace(config, **overrides)
  return Loaded(mesh, config, params, np.load(job["prompts"]))


def sampling(job: dict[str, Any]) -> generation.Sampling:
  """Returns settings that sample at temperature 1 without top-k or top-p."""
  return generation.Sampling(
    samples=job["samples"],
    max_tokens=job["max_tokens"],
    eos_ids=() if job["eos_id"] is None else (job["eos_id"],),
    pad_id=job["pad_id"],
    rows=job.get("rows", 0),
  )


def place(mesh: Mesh, tree: Any) -> Any:
  """Puts arrays on the devices, with their first axis split over them."""
  rows = sharding.batch_sharding(mesh)
  return jax.tree.map(lambda x: jax.device_put(jnp.asarray(x), rows), tree)
