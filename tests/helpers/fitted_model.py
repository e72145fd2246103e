"""A process reward model with random parameters, as `prm fit` writes one."""

import dataclasses
import json

import jax

from experiments.prm import fit
from experiments.training import checkpointing, reward_models
from models import checkpoint_reader, heads, policy, transformer
from rewards.process import step_model

TINY = {
  "width": 16,
  "layers": 1,
  "heads": 2,
  "kv_heads": 2,
  "head_dim": 8,
  "mlp_width": 32,
}


def write(workdir, decoder, loss="bce"):
  """Writes `fit.json` and a checkpoint.

  Args:
    workdir: folder that exists.
    decoder: `ModelConfig` of the model's decoder.
    loss: loss with its settings.

  Returns:
    The model and its parameters.
  """
  settings = fit.Settings(loss=loss)
  key = jax.random.key(7)
  params = reward_models.init_params(
    settings.make_loss(), decoder.width, transformer.init(decoder, key), key
  )
  # A head whose outputs differ from step to step.
  params["head"]["kernel"] *= 20.0
  record = {
    "settings": dataclasses.asdict(settings),
    "decoder": dataclasses.asdict(decoder),
    "threshold": 0.1,
  }
  (workdir / reward_models.RECORD_FILE).write_text(json.dumps(record))
  folder = workdir / checkpoint_reader.FOLDER
  with checkpointing.Checkpoints(folder) as checkpoints:
    checkpoints.save(0, {"params": params}, {})
  model = step_model.StepModel(
    policy.bind(decoder), heads.linear, settings.make_loss()
  )
  return model, params
