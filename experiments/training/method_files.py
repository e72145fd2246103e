"""Writes the files of a workdir that describe the method of a run.

  method.txt        every learner's method as it prints itself
  advantages.json   the policy's advantages by the number of correct samples

The report reads them, so that it needs neither the config nor today's code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jax
from etils import epath

from experiments.evaluation import advantages_by_count
from experiments.logging import json_files
from experiments.training import workdirs
from experiments.training.experiment import Experiment
from rl import learners
from rl.method import Method


def write(workdir: epath.PathLike, e: Experiment) -> None:
  """Writes both files of an experiment; a supervised one has no advantages."""
  write_description(workdir, e.methods)
  path = epath.Path(workdir) / workdirs.ADVANTAGES_FILE
  if e.is_rl and jax.process_index() == 0 and not path.exists():
    rollout = learners.by_learner(e.abstract_rollout)[learners.POLICY]
    samples = rollout.sample_mask.shape[1]
    # Groups without an advantage are 0 / 0 on the way in some methods, and
    # --debug must not end the run for it.
    with jax.debug_nans(False):
      write_advantages(workdir, e.method, samples)


def write_description(
  workdir: epath.PathLike, methods: Mapping[str, Method]
) -> None:
  """Writes `method.txt`.

  Args:
    workdir: folder of the run.
    methods: the method of each learner.
  """
  if jax.process_index() == 0:
    text = "\n\n".join(map(str, methods.values())) + "\n"
    json_files.replace(epath.Path(workdir) / workdirs.METHOD_FILE, text)


def write_advantages(
  workdir: epath.PathLike, method: Method, samples: int
) -> None:
  """Writes `advantages.json`: "right", "wrong" and "note", or "missing".

  Args:
    workdir: folder of the run.
    method: the method of the policy.
    samples: S, samples of a prompt.
  """
  record: dict[str, Any]
  try:
    advantages = advantages_by_count.compute(method, samples)
    record = {
      "right": advantages.right,
      "wrong": advantages.wrong,
      "note": f"{advantages.note}.",
    }
  except (AttributeError, KeyError, TypeError, ValueError) as error:
    record = {"missing": str(error)}  # the reason, which the report shows
  text = json.dumps(json_files.to_strict_json(record)) + "\n"
  json_files.replace(epath.Path(workdir) / workdirs.ADVANTAGES_FILE, text)
