"""One experiment per method, on an embedded task, all alike but for the method.

The bake-off (`python -m experiments.studies.bakeoff`) trains these very configs.
"""

from __future__ import annotations

from typing import Any

from ml_collections import ConfigDict

from experiments.cli import spec
from experiments.configs import chain_base, countdown_base, defaults
from rl import choices

COUNTDOWN = "countdown(count=4)"  # many right answers: breadth shows
CHAIN = "chain(operations=3)"  # step scores
BASES = {"countdown": countdown_base, "chain": chain_base}
STEPS = 100


def base(task: str) -> ConfigDict:
  """The imitation of the task's demonstrations that its runs start from.

  A value head stands ready for the methods that train one.

  Args:
    task: with its settings.

  Raises:
    ValueError: there is no base for it.
  """
  name, _ = spec.parse(task)
  if name not in BASES:
    raise ValueError(choices.unknown("embedded task", name, BASES))
  config = BASES[name].get_config()
  config.task = task
  config.model.value_head = True
  return config


def on_task(method: str, task: str = COUNTDOWN, **changes: Any) -> ConfigDict:
  """Reinforcement learning by a method, from the task's base policy.

  32 prompts of 16 samples a step, in two minibatches: ratios differ from 1 in
  the second. A strictly on-policy method sets `plan__minibatches=1`, one that
  needs the host `steps_per_dispatch=1`.

  Args:
    method: with its hyper-parameters, as in `config.method`.
    task: with its settings.
    **changes: of the config, dots written as double underscores.
  """
  config = defaults.with_base(defaults.rl(steps=STEPS), base(task))
  config.method = method
  config.plan.minibatches = 2
  config.steps_per_dispatch = 10
  config.evaluation.problems = 128
  config.update_from_flattened_dict(
    {key.replace("__", "."): value for key, value in changes.items()}
  )
  return config
