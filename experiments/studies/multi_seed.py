"""Trains one config with several seeds. `arms.py` evaluates and stores them.

`SideBySide` trains several seeds at the same time in one compiled program: one
seed per CPU core, or all seeds on the accelerators. `OneByOne` trains one seed
after another, for rewards and methods that run code on the host in every step.

With a token budget, a seed stops at the first step at which it has sampled that
number of tokens. It stops after `PATIENCE * config.steps` steps at the latest,
because a policy whose completions are empty never uses up its budget.
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
from rl import fused_loop, learners, masked, metrics, step, types

Array = jax.Array
# Number of compiled calls that the steps are divided into. A line of progress
# is printed after each.
DISPATCHES = 5
# Limit on the steps of a seed with a token budget, in units of `config.steps`.
PATIENCE = 4
SURPRISE = "policy/surprise"  # name of the metric that `surprise` computes
STEP_REWARD = "reward/steps"  # name of the metric that `step_reward` computes
Say = Callable[[str], None]  # prints a line of progress
Start = types.PyTree | None  # initial parameters; None draws them at random


@dataclasses.dataclass(frozen=True)
class Seed:
  """Result of the training of one seed.

  Attributes:
    params: final parameters, on the host.
    series: `{metric: [steps]}` metrics of the steps that were run.
    tokens: number of sampled tokens, including samples that the method
      discarded.
    step_seconds: seconds of one device for a step, without compilation; NaN if
      no step was run.
  """

  params: types.PyTree
  series: dict[str, np.ndarray]
  tokens: int
  step_seconds: float


@flax.struct.dataclass
class Progress:
  """A training state with a token count.

  Attributes:
    state: training state.
    tokens: `[]` int32 number of tokens sampled so far.
  """

  state: step.State
  tokens: Array


def make(e: Experiment, tokens: int | None = None, say: Say = print):
  """Returns a `SideBySide` trainer if the experiment allows it, or `OneByOne`.

  Args:
    e: experiment to train. Its seed is replaced by those passed to `train`.
    tokens: token budget of each seed. None trains for `config.steps` steps.
    say: function that prints a line of progress.
  """
  # One compiled program must contain sampling, reward and update.
  fused = e.task.jittable and not host_needs.host_needs(e.methods)
  return (SideBySide if fused else OneByOne)(e, tokens, say)


def device_seconds() -> float:
  """Returns a clock of device time, of which only differences have a meaning.

  On a CPU it is the CPU time of this process, summed over all cores, which
  other processes on the machine hardly change. On an accelerator it is the
  wall-clock time multiplied by the number of devices.
  """
  devices = jax.devices()
  if devices[0].platform == "cpu":
    return time.process_time()
  return time.perf_counter() * len(devices)


def sampled_tokens(rollouts: step.Rollouts) -> Array:
  """Returns the number of tokens that a step sampled for all learners, `[]`."""
  return sum(
    map(metrics.sampled_tokens, learners.by_learner(rollouts).values())
  )


def surprise(rollouts: step.Rollouts) -> Array:
  """Returns the mean of -log p over the sampled tokens in nats, `[]` float32.

  Its expectation is the entropy of the sampling policy. All samples count,
  whereas "policy/entropy" averages over the samples that the method selects.
  """
  rollout = learners.by_learner(rollouts)[learners.POLICY]
  log_probs, mask = rollout.behavior_log_probs, rollout.valid("token")
  return -masked.mean(log_probs, mask, (0, 1, 2))


def step_reward(e: Experiment, rollouts: step.Rollouts) -> dict[str, Array]:
  """Returns the step rewards, summed over a sample and averaged over samples.

  Returns:
    `{STEP_REWARD: []}`, or `{}` if the method itself does not define a reward
    of steps.
  """
  reward = e.method.reward
  if reward is None or reward.steps is None:
    return {}
  rollout = learners.by_learner(rollouts)[learners.POLICY]
  # A reward of steps reads the rollout alone: it needs no forward pass.
  step_rewards, _ = reward.steps.apply(None, rollout, reward.steps.init())
  total = masked.sum(step_rewards, rollout.valid("step"))  # [P, S]
  return {STEP_REWARD: masked.mean(total, rollout.sample_mask, (0, 1))}


class _Trainer:
  """Base class of both trainers.

  Attributes:
    label: task and method, the beginning of a line of progress.
  """

  def __init__(self, e: Experiment, tokens: int | None, say: Say) -> None:
    self._e, self._tokens, self._say = e, tokens, say
    steps = e.config.steps
    self._limit = steps if tokens is None else PATIENCE * steps
    # Steps of a compiled call. A number that is no multiple of DISPATCHES runs
    # in one call, so that no second program is compiled for the remainder.
    self._size = steps if steps % DISPATCHES else steps // DISPATCHES
    method = e.config.method if e.is_rl else "supervised"
    self.label = f"{e.task.name}, {method}"

  def _state(self, number: int, params: Start) -> Progress:
    """Returns the initial state of a seed."""
    config = self._e.config.copy_and_resolve_references()
    config.seed = number
    state = dataclasses.replace(self._e, config=config).init(params)
    return Progress(state, jnp.zeros((), jnp.int32))

  def _is_active(self, steps, tokens):
    """Returns whether a seed has to train further; also works on arrays."""
    active = steps < self._limit
    return active if self._tokens is None else active & (tokens < self._tokens)

  def _seed(self, params, series, tokens, num_steps, seconds) -> Seed:
    """Builds the result of a seed.

    Args:
      params: final parameters.
      series: metrics of each compiled call, `{metric: [steps of the call]}`.
      tokens: number of sampled tokens.
      num_steps: number of steps of each call.
      seconds: device seconds of each call.
    """
    self._check(series)
    # The first call may include compilation; it is left out if there are more.
    timed = slice(1 if len(num_steps) > 1 else 0, None)
    return Seed(
      params=jax.device_get(params),
      series={
        name: np.concatenate([part[name] for part in series])
        for name in (series[0] if series else ())
      },
      tokens=int(tokens),
      step_seconds=(
        sum(seconds[timed]) / sum(num_steps[timed]) if num_steps else np.nan
      ),
    )

  def _check(self, series) -> None:
    # The metric is the index of the first sample without a finite score, or -1.
    if any((part["guard/bad_sample"] >= 0).any() for part in series):
      raise FloatingPointError(
        f"{self.label}: the score of a sample is NaN or infinite; a reward must "
        "be a finite number"
      )

  def _report(self, seeds, steps, tokens) -> None:
    """Prints the progress of the slowest of the seeds."""
    done = f"{min(steps)} of {self._limit}"
    if self._tokens is not None:
      share = min(1.0, min(tokens) / self._tokens)
      done = f"{share:.0%} of the tokens in {min(steps)} steps"
    self._say(f"{self.label}, seeds {list(seeds)}: {done}")


class SideBySide(_Trainer):
  """Trains several seeds at the same time in one compiled program.

  The program fuses sampling, reward and update. The seeds are the leading axis
  of the state, which is sharded over the devices.
  """

  def __init__(self, e: Experiment, tokens: int | None, say: Say) -> None:
    super().__init__(e, tokens, say)
    self._mesh = Mesh(np.array(jax.devices()), ("seed",))
    self._sharding = NamedSharding(self._mesh, PartitionSpec("seed"))
    self._compiled: Callable | None = None

  def groups(self, numbers: Sequence[int]) -> Iterator[list[int]]:
    """Yields the seeds to train at the same time.

    On CPUs a group has one seed per device, on accelerators it has all seeds.
    """
    devices = jax.devices()
    is_cpu = devices[0].platform == "cpu"
    size = len(devices) if is_cpu else len(numbers)
    for start in range(0, len(numbers), size):
      yield list(numbers[start : start + size])

  def train(self, numbers: Sequence[int], starts: Sequence[Start]):
    """Trains the seeds of a group.

    Args:
      numbers: the seeds.
      starts: initial parameters of each seed, or None.

    Returns:
      A list with the `Seed` of each number.
    """
    progress, num_rows = self._start(numbers, starts)
    count = len(numbers)
    previous = steps = np.zeros(count, int)
    tokens = np.zeros(count, int)
    # One entry per compiled call: metrics `{name: [rows, steps]}`, steps that
    # each seed made `[seeds]`, and device seconds.
    calls, call_steps, seconds = [], [], []
    while self._is_active(steps, tokens).any():
      advance = self._advance(progress)
      clock = device_seconds()
      progress, values = advance(progress)
      values, all_steps, tokens = jax.device_get(
        (values, progress.state.step, progress.tokens)
      )
      elapsed = device_seconds() - clock
      # Rows after `count` are padding.
      previous, steps, tokens = steps, all_steps[:count], tokens[:count]
      call_steps.append(steps - previous)
      seconds.append(elapsed / self._active_rows(steps - previous, num_rows))
      calls.append(values)
      self._report(numbers, steps, tokens)
    results = []
    for i in range(count):
      # Calls in which this seed was still active. The metrics of the iterations
      # after its last step are zeros, and are cut off.
      active = [n for n, done in enumerate(call_steps) if done[i]]
      results.append(
        self._seed(
          jax.tree.map(lambda x, i=i: x[i], progress.state.params),
          [
            {k: v[i][: call_steps[n][i]] for k, v in calls[n].items()}
            for n in active
          ],
          tokens[i],
          [call_steps[n].max() for n in active],
          [seconds[n] for n in active],
        )
      )
    return results

  def _active_rows(self, steps: np.ndarray, num_rows: int) -> float:
    """Returns the mean number of rows that computed a step during a call.

    Args:
      steps: `[seeds]` steps that each seed made in the call.
      num_rows: number of rows of the state, padding included.
    """
    if num_rows == self._mesh.size:
      # One row per device: a finished seed costs nothing. Padding repeats the
      # last seed.
      done = steps.sum() + (num_rows - len(steps)) * steps[-1]
    else:
      # Several rows per device are one batched program, in which a finished
      # seed costs as much as an active one.
      done = num_rows * self._size
    # Both limits avoid a division by zero if no seed made a step.
    return max(done / max(steps.max(), 1), 1e-9)

  def _start(self, numbers, starts) -> tuple[Progress, int]:
    """Returns the stacked initial states, and the number of rows."""
    states = [self._state(*pair) for pair in zip(numbers, starts, strict=True)]
    # Pads with copies of the last seed, so that the devices divide the rows.
    # Their results are ignored.
    padding = -len(states) % self._mesh.size
    states += states[-1:] * padding
    stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *states)
    return jax.device_put(stacked, self._sharding), len(states)

  def _advance(self, progress: Progress) -> Callable:
    """Returns the program that runs `self._size` steps, compiled once."""
    if self._compiled is None:
      run = fused_loop.scan(self._iteration(), self._size)
      run = jax.jit(fused_loop.over_seeds(run, self._mesh), donate_argnums=0)
      self._compiled = run.lower(progress).compile()
    return self._compiled

  def _iteration(self):
    """Returns the function of one step of one seed.

    With a token budget, the function leaves a seed that has finished as it is.
    """
    e = self._e
    prompts = e.config.rollout.prompts
    if e.is_rl:
      rollout_fn = rollouts.make_rollout_fn(
        e.task, e.policy, e.sampling, prompts, method=e.method
      )
    else:
      rollout_fn = rollouts.make_demonstration_fn(e.task, prompts)
    train_step = step.make(e.methods, e.policy, e.txs, e.plan)

    def train(progress):
      rollout = rollout_fn(progress.state)
      state, values = train_step(progress.state, rollout)
      tokens = progress.tokens + sampled_tokens(rollout)
      return Progress(state, tokens), {**values, **_extra_metrics(e, rollout)}

    def train_within_budget(progress):
      shapes = jax.eval_shape(train, progress)[1]

      def skip(progress):
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        return progress, zeros

      active = self._is_active(progress.state.step, progress.tokens)
      return jax.lax.cond(active, train, skip, progress)

    return train if self._tokens is None else train_within_budget


class OneByOne(_Trainer):
  """Trains one seed after another, each on all devices.

  Sampling and update are separate programs, between which the host computes
  what the task or the method needs.
  """

  def __init__(self, e: Experiment, tokens: int | None, say: Say) -> None:
    super().__init__(e, tokens, say)
    self._rollout_fn = dispatch.compile_rollout_fn(e)
    self._train_step = jax.jit(
      step.make(e.methods, e.policy, e.txs, e.plan),
      donate_argnums=0,
      out_shardings=(e.shardings, e.replicated),
    )

  def groups(self, numbers: Sequence[int]) -> Iterator[list[int]]:
    """Yields each seed as a group of its own."""
    return ([number] for number in numbers)

  def train(self, numbers: Sequence[int], starts: Sequence[Start]):
    """Trains seeds one after another; same arguments as in `SideBySide`."""
    pairs = zip(numbers, starts, strict=True)
    return [self._train_seed(number, params) for number, params in pairs]

  def _train_seed(self, number: int, params: Start) -> Seed:
    state = self._state(number, params).state
    tokens, series, seconds = 0, [], []  # one entry per step in both lists
    while self._is_active(len(series), tokens):
      clock = device_seconds()
      rollout, _ = self._rollout_fn(state)
      tokens += int(sampled_tokens(rollout))
      extra = _extra_metrics(self._e, rollout)
      state, values = self._train_step(state, rollout)
      values |= extra
      # `[]` becomes `[1]`, the metrics of a call with one step.
      series.append(jax.tree.map(lambda x: x[None], jax.device_get(values)))
      seconds.append(device_seconds() - clock)
      self._check(series[-1:])
      if len(series) % self._size == 0:
        self._report([number], [len(series)], [tokens])
    return self._seed(state.params, series, tokens, [1] * len(series), seconds)


def _extra_metrics(e: Experiment, rollout: step.Rollouts) -> dict[str, Array]:
  """Returns the metrics that studies add to those of the train step."""
  return {SURPRISE: surprise(rollout), **step_reward(e, rollout)}
