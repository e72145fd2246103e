"""Inputs for every reward, as `experiments.studies.benchmark rewards` measures them.

An example is a call with arrays made to order, `[rows, n]` unless it says
otherwise: n is the axis that the reward reads, of tokens, steps, samples or
references, and where it reads several, all of them. A reward that is neither
here nor in `LEFT_OUT` is a mistake, so none is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rewards import chain, combine, shaping, staged
from rewards.process import labels, model

Array = jax.Array

# Modules and functions that read no arrays of length n, and why.
LEFT_OUT: Mapping[str, str] = {
  "verifiers": "on the host",
  "sources": "binds what is measured here to a rollout",
  "mix": "binds what is measured here to a rollout",
  "novelty.init": "draws networks",
  "novelty.errors": "a network's pass",
  "novelty.next_bonus": "a network's pass",
  "patterns.spelled": "on the host",
  "process.continuations": "rolls a policy out",
  "process.prefix_values": "rolls a policy out",
  "process.model.read_through": "a policy's pass",
  "process.model.score_steps": "a policy's pass",
  "process.model.score_rollout": "a policy's pass",
  "process.labels.monte_carlo": "on the host",
  "process.labels.first_error_by_binary_search": "on the host",
  "combine.weights_at": "numbers of a step",
  "controls.coins": "draws them, and reads nothing",
  "flow.init": "draws a network",
  "flow.velocity": "a network's pass",
  "flow.matching_loss": "a network's pass",
  "flow.score": "a network's pass",
  "length.next_price": "numbers of a step",
  "significance.init_slope": "numbers of a step",
  "significance.next_gain": "numbers of a step",
  "shaping.init_moments": "numbers of a step",
}


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
    drawn = self._random.standard_normal(self._shape(shape), np.float32)
    return jnp.asarray(drawn)

  def unit(self, *shape: int) -> Array:
    """Chances, above 0 and below 1."""
    drawn = self._random.random(self._shape(shape), np.float32)
    return jnp.asarray(0.01 + 0.98 * drawn)

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
    """How many there are of each row, from half of them to all."""
    n = self.n if upto is None else upto
    drawn = self._random.integers(n // 2, n + 1, shape or (self.rows,))
    return jnp.asarray(drawn, jnp.int32)

  def ids(self, *shape: int, upto: int = 100) -> Array:
    """Tokens, answers, documents: from 0 to `upto`, that one left out."""
    drawn = self._random.integers(0, upto, self._shape(shape))
    return jnp.asarray(drawn, jnp.int32)

  def orders(self) -> Array:
    """Rankings of n documents."""
    drawn = np.tile(np.arange(self.n, dtype=np.int32), (self.rows, 1))
    return jnp.asarray(self._random.permuted(drawn, axis=-1))

  def steps(self, *, length: int = 16) -> Array:
    """The step of each token, of equal length, -1 after the last."""
    steps = jnp.arange(self.n) // length
    return jnp.where(self.first(), steps, -1).astype(jnp.int32)


def _chain_steps(x: Inputs) -> chain.Steps:
  facts = (x.bits() for _ in range(6))
  return chain.Steps(x.steps(), *facts, x.ids(x.rows, upto=10), x.bits(x.rows))


def _met(x: Inputs) -> staged.Met:
  return staged.Met(x.unit(), x.verdicts().astype(jnp.float32))


def _moments(x: Inputs) -> shaping.Moments:
  return shaping.observe(shaping.init_moments(), x.normal(8, 8))


def _members(x: Inputs) -> Array:
  return x.normal(4, x.rows // 4, x.n)


def _terms(x: Inputs) -> Call:
  return call(
    _members(x), jnp.array([1.0, 0.5, 0.2, 0.1]), x.first(x.rows // 4, x.n)
  )


def _labels(x: Inputs) -> labels.Labels:
  return labels.Labels(
    x.verdicts().astype(jnp.float32), jnp.ones((x.rows, x.n))
  )


def _reading(x: Inputs) -> model.Reading:
  shape = x.rows, 1, x.n
  return model.Reading(x.normal(x.rows, 1, x.n + 1, 16), x.logs(*shape))


def _references(x: Inputs) -> Call:
  return call(x.normal(x.rows), x.normal(), x.first())


def _reference_answer(x: Inputs) -> Call:
  return call(x.logs(), x.first())


def _relevant(x: Inputs) -> Call:
  return call(x.orders(), x.unit())


def _bags(x: Inputs) -> Call:
  return call(x.ids(), x.first(), x.ids(), x.first())


EXAMPLES: Mapping[str, Callable[[Inputs], Call]] = {
  "behavior_alignment.outer_gradient": lambda x: call(
    {"w": x.normal(x.n)}, {"w": x.normal()}
  ),
  "behavior_alignment.next_weights": lambda x: call(
    x.unit(x.rows), {"w": x.normal(x.n)}, {"w": x.normal()}
  ),
  "calibration.brier": lambda x: call(x.unit(), x.verdicts(), x.bits()),
  "chain.apply": lambda x: call(x.ids(upto=10), x.ids(upto=3), x.ids(upto=10)),
  "chain.result": lambda x: call(
    x.ids(x.rows, upto=10),
    x.ids(x.rows, 8, upto=3),
    x.ids(x.rows, 8, upto=10),
  ),
  "chain.read": lambda x: call(
    x.ids(upto=chain.VOCAB_SIZE),
    x.lengths(),
    x.ids(x.rows, upto=10),
    x.ids(x.rows, 8, upto=3),
    x.ids(x.rows, 8, upto=10),
  ),
  "chain.clean": lambda x: call(_chain_steps(x)),
  "chain.filler": lambda x: call(_chain_steps(x)),
  "chain.local": lambda x: call(_chain_steps(x)),
  "chain.step_scores": lambda x: call(_chain_steps(x), chain.clean),
  "closeness.closeness": lambda x: call(x.ids(), x.bits(), x.ids()),
  "combine.weighted_sum": _terms,
  "combine.weighted_z_scores": _terms,
  "combine.weighted_product": _terms,
  "combine.weighted_geometric_mean": _terms,
  "combine.worst": _terms,
  "combine.combine": lambda x: call(
    {"right": x.unit(), "short": x.unit(), "style": x.normal()},
    (
      combine.Term("right"),
      combine.Term("short", 0.2, gates=("right",)),
      combine.Term("style", 0.1, gates=("right",)),
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
  "elementary.log_add_exp": lambda x: call(x.logs(), x.logs()),
  "elementary.softplus": lambda x: call(x.normal()),
  "elementary.arctan": lambda x: call(x.normal()),
  "elementary.cos_quarter": lambda x: call(x.unit()),
  "ensembles.center_members": lambda x: call(
    _members(x), x.first(x.rows // 4, x.n)
  ),
  "ensembles.mean": lambda x: call(_members(x)),
  "ensembles.median": lambda x: call(_members(x)),
  "ensembles.worst": lambda x: call(_members(x)),
  "ensembles.less_spread": lambda x: call(_members(x)),
  "ensembles.less_variance": lambda x: call(_members(x)),
  "flaws.flaw_aware": lambda x: call(x.verdicts(), x.unit()),
  "flaws.located": lambda x: call(
    x.ids(upto=10), x.ids(upto=10), x.ids(upto=20), x.bits()
  ),
  "flow.token_rewards": lambda x: call(x.unit(), x.first()),
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
  "hybrid.prompt_weights": lambda x: call(x.normal(), 0.2, valid=x.first()),
  "hybrid.trust": lambda x: call(x.unit(), x.unit(), x.first()),
  "hybrid.trusted": lambda x: call(x.unit(), x.unit(), 10, valid=x.first()),
  "inputs.present": lambda x: call(x.normal(), x.first()),
  "inputs.is_right": lambda x: call(x.verdicts()),
  "labelfree.answer_shares": lambda x: call(x.ids(), x.first()),
  "labelfree.vote": lambda x: call(x.ids(), x.first()),
  "labelfree.agreement": lambda x: call(x.ids(), x.ids(x.rows), x.first()),
  "labelfree.fraction_satisfied": lambda x: call(x.bits(), x.first()),
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
  "likelihood.group_log_mean": lambda x: call(
    x.logs(x.rows // 8, 8, x.n), x.first(x.rows // 8, 8, x.n)
  ),
  "likelihood.group_log_mean_advantages": lambda x: call(
    x.logs(x.rows, x.n, 8), x.first(x.rows, x.n, 8)
  ),
  "likelihood.verifree": lambda x: call(
    x.logs(x.rows // 8, 8, x.n),
    x.first(x.rows // 8, 8, x.n),
    x.bits(x.rows // 8, 8),
  ),
  "likelihood.debiased_probability": _reference_answer,
  "likelihood.spread_enough": lambda x: call(x.unit(), 0.2, valid=x.first()),
  "likelihood.followup_likelihood": lambda x: call(
    x.logs(x.rows // 8, 4, 2, x.n),
    x.first(x.rows // 8, 4, 2, x.n),
    x.logs(x.rows // 8, 4, 2, x.n),
    x.first(x.rows // 8, 4, 2, x.n),
  ),
  "novelty.discounted": lambda x: call(x.normal(), x.bits()),
  "overlap.longest_common_subsequence": _bags,
  "overlap.key_points": lambda x: call(
    x.ids(x.rows, 1, 2, x.n),
    x.first(x.rows, 1, 2, x.n),
    x.ids(x.rows, 1, 2, x.n),
    x.first(x.rows, 1, 2, x.n),
  ),
  "overlap.token_f1": _bags,
  "overlap.distinct_ngrams": lambda x: call(x.ids(), x.lengths()),
  "patterns.calibrated": lambda x: call(x.unit(), x.unit()),
  "patterns.instead_of_nothing": lambda x: call(x.verdicts(), x.unit()),
  "patterns.occurrences": lambda x: call(x.ids(), x.lengths(), x.ids(1, 2, 3)),
  "patterns.reasoning_patterns": lambda x: call(
    x.ids(), x.lengths(), x.ids(4, 2, 3), x.ids(1, 2, 3)
  ),
  "patterns.says": lambda x: call(x.ids(), x.lengths(), x.ids(1, 2, 3)),
  "places.following": lambda x: call(x.bits()),
  "places.count_before": lambda x: call(x.bits()),
  "principles.log_odds": lambda x: call(x.normal(), 3, 7),
  "principles.mean_log_odds": lambda x: call(
    x.normal(x.rows // 4, 4, x.n), 3, 7, x.bits(x.rows // 4, 4)
  ),
  "process.dual_head.compound": lambda x: call(x.normal(x.rows // 2, x.n, 2)),
  "process.dual_head.loss": lambda x: call(
    x.normal(x.rows // 2, x.n, 2),
    x.unit(x.rows // 2, x.n, 2),
    x.unit(x.rows // 2, x.n, 2),
  ),
  "process.labels.from_checker": lambda x: call(x.normal(), x.first()),
  "process.labels.soft_labels": lambda x: call(
    x.bits(x.rows // 8, x.n, 8), x.first(x.rows // 8, x.n)
  ),
  "process.labels.hard_labels": lambda x: call(
    x.bits(x.rows // 8, x.n, 8), x.first(x.rows // 8, x.n)
  ),
  "process.labels.drop_after_error": lambda x: call(_labels(x)),
  "process.labels.from_first_error": lambda x: call(
    x.lengths() // 2, x.first()
  ),
  "process.losses.soft_label_bce": lambda x: call(
    x.normal(), x.unit(), x.unit()
  ),
  "process.losses.two_class_cross_entropy": lambda x: call(
    x.normal(x.rows // 2, x.n, 2),
    x.unit(x.rows // 2, x.n),
    x.unit(x.rows // 2, x.n),
  ),
  "process.losses.language_loss": lambda x: call(x.logs(), x.first()),
  "process.metrics.first_error": lambda x: call(x.normal() + 5.0, x.first()),
  "process.metrics.first_error_f1": lambda x: call(x.ids(), x.ids(), x.first()),
  "process.metrics.best_threshold": lambda x: call(
    x.normal(4, x.rows // 4, x.n),
    x.first(4, x.rows // 4, x.n),
    x.ids(4, x.rows // 4),
    candidates=11,
  ),
  "process.metrics.first_error_interval": lambda x: call(
    x.ids(x.n, 8), x.ids(x.n, 8), jax.random.key(0), resamples=x.n
  ),
  "process.metrics.worst_step": lambda x: call(x.normal(), x.first()),
  "process.metrics.mean_step": lambda x: call(x.normal(), x.first()),
  "process.metrics.last_step": lambda x: call(x.normal(), x.first()),
  "process.metrics.best_of_n_value": lambda x: call(
    x.normal(), x.verdicts(), 4, x.first()
  ),
  "process.model.step_ends": lambda x: call(x.steps(length=1), x.n),
  "process.model.step_features": lambda x: call(
    _reading(x), x.steps(length=1)[:, None], x.n
  ),
  "process.segmentation.segment_steps": lambda x: call(
    x.ids(), x.lengths(), (7, 8)
  ),
  "process.segmentation.step_mask": lambda x: call(x.steps(length=1), x.n),
  "process.soft_values.entropy_regularized": lambda x: call(
    x.bits(1, x.rows // 8, x.n, 8),
    x.first(1, x.rows // 8, x.n),
    x.verdicts(1, x.rows // 8),
  ),
  "process.soft_values.log_mean_exp": lambda x: call(x.unit(), 2.0),
  "progress.gains": lambda x: call(x.unit(), x.unit(x.rows), x.first()),
  "progress.best_of": lambda x: call(x.unit(), 4),
  "progress.significant_gains": lambda x: call(0.2 * x.normal(), x.first()),
  "progress.judged_thoughts": lambda x: call(
    x.normal(x.rows), x.verdicts(x.rows), x.bits(), x.first(), x.unit(x.rows)
  ),
  "progress.sibling_advantages": lambda x: call(x.unit(), x.first()),
  "progress.node_values": lambda x: call(x.unit(), x.first()),
  "ranking.fidelity": lambda x: call(x.normal(x.rows, x.n, x.n), x.normal()),
  "ranking.gains": _relevant,
  "ranking.ndcg": _relevant,
  "ranking.recall": _relevant,
  "ranking.rank_biased_overlap": lambda x: call(x.orders(), x.orders(), 0.9),
  "ranking.listwise": lambda x: call(
    x.orders(), x.unit(), x.orders(), x.bits(x.rows)
  ),
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
  "significance.counts": lambda x: call(x.unit(), x.first()),
  "significance.reward": lambda x: call(
    x.verdicts(), *(1.0 + 9.0 * x.unit() for _ in range(4))
  ),
  "similarity.cosine": lambda x: call(x.normal(), x.normal(), x.bits(x.rows)),
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
  "t_reg.regularized_dpo": lambda x: call(
    x.logs(x.rows // 2, 2, x.n),
    x.logs(x.rows // 2, 2, x.n),
    x.normal(x.rows // 2, 2, x.n),
    x.first(x.rows // 2, 2, x.n),
  ),
  "t_reg.regularizer": lambda x: call(x.logs(), x.normal(), x.first()),
  "t_reg.token_rewards": lambda x: call(x.logs(), x.logs(), x.first()),
  "transfer.kept_tokens": lambda x: call(
    x.ids(upto=1000), x.unit(), x.ids(upto=1000)
  ),
  "transfer.transferred": lambda x: call(x.verdicts(x.rows), x.verdicts()),
  "turns.shape_by_potential": lambda x: call(
    x.normal(), x.normal(), x.bits(), 0.9
  ),
  "turns.information_gain": lambda x: call(x.unit(), x.first(), x.unit(x.rows)),
  "turns.normalize_in_group": lambda x: call(
    x.normal(x.rows // 8, 8, x.n), x.first(x.rows // 8, 8, x.n)
  ),
  "turns.outcome_centered": lambda x: call(
    x.unit(), x.first(), x.verdicts(x.rows)
  ),
  "turns.critique_share": lambda x: call(
    x.bits(x.rows // 8, 8, x.n), x.bits(x.rows // 8, 8)
  ),
  "turns.outcome_minus_errors": lambda x: call(
    x.verdicts(x.rows), x.unit(x.rows, x.n // 16), x.steps()
  ),
  "turns.attribution_loss": lambda x: call(
    x.normal(), x.first(), x.unit(x.rows)
  ),
  "turns.attributed": lambda x: call(x.normal(), x.bits(), x.first()),
  "variational.log_ratios": lambda x: call(
    x.logs(), x.logs(), x.logs(), x.logs(), x.first()
  ),
  "variational.divergence": lambda x: call(
    x.logs(), x.logs(), x.bits(x.rows), x.first()
  ),
}
