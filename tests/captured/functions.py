"""Records every function of arrays in `rewards`, and the estimators of `rl`.

An example is a call with arrays made to order, `[rows, n]` unless it says
otherwise. Examples are keyed by `module.function`; a module that moved to
another folder is found all the same, and so is a function that moved to another
module while no other function has its name (`code.function`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from captured import code, rollouts

Array = jax.Array
ROWS, N = 16, 12


class Call(NamedTuple):
  """Arguments, arrays and settings alike."""

  args: tuple[Any, ...]
  settings: dict[str, Any]


def call(*args: Any, **settings: Any) -> Call:
  """The arguments as one would write them."""
  return Call(args, settings)


class Inputs:
  """Makes arrays, the same ones for the same size.

  Attributes:
    rows: how often the reward is found at once.
    n: the length of what it reads.
  """

  def __init__(self, rows: int, n: int) -> None:
    self.rows, self.n = rows, n
    self._random = np.random.default_rng(0)

  def _shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape or (self.rows, self.n)

  def normal(self, *shape: int) -> Array:
    """Scores of any sign."""
    sampled = self._random.standard_normal(self._shape(shape), np.float32)
    return jnp.asarray(sampled)

  def unit(self, *shape: int) -> Array:
    """Chances above 0 and below 1; every second one has a single decimal.

    So some of them equal a threshold, where < and <= differ.
    """
    sampled = self._random.random(self._shape(shape), np.float32)
    sampled = 0.01 + 0.98 * sampled
    rounded = np.clip(np.round(sampled, 1), 0.1, 0.9)
    is_even = np.arange(sampled.size).reshape(sampled.shape) % 2 == 0
    return jnp.asarray(np.where(is_even, rounded, sampled), jnp.float32)

  def logs(self, *shape: int) -> Array:
    """Log-probabilities."""
    return jnp.log(self.unit(*shape))

  def bits(self, *shape: int) -> Array:
    """Bools, as often True as False."""
    return self.unit(*shape) > 0.5

  def verdicts(self, *shape: int) -> Array:
    """1 right, 0 wrong."""
    return self.bits(*shape).astype(jnp.int8)

  def first(self, *shape: int) -> Array:
    """A mask: the first of each row, from half of them to all."""
    *rows, n = self._shape(shape)
    return jnp.arange(n) < self.lengths(*rows, upto=n)[..., None]

  def lengths(self, *shape: int, upto: int | None = None) -> Array:
    """Returns the number of valid entries in each row, from half to all."""
    n = self.n if upto is None else upto
    sampled = self._random.integers(n // 2, n + 1, shape or (self.rows,))
    return jnp.asarray(sampled, jnp.int32)

  def ids(self, *shape: int, upto: int = 100) -> Array:
    """Tokens, answers, documents: from 0 to `upto`, that one left out."""
    sampled = self._random.integers(0, upto, self._shape(shape))
    return jnp.asarray(sampled, jnp.int32)

  def orders(self) -> Array:
    """Rankings of n documents."""
    sampled = np.tile(np.arange(self.n, dtype=np.int32), (self.rows, 1))
    return jnp.asarray(self._random.permuted(sampled, axis=-1))

  def steps(self, *, length: int = 16) -> Array:
    """The step of each token, of equal length, -1 after the last."""
    steps = jnp.arange(self.n) // length
    return jnp.where(self.first(), steps, -1).astype(jnp.int32)


def _chain_steps(x: Inputs) -> Any:
  facts = (x.bits() for _ in range(6))
  return code.function("chain.Steps")(
    x.steps(), *facts, x.ids(x.rows, upto=10), x.bits(x.rows)
  )


def _met(x: Inputs) -> Any:
  return code.function("staged.Met")(x.unit(), x.verdicts().astype(jnp.float32))


def _moments(x: Inputs) -> Any:
  start = code.function("shaping.init_moments")()
  return code.function("shaping.observe")(start, x.normal(8, 8))


def _term(name: str, weight: float = 1.0, gates: Any = ()) -> Any:
  Part = code.function("combine.Term")
  if "threshold" not in Part._fields:  # then each gate has its own
    gates = tuple((gate, 0.5) for gate in gates)
  return Part(name, weight, gates)


def _members(x: Inputs) -> Array:
  return x.normal(4, x.rows // 4, x.n)


def _terms(x: Inputs) -> Call:
  return call(
    _members(x), jnp.array([1.0, 0.5, 0.2, 0.1]), x.first(x.rows // 4, x.n)
  )


def _reading(x: Inputs) -> Any:
  shape = x.rows, 1, x.n
  return code.function("model.Reading")(
    x.normal(x.rows, 1, x.n + 1, 16), x.logs(*shape)
  )


def _references(x: Inputs) -> Call:
  return call(x.normal(x.rows), x.normal(), x.first())


def _reference_answer(x: Inputs) -> Call:
  return call(x.logs(), x.first())


def _bags(x: Inputs) -> Call:
  return call(x.ids(), x.first(), x.ids(), x.first())


EXAMPLES: Mapping[str, Callable[[Inputs], Call]] = {
  "calibration.brier": lambda x: call(x.unit(), x.verdicts(), x.bits()),
  "chain.apply": lambda x: call(x.ids(upto=10), x.ids(upto=3), x.ids(upto=10)),
  "chain.result": lambda x: call(
    x.ids(x.rows, upto=10),
    x.ids(x.rows, 8, upto=3),
    x.ids(x.rows, 8, upto=10),
  ),
  "chain.read": lambda x: call(
    x.ids(upto=17),
    x.lengths(),
    x.ids(x.rows, upto=10),
    x.ids(x.rows, 8, upto=3),
    x.ids(x.rows, 8, upto=10),
  ),
  "chain.clean": lambda x: call(_chain_steps(x)),
  "chain.filler": lambda x: call(_chain_steps(x)),
  "chain.local": lambda x: call(_chain_steps(x)),
  "chain.step_scores": lambda x: call(
    _chain_steps(x), code.function("chain.clean")
  ),
  "closeness.closeness": lambda x: call(x.ids(), x.bits(), x.ids()),
  "combine.weighted_sum": _terms,
  "combine.weighted_z_scores": _terms,
  "combine.weighted_product": _terms,
  "combine.weighted_geometric_mean": _terms,
  "combine.worst": _terms,
  "combine.combine": lambda x: call(
    {"right": x.unit(), "short": x.unit(), "style": x.normal()},
    (
      _term("right"),
      _term("short", 0.2, gates=("right",)),
      _term("style", 0.1, gates=("right",)),
    ),
    valid=x.first(),
  ),
  "confidence.negative_entropy": lambda x: call(x.unit(), x.first()),
  "confidence.divergence_from_uniform": lambda x: call(x.normal()),
  "confidence.self_certainty": lambda x: call(x.unit(), x.first()),
  "confidence.borda_votes": lambda x: call(x.unit(), x.ids(), valid=x.first()),
  "confidence.answer_confidence": lambda x: call(x.logs(), x.first()),
  "confidence.confidence_gaps": lambda x: call(x.unit(), x.verdicts()),
  "confidence.clipped_confidence": lambda x: call(
    x.verdicts(x.rows), x.logs(), x.first()
  ),
  "confidence.first_position": lambda x: call(
    x.ids(upto=2 * x.n), x.first(), token=7
  ),
  "confidence.phase_entropy": lambda x: call(
    x.verdicts(x.rows), x.unit(), x.first(), x.lengths() // 2
  ),
  "consistency.answer_consistency": lambda x: call(
    x.ids(upto=4), x.ids(upto=4), x.verdicts(), x.bits()
  ),
  "consistency.restored": lambda x: call(x.ids(x.rows, upto=x.n), x.orders()),
  "controls.flipped_groups": lambda x: call(
    x.verdicts(), jax.random.split(jax.random.key(0), x.rows), 0.2
  ),
  "controls.opposite": lambda x: call(x.unit(), x.first()),
  "controls.wrong_vote": lambda x: call(x.ids(), x.verdicts(), x.first()),
  "countdown.left_to_right": lambda x: call(
    x.ids(x.rows * x.n // 4, 4, upto=10), x.ids(x.rows * x.n // 4, 3, upto=3)
  ),
  "countdown.expression_value": lambda x: call(
    x.ids(upto=25), x.lengths(), x.ids(x.rows, 4, upto=10)
  ),
  "countdown.exact_hit": lambda x: call(x.ids(), x.bits(), x.ids()),
  "dimensions.dimension_level": lambda x: call(
    x.normal(), x.unit(x.rows, x.n, 3), x.normal(), valid=x.first()
  ),
  "disentangled.correlation": lambda x: call(x.normal(), x.normal(), x.first()),
  "disentangled.loss": lambda x: call(
    x.normal(x.rows * x.n // 2, 2),
    x.normal(x.rows * x.n // 2, 2),
    x.normal(x.rows * x.n // 2, 2),
    x.normal(x.n),
    x.normal(x.n),
    x.bits(x.rows * x.n // 2),
  ),
  "ensembles.center_members": lambda x: call(
    _members(x), x.first(x.rows // 4, x.n)
  ),
  "ensembles.mean": lambda x: call(_members(x)),
  "ensembles.median": lambda x: call(_members(x)),
  "ensembles.worst": lambda x: call(_members(x)),
  "ensembles.less_spread": lambda x: call(_members(x)),
  "ensembles.less_variance": lambda x: call(_members(x)),
  "flaws.flaw_aware": lambda x: call(x.verdicts(), x.unit()),
  "gates.gated_accumulation": lambda x: call(
    x.normal(x.rows // 4, 4, x.n),
    x.unit(x.rows // 4, 4),
    x.unit(4),
    x.first(x.rows // 4, x.n),
  ),
  "gates.posterior": lambda x: call(x.verdicts(), x.unit(), x.unit()),
  "gates.concise": lambda x: call(x.verdicts(), x.unit()),
  "hybrid.stratified": lambda x: call(
    x.verdicts(), x.normal(), valid=x.first()
  ),
  "hybrid.trust": lambda x: call(x.unit(), x.unit(), x.first()),
  "hybrid.trusted": lambda x: call(x.unit(), x.unit(), 10, valid=x.first()),
  "inputs.present": lambda x: call(x.normal(), x.first()),
  "inputs.is_right": lambda x: call(x.verdicts()),
  "labelfree.answer_shares": lambda x: call(x.ids(), x.first()),
  "labelfree.vote": lambda x: call(x.ids(), x.first()),
  "labelfree.agreement": lambda x: call(x.ids(), x.ids(x.rows), x.first()),
  "labelfree.majority": lambda x: call(x.ids(), 0.1, x.first()),
  "labelfree.co_reward": lambda x: call(x.ids(), x.ids(), x.first(), x.first()),
  "labelfree.answer_entropy": lambda x: call(x.ids(), x.first()),
  "labelfree.cluster_share": lambda x: call(x.ids(), x.first()),
  "length.relative_length": lambda x: call(
    x.verdicts(), x.ids(upto=1000), valid=x.first()
  ),
  "length.easiest": lambda x: call(
    x.verdicts(8, x.rows // 8, x.n), valid=x.first(8, x.rows // 8, x.n)
  ),
  "length.token_price": lambda x: call(
    x.verdicts(), x.ids(upto=1000), 1e-3, x.first()
  ),
  "length.harmonized_length": lambda x: call(x.ids(upto=1000), x.first()),
  "likelihood.probability": _reference_answer,
  "likelihood.mean_probability": _reference_answer,
  "likelihood.log_probability": _reference_answer,
  "likelihood.mean_log_probability": _reference_answer,
  "likelihood.group_log_mean_advantages": lambda x: call(
    x.logs(x.rows, x.n, 8), x.first(x.rows, x.n, 8)
  ),
  "likelihood.debiased_probability": _reference_answer,
  "novelty.discounted": lambda x: call(x.normal(), x.bits()),
  "overlap.token_f1": _bags,
  "overlap.distinct_ngrams": lambda x: call(x.ids(), x.lengths()),
  "patterns.calibrated": lambda x: call(x.unit(), x.unit()),
  "patterns.instead_of_nothing": lambda x: call(x.verdicts(), x.unit()),
  "patterns.occurrences": lambda x: call(x.ids(), x.lengths(), x.ids(1, 2, 3)),
  "patterns.reasoning_patterns": lambda x: call(
    x.ids(), x.lengths(), x.ids(4, 2, 3), x.ids(1, 2, 3)
  ),
  "patterns.says": lambda x: call(x.ids(), x.lengths(), x.ids(1, 2, 3)),
  "principles.log_odds": lambda x: call(x.normal(), 3, 7),
  "principles.mean_log_odds": lambda x: call(
    x.normal(x.rows // 4, 4, x.n), 3, 7, x.bits(x.rows // 4, 4)
  ),
  "labels.from_first_error": lambda x: call(x.lengths() // 2, x.first()),
  "losses.soft_label_bce": lambda x: call(x.normal(), x.unit(), x.unit()),
  "losses.two_class_cross_entropy": lambda x: call(
    x.normal(x.rows // 2, x.n, 2),
    x.unit(x.rows // 2, x.n),
    x.unit(x.rows // 2, x.n),
  ),
  "losses.language_loss": lambda x: call(x.logs(), x.first()),
  "metrics.first_error": lambda x: call(x.normal() + 5.0, x.first()),
  "metrics.first_error_f1": lambda x: call(
    x.ids(upto=3) - 1, x.ids(upto=3) - 1, x.first()
  ),
  "metrics.best_threshold": lambda x: call(
    x.normal(4, x.rows // 4, x.n),
    x.first(4, x.rows // 4, x.n),
    x.ids(4, x.rows // 4),
    candidates=11,
  ),
  "metrics.first_error_interval": lambda x: call(
    x.ids(x.n, 8, upto=3) - 1,
    x.ids(x.n, 8, upto=3) - 1,
    jax.random.key(0),
    resamples=x.n,
  ),
  "metrics.worst_step": lambda x: call(x.normal(), x.first()),
  "metrics.mean_step": lambda x: call(x.normal(), x.first()),
  "metrics.last_step": lambda x: call(x.normal(), x.first()),
  "metrics.best_of_n_value": lambda x: call(
    x.normal(), x.verdicts(), 4, x.first()
  ),
  "model.step_ends": lambda x: call(x.steps(length=1), x.n),
  "model.step_features": lambda x: call(
    _reading(x), x.steps(length=1)[:, None], x.n
  ),
  "segmentation.segment_steps": lambda x: call(x.ids(), x.lengths(), (7, 8)),
  "segmentation.step_mask": lambda x: call(x.steps(length=1), x.n),
  "soft_values.log_mean_exp": lambda x: call(x.unit(), 2.0),
  "progress.gains": lambda x: call(x.unit(), x.unit(x.rows), x.first()),
  "progress.best_of": lambda x: call(x.unit(), 4),
  "progress.significant_gains": lambda x: call(0.2 * x.normal(), x.first()),
  "self_aligned.alignment": lambda x: call(x.logs(), x.logs(), x.first()),
  "self_aligned.self_aligned": lambda x: call(
    x.verdicts(x.rows), x.logs(), x.logs(), x.first()
  ),
  "shaping.against": lambda x: call(
    jax.nn.sigmoid, x.normal(x.rows), x.normal(), x.first()
  ),
  "shaping.preference": _references,
  "shaping.late_preference": _references,
  "shaping.centered": _references,
  "shaping.tanh": _references,
  "shaping.arctan": _references,
  "shaping.polynomial": _references,
  "shaping.length_charge": lambda x: call(x.ids(upto=1000)),
  "shaping.reference_quantile": lambda x: call(x.normal(), x.first()),
  "shaping.log_sigmoid": lambda x: call(x.normal(), x.normal(x.rows, 1)),
  "shaping.observe": lambda x: call(_moments(x), x.normal(), x.first()),
  "shaping.standardized": lambda x: call(x.normal(), _moments(x)),
  "shaping.clipped": lambda x: call(x.normal(), _moments(x)),
  "shaping.min_max": lambda x: call(x.normal(), _moments(x)),
  "shaping.ceiling": lambda x: call(x.normal(), 0.5),
  "similarity.cosine": lambda x: call(x.normal(), x.normal()),
  "similarity.open_relevance": lambda x: call(
    x.normal(x.rows), x.lengths(), x.ids(), x.lengths()
  ),
  "similarity.closed_relevance": lambda x: call(
    x.normal(x.rows), x.ids(), x.lengths()
  ),
  "spread.group_variance": lambda x: call(x.unit(), x.first()),
  "spread.stretched": lambda x: call(x.unit(), x.first()),
  "spread.stretched_with_progress": lambda x: call(x.unit(), 0.5, x.first()),
  "staged.met": lambda x: call(x.bits(), x.first()),
  "staged.dense": lambda x: call(x.bits(), _met(x), _met(x)),
  "staged.by_kind": lambda x: call(x.bits(), _met(x), _met(x)),
  "staged.sparse": lambda x: call(x.bits(), _met(x), _met(x)),
  "step_count.geometric_mean": lambda x: call(x.unit(), x.first()),
  "step_count.nonlinear_shape": lambda x: call(x.unit(), x.ids(upto=10)),
  "step_count.nonlinear": lambda x: call(x.unit(), x.first()),
  "step_count.weibull_shape": lambda x: call(x.ids(upto=10)),
  "step_count.weibull": lambda x: call(x.unit(), x.first()),
  "turns.information_gain": lambda x: call(x.unit(), x.first(), x.unit(x.rows)),
  "turns.normalize_in_group": lambda x: call(
    x.normal(x.rows // 8, 8, x.n), x.first(x.rows // 8, 8, x.n)
  ),
  "turns.outcome_centered": lambda x: call(
    x.unit(), x.first(), x.verdicts(x.rows)
  ),
  "turns.attribution_loss": lambda x: call(
    x.normal(), x.first(), x.unit(x.rows)
  ),
  "turns.attributed": lambda x: call(x.normal(), x.bits(), x.first()),
  "combine.weights_at": lambda x: call(
    (_term("a", 0.5), _term("b", lambda step: step / 10.0)), 3
  ),
  "controls.coins": lambda x: call(
    jax.random.split(jax.random.key(0), x.rows), 6
  ),
  "length.next_price": lambda x: call(0.01, 0.6, 0.5),
  "novelty.errors": lambda x: call(_novelty(), x.normal(x.rows, 5)),
  "novelty.next_bonus": lambda x: call(
    _novelty(), x.normal(4, 3, x.n, 5), x.first(4, 3, x.n), jax.random.key(1)
  ),
  "patterns.spelled": lambda x: call((((4,),), ((5,), (6, 7)))),
  "continuations.prefix_prompts": lambda x: call(
    rollouts.rollout().tokens, jnp.array([0, 7, 9]), jnp.array([0, 2, 3])
  ),
}


def _novelty() -> Any:
  return code.function("novelty.init")(jax.random.key(0), 5, 8, 4)


# Estimators of `rl`, called with each of their forms.


def _objectives(name: str, x: Inputs) -> dict[str, Any]:
  """An estimator of `rl.best_of_k` on ragged groups, by its settings."""
  fn = getattr(code.load("objectives"), name)
  scores, valid, ratios = x.unit(), x.first(), 0.3 * x.normal()
  scores = jnp.round(scores, 1)  # some are equal
  right = scores > 0.6
  k = 3
  calls = {
    "max_at_k_value": [(scores, k), (scores, k, valid), (scores, 1, valid)],
    "max_at_k_weights": [
      (scores, k, valid, baseline)
      for baseline in (
        "none",
        "leave_one_out",
        "leave_one_out_minus_one",
        "centered",
      )
    ],
    "max_at_k_off_policy_value": [
      (scores, ratios, k),
      (scores, ratios, k, valid),
    ],
    "max_at_k_off_policy_weights": [
      (scores, ratios, k, valid, order)
      for order in ("exact", "first", "zeroth")
    ],
    "max_at_k_off_policy_advantages": [
      (scores, ratios, k, valid, order)
      for order in ("exact", "first", "zeroth")
    ],
    "pass_at_k_value": [(right, k), (right, k, valid)],
    "pass_at_k_advantages": [
      (scores, k, valid),
      (scores, k, valid, "full"),
      (scores, k, valid, "bootstrap", jax.random.key(2)),
    ],
  }[name]
  return {str(i): fn(*args) for i, args in enumerate(calls)}


OBJECTIVES = (
  "max_at_k_value",
  "max_at_k_weights",
  "max_at_k_off_policy_value",
  "max_at_k_off_policy_weights",
  "max_at_k_off_policy_advantages",
  "pass_at_k_value",
  "pass_at_k_advantages",
)


def _others(x: Inputs) -> dict[str, Callable[[], Any]]:
  """Array functions of `rl` besides its objectives."""
  credit, advantages = code.load("credit"), code.load("advantages")
  masked, metrics = code.load("masked"), code.load("metrics")
  steps, mask, values = x.normal(), x.bits(), x.normal()
  scores, valid, right = x.normal(), x.first(), x.bits()
  segments = x.steps(length=5)
  axes = ((-1,), (0, 1))
  return {
    "min_form_rewards": lambda: [
      credit.min_form_rewards(steps, mask),
      credit.min_form_rewards(steps, mask, 1.0),
      credit.min_form_rewards(steps, mask, 0.01),
    ],
    "returns_to_go": lambda: [
      credit.returns_to_go(steps, mask),
      credit.returns_to_go(steps, mask, 0.9),
      credit.returns_to_go(steps, mask, 1.0, "min"),
    ],
    "gae": lambda: [
      credit.gae(steps, values, mask),
      credit.gae(steps, values, mask, 0.9, 0.8),
      credit.gae(steps, values, mask, 0.9, 0.8, segments),
    ],
    "center": lambda: advantages.center(scores, valid),
    "leave_one_out": lambda: advantages.leave_one_out(scores, valid),
    "group_normalize": lambda: [
      advantages.group_normalize(scores, valid),
      advantages.group_normalize(scores, valid, 0, 0.1),
      advantages.group_normalize(jnp.ones_like(scores), valid),
    ],
    "masked": lambda: {
      name: [getattr(masked, name)(scores, mask, axis) for axis in axes]
      for name in ("sum", "mean", "std", "min", "max")
    },
    "median": lambda: masked.median(scores, mask),
    "pass_at_k_curve": lambda: metrics.pass_at_k_curve(right, (1, 2, 5), valid),
    # The bonus of `diver` is capped, which hides much of its measure.
    "bleu_diversity": lambda: code.function("diver.bleu_diversity", "rl")(
      [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5], [1, 2, 3, 4, 6, 5, 1], [1, 2], []]
    ),
    "step_diversity": lambda: code.function("diver.step_diversity", "rl")(
      [{1, 2}, {2, 3}, set(), {4}]
    ),
    "rollout_metrics": lambda: metrics.rollout_metrics(rollouts.rollout()),
  }


# Recording.


def _with_leading_axis(leaf: Any) -> Any:
  return leaf[None] if isinstance(leaf, jax.Array) and leaf.ndim else leaf


def _call(name: str) -> dict[str, Any]:
  """A function at its example, and with each setting at another value.

  A setting is keyed by its place among the parameters, so that it may be
  renamed.
  """
  fn, make = code.function(name), EXAMPLES[name]

  def run(**settings: Any) -> Any:
    args, keywords = make(Inputs(ROWS, N))
    return fn(*args, **{**keywords, **settings})

  results = {"example": run()}
  args, keywords = make(Inputs(ROWS, N))
  try:  # An axis counted from the wrong end is only seen with more axes.
    args_of_one, given_of_one = jax.tree.map(
      _with_leading_axis, (args, keywords)
    )
    results["leading axis"] = fn(*args_of_one, **given_of_one)
  except Exception as error:  # not every function takes more axes
    results["leading axis"] = type(error).__name__
  for place, one in enumerate(inspect.signature(fn).parameters.values()):
    number = isinstance(one.default, int | float)
    if place < len(args) or one.name in keywords or not number:
      continue
    if isinstance(one.default, bool):
      other: Any = not one.default
    elif isinstance(one.default, int):
      other = max(one.default - 1, 1) if one.default > 1 else one.default + 1
    else:
      other = one.default * 0.5 if one.default else 0.25
    results[f"parameter {place} = {other}"] = run(**{one.name: other})
  return results


def items() -> dict[str, Callable[[], dict[str, Any]]]:
  built = {
    f"function:{name}": functools.partial(_call, name)
    for name in EXAMPLES
    if code.has_function(name)
  }
  for name in OBJECTIVES:
    built[f"function:{name}"] = functools.partial(
      lambda name: _objectives(name, Inputs(ROWS, N)), name
    )
  for name in _others(Inputs(2, 2)):
    built[f"function:{name}"] = functools.partial(
      lambda name: {"example": _others(Inputs(ROWS, N))[name]()}, name
    )
  return built
