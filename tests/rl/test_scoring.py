"""Tests of `rl.scoring`: probes, views, passes and their errors."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl import scoring, types
from rl.scoring import Need, Probe

close = np.testing.assert_allclose
LOG_PROBS = Need("old", scoring.log_probs)
# Two prompts of two samples; prompts are padded on the left to four tokens.
PROMPTS = jnp.array([[0, 0, 5, 6], [0, 7, 8, 9]])
LENGTHS = jnp.array([[1, 3], [2, 2]])
COMPLETIONS = jnp.array([[[1, 0, 0], [2, 1, 0]], [[0, 2, 0], [1, 1, 0]]])
TOKENS = types.Tokens(
  prompts=PROMPTS,
  prompt_mask=PROMPTS > 0,
  completions=COMPLETIONS,
  lengths=LENGTHS,
  mask=jnp.arange(3) < LENGTHS[..., None],
)
ROLLOUT = worked_example.rollout(np.zeros((2, 2))).replace(tokens=TOKENS)
# Hidden states are numbered; the heads are linear functions of them.
HIDDEN = jnp.arange(24.0).reshape(2, 2, 3, 2) / 10
TO_LOGITS = jnp.array([[1.0, -1.0, 0.5], [0.2, 0.3, -0.4]])
HEADS = {"logits": lambda h: h @ TO_LOGITS, "value": lambda h: h[..., 0]}


def _policy(calls=None, local=None):
  """A policy that multiplies its hidden states by its only parameter."""

  def score(params, tokens):
    if calls is not None:
      calls.append((params, tokens.completions.shape))
    p, s, t = tokens.completions.shape
    hidden = params * HIDDEN[tokens.prompts[:, -1] % 2, :s, :t][:p]
    return types.Scored(hidden, HEADS, **({"local": local} if local else {}))

  return types.Policy(score, None, None)


def _log_softmax(logits):
  logits = np.asarray(logits, np.float64)
  return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


# The last tokens of the prompts are 6 and 9, which are even and odd: prompt p
# has the hidden states `HIDDEN[p]`.
LOGITS = np.asarray(HIDDEN) @ np.asarray(TO_LOGITS)


def test_log_probs_and_entropy_are_those_of_the_tempered_logits():
  values = scoring.read(
    _policy(),
    1.0,
    TOKENS,
    [scoring.log_probs, scoring.entropy, scoring.values],
    types.Named(),
    temperature=2.0,
  )
  log_p = _log_softmax(LOGITS / 2)
  chosen = np.take_along_axis(log_p, np.asarray(COMPLETIONS)[..., None], -1)
  close(values["log_probs"], chosen[..., 0], rtol=1e-5)
  close(values["entropy"], -(np.exp(log_p) * log_p).sum(-1), rtol=1e-5)
  # The value head gives no logits, and is not divided by the temperature.
  close(values["values"], HIDDEN[..., 0], rtol=1e-6)
  untempered = scoring.read(
    _policy(), 1.0, TOKENS, [scoring.entropy], types.Named()
  )
  log_p = _log_softmax(LOGITS)
  close(untempered["entropy"], -(np.exp(log_p) * log_p).sum(-1), rtol=1e-5)


def test_a_probe_may_read_hidden_states_and_other_values():
  """And it may have further axes, in chunks as well as at once."""
  need = Need("old", Probe("weights", lambda *_: None))
  probe = Probe(
    "outer",
    lambda hidden, ids, read: hidden * ids[:, None] + read,
    head="hidden",
    reads=(need,),
  )
  # A read with an axis of its own, of the size of the hidden states.
  read = 100 * jnp.arange(24.0).reshape(2, 2, 3, 2)
  want = np.asarray(HIDDEN) * np.asarray(COMPLETIONS)[..., None] + read
  extras = types.Named({str(need): read})
  at_once = scoring.read(_policy(), 1.0, TOKENS, [probe], extras)["outer"]
  close(at_once, want, rtol=1e-6)
  for chunk in (1, 4, 5):
    parts = scoring.read(_policy(), 1.0, TOKENS, [probe], extras, 1.0, chunk)[
      "outer"
    ]
    scored = np.asarray(TOKENS.mask)[..., None]
    close(parts, np.where(scored, want, 0), rtol=1e-6, err_msg=chunk)
  # A chunk of all S * T = 6 positions leaves values outside of the mask.
  single = scoring.read(_policy(), 1.0, TOKENS, [probe], extras, 1.0, 6)
  close(single["outer"], want, rtol=1e-6)


def test_probes_of_each_depth_have_a_pass_of_their_own():
  """A policy is called with two arguments unless the pass stops early."""
  calls = []

  def score(params, tokens, *depth):
    calls.append(depth)
    hidden = params * HIDDEN * (depth[0] if depth else 1)
    return types.Scored(hidden, {} if depth else HEADS)

  policy = types.Policy(score, None, None)

  def hidden_at(depth):
    return Probe(f"h{depth}", lambda h, ids: h, head="hidden", depth=depth)

  early, later, final = map(hidden_at, (0.25, 0.5, 1.0))
  probes = [later, final, scoring.values, early]
  values = scoring.read(policy, 2.0, TOKENS, probes, types.Named())
  assert calls == [(0.25,), (0.5,), ()]
  for depth in (0.25, 0.5, 1.0):
    close(values[f"h{depth}"], 2 * depth * HIDDEN, rtol=1e-6)
  close(values["values"], 2 * HIDDEN[..., 0], rtol=1e-6)
  needs = [Need("old", probe) for probe in probes]
  rollout = scoring.passes(policy, {"old": 2.0}, needs, ROLLOUT)
  close(rollout.extras[needs[0]], HIDDEN, rtol=1e-6)
  assert Probe("h", early.fn, "hidden", depth=0.5) != Probe(
    "h", early.fn, "hidden"
  )


def test_chunks_go_on_to_the_end_of_the_prompt_with_most_tokens():
  """The first prompt has 4 scored positions, and the second one 1."""
  lengths = jnp.array([[1, 3], [0, 1]])
  mask = jnp.arange(3) < lengths[..., None]
  tokens = TOKENS.replace(lengths=lengths, mask=mask)
  at_once, in_chunks = (
    scoring.read(
      _policy(), 1.0, tokens, [scoring.entropy], types.Named(), 1.0, chunk
    )["entropy"]
    for chunk in (6, 1)
  )
  close(in_chunks, np.where(mask, at_once, 0), rtol=1e-6)
  assert in_chunks[0, 1, 2] > 0.1


def test_probes_of_two_heads_are_read_from_their_own_head():
  def first(output, ids):
    del ids
    return output[:, 0]

  doubled = {**HEADS, "double": lambda h: 2 * h @ TO_LOGITS}
  policy = types.Policy(
    lambda params, tokens: types.Scored(HIDDEN, doubled), None, None
  )
  probes = [
    Probe("plain", first),
    Probe("double", first, head="double"),
    Probe("scaled", first, head="double", logits=True),
    Probe("raw", first, logits=False),
  ]
  values = scoring.read(
    policy, 1.0, TOKENS, probes, types.Named(), temperature=4.0
  )
  first_logits = LOGITS[..., 0]
  close(values["plain"], first_logits / 4, rtol=1e-5)
  close(values["double"], 2 * first_logits, rtol=1e-5)
  close(values["scaled"], 2 * first_logits / 4, rtol=1e-5)
  close(values["raw"], first_logits, rtol=1e-5)


def test_no_probe_needs_no_forward_pass():
  calls = []
  assert scoring.read(_policy(calls), 1.0, TOKENS, [], types.Named()) == {}
  assert not calls


def test_all_heads_of_the_policy_may_be_read_at_once():
  probes = [
    scoring.log_probs,
    scoring.values,
    Probe("hidden", lambda hidden, ids: hidden, head="hidden"),
  ]
  values = scoring.read(_policy(), 1.0, TOKENS, probes, types.Named())
  assert list(values) == ["hidden", "log_probs", "values"]
  close(values["hidden"], HIDDEN)


def test_a_missing_head_is_named():
  probe = Probe("other", lambda output, ids: output, head="rank")
  with pytest.raises(
    ValueError, match=r"no head \['rank'\]; heads: \['hidden'"
  ):
    scoring.read(
      _policy(), 1.0, TOKENS, [scoring.log_probs, probe], types.Named()
    )


def test_stopped_probes_have_no_slope():
  def slope(probes, stopped):
    def total(params):
      values = scoring.read(
        _policy(), params, TOKENS, probes, types.Named(), 1.0, None, stopped
      )
      return sum(value.sum() for value in values.values())

    return float(jax.grad(total)(1.0))

  both = [scoring.values, scoring.entropy]
  of_values = float(HIDDEN[..., 0].sum())
  close(slope([scoring.values], [scoring.entropy]), of_values, rtol=1e-6)
  assert slope([], both) == 0
  # A probe in both lists is differentiated.
  close(slope([scoring.values], both), of_values, rtol=1e-6)


@pytest.mark.parametrize(
  ("probes", "limit", "sizes"),
  [
    # S T = 6 positions of a prompt fit at once if P * 3 logits * 6 do.
    ((scoring.log_probs, scoring.values), 36, {12}),
    ((scoring.log_probs, scoring.values), 35, {10}),
    # The hidden states are two numbers wide.
    ((Probe("hidden", lambda h, ids: h[:, 0], head="hidden"),), 24, {12}),
    ((Probe("hidden", lambda h, ids: h[:, 0], head="hidden"),), 23, {10}),
    # The smallest chunk, 4 here, may exceed the limit.
    ((scoring.log_probs,), 1, {8}),
  ],
)
def test_a_chunk_is_as_large_as_the_widest_head_allows(
  monkeypatch, probes, limit, sizes
):
  monkeypatch.setattr(scoring, "_MAX_HEAD_OUTPUT", limit)
  monkeypatch.setattr(scoring, "_MIN_CHUNK", 4)
  seen = set()

  def counted(probe):
    def fn(output, ids):
      seen.add(len(ids))
      return probe.fn(output, ids)

    return dataclasses.replace(probe, fn=fn)

  scoring.read(
    _policy(), 1.0, TOKENS, [counted(p) for p in probes], types.Named()
  )
  assert seen == sizes


def test_a_head_may_return_half_a_gigabyte_at_a_time():
  assert 4 * scoring._MAX_HEAD_OUTPUT == 512 * 1024**2
  assert scoring._MIN_CHUNK == 16


def test_chunks_are_evaluated_where_the_policy_puts_them():
  places = []

  def local(fn):
    def wrapped(heads, hidden, completions, support, reads, mask):
      places.append((set(heads), mask.shape))
      return fn(heads, hidden, completions, support, reads, mask)

    return wrapped

  policy = _policy(local=local)
  scoring.read(policy, 1.0, TOKENS, [scoring.values], types.Named())
  assert places == [({"logits", "value"}, (2, 2, 3))]


# Needs.


def test_a_need_is_named_by_source_view_and_probe():
  need = Need("ref", scoring.entropy, "prompt")
  assert str(need) == "ref@prompt/entropy"
  assert str(Need("ref", scoring.entropy)) == "ref/entropy"
  # Functions are not compared.
  assert need == Need("ref", Probe("entropy", lambda x, ids: x), "prompt")
  assert need != Need("ref", scoring.entropy)
  assert len({need, Need("ref", scoring.entropy, "prompt")}) == 1
  inner = Need("ema", Probe("inner", lambda x, ids: x, reads=(need,)))
  outer = Need("old", Probe("outer", lambda x, ids: x, reads=(inner,)))
  assert outer.sources == {"old", "ema", "ref"}
  assert str(scoring.provided("task", "durations")) == "task/durations"
  for value in (need, scoring.entropy):
    with pytest.raises(dataclasses.FrozenInstanceError):
      value.name = "other"


def test_host_needs_are_computed_by_numpy_in_float32():
  reads = scoring.provided("task", "factor")
  per_sample = scoring.host(
    "sum",
    lambda r: r.scores.astype(np.float64) * r.extras[reads],
    level="sample",
    reads=[reads],
  )
  per_token = scoring.host("mask", lambda r: r.mask)
  assert (per_token.probe.level, per_sample.probe.level) == ("token", "sample")
  assert per_sample.probe.reads == (reads,)
  rollout = ROLLOUT.replace(
    scores=jnp.array([[1.0, 2.0], [3.0, 4.0]]),
    extras=types.Named({str(reads): jnp.float32(2.0)}),
  )
  extras = scoring.compute_on_host(
    [per_sample, per_token, LOG_PROBS], rollout
  ).extras
  assert set(extras.arrays) == {"task/factor", "host/sum", "host/mask"}
  assert extras[per_sample].dtype == extras[per_token].dtype == np.float32
  assert extras[per_sample].tolist() == [[2, 4], [6, 8]]
  assert scoring.compute_on_host([LOG_PROBS], rollout) is rollout


# Views.


def test_the_view_of_prompts_scores_all_but_their_first_token():
  prompts = jnp.array([[0, 0, 5, 6], [4, 7, 8, 9], [0, 0, 0, 3], [0, 0, 0, 0]])
  tokens = TOKENS.replace(prompts=prompts, prompt_mask=prompts > 0)
  view = scoring.view_tokens(ROLLOUT.replace(tokens=tokens), "prompt")
  assert view.mask.astype(int).tolist() == [
    [[1, 0, 0]],
    [[1, 1, 1]],
    [[0, 0, 0]],
    [[0, 0, 0]],
  ]
  assert view.lengths.tolist() == [[1], [3], [0], [0]]
  assert view.prompts[:3].tolist() == [[5], [4], [3]]
  assert view.prompt_mask.tolist() == [[True], [True], [True], [False]]
  assert view.completions[0, 0, 0] == 6
  assert view.completions[1, 0].tolist() == [7, 8, 9]


def test_the_view_alone_keeps_the_first_token_of_a_prompt():
  prompts = jnp.array([[0, 0, 5, 6], [0, 0, 0, 0]])
  tokens = TOKENS.replace(prompts=prompts, prompt_mask=prompts > 0)
  view = scoring.view_tokens(ROLLOUT.replace(tokens=tokens), "alone")
  assert view.prompts.tolist() == [[5], [0]]
  assert view.prompt_mask.tolist() == [[True], [False]]
  np.testing.assert_array_equal(view.completions, COMPLETIONS)
  # In a view, every sample may have a prompt of its own.
  prompts = jnp.array([[[0, 5, 6], [7, 8, 9]], [[0, 0, 4], [0, 2, 3]]])
  tokens = TOKENS.replace(prompts=prompts, prompt_mask=prompts > 0)
  view = scoring.view_tokens(ROLLOUT.replace(tokens=tokens), "alone")
  assert view.prompts.tolist() == [[[5], [7]], [[4], [2]]]
  assert view.prompt_mask.all()


def test_other_views_are_those_of_the_task():
  other = TOKENS.replace(lengths=LENGTHS + 1)
  rollout = ROLLOUT.replace(views={"answer": other})
  assert scoring.view_tokens(rollout, "") is rollout.tokens
  assert scoring.view_tokens(rollout, "answer") is other
  with pytest.raises(ValueError, match=r"'hint'.*available: \['answer'\]"):
    scoring.view_tokens(rollout, "hint")


# Passes.


def test_needs_with_the_same_parameters_and_text_share_a_pass():
  calls = []
  needs = [
    LOG_PROBS,
    Need("old", scoring.entropy),
    Need("ref", scoring.values),
    Need("ref", scoring.values, "prompt"),
  ]
  rollout = scoring.passes(
    _policy(calls), {"old": 1.0, "ref": 3.0}, needs, ROLLOUT, 2.0
  )
  assert sorted(calls) == [
    (1.0, (2, 2, 3)),
    (3.0, (2, 1, 3)),
    (3.0, (2, 2, 3)),
  ]
  assert set(rollout.extras.arrays) == set(map(str, needs))
  close(rollout.extras[needs[2]], 3 * HIDDEN[..., 0], rtol=1e-6)
  log_p = _log_softmax(LOGITS / 2)
  entropy = -(np.exp(log_p) * log_p).sum(-1)
  close(rollout.extras[needs[1]], entropy, rtol=1e-5)
  # At the default temperature, and in two slices of one prompt each.
  calls.clear()
  untempered = scoring.passes(
    _policy(calls), {"old": 1.0}, needs[:1], ROLLOUT, parts=2
  )
  assert calls == [(1.0, (1, 2, 3))]  # traced once
  log_p = _log_softmax(LOGITS)
  chosen = np.take_along_axis(log_p, np.asarray(COMPLETIONS)[..., None], -1)
  close(untempered.extras[LOG_PROBS], chosen[..., 0], rtol=1e-5)


def test_a_probe_that_reads_two_needs_is_computed_after_both():
  """Also if only one of them comes from a pass of its own source."""

  def add(values, ids, first, second):
    del ids
    return values + 10 * first + 100 * second

  first, second = Need("a", scoring.values), Need("z", scoring.values)
  probe = Probe("sum", add, head="value", reads=(first, second))
  both = Need("m", probe)
  rollout = scoring.passes(
    _policy(),
    {"a": 2.0, "m": 1.0, "z": 3.0},
    [both, first, second],
    ROLLOUT,
  )
  close(rollout.extras[both], (1 + 20 + 300) * HIDDEN[..., 0], rtol=1e-6)


def test_values_of_passes_are_not_differentiated():
  def total(params):
    rollout = scoring.passes(_policy(), {"old": params}, [LOG_PROBS], ROLLOUT)
    return rollout.extras[LOG_PROBS].sum()

  assert float(jax.grad(total)(1.0)) == 0


def test_arrays_that_no_pass_computes_must_be_there():
  calls = []
  for source, reason in scoring.EXTERNAL_SOURCES.items():
    need = scoring.provided(source, "x")
    if source == "prepared":  # it is added later
      assert scoring.passes(_policy(calls), {}, [need], ROLLOUT) is ROLLOUT
      continue
    with pytest.raises(ValueError, match=f"no {source}/x: {reason}"):
      scoring.passes(_policy(calls), {}, [need], ROLLOUT)
    complete = ROLLOUT.replace(extras=types.Named({str(need): jnp.ones(())}))
    assert scoring.passes(_policy(calls), {}, [need], complete) is complete
  assert not calls


def test_needs_that_cannot_be_computed_are_named():
  with pytest.raises(ValueError, match=r"\['old/log_probs'\].*has \['ref'\]"):
    scoring.passes(_policy(), {"ref": 1.0}, [LOG_PROBS], ROLLOUT)
  missing = Need("ref", scoring.entropy)
  probe = Probe("reader", lambda x, ids, read: x, reads=(missing,))
  with pytest.raises(ValueError, match=r"'old/reader'.*read needs that are"):
    scoring.passes(
      _policy(), {"old": 1.0}, [Need("old", probe), LOG_PROBS], ROLLOUT
    )


def test_the_gradient_of_a_log_prob_is_the_choice_minus_the_softmax():
  """The gradient is written by hand."""
  logits = np.array([[0.0, np.log(2.0), np.log(5.0)], [3.0, 3.0, 3.0]])
  tokens, weights = np.array([2, 0]), np.array([2.0, -1.0])
  softmax = np.array([[1 / 8, 2 / 8, 5 / 8], [1 / 3, 1 / 3, 1 / 3]])
  log_probs, pull = jax.vjp(
    lambda x: scoring.log_probs.fn(x, jnp.asarray(tokens)), jnp.asarray(logits)
  )
  close(log_probs, np.log([5 / 8, 1 / 3]), rtol=1e-6)
  choice = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
  (gradient,) = pull(jnp.asarray(weights, log_probs.dtype))
  close(gradient, weights[:, None] * (choice - softmax), rtol=1e-5)


def test_entropy_is_that_of_the_softmax():
  probabilities = np.array([[1 / 8, 2 / 8, 5 / 8], [1 / 3, 1 / 3, 1 / 3]])
  # A number that is added to all logits changes nothing.
  logits = jnp.asarray(np.log(probabilities) + 40.0)
  expected = -(probabilities * np.log(probabilities)).sum(-1)
  close(scoring.entropy.fn(logits, None), expected, rtol=1e-5)
