"""From a config to the pieces of an experiment, checked before anything runs.

Every mistake that a config can hold is found here, as a ValueError of one line;
nothing is written and nothing is compiled.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import ml_collections
import optax
from jax.sharding import Mesh

import rewards
from experiments import tasks
from experiments.cli import arguments, spec
from experiments.evaluation import evaluator
from experiments.training import (
  decoder,
  device_mesh,
  host_needs,
  optimizers,
)
from experiments.training.experiment import KINDS, Experiment
from models import policy as policies
from models import sharding
from rewards import combine
from rewards.process import prefix_values
from rl import choices, learners, methods, scoring, step, transforms, types
from rl import method as method_lib
from rl import reward as reward_lib
from rl.losses import importance, terms
from rl.methods import settings as allowed
from rl.minibatches import Plan
from rl.sampling import generation, samplers

STAGES: Mapping[str, Callable[..., samplers.Sampler]] = {
  "greedy": samplers.greedy,
  "prefix_values": prefix_values.prefix_values,
}
# Of a term's weight: steps -> (step -> share that is left of its course).
WEIGHT_SCHEDULES: Mapping[str, Callable[[int], optax.Schedule]] = {
  "constant": lambda over: optax.constant_schedule(1.0),
  "linear": lambda over: optax.linear_schedule(1.0, 0.0, over),
  "cosine": lambda over: optax.cosine_decay_schedule(1.0, over),
}


def build(
  config: ml_collections.ConfigDict,
  devices: Sequence[jax.Device] | None = None,
  memory: float | None = None,
) -> Experiment:
  """The experiment of a config.

  Args:
    config: of the experiment.
    devices: of its mesh, which may be those of a machine that is not there;
      None: all there are.
    memory: bytes of one of them, for the axes that the config leaves open;
      None: what a device that is there says.

  Raises:
    ValueError: whatever is wrong with it, in one line.
  """
  if config.kind not in KINDS:
    raise ValueError(choices.unknown("kind", config.kind, KINDS))
  arguments.check_seed("seed", config.seed)
  arguments.check_seed("evaluation.seed", config.evaluation.seed)
  supervised = config.kind == "supervised"
  if devices is None:
    devices = jax.devices()
    memory = memory or device_mesh.memory_of(jax.local_devices()[0])
  made = _supervised() if supervised else make_learners(config)
  trained = learners.by_learner(made)
  plan = Plan(
    **config.plan,
    temperature=1.0 if supervised else config.rollout.temperature,
  )
  plan.check(config.rollout.prompts)
  _check_skips(config)
  txs = optimizers.by_learner(config, list(trained), plan)
  _check_cadence(config)
  task = make_task(config)
  model = decoder.make(config, task, devices[0].platform)
  mesh, sampling_mesh = device_mesh.meshes(
    config, model, plan, list(devices), memory
  )
  _check_batch(config, plan, mesh, sampling_mesh)
  sampling = generation.Sampling(
    samples=config.rollout.samples,
    max_tokens=config.rollout.max_tokens or task.completion_length,
    eos_ids=task.eos_ids,
    pad_id=task.pad_id,
    temperature=config.rollout.temperature,
    top_k=config.rollout.top_k,
    top_p=config.rollout.top_p,
    min_p=config.rollout.min_p,
    rows=config.rollout.rows,
  )
  experiment = Experiment(
    config=config,
    task=task,
    model=model,
    policy=policies.bind(model),
    methods=trained,
    txs={name: tx for name, (tx, _) in txs.items()},
    schedules={name: schedule for name, (_, schedule) in txs.items()},
    plan=plan,
    sampling=sampling,
    mesh=mesh,
    sampling_mesh=sampling_mesh,
  )
  _check(experiment)
  if experiment.samples_own:
    check_evaluation(experiment)
  return experiment


def _supervised() -> method_lib.Method:
  return method_lib.Method(loss=terms.nll(), name="supervised")


def make_method(text: str) -> method_lib.Method | dict[str, method_lib.Method]:
  """The method, or the methods by learner, that `"name(hyper=value)"` says."""
  name, hyper = spec.parse(text, "method")
  try:
    return methods.get(name, **hyper)
  except TypeError as error:
    raise ValueError(f"method {text}: {error}") from None


def make_learners(
  config: ml_collections.ConfigDict,
) -> dict[str, method_lib.Method]:
  """The methods by learner; the policy's with the config's reward and stage.

  Args:
    config: of a run of RL.

  Raises:
    ValueError: what the config says does not fit, or the method says too.
  """
  made = learners.by_learner(make_method(config.method))
  own = made[learners.POLICY]
  if config.get("stage"):
    if own.sampler.name != samplers.once().name:
      raise ValueError(
        f"stage = {config.stage}: {own.name} samples by {own.sampler} already; "
        "leave it empty"
      )
    own = dataclasses.replace(own, sampler=make_stage(config.stage))
  cap = (config.get("sampler") or {}).get("truncation", 0.0)
  if cap:
    try:
      own = importance.corrected(own, cap)
    except (ValueError, transforms.LevelError) as error:
      raise ValueError(f"sampler.truncation = {cap}: {error}") from None
  reward = make_reward(config.get("mix") or {})
  if reward is not None:
    if own.reward is not None:
      raise ValueError(
        f"mix: {own.name} brings a reward of its own, {own.reward.name}; leave "
        "mix empty"
      )
    own = dataclasses.replace(own, reward=reward)
  return {**made, learners.POLICY: own}


def make_stage(text: str) -> samplers.Sampler:
  """The way to sample that `"name(setting=value)"` says."""
  name, settings = spec.parse(text, "stage")
  if name not in STAGES:
    raise ValueError(choices.unknown("stage", name, STAGES))
  allowed.check("setting", f"stage {name!r}", STAGES[name], settings)
  return STAGES[name](**settings)


def make_reward(config: Mapping[str, Any]) -> reward_lib.Reward | None:
  """What `config.mix` pays for; None: the task's score."""
  terms, steps = config.get("terms") or {}, config.get("steps")
  rule = config.get("rule", "sum")
  if rule not in combine.RULES:
    raise ValueError(choices.unknown("rule", rule, combine.RULES))
  if not terms and not steps:
    return None
  order = tuple(config.get("order", ()))
  if set(order) != set(terms):
    raise ValueError(
      f"mix.order {order} must name the terms {tuple(terms)}, each once"
    )
  transforms, weighed = {}, []
  for name in order:
    term = terms[name]
    if term.reward:
      found, settings = spec.parse(term.reward, f"mix.terms.{name}.reward")
      transforms[name] = rewards.get(found, **settings)
    weight = term.weight
    if term.schedule != "constant":
      weight = _weight_schedule(name, term)
    elif term.over or term.final:
      raise ValueError(
        f"mix.terms.{name}: over = {term.over} and final = {term.final} with a "
        "constant schedule; use schedule = 'linear' or 'cosine', or leave both "
        "at 0"
      )
    gates = tuple(term.gates)
    weighed.append(combine.Term(name, weight, gates, term.threshold))
  by_step = None
  if steps:
    found, settings = spec.parse(steps, "mix.steps")
    by_step = rewards.get(found, **settings)
  try:
    return combine.mix(transforms, weighed, rule, by_step)
  except transforms.LevelError as error:
    raise ValueError(f"mix: {error}") from None


def _weight_schedule(name: str, term: ml_collections.ConfigDict) -> Callable:
  if term.schedule not in WEIGHT_SCHEDULES:
    raise ValueError(
      choices.unknown(
        f"schedule of term {name}", term.schedule, sorted(WEIGHT_SCHEDULES)
      )
    )
  if term.over < 1:
    raise ValueError(f"mix.terms.{name}.over = {term.over} must be at least 1")
  share = WEIGHT_SCHEDULES[term.schedule](term.over)
  return lambda step: term.final + (term.weight - term.final) * share(step)


def make_task(config: ml_collections.ConfigDict) -> tasks.Task:
  """The task that `config.task` says, with the data settings it takes.

  A text task of a policy from a folder takes the folder's tokenizer.
  """
  name, settings = spec.parse(config.task, "task")
  takes = tasks.settings(name)
  reward, path = config.get("reward", ""), config.data.get("path", "")
  if reward and "reward" not in takes:
    raise ValueError(
      f"reward = {reward!r}: {name} judges by itself; leave it empty, or use "
      "task=jsonl (what is paid for is said by mix)"
    )
  if path and "path" not in takes:
    raise ValueError(
      f"data.path = {path!r}: {name} reads no file of yours; leave it empty, or "
      "use task=jsonl"
    )
  for key, given in (("reward", reward), ("path", path)):
    if given and settings.get(key, given) != given:
      raise ValueError(
        f"task = {config.task} says {key}={settings[key]!r}, and the config "
        f"{given!r}; say it once"
      )
  return task_of(
    config.task,
    **config.data,
    tokenizer=config.policy.path,
    reward=reward,
  )


def task_of(text: str, **given: Any) -> tasks.Task:
  """The task that `"name(setting=value)"` says.

  Args:
    text: the name and its settings.
    **given: settings it takes too, if it has them, they are not empty and the
      text does not say otherwise.
  """
  name, settings = spec.parse(text, "task")
  takes = tasks.settings(name)
  for key, value in given.items():
    if value and key in takes:
      settings.setdefault(key, value)
  try:
    return tasks.get(name, **settings)
  except TypeError as error:
    raise ValueError(f"task {text}: {error}") from None


def _check_batch(
  config: Any, plan: Plan, mesh: Mesh, sampling_mesh: Mesh
) -> None:
  shards, context = sharding.num_prompt_shards(mesh), mesh.shape["context"]
  if config.kind == "rl" and config.rollout.samples % context:
    nearest = max(round(config.rollout.samples / context), 1) * context
    raise ValueError(
      f"rollout.samples = {config.rollout.samples} is not divisible by "
      f"mesh.context = {context}, which splits them; nearest: {nearest}"
    )
  prompts = config.rollout.prompts
  slice_size = prompts // (plan.minibatches * plan.microbatches)
  sizes = {
    "rollout.prompts": prompts,
    "rollout.prompts / (plan.minibatches * plan.microbatches)": slice_size,
    "evaluation.batch": config.evaluation.batch,
  }
  wrong = [
    f"{what} = {size} (nearest: {max(shards, round(size / shards) * shards)})"
    for what, size in sizes.items()
    if size % shards or size < 1
  ]
  if wrong:
    raise ValueError(
      f"{', '.join(wrong)}: not divisible by the mesh's "
      f"{' * '.join(sharding.PROMPT_AXES)} = {shards}"
    )
  shards = sharding.num_prompt_shards(sampling_mesh)
  if prompts % shards:
    nearest = max(round(prompts / shards), 1) * shards
    raise ValueError(
      f"rollout.prompts = {prompts} is not divisible by the sampler's "
      f"{' * '.join(sharding.PROMPT_AXES)} = {shards}; nearest: {nearest}"
    )


def _check_skips(config: Any) -> None:
  """What ends an update, or a run, must be able to let some pass."""
  ratio = config.plan.get("max_mean_ratio", 10.0)  # older configs lack both
  limit = config.get("stop_after_skips", 0)
  if not ratio > 1:  # NaN neither
    raise ValueError(
      f"plan.max_mean_ratio = {ratio} must be above 1, the ratio of samples of "
      "one's own; nearest useful: 10.0 (inf: no update is skipped for it)"
    )
  if limit < 0:
    raise ValueError(
      f"stop_after_skips = {limit} must be at least 0, which is never; "
      "nearest: 0"
    )


def _check_cadence(config: Any) -> None:
  """A dispatch of several steps must end where something is due."""
  size = config.steps_per_dispatch
  if size < 1:
    raise ValueError(f"steps_per_dispatch = {size} must be at least 1")
  if config.log_every < 1:
    raise ValueError(f"log_every = {config.log_every} must be at least 1")
  for name in ("steps", "checkpoint_every", "evaluate_every", "rollouts_every"):
    if config[name] < 0:
      raise ValueError(
        f"{name} = {config[name]} must be at least 0; nearest: 0"
      )
    if config[name] % size:
      raise ValueError(
        f"{name} = {config[name]} must be a multiple of steps_per_dispatch = "
        f"{size}; nearest: {max(round(config[name] / size), 1) * size}"
      )


def _check(e: Experiment) -> None:
  """Sharding rules fit, and one step traces: needs, levels, k against S."""
  _ = e.shardings
  step.make(e.methods, e.policy, e.txs, e.plan)  # refuses what it cannot do
  if e.samples_own and e.sampling.temperature <= 0:
    raise ValueError(
      f"rollout.temperature = {e.sampling.temperature}: learning needs samples; "
      "it must be above 0, nearest useful: 1.0 (evaluation may use 0)"
    )
  asked = sorted(map(str, host_needs.host_needs(e.methods)))
  if e.config.steps_per_dispatch > 1 and asked:
    raise ValueError(
      f"steps_per_dispatch = {e.config.steps_per_dispatch}: {e.method.name} "
      f"needs {', '.join(asked)}, so each step is dispatched alone; use 1"
    )
  if e.config.steps_per_dispatch > 1 and not e.task.jittable:
    raise ValueError(
      f"steps_per_dispatch = {e.config.steps_per_dispatch}: {e.task.name} is "
      "scored on the host, so each step is dispatched alone; use 1"
    )
  _check_value_head(e)
  state = e.state_shapes
  parameters = {
    name: types.join(params, state.frozen)
    for name, params in {
      learners.POLICY: state.params,
      **state.parameter_sets,
    }.items()
  }
  try:
    learners.check(e.methods, e.policy, parameters, e.abstract_rollout)
    if e.method.reward is not None:
      _check_reward(e.method)
  except (KeyError, TypeError, ValueError) as error:
    raise ValueError(error.args[0]) from None


def _check_value_head(e: Experiment) -> None:
  """A method with a critic needs the head that it is."""
  read = {
    need.probe.head
    for one in e.methods.values()
    for need in one.signal_needs | one.term_needs
    if need.source not in scoring.GIVEN
  }
  if "value" in read and not e.model.value_head:
    raise ValueError(
      f"{e.method.name} reads a value head, which the policy has not: add "
      "--config.model.value_head=True"
    )


def _check_reward(method: method_lib.Method) -> None:
  """Checks that a method learns from what its reward pays."""
  reward = method.reward
  bare = dataclasses.replace(method, reward=None)
  levels = set().union(*map(_source_levels, bare.transforms.values()))
  if reward.terms and levels == {"step"}:
    raise ValueError(
      f"mix.terms: {bare.name} learns from step scores, not from scores; use a "
      "method that does, such as grpo"
    )
  if reward.steps is not None and "step" not in levels:
    raise ValueError(
      f"mix.steps: {bare.name} reads no step scores; use a method that does, "
      "such as sum_form or min_form"
    )
  greedy = scoring.provided("stage", "greedy_scores")
  if reward.terms and greedy in bare.signal_needs:
    raise ValueError(
      f"mix.terms: {bare.name} compares scores with the task's score of the "
      "greedy sample, which is not paid by mix; use another method"
    )


def _source_levels(t: transforms.Transform) -> set[str]:
  """Levels of the signals that a transform reads from the rollout."""
  if t.links:
    return set().union(*(_source_levels(part) for _, part in t.links))
  return {t.gives} if t.takes == "none" else set()


def check_evaluation(e: Experiment) -> None:
  """Raises ValueError where its evaluation asks for what there is not."""
  settings = e.config.evaluation
  if settings.problems < 1:
    raise ValueError(
      f"evaluation.problems = {settings.problems} must be at least 1"
    )
  try:
    e.task.test(settings.problems)
    evaluator.sampling(e)
  except ValueError as error:
    raise ValueError(f"evaluation: {error}") from None
