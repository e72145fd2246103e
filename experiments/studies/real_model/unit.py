"""Runs one unit, an arm with one seed, and writes its result as JSON.

The record has, besides the date, the commit and the devices,

  "evaluation"     the samples of the held-out problems after training, all
                   fields of `statistics.Evaluation`
  "page_log_prob"  mean log-probability per token of a page of a novel, in nats:
                   it falls if the model forgets ordinary text
  "series"         entropy, length, score and seconds of every training step
  "peak_gib"       largest memory of the process, or of the GPU
  "samples"        first samples of the first and of the last training step
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import resource
import time
from typing import Any

import jax
import ml_collections
import numpy as np
from etils import epath

from experiments import pretrained
from experiments.evaluation import evaluator, policies, statistics
from experiments.logging import json_files, provenance
from experiments.studies.real_model.arms import ARMS, base_of
from experiments.training import initial_state, loop, validate, workdirs
from models import tokenizer
from rl import scoring, types

RESULTS = pathlib.Path(__file__).with_name("results")
_PAGE = pathlib.Path(__file__).with_name("page.txt")
# Metric in `metrics.jsonl` -> name in the record.
_SERIES = {
  "policy/entropy": "entropy",
  "length/mean": "length",
  "length/truncated_frac": "truncated",
  "length/steps_mean": "lines",
  "reward/mean": "score",
  "accuracy/pass@1": "pass@1",
  "time/step_s": "seconds",
}
_SAMPLES = 16  # samples of a training step in the record


def result_file(arm: str, seed: int) -> pathlib.Path:
  """Returns the file of a unit's result."""
  return RESULTS / f"{arm}_{seed}.json"


def run(arm: str, seed: int, folder: pathlib.Path) -> None:
  """Trains and evaluates an arm with one seed, and writes the result.

  The evaluation of the base model is read from the result of the base arm, if
  that exists, since it is the same for all arms of a task.

  Args:
    arm: name of the arm.
    seed: seed of the run. The evaluation has the same seed in all units.
    folder: folder of the workdirs.
  """
  start = time.perf_counter()
  described = provenance.describe()  # before others may change the checkout
  config = ARMS[arm].make_config(seed, folder)
  workdir = folder / f"{arm}_{seed}"
  experiment = validate.check_and_build(config, workdir)
  workdir.mkdir(parents=True, exist_ok=True)
  base_file = result_file(base_of(arm), 0)
  if not config.steps:
    params = initial_state.starting_params(experiment, epath.Path(workdir))
    evaluator.evaluate_once(
      experiment,
      experiment.init(params),
      epath.Path(workdir / workdirs.EVALUATION_FILE),
      lambda: None,
    )
  else:
    if base_file.exists():
      base = load_evaluation(json.loads(base_file.read_text()))
      statistics.save(base, workdir / workdirs.BASE_EVALUATION_FILE)
    loop.run(experiment, workdir)
  memory = _peak_gib()
  record = {
    "arm": arm,
    "seed": seed,
    "run": described,
    "device": jax.devices()[0].device_kind,
    "task": experiment.task.name,
    "minutes": round((time.perf_counter() - start) / 60, 1),
    "peak_gib": round(memory, 2),
    "page_log_prob": page_log_prob(config, workdir),
    "series": _read_series(workdir),
    "samples": _read_samples(workdir),
    "evaluation": _to_json(statistics.load(workdir / workdirs.EVALUATION_FILE)),
  }
  RESULTS.mkdir(exist_ok=True)
  text = json.dumps(json_files.to_strict_json(record))
  json_files.replace(result_file(arm, seed), text + "\n")


def load_evaluation(record: dict[str, Any]) -> statistics.Evaluation:
  """Returns the evaluation of a record."""
  values = record["evaluation"]
  return statistics.Evaluation(
    task=values["task"],
    step=values["step"],
    temperature=values["temperature"],
    ids=np.array(values["ids"], np.int32),
    scores=np.array(values["scores"], np.float32),  # None becomes NaN
    correct=np.array(values["correct"], np.int8),
    answer_ids=np.array(values["answer_ids"], np.int32),
    lengths=np.array(values["lengths"], np.int32),
    finished=np.array(values["finished"], bool),
  )


def page_log_prob(
  config: ml_collections.ConfigDict, workdir: pathlib.Path
) -> float:
  """Returns the mean log-probability per token of the page, in nats.

  Args:
    config: config of the run. With 0 steps the run has no checkpoint, and the
      model of the page is the one that the run starts from.
    workdir: folder of the run.
  """
  if config.steps:
    loaded = policies.load_from_run(workdir, None, {})
  else:
    loaded = policies.load_from_folder(config.policy.path, config.task)
  hf_tokenizer = tokenizer.load(pretrained.resolve(config.policy.path))
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
  def read(params: types.PyTree) -> jax.Array:
    values = scoring.read(
      loaded.policy, params, tokens, {scoring.log_probs}, types.Named()
    )
    return values[scoring.log_probs.name].mean()

  return float(read(loaded.params))


def _peak_gib() -> float:
  """Returns the largest memory of the GPU, or else of the process, in GiB."""
  statistics_of_device = jax.local_devices()[0].memory_stats()
  if statistics_of_device:
    return statistics_of_device["peak_bytes_in_use"] / 2**30
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _read_series(workdir: pathlib.Path) -> dict[str, list[float]]:
  """Returns the values of the training steps by name."""
  file = workdir / "metrics.jsonl"
  lines = json_files.read(file) if file.exists() else []
  return {
    name: [float(f"{line[metric]:.4g}") for line in lines if metric in line]
    for metric, name in _SERIES.items()
  }


def _read_samples(workdir: pathlib.Path) -> dict[str, list[dict[str, Any]]]:
  """Returns samples of each recorded training step, by the file's name."""
  keys = ("prompt", "completion", "score")
  return {
    file.stem: [
      {key: record[key] for key in keys}
      for record in json_files.read(file)[:_SAMPLES]
    ]
    for file in sorted((workdir / "rollouts").glob("*.jsonl"))
  }


def _to_json(evaluation: statistics.Evaluation) -> dict[str, Any]:
  """Returns the fields of an evaluation as JSON values.

  The ids of answers are numbered from 0 within each problem.
  """
  values = dataclasses.asdict(evaluation)
  values["answer_ids"] = np.stack(
    [
      np.where(ids < 0, -1, np.unique(ids, return_inverse=True)[1])
      for ids in evaluation.answer_ids
    ]
  )
  values["scores"] = np.round(evaluation.scores.astype(float), 4)
  values["finished"] = evaluation.finished.astype(int)
  return {
    name: value.tolist() if isinstance(value, np.ndarray) else value
    for name, value in values.items()
  }
