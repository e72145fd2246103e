"""Trains the seeds of one config, and only trains them.

Side by side, one to a CPU core or many to an accelerator, as one program that
is compiled once; or, where a reward or a method needs the host, one after
another as programs around it. With a budget of tokens a seed rests from the
step on at which it has sampled so many, at the latest after `PATIENCE` times
`config.steps`: a policy that says nothing never spends its budget.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from experiments.training import dispatch, host_needs, rollouts
from experiments.training.experiment import Experiment
from rl import fused_loop, learners, masked, step, types
from rl import metrics as statistics

Array = jax.Array
DISPATCHES = 5  # of an arm's steps, so that progress shows
PATIENCE = 4
SURPRISE = "policy/surprise"  # metric, see `surprise`
STEP_REWARD = "reward/steps"  # metric, see `step_reward`
Say = Callable[[str], None]
Start = types.PyTree | None


@dataclasses.dataclass(frozen=True)
class Seed:
  """What became of one.

  Attributes:
    params: at the end.
    series: `{metric: [steps]}` of the steps that it did.
    tokens: sampled, discarded ones included.
    step_seconds: of one device for a step, compilation left out; NaN of none.
  """

  params: types.PyTree
  series: dict[str, np.ndarray]
  tokens: int
  step_seconds: float


@flax.struct.dataclass
class Progress:
  """A training state, and the tokens it has sampled so far, `[]` int32."""

  state: step.State
  tokens: Array


def make(e: Experiment, tokens: int | None = None, say: Say = print):
  """What trains seeds of an experiment, in the way that it allows.

  Args:
    e: the experiment; its seed is set by whoever trains.
    tokens: of each seed; None: `config.steps` steps.
    say: prints a line of progress.
  """
  fused = e.task.jittable and not host_needs.host_needs(e.methods)
  return (SideBySide if fused else OneByOne)(e, tokens, say)


def device_seconds() -> float:
  """Seconds that the devices have worked, on an arbitrary clock.

  On a CPU those of this process on all cores, which other work on the machine
  hardly changes; else wall-clock seconds times the number of devices.
  """
  devices = jax.devices()
  if devices[0].platform == "cpu":
    return time.process_time()
  return time.perf_counter() * len(devices)


def sampled_tokens(rollouts: step.Rollouts) -> Array:
  """`[]` int32, tokens that a step sampled, of all learners' rollouts."""
  return sum(
    map(statistics.sampled_tokens, learners.by_learner(rollouts).values())
  )


def surprise(rollouts: step.Rollouts) -> Array:
  """`[]` float32, - mean log-probability of the sampled tokens, nats.

  Its expectation is the entropy of who sampled, over all samples alike, where
  "policy/entropy" is over those that a method selects.
  """
  rollout = learners.by_learner(rollouts)[learners.POLICY]
  log_probs, real = rollout.behavior_log_probs, rollout.valid("token")
  return -masked.mean(log_probs, real, (0, 1, 2))


def step_reward(e: Experiment, rollouts: step.Rollouts) -> dict[str, Array]:
  """`{STEP_REWARD: []}`: the summed rewards of a sample's steps, on average.

  Empty where the method does not pay steps by a reward of its own, which reads
  what a task or a stage says and no pass.
  """
  reward = e.method.reward
  if reward is None or reward.steps is None:
    return {}
  rollout = learners.by_learner(rollouts)[learners.POLICY]
  paid, _ = reward.steps.apply(None, rollout, reward.steps.init())
  total = masked.sum(paid, rollout.valid("step"))
  return {STEP_REWARD: masked.mean(total, rollout.sample_mask, (0, 1))}


class _Trainer:
  """What both ways share.

  Attributes:
    label: of progress lines.
  """

  def __init__(self, e: Experiment, tokens: int | None, say: Say) -> None:
    self._e, self._tokens, self._say = e, tokens, say
    steps = e.config.steps
    self._limit = steps if tokens is None else PATIENCE * steps
    self._size = steps if steps % DISPATCHES else steps // DISPATCHES
    what = e.config.method if e.is_rl else "supervised"
    self.label = f"{e.task.name}, {what}"

  def _state(self, number: int, params: Start) -> Progress:
    config = self._e.config.copy_and_resolve_references()
    config.seed = number
    state = dataclasses.replace(self._e, config=config).init(params)
    return Progress(state, jnp.zeros((), jnp.int32))

  def _going(self, steps, tokens):
    going = steps < self._limit
    return going if self._tokens is None else going & (tokens < self._tokens)

  def _seed(self, params, rows, tokens, took, seconds) -> Seed:
    """From the metrics of each dispatch, the steps and the seconds it took."""
    self._check(rows)
    steady = slice(1 if len(took) > 1 else 0, None)
    return Seed(
      params=jax.device_get(params),
      series={
        name: np.concatenate([row[name] for row in rows])
        for name in (rows[0] if rows else ())
      },
      tokens=int(tokens),
      step_seconds=(
        sum(seconds[steady]) / sum(took[steady]) if took else np.nan
      ),
    )

  def _check(self, rows) -> None:
    if any((row["guard/bad_sample"] >= 0).any() for row in rows):
      raise FloatingPointError(f"{self.label}: a score is not finite")

  def _report(self, seeds, steps, tokens) -> None:
    done = f"{min(steps)} of {self._limit}"
    if self._tokens is not None:
      share = min(1.0, min(tokens) / self._tokens)
      done = f"{share:.0%} of the tokens in {min(steps)} steps"
    self._say(f"{self.label}, seeds {list(seeds)}: {done}")


class SideBySide(_Trainer):
  """Sampling, reward and update fused, seeds on an axis or over devices."""

  def __init__(self, e: Experiment, tokens: int | None, say: Say) -> None:
    super().__init__(e, tokens, say)
    self._mesh = Mesh(np.array(jax.devices()), ("seed",))
    self._place = NamedSharding(self._mesh, PartitionSpec("seed"))
    self._compiled: Callable | None = None

  def groups(self, numbers: Sequence[int]) -> Iterator[list[int]]:
    """Seeds that run at once: one to a core, all on an accelerator."""
    devices = jax.devices()
    is_cpu = devices[0].platform == "cpu"
    size = len(devices) if is_cpu else len(numbers)
    for start in range(0, len(numbers), size):
      yield list(numbers[start : start + size])

  def train(self, numbers: Sequence[int], starts: Sequence[Start]):
    """A `Seed` for each number, from its start."""
    progress, places = self._start(numbers, starts)
    count = len(numbers)
    before = steps = np.zeros(count, int)
    tokens = np.zeros(count, int)
    parts, taken, seconds = [], [], []
    while self._going(steps, tokens).any():
      advance = self._advance(progress)
      clock = device_seconds()
      progress, found = advance(progress)
      found, reached, tokens = jax.device_get(
        (found, progress.state.step, progress.tokens)
      )
      spent = device_seconds() - clock
      before, steps, tokens = steps, reached[:count], tokens[:count]
      taken.append(steps - before)
      seconds.append(spent / self._worked(steps - before, places))
      parts.append(found)
      self._report(numbers, steps, tokens)
    trained = []
    for i in range(count):
      live = [n for n, took in enumerate(taken) if took[i]]
      trained.append(
        self._seed(
          jax.tree.map(lambda x, i=i: x[i], progress.state.params),
          [{k: v[i][: taken[n][i]] for k, v in parts[n].items()} for n in live],
          tokens[i],
          [taken[n].max() for n in live],
          [seconds[n] for n in live],
        )
      )
    return trained

  def _worked(self, steps: np.ndarray, places: int) -> float:
    """Steps of one seed that a dispatch computed, over the largest number.

    With a seed to a device a seed at rest costs nothing; side by side on one,
    all cost what a step costs.
    """
    if places == self._mesh.size:
      done = steps.sum() + (places - len(steps)) * steps[-1]
    else:
      done = places * self._size
    return max(done / max(steps.max(), 1), 1e-9)

  def _start(self, numbers, starts) -> tuple[Progress, int]:
    """The seeds' states, one entry for each place on the devices."""
    states = [self._state(*one) for one in zip(numbers, starts, strict=True)]
    short = -len(states) % self._mesh.size
    states += states[-1:] * short  # computed, and left aside
    stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *states)
    return jax.device_put(stacked, self._place), len(states)

  def _advance(self, progress: Progress) -> Callable:
    if self._compiled is None:
      run = fused_loop.scan(self._iteration(), self._size)
      run = jax.jit(fused_loop.over_seeds(run, self._mesh), donate_argnums=0)
      self._compiled = run.lower(progress).compile()
    return self._compiled

  def _iteration(self):
    """One step; with a budget, nothing once it is spent."""
    e = self._e
    prompts = e.config.rollout.prompts
    if e.is_rl:
      gather = rollouts.make_rollout_fn(
        e.task, e.policy, e.sampling, prompts, method=e.method
      )
    else:
      gather = rollouts.make_demonstration_fn(e.task, prompts)
    train_step = step.make(e.methods, e.policy, e.txs, e.plan)

    def live(progress):
      rollout = gather(progress.state)
      state, found = train_step(progress.state, rollout)
      tokens = progress.tokens + sampled_tokens(rollout)
      said = {SURPRISE: surprise(rollout), **step_reward(e, rollout)}
      return Progress(state, tokens), {**found, **said}

    def iteration(progress):
      found = jax.eval_shape(live, progress)[1]

      def rest(progress):
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), found)
        return progress, zeros

      going = self._going(progress.state.step, progress.tokens)
      return jax.lax.cond(going, live, rest, progress)

    return live if self._tokens is None else iteration


class OneByOne(_Trainer):
  """Programs around the host, each seed on all devices."""

  def __init__(self, e: Experiment, tokens: int | None, say: Say) -> None:
    super().__init__(e, tokens, say)
    self._gather = dispatch.compile_rollout_fn(e)
    self._train_step = jax.jit(
      step.make(e.methods, e.policy, e.txs, e.plan),
      donate_argnums=0,
      out_shardings=(e.shardings, e.replicated),
    )

  def groups(self, numbers: Sequence[int]) -> Iterator[list[int]]:
    """One at a time."""
    return ([number] for number in numbers)

  def train(self, numbers: Sequence[int], starts: Sequence[Start]):
    """A `Seed` for each number, from its start."""
    return [self._one(*one) for one in zip(numbers, starts, strict=True)]

  def _one(self, number: int, params: Start) -> Seed:
    state = self._state(number, params).state
    tokens, rows, seconds = 0, [], []
    while self._going(len(rows), tokens):
      clock = device_seconds()
      rollout, _ = self._gather(state)
      tokens += int(sampled_tokens(rollout))
      said = {SURPRISE: surprise(rollout), **step_reward(self._e, rollout)}
      state, found = self._train_step(state, rollout)
      found |= said
      rows.append(jax.tree.map(lambda x: x[None], jax.device_get(found)))
      seconds.append(device_seconds() - clock)
      self._check(rows[-1:])
      if len(rows) % self._size == 0:
        self._report([number], [len(rows)], [tokens])
    return self._seed(state.params, rows, tokens, [1] * len(rows), seconds)
