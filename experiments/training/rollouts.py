"""From a training state to the rollout it learns from.

Prompts and randomness are pure functions of the state's key and step, so the
same rollout can be made again: after a restart, or to look at it.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping

import jax
from jax.sharding import NamedSharding

from experiments.tasks.task import Task
from experiments.training import assemble, multihost
from experiments.training.experiment import Experiment
from rl import learners, scoring, types
from rl.method import Method
from rl.sampling import generation, samplers
from rl.sampling.samplers import Sampler
from rl.step import Rollouts, State

Array = jax.Array
# Pure and jittable; or host code around programs, which says what took long.
RolloutFn = Callable[[State], Rollouts]
# Keys of moments among the times of a rollout, in seconds of
# `time.perf_counter`. `experiments.training.metric_buffer` makes durations of them and does not
# log them. The state is the argument: it is ready when the update of the step
# before has ended.
STATE_READY = "moment/state_ready"
ROLLOUT_READY = "moment/rollout_ready"
HostRolloutFn = Callable[[State], tuple[Rollouts, dict[str, float]]]


def _keys(state: State) -> tuple[Array, Array]:
  """One key for the problems, one for the samples."""
  problems, samples = jax.random.split(state.key)
  return problems, samples


def _sampled(
  method: Method | None,
  policy: types.Policy,
  sampling: generation.Sampling,
  state: State,
  draw: Callable,
  judge: Callable,
  extend: Callable,
) -> Rollouts:
  """What the method's stage makes of a sampler; plain without a method."""
  sampler = Sampler(
    policy.given(state.frozen),
    _acting(method, state),
    state.slots,
    sampling.samples,
    sampling.temperature,
    draw,
    judge,
    extend,
  )
  if method is None:
    return samplers.once().run(sampler, ())
  return method.stage.run(sampler, state.memory)


def _acting(method: Method | None, state: State) -> types.PyTree:
  """The parameters that sample."""
  if method is None or method.behavior == learners.POLICY:
    return state.params
  return state.slots[method.behavior]


def _at(
  sampling: generation.Sampling, count: int, temperature: float | None
) -> generation.Sampling:
  if temperature is None:
    return dataclasses.replace(sampling, samples=count)
  return dataclasses.replace(
    sampling,
    samples=count,
    temperature=temperature,
    top_k=0,
    top_p=1.0,
    min_p=0,
  )


def on_device(
  task: Task,
  policy: types.Policy,
  sampling: generation.Sampling,
  prompts: int,
  sharding: NamedSharding | None = None,
  method: Method | None = None,
) -> RolloutFn:
  """Sampling and a jittable reward, as one pure function of the state.

  Args:
    task, policy, sampling: what is asked, who answers, and how.
    prompts: P.
    sharding: splits the prompts over a mesh; None leaves them where they are.
    method: whose stage and behavior policy sample; None: the policy, once.
  """

  def collect(state: State) -> Rollouts:
    problem_key, sample_key = _keys(state)
    problems = task.train(problem_key, state.step, prompts)
    if sharding is not None:
      problems = jax.lax.with_sharding_constraint(problems, sharding)
    keys = generation.prompt_keys(sample_key, state.step, problems.ids)
    whole_policy = policy.given(state.frozen)

    def draw(params, count, first=0, active=None, temperature=None):
      return generation.generate(
        whole_policy,
        params,
        problems.prompts,
        problems.prompt_mask,
        keys,
        _at(sampling, count, temperature),
        first,
        active,
      )

    def judge(samples):
      judged = task.score(
        problems, samples.completions, samples.lengths, samples.finished
      )
      return assemble.to_rollout(problems, samples, judged, keys, state.step)

    def extend(params, rollout, kept, count, active=None):
      prefixes = assemble.prefixes(rollout, kept, keys)
      how = _at(sampling, count, None)
      asked = assemble.each(active, count)
      drawn = generation.generate(
        whole_policy, params, *prefixes, how, 0, asked
      )
      whole = assemble.whole(rollout, kept, drawn, sampling.pad_id)
      judged = task.score(problems, *whole)
      return assemble.extension(rollout, prefixes, kept, drawn, judged)

    return _sampled(method, policy, sampling, state, draw, judge, extend)

  return collect


def on_host(
  task: Task,
  policy: types.Policy,
  sampling: generation.Sampling,
  prompts: int,
  sharding: NamedSharding,
  method: Method | None = None,
) -> HostRolloutFn:
  """Sampling as compiled programs, then a reward that runs on the host."""

  @functools.partial(jax.jit, static_argnames=("how", "first"))
  def generate(params, prompts, prompt_mask, keys, active, how, first):
    return generation.generate(
      policy, params, prompts, prompt_mask, keys, how, first, active
    )

  keys_of = jax.jit(generation.prompt_keys)
  put_together = jax.jit(assemble.to_rollout)

  def collect(state: State):
    jax.block_until_ready(state)
    start = time.perf_counter()
    scoring = 0.0
    problem_key, sample_key = _keys(state)
    host_problems = task.train(problem_key, int(state.step), prompts)
    problems = multihost.place(host_problems, sharding)
    keys = keys_of(sample_key, state.step, problems.ids)

    def draw(params, count, first=0, active=None, temperature=None):
      how = _at(sampling, count, temperature)
      asked = problems.prompts, problems.prompt_mask
      params = types.join(params, state.frozen)
      return generate(params, *asked, keys, active, how, first)

    def score(completions, lengths, finished):
      nonlocal scoring
      samples = jax.block_until_ready((completions, lengths, finished))
      began = time.perf_counter()
      judged = multihost.score_on_hosts(
        task.score, host_problems, samples, sharding
      )
      scoring += time.perf_counter() - began
      return multihost.place(judged, sharding)

    def judge(samples):
      judged = score(samples.completions, samples.lengths, samples.finished)
      return put_together(problems, samples, judged, keys, state.step)

    def extend(params, rollout, kept, count, active=None):
      prefixes = assemble.prefixes(rollout, kept, keys)
      how = _at(sampling, count, None)
      params = types.join(params, state.frozen)
      asked = assemble.each(active, count)
      drawn = generate(params, *prefixes, asked, how, 0)
      whole = assemble.whole(rollout, kept, drawn, sampling.pad_id)
      judged = score(*whole)
      return assemble.extension(rollout, prefixes, kept, drawn, judged)

    rollout = _sampled(method, policy, sampling, state, draw, judge, extend)
    times = {
      STATE_READY: start,
      "time/rollout_s": time.perf_counter() - start - scoring,
      "time/score_s": scoring,
    }
    return rollout, times

  return collect


def with_host_needs(e: Experiment, gather: HostRolloutFn) -> HostRolloutFn:
  """And what numpy finds of the rollout, before the compiled step.

  What host needs read is scored in a program of its own, whose result is whole
  on each device, where a host finds it.

  Args:
    e: the experiment; the policy's methods may have host needs.
    gather: what samples.

  Returns:
    `gather` itself where no method asks for the host.
  """
  needs = host_needs(e.methods)
  if not needs:
    return gather
  reads = {read for need in needs for read in need.probe.reads}

  @functools.partial(jax.jit, out_shardings=e.replicated)
  def score(state, rollout):
    return e.with_scores(state, rollout, reads)

  def collect(state: State):
    given, times = gather(state)
    given = learners.by_slot(given)
    scored = score(state, given[learners.POLICY])
    if STATE_READY not in times:
      # `scored` needs the state, so the wait for it below is no longer for this.
      jax.block_until_ready(state)
      times = {**times, STATE_READY: time.perf_counter()}
    start = time.perf_counter()
    jax.block_until_ready(scored)
    began = time.perf_counter()
    found = scoring.on_host(needs, scored).extras.arrays
    own = {str(need): found[str(need)] for need in needs}
    rollout = given[learners.POLICY]
    rollout = rollout.replace(extras=rollout.extras.update(own))
    return {**given, learners.POLICY: rollout}, {
      **times,
      "time/score_s": times.get("time/score_s", 0.0)
      + time.perf_counter()
      - began,
      "time/rollout_s": times.get("time/rollout_s", 0.0) + began - start,
    }

  return collect


def host_needs(methods: Mapping[str, Method]) -> set[scoring.Need]:
  """What the learners ask of the host."""
  return {
    need
    for method in methods.values()
    for need in method.signal_needs | method.term_needs
    if need.source == "host"
  }


def shown_on_device(
  task: Task, prompts: int, sharding: NamedSharding | None = None
) -> RolloutFn:
  """A jittable task's own solutions in place of samples, one per prompt."""

  def collect(state: State) -> types.Rollout:
    problem_key, solution_key = _keys(state)
    problems = task.train(problem_key, state.step, prompts)
    shown = task.demonstrate(
      jax.random.fold_in(solution_key, state.step), problems
    )
    if sharding is not None:
      problems, shown = jax.lax.with_sharding_constraint(
        (problems, shown), sharding
      )
    return assemble.supervised_rollout(problems, shown, state)

  return collect


def shown_on_host(
  task: Task, prompts: int, sharding: NamedSharding
) -> HostRolloutFn:
  """A host task's own solutions in place of samples, one per prompt."""
  put_together = jax.jit(assemble.supervised_rollout)

  def collect(state: State):
    problem_key, solution_key = _keys(state)
    number = int(state.step)  # waits for the update of the step before
    start = time.perf_counter()
    problems = task.train(problem_key, number, prompts)
    key = jax.random.fold_in(solution_key, number)
    shown = task.demonstrate(key, problems)
    placed = multihost.place((problems, shown), sharding)
    rollout = put_together(*placed, state)
    return rollout, {
      STATE_READY: start,
      "time/rollout_s": time.perf_counter() - start,
    }

  return collect
