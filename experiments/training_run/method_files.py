"""Writes the files of a workdir that describe the method of a run.

  method.txt        the method of every learner, as `str` prints it
  advantages.json   the policy's advantages by the number of correct samples in
                    a group
  code.json         a hash of each file of the code

The report reads the first two, so it does not depend on later changes of the
code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
from etils import epath

from experiments.evaluation import advantages_by_count
from experiments.logging import json_files, provenance
from experiments.training import workdirs
from experiments.training.experiment import Experiment
from rl import learners
from rl.method import Method


def write(workdir: epath.PathLike, e: Experiment) -> None:
  """Writes the files; a supervised run has no `advantages.json`.

  Args:
    workdir: folder of the run.
    e: the experiment.
  """
  write_description(workdir, e.methods)
  folder = epath.Path(workdir)
  if jax.process_index() == 0:
    hashes = provenance.source_hashes()
    json_files.replace_object(folder / provenance.CODE_FILE, hashes)
  path = folder / workdirs.ADVANTAGES_FILE
  if e.is_rl and jax.process_index() == 0 and not path.exists():
    rollout = learners.by_learner(e.abstract_rollout)[learners.POLICY]
    samples = rollout.sample_mask.shape[1]
    # For groups of equal scores some methods compute 0 / 0 and replace it by 0.
    # With --debug this must not end the run.
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
  """Writes `advantages.json`.

  Its keys are "right" and "wrong", the advantages of right and wrong samples,
  and "note"; or "missing", the reason for which there are no advantages.

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
    record = {"missing": str(error)}
  path = epath.Path(workdir) / workdirs.ADVANTAGES_FILE
  json_files.write(path, [record])
