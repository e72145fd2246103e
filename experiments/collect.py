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
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from experiments.tasks.task import Judged, Problems, Task, supervised_tokens
from rewards.process import continuations
from rl import learners, probes, stages, types
from rl import rollout as rollouts
from rl.method import Method
from rl.plan import Plan
from rl.stages import Sampler
from rl.step import Rollouts, State

Array = jax.Array
# Pure and jittable; or host code around programs, which says what took long.
Collect = Callable[[State], Rollouts]
Staged = Callable[[State], tuple[Rollouts, dict[str, float]]]
# Folded into a prompt's key for what is not sampling (bootstrap subsets):
# sample indices never get this far.
_NOT_A_SAMPLE = 2**31 - 1


def to_rollout(
  problems: Problems,
  samples: rollouts.Samples,
  judged: Judged,
  keys: Array,
  step: Array,
) -> types.Rollout:
  """What was asked, drawn and judged, as one rollout.

  Args:
    problems: P of them.
    samples: S completions of each.
    judged: what the task says of them.
    keys: `[P]`, those that the samples were drawn with.
    step: `[]` training step.
  """
  positions = jnp.arange(samples.completions.shape[-1])
  mask = positions < samples.lengths[..., None]
  return types.Rollout(
    tokens=types.Tokens(
      prompts=problems.prompts,
      prompt_mask=problems.prompt_mask,
      completions=samples.completions,
      lengths=samples.lengths,
      mask=mask,
    ),
    sample_mask=(
      jnp.ones(samples.lengths.shape, bool)
      if judged.scored is None
      else jnp.asarray(judged.scored)
    ),
    behavior_log_probs=samples.log_probs,
    finished=samples.finished,
    scores=jnp.asarray(judged.scores, jnp.float32),
    correct=jnp.asarray(judged.correct, jnp.int8),
    prompt_ids=jnp.asarray(problems.ids),
    keys=jax.vmap(jax.random.fold_in, (0, None))(keys, _NOT_A_SAMPLE),
    step=step,
    components={k: jnp.asarray(v) for k, v in judged.components.items()},
    step_ids=judged.step_ids,
    step_scores=judged.step_scores,
    step_mask=judged.step_mask,
    extras=types.Named(
      {
        f"task/{name}": jnp.asarray(value)
        for name, value in {
          "answer_ids": judged.answer_ids,
          **judged.extras,
        }.items()
      }
    ),
  )


def _keys(state: State) -> tuple[Array, Array]:
  """One key for the problems, one for the samples."""
  problems, samples = jax.random.split(state.key)
  return problems, samples


def _sampled(method: Method | None, sampler: Sampler, state: State) -> Rollouts:
  """What the method's stage makes of the sampler; plain without a method."""
  if method is None:
    return stages.once().run(sampler, ())
  return method.stage.run(sampler, state.memory)


def _acting(method: Method | None, state: State) -> types.PyTree:
  """The parameters that sample."""
  if method is None or method.behavior == learners.POLICY:
    return state.params
  return state.slots[method.behavior]


def _prefixes(
  rollout: types.Rollout, kept: Array, keys: Array
) -> tuple[Array, Array, Array]:
  """Prefixes of all samples as prompts `[P S, L + T]`, mask, and keys."""
  p, s = kept.shape
  rows = jnp.arange(p * s)
  asked = continuations.prefix_prompts(rollout.tokens, rows, kept.reshape(-1))
  fold = jax.vmap(jax.random.fold_in)
  own = fold(fold(keys[rows // s], _NOT_A_SAMPLE - 1 - rows % s), kept.ravel())
  return *asked, own


def _whole(
  rollout: types.Rollout, kept: Array, drawn: rollouts.Samples, pad_id: int
) -> tuple[Array, Array, Array]:
  """Continuations with their prefixes, `[P, S M, T]`, lengths and finished."""
  p, s = kept.shape
  rows = jnp.arange(p * s)
  whole = continuations.attach(
    rollout.tokens, rows, kept.reshape(-1), drawn, pad_id
  )
  return jax.tree.map(lambda x: x.reshape(p, -1, *x.shape[2:]), whole)


def _extension(
  rollout: types.Rollout,
  prefixes: tuple[Array, Array, Array],
  drawn: rollouts.Samples,
  judged: Judged,
) -> types.Rollout:
  """Continuations `[P S, M]` as a rollout of their own."""
  prompts, real, keys = prefixes
  p, s = rollout.sample_mask.shape
  m = drawn.lengths.shape[1]
  each = lambda x: jnp.asarray(x).reshape(p * s, m)  # noqa: E731
  scored = each(
    np.ones((p, s * m), bool) if judged.scored is None else judged.scored
  )
  mask = jnp.arange(drawn.completions.shape[-1]) < drawn.lengths[..., None]
  return types.Rollout(
    tokens=types.Tokens(prompts, real, drawn.completions, drawn.lengths, mask),
    sample_mask=scored & rollout.sample_mask.reshape(-1, 1),
    behavior_log_probs=drawn.log_probs,
    finished=drawn.finished,
    scores=each(judged.scores).astype(jnp.float32),
    correct=each(judged.correct).astype(jnp.int8),
    prompt_ids=jnp.repeat(rollout.prompt_ids, s),
    keys=keys,
    step=rollout.step,
  )


def _at(
  sampling: rollouts.Sampling, count: int, temperature: float | None
) -> rollouts.Sampling:
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
  sampling: rollouts.Sampling,
  prompts: int,
  sharding: NamedSharding | None = None,
  method: Method | None = None,
) -> Collect:
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
    keys = rollouts.prompt_keys(sample_key, state.step, problems.ids)

    def draw(params, count, first=0, active=None, temperature=None):
      return rollouts.generate(
        policy,
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
      return to_rollout(problems, samples, judged, keys, state.step)

    def extend(params, rollout, kept, count):
      prefixes = _prefixes(rollout, kept, keys)
      how = _at(sampling, count, None)
      drawn = rollouts.generate(policy, params, *prefixes, how)
      whole = _whole(rollout, kept, drawn, sampling.pad_id)
      judged = task.score(problems, *whole)
      return _extension(rollout, prefixes, drawn, judged)

    sampler = Sampler(
      policy,
      _acting(method, state),
      state.slots,
      sampling.samples,
      sampling.temperature,
      draw,
      judge,
      extend,
    )
    return _sampled(method, sampler, state)

  return collect


def on_host(
  task: Task,
  policy: types.Policy,
  sampling: rollouts.Sampling,
  prompts: int,
  sharding: NamedSharding,
  method: Method | None = None,
) -> Staged:
  """Sampling as compiled programs, then a reward that runs on the host."""

  @functools.partial(jax.jit, static_argnames=("how", "first"))
  def generate(params, prompts, prompt_mask, keys, active, how, first):
    return rollouts.generate(
      policy, params, prompts, prompt_mask, keys, how, first, active
    )

  keys_of = jax.jit(rollouts.prompt_keys)
  assemble = jax.jit(to_rollout)

  def collect(state: State):
    called = time.perf_counter()
    jax.block_until_ready(state)
    start = time.perf_counter()
    scoring = 0.0
    problem_key, sample_key = _keys(state)
    host_problems = task.train(problem_key, int(state.step), prompts)
    problems = jax.device_put(host_problems, sharding)
    keys = keys_of(sample_key, state.step, problems.ids)

    def draw(params, count, first=0, active=None, temperature=None):
      how = _at(sampling, count, temperature)
      asked = problems.prompts, problems.prompt_mask
      return generate(params, *asked, keys, active, how, first)

    def judge(samples):
      nonlocal scoring
      drawn = jax.device_get(samples)
      began = time.perf_counter()
      judged = task.score(
        host_problems, drawn.completions, drawn.lengths, drawn.finished
      )
      scoring += time.perf_counter() - began
      judged = jax.device_put(judged, sharding)
      return assemble(problems, samples, judged, keys, state.step)

    def extend(params, rollout, kept, count):
      prefixes = _prefixes(rollout, kept, keys)
      how = _at(sampling, count, None)
      drawn = generate(params, *prefixes, None, how, 0)
      whole = jax.device_get(_whole(rollout, kept, drawn, sampling.pad_id))
      judged = task.score(host_problems, *whole)
      return _extension(rollout, prefixes, drawn, judged)

    sampler = Sampler(
      policy,
      _acting(method, state),
      state.slots,
      sampling.samples,
      sampling.temperature,
      draw,
      judge,
      extend,
    )
    rollout = _sampled(method, sampler, state)
    times = {
      "time/update_s": start - called,  # what was left of the last one
      "time/rollout_s": time.perf_counter() - start - scoring,
      "time/score_s": scoring,
    }
    return rollout, times

  return collect


def with_host_needs(
  gather: Staged,
  methods: Mapping[str, Method],
  policy: types.Policy,
  plan: Plan,
) -> Staged:
  """And what numpy finds of the rollout, before the compiled step.

  Args:
    gather: what samples.
    methods: of the learners; those of the policy may have host needs.
    policy: scores what host needs read, in a program of its own.
    plan: its temperature and chunk.

  Returns:
    `gather` itself where no method asks for the host.
  """
  needs = host_needs(methods)
  if not needs:
    return gather
  reads = {read for need in needs for read in need.probe.reads}

  @jax.jit
  def score(state, rollout):
    sources = {"old": state.params, **state.slots}
    return probes.passes(
      policy, sources, reads, rollout, plan.temperature, plan.chunk
    )

  def collect(state: State):
    given, times = gather(state)
    given = learners.by_slot(given)
    scored = score(state, given[learners.POLICY])
    start = time.perf_counter()
    jax.block_until_ready(scored)
    began = time.perf_counter()
    rollout = probes.on_host(needs, scored)
    return {**given, learners.POLICY: rollout}, {
      **times,
      "time/score_s": times.get("time/score_s", 0.0)
      + time.perf_counter()
      - began,
      "time/rollout_s": times.get("time/rollout_s", 0.0) + began - start,
    }

  return collect


def host_needs(methods: Mapping[str, Method]) -> set[probes.Need]:
  """What the learners ask of the host."""
  return {
    need
    for method in methods.values()
    for need in method.signal_needs | method.term_needs
    if need.source == "host"
  }


def shown_on_device(
  task: Task, prompts: int, sharding: NamedSharding | None = None
) -> Collect:
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
    return supervised_rollout(problems, shown, state)

  return collect


def shown_on_host(task: Task, prompts: int, sharding: NamedSharding) -> Staged:
  """A host task's own solutions in place of samples, one per prompt."""
  assemble = jax.jit(supervised_rollout)

  def collect(state: State):
    start = time.perf_counter()
    problem_key, solution_key = _keys(state)
    problems = task.train(problem_key, int(state.step), prompts)
    key = jax.random.fold_in(solution_key, int(state.step))
    shown = task.demonstrate(key, problems)
    placed = jax.device_put((problems, shown), sharding)
    rollout = assemble(*placed, state)
    return rollout, {"time/rollout_s": time.perf_counter() - start}

  return collect


def supervised_rollout(
  problems: Problems, shown: tuple[Array, Array], state: State
) -> types.Rollout:
  """Demonstrations as a rollout of one sample per prompt, scored 1."""
  completions, lengths = shown
  one = jnp.ones((completions.shape[0], 1))
  tokens = supervised_tokens(problems, completions, lengths)
  return types.Rollout(
    tokens=tokens,
    sample_mask=one > 0,
    behavior_log_probs=jnp.zeros(tokens.completions.shape),
    finished=one > 0,
    scores=one,
    correct=one.astype(jnp.int8),
    prompt_ids=jnp.asarray(problems.ids),
    keys=rollouts.prompt_keys(state.key, state.step, problems.ids),
    step=state.step,
  )


def _nothing(shape: tuple[int, int, int], pad_id: int) -> rollouts.Samples:
  """Samples `[P, S, T]` of the right shapes."""
  return rollouts.Samples(
    completions=np.full(shape, pad_id, np.int32),
    lengths=np.ones(shape[:2], np.int32),
    log_probs=np.zeros(shape, np.float32),
    finished=np.ones(shape[:2], bool),
  )


def abstract_rollout(
  task: Task,
  policy: types.Policy,
  sampling: rollouts.Sampling,
  prompts: int,
  method: Method | None = None,
  params: types.PyTree = None,
) -> Rollouts:
  """Shapes of a rollout of this task, for checks; no sampling is traced.

  Args:
    task, policy, sampling, prompts, method: as of `on_device`.
    params: abstract parameters of the policy, for stages that read them.
  """

  def drawn(count):
    return _nothing((prompts, count, sampling.max_tokens), task.pad_id)

  def ask(key):
    return task.train(key, 0, prompts)

  def draw(params, count, first=0, active=None, temperature=None):
    del params, first, active, temperature
    return drawn(count)

  key = jax.random.key(0)
  host_problems = None if task.jittable else ask(key)

  def sample(key, params):
    problems = ask(key) if task.jittable else host_problems
    keys = rollouts.prompt_keys(key, 0, jnp.asarray(problems.ids))
    step = jnp.zeros((), jnp.int32)

    def judge(samples):
      fake = drawn(samples.lengths.shape[1])
      judged = task.score(
        problems, fake.completions, fake.lengths, fake.finished
      )
      shown = jax.tree.map(jnp.asarray, fake)
      return to_rollout(problems, shown, judged, keys, step)

    def extend(params, rollout, kept, count):
      del params
      prefixes = _prefixes(rollout, kept, keys)
      shape = len(prefixes[0]), count, sampling.max_tokens
      fake = _nothing(shape, task.pad_id)
      whole = np.shape(kept)[0], np.shape(kept)[1] * count, sampling.max_tokens
      whole = _nothing(whole, task.pad_id)
      judged = task.score(
        problems, whole.completions, whole.lengths, whole.finished
      )
      return _extension(rollout, prefixes, fake, judged)

    slots = {} if method is None else {name: params for name, _ in method.slots}
    sampler = Sampler(
      policy,
      params,
      slots,
      sampling.samples,
      sampling.temperature,
      draw,
      judge,
      extend,
    )
    stage = stages.once() if method is None else method.stage
    return stage.run(sampler, stage.init())

  return jax.eval_shape(sample, key, params)
