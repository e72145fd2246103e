"""Measures whether the quantity of a paper matters in the run of its config.

  python -m experiments.catalogue alive [--grep TEXT] [--bases DIR]

The *quantity* of a paper is the array that its equation adds to the score and
the log-probabilities. It is alive if, in one rollout of the paper's own config,
after one training step from the trained base policy (at the base itself models
that start as its copies still agree with it),

  it varies     two samples of a group with the same verdict differ in it (any
                two samples, if it is the score or the verdict); for a quantity
                of prompts, two prompts differ
  it matters    one training step from the rollout with the quantity permuted
                gives other parameters. Samples are permuted among those of
                equal verdict in a group, steps and tokens within a sample.

A docstring names the quantity beside its `Source`, by the name that the code
gives it: "Quantity: old/entropy." It is

  a field of the rollout                   "scores", "step_scores"
  a component of the score                 "quality", a judge's answer
  an array of `Rollout.extras`             "old/entropy", "task/preferences"
  the result of a transform of the method or of its reward
                                           "token_covariance", "majority"
  a term of the loss, which is left out instead of permuted
                                           "pull_to_proxy"

"Quantity: old/entropy, by prompt." permutes prompts, "by sample" moves the
values of all tokens of a sample, and "by group" compares and moves samples
without regard to their verdicts, for a reward that replaces these. Without the
line it is the scores for a method, its value for a reward, and the reply for a
question to a judge, which the planted judge answers. Tasks, verifiers, metrics
and studies are exempt, since they add no array to a loss, and questions whose
docstring says "Quantity: none". The labels of sources and of step losses are
measured by `alive_labels`.

The results are in `alive.json`, by a hash of the config and of the files of the
method, the reward and the task. A row whose hash is there is not measured
again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import inspect
import json
import pathlib
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from etils import epath

import rewards
from experiments import planted_judge
from experiments.catalogue import alive_labels, papers
from experiments.cli import arguments, devices, errors, spec
from experiments.configs import chain, programs
from experiments.logging import json_files
from experiments.training import build, checkpointing, initial_state, iteration
from experiments.training.experiment import Experiment
from experiments.training_run import command_line, loop, user_code, validate
from rewards.process import label_sources, step_losses
from rl import (
  UsageError,
  learners,
  method_loss,
  methods,
  scoring,
  training_state,
  transforms,
  types,
)
from rl.losses.terms import Loss, Term
from rl.method import Method
from rl.transforms import Transform

RESULTS = pathlib.Path(__file__).with_name("alive.json")
# Quantities of which all samples of a group are compared and permuted.
OUTCOMES = ("scores", "correct")
_KINDS = ("method", "reward", "question")
_RUN = re.compile(
  r"python -m experiments\.run --config (\S+) --workdir \S+(.*)"
)
_LINE = re.compile(
  r"Quantity: (\S+?)(?:, by (prompt|sample|group))?[.,](?=\s|$)"
)
# A permuted quantity must change the update by this share of its length.
_LEAST_CHANGE = 1e-5
_ORDER = "alive/order"  # extra with the permutation of a transform's result


class Quantity(NamedTuple):
  """A quantity, by its name in the code, and what is permuted, if declared."""

  name: str
  by: str = ""  # "prompt", "sample" or "group"


class Result(NamedTuple):
  """The measurement of a quantity.

  Attributes:
    varies: whether it varies among samples of equal verdict.
    change: length of the difference of the two updates, divided by that of the
      update.
  """

  varies: bool
  change: float

  @property
  def is_alive(self) -> bool:
    return self.varies and self.change > _LEAST_CHANGE


def quantity_of(docstring: str | None, default: str) -> Quantity:
  """Returns the quantity that a docstring names, or else the default."""
  line = _LINE.search(" ".join((docstring or "").split()))
  return Quantity(line[1], line[2] or "") if line else Quantity(default)


def measure(
  config: ml_collections.ConfigDict, quantity: Quantity, bases: epath.Path
) -> Result:
  """Measures a quantity in one training step of a config.

  Args:
    config: config of an RL run.
    quantity: the quantity of its paper.
    bases: folder of the trained base policies, one for each supervised config,
      and of fitted models; a missing one is trained.

  Raises:
    UsageError: the config is not valid, or the run has no such quantity.
  """
  config = config.copy_and_resolve_references()
  config.steps_per_dispatch = 1
  if config.models:  # a config of `configs/fitted_reward.py`
    base = _train_base(chain.base(), bases)
    config.init_from = config.init_from and base
    for seed, model in enumerate(config.models.values()):
      model.workdir = alive_labels.fit_model(base, bases, seed)
  if initial_state.has_base(config):
    config.init_from = _train_base(initial_state.base_config(config), bases)
    config.base = ml_collections.ConfigDict()
  e = validate.check_and_build(config)
  with tempfile.TemporaryDirectory() as folder:
    workdir = epath.Path(folder)
    with checkpointing.Checkpoints(workdir / "checkpoints", keep=1) as empty:
      state = initial_state.restore_or_initialise(e, workdir, empty)
  sample = iteration.compile_rollout_fn(e)
  update = jax.jit(iteration.make_update(e))
  start = _flatten(state)
  state, _ = update(state, learners.by_learner(sample(state)))
  if (_flatten(state) == start).all():  # in its first steps nothing is trained
    state = state.replace(step=state.step + config.steps // 2)
    state, _ = update(state, learners.by_learner(sample(state)))
  rollouts = learners.by_learner(sample(state))
  policy_rollout = rollouts[learners.POLICY]
  trial = _find_in_rollout(
    e, state, policy_rollout, quantity
  ) or _find_in_method(e, policy_rollout, quantity)
  if trial is None:
    raise UsageError(
      f"{e.method.name}: the run has no quantity {quantity.name!r}; it must be "
      "a field of the rollout, a component of the score, an extra, a transform "
      "or a term of the loss"
    )
  values, changed_e, *pair = trial
  if changed_e is not e:
    update = jax.jit(iteration.make_update(changed_e))
  reference, changed = (
    _flatten(update(state, {**rollouts, learners.POLICY: rollout})[0])
    for rollout in pair
  )
  jax.effects_barrier()
  length = np.linalg.norm(reference - _flatten(state))
  change = (
    float(np.linalg.norm(changed - reference) / length) if length else 0.0
  )
  return Result(_varies(*values[0], quantity), change)


def _train_base(base: ml_collections.ConfigDict, bases: epath.Path) -> str:
  """Returns the workdir of a base policy; trains a missing one."""
  folder = bases / initial_state.base_name(base)
  if not (folder / "complete").exists():
    loop.run(build.build(base), folder)
    (folder / "complete").touch()
  return str(folder)


def _flatten(state: training_state.State) -> np.ndarray:
  """Returns the parameters of all learners as one vector."""
  params = {name: learner.params for name, learner in state.learners.items()}
  leaves = jax.tree.leaves(params)
  return np.concatenate([np.ravel(np.asarray(x, np.float64)) for x in leaves])


# ------------------------------------------------------------------------------
# Where a quantity is
# ------------------------------------------------------------------------------


# The quantity and its rollout, in a list that the first step may fill; the
# experiment of both steps; the rollout of the first step, and of the second.
_Trial = tuple[list, Experiment, types.Rollout, types.Rollout]


def _find_in_rollout(
  e: Experiment,
  state: training_state.State,
  rollout: types.Rollout,
  quantity: Quantity,
) -> _Trial | None:
  """Permutes an array of the rollout, which a pass may have to compute."""
  needs = method_loss.required(e.method, e.plan.updates)
  rollout = scoring.passes(
    e.policy.with_frozen(state.carried.frozen),
    {**state.parameters, "old": state.params},
    [need for need in needs if str(need).startswith(quantity.name)],
    rollout,
    e.plan.temperature,
    e.plan.chunk,
    e.plan.microbatches,
  )

  def permute(values: jax.Array) -> jax.Array:
    level = "token" if values.shape == rollout.mask.shape else "sample"
    level = "step" if quantity.name == "step_scores" else level
    return _permute(values, _order(rollout, level, quantity))

  name = quantity.name
  extras = [n for n in rollout.extras.arrays if n.startswith(name)]
  if name in rollout.components:
    values = rollout.components[name]
    components = {**rollout.components, name: permute(values)}
    changed = rollout.replace(components=components)
  elif extras:
    values = rollout.extras[extras[0]]
    permuted = rollout.extras.update({extras[0]: permute(values)})
    changed = rollout.replace(extras=permuted)
  elif name in vars(rollout):
    values = getattr(rollout, name)
    changed = rollout.replace(**{name: permute(values)})
  else:
    return None
  return [(values, rollout)], e, rollout, changed


def _find_in_method(
  e: Experiment, rollout: types.Rollout, quantity: Quantity
) -> _Trial | None:
  """Permutes the result of a transform, or leaves out a term of the loss.

  Both are done in the order of an extra, so that one program makes both steps.
  """
  values: list[tuple[np.ndarray, types.Rollout]] = []
  levels: list[str] = []

  def record(value: jax.Array, rollout: types.Rollout) -> None:
    # Also the rollout: a term sees a minibatch of it.
    jax.debug.callback(lambda *x: values.append(x), value, rollout)

  def is_quantity(part: Transform | Term, name: str = "") -> bool:
    return quantity.name in (name, part.name.partition("(")[0])

  def permute_result(transform: Transform, name: str = "") -> Transform:
    if not is_quantity(transform, name):
      return transform
    levels.append(transform.gives)

    def apply(signal, rollout, state):
      value, state = transform.apply(signal, rollout, state)
      record(value, rollout)
      return _permute(value, rollout.extras[_ORDER]), state

    return dataclasses.replace(transform, apply=apply, links=())

  def leave_out(term: Term) -> Term:
    if not is_quantity(term):
      return term
    levels.append("sample")

    def fn(signal, policy, rollout):
      result = term.fn(signal, policy, rollout)
      value, metrics = result if isinstance(result, tuple) else (result, {})
      record(value, rollout)
      order = rollout.extras[_ORDER]
      is_reference = (order == jnp.arange(order.shape[-1])).all()
      return jnp.where(is_reference, value, 0.0), metrics

    return dataclasses.replace(term, fn=fn)

  methods = {
    name: _rewrite(method, permute_result, leave_out)
    for name, method in e.methods.items()
  }
  if not levels:
    return None
  order = _order(rollout, levels[0], quantity)
  reference = np.zeros_like(order) + np.arange(order.shape[-1], dtype=np.int32)
  rollouts = [
    rollout.replace(extras=rollout.extras.update({_ORDER: jnp.asarray(x)}))
    for x in (reference, order)
  ]
  return values, dataclasses.replace(e, methods=methods), *rollouts


def _rewrite(
  method: Method,
  wrap: Callable[..., Transform],
  wrap_term: Callable[[Term], Term],
) -> Method:
  """Returns a method whose transforms, also those in others, are wrapped."""

  def rewrite(transform: Any, name: str = "") -> Any:
    if not isinstance(transform, Transform):
      return transform  # None, or the weight of a term
    if not transform.links:
      return wrap(transform, name)
    symbols = [symbol for symbol, _ in transform.links]
    links = [rewrite(link) for _, link in transform.links]
    if symbols[0] == "":
      return transforms.chain(*links)
    return links[0] + links[1] if symbols[1] == "+" else links[0] & links[1]

  def rewrite_fields(record: Any, *names: str, **changes: Any) -> Any:
    fields = {name: rewrite(getattr(record, name)) for name in names}
    return dataclasses.replace(record, **fields, **changes)

  def rewrite_pairs(pairs: Sequence[tuple[str, Transform]]) -> tuple:
    return tuple((name, rewrite(transform, name)) for name, transform in pairs)

  reward = method.reward
  if reward is not None:
    parts = rewrite_pairs(reward.parts)
    reward = rewrite_fields(reward, "steps", parts=parts)
  terms = (
    rewrite_fields(wrap_term(term), "signal", "loss_filter", "weight")
    for term in method.loss.terms
  )
  return rewrite_fields(
    method,
    *("advantage", "sample_filter", "loss_filter"),
    reward=reward,
    loss=Loss(tuple(terms)),
    prepared=rewrite_pairs(method.prepared),
  )


# ------------------------------------------------------------------------------
# Permutations
# ------------------------------------------------------------------------------


def _order(
  rollout: types.Rollout, level: str, quantity: Quantity
) -> np.ndarray:
  """Returns the indices of a cyclic shift, `[P]`, `[P, S]` or `[P, S, K]`.

  Samples move among those of equal verdict in a group, or among all if the
  quantity is an outcome; steps and tokens move within a sample.
  """
  mask = np.asarray(rollout.sample_mask)
  if quantity.by == "prompt":
    return np.roll(np.arange(len(mask), dtype=np.int32), 1)
  if level in ("step", "token") and quantity.by != "sample":
    classes = np.where(np.asarray(rollout.valid(level)), 0, -1)
  else:
    classes = np.where(mask, _classes(rollout, quantity), -2)
  order = np.empty(classes.shape, np.int32)
  for index in np.ndindex(classes.shape[:-1]):
    for value in np.unique(classes[index]):
      (members,) = np.nonzero(classes[index] == value)
      order[index][members] = np.roll(members, 1) if value >= -1 else members
  return order


def _classes(rollout: types.Rollout, quantity: Quantity) -> np.ndarray:
  """Returns `[P, S]`, equal numbers for samples that are compared."""
  correct = np.asarray(rollout.correct)
  is_outcome = quantity.by == "group" or quantity.name in OUTCOMES
  return np.zeros_like(correct) if is_outcome else correct


def _permute(values: jax.Array, order: jax.Array) -> jax.Array:
  """Moves prompts, samples, or the steps or tokens of a sample."""
  axis = order.ndim - 1
  order = order.reshape(order.shape + (1,) * (values.ndim - order.ndim))
  return jnp.take_along_axis(values, order, axis)


def _varies(
  values: jax.Array, rollout: types.Rollout, quantity: Quantity
) -> bool:
  """Returns whether two samples that are compared differ in the quantity."""
  values = np.nan_to_num(np.asarray(values, np.float64))
  if quantity.by == "prompt":
    return bool((values != values[:1]).any())
  if values.shape == rollout.mask.shape:
    values = np.where(rollout.mask, values, 0.0)
  mask, classes = np.asarray(rollout.sample_mask), _classes(rollout, quantity)
  for group, in_group, verdicts in zip(values, mask, classes, strict=True):
    for verdict in np.unique(verdicts[in_group]):
      members = group[in_group & (verdicts == verdict)]
      if (members != members[:1]).any():
        return True
  return False


# ------------------------------------------------------------------------------
# The rows of the catalogue
# ------------------------------------------------------------------------------


def _quantity(
  kind: str, name: str, config: ml_collections.ConfigDict
) -> Quantity:
  """Returns the quantity of a row."""
  if kind == "question":
    module = importlib.import_module(f"rewards.judged.{name}")
    for component, call in config.judge.questions.items():
      if spec.parse(call)[0] == name:
        scores_steps = component in ("steps", "labels")
        default = "step_scores" if scores_steps else component
        return quantity_of(inspect.getdoc(getattr(module, name)), default)
    raise UsageError(f"the config asks the judge no question {name!r}")
  make = (methods if kind == "method" else rewards).factory(name)
  texts = [inspect.getdoc(x) or "" for x in (make, inspect.getmodule(make))]
  text = next(filter(_LINE.search, texts), "")
  quantity = quantity_of(text, "scores" if kind == "method" else name)
  if quantity.name == "step_scores" and config and config.step_reward:
    paid, _ = spec.parse(config.step_reward)  # in place of the task's
    quantity = quantity._replace(name=paid)
  return quantity


def _measurement(
  row: Mapping[str, str], bases: epath.Path
) -> tuple[dict[str, str], Callable[[], Result]] | None:
  """Returns a row's quantity and key, and a function; None for exempt rows."""
  kind, name = row["kind"], row["name"]
  if kind in ("label source", "step loss"):
    package = label_sources if kind == "label source" else step_losses
    module = importlib.import_module(f"{package.__name__}.{name}")
    argument = {"source" if kind == "label source" else "loss": name}
    described = {
      "quantity": "labels",
      "key": _digest(inspect.getsource(module), str(argument)),
    }
    # `mutation` changes the steps of right samples, which are programs here.
    base = programs.base() if name == "mutation" else chain.base()
    return described, lambda: Result(
      *alive_labels.measure(_train_base(base, bases), **argument)
    )
  command = _RUN.match(row["command"])
  if not command or kind not in _KINDS:
    return None
  words = ["alive", f"--config={command[1]}", *shlex.split(command[2])]
  config = command_line.parse(words, lambda values: None, ()).config
  quantity = _quantity(kind, name, config)
  if quantity.name == "none":
    return None
  files = sorted(user_code.source_files(config))
  texts = [pathlib.Path(file).read_text() for file in files]
  key = _digest(config.to_json(sort_keys=True), str(quantity), *texts)

  def measure_config() -> Result:
    with _with_planted_judge(config):
      return measure(config, quantity, bases)

  return {"quantity": quantity.name, "key": key}, measure_config


def _digest(*texts: str) -> str:
  """Returns the hash of what a result depends on."""
  return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def run(text: str, bases: epath.Path) -> Iterator[dict[str, Any]]:
  """Measures the rows that contain a text, and writes `alive.json`.

  Args:
    text: part of a row, in lower case.
    bases: folder of the trained base policies.

  Yields:
    The record of each row.
  """
  rows = {f"{r['kind']} {r['name']} | {r['paper']}": r for r in papers.rows()}
  records = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
  records = {label: r for label, r in records.items() if label in rows}
  for label, row in rows.items():
    if text not in " | ".join(row.values()).lower():
      continue
    record: dict[str, Any] = {}
    try:
      measurement = _measurement(row, bases)
      if measurement is None:
        records.pop(label, None)
        continue
      record, measure_row = measurement
      measured = {r["key"]: r for r in records.values() if "change" in r}
      if record["key"] in measured:
        record = measured[record["key"]]
      else:
        result = measure_row()
        record |= {
          "alive": result.is_alive,
          "varies": result.varies,
          "change": float(f"{result.change:.2g}"),
        }
    except UsageError as error:
      record |= {"alive": False, "refused": str(error)}
    records[label] = record
    content = json.dumps(records, indent=1, sort_keys=True) + "\n"
    json_files.replace(epath.Path(RESULTS), content)
    yield {"row": label, **record}


@contextlib.contextmanager
def _with_planted_judge(config: ml_collections.ConfigDict) -> Iterator[None]:
  """Serves the planted judge for a config that asks a judge on a server."""
  settings = config.get("judge") or {}
  if not settings or settings.policy:
    yield
    return
  faults = planted_judge.Faults(words=18)  # as `configs/judged.py` says
  with tempfile.TemporaryDirectory() as folder:
    settings.cache = f"{folder}/replies.sqlite"
    with planted_judge.serving(faults) as settings.url:
      yield


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns 0, or 1 if a quantity is not alive."""
  parser = arguments.make_parser("catalogue alive", __doc__)
  text = "measure only rows that contain this text, in upper or lower case"
  parser.add_argument("--grep", default="", metavar="TEXT", help=text)
  arguments.add(
    parser, "--bases", "~/.cache/extremum/bases", "folder of base policies"
  )
  options = parser.parse_args(argv)
  devices.configure(1)
  bases = epath.Path(options.bases).expanduser()
  num_dead = 0
  for record in run(options.grep.lower(), bases):
    num_dead += not record["alive"]
    verdict = "alive" if record["alive"] else "DEAD"
    details = record.get("refused") or (
      f"{record['quantity']} varies: {record['varies']}; permuted, it changes "
      f"the update by {record['change']:g}"
    )
    print(f"{verdict}: {record['row']}: {details}")
  print(f"{num_dead} not alive; wrote {RESULTS.name}")
  return 1 if num_dead else 0
