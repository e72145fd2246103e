"""Arms: one config, trained and evaluated from several seeds, kept on disk.

A finished seed is a file, which says by what it was made, and is never run
again; whoever asks for the same arm shares it. A supervised arm keeps its
parameters, another its held-out samples.
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

from experiments.cli import arguments
from experiments.evaluation import evaluator
from experiments.logging import json_files, provenance
from experiments.studies import multi_seed
from experiments.training import validate
from experiments.training.experiment import Experiment
from rl import metrics, types

PARAMS = "params/"
METRIC = "metric/"


@dataclasses.dataclass(frozen=True)
class Arm:
  """What is trained, and from what.

  Attributes:
    config: of the experiment, as in `experiments/configs`; its seed is set by
      who runs it, `steps = 0` evaluates the start.
    start: the arm whose parameters it begins with, seed by seed; None begins
      from scratch.
    tokens: a seed stops when it has sampled so many, whatever `config.steps`
      says (see `experiments.studies.multi_seed`); None: after `config.steps`.
  """

  config: ml_collections.ConfigDict
  start: Arm | None = None
  tokens: int | None = None

  def __post_init__(self):
    for name in ("base", "init_from"):
      if self.config.get(name):
        raise ValueError(
          f"an arm starts from another arm, not by config.{name}"
        )
    if self.config.policy.path:
      raise ValueError("an arm starts from another arm, not by a policy.path")
    if (self.config.get("sampler") or {}).get("ahead"):
      raise ValueError(
        "an arm samples each seed where it is trained: sampler.ahead must be 0"
      )
    if self.config.model.lora_rank:
      raise ValueError(
        "an arm trains all parameters: model.lora_rank must be 0"
      )

  @functools.cached_property
  def digest(self) -> str:
    """Twelve hex digits of the config, but its seed, and of the start's.

    Not of the code: what made a seed is kept with it (`Store.made`).
    """
    said = self.config.to_dict()
    said.pop("seed")
    text = json.dumps(said, sort_keys=True, default=str)
    text += self.start.digest if self.start else ""
    text += "" if self.tokens is None else f" {self.tokens} tokens"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclasses.dataclass(frozen=True)
class Outcome:
  """What became of an arm's seeds.

  Attributes:
    series: `{metric: [seeds, steps]}`, NaN after a seed's last step.
    steps: `[seeds]` done.
    scores: `[seeds, N, S]` float32 of the held-out problems, NaN without one.
    correct: `[seeds, N, S]` int8, 1 right, 0 wrong, -1 unknown.
    lengths: `[seeds, N, S]` int32.
  """

  series: dict[str, np.ndarray]
  steps: np.ndarray
  scores: np.ndarray
  correct: np.ndarray
  lengths: np.ndarray

  def pass_at(self, k: int) -> np.ndarray:
    """`[seeds]` pass@k."""
    return self.pass_curve([k])[:, 0]

  def pass_curve(self, ks: Sequence[int]) -> np.ndarray:
    """`[seeds, len(ks)]` pass@k of the samples that have a verdict."""
    return np.stack(
      [
        np.asarray(metrics.pass_at_k_curve(c == 1, ks, c >= 0))
        for c in self.correct
      ]
    )

  def max_at(self, k: int) -> np.ndarray:
    """`[seeds]` expected best score of k samples."""
    return self.max_curve([k])[:, 0]

  def max_curve(self, ks: Sequence[int]) -> np.ndarray:
    """`[seeds, len(ks)]` expected best of k samples that have a score."""
    return np.stack(
      [
        np.asarray(metrics.max_at_k_curve(np.nan_to_num(s), ks, ~np.isnan(s)))
        for s in self.scores
      ]
    )

  def first(self, name: str, share: float = 0.1) -> np.ndarray:
    """`[seeds]` mean of a metric over the first share of the steps."""
    return self._mean(name, lambda n: slice(max(int(share * n), 1)))

  def last(self, name: str, share: float = 0.1) -> np.ndarray:
    """`[seeds]` mean of a metric over the last share of the steps."""
    return self._mean(name, lambda n: slice(-max(int(share * n), 1), None))

  def _mean(self, name: str, part: Callable[[int], slice]) -> np.ndarray:
    rows = zip(self.series[name], self.steps, strict=True)
    return np.array([row[:done][part(done)].mean() for row, done in rows])


@dataclasses.dataclass(frozen=True)
class Spent:
  """What an arm's seeds took, each `[seeds]`.

  Attributes:
    tokens: sampled in training, discarded ones included.
    step_seconds: of one device for a step, without compilation.
    beside: the first of the seeds that it was trained beside: they share a
      clock.
  """

  tokens: np.ndarray
  step_seconds: np.ndarray
  beside: np.ndarray


class Store:
  """Arms of one folder.

  Args:
    folder: where `arms/` lives; made when something is written.
    say: prints a line of progress.
  """

  def __init__(
    self, folder: epath.PathLike, say: multi_seed.Say = print
  ) -> None:
    self._folder, self._say = epath.Path(folder) / "arms", say

  def missing(self, arm: Arm, numbers: Sequence[int]) -> list[int]:
    """The seeds that are not finished."""
    return [n for n in numbers if not self._file(arm, n).exists()]

  def outcome(self, arm: Arm, numbers: Sequence[int]) -> Outcome:
    """Runs what is missing and reads the whole."""
    self._complete(arm, numbers)
    found = [self._read(arm, number) for number in numbers]
    names = sorted(n for n in found[0] if n.startswith(METRIC))
    steps = [len(one[names[0]]) if names else 0 for one in found]
    return Outcome(
      series={
        name.removeprefix(METRIC): _padded([one[name] for one in found])
        for name in names
      },
      steps=np.array(steps),
      **{
        name: np.stack([one[name] for one in found])
        for name in ("scores", "correct", "lengths")
      },
    )

  def spent(self, arm: Arm, numbers: Sequence[int]) -> Spent:
    """What the training of the finished seeds took."""
    found = [self._read(arm, number) for number in numbers]
    names = [field.name for field in dataclasses.fields(Spent)]
    return Spent(**{n: np.array([one[n] for one in found]) for n in names})

  def seconds(self, arm: Arm, numbers: Sequence[int]) -> float:
    """What the finished seeds took, evaluation included."""
    return sum(float(self._read(arm, n)["seconds"]) for n in numbers)

  def made(self, arm: Arm, numbers: Sequence[int]) -> set[str]:
    """When and by what the finished seeds were made."""
    return {str(self._read(arm, n)["made"]) for n in numbers}

  def _complete(self, arm: Arm, numbers: Sequence[int]) -> None:
    missing = self.missing(arm, numbers)
    if not missing:
      return
    for number in missing:
      arguments.check_seed("seed", number)
    if arm.start is not None:
      self._complete(arm.start, missing)
    e = validate.check_and_build(arm.config)
    trainer = multi_seed.make(e, arm.tokens, self._say)
    for group in trainer.groups(missing):
      clock = time.perf_counter()
      starts = [
        self._params(arm.start, number) if arm.start else None
        for number in group
      ]
      trained = trainer.train(group, starts)
      training = (time.perf_counter() - clock) / len(group)
      for number, one in zip(group, trained, strict=True):
        clock = time.perf_counter()
        kept = _evaluated(e, one.params) if e.is_rl else _flat(one.params)
        took = training + time.perf_counter() - clock
        self._say(f"{trainer.label}, seed {number}: {took:.0f} s")
        found = {
          **{METRIC + name: values for name, values in one.series.items()},
          **kept,
          "tokens": np.asarray(one.tokens),
          "step_seconds": np.asarray(one.step_seconds),
          "beside": np.asarray(group[0]),
          "seconds": np.asarray(took),
          "made": np.asarray(provenance.describe()),
        }
        self._write(arm, number, found)

  def _file(self, arm: Arm, number: int) -> epath.Path:
    return self._folder / arm.digest / f"seed_{number:03d}.npz"

  def _read(self, arm: Arm, number: int) -> dict[str, np.ndarray]:
    kept = self._file(arm, number).read_bytes()
    with np.load(io.BytesIO(kept)) as saved:
      return dict(saved)

  def _params(self, arm: Arm, number: int) -> types.PyTree:
    tree: dict = {}
    for name, value in self._read(arm, number).items():
      if name.startswith(PARAMS):
        *path, leaf = name.removeprefix(PARAMS).split("/")
        at = tree
        for part in path:
          at = at.setdefault(part, {})
        at[leaf] = value
    return tree

  def _write(self, arm: Arm, number: int, found: dict[str, np.ndarray]) -> None:
    path = self._file(arm, number)
    config = json.dumps(arm.config.to_dict(), indent=2, default=str)
    json_files.replace(path.parent / "config.json", config + "\n")
    arrays = io.BytesIO()
    np.savez_compressed(arrays, **found)
    json_files.replace(path, arrays.getvalue())


def _padded(rows: Sequence[np.ndarray]) -> np.ndarray:
  """`[seeds, most steps]`, NaN after the end of the shorter ones."""
  if len({len(row) for row in rows}) == 1:
    return np.stack(rows)
  most = max(map(len, rows))
  whole = np.full((len(rows), most, *rows[0].shape[1:]), np.nan)
  for target, row in zip(whole, rows, strict=True):
    target[: len(row)] = row
  return whole


def _evaluated(e: Experiment, params: types.PyTree) -> dict:
  found = evaluator.evaluate_experiment(e, jax.device_put(params, e.replicated))
  return {
    "scores": found.scores,
    "correct": found.correct,
    "lengths": found.lengths,
  }


def _flat(params: types.PyTree) -> dict[str, np.ndarray]:
  leaves, _ = jax.tree_util.tree_flatten_with_path(params)
  return {
    PARAMS + "/".join(str(key.key) for key in path): np.asarray(leaf)
    for path, leaf in leaves
  }
