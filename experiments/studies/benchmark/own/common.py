"""What our sides share: devices, the decoder of a folder, and its batch."""

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
  """A decoder on its devices.

  Attributes:
    mesh: of as many CPU devices as the job says; batches are split over it.
    config: of the folder, with the fields that the job names (`unroll`).
    params: copied on every device.
    prompts: `[P, L]` on the host.
  """

  mesh: Mesh
  config: ModelConfig
  params: transformer.Params
  prompts: np.ndarray


def load(job: dict[str, Any]) -> Loaded:
  """Before anything else computes: it decides how many devices there are."""
  devices.configure(job["devices"])
  mesh = sharding.make_mesh(devices=jax.devices()[: job["devices"]])
  config, params = hf.load(job["weights"], mesh=mesh)
  fields = {field.name for field in dataclasses.fields(ModelConfig)}
  named = {name: value for name, value in job.items() if name in fields}
  config = dataclasses.replace(config, **named)
  return Loaded(mesh, config, params, np.load(job["prompts"]))


def sampling(job: dict[str, Any]) -> generation.Sampling:
  """At temperature 1, from the whole distribution."""
  return generation.Sampling(
    samples=job["samples"],
    max_tokens=job["max_tokens"],
    eos_ids=() if job["eos_id"] is None else (job["eos_id"],),
    pad_id=job["pad_id"],
    rows=job.get("rows", 0),
  )


def place(mesh: Mesh, tree: Any) -> Any:
  """Arrays with their first axis split over the devices."""
  rows = sharding.batch_sharding(mesh)
  return jax.tree.map(lambda x: jax.device_put(jnp.asarray(x), rows), tree)
