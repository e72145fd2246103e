"""Records every method: its prepared batch, loss, gradient and whole steps.

An item `method:NAME` holds, for each variant of the hyper-parameters, what the
public pieces compute on two rollouts one after the other: signals, masks,
aggregation weights, term weights, loss, gradient, metrics, and the state of the
transforms. The old policy differs from the current one, so that ratios and
clips matter. At the defaults, the train step itself is run as well.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from captured import code, hyper_parameters, rollouts

# The second rollout comes late enough for schedules and warm-ups to have moved.
STEPS = (0, 60)
# Methods whose defaults scan over nothing on 7 tokens, which JAX refuses unless
# it compiles. Their other variants are recorded without fusion like all others.
COMPILED_AT_DEFAULTS = ("erv",)
# Methods that are given near copies among the samples of a group, since they
# compare the texts of samples, and random ones have nothing in common.
OF_NEAR_COPIES = ("diver", "ktae")
# Methods with a mean over tokens, a geometric mean, and a ratio of sequences.
TRUNCATED = ("grpo", "gmpo", "gspo")


def items() -> dict[str, Callable[[], dict[str, Any]]]:
  names = code.load("methods").names()
  built = {
    f"method:{code.recorded_name(name)}": functools.partial(record, name)
    for name in names
  }
  built |= {
    f"truncation:{name}": functools.partial(_truncated, name)
    for name in TRUNCATED
    if name in names
  }
  return built


def _truncated(name: str) -> dict[str, Any]:
  """The method with truncated importance weights (`sampler.truncation`)."""
  method = code.load("methods").get(name)
  return {
    str(cap): pieces({"policy": code.add_importance_weights(method, cap)})
    for cap in (1.2, 4.0)
  }


def record(name: str) -> dict[str, Any]:
  """Everything that is recorded of a method, by variant."""
  library = code.load("methods")
  defined = list(inspect.signature(library.factory(name)).parameters)
  results: dict[str, Any] = {
    "unvaried": ", ".join(hyper_parameters.missing(name, defined))
  }
  for label, hyper in hyper_parameters.variants(name, defined).items():
    built = code.by_learner(library.get(name, **hyper))
    is_default = label == "defaults" or (
      label == "setting" and name in hyper_parameters.NOT_AT_DEFAULTS
    )
    eager = not (is_default and name in COMPILED_AT_DEFAULTS)
    with jax.disable_jit(eager):
      results[label] = pieces(built, name in OF_NEAR_COPIES)
      if is_default:
        results["steps"] = {case: steps(built, case) for case in CASES}
      elif any(
        code.either(one, "further_updates", "phases") for one in built.values()
      ):
        # Further updates are visible in a whole step only.
        results[label]["step"] = steps(built, "epochs")
  return results


# Pieces: what each learner prepares and differentiates.


def old_params() -> dict[str, jax.Array]:
  """Near the current parameters; far from them at a tenth of the positions."""

  def move(x, number):
    rng = np.random.default_rng(number)
    far = rng.random(x.shape) < 0.1
    noise = rng.standard_normal(x.shape) * np.where(far, 1.5, 0.15)
    return x + jnp.asarray(noise, jnp.float32)

  params = rollouts.params()
  return {name: move(params[name], i) for i, name in enumerate(sorted(params))}


def near_copies(seed: int) -> dict[str, np.ndarray]:
  """Completions of a rollout, half of them copies with one token changed."""
  completions = rollouts.arrays(seed)["completions"].copy()
  completions[:, 1::2] = completions[:, :1]
  for sample in range(1, rollouts.S, 2):
    completions[:, sample, sample] = sample % rollouts.V
  return {"completions": completions}


def pieces(methods: dict[str, Any], similar: bool = False) -> dict[str, Any]:
  """Returns what the learners compute of two rollouts, without an optimizer.

  Args:
    methods: methods by learner.
    similar: whether the samples of a group are near copies.
  """
  results: dict[str, Any] = {}
  for slot, method in methods.items():
    states = method.init()
    for index, step in enumerate(STEPS):
      changes = near_copies(index) if similar else {}
      rollout = rollouts.rollout(index, step, **changes)
      rollout = complete(method, rollout)
      batch, scales, states = _prepare(method, rollout, states)
      results[f"{slot}/{index}"] = {
        "signals": list(batch.signals),
        "masks": list(batch.masks),
        "scores": batch.rollout.scores,
        "sample_mask": batch.rollout.sample_mask,
        "term_weights": list(scales),
        "state": state_leaves(method, states),
        **loss_and_gradient(method, batch, scales),
      }
    results[f"{slot}/slots"] = slots(method)
    results[f"{slot}/optimizer"] = optimizer(method)
  return results


def complete(method: Any, rollout: Any) -> Any:
  """The rollout with every quantity that the method reads before its loss."""
  library, probes = code.load("method"), code.load("probes")
  rollout = rollout.replace(memory=code.sampler_of(method).init())
  names = dict.fromkeys(name for name, _ in code.parameter_sets(method))
  away = {name: rollouts.params(9 + i) for i, name in enumerate(names)}
  parameters = {"old": old_params(), **away}
  needs = library.required(method, 2)
  host = {need for need in needs if need.source == "host"}
  if host:
    reads = {read for need in host for read in need.probe.reads}
    observed = probes.passes(rollouts.policy(), parameters, reads, rollout)
    rollout = code.compute_on_host(host, observed)
  return probes.passes(rollouts.policy(), parameters, needs, rollout)


def _prepare(method: Any, rollout: Any, states: Any) -> Any:
  return code.find("method", "prepare")(method, rollout, states)


def loss_and_gradient(method: Any, batch: Any, scales: Any) -> dict[str, Any]:
  coefficients = code.aggregation_weights(method, batch)
  loss = code.find("method", "loss")

  def total(params):
    return loss(method, rollouts.policy(), params, batch, coefficients, scales)

  (value, tally), gradient = jax.value_and_grad(total, has_aux=True)(
    rollouts.params()
  )
  return {
    "aggregation_weights": list(coefficients),
    "loss": value,
    "gradient": gradient,
    "metrics": renamed(
      {**tally.sums, **tally.maxima}
      | {f"{name} total": value for name, value in tally.totals.items()}
      | {f"{name} weight": value for name, value in tally.weights.items()}
    ),
  }


def slots(method: Any) -> dict[str, Any]:
  """Further parameter sets after some steps."""
  results = {}
  small = {"w": jnp.arange(6.0).reshape(2, 3)}
  other = {"w": jnp.ones((2, 3))}
  for name, rule in code.parameter_sets(method):
    results[name] = {"start": rule.init(small)}
    for step in (0, 1, 9, 10, 99):
      results[name][str(step)] = rule.update(small, other, jnp.int32(step))
  return results


def optimizer(method: Any) -> dict[str, Any]:
  """The updates of the optimizer that the method makes of SGD."""
  tx = method.optimizer(optax.sgd(1.0))
  params = {"a": jnp.arange(12.0).reshape(3, 4), "b": jnp.arange(5.0)}
  return tx.update(params, tx.init(params), params)[0]


def state_leaves(method: Any, states: Any) -> dict[str, Any]:
  """The leaves of a method's state by the transform that they belong to."""
  results: dict[str, list[Any]] = {}

  def visit(transform, state):
    links = code.links(transform)
    if links and isinstance(state, tuple) and len(state) == len(links):
      for (_, link), part in zip(links, state, strict=True):
        visit(link, part)
      return
    leaves = jax.tree.leaves(state)
    if leaves:
      name = str(transform).partition("(")[0]
      results.setdefault(name, []).extend(leaves)

  for transform, state in code.state_of_transforms(method, states):
    if transform is not None:
      visit(transform, state)
  return results


def renamed(metrics: dict[str, Any]) -> dict[str, Any]:
  return {code.recorded_name(name): value for name, value in metrics.items()}


# Whole steps.


class _Kept(NamedTuple):
  """The state of an optimizer that remembers the last gradient."""

  gradient: Any


def remembering_sgd(rate: float = 0.1) -> optax.GradientTransformation:
  def update(gradient, state, params=None):
    del state, params
    return jax.tree.map(lambda g: -rate * g, gradient), _Kept(gradient)

  return optax.GradientTransformation(
    lambda params: _Kept(jax.tree.map(jnp.zeros_like, params)), update
  )


def _nan_score() -> dict[str, np.ndarray]:
  scores = rollouts.arrays()["scores"].copy()
  scores[2, 1] = np.nan
  return {"scores": scores}


# Changes of the rollout and of the plan. None of them: as it is, one update.
CASES: dict[str, tuple[Callable[[], dict[str, Any]], dict[str, int]]] = {
  "plain": (dict, {}),
  "epochs": (dict, {"epochs": 2, "minibatches": 2, "microbatches": 2}),
  "equal_scores": (
    lambda: {
      "scores": np.full((rollouts.P, rollouts.S), 0.5),
      "correct": np.zeros((rollouts.P, rollouts.S), np.int8),
      "step_scores": np.zeros((rollouts.P, rollouts.S, rollouts.K)),
    },
    {},
  ),
  "no_token": (
    lambda: {"mask": np.zeros((rollouts.P, rollouts.S, rollouts.T), bool)},
    {},
  ),
  "nan_score": (_nan_score, {}),
}


def steps(methods: dict[str, Any], case: str) -> dict[str, Any]:
  """Parameters, gradients, metrics and state after one or two train steps.

  A plan that the method refuses is recorded as the type of the error.
  """
  changes, cuts = CASES[case]
  step = code.load("step")
  txs = {slot: remembering_sgd() for slot in methods}
  plan = code.find("plan", "Plan")(**cuts)
  try:
    train_step = step.make(methods, rollouts.policy(), txs, plan)
  except ValueError as error:
    return {"refused": type(error).__name__}
  state = code.load("training state").init(
    methods, rollouts.params(), txs, jax.random.key(0)
  )
  away = {
    name: rollouts.params(9 + i)
    for i, name in enumerate(sorted(code.parameters_of_state(state)))
  }
  state = code.with_parameters(state, away)
  results: dict[str, Any] = {}
  for index, number in enumerate(STEPS[: 2 if case == "plain" else 1]):
    rollout = rollouts.rollout(index, number, **changes())
    rollout = complete(methods["policy"], rollout)
    # Passes of the step compute these anew, with the step's own parameters.
    sampled_extras = {
      name: value
      for name, value in rollout.extras.arrays.items()
      if name.startswith(("task/", "sampler/", "host/"))
    }
    rollout = rollout.replace(extras=type(rollout.extras)(sampled_extras))
    state, metrics = train_step(state, rollout)
    results[str(index)] = {
      "metrics": renamed(dict(metrics)),
      "params": state.params,
      "gradient": optax.tree.get(
        code.policy_of_state(state).opt_state, "gradient"
      ),
      "slots": {
        name: value
        for name, value in code.parameters_of_state(state).items()
        if name in methods
      },
      "state": state_leaves(
        methods["policy"], code.policy_of_state(state).method_state
      ),
      "learners": {
        slot: state_leaves(methods[slot], one.method_state)
        for slot, one in state.learners.items()
        if slot != "policy"
      },
      "step": state.step,
    }
  return results
