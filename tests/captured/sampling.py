"""Records the sampler, and the rollout that every way of sampling makes.

Methods that sample in a way of their own are found by asking each method. Their
rollouts come from an untrained decoder on the countdown task, through the same
function that the training loop calls.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from captured import code

PROMPTS, SAMPLES, TOKENS, VOCAB = 6, 5, 12, 11
# Settings of the sampler by the item's name.
SAMPLERS: dict[str, dict[str, Any]] = {
  "plain": {},
  "tempered": {"temperature": 0.7},
  "greedy": {"temperature": 0.0},
  "top_k": {"top_k": 3},
  "top_p": {"top_p": 0.6},
  "min_p": {"min_p": 0.3},
  "all truncations": {"top_k": 5, "top_p": 0.8, "min_p": 0.1},
  "refilled rows": {"rows": 2},
  "two ends": {"eos_ids": (1, 4)},
}
# Hyper-parameters of methods that act on sampling alone.
METHODS: dict[str, tuple[str, ...]] = {
  "aryabhata": ("aryabhata(pilot=4)", "aryabhata(pilot=4, threshold=0.6)"),
  "brpo_anytime": (
    "brpo_anytime(budgets=(0.5, 1.0), summaries=2)",
    "brpo_anytime(budgets=(0.3, 1.0), summaries=3)",
  ),
  "coba": (
    "coba(pilot=4, mean_samples=7)",
    "coba(pilot=4, mean_samples=5)",
    "coba(pilot=5, mean_samples=7, tau=0.5)",
    "coba(pilot=4, mean_samples=7, lowest=4.0)",
    "coba(pilot=4, mean_samples=7, slope=2.0)",
    "coba(pilot=4, mean_samples=7, decay=0.3)",
  ),
  "dars": (
    "dars(pilot=4)",
    "dars(pilot=5)",
    "dars(pilot=4, schedule='hardness_weighted')",
    "dars(pilot=4, total=50)",
  ),
  # An untrained policy is forgotten only above its entropy, about 3 nats.
  "eepo": (
    "eepo()",
    "eepo(threshold=10.0, window=1)",
    "eepo(threshold=10.0, window=1, rate=0.1)",
    "eepo(threshold=10.0, window=2)",
  ),
}
# Ways to sample that a config names.
STAGES = (
  "greedy()",
  "prefix_values(continuations=2, steps=3)",
  "prefix_values(continuations=3, steps=2)",
)


def items() -> dict[str, Callable[[], dict[str, Any]]]:
  built = {
    f"sampler:{name}": functools.partial(_sampled, settings)
    for name, settings in SAMPLERS.items()
  }
  built["sampler:later samples"] = _later
  built["sampler:keys"] = _keys
  for name, calls in {**{n: (n,) for n in _special()}, **METHODS}.items():
    built[f"rollout:{name}"] = functools.partial(_rollouts, calls)
  for stage in STAGES:
    built[f"rollout:{stage}"] = functools.partial(
      _rollouts, ("grpo(beta=0.0)",), stage
    )
  return built


def _special() -> list[str]:
  """Methods that do not sample all completions in one pass by the policy."""
  methods, by_learner = code.load("methods"), code.by_learner
  single_pass = str(code.sampler_of(by_learner(methods.get("rloo"))["policy"]))
  return [
    name
    for name in methods.names()
    for method in [by_learner(methods.get(name))["policy"]]
    if str(code.sampler_of(method)) != single_pass
    or method.behavior != "policy"
  ]


# The sampler alone.


def _decoder() -> tuple[Any, Any]:
  """An untrained decoder with a scaled head, for uneven probabilities."""
  config = code.find("model config", "ModelConfig")(
    vocab_size=VOCAB,
    width=16,
    layers=2,
    heads=2,
    kv_heads=1,
    head_dim=8,
    mlp_width=32,
  )
  params = code.load("transformer").init(config, jax.random.key(0))
  params = jax.tree.map(lambda x: 2.0 * x, params)
  return code.load("policy").bind(config), params


def _draw(settings: dict[str, Any], **arguments: Any) -> Any:
  library = code.load("generate")
  policy, params = _decoder()
  sampling = {
    "samples": SAMPLES,
    "max_tokens": TOKENS,
    "eos_ids": (1,),
    "pad_id": 0,
    **settings,
  }
  prompts = jax.random.randint(jax.random.key(1), (PROMPTS, 4), 2, VOCAB)
  mask = jnp.arange(4) >= jnp.arange(PROMPTS)[:, None] % 3
  ids = jnp.array([0, 1, 2, 3, 1, 0])  # two prompts occur twice
  keys = library.prompt_keys(jax.random.key(2), 7, ids)
  prompts = jnp.where(mask, prompts, 0)
  return library.generate(
    policy,
    params,
    prompts,
    mask,
    keys,
    library.Sampling(**sampling),
    **arguments,
  )


def _sampled(settings: dict[str, Any]) -> dict[str, Any]:
  return {"samples": _draw(settings)}


def _later() -> dict[str, Any]:
  """Samples numbered from 5 on, of which some are wanted."""
  active = (jnp.arange(SAMPLES) + jnp.arange(PROMPTS)[:, None]) % 3 > 0
  return {"samples": _draw({"rows": 3}, first=5, active=active)}


def _keys() -> dict[str, Any]:
  library = code.load("generate")
  ids = jnp.array([3, 1, 3, 3, 2])
  keys = library.prompt_keys(jax.random.key(5), 9, ids)
  return {"keys": jax.random.key_data(keys)}


# Rollouts as the training loop makes them.


def _config(method: str, stage: str = "") -> Any:
  config = code.load("common config").rl()
  model = code.load("common config").model
  config.model = model(
    width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp_width=32
  )
  config.model.value_head = True
  config.task = "countdown(count=2)"
  if stage.startswith("prefix_values"):
    config.task = "chain(operations=2)"
  config.method = method
  if "sampler" in config.rollout:
    config.rollout.sampler = stage
  else:  # the key of the record before
    config.stage = stage
  config.rollout.prompts = 6
  config.rollout.samples = 10 if "pilot" in method else 6
  config.evaluation.problems = 6
  config.evaluation.samples = 2
  config.evaluation.batch = 6
  return config


def _judged_by_rule(task: Any) -> Any:
  """The task with verdicts of an untrained policy that differ within a group.

  The share of right samples depends on the prompt: none, or a quarter to three
  quarters of them.
  """

  def score(problems, completions, lengths, finished):
    judged = task.score(problems, completions, lengths, finished)
    real = jnp.arange(completions.shape[-1]) < lengths[..., None]
    total = jnp.where(real, completions, 0).sum(-1)
    right = total % 4 < (problems.ids % 4)[:, None]
    return judged.replace(
      scores=(total % 5) / 5.0, correct=right.astype(jnp.int8)
    )

  return dataclasses.replace(task, score=score)


def _rollouts(calls: tuple[str, ...], stage: str = "") -> dict[str, Any]:
  results = {}
  for call in calls:
    experiment = code.load("build").build(_config(call, stage))
    task = _judged_by_rule(experiment.task)
    experiment = dataclasses.replace(experiment, task=task)
    gather = code.find("train", "compile_rollout_fn", "gatherer")(experiment)
    state = code.initial_state(experiment)
    results[call] = {}
    for step in (0, 1):
      state = state.replace(step=jnp.int32(step))
      rollout = code.rollout_of(gather, state)
      results[call][str(step)] = {
        slot: _leaves(one) for slot, one in code.by_learner(rollout).items()
      }
      memory = code.by_learner(rollout)["policy"].memory
      state = code.with_memory(state, memory)
  return results


def _leaves(rollout: Any) -> dict[str, Any]:
  """The leaves of a rollout by their path, without what is empty."""
  paths = jax.tree_util.tree_flatten_with_path(rollout)[0]
  return {jax.tree_util.keystr(path): leaf for path, leaf in paths}
