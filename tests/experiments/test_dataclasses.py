"""Records of `models` and `experiments` do not change once they are made."""

import dataclasses
import importlib
import pkgutil

import flax.linen as nn

import experiments
import models

# The turns of a conversation follow each other.
CHANGING = {"experiments.evaluation.user_prompts:Conversation"}


def _dataclasses():
  """Yields the name and the class of each record, outside of the studies."""
  for package in (models, experiments):
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
      if info.name.startswith("experiments.studies") or "__main__" in info.name:
        continue
      module = importlib.import_module(info.name)
      for name, value in vars(module).items():
        is_own = getattr(value, "__module__", "") == info.name
        is_class = isinstance(value, type)
        if is_own and is_class and dataclasses.is_dataclass(value):
          yield f"{info.name}:{name}", value


def test_dataclasses_are_frozen():
  """Modules of Flax are frozen in another way."""
  frozen = {
    name: value.__dataclass_params__.frozen
    for name, value in _dataclasses()
    if not issubclass(value, nn.Module)
  }
  assert len(frozen) > 30
  assert {name for name, is_frozen in frozen.items() if not is_frozen} == (
    CHANGING
  )
