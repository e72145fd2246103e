"""The contract's machinery: one method, its row, its compiled train step."""

import dataclasses
import functools
import importlib
import pkgutil
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from helpers import method_rows, tabular_policy
from rl import learners, methods, scoring, step, training_state
from rl.method_loss import required
from rl.update_plan import Plan

P = 8  # enough for four devices
# Metrics of the step in microbatches on a mesh.
COMPARED = ("loss/total", "optim/grad_norm", "policy/entropy")


@dataclasses.dataclass(frozen=True)
class Row:
  """One method under contract.

  Attributes:
    hyper: what it is built with.
    signal: what vanishes when there is nothing to learn: rollout fields (scores
      of 0, unknown verdicts, components all 0) or keys of its extras.
    breaks: properties that its definition does not have, each with the reason:
      "permutation", "no_signal", "one_sample", ...
  """

  hyper: dict = dataclasses.field(default_factory=dict)
  signal: tuple[str, ...] = ("scores",)
  breaks: dict = dataclasses.field(default_factory=dict)


class Recorded(NamedTuple):
  """State of an optimiser that moves nothing and keeps what it was given."""

  gradient: object


def recorder():
  """Leaves the parameters alone; its state is the gradient."""

  def update(gradient, state, params=None):
    del state, params
    return jax.tree.map(jnp.zeros_like, gradient), Recorded(gradient)

  return optax.GradientTransformation(
    lambda params: Recorded(jax.tree.map(jnp.zeros_like, params)), update
  )


class Case:
  """A method with its compiled step, shared by all its tests."""

  def __init__(self, name, row):
    self.name, self.row = name, row
    self.methods = learners.by_learner(methods.get(name, **row.hyper))
    self.traces = 0
    self.needs = frozenset().union(
      *(required(one) for one in self.methods.values())
    )
    cut_step = self._make_step(Plan(microbatches=2))

    def cut_step_of_few_metrics(state, rollout):
      state, metrics = cut_step(state, rollout)
      return state, {name: metrics[name] for name in COMPARED}

    # XLA compiles only the metrics that are returned.
    self.cut = jax.jit(cut_step_of_few_metrics)
    train_step = self._make_step(Plan())

    def counted_step(state, rollout):
      self.traces += 1
      return train_step(state, rollout)

    self.step = jax.jit(counted_step)

  def _make_step(self, plan):
    txs = {name: recorder() for name in self.methods}
    return step.make(self.methods, tabular_policy.policy, txs, plan)

  def state(self, params=None, parameter_sets=None):
    """The first state; slots stand away from the policy unless given."""
    params = tabular_policy.params(p=P) if params is None else params
    txs = {name: recorder() for name in self.methods}
    state = training_state.init(self.methods, params, txs, jax.random.key(0))
    away = (
      tabular_policy.params(9, p=P)
      if parameter_sets is None
      else parameter_sets
    )
    return state.replace(
      learners={
        name: learner
        if name == learners.POLICY
        else learner.replace(params=away)
        for name, learner in state.learners.items()
      },
      parameter_sets={name: away for name in state.parameter_sets},
    )

  def rollout(self, seed=0, **kwargs):
    """A random rollout, with what the host finds of it."""
    return self.complete(tabular_policy.rollout(seed, p=P, **kwargs))

  def complete(self, rollout, params=None):
    """With the host's part, and the memory of the sampling stage."""
    policy = self.methods[learners.POLICY]
    rollout = rollout.replace(memory=policy.sampler.init())
    host = {need for need in self.needs if need.source == "host"}
    if not host:
      return rollout
    reads = {read for need in host for read in need.probe.reads}
    sources = {"old": tabular_policy.params(p=P) if params is None else params}
    return scoring.compute_on_host(
      host, scoring.passes(tabular_policy.policy, sources, reads, rollout)
    )

  def run(self, rollout, state=None, cut=False):
    """The policy's gradient, the metrics, and the new state."""
    state = self.state() if state is None else state
    new, metrics = (self.cut if cut else self.step)(state, rollout)
    gradient = optax.tree.get(new.policy.opt_state, "gradient")["hidden"]
    return np.asarray(gradient), jax.tree.map(np.asarray, metrics), new


def on_mesh(tree):
  """P over (data, fsdp) of a 2x2x2 mesh of eight devices."""
  mesh = jax.make_mesh(
    (2, 2, 2), ("data", "fsdp", "tensor"), axis_types=(AxisType.Auto,) * 3
  )
  spread = NamedSharding(mesh, PartitionSpec(("data", "fsdp")))
  everywhere = NamedSharding(mesh, PartitionSpec())

  def place(x):
    return jax.device_put(x, spread if jnp.shape(x)[:1] == (P,) else everywhere)

  return jax.tree.map(place, tree)


def packed(rollout):
  """Its texts without padding; the tabular policy has room for all of them."""
  views = {name: text.replace(room=1) for name, text in rollout.views.items()}
  return rollout.replace(tokens=rollout.tokens.replace(room=1), views=views)


def permuted(tree, order):
  """Every leaf `[P, S, ...]` with its samples in another order."""

  def permute(x):
    if jnp.ndim(x) >= 2 and x.shape[:2] == (P, tabular_policy.S):
      x = x[:, order]
      return x[:, :, order] if x.shape[2:] == (tabular_policy.S,) else x
    return x

  return jax.tree.map(permute, tree)


def silenced(rollout, names):
  """Nothing to learn: these fields or extras are 0, verdicts unknown."""

  def nothing(name, arrays):
    value = -1 if name == "correct" else 0
    return jax.tree.map(lambda x: jnp.full_like(x, value), arrays)

  arguments = rollout.extras
  extras = {n: nothing(n, arguments[n]) for n in names if n in arguments}
  rest = [n for n in names if n not in arguments]
  fields = {n: nothing(n, getattr(rollout, n)) for n in rest}
  return rollout.replace(**fields, extras=arguments.update(extras))


def extremes(case):
  """Groups at the edge of what a method is made for."""
  rollout = tabular_policy.rollout(p=P, ragged=False)
  one, none = jnp.ones_like(rollout.correct), jnp.zeros_like(rollout.correct)
  alone = rollout.sample_mask & (jnp.arange(tabular_policy.S) == 0)
  no_mask = jnp.zeros_like(rollout.tokens.mask)
  cases = {
    "all_correct": {"correct": one, "scores": one.astype(jnp.float32)},
    "all_wrong": {"correct": none, "scores": none.astype(jnp.float32)},
    "one_sample": {"sample_mask": alone},
    "no_sample": {"sample_mask": jnp.zeros_like(rollout.sample_mask)},
    "truncated": {"finished": jnp.zeros_like(rollout.finished)},
    "no_token": {
      "tokens": rollout.tokens.replace(mask=no_mask),
      "views": {
        name: view.replace(mask=no_mask) for name, view in rollout.views.items()
      },
    },
  }
  for name, changes in cases.items():
    yield name, case.complete(rollout.replace(**changes))


@functools.cache
def rows():
  """`{name: Row}` of every family's file of rows."""
  rows_of_all = {}
  for info in pkgutil.iter_modules(method_rows.__path__):
    module = importlib.import_module(f"{method_rows.__name__}.{info.name}")
    rows_of_all |= module.ROWS
  return rows_of_all
