"""Arms of a study. An arm is a config that is trained with several seeds.

A `Store` trains and evaluates arms, and writes one file per arm and seed. The
file records the date, the commit and the version of JAX of its run. A seed
whose file exists is never run again, and studies that use the same folder share
the files of equal arms. The file of a
supervised arm holds its parameters, from which other arms start. The file of an
arm that is trained by RL holds its metrics and its held-out samples.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
import json
import time
from collections.abc import Callable, Sequence

import jax
import ml_collections
import numpy as np
from etils import epath
from flax import traverse_util

from experiments.cli import arguments
from experiments.evaluation import evaluator
from experiments.logging import json_files, provenance
from experiments.studies import multi_seed
from experiments.training_run import validate
from rl import UsageError, metrics, types

# Prefixes of the names of arrays in the file of a seed: a leaf of the
# parameters, and the series of a metric.
PARAMS = "params/"
METRIC = "metric/"
TIMING_GROUP = "beside"  # name of an entry of `timing_groups` in that file

# Keys of a config that an arm must not set.
_UNSUPPORTED = (
  "base",
  "init_from",
  "policy.path",
  "inference.ahead",
  "model.lora_rank",
)


@dataclasses.dataclass(frozen=True)
class Arm:
  """A config to train, and the arm that provides its initial parameters.

  Attributes:
    config: config of the experiment, as in `experiments/configs`. The `Store`
      replaces its seed. With `steps = 0` the initial parameters are evaluated.
    start: arm whose trained parameters are the initial ones: seed n starts from
      seed n of that arm. None initializes the parameters at random.
    tokens: token budget. Each seed trains until it has sampled this number of
      tokens, even if that takes more or fewer than `config.steps` steps (see
      `experiments.studies.multi_seed`). None trains for `config.steps` steps.
    ahead: whether each rollout is sampled from the parameters before the
      previous training step.
  """

  config: ml_collections.ConfigDict
  start: Arm | None = None
  tokens: int | None = None
  ahead: bool = False

  def __post_init__(self):
    if self.config.get("kind") == "preferences":
      raise UsageError(
        "config.kind = 'preferences' needs a workdir, which an arm has not; "
        "allowed: 'rl' and 'supervised'"
      )
    for key in _UNSUPPORTED:
      value = self.config
      for part in key.split("."):
        value = (value or {}).get(part)
      if value:
        raise UsageError(
          f"config.{key} = {value} is set, but an arm starts from the "
          "parameters of `start`, trains all of them, and samples on the "
          f"devices that train it; leave config.{key} empty or 0"
        )

  @functools.cached_property
  def digest(self) -> str:
    """First 12 hex digits of a hash of the arm; the name of its folder.

    The hash covers the config without its seed, the `start` arm, `tokens` and
    `ahead`. It does not cover the code, whose commit the file of each seed
    records (`Outcome.provenance`).
    """
    config = self.config.to_dict()
    config.pop("seed")
    text = json.dumps(config, sort_keys=True, default=str)
    text += self.start.digest if self.start else ""
    text += "" if self.tokens is None else f" {self.tokens} tokens"
    text += " one step ahead" if self.ahead else ""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclasses.dataclass(frozen=True)
class Outcome:
  """Metrics, held-out samples and training cost of an arm's seeds.

  The evaluation draws S samples for each of N held-out problems.

  Attributes:
    series: `{metric: [seeds, steps]}`, NaN after the last step of a seed.
    steps: `[seeds]` number of training steps.
    scores: `[seeds, N, S]` float32 scores, NaN for a sample without a score.
    correct: `[seeds, N, S]` int8 verdicts: 1 right, 0 wrong, -1 unknown.
    lengths: `[seeds, N, S]` int32 numbers of completion tokens.
    tokens: `[seeds]` tokens that training sampled, including samples that the
      method discarded.
    step_seconds: `[seeds]` seconds of one device for a step, without
      compilation.
    timing_groups: `[seeds]` number of the group of seeds that were trained at
      the same time, which is the smallest seed of the group. The seeds of a
      group share one time measurement, so their `step_seconds` are not
      independent.
    provenance: distinct dates, commits, JAX versions and devices of the runs.
  """

  series: dict[str, np.ndarray]
  steps: np.ndarray
  scores: np.ndarray
  correct: np.ndarray
  lengths: np.ndarray
  tokens: np.ndarray
  step_seconds: np.ndarray
  timing_groups: np.ndarray
  provenance: frozenset[str]

  def pass_at(self, k: int) -> np.ndarray:
    """Returns pass@k, `[seeds]`."""
    return self.pass_curve([k])[:, 0]

  def pass_curve(self, ks: Sequence[int]) -> np.ndarray:
    """Returns pass@k for each k, `[seeds, len(ks)]`.

    Samples whose verdict is unknown (-1) are left out.
    """
    return np.stack(
      [
        np.asarray(metrics.pass_at_k_curve(verdicts == 1, ks, verdicts >= 0))
        for verdicts in self.correct
      ]
    )

  def max_at(self, k: int) -> np.ndarray:
    """Returns the expected best score of k samples, `[seeds]`."""
    return self.max_curve([k])[:, 0]

  def max_curve(self, ks: Sequence[int]) -> np.ndarray:
    """Returns the expected best score for each k, `[seeds, len(ks)]`.

    Samples without a score (NaN) are left out.
    """
    return np.stack(
      [
        np.asarray(
          metrics.max_at_k_curve(np.nan_to_num(scores), ks, ~np.isnan(scores))
        )
        for scores in self.scores
      ]
    )

  def first(self, name: str, share: float = 0.1) -> np.ndarray:
    """Returns the mean of a metric over the first steps, `[seeds]`.

    Args:
      name: name of the metric.
      share: fraction of the steps; at least one step is used.
    """
    return self._mean(name, lambda n: slice(max(int(share * n), 1)))

  def last(self, name: str, share: float = 0.1) -> np.ndarray:
    """Returns the mean of a metric over the last steps, `[seeds]`.

    Args:
      name: name of the metric.
      share: fraction of the steps; at least one step is used.
    """
    return self._mean(name, lambda n: slice(-max(int(share * n), 1), None))

  def _mean(self, name: str, select: Callable[[int], slice]) -> np.ndarray:
    """Averages each seed over the steps that `select(num_steps)` picks."""
    pairs = zip(self.series[name], self.steps, strict=True)
    # `[:n]` removes the NaN that pads a seed with fewer steps.
    return np.array([values[:n][select(n)].mean() for values, n in pairs])


class Store:
  """Trains and reads the arms that one folder stores.

  Args:
    folder: folder that contains `arms/`. It is created by the first write.
    report: function that prints a line of progress.
  """

  def __init__(
    self, folder: epath.PathLike, report: multi_seed.Report = print
  ) -> None:
    self._folder, self._report = epath.Path(folder) / "arms", report

  def missing(self, arm: Arm, numbers: Sequence[int]) -> list[int]:
    """Returns the seeds among `numbers` that have no file yet."""
    return [n for n in numbers if not self._file(arm, n).exists()]

  def outcome(self, arm: Arm, numbers: Sequence[int]) -> Outcome:
    """Trains and evaluates the missing seeds, then reads all of them."""
    self._complete(arm, numbers)
    files = [self._read(arm, number) for number in numbers]
    names = sorted(n for n in files[0] if n.startswith(METRIC))
    steps = [len(file[names[0]]) if names else 0 for file in files]
    series = {
      name.removeprefix(METRIC): _pad_and_stack([file[name] for file in files])
      for name in names
    }

    def stack(name: str) -> np.ndarray:
      return np.stack([file[name] for file in files])

    return Outcome(
      series=series,
      steps=np.array(steps),
      scores=stack("scores"),
      correct=stack("correct"),
      lengths=stack("lengths"),
      tokens=stack("tokens"),
      step_seconds=stack("step_seconds"),
      timing_groups=stack(TIMING_GROUP),
      provenance=frozenset(str(file["made"]) for file in files),
    )

  def _complete(self, arm: Arm, numbers: Sequence[int]) -> None:
    """Trains and evaluates the seeds that have no file, and writes files."""
    missing = self.missing(arm, numbers)
    if not missing:
      return
    for number in missing:
      arguments.check_seed("seed", number)
    if arm.start is not None:
      self._complete(arm.start, missing)
    e = validate.check_and_build(arm.config)
    trainer = multi_seed.make(e, arm.tokens, self._report, arm.ahead)
    for group in trainer.groups(missing):
      start_time = time.perf_counter()
      starts = [
        self._params(arm.start, number) if arm.start else None
        for number in group
      ]
      trained = trainer.train(group, starts)
      # The seeds of a group train at the same time; each gets an equal share.
      training_seconds = (time.perf_counter() - start_time) / len(group)
      for number, trained_seed in zip(group, trained, strict=True):
        start_time = time.perf_counter()
        if e.is_rl:
          params = jax.device_put(trained_seed.params, e.replicated)
          evaluation = evaluator.evaluate_experiment(e, params)
          result = {
            "scores": evaluation.scores,  # each array is [N, S]
            "correct": evaluation.correct,
            "lengths": evaluation.lengths,
          }
        else:
          # Each leaf by its path, for example "params/layers/attention/q".
          leaves = traverse_util.flatten_dict(trained_seed.params, sep="/")
          result = {PARAMS + path: leaf for path, leaf in leaves.items()}
        seconds = training_seconds + time.perf_counter() - start_time
        self._report(f"{trainer.label}, seed {number}: {seconds:.0f} s")
        arrays = {
          **{
            METRIC + name: values
            for name, values in trained_seed.series.items()
          },
          **result,
          "tokens": np.asarray(trained_seed.tokens),
          "step_seconds": np.asarray(trained_seed.step_seconds),
          TIMING_GROUP: np.asarray(group[0]),
          "made": np.asarray(provenance.describe()),
        }
        self._write(arm, number, arrays)

  def _file(self, arm: Arm, number: int) -> epath.Path:
    return self._folder / arm.digest / f"seed_{number:03d}.npz"

  def _read(self, arm: Arm, number: int) -> dict[str, np.ndarray]:
    content = self._file(arm, number).read_bytes()
    with np.load(io.BytesIO(content)) as arrays:
      return dict(arrays)

  def _params(self, arm: Arm, number: int) -> types.PyTree:
    """Reads the parameters from the file of a supervised seed."""
    leaves = {
      name.removeprefix(PARAMS): value
      for name, value in self._read(arm, number).items()
      if name.startswith(PARAMS)
    }
    return traverse_util.unflatten_dict(leaves, sep="/")

  def _write(
    self, arm: Arm, number: int, arrays: dict[str, np.ndarray]
  ) -> None:
    path = self._file(arm, number)
    config = json.dumps(arm.config.to_dict(), indent=2, default=str)
    json_files.replace(path.parent / "config.json", config + "\n")
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    json_files.replace(path, content.getvalue())


def _pad_and_stack(series: Sequence[np.ndarray]) -> np.ndarray:
  """Stacks series of several seeds to `[seeds, max steps]`, padded with NaN."""
  if len({len(values) for values in series}) == 1:
    # No padding: this also keeps the dtype of a series of integers.
    return np.stack(series)
  max_steps = max(map(len, series))
  padded = np.full((len(series), max_steps, *series[0].shape[1:]), np.nan)
  for row, values in zip(padded, series, strict=True):
    row[: len(values)] = values
  return padded
