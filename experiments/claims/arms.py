"""Arms: one config, trained and evaluated from several seeds, kept on disk.

The seeds of an arm run side by side, one to a CPU core or many to an
accelerator, as one program compiled once. A finished seed is a file, which says
by what it was made, and is never run again; claims that ask for the same arm
share it. A supervised arm keeps its parameters, another its held-out samples.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
import json
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jax.sharding import Mesh

from experiments import build, collect, evaluate, jsonl
from experiments.build import Experiment
from experiments.claims import provenance
from rl import loop, metrics, step, types

PARAMS = "params/"
METRIC = "metric/"
DISPATCHES = 5  # of an arm's steps, so that progress shows
Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Arm:
  """What is trained, and from what.

  Attributes:
    config: of the experiment, as in `experiments/configs`; its seed is set by
      who runs it, `steps = 0` evaluates the start.
    start: the arm whose parameters it begins with, seed by seed; None begins
      from scratch.
  """

  config: ml_collections.ConfigDict
  start: Arm | None = None

  def __post_init__(self):
    for name in ("base", "init_from"):
      if self.config.get(name):
        raise ValueError(
          f"an arm starts from another arm, not by config.{name}"
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
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclasses.dataclass(frozen=True)
class Outcome:
  """What became of an arm's seeds.

  Attributes:
    series: `{metric: [seeds, steps]}`.
    scores: `[seeds, N, S]` float32 of the held-out problems.
    correct: `[seeds, N, S]` bool.
    lengths: `[seeds, N, S]` int32.
  """

  series: dict[str, np.ndarray]
  scores: np.ndarray
  correct: np.ndarray
  lengths: np.ndarray

  def pass_at(self, k: int) -> np.ndarray:
    """`[seeds]` pass@k."""
    return self.pass_curve([k])[:, 0]

  def pass_curve(self, ks: Sequence[int]) -> np.ndarray:
    """`[seeds, len(ks)]` pass@k."""
    return np.stack(
      [np.asarray(metrics.pass_at_k_curve(c, ks)) for c in self.correct]
    )

  def max_at(self, k: int) -> np.ndarray:
    """`[seeds]` expected best score of k samples."""
    return self.max_curve([k])[:, 0]

  def max_curve(self, ks: Sequence[int]) -> np.ndarray:
    """`[seeds, len(ks)]` expected best score of k samples."""
    return np.stack(
      [np.asarray(metrics.max_at_k_curve(s, ks)) for s in self.scores]
    )

  def first(self, name: str, share: float = 0.1) -> np.ndarray:
    """`[seeds]` mean of a metric over the first share of the steps."""
    series = self.series[name]
    return series[:, : max(int(share * series.shape[1]), 1)].mean(1)

  def last(self, name: str, share: float = 0.1) -> np.ndarray:
    """`[seeds]` mean of a metric over the last share of the steps."""
    series = self.series[name]
    return series[:, -max(int(share * series.shape[1]), 1) :].mean(1)


class Store:
  """Arms of one folder.

  Args:
    folder: where `arms/` lives; made when something is written.
    say: prints a line of progress.
  """

  def __init__(self, folder: pathlib.Path, say: Say = print) -> None:
    self._folder, self._say = pathlib.Path(folder) / "arms", say

  def missing(self, arm: Arm, seeds: Sequence[int]) -> list[int]:
    """The seeds that are not finished."""
    return [s for s in seeds if not self._file(arm, s).exists()]

  def outcome(self, arm: Arm, seeds: Sequence[int]) -> Outcome:
    """Runs what is missing and reads the whole."""
    self._complete(arm, seeds)
    found = [self._read(arm, seed) for seed in seeds]
    names = sorted(n for n in found[0] if n.startswith(METRIC))
    stacked = {
      name: np.stack([one[name] for one in found])
      for name in (*names, "scores", "correct", "lengths")
    }
    series = {name.removeprefix(METRIC): stacked.pop(name) for name in names}
    return Outcome(series, **stacked)

  def seconds(self, arm: Arm, seeds: Sequence[int]) -> float:
    """What the finished seeds took, evaluation included."""
    return sum(float(self._read(arm, seed)["seconds"]) for seed in seeds)

  def made(self, arm: Arm, seeds: Sequence[int]) -> set[str]:
    """When and by what the finished seeds were made."""
    return {str(self._read(arm, seed)["made"]) for seed in seeds}

  def _complete(self, arm: Arm, seeds: Sequence[int]) -> None:
    missing = self.missing(arm, seeds)
    if not missing:
      return
    if arm.start is not None:
      self._complete(arm.start, missing)
    runner = _Runner(arm, self._say)
    for group in _groups(missing):
      starts = [
        self._params(arm.start, seed) if arm.start else None for seed in group
      ]
      for seed, found in zip(group, runner.run(group, starts), strict=True):
        self._write(arm, seed, found)

  def _file(self, arm: Arm, seed: int) -> pathlib.Path:
    return self._folder / arm.digest / f"seed_{seed:03d}.npz"

  def _read(self, arm: Arm, seed: int) -> dict[str, np.ndarray]:
    with np.load(self._file(arm, seed)) as saved:
      return dict(saved)

  def _params(self, arm: Arm, seed: int) -> types.PyTree:
    tree: dict = {}
    for name, value in self._read(arm, seed).items():
      if name.startswith(PARAMS):
        *path, leaf = name.removeprefix(PARAMS).split("/")
        at = tree
        for part in path:
          at = at.setdefault(part, {})
        at[leaf] = value
    return tree

  def _write(self, arm: Arm, seed: int, found: dict[str, np.ndarray]) -> None:
    path = self._file(arm, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    config = json.dumps(arm.config.to_dict(), indent=2, default=str)
    jsonl.replace(path.parent / "config.json", config + "\n")
    arrays = io.BytesIO()
    np.savez_compressed(arrays, **found)
    partial = path.with_suffix(".partial")
    partial.write_bytes(arrays.getvalue())
    partial.replace(path)


def _groups(seeds: Sequence[int]) -> Iterator[list[int]]:
  """Seeds that run at once: one to a core, all on an accelerator."""
  devices = jax.devices()
  size = len(devices) if devices[0].platform == "cpu" else len(seeds)
  for start in range(0, len(seeds), size):
    yield list(seeds[start : start + size])


class _Runner:
  """Trains and evaluates groups of seeds of one arm; compiles once."""

  def __init__(self, arm: Arm, say: Say) -> None:
    self._arm, self._say = arm, say
    self._e = build.build(arm.config)
    self._mesh = Mesh(np.array(jax.devices()), ("seed",))
    steps = arm.config.steps
    self._size = steps if steps % DISPATCHES else steps // DISPATCHES
    self._advance = jax.jit(
      loop.over_seeds(loop.scan(_iteration(self._e), self._size), self._mesh),
      donate_argnums=0,
    )

  def run(
    self, seeds: list[int], starts: list[types.PyTree | None]
  ) -> Iterator[dict[str, np.ndarray]]:
    """What is kept of each seed, in their order."""
    began = time.perf_counter()
    steps = self._arm.config.steps
    what = self._arm.config.method if self._e.samples_own else "supervised"
    label = f"{self._e.task.name}, {what}, seeds {seeds}"
    state = self._start(seeds, starts)
    parts = []
    for done in range(0, steps, self._size or 1):
      state, found = self._advance(state)
      found = jax.device_get(found)
      if (found["guard/bad_sample"] >= 0).any():
        raise FloatingPointError(f"{label}: a score is not finite")
      parts.append(found)
      self._say(f"{label}: {done + self._size} of {steps}")
    series = {
      METRIC + name: np.concatenate([part[name] for part in parts], 1)
      for name in (parts[0] if parts else ())
    }
    training = (time.perf_counter() - began) / len(seeds)
    for i, seed in enumerate(seeds):
      clock = time.perf_counter()
      params = jax.tree.map(lambda x, i=i: np.asarray(x[i]), state.params)
      kept = self._evaluated(params) if self._e.samples_own else _flat(params)
      took = training + time.perf_counter() - clock
      self._say(f"{label}: seed {seed} took {took:.0f} s")
      yield {
        **{name: values[i] for name, values in series.items()},
        **kept,
        "seconds": np.asarray(took),
        "made": np.asarray(provenance.now()),
      }

  def _start(self, seeds, starts) -> step.State:
    """The seeds' states, one entry for each place on the devices."""
    states = []
    for seed, params in zip(seeds, starts, strict=True):
      config = self._arm.config.copy_and_resolve_references()
      config.seed = seed
      own = dataclasses.replace(self._e, config=config)
      states.append(own.init(params))
    short = -len(states) % self._mesh.size
    states += states[-1:] * short  # computed, and left aside
    return jax.tree.map(lambda *xs: jnp.stack(xs), *states)

  def _evaluated(self, params: types.PyTree) -> dict[str, np.ndarray]:
    settings = self._arm.config.evaluation
    found = evaluate.evaluate(
      self._e.task,
      self._e.policy,
      jax.device_put(params, self._e.replicated),
      problems=settings.problems,
      samples=settings.samples,
      batch=settings.batch,
      key=jax.random.key(settings.seed),
      temperature=settings.temperature,
      sharding=self._e.batch_sharding,
    )
    return {
      "scores": found.scores,
      "correct": found.correct == 1,
      "lengths": found.lengths,
    }


def _iteration(e: Experiment) -> loop.Iteration:
  prompts = e.config.rollout.prompts
  if e.samples_own:
    gather = collect.on_device(e.task, e.policy, e.sampling, prompts)
  else:
    gather = collect.shown_on_device(e.task, prompts)
  return loop.iteration(gather, step.make(e.methods, e.policy, e.txs, e.plan))


def _flat(params: types.PyTree) -> dict[str, np.ndarray]:
  leaves, _ = jax.tree_util.tree_flatten_with_path(params)
  return {
    PARAMS + "/".join(str(key.key) for key in path): np.asarray(leaf)
    for path, leaf in leaves
  }
