"""Makes the rollout that a training step learns from.

`sample_rollout` makes a rollout in three phases:

  sample     draws completions of the prompts           rl.sampling.generation
  score      scores every completion by the task        experiments.tasks
  assemble   puts prompts, completions and scores into  `assemble`
             one `rl.types.Rollout`

`make_rollout_fn` runs the phases inside one compiled program;
`make_host_rollout_fn` computes the score on the host; `abstract_rollout` runs
the phases on shapes. Runs that do not learn from samples have the rollouts of
`make_demonstration_fn`, `make_host_demonstration_fn` and `make_text_fn`.

Problems and random numbers are pure functions of the state's key and step, so
that the rollout of a step can be made again, after a restart or for debugging.

Shapes: P prompts, S samples per prompt, T completion tokens, L prompt tokens, M
continuations of a prefix of each sample. A comment such as `[P S, M]` is an
array whose first axis has length P * S.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from experiments.tasks.task import Judged, Problems, Task
from experiments.training import multihost
from experiments.training.training_texts import TrainingTexts
from rewards.process import continuations
from rl import bit_sets, learners, types
from rl.method import Method
from rl.sampling import generation, samplers
from rl.step import Rollouts, State

Array = jax.Array
RolloutFn = Callable[[State], Rollouts]  # pure and jittable
# The second result has durations in seconds by metric name, and moments under
# the two keys below.
HostRolloutFn = Callable[[State], tuple[Rollouts, dict[str, float]]]
# `(params, prompts, prompt_mask, keys, sampling, first, active) -> samples`,
# the arguments of `rl.sampling.generation.generate` without the policy.
GenerateFn = Callable[..., generation.Samples]
# `(completions, lengths, finished) -> judged`, the task's `score` for the
# problems of one batch.
ScoreFn = Callable[[Array, Array, Array], Judged]

# Keys of moments, in seconds of `time.perf_counter`.
# `experiments.training.metric_buffer` computes durations from the moments and
# does not log them. A state is ready when the update of the previous training
# step has ended.
STATE_READY = "moment/state_ready"
ROLLOUT_READY = "moment/rollout_ready"

# Folded into the key of a prompt for random numbers of a method, such as
# bootstrap subsets. For sampling, the number of the sample is folded in, which
# is always smaller.
_NOT_A_SAMPLE = 2**31 - 1


def sample_rollout(
  sampler: samplers.Sampler,
  memory: Any,
  generate: GenerateFn,
  score: ScoreFn,
  policy: types.Policy,
  params: types.PyTree,
  parameter_sets: Mapping[str, types.PyTree],
  sampling: generation.Sampling,
  problems: Problems,
  keys: Array,
  step: Array,
  answer_cue: tuple[int, ...],
) -> Rollouts:
  """Samples, scores and assembles a rollout, as a sampler directs.

  Args:
    sampler: decides how many completions are drawn, and from which parameters.
    memory: state that the sampler keeps from its previous rollout.
    generate: samples completions.
    score: scores completions of the problems.
    policy: the model, for samplers that read it.
    params: parameters of the behavior policy, from which completions are
      sampled.
    parameter_sets: further parameters, by name ("ref", "ema").
    sampling: settings of sampling; `samples` is S.
    problems: P problems.
    keys: `[P]` PRNG keys, one per problem.
    step: `[]` training step.
    answer_cue: token ids after which a completion states its answer.
  """

  # The functions `sample`, `extend` and `branch` of `samplers.PromptBatch`.
  def sample(params, count, first=0, active=None, temperature=None):
    settings = _with_samples(sampling, count, temperature)
    samples = generate(
      *(params, problems.prompts, problems.prompt_mask),
      *(keys, settings, first, active),
    )
    judged = score(samples.completions, samples.lengths, samples.finished)
    return assemble(problems, samples, judged, keys, step)

  def extend(params, rollout, prefix_lengths, count, active=None):
    settings = continuations.settings(sampling, rollout.tokens, count)
    prompts, prompt_mask, prefix_keys = _prefixes(rollout, prefix_lengths, keys)
    if active is not None:  # [P, S] -> [P S, count]
      active = jnp.repeat(jnp.reshape(active, (-1, 1)), count, 1)
    samples = generate(
      params, prompts, prompt_mask, prefix_keys, settings, 0, active
    )
    judged = score(
      *_with_prefixes(rollout, prefix_lengths, samples, sampling.pad_id)
    )
    return _assemble_extension(
      rollout,
      (prompts, prompt_mask, prefix_keys),
      prefix_lengths,
      samples,
      judged,
    )

  def branch(params, rollout, rows, prefix_lengths, first):
    settings = continuations.settings(sampling, rollout.tokens, 1)
    num_samples = rollout.sample_mask.shape[1]
    shape = rows.shape
    owners = jnp.repeat(jnp.arange(shape[0]), shape[1])
    rows = owners * num_samples + rows.ravel()
    prefix_lengths = prefix_lengths.ravel()
    prompts, prompt_mask = continuations.prefix_prompts(
      rollout.tokens, rows, prefix_lengths
    )
    # Counts down, so that it meets no number of a sample.
    numbers = _NOT_A_SAMPLE - 1 - first - jnp.arange(shape[1])
    branch_keys = jax.vmap(jax.random.fold_in)(
      keys[owners], jnp.tile(numbers, shape[0])
    )
    continued = generate(
      params, prompts, prompt_mask, branch_keys, settings, 0, None
    )
    samples = _attach(rollout, rows, prefix_lengths, continued, sampling.pad_id)
    samples = jax.tree.map(lambda x: x.reshape(*shape, *x.shape[2:]), samples)
    judged = score(samples.completions, samples.lengths, samples.finished)
    return assemble(problems, samples, judged, keys, step)

  batch = samplers.PromptBatch(
    policy=policy,
    params=params,
    parameter_sets=parameter_sets,
    samples=sampling.samples,
    temperature=sampling.temperature,
    sample=sample,
    extend=extend,
    branch=branch,
    answer_cue=answer_cue,
  )
  return sampler.run(batch, memory)


def make_rollout_fn(
  task: Task,
  policy: types.Policy,
  sampling: generation.Sampling,
  prompts: int,
  sharding: NamedSharding | None = None,
  method: Method | None = None,
) -> RolloutFn:
  """Builds a jittable rollout function, for a task whose score is jittable.

  Args:
    task: draws the problems and scores completions.
    policy: the model.
    sampling: settings of sampling.
    prompts: P.
    sharding: sharding of the prompts over a mesh; None leaves them where they
      are.
    method: method whose sampler and behavior policy are used. None draws all
      samples at once from the trained policy.
  """

  def rollout_fn(state: State) -> Rollouts:
    problem_key, sample_key = jax.random.split(state.carried.key)
    problems = task.train(problem_key, state.step, prompts)
    if sharding is not None:
      problems = jax.lax.with_sharding_constraint(problems, sharding)
    keys = generation.prompt_keys(sample_key, state.step, problems.ids)
    model = policy.with_frozen(state.carried.frozen)
    sampler, memory, params = _behavior(method, state)
    return sample_rollout(
      *(sampler, memory),
      functools.partial(generation.generate, model),
      functools.partial(task.score, problems),
      *(model, params, _further_parameters(state)),
      *(sampling, problems, keys, state.step, task.answer_cue),
    )

  return rollout_fn


def make_host_rollout_fn(
  task: Task,
  policy: types.Policy,
  sampling: generation.Sampling,
  prompts: int,
  sharding: NamedSharding,
  method: Method | None = None,
) -> HostRolloutFn:
  """Builds a rollout function whose score is computed on the host.

  Sampling is a compiled program. The arguments are those of `make_rollout_fn`.
  """

  @functools.partial(jax.jit, static_argnames=("sampling", "first"))
  def compiled(params, prompts, prompt_mask, keys, active, sampling, first):
    return generation.generate(
      policy, params, prompts, prompt_mask, keys, sampling, first, active
    )

  prompt_keys = jax.jit(generation.prompt_keys)

  def rollout_fn(state: State) -> tuple[Rollouts, dict[str, float]]:
    jax.block_until_ready(state)
    start = time.perf_counter()
    score_seconds = 0.0
    problem_key, sample_key = jax.random.split(state.carried.key)
    host_problems = task.train(problem_key, int(state.step), prompts)
    problems = multihost.place(host_problems, sharding)
    keys = prompt_keys(sample_key, state.step, problems.ids)

    def generate(params, prompts, prompt_mask, keys, sampling, first, active):
      params = types.join(params, state.carried.frozen)
      return compiled(
        params, prompts, prompt_mask, keys, active, sampling, first
      )

    def score(completions, lengths, finished):
      nonlocal score_seconds
      samples = jax.block_until_ready((completions, lengths, finished))
      score_start = time.perf_counter()
      judged = multihost.score_on_hosts(
        task.score, host_problems, samples, sharding
      )
      score_seconds += time.perf_counter() - score_start
      return multihost.place(judged, sharding)

    sampler, memory, params = _behavior(method, state)
    rollout = sample_rollout(
      *(sampler, memory, generate, score),
      *(policy.with_frozen(state.carried.frozen), params),
      _further_parameters(state),
      *(sampling, problems, keys, state.step, task.answer_cue),
    )
    times = {
      STATE_READY: start,
      "time/rollout_s": time.perf_counter() - start - score_seconds,
      "time/score_s": score_seconds,
    }
    return rollout, times

  return rollout_fn


def abstract_rollout(
  task: Task,
  policy: types.Policy,
  sampling: generation.Sampling,
  prompts: int,
  method: Method | None,
  params: types.PyTree,
  vocab_size: int,
) -> Rollouts:
  """Returns the shapes of a rollout of a task, without tracing the decoder.

  Args:
    task, policy, sampling, prompts, method: same as in `make_rollout_fn`.
    params: shapes of the policy's parameters, for samplers that read them.
    vocab_size: V, of which the support of truncated samples is a subset.
  """

  def padding_samples(shape: tuple[int, ...]) -> generation.Samples:
    """Returns samples `[P, S, T]`, each of which is one padding token."""
    return generation.Samples(
      completions=np.full(shape, task.pad_id, np.int32),
      lengths=np.ones(shape[:2], np.int32),
      log_probs=np.zeros(shape, np.float32),
      finished=np.ones(shape[:2], bool),
    )

  def generate(params, prompts, prompt_mask, keys, sampling, first, active):
    del params, prompt_mask, keys, first, active
    shape = len(prompts), sampling.samples, sampling.max_tokens
    samples = padding_samples(shape)
    if sampling.gives_support:
      words = bit_sets.num_words(vocab_size)
      samples = samples.replace(support=np.zeros((*shape, words), np.uint32))
    return jax.tree.map(jnp.asarray, samples)

  key = jax.random.key(0)
  host_problems = None if task.jittable else task.train(key, 0, prompts)

  def rollout_fn(key, params):
    problems = task.train(key, 0, prompts) if task.jittable else host_problems

    def score(completions, lengths, finished):
      # A scorer on the host cannot read traced arrays, so it gets numpy arrays
      # of the same shape.
      del lengths, finished
      samples = padding_samples(completions.shape)
      return task.score(
        problems, samples.completions, samples.lengths, samples.finished
      )

    sampler = samplers.once() if method is None else method.sampler
    sets = () if method is None else method.parameter_sets
    return sample_rollout(
      *(sampler, sampler.init(), generate, score),
      *(policy, params, {name: params for name, _ in sets}),
      *(sampling, problems),
      generation.prompt_keys(key, 0, jnp.asarray(problems.ids)),
      jnp.zeros((), jnp.int32),
      task.answer_cue,
    )

  return jax.eval_shape(rollout_fn, key, params)


def _behavior(
  method: Method | None, state: State
) -> tuple[samplers.Sampler, Any, types.PyTree]:
  """Returns the sampler, its memory, and the behavior policy's parameters."""
  if method is None:
    return samplers.once(), (), state.params
  params = state.parameters[method.behavior]
  return method.sampler, state.carried.memory, params


def _further_parameters(state: State) -> dict[str, types.PyTree]:
  """Returns all parameters of a state but those of the policy, by name."""
  return {n: p for n, p in state.parameters.items() if n != learners.POLICY}


def _with_samples(
  sampling: generation.Sampling, count: int, temperature: float | None = None
) -> generation.Sampling:
  """Returns settings with another number of samples, and another temperature.

  A temperature other than None also turns off top-k, top-p and min-p.
  """
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


# Inlined in the program of `make_rollout_fn`; a program of its own in
# `make_host_rollout_fn`.
@functools.partial(jax.jit, inline=True)
def assemble(
  problems: Problems,
  samples: generation.Samples,
  judged: Judged,
  keys: Array,
  step: Array,
) -> types.Rollout:
  """Assembles problems, samples and their scores to one rollout.

  Args:
    problems: P problems.
    samples: S completions of each problem.
    judged: the task's scores and verdicts of the completions.
    keys: `[P]`, the PRNG keys that the samples were drawn with.
    step: `[]` training step.
  """
  positions = jnp.arange(samples.completions.shape[-1])  # [T]
  extras = {"answer_ids": judged.answer_ids, **judged.extras}
  return types.Rollout(
    tokens=types.Tokens(
      prompts=problems.prompts,
      prompt_mask=problems.prompt_mask,
      completions=samples.completions,
      lengths=samples.lengths,
      mask=positions < samples.lengths[..., None],
      support=samples.support,
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
    views=judged.views,
    extras=types.Named(
      {f"task/{name}": jnp.asarray(value) for name, value in extras.items()}
    ),
  )


def _prefixes(
  rollout: types.Rollout, prefix_lengths: Array, keys: Array
) -> tuple[Array, Array, Array]:
  """Returns a prefix of every sample as a prompt.

  Args:
    rollout: rollout `[P, S]`.
    prefix_lengths: `[P, S]`, number of completion tokens in each prefix.
    keys: `[P]` PRNG keys of the prompts.

  Returns:
    Prompts `[P S, L + T]`, their mask, and PRNG keys `[P S]`.
  """
  num_prompts, num_samples = prefix_lengths.shape
  indices = jnp.arange(num_prompts * num_samples)
  prompts, prompt_mask = continuations.prefix_prompts(
    rollout.tokens, indices, prefix_lengths.reshape(-1)
  )
  fold = jax.vmap(jax.random.fold_in)
  sample_keys = fold(
    keys[indices // num_samples],
    # Counts down, so that it meets no number of a sample.
    _NOT_A_SAMPLE - 1 - indices % num_samples,
  )
  return prompts, prompt_mask, fold(sample_keys, prefix_lengths.ravel())


def _attach(
  rollout: types.Rollout,
  rows: Array,
  prefix_lengths: Array,
  continued: generation.Samples,
  pad_id: int,
) -> generation.Samples:
  """Joins prefixes and their continuations, with log-probs and support.

  Args:
    rollout: rollout `[P, S]`.
    rows: `[N]`, numbers `p S + s` of the samples that have the prefixes.
    prefix_lengths: `[N]`, number of completion tokens in each prefix.
    continued: one continuation of each prefix, `[N, 1]`.
    pad_id: token that fills arrays up.

  Returns:
    Samples `[N, 1]`.
  """
  completions, lengths, finished = continuations.attach(
    rollout.tokens, rows, prefix_lengths, continued, pad_id
  )
  # [N, T]; `lengths` is [N, 1].
  t = jnp.arange(completions.shape[-1])[None]
  after = jnp.maximum(t - prefix_lengths[:, None], 0)

  @jax.vmap
  @jax.vmap
  def select(in_prefix, is_real, old, new):
    return jnp.where(is_real, jnp.where(in_prefix, old, new), 0)

  def join(array: Array, added: Array) -> Array:
    """Joins arrays of tokens, `[P, S, T, ...]` and `[N, 1, T, ...]`."""
    old = array.reshape(-1, *array.shape[2:])[rows]
    new = jnp.squeeze(added, 1)[jnp.arange(len(rows))[:, None], after]
    in_prefix = t < prefix_lengths[:, None]
    return select(in_prefix, t < lengths, old, new)[:, None]

  return generation.Samples(
    completions=completions,
    lengths=lengths,
    log_probs=join(rollout.behavior_log_probs, continued.log_probs),
    finished=finished,
    support=None
    if continued.support is None
    else join(rollout.tokens.support, continued.support),
  )


def _with_prefixes(
  rollout: types.Rollout,
  prefix_lengths: Array,
  samples: generation.Samples,
  pad_id: int,
) -> tuple[Array, Array, Array]:
  """Attaches continuations to their prefixes.

  Args:
    rollout: rollout `[P, S]`.
    prefix_lengths: `[P, S]`, number of completion tokens in each prefix.
    samples: continuations `[P S, M]`.
    pad_id: token that fills arrays up.

  Returns:
    Completions `[P, S M, T]`, lengths and finished `[P, S M]`.
  """
  num_prompts, num_samples = prefix_lengths.shape
  texts = continuations.attach(
    rollout.tokens,
    jnp.arange(num_prompts * num_samples),
    prefix_lengths.reshape(-1),
    samples,
    pad_id,
  )
  return jax.tree.map(
    lambda array: array.reshape(num_prompts, -1, *array.shape[2:]), texts
  )


def _assemble_extension(
  rollout: types.Rollout,
  prefixes: tuple[Array, Array, Array],
  prefix_lengths: Array,
  samples: generation.Samples,
  judged: Judged,
) -> types.Rollout:
  """Assembles M continuations of every sample to a rollout `[P S, M]`.

  The task scored at most T tokens of a prefix with its continuation. Later
  tokens of a continuation are masked out.

  Args:
    rollout: rollout `[P, S]` of the samples.
    prefixes: prompts, prompt mask and keys from `_prefixes`.
    prefix_lengths: `[P, S]`, number of completion tokens in each prefix.
    samples: continuations `[P S, M]`.
    judged: scores `[P, S M]` of the prefixes with their continuations.
  """
  prompts, prompt_mask, keys = prefixes
  num_prompts, num_samples = rollout.sample_mask.shape
  count = samples.lengths.shape[1]  # M

  def by_prefix(array):  # [P, S M] -> [P S, M]
    return jnp.asarray(array).reshape(num_prompts * num_samples, count)

  is_scored = judged.scored
  if is_scored is None:
    is_scored = np.ones((num_prompts, num_samples * count), bool)
  is_scored = by_prefix(is_scored)
  # [P S, 1], largest number of tokens of a continuation.
  max_lengths = rollout.mask.shape[-1] - prefix_lengths.reshape(-1, 1)
  lengths = jnp.minimum(samples.lengths, max_lengths)
  mask = jnp.arange(samples.completions.shape[-1]) < lengths[..., None]
  return types.Rollout(
    tokens=types.Tokens(
      prompts=prompts,
      prompt_mask=prompt_mask,
      completions=samples.completions,
      lengths=lengths,
      mask=mask,
      support=samples.support,
      max_length=rollout.tokens.text_length,
    ),
    sample_mask=is_scored & rollout.sample_mask.reshape(-1, 1),
    behavior_log_probs=samples.log_probs,
    finished=samples.finished & (samples.lengths <= max_lengths),
    scores=by_prefix(judged.scores).astype(jnp.float32),
    correct=by_prefix(judged.correct).astype(jnp.int8),
    prompt_ids=jnp.repeat(rollout.prompt_ids, num_samples),
    keys=keys,
    step=rollout.step,
    extras=types.Named({"sampler/drawn": samples.lengths}),
  )


# ------------------------------------------------------------------------------
# Supervised training: demonstrations in place of samples
# ------------------------------------------------------------------------------


def make_demonstration_fn(
  task: Task, prompts: int, sharding: NamedSharding | None = None
) -> RolloutFn:
  """Builds a jittable rollout function of demonstrations, one per prompt."""

  def rollout_fn(state: State) -> types.Rollout:
    problem_key, solution_key = jax.random.split(state.carried.key)
    problems = task.train(problem_key, state.step, prompts)
    demonstrations = task.demonstrate(
      jax.random.fold_in(solution_key, state.step), problems
    )
    if sharding is not None:
      problems, demonstrations = jax.lax.with_sharding_constraint(
        (problems, demonstrations), sharding
      )
    return _assemble_demonstrations(problems, demonstrations, state)

  return rollout_fn


def make_host_demonstration_fn(
  task: Task, prompts: int, sharding: NamedSharding
) -> HostRolloutFn:
  """Builds a rollout function of demonstrations that the host computes."""

  def rollout_fn(state: State) -> tuple[types.Rollout, dict[str, float]]:
    problem_key, solution_key = jax.random.split(state.carried.key)
    step = int(state.step)  # waits for the update of the previous step
    start = time.perf_counter()
    problems = task.train(problem_key, step, prompts)
    key = jax.random.fold_in(solution_key, step)
    demonstrations = task.demonstrate(key, problems)
    placed = multihost.place((problems, demonstrations), sharding)
    rollout = _assemble_demonstrations(*placed, state)
    return rollout, {
      STATE_READY: start,
      "time/rollout_s": time.perf_counter() - start,
    }

  return rollout_fn


@functools.partial(jax.jit, inline=True)
def _assemble_demonstrations(
  problems: Problems, demonstrations: tuple[Array, Array], state: State
) -> types.Rollout:
  """Returns a rollout with one demonstration per prompt."""
  completions, lengths = demonstrations
  return assemble_texts(problems, completions[:, None], lengths[:, None], state)


# ------------------------------------------------------------------------------
# The texts of a file in place of samples
# ------------------------------------------------------------------------------


def make_text_fn(
  texts: TrainingTexts,
  prompts: int,
  sharding: NamedSharding,
  extras: Mapping[str, np.ndarray],
) -> HostRolloutFn:
  """Builds a rollout function of the lines of a file, in shuffled epochs.

  Args:
    texts: the lines, with C completions each.
    prompts: P, number of lines of a training step.
    sharding: sharding of the lines over a mesh.
    extras: `{name: [N, C, ...]}`, arrays of all lines for `Rollout.extras`.
  """

  def rollout_fn(state: State) -> tuple[types.Rollout, dict[str, float]]:
    problem_key, _ = jax.random.split(state.carried.key)
    step = int(state.step)  # waits for the update of the previous step
    start = time.perf_counter()
    rows = texts.rows(problem_key, step, prompts)
    selected = select_texts(texts, rows)
    selected_extras = {name: values[rows] for name, values in extras.items()}
    *placed, placed_extras = multihost.place(
      (*selected, selected_extras), sharding
    )
    rollout = assemble_texts(*placed, state, placed_extras)
    return rollout, {
      STATE_READY: start,
      "time/rollout_s": time.perf_counter() - start,
    }

  return rollout_fn


def abstract_text_rollout(
  texts: TrainingTexts, prompts: int, state: State, extras: Iterable[str]
) -> types.Rollout:
  """Returns the shapes of the rollouts of `make_text_fn`.

  Args:
    texts, prompts: same as in `make_text_fn`.
    state: shapes of the training state.
    extras: names of its extras, which are `[P, C, T]` float32.
  """
  selected = select_texts(texts, np.arange(prompts) % len(texts))
  shape = jax.ShapeDtypeStruct(selected[1].shape, jnp.float32)
  return jax.eval_shape(
    assemble_texts, *selected, state, dict.fromkeys(extras, shape)
  )


def select_texts(
  texts: TrainingTexts, rows: np.ndarray
) -> tuple[Problems, np.ndarray, np.ndarray]:
  """Returns problems, completions `[P, C, T]` and lengths `[P, C]` of lines."""
  return texts.problems(rows), texts.completions[rows], texts.lengths[rows]


@functools.partial(jax.jit, inline=True)
def assemble_texts(
  problems: Problems,
  completions: Array,
  lengths: Array,
  state: State,
  extras: Mapping[str, Array] | None = None,
) -> types.Rollout:
  """Assembles prompts and C completions of each to a rollout.

  The first completion of a prompt has the score and the verdict 1, and all
  others have 0.

  Args:
    problems: P problems, of which only prompts and ids are read.
    completions: `[P, C, T]`, EOS included.
    lengths: `[P, C]`, number of tokens of each.
    state: the training state, of which the step and the key are read.
    extras: the extras of the rollout; None for none.
  """
  scores = jnp.zeros(lengths.shape).at[:, 0].set(1.0)  # [P, C]
  everywhere = jnp.ones(lengths.shape, bool)
  return types.Rollout(
    tokens=types.Tokens(
      prompts=problems.prompts,
      prompt_mask=problems.prompt_mask,
      completions=completions,
      lengths=lengths,
      mask=jnp.arange(completions.shape[-1]) < lengths[..., None],
    ),
    sample_mask=everywhere,
    behavior_log_probs=jnp.zeros(completions.shape),
    finished=everywhere,
    scores=scores,
    correct=scores.astype(jnp.int8),
    prompt_ids=jnp.asarray(problems.ids),
    keys=generation.prompt_keys(state.carried.key, state.step, problems.ids),
    step=state.step,
    extras=types.Named(dict(extras or {})),
  )
