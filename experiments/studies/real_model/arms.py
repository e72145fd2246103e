"""The arms: configs of `experiments/configs/smollm2.py` with changed keys."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from experiments.configs import smollm2

FIRST_ERROR_MODEL = "runs/smollm2_prm_first_error"


@dataclasses.dataclass(frozen=True)
class ModelArm:
  """A config that trains the pretrained model with several seeds.

  An arm with 0 steps evaluates the model without training.

  Attributes:
    config: name of a config of `experiments/configs/smollm2.py`.
    changes: config keys and their new values, such as
      `{"optimizer.learning_rate": 1e-5}`.
    start: arm from whose run with the same seed this one starts; "" starts from
      the base model.
  """

  config: str
  changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  start: str = ""

  def make_config(self, seed: int, folder: pathlib.Path) -> ConfigDict:
    """Returns the config of one seed.

    Args:
      seed: seed of the run.
      folder: folder of the runs.
    """
    config = smollm2.get_config(self.config)
    config.update_from_flattened_dict({**self.changes, "seed": seed})
    if self.start:
      config.init_from = str(folder / f"{self.start}_{seed}")
    return config


ARMS: Mapping[str, ModelArm] = {
  # Evaluations of the base model.
  "texts_base": ModelArm("grpo", {"steps": 0}),
  "lists_base": ModelArm("lists_min_form", {"steps": 0}),
  # Search of the learning rate, on seed 0; "grpo_2e-5" equals "grpo".
  "grpo_1e-5": ModelArm("grpo", {"optimizer.learning_rate": 1e-5}),
  "grpo_2e-5": ModelArm("grpo"),
  "grpo_4e-5": ModelArm("grpo", {"optimizer.learning_rate": 4e-5}),
  # The objectives.
  "grpo": ModelArm("grpo"),
  "max_at_4": ModelArm("max_at_k"),
  # Training of all parameters, and of LoRA adapters of rank 16.
  "full_20": ModelArm("max_at_k", {"steps": 20, "rollouts_every": 19}),
  "lora_20": ModelArm(
    "max_at_k",
    {
      "steps": 20,
      "rollouts_every": 19,
      "model.lora_rank": 16,
      "optimizer.learning_rate": 2e-4,
    },
  ),
  # The credit of a list's lines.
  "lists_sum_form": ModelArm("lists_sum_form"),
  "lists_min_form": ModelArm("lists_min_form"),
  "lists_outcome": ModelArm("lists_outcome"),
  # The same by a fitted model (smollm2.py).
  "lists_fitted_sum_form": ModelArm("lists_fitted_sum_form"),
  "lists_fitted_min_form": ModelArm("lists_fitted_min_form"),
  # A model that is fitted to labels up to the first wrong line, `--source
  # checker` in place of that of smollm2.py.
  "lists_first_error_sum_form": ModelArm(
    "lists_fitted_sum_form", {"models.prm.workdir": FIRST_ERROR_MODEL}
  ),
  "lists_first_error_min_form": ModelArm(
    "lists_fitted_min_form", {"models.prm.workdir": FIRST_ERROR_MODEL}
  ),
  # The stages of Tulu 3, on samples of `experiments.preferences` (smollm2.py).
  "tulu3_sft": ModelArm("tulu3_sft"),
  "tulu3_dpo": ModelArm("tulu3_dpo", start="tulu3_sft"),
  "tulu3_rlvr": ModelArm("tulu3_rlvr", start="tulu3_dpo"),
}


def base_of(name: str) -> str:
  """Returns the arm that evaluates the base model on the arm's task."""
  return f"{'lists' if ARMS[name].config.startswith('lists') else 'texts'}_base"
