"""Rewards, by name: `rewards.get("majority", threshold=0.5)`.

A reward is a transform without an input signal (`rl.transforms.base`): it reads
a rollout and returns one score per sample, `[P, S]`, or per reasoning step,
`[P, S, K]`, for P prompts, S samples per prompt and K steps. It is defined in
the file of its topic, below the array function that it applies:

  agreement      agreement of the answers of a group, without labels
  confidence     confidence of the policy in its tokens
  controls       random or wrong rewards, for comparison
  hidden_states  novelty of the policy's hidden states
  length         costs of a completion's tokens
  likelihood     likelihood of the reference answer, or of the completion
  outcome        the task's score and verdict
  process        process reward models: their scores, labels and losses
  reward_models  the scores of reward models and judges
  shaping        functions of a score
  steps          scores of steps and turns
  tasks          the rules of the arithmetic tasks
  text           phrases, n-grams and overlap of tokens
  verifiers      verdicts on texts, computed on the host

To add a reward, add a file to a topic with a function that is decorated by
`rl.transforms.base.transform`; the function's name is the reward's name.
`rewards.combine` makes one reward of several.

A reward declares its needs (`rewards.base`): arrays that are computed before
the training step and put into `rollout.extras`. They come from a forward pass
over the sampled text or over the reference answer, from the task, or from the
sampler. A pass runs once per training step, however many rewards need it, and
its cost is logged as `cost/SOURCE@VIEW_tokens`.

Importing this package imports nothing else, since the worker processes of
`rewards.verifiers` must start without JAX.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rl import UsageError, registry

if TYPE_CHECKING:
  from rl.transforms import Transform


def names() -> list[str]:
  """Returns the names of all rewards, sorted."""
  return sorted(factories())


def get(name: str, /, **settings: Any) -> Transform:
  """Returns a reward.

  Args:
    name: one of `names()`, or "module:function".
    **settings: settings of the reward; those left out keep their defaults.

  Returns:
    A transform that takes no signal and gives one score per sample or per step.

  Raises:
    UsageError: the name or a setting is unknown, or a setting is missing or has
      the wrong type; or a module of rewards cannot be imported.
  """
  make = factory(name)
  registry.check_settings("setting", f"reward {name!r}", make, settings)
  return make(**settings)


def factory(name: str) -> Callable[..., Transform]:
  """Returns the function that builds the reward of a name.

  Args:
    name: one of `names()`, or "module:function".

  Raises:
    UsageError: the name is unknown.
  """
  if ":" in name:
    make = registry.load("reward", name)
    if "rollout" in registry.named_parameters(make):
      raise UsageError(
        f"reward {name!r} takes a rollout: decorate the function with "
        '@rl.transforms.transform(takes="none", gives="sample")'
      )
    return make
  if name not in factories():
    raise UsageError(registry.describe_unknown("reward", name, names()))
  return factories()[name]


def factories() -> Mapping[str, Callable[..., Transform]]:
  """Returns `{name: function that builds the reward}`.

  The first call imports every topic.

  Raises:
    UsageError: a module of rewards cannot be imported, or two rewards have the
      same name.
  """
  return _factories(tuple(__path__))


@functools.cache
def _factories(folders: tuple[str, ...]) -> dict[str, Callable]:
  """Collects the public functions that `transform` decorated, by name."""
  result: dict[str, Callable] = {}
  for name in _modules(folders):
    for attribute, value in vars(registry.import_module(name)).items():
      # Only functions decorated by `transform` have the attribute
      # `__signature__`, which lists their settings.
      if not attribute.startswith("_") and hasattr(value, "__signature__"):
        registry.add(result, "reward", attribute, value)
  return result


def _modules(folders: tuple[str, ...]) -> Iterator[str]:
  """Names of the modules that may define rewards."""
  for topic in pkgutil.iter_modules(folders, f"{__name__}."):
    if topic.name == f"{__name__}.verifiers":  # these read texts, not rollouts
      continue
    yield topic.name
    if topic.ispkg:
      package = importlib.import_module(topic.name)
      for info in pkgutil.walk_packages(package.__path__, f"{topic.name}."):
        yield info.name
