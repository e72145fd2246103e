"""Rewards of a rollout, by name: `get("majority", threshold=0.5)`.

The functions of this package read arrays; here each that a rollout can feed is
bound to it, as a transform from nothing to samples or to steps
(`rl.transform`). What it needs beyond the rollout is declared: a pass over the
sampled text, over the reference answer after the sampled thought (the view
"reference", which a task gives), over the completion without its question (the
view "alone"), or what a task or a stage says. So it is scored once, by the one
scoring function, and its cost is logged (`cost/<source>@<view>_tokens`).

Usage:
  Reward((("vote", sources.get("majority")),), total=...)   # or rewards.mix
  chain(sources.get("self_aligned", weight=0.5), group_normalize())

Names of components are those that the task gives, or earlier terms of the same
reward.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from rewards import (
  calibration,
  confidence,
  consistency,
  controls,
  dimensions,
  ensembles,
  flaws,
  gates,
  hybrid,
  labelfree,
  length,
  likelihood,
  novelty,
  overlap,
  patterns,
  progress,
  self_aligned,
  shaping,
  spread,
  step_count,
  turns,
)
from rewards.process import metrics as steps_to_one
from rl import choices, draws, masked, probes, types
from rl.probes import Need
from rl.transform import Transform, lift, transform

Array = jax.Array
Reader = Callable[[types.Rollout], Array]

# Views of the reference answer: after each sample's thought, and after the
# prompt alone, once for all of a group [P, 1, R].
REFERENCE, BARE_REFERENCE = "reference", "bare_reference"
divergence = probes.Probe(
  "divergence_from_uniform",
  lambda logits, tokens: confidence.divergence_from_uniform(logits),
)
hidden = probes.Probe("hidden", lambda hidden, tokens: hidden, head="hidden")
_ANSWERS = probes.given("task", "answer_ids")
_PARAPHRASE = probes.given("task", "paraphrase_answer_ids")
_SHUFFLED = probes.given("task", "shuffled_answer_ids")
_LOG_PROBS = Need("old", probes.log_probs)
_ENTROPY = Need("old", probes.entropy)
_DIVERGENCE = Need("old", divergence)
_HIDDEN = Need("old", hidden)
_ALONE = Need("old", probes.log_probs, probes.ALONE)
_OF_REFERENCE = Need("old", probes.log_probs, REFERENCE)
_OF_BARE_REFERENCE = Need("old", probes.log_probs, BARE_REFERENCE)
_VALUES = probes.given("stage", "values")
_PROMPT_VALUES = probes.given("stage", "prompt_values")


def _of(need: Need) -> Reader:
  return lambda rollout: rollout.extras[need]


def _valid(rollout: types.Rollout) -> Array:
  return rollout.sample_mask


def _tokens(rollout: types.Rollout) -> Array:
  return rollout.valid("token")


def _lengths(rollout: types.Rollout) -> Array:
  return rollout.lengths


def _correct(rollout: types.Rollout) -> Array:
  return rollout.correct


def _keys(rollout: types.Rollout) -> Array:
  return rollout.keys


def _answered(rollout: types.Rollout) -> Array:
  return rollout.extras[_ANSWERS] >= 0


def _in_reference(rollout: types.Rollout) -> Array:
  mask = probes.view_tokens(rollout, REFERENCE).mask
  return mask & rollout.sample_mask[..., None]


def _steps(rollout: types.Rollout) -> tuple[Array, Array]:
  """Step scores and which exist.

  Raises:
    ValueError: the task has no steps.
  """
  if rollout.step_scores is None:
    raise ValueError("this reward reads step scores, which the task lacks")
  return rollout.step_scores, rollout.valid("step")


def _step_mask(rollout: types.Rollout) -> Array:
  return _steps(rollout)[1]


def _chances(rollout: types.Rollout) -> Array:
  """Step scores in [-1, 1] as probabilities of a good step."""
  return (_steps(rollout)[0] + 1.0) / 2.0


def _component(rollout: types.Rollout, name: str) -> Array:
  if name not in rollout.components:
    raise ValueError(
      choices.unknown("component", name, sorted(rollout.components))
    )
  return rollout.components[name]


def _scores(rollout: types.Rollout, of: str) -> Array:
  """A component, or the task's score where none is named."""
  return _component(rollout, of) if of else rollout.scores


def _need(text: str) -> Need:
  """ "task/x" or "stage/x", as a need."""
  source, slash, name = text.partition("/")
  if not slash or source not in ("task", "stage"):
    raise ValueError(
      f"{text!r} must be what a task or a stage says, as 'task/NAME' or "
      "'stage/NAME'"
    )
  return probes.given(source, name)


# The outcome.


@transform("none", "sample")
def task(_, rollout: types.Rollout) -> Array:
  """The task's own graded score."""
  return rollout.scores


@transform("none", "sample")
def verdict(_, rollout: types.Rollout, *, wrong: float = 0.0) -> Array:
  """1 where the verdict is right, else `wrong`."""
  return jnp.where(rollout.correct == 1, 1.0, wrong)


@transform("none", "sample")
def component(_, rollout: types.Rollout, *, of: str) -> Array:
  """A part that the task scores by itself, by its name."""
  return _component(rollout, of)


@transform("none", "sample")
def finished(_, rollout: types.Rollout) -> Array:
  """1 where the completion ended by itself, else 0."""
  return rollout.finished.astype(jnp.float32)


# Length.

relative_length = lift(
  length.relative_length,
  "none",
  "sample",
  correct=_correct,
  lengths=_lengths,
  valid=_valid,
)
harmonized_length = lift(
  length.harmonized_length, "none", "sample", lengths=_lengths, valid=_valid
)
length_charge = lift(shaping.length_charge, "none", "sample", lengths=_lengths)


@transform("none", "sample")
def charged_where_easy(
  _, rollout: types.Rollout, *, fraction: float = 0.2, alpha: float = 0.2
) -> Array:
  """The verdict, on the easiest prompts with `length.relative_length`.

  GRPO-lambda: length is charged only where the batch is solved best.
  """
  valid = rollout.sample_mask
  easy = length.easiest(rollout.correct, fraction, valid)
  charged = length.relative_length(
    rollout.correct, rollout.lengths, alpha, valid
  )
  plain = (rollout.correct == 1).astype(jnp.float32)
  return jnp.where(easy[:, None], charged, plain)


@transform("none", "sample", init=lambda price, **_: jnp.float32(price))
def adaptive_token_price(
  _,
  rollout: types.Rollout,
  state: Array,
  *,
  price: float = 1e-3,
  reference: float = 0.5,
  rate: float = 1e-3,
) -> tuple[Array, Array]:
  """`length.token_price` at a price that `length.next_price` moves.

  A-DLP: tokens cost more while the accuracy is above `reference`.
  """
  valid = rollout.sample_mask
  value = length.token_price(rollout.correct, rollout.lengths, state, valid)
  known = valid & (rollout.correct >= 0)
  count = known.sum()
  accuracy = ((rollout.correct == 1) & known).sum() / jnp.maximum(count, 1)
  moved = length.next_price(state, accuracy, reference, rate)
  return value, jnp.where(count > 0, moved, state)


# Confidence: one pass over the sampled text.

negative_entropy = lift(
  confidence.negative_entropy,
  "none",
  "sample",
  needs=(_ENTROPY, _ANSWERS),
  token_entropies=_of(_ENTROPY),
  mask=_tokens,
  answered=_answered,
)
self_certainty = lift(
  confidence.self_certainty,
  "none",
  "sample",
  needs=(_DIVERGENCE,),
  divergences=_of(_DIVERGENCE),
  mask=_tokens,
)
clipped_confidence = lift(
  confidence.clipped_confidence,
  "none",
  "sample",
  needs=(_LOG_PROBS,),
  correct=_correct,
  log_probs=_of(_LOG_PROBS),
  mask=_tokens,
)


def _last_step_tokens(rollout: types.Rollout) -> Array:
  """Tokens of each sample's last step, which holds its answer."""
  _steps(rollout)
  ids = jnp.where(rollout.valid("token"), rollout.step_ids, -1)
  last = ids.max(-1, keepdims=True)
  answered = _answered(rollout)[..., None]
  return (ids == last) & (last >= 0) & answered


answer_confidence = lift(
  confidence.answer_confidence,
  "none",
  "sample",
  needs=(_LOG_PROBS, _ANSWERS),
  log_probs=_of(_LOG_PROBS),
  answer_mask=_last_step_tokens,
)


@transform("none", "sample", needs=(_ENTROPY,))
def phase_entropy(
  _, rollout: types.Rollout, *, thought_end: int, alpha: float = 1.0
) -> Array:
  """`confidence.phase_entropy`; `thought_end` is the id that ends a thought."""
  mask = rollout.valid("token")
  return confidence.phase_entropy(
    rollout.correct,
    rollout.extras[_ENTROPY],
    mask,
    confidence.first_position(rollout.completions, mask, thought_end),
    alpha=alpha,
  )


self_aligned_reward = lift(
  self_aligned.self_aligned,
  "none",
  "sample",
  needs=(_LOG_PROBS, _ALONE),
  correct=_correct,
  log_probs=_of(_LOG_PROBS),
  log_probs_alone=_of(_ALONE),
  mask=_tokens,
)


@transform("none", "sample", needs=(_LOG_PROBS,))
def dimension_level(
  _,
  rollout: types.Rollout,
  *,
  relevances: tuple[str, ...],
  coherence: str,
  weights: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3),
) -> Array:
  """`dimensions.dimension_level` by the policy's mean log-probability.

  `relevances` and `coherence` are components: of a reranker's pairs, and of a
  reward model.
  """
  confident = masked.mean(rollout.extras[_LOG_PROBS], rollout.valid("token"))
  relevant = [_component(rollout, name) for name in relevances]
  return dimensions.dimension_level(
    confident,
    jnp.stack(relevant, -1),
    _component(rollout, coherence),
    weights,
    valid=rollout.sample_mask,
  )


# Likelihood of the reference answer: one pass over the view "reference".


def _by_reference(
  fn: Callable, *needs: Need, **context: Reader
) -> Callable[..., Transform]:
  return lift(
    fn,
    "none",
    "sample",
    needs=(_OF_REFERENCE, *needs),
    ref_log_probs=_of(_OF_REFERENCE),
    ref_mask=_in_reference,
    **context,
  )


probability = _by_reference(likelihood.probability)
mean_probability = _by_reference(likelihood.mean_probability)
log_probability = _by_reference(likelihood.log_probability)
mean_log_probability = _by_reference(likelihood.mean_log_probability)
group_log_mean_advantages = _by_reference(
  likelihood.group_log_mean_advantages, valid=_valid
)


def _without_thought(rollout: types.Rollout) -> Array:
  """Mean probability of the bare reference, `[P, 1]`."""
  mask = probes.view_tokens(rollout, BARE_REFERENCE).mask
  return likelihood.mean_probability(rollout.extras[_OF_BARE_REFERENCE], mask)


debiased_probability = _by_reference(
  likelihood.debiased_probability,
  _OF_BARE_REFERENCE,
  without_thought=_without_thought,
  format_scores=lambda rollout: rollout.finished.astype(jnp.float32),
)


def _reference_tokens(rollout: types.Rollout) -> Array:
  return probes.view_tokens(rollout, REFERENCE).completions


token_f1 = lift(
  overlap.token_f1,
  "none",
  "sample",
  found=lambda rollout: rollout.completions,
  found_mask=_tokens,
  wanted=_reference_tokens,
  wanted_mask=_in_reference,
)
distinct_ngrams = lift(
  overlap.distinct_ngrams,
  "none",
  "sample",
  tokens=lambda rollout: rollout.completions,
  lengths=lambda rollout: rollout.tokens.lengths,
)

# Without labels: the answers of the group.

majority = lift(
  labelfree.majority,
  "none",
  "sample",
  needs=(_ANSWERS,),
  answer_ids=_of(_ANSWERS),
  valid=_valid,
)
cluster_share = lift(
  labelfree.cluster_share,
  "none",
  "sample",
  needs=(_ANSWERS,),
  answer_ids=_of(_ANSWERS),
  valid=_valid,
)


@transform("none", "sample", needs=(_ANSWERS, _PARAPHRASE))
def co_reward(_, rollout: types.Rollout) -> Array:
  """`labelfree.co_reward` of this wording, labelled by the other's majority.

  "task/paraphrase_answer_ids" `[P, S]` are answers to the other wording.
  """
  answers = rollout.extras[_ANSWERS], rollout.extras[_PARAPHRASE]
  return labelfree.co_reward(*answers, rollout.sample_mask)[0]


# Phrases, as nested tuples of token ids: `patterns.spelled` says how.


@transform("none", "sample")
def says(
  _, rollout: types.Rollout, *, phrases: tuple, fences: tuple = ()
) -> Array:
  """`patterns.says`; without `fences` code counts as text."""
  return patterns.says(
    rollout.completions,
    rollout.lengths,
    patterns.spelled(phrases),
    patterns.spelled(fences) if fences else None,
  )


@transform("none", "sample", needs=(_ANSWERS,))
def reasoning_patterns(
  _,
  rollout: types.Rollout,
  *,
  phrases: tuple,
  speakers: tuple = (),
  enough: int = 20,
  repeated: int = 20,
) -> Array:
  """`patterns.reasoning_patterns`, 0 where the task reads no answer."""
  return patterns.reasoning_patterns(
    rollout.completions,
    rollout.lengths,
    patterns.spelled(phrases),
    patterns.spelled(speakers) if speakers else None,
    _answered(rollout),
    enough,
    repeated,
  )


@transform("none", "sample")
def instead_of_nothing(
  _, rollout: types.Rollout, *, phrases: str, weight: float = 0.1
) -> Array:
  """`patterns.instead_of_nothing`; `phrases` is the component of patterns."""
  scores = _component(rollout, phrases)
  return patterns.instead_of_nothing(rollout.correct, scores, weight)


@transform("none", "sample")
def calibrated(
  _,
  rollout: types.Rollout,
  *,
  model: str,
  phrases: str,
  below: float = 0.5,
  weight: float = 0.1,
) -> Array:
  """`patterns.calibrated`; `model` and `phrases` are components."""
  scores = _component(rollout, model), _component(rollout, phrases)
  return patterns.calibrated(*scores, below, weight)


# Controls: what says nothing, or lies.

coins = lift(
  controls.coins,
  "none",
  "sample",
  keys=_keys,
  samples=lambda rollout: rollout.sample_mask.shape[-1],
)
flipped_groups = lift(
  controls.flipped_groups, "none", "sample", correct=_correct, keys=_keys
)


@transform("none", "sample", needs=(_ANSWERS,))
def wrong_vote(_, rollout: types.Rollout) -> Array:
  """1 for the `controls.wrong_vote` of this very group, else 0.

  The study labels with what the starting policy says; this follows the policy.
  """
  answers, valid = rollout.extras[_ANSWERS], rollout.sample_mask
  label = controls.wrong_vote(answers, rollout.correct, valid)
  return labelfree.agreement(answers, label)


@transform("none", "sample")
def opposite(_, rollout: types.Rollout, *, of: str = "") -> Array:
  """`controls.opposite` of the task's score, or of a component; in [0, 1]."""
  return controls.opposite(_scores(rollout, of), rollout.sample_mask)


# Shapes of a score.


def _named(bound: Callable, fn: Callable) -> Callable:
  """`bound` under the name and the docstring of what it binds."""
  bound.__signature__ = inspect.signature(bound)
  bound.__name__, bound.__doc__ = fn.__name__, fn.__doc__
  bound.__wrapped__ = fn
  return bound


def _shaped(shape: Callable) -> Callable[..., Transform]:
  """A relative shape of the task's score, as a source of its own name."""

  def relative(
    _, rollout: types.Rollout, *, references: str, of: str = ""
  ) -> Array:
    values = _scores(rollout, of)
    known = rollout.extras[_need(references)]
    known = jnp.asarray(known).reshape(values.shape[0], 1, -1)
    there = jnp.isfinite(known)
    return shape(values, jnp.where(there, known, 0.0), there)

  needs = lambda references, of: {_need(references)}  # noqa: E731
  return transform("none", "sample", needs=needs)(_named(relative, shape))


preference = _shaped(shaping.preference)
late_preference = _shaped(shaping.late_preference)
centered = _shaped(shaping.centered)
tanh = _shaped(shaping.tanh)
arctan = _shaped(shaping.arctan)
polynomial = _shaped(shaping.polynomial)


@transform("none", "sample")
def log_sigmoid(
  _, rollout: types.Rollout, *, of: str = "", reference: float = 0.0
) -> Array:
  """`shaping.log_sigmoid` of the task's score, or of a component."""
  values = _scores(rollout, of)
  return shaping.log_sigmoid(values, reference)


@transform("none", "sample")
def ceiling(
  _, rollout: types.Rollout, *, highest: float, of: str = ""
) -> Array:
  """`shaping.ceiling`, min(r, highest), of the task's score or a component."""
  values = _scores(rollout, of)
  return shaping.ceiling(values, highest)


def _of_stream(shape: Callable) -> Callable[..., Transform]:
  """A shape by the moments of all scores so far, this batch's included."""

  def streamed(
    _, rollout: types.Rollout, state: shaping.Moments, *, of: str = ""
  ) -> tuple[Array, shaping.Moments]:
    values = _scores(rollout, of)
    state = shaping.observe(state, values, rollout.sample_mask)
    return shape(values, state), state

  init = lambda of: shaping.init_moments()  # noqa: E731
  return transform("none", "sample", init=init)(_named(streamed, shape))


standardized = _of_stream(shaping.standardized)
clipped = _of_stream(shaping.clipped)
min_max = _of_stream(shaping.min_max)

ENSEMBLES: Mapping[str, Callable[[Array], Array]] = {
  "mean": ensembles.mean,
  "median": ensembles.median,
  "worst": ensembles.worst,
  "less_spread": ensembles.less_spread,
  "less_variance": ensembles.less_variance,
}


@transform("none", "sample")
def ensemble(
  _,
  rollout: types.Rollout,
  *,
  members: tuple[str, ...],
  rule: str = "mean",
  center: bool = False,
) -> Array:
  """Several components as members of an ensemble, by one of `ENSEMBLES`.

  `center` takes each member's mean over the group away first.
  """
  if rule not in ENSEMBLES:
    raise ValueError(choices.unknown("rule", rule, ENSEMBLES))
  found = jnp.stack([_component(rollout, name) for name in members])
  if center:
    found = ensembles.center_members(found, rollout.sample_mask)
  return ENSEMBLES[rule](found)


@transform("none", "sample")
def stretched_with_progress(
  _, rollout: types.Rollout, *, over: int, of: str = "", least: float = 0.0
) -> Array:
  """`spread.stretched_with_progress`, whole after `over` training steps.

  Of the task's score, or of a component.
  """
  if over < 1:
    raise ValueError(f"over = {over} training steps must be at least 1")
  return spread.stretched_with_progress(
    _scores(rollout, of), rollout.step / over, rollout.sample_mask, least
  )


# The process behind the outcome.


@transform("none", "sample")
def posterior(_, rollout: types.Rollout, *, thoughts: str) -> Array:
  """`gates.posterior`; `thoughts` is the component of a judge of reasoning."""
  return gates.posterior(
    rollout.correct,
    _component(rollout, thoughts),
    rollout.finished.astype(jnp.float32),
  )


@transform("none", "sample")
def flaw_aware(
  _, rollout: types.Rollout, *, flawed: str, weight: float = 1.0
) -> Array:
  """`flaws.flaw_aware`; `flawed` is the component of a judge of flaws."""
  return flaws.flaw_aware(rollout.correct, _component(rollout, flawed), weight)


@transform("none", "sample", needs=(_ANSWERS, _SHUFFLED))
def answer_consistency(
  _,
  rollout: types.Rollout,
  *,
  consistent_right: float = 1.0,
  inconsistent_right: float = 0.5,
  consistent_wrong: float = 0.0,
) -> Array:
  """`consistency.answer_consistency`, of options asked for once more.

  "task/shuffled_answer_ids" `[P, S]` are what was chosen among shuffled ones,
  as first numbered: -1 is none, below it nobody asked.
  """
  again = rollout.extras[_SHUFFLED]
  return consistency.answer_consistency(
    rollout.extras[_ANSWERS],
    again,
    rollout.correct,
    again >= -1,
    consistent_right,
    inconsistent_right,
    consistent_wrong,
  )


@transform("none", "sample")
def concise(
  _, rollout: types.Rollout, *, conciseness: str, alpha: float = 1.0
) -> Array:
  """`gates.concise`; `conciseness` is the component of a model of it."""
  judged = _component(rollout, conciseness)
  return gates.concise(rollout.correct, judged, alpha=alpha)


@transform("none", "sample")
def stratified(
  _,
  rollout: types.Rollout,
  *,
  model: str,
  alpha: float = 0.05,
  beta: float = 0.05,
) -> Array:
  """`hybrid.stratified`; `model` is the component of a reward model."""
  scores = _component(rollout, model)
  return hybrid.stratified(
    rollout.correct, scores, alpha, beta, rollout.sample_mask
  )


@transform("none", "sample")
def trusted(
  _,
  rollout: types.Rollout,
  *,
  thoughts: str,
  weight: float = 0.3,
  horizon: float = 500.0,
) -> Array:
  """`hybrid.trusted`; `thoughts` is the component of a judge of reasoning."""
  right = (rollout.correct == 1).astype(jnp.float32)
  return hybrid.trusted(
    right,
    _component(rollout, thoughts),
    rollout.step,
    weight,
    horizon,
    rollout.sample_mask,
  )


@transform("none", "sample")
def brier(_, rollout: types.Rollout, *, forecast: str, stated: str) -> Array:
  """`calibration.brier`; `forecast` is the component of stated probabilities.

  `stated` is the component that is 1 where one could be read: a verifier's part
  that is missing is 0, which would be a forecast too.
  """
  value = _component(rollout, forecast)
  parsed = (_component(rollout, stated) > 0.5) & (value >= 0) & (value <= 1)
  return calibration.brier(value, rollout.correct == 1, parsed)


@transform(
  "none",
  "sample",
  init=lambda size, seed, **_: novelty.init(jax.random.key(seed), size),
  needs=(_HIDDEN,),
)
def novelty_bonus(
  _,
  rollout: types.Rollout,
  state: novelty.Novelty,
  *,
  size: int,
  seed: int = 0,
  share: float = 0.25,
  rate: float = 1e-4,
) -> tuple[Array, novelty.Novelty]:
  """`novelty.next_bonus` among the right and among the wrong answers.

  It observes the mean over a completion of the policy's own hidden states,
  which move with the policy; `size` is its width. The bands are those of
  `hybrid.stratified`.
  """
  del seed  # of the networks
  states, seen = rollout.extras[_HIDDEN], rollout.valid("token")
  if states.shape[-1] != size:
    raise ValueError(
      f"size = {size} must be the policy's width, {states.shape[-1]}"
    )
  wide = jnp.broadcast_to(seen[..., None], states.shape)
  means = masked.mean(states.astype(jnp.float32), wide, -2)
  bonus, state = novelty.next_bonus(
    state,
    means[:, :, None],
    seen.any(-1)[..., None],
    draws.keys(rollout.keys, "novelty_bonus")[0],
    share=share,
    rate=rate,
  )
  valid = rollout.sample_mask
  scores = hybrid.stratified(rollout.correct, bonus[..., 0], valid=valid)
  return scores, state


def _of_steps(fn: Callable) -> Callable[..., Transform]:
  """One score of the task's step scores, 0 of no step."""

  def of_steps(_, rollout: types.Rollout) -> Array:
    scores, mask = _steps(rollout)
    return jnp.where(mask.any(-1), fn(scores, mask), 0.0)

  return transform("none", "sample")(_named(of_steps, fn))


worst_step = _of_steps(steps_to_one.worst_step)
mean_step = _of_steps(steps_to_one.mean_step)
last_step = _of_steps(steps_to_one.last_step)


@transform("none", "sample")
def step_product(_, rollout: types.Rollout) -> Array:
  """prod_k p_k, p = (score + 1) / 2: it falls with every step; 0 of none."""
  mask = _step_mask(rollout)
  product = jnp.prod(jnp.where(mask, _chances(rollout), 1.0), -1)
  return jnp.where(mask.any(-1), product, 0.0)


nonlinear = lift(
  step_count.nonlinear,
  "none",
  "sample",
  probabilities=_chances,
  step_mask=_step_mask,
)
weibull = lift(
  step_count.weibull,
  "none",
  "sample",
  probabilities=_chances,
  step_mask=_step_mask,
)

# Rewards of steps: in place of the task's step scores.


def _before(rollout: types.Rollout) -> Array:
  """The chance of success before each step: the prompt's, then the steps'."""
  values = rollout.extras[_VALUES]
  first = rollout.extras[_PROMPT_VALUES][..., None, None]
  first = jnp.broadcast_to(first, (*values.shape[:2], 1))
  return jnp.concatenate([first, values[..., :-1]], -1)


gains = lift(
  progress.gains,
  "none",
  "step",
  needs=(_VALUES, _PROMPT_VALUES),
  after=_of(_VALUES),
  before=lambda rollout: rollout.extras[_PROMPT_VALUES][:, None],
  mask=_step_mask,
)


@transform("none", "step", needs=(_VALUES, _PROMPT_VALUES))
def significant_gains(
  _,
  rollout: types.Rollout,
  *,
  threshold: float = 0.1,
  gamma: float = 0.9,
  look_ahead: int = 3,
) -> Array:
  """`progress.significant_gains` of the chance of success (VSRM)."""
  mask = rollout.valid("step")
  first = rollout.extras[_PROMPT_VALUES][:, None]
  gain = progress.gains(rollout.extras[_VALUES], first, mask)
  return progress.significant_gains(gain, mask, threshold, gamma, look_ahead)


information_gain = lift(
  turns.information_gain,
  "none",
  "step",
  needs=(_VALUES, _PROMPT_VALUES),
  before=_before,
  mask=_step_mask,
  outcomes=lambda rollout: rollout.scores,
)
normalized_steps = lift(
  turns.normalize_in_group,
  "none",
  "step",
  rewards=lambda rollout: _steps(rollout)[0],
  mask=_step_mask,
)


@transform("none", "step")
def outcome_centered(_, rollout: types.Rollout, *, beta: float = 1.0) -> Array:
  """`turns.outcome_centered` of the step scores as probabilities (ReNorm)."""
  right = (rollout.correct == 1).astype(jnp.float32)
  return turns.outcome_centered(
    _chances(rollout), _step_mask(rollout), right, beta
  )


def names() -> list[str]:
  """The rewards that `get` knows, sorted."""
  return sorted(
    name
    for name, value in globals().items()
    if not name.startswith("_") and hasattr(value, "__signature__")
  )


def settings(name: str) -> list[str]:
  """The hyper-parameters of a reward.

  Raises:
    ValueError: the name is unknown.
  """
  if name not in names():
    raise ValueError(choices.unknown("reward", name, names()))
  return list(inspect.signature(globals()[name]).parameters)


def get(name: str, **hyper: Any) -> Transform:
  """A reward of a rollout.

  Args:
    name: one of `names()`.
    **hyper: its hyper-parameters; those not given keep their defaults.

  Returns:
    The transform, none -> sample or none -> step.

  Raises:
    ValueError: the name or a hyper-parameter is unknown, or one is missing.
  """
  allowed = settings(name)
  for keyword in hyper:
    if keyword not in allowed:
      raise ValueError(
        choices.unknown(f"setting of reward {name!r}", keyword, allowed)
      )
  try:
    return globals()[name](**hyper)
  except TypeError as error:
    raise ValueError(f"reward {name}: {error}") from None
