"""Trains one config with several seeds. `arms.py` evaluates and stores them.

`SideBySide` trains several seeds at the same time in one compiled program: one
seed per CPU core, or all seeds on the accelerators. `OneByOne` trains one seed
after another, for tasks and methods that run code on the host in every step.

With a token budget, the training of a seed ends after the first step at which
the seed has sampled that number of tokens. It ends after
`PATIENCE * config.steps` steps at the latest, because a policy whose
completions are empty never uses up its budget.
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

from experiments.training import (
  host_needs,
  iteration,
  placement,
  rollouts,
  text_rollouts,
)
from experiments.training.experiment import Experiment
from rl import (
  UsageError,
  fused_loop,
  learners,
  masked,
  metrics,
  step,
  training_state,
  types,
)

Array = jax.Array
# `config.steps` is divided into this many parts. `SideBySide` runs a part as
# one compiled call. A line of progress is printed after each part.
DISPATCHES = 5
# Largest number of steps of a seed with a token budget, divided by
# `config.steps`.
PATIENCE = 4
SURPRISE = "policy/surprise"  # name of the metric that `surprise` computes
STEP_REWARD = "reward/steps"  # name of the metric that `step_reward` computes
Report = Callable[[str], None]  # prints a line of progress
Start = types.PyTree | None  # initial parameters; None draws them at random


@dataclasses.dataclass(frozen=True)
class TrainedSeed:
  """Result of the training of one seed.

  Attributes:
    params: final parameters, on the host.
    series: `{metric: [steps]}`, the metrics of every step of this seed.
    tokens: number of sampled tokens, including samples that the method
      discarded.
    step_seconds: mean seconds of one device for a step (`device_seconds`); NaN
      if the seed made no step. The first compiled call, which may include
      compilation, is left out if there are others.
  """

  params: types.PyTree
  series: dict[str, np.ndarray]
  tokens: int
  step_seconds: float


@flax.struct.dataclass
class Progress:
  """The training state of one seed, or of stacked seeds, with a token count.

  Attributes:
    state: training state, of which each leaf has a leading axis `[seeds]` if
      seeds are stacked.
    tokens: `[]` or `[seeds]` int32, number of tokens sampled so far.
    previous_params: parameters before the last training step, from which a
      trainer that is one step ahead samples; `()` in any other trainer.
  """

  state: training_state.State
  tokens: Array
  previous_params: types.PyTree = ()


def make(
  e: Experiment,
  tokens: int | None = None,
  report: Report = print,
  ahead: bool = False,
):
  """Returns a `SideBySide` trainer if the experiment allows it, or `OneByOne`.

  Args:
    e: experiment to train. Its seed is replaced by those passed to `train`.
    tokens: token budget of each seed. None trains for `config.steps` steps.
    report: function that prints a line of progress.
    ahead: whether the rollout of a step is sampled from the parameters before
      the previous step, as with `config.inference.ahead`.

  Raises:
    UsageError: `ahead` is True, and the experiment runs code on the host.
  """
  # One compiled program must contain sampling, reward and update.
  fused = (
    e.task.jittable and e.texts is None and not host_needs.host_needs(e.methods)
  )
  if fused:
    return SideBySide(e, tokens, report, ahead)
  if ahead:
    raise UsageError(
      f"ahead = True, but {e.task.name} or the method {e.config.method} runs "
      "code on the host in every step; such a study samples without being ahead"
    )
  return OneByOne(e, tokens, report)


def device_seconds() -> float:
  """Returns device time, of which only differences between calls are used.

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

  p is the probability that the policy assigned to a token when it sampled it;
  the mean runs over all tokens of all samples. Its expectation is the entropy
  of the sampling policy. The metric "policy/entropy" averages over only the
  samples that the method selects.
  """
  rollout = learners.by_learner(rollouts)[learners.POLICY]
  log_probs, mask = rollout.behavior_log_probs, rollout.valid("token")
  return -masked.mean(log_probs, mask, (0, 1, 2))


def step_reward(e: Experiment, rollouts: step.Rollouts) -> dict[str, Array]:
  """Returns the metric of a method's own rewards of reasoning steps.

  Returns:
    `{STEP_REWARD: []}`, the sum of a sample's step rewards, averaged over all
    samples; `{}` if the method defines no reward of steps.
  """
  reward = e.method.reward
  if reward is None or reward.steps is None:
    return {}
  rollout = learners.by_learner(rollouts)[learners.POLICY]
  # A reward of steps is a source: it takes no signal, so the signal is None.
  step_rewards, _ = reward.steps.apply(None, rollout, reward.steps.init())
  total = masked.sum(step_rewards, rollout.valid("step"))  # [P, S]
  return {STEP_REWARD: masked.mean(total, rollout.sample_mask, (0, 1))}


class _Trainer:
  """Base class of both trainers.

  Attributes:
    label: task and method, with which each line of progress begins.
  """

  def __init__(self, e: Experiment, tokens: int | None, report: Report) -> None:
    if e.reward_models:
      raise UsageError(
        f"models: {', '.join(e.reward_models)} cannot pay runs of several "
        "seeds at a time; use experiments.sweep"
      )
    self._e, self._tokens, self._print_line = e, tokens, report
    steps = e.config.steps
    self._limit = steps if tokens is None else PATIENCE * steps
    # A number of steps that is no multiple of DISPATCHES runs in one call, so
    # that no second program is compiled for the remainder.
    self._steps_per_call = steps if steps % DISPATCHES else steps // DISPATCHES
    method = e.config.method if e.is_rl else "supervised"
    self.label = f"{e.task.name}, {method}"

  def _state(self, number: int, params: Start) -> Progress:
    """Returns the initial state of a seed."""
    config = self._e.config.copy_and_resolve_references()
    config.seed = number
    state = placement.init_state(
      dataclasses.replace(self._e, config=config), params
    )
    return Progress(state, jnp.zeros((), jnp.int32))

  def _is_active(self, steps, tokens):
    """Returns whether a seed has to train further; elementwise on arrays."""
    active = steps < self._limit
    return active if self._tokens is None else active & (tokens < self._tokens)

  def _seed(self, params, series, tokens, num_steps, seconds) -> TrainedSeed:
    """Builds the result of a seed."""
    # `series`, `num_steps` and `seconds` have one entry for each compiled call.
    # An entry of `series` is a dict `{metric: [steps of the call]}`.
    self._check(series)
    # The first call may include compilation; it is left out if there are more.
    timed = slice(1 if len(num_steps) > 1 else 0, None)
    return TrainedSeed(
      params=jax.device_get(params),
      series={
        name: np.concatenate([values[name] for values in series])
        for name in (series[0] if series else ())
      },
      tokens=int(tokens),
      step_seconds=(
        sum(seconds[timed]) / sum(num_steps[timed]) if num_steps else np.nan
      ),
    )

  def _check(self, series) -> None:
    """Raises FloatingPointError if the score of a sample was not finite."""
    # The metric is the index of the first sample without a finite score, or -1.
    if any((values["guard/bad_sample"] >= 0).any() for values in series):
      raise FloatingPointError(
        f"{self.label}: the score of a sample is NaN or infinite; a reward "
        "must be a finite number"
      )

  def _report_progress(self, seeds, steps, tokens) -> None:
    """Prints the progress of the seed that is furthest behind."""
    done = f"{min(steps)} of {self._limit}"
    if self._tokens is not None:
      share = min(1.0, min(tokens) / self._tokens)
      done = f"{share:.0%} of the tokens in {min(steps)} steps"
    self._print_line(f"{self.label}, seeds {list(seeds)}: {done}")


class SideBySide(_Trainer):
  """Trains several seeds at the same time in one compiled program.

  The program fuses sampling, reward and update. The seeds are the leading axis
  of the state, which is sharded over the devices.
  """

  def __init__(
    self,
    e: Experiment,
    tokens: int | None,
    report: Report,
    ahead: bool = False,
  ) -> None:
    super().__init__(e, tokens, report)
    self._ahead = ahead
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
      numbers: one group of seeds, as `groups` yields them.
      starts: initial parameters of each seed; None draws them at random.

    Returns:
      A list with the `TrainedSeed` of each number.
    """
    progress, num_rows = self._start(numbers, starts)
    count = len(numbers)
    previous = steps = np.zeros(count, int)
    tokens = np.zeros(count, int)
    # One entry per compiled call: metrics `{name: [rows, steps]}`, number of
    # steps that each seed made `[seeds]`, and seconds of one device.
    calls, call_steps, seconds = [], [], []
    while self._is_active(steps, tokens).any():
      advance = self._advance(progress)
      start_time = device_seconds()
      progress, values = advance(progress)
      values, all_steps, tokens = jax.device_get(
        (values, progress.state.step, progress.tokens)
      )
      elapsed = device_seconds() - start_time
      # The rows of the state after the first `count` are padding.
      previous, steps, tokens = steps, all_steps[:count], tokens[:count]
      call_steps.append(steps - previous)
      seconds.append(elapsed / self._active_rows(steps - previous, num_rows))
      calls.append(values)
      self._report_progress(numbers, steps, tokens)
    results = []
    for i in range(count):
      # Indices of the calls in which this seed was still active. The metrics of
      # the iterations after its last step are zeros, and are cut off.
      active = [n for n, num_steps in enumerate(call_steps) if num_steps[i]]
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
    """Returns how many rows computed a step at the same time, on average."""
    # `steps` is `[seeds]`, the steps that each seed made in the call.
    # `num_rows` includes padding.
    if num_rows == self._mesh.size:
      # One row per device: a finished seed costs nothing. The padding rows are
      # copies of the last seed.
      row_steps = steps.sum() + (num_rows - len(steps)) * steps[-1]
    else:
      # Several rows per device are one batched program, in which a finished
      # seed costs as much as an active one.
      row_steps = num_rows * self._steps_per_call
    # Both limits avoid a division by zero if no seed made a step.
    return max(row_steps / max(steps.max(), 1), 1e-9)

  def _start(self, numbers, starts) -> tuple[Progress, int]:
    """Returns the stacked initial states, and their number with padding."""
    states = [self._state(*pair) for pair in zip(numbers, starts, strict=True)]
    if self._ahead:
      states = [
        progress.replace(previous_params=progress.state.params)
        for progress in states
      ]
    # Pads with copies of the last seed, so that the number of rows is a
    # multiple of the number of devices. The results of the copies are ignored.
    padding = -len(states) % self._mesh.size
    states += states[-1:] * padding
    stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *states)
    return jax.device_put(stacked, self._sharding), len(states)

  def _advance(self, progress: Progress) -> Callable:
    """Returns the program of one call, which is compiled only once."""
    if self._compiled is None:
      run = fused_loop.scan(self._iteration(), self._steps_per_call)
      run = jax.jit(fused_loop.over_seeds(run, self._mesh), donate_argnums=0)
      self._compiled = run.lower(progress).compile()
    return self._compiled

  def _iteration(self):
    """Returns a function that runs one training step of one seed."""
    e = self._e
    prompts = e.config.rollout.prompts
    if e.is_rl:
      rollout_fn = rollouts.make_rollout_fn(
        e.task, e.policy, e.sampling, prompts, method=e.method
      )
    else:
      rollout_fn = text_rollouts.make_demonstration_fn(e.task, prompts)
    train_step = step.make(e.methods, e.policy, e.txs, e.plan)

    def train(progress):
      state = progress.state
      previous_params = state.params if self._ahead else ()
      sampling_params = (
        progress.previous_params if self._ahead else state.params
      )
      rollout = rollout_fn(state.with_policy(params=sampling_params))
      state, values = train_step(state, rollout)
      tokens = progress.tokens + sampled_tokens(rollout)
      values = {**values, **_extra_metrics(e, rollout)}
      return Progress(state, tokens, previous_params), values

    def train_within_budget(progress):
      shapes = jax.eval_shape(train, progress)[1]

      def skip(progress):
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        return progress, zeros

      # A finished seed keeps its state, and its metrics are zeros.
      active = self._is_active(progress.state.step, progress.tokens)
      return jax.lax.cond(active, train, skip, progress)

    return train if self._tokens is None else train_within_budget


class OneByOne(_Trainer):
  """Trains one seed after another, each on all devices.

  Sampling and update are separate programs. Between them the host runs the code
  of the task or the method that cannot be compiled, such as a verifier.
  """

  def __init__(self, e: Experiment, tokens: int | None, report: Report) -> None:
    super().__init__(e, tokens, report)
    self._rollout_fn = iteration.compile_rollout_fn(e)
    self._train_step = jax.jit(
      step.make(e.methods, e.policy, e.txs, e.plan),
      donate_argnums=0,
      out_shardings=(placement.state_shardings(e), e.replicated),
    )

  def groups(self, numbers: Sequence[int]) -> Iterator[list[int]]:
    """Yields each seed as a group of its own."""
    return ([number] for number in numbers)

  def train(self, numbers: Sequence[int], starts: Sequence[Start]):
    """Trains seeds one after another; same arguments as in `SideBySide`."""
    pairs = zip(numbers, starts, strict=True)
    return [self._train_seed(number, params) for number, params in pairs]

  def _train_seed(self, number: int, params: Start) -> TrainedSeed:
    state = self._state(number, params).state
    tokens, series, seconds = 0, [], []  # one entry per step in both lists
    while self._is_active(len(series), tokens):
      start_time = device_seconds()
      rollout = self._rollout_fn(state)
      tokens += int(sampled_tokens(rollout))
      extra = _extra_metrics(self._e, rollout)
      state, values = self._train_step(state, rollout)
      values |= extra
      # `[]` becomes `[1]`, the metrics of a call with one step.
      series.append(jax.tree.map(lambda x: x[None], jax.device_get(values)))
      seconds.append(device_seconds() - start_time)
      self._check(series[-1:])
      if len(series) % self._steps_per_call == 0:
        self._report_progress([number], [len(series)], [tokens])
    return self._seed(state.params, series, tokens, [1] * len(series), seconds)


def _extra_metrics(e: Experiment, rollout: step.Rollouts) -> dict[str, Array]:
  """Returns the metrics that studies add to those of the train step."""
  return {SURPRISE: surprise(rollout), **step_reward(e, rollout)}
