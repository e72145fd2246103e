"""Runs one unit, an arm with one seed.

The result (`units`) has

  "task"           the task
  "device"         kind of the device
  "evaluation"     samples of the held-out problems after training, all fields
                   of `summary.Evaluation`
  "page_log_prob"  mean log-probability per token of `page.txt`, the beginning
                   of Alice in Wonderland, in nats: it falls if the model
                   forgets ordinary text
  "series"         values of every training step, by the names in `_SERIES`
  "peak_gib"       peak memory of the first GPU, or on a CPU that of the
                   process, in GiB
  "samples"        first samples of the first and of the last training step
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import resource
import sys
from typing import Any

import jax
import ml_collections
import numpy as np

from experiments.data import pretrained
from experiments.evaluation import policy_loader, summary
from experiments.logging import json_files, progress
from experiments.studies import seed_results, units
from experiments.studies.real_model.arms import ARMS, base_of
from experiments.training import workdirs
from experiments.training.experiment import Experiment
from experiments.training_run import loop, validate
from models import tokenizer
from rl import scoring, types

_PAGE = pathlib.Path(__file__).with_name("page.txt")
# Metric in `metrics.jsonl` -> name in the record.
_SERIES = {
  "policy/entropy": "entropy",
  "length/mean": "length",
  "length/truncated_frac": "truncated",
  "length/steps_mean": "lines",
  "reward/mean": "score",
  "accuracy/pass@1": "pass@1",
  "prm/score": "model's score of a step",
  "prm/task_score": "task's score of a step",
  "time/step_s": "seconds",
}


def run(arm: str, seed: int, folder: pathlib.Path) -> dict[str, Any]:
  """Trains and evaluates an arm with one seed, and returns the result.

  Args:
    arm: name of the arm.
    seed: seed of the run. The evaluation has the same seed in all units.
    folder: folder of the workdirs.

  Raises:
    UsageError: the config cannot run, for example because the model has not
      been downloaded, or a file of an earlier stage is missing.
  """
  workdir = folder / f"{arm}_{seed}"
  config = ARMS[arm].make_config(seed, folder)
  experiment = validate.check_and_build(config, workdir)
  if config.steps:
    _write_base_evaluation(experiment, arm, seed, workdir)
    loop.run(experiment, workdir)
  peak_gib = _peak_gib()
  loaded = _load_policy(config, workdir)
  if config.steps and experiment.is_evaluated:
    evaluation = summary.load(workdir / workdirs.EVALUATION_FILE)
  else:  # the loop evaluates neither a base model nor a supervised run
    with progress.lines(
      print,
      f"{loaded.name}: evaluation",
      loaded.settings["problems"],
    ) as update:
      evaluation = policy_loader.evaluate(loaded, update)
  return {
    "device": jax.devices()[0].device_kind,
    "task": experiment.task.name,
    "peak_gib": round(peak_gib, 2),
    "page_log_prob": page_log_prob(loaded, config.policy.path),
    "series": _read_series(workdir),
    "samples": seed_results.first_samples(
      sorted((workdir / "rollouts").glob("*.jsonl")),
      ("prompt", "completion", "score"),
    ),
    "evaluation": _to_json(evaluation),
  }


def _write_base_evaluation(
  e: Experiment, arm: str, seed: int, workdir: pathlib.Path
) -> None:
  """Writes the evaluation of the policy that the run starts from, if stored."""
  # The evaluation is in the result of the arm from which the run starts, so
  # that the run need not repeat it.
  first = ARMS[arm].start
  unit = (first, seed) if first else (base_of(arm), 0)
  file = STUDY.file(*unit)
  if not file.exists():
    return
  evaluation = load_evaluation(json.loads(file.read_text()))
  settings = e.config.evaluation
  shape = settings.problems, settings.samples
  # An evaluation with other settings is not written.
  if (
    evaluation.task == e.task.name
    and evaluation.scores.shape == shape
    and evaluation.temperature == settings.temperature
  ):
    workdir.mkdir(parents=True, exist_ok=True)
    evaluation = dataclasses.replace(evaluation, step=0)  # of the new run
    summary.save(evaluation, workdir / workdirs.BASE_EVALUATION_FILE)


def _load_policy(
  config: ml_collections.ConfigDict, workdir: pathlib.Path
) -> policy_loader.LoadedPolicy:
  """Loads the trained policy; with 0 steps the model of `policy.path`."""
  if config.steps:
    return policy_loader.load_from_run(workdir, None, {})
  return policy_loader.load_from_folder(
    config.policy.path,
    config.task,
    max_tokens=config.rollout.max_tokens or None,
    # JAX has started, so the number of devices can no longer be chosen.
    cpu_devices=1,
    **config.evaluation,
  )


def load_evaluation(record: dict[str, Any]) -> summary.Evaluation:
  """Returns the evaluation of a record."""
  values = record["evaluation"]
  return summary.Evaluation(
    task=values["task"],
    step=values["step"],
    temperature=values["temperature"],
    ids=np.array(values["ids"], np.int32),
    scores=np.array(values["scores"], np.float32),  # "NaN" becomes NaN
    correct=np.array(values["correct"], np.int8),
    answer_ids=np.array(values["answer_ids"], np.int32),
    lengths=np.array(values["lengths"], np.int32),
    finished=np.array(values["finished"], bool),
  )


def page_log_prob(loaded: policy_loader.LoadedPolicy, model: str) -> float:
  """Returns the mean log-probability per token of the page, in nats.

  Args:
    loaded: the policy.
    model: folder of the tokenizer, or a name in `pretrained.MODELS`.
  """
  hf_tokenizer = tokenizer.load(pretrained.resolve(model))
  ids = tokenizer.encode(hf_tokenizer, [_PAGE.read_text()])[0]
  prompt, completion = np.array(ids[:1]), np.array(ids[1:])
  tokens = types.Tokens(
    prompts=prompt[None],
    prompt_mask=np.ones((1, 1), bool),
    completions=completion[None, None],
    lengths=np.full((1, 1), len(completion)),
    mask=np.ones((1, 1, len(completion)), bool),
  )

  @jax.jit
  def mean_log_prob(params: types.PyTree) -> jax.Array:
    values = scoring.read(
      loaded.policy, params, tokens, {scoring.log_probs}, types.Named()
    )
    return values[scoring.log_probs.name].mean()

  return float(mean_log_prob(loaded.params))


def _peak_gib() -> float:
  """Returns the largest memory of the GPU, or else of the process, in GiB."""
  memory_stats = jax.local_devices()[0].memory_stats()
  if memory_stats:
    return memory_stats["peak_bytes_in_use"] / 2**30
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  # macOS counts bytes, Linux counts KiB.
  return peak / (2**30 if sys.platform == "darwin" else 2**20)


def _read_series(workdir: pathlib.Path) -> dict[str, list[float]]:
  """Returns the values of the training steps by name."""
  file = workdir / "metrics.jsonl"
  lines = json_files.read(file) if file.exists() else []
  return {
    name: seed_results.series(lines, metric) for metric, name in _SERIES.items()
  }


def _to_json(evaluation: summary.Evaluation) -> dict[str, Any]:
  """Returns the fields of an evaluation as JSON values."""
  values = dataclasses.asdict(evaluation)
  # Within a problem, the distinct answers are numbered from 0; -1 is no answer.
  values["answer_ids"] = np.stack(
    [
      # `maximum` makes all missing answers -1, which is then put first.
      np.unique(np.append(np.maximum(ids, -1), -1), return_inverse=True)[1][:-1]
      - 1
      for ids in evaluation.answer_ids
    ]
  )
  values["scores"] = np.round(evaluation.scores.astype(float), 4)
  values["finished"] = evaluation.finished.astype(int)
  return {
    name: value.tolist() if isinstance(value, np.ndarray) else value
    for name, value in values.items()
  }


STUDY = units.Study(
  command="experiments.studies.real_model",
  kind="arm",
  names=list(ARMS),
  results=pathlib.Path(__file__).with_name("results"),
  run_unit=run,
)
