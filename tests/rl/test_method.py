"""Tests of every method: needs, parameter sets, ratios, skipped updates."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import tabular_policy

from rl import (
  UsageError,
  method_loss,
  methods,
  parameter_sets,
  registry,
  scoring,
  step,
  training_state,
  transforms,
)
from rl import method as methods_core
from rl.losses import ratios, surrogates, terms
from rl.metrics import Tally
from rl.reward import Reward
from rl.sampling import samplers
from rl.transforms import LevelError, chain
from rl.update_plan import Plan


def test_an_unknown_method_or_setting_names_the_nearest():
  with pytest.raises(ValueError, match="'max_at'; did you mean 'max_at_k'"):
    methods.get("max_at")
  with pytest.raises(ValueError, match=r"'kk'; did you mean 'k'.*baseline"):
    methods.get("max_at_k", kk=2)
  with pytest.raises(ValueError, match="'K'; did you mean 'k'"):
    methods.get("max_at_k", K=2)


def test_a_method_has_a_family_and_a_label_with_its_settings():
  assert methods.family("ppo") == "critic"
  assert methods.get("max_at_k").name == "max_at_k"
  assert (
    methods.get("max_at_k", k=2, clip=0.1).name == "max_at_k(k=2, clip=0.1)"
  )
  learners = methods.get("prime", beta=0.1)
  assert learners["policy"].name == "prime(beta=0.1)"
  assert learners["prm"].name == "prime(beta=0.1): prm"


@pytest.mark.parametrize(
  ("name", "hyper", "message"),
  [
    ("max_at_k", {"clip": "a"}, "max_at_k: clip = 'a' must be float, .* 0.2$"),
    ("max_at_k", {"k": 4.0}, "k = 4.0 must be int, for example 4$"),
    ("max_at_k", {"k": True}, "k = True must be int"),
    ("topr", {"positive": 1}, r"positive = 1 must be tuple\[float, float\], "),
    ("gdpo", {"names": ("a", 3)}, r"names = .* must be tuple\[str, ...\] \|"),
    ("top_minus_second", {"scaled": 1}, "scaled = 1 must be bool, .* False$"),
  ],
)
def test_a_hyper_parameter_of_another_type_is_refused(name, hyper, message):
  with pytest.raises(ValueError, match=message):
    methods.get(name, **hyper)


def test_values_of_the_annotated_types_are_taken():
  methods.get("flex_clip", upper=(-0.5, 0))
  methods.get("canon", horizon=None, mu=1)
  methods.get("gdpo", names=["a", "b"], weights=(1, np.float32(2)))


def test_variadic_arguments_of_a_factory_are_not_checked():
  def make(a: int, *more, b: "Unknown" = 0, **others):  # noqa: F821
    return a, more, b, others

  registry.check_settings("setting", "it", make, {"a": 1, "b": "c", "d": None})
  with pytest.raises(ValueError, match=r"it needs a value of 'a'$"):
    registry.check_settings("setting", "it", make, {"more": 1})
  with pytest.raises(ValueError, match=r"it: a = 'x' must be int$"):
    registry.check_settings("setting", "it", make, {"a": "x"})


def test_one_update_needs_no_old_pass():
  """The old policy of a single update is the current one."""
  m = methods.get("pass_at_k", k=2)
  policy, rollout, params = (
    tabular_policy.policy,
    tabular_policy.rollout(),
    tabular_policy.params(),
  )
  old = scoring.Need("old", scoring.log_probs)
  scored = scoring.passes(policy, {"old": params}, {old}, rollout)

  @jax.jit
  def gradient(rollout):
    batch, term_weights, _ = method_loss.prepare(m, rollout, m.init())
    return method_loss.gradient(m, policy, params, batch, term_weights, Plan())[
      0
    ]

  jax.tree.map(
    np.testing.assert_array_equal, gradient(rollout), gradient(scored)
  )


@pytest.mark.parametrize("name", ["rloo", "reinforce"])
def test_a_strictly_on_policy_method_refuses_a_second_update(name):
  m, plan = methods.get(name), Plan(epochs=2)
  with pytest.raises(ValueError, match=f"{name}.*strictly on-policy"):
    step.make(m, tabular_policy.policy, optax.sgd(0.1), plan)


def spread_to_top_token():
  """A term with a probe of the policy that reads a pass, as SimKO has."""
  top = scoring.Need(
    "old", scoring.Probe("top", lambda logits, ids: jnp.argmax(logits, -1))
  )
  at_top = scoring.Need(
    "policy",
    scoring.Probe(
      "log_probs_at_top",
      lambda logits, ids, best: jnp.take_along_axis(
        jax.nn.log_softmax(logits), best[:, None], -1
      )[:, 0],
      reads=(top,),
    ),
  )

  @terms.term(takes="none", gives="token", needs={at_top})
  def spread(_, policy, rollout):
    del rollout
    return -policy["log_probs_at_top"]

  return methods_core.Method(spread())


def test_a_probe_that_reads_a_pass_gets_it_with_one_update_and_with_many():
  """Needs that the probes of a loss read are needs of the method."""
  m = spread_to_top_token()
  rollout, params = tabular_policy.rollout(), tabular_policy.params()
  method_loss.check(m, tabular_policy.policy, {"policy": params}, rollout)
  logits = params["hidden"][..., : tabular_policy.V]
  best = jax.nn.log_softmax(logits).max(-1)
  want = -jnp.sum(jnp.where(rollout.valid("token"), best, 0.0))
  for updates in (1, 2):
    needs = method_loss.required(m, updates)
    scored = scoring.passes(
      tabular_policy.policy, {"old": params}, needs, rollout
    )
    batch, term_weights, _ = method_loss.prepare(m, scored, m.init())
    aggregation = method_loss.aggregation_weights(m, batch)
    got, _ = method_loss.loss(
      m, tabular_policy.policy, params, batch, aggregation, term_weights
    )
    np.testing.assert_allclose(
      got, want / rollout.valid("token").sum(), rtol=1e-5
    )


def test_a_moving_average_moves_in_bfloat16_too():
  """200 steps with a decay of 0.999 cover 1 - 0.999^200 of the distance."""
  rule = parameter_sets.ema(0.999)
  average = rule.init({"w": jnp.ones((), jnp.bfloat16)})
  target = {"w": jnp.full((), 2.0, jnp.bfloat16)}
  for i in range(200):
    average = rule.update(average, target, jnp.asarray(i))
  np.testing.assert_allclose(average["w"], 2 - 0.999**200, rtol=1e-4)


def test_parameter_sets_are_updated_every_so_many_steps():
  params = {"w": jnp.full((), 5.0)}
  old = {"w": jnp.zeros(())}
  at = lambda rule, i: float(rule.update(old, params, jnp.asarray(i))["w"])  # noqa: E731
  assert [at(parameter_sets.sync(3), i) for i in range(4)] == [0, 0, 5, 0]
  assert [at(parameter_sets.frozen(), i) for i in range(2)] == [0, 0]
  assert [at(parameter_sets.ema(0.5, every=2), i) for i in range(2)] == [0, 2.5]


def test_sequence_ratios_carry_the_sequence_and_keep_each_tokens_gradient():
  """Mean (GSPO) and sum of the tokens' ratios; equal to these at T = 1."""
  rng = np.random.default_rng(0)
  new, old = jnp.asarray(rng.normal(size=(2, 1, 1, 4)), jnp.float32)
  mask = jnp.array([[[True, True, True, False]]])
  for ratio, total in (
    (ratios.sequence_mean, np.mean),
    (ratios.sequence, np.sum),
  ):
    value = ratio(new, old, mask)
    want = total(np.asarray(new - old)[0, 0, :3])
    np.testing.assert_allclose(value[0, 0, :3], want, rtol=1e-5)
    slope = jax.grad(lambda n, r=ratio: r(n, old, mask)[0, 0, 1])(new)
    np.testing.assert_array_equal(slope, [[[0, 1, 0, 0]]])
    one = ratio(new[..., :1], old[..., :1], mask[..., :1])
    np.testing.assert_allclose(one, ratios.token(new, old, mask)[..., :1])


@pytest.mark.parametrize(
  ("field", "at"), [("scores", (2, 1)), ("step_scores", (2, 1, 0))]
)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_score_that_is_not_finite_makes_the_step_a_no_op(field, at, value):
  """No part of the state changes, and metrics name the sample."""
  rollout = tabular_policy.rollout(ragged=False)
  rollout = rollout.replace(
    **{field: getattr(rollout, field).at[at].set(value)},
    prompt_ids=10 * rollout.prompt_ids,
  )
  m = methods.get("reinforce")
  tx = optax.adam(0.1)
  state = training_state.init(m, tabular_policy.params(), tx, jax.random.key(0))
  train_step = jax.jit(step.make(m, tabular_policy.policy, tx, Plan()))
  after, metrics = train_step(state, rollout)
  jax.tree.map(np.testing.assert_array_equal, after.learners, state.learners)
  assert int(after.step) == 1
  assert metrics["optim/skipped"] == 1
  assert metrics["guard/bad_prompt"] == 20
  assert metrics["guard/bad_sample"] == 1
  masked_out = rollout.replace(
    sample_mask=rollout.sample_mask.at[2, 1].set(False)
  )
  _, metrics = train_step(state, masked_out)
  assert metrics["guard/bad_sample"] == -1
  assert metrics["optim/skipped"] == 0


def test_an_update_far_from_its_sampler_is_skipped():
  """PURE skips updates whose mean ratio exceeds 10."""
  m, tx, plan = methods.get("grpo", beta=0.0), optax.sgd(0.1), Plan(2)
  rollout, params = tabular_policy.rollout(), tabular_policy.params()
  state = training_state.init(m, params, tx, jax.random.key(0))
  assert (
    jax.jit(step.make(m, tabular_policy.policy, tx, plan))(state, rollout)[1][
      "optim/skipped"
    ]
    == 0
  )
  strict = dataclasses.replace(plan, max_mean_ratio=0.5)
  after, metrics = jax.jit(step.make(m, tabular_policy.policy, tx, strict))(
    state, rollout
  )
  assert metrics["optim/skipped"] == 2
  np.testing.assert_array_equal(after.params["hidden"], params["hidden"])


def test_two_terms_that_log_one_metric_are_averaged_over_both():
  """Each term logs half of the tokens."""
  x = jnp.array([1.0, 2.0, 3.0, 6.0])
  first, second = jnp.arange(4) < 2, jnp.arange(4) >= 2
  tally = Tally().add({"a": x, "a_max": x}, first)
  tally = tally.add({"a": x, "a_max": x}, second)
  merged = jax.tree.map(lambda v: v[None], tally).merge()
  assert merged["a"] == 3
  assert merged["a_max"] == 6


def test_means_are_over_all_entries_and_sums_over_the_mean_update():
  """Two updates of two microbatches; the last microbatch has no entries."""
  tally = Tally(
    sums={"loss": jnp.array([[1.0, 2.0], [3.0, 4.0]])},
    totals={"a": jnp.array([[6.0, 2.0], [4.0, 0.0]])},
    weights={"a": jnp.array([[3.0, 1.0], [2.0, 0.0]])},
    maxima={"a_max": jnp.array([[5.0, 7.0], [1.0, -jnp.inf]])},
  )
  assert tally.merge() == {"loss": 5.0, "a": 2.0, "a_max": 7.0}


def test_an_update_without_tokens_lowers_no_mean():
  """The second minibatch has no group with a signal."""
  rollout, params = (
    tabular_policy.rollout(p=2, ragged=False),
    tabular_policy.params(),
  )
  correct = rollout.correct.at[0, 0].set(1).at[0, 1].set(0).at[1].set(1)
  rollout = rollout.replace(correct=correct)
  m, tx = methods.get("dapo"), optax.sgd(1e-3)
  state = training_state.init(m, params, tx, jax.random.key(0))
  plan = Plan(minibatches=2)
  _, metrics = jax.jit(step.make(m, tabular_policy.policy, tx, plan))(
    state, rollout
  )
  assert metrics["optim/skipped"] == 1
  np.testing.assert_allclose(metrics["policy/ratio_mean"], 1.0, rtol=1e-5)


def test_microbatches_add_up_in_float32_whatever_the_parameters():
  """A sum of 512 equal parts in bfloat16 would stop at half of it."""
  one = tabular_policy.rollout(p=1, ragged=False)
  same = jnp.zeros(512, int)
  rollout = jax.tree.map(lambda x: x[same] if x.ndim else x, one)
  m = methods_core.Method(loss=terms.nll())

  def gradient(microbatches, dtype):
    params = jax.tree.map(lambda p: p.astype(dtype), tabular_policy.params(p=1))
    batch, term_weights, _ = method_loss.prepare(m, rollout, m.init())
    plan = Plan(microbatches=microbatches)
    grads, _ = method_loss.gradient(
      m, tabular_policy.policy, params, batch, term_weights, plan
    )
    assert grads["hidden"].dtype == dtype
    return np.asarray(grads["hidden"], np.float32)

  expected = gradient(512, jnp.float32)
  np.testing.assert_allclose(
    gradient(512, jnp.bfloat16), expected, atol=0.02 * np.abs(expected).max()
  )


def test_later_updates_keep_the_old_policy_and_take_the_minibatches_in_turn():
  rollout, params = tabular_policy.rollout(), tabular_policy.params()
  m, tx = methods.get("grpo", beta=0.0), optax.sgd(2.0)
  state = training_state.init(m, params, tx, jax.random.key(0))
  plan = Plan(epochs=2, minibatches=2)
  new, _ = jax.jit(step.make(m, tabular_policy.policy, tx, plan))(
    state, rollout
  )
  needs = method_loss.required(m, updates=4)

  @jax.jit
  def four_updates(now, rollout):
    sources = {"old": now}
    scored = scoring.passes(tabular_policy.policy, sources, needs, rollout)
    batch, term_weights, _ = method_loss.prepare(m, scored, m.init())
    for part in (0, 1, 0, 1):
      cut = jax.tree.map(lambda x, i=part: x[i::2] if x.ndim else x, batch)
      grads, _ = method_loss.gradient(
        m, tabular_policy.policy, now, cut, term_weights, Plan()
      )
      now = jax.tree.map(lambda p, g: p - 2.0 * g, now, grads)
    return now

  now = four_updates(params, rollout)
  assert np.abs(now["hidden"] - params["hidden"]).max() > 0.01
  np.testing.assert_allclose(
    new.params["hidden"], now["hidden"], rtol=1e-5, atol=1e-6
  )


def test_parameter_sets_follow_the_policy_through_the_train_step():
  rollout, params = tabular_policy.rollout(), tabular_policy.params()
  rules = {
    "before": parameter_sets.previous(),
    "copy": parameter_sets.sync(2),
    "mean": parameter_sets.ema(0.5),
  }
  m = dataclasses.replace(
    methods.get("reinforce"), parameter_sets=tuple(rules.items())
  )
  tx = optax.sgd(1.0)
  train_step = jax.jit(step.make(m, tabular_policy.policy, tx, Plan()))
  states = [training_state.init(m, params, tx, jax.random.key(0))]
  for _ in range(2):
    states.append(train_step(states[-1], rollout)[0])
  p0, p1, p2 = (state.params["hidden"] for state in states)
  assert not np.allclose(p0, p1)
  assert not np.allclose(p1, p2)
  for state, want in (
    (states[1], {"before": p0, "copy": p0, "mean": (p0 + p1) / 2}),
    (states[2], {"before": p1, "copy": p2, "mean": p0 / 4 + p1 / 4 + p2 / 2}),
  ):
    for name, value in want.items():
      np.testing.assert_allclose(
        state.parameter_sets[name]["hidden"], value, atol=1e-6, err_msg=name
      )


def test_a_lag_has_the_parameters_of_exactly_so_many_steps_ago():
  lag, steps = 3, 7
  rollout, params = tabular_policy.rollout(), tabular_policy.params()
  m = dataclasses.replace(
    methods.get("reinforce"),
    parameter_sets=(("past", parameter_sets.lag(lag)),),
  )
  tx = optax.sgd(1.0)
  train_step = jax.jit(step.make(m, tabular_policy.policy, tx, Plan()))
  state = training_state.init(m, params, tx, jax.random.key(0))
  starts = []
  for i in range(steps):
    starts.append(np.asarray(state.params["hidden"]))
    np.testing.assert_array_equal(
      state.parameters["past"]["hidden"], starts[max(0, i - lag)], str(i)
    )
    state, _ = train_step(state, rollout)
  differences = [np.abs(b - a).max() for a, b in itertools.pairwise(starts)]
  assert min(differences) > 1e-3  # so that another lag has other parameters
  assert len(state.parameter_sets["past"]) == lag


def test_a_term_on_a_view_takes_no_filter_of_tokens_of_the_rollout():
  everywhere = transforms.broadcast()
  keep = transforms.chain(transforms.mixed_verdicts(), everywhere)
  view = terms.nll("reference")
  for loss, shared in ((view, keep), (view.of(loss_filter=keep), None)):
    with pytest.raises(LevelError, match="whose tokens are not the rollout's"):
      methods_core.Method(loss=loss, loss_filter=shared)


def test_a_vector_cannot_be_prepared():
  """Its first axis is not that of prompts, along which a batch is cut."""
  with pytest.raises(LevelError, match="prepared parts"):
    methods_core.Method(
      terms.nll(), prepared=(("parts", transforms.components(("format",))),)
    )


# The value `Method` itself.

PPO = terms.policy_gradient(surrogates.ppo_clip())
SCORES = chain(transforms.scores(), transforms.center())
EMA = ("ema", parameter_sets.ema(0.5))
FURTHER = methods_core.FurtherUpdates(terms.nll(), "kl_max", 0.25, 7)


def _lines(m):
  """Returns the lines that a method prints, with single spaces."""
  return [" ".join(line.split()) for line in str(m).splitlines()]


def test_a_method_prints_every_part_with_its_level():
  finished = transforms.finished()
  m = methods_core.Method(
    PPO + 0.5 * terms.kl() + terms.entropy().of(SCORES, finished),
    chain(transforms.scores(), transforms.minus_running_mean()),
    sample_filter=transforms.mixed_verdicts(),
    loss_filter=finished,
    parameter_sets=(("ref", parameter_sets.frozen()), EMA),
    prepared=(
      ("chance", chain(transforms.probe(scoring.Need("ema", scoring.values)))),
    ),
    reward=Reward((("length", transforms.scores()),), None),
    sampler=samplers.greedy(),
    behavior="ema",
    further_updates=(FURTHER,),
    name="everything",
  )
  ppo = "policy_gradient(ppo_clip(low=0.2, high=0.2), token ratio to old)"
  running = "minus_running_mean(decay=0.95)"
  assert _lines(m) == [
    "everything",
    "reward reward sample",
    "length: scores() sample",
    "samples mixed_verdicts() sample",
    "advantage scores() sample",
    f"{running} sample",
    "in loss finished() sample",
    f"loss {ppo} token_mean",
    "+ 0.5 * kl(k2, ref) token_mean",
    "+ entropy token_mean",
    "of scores() sample",
    "center() sample",
    "on finished() sample",
    "chance probe(ema/values) token",
    "passes ema: values",
    "old: log_probs",
    "policy: entropy, log_probs",
    "ref: log_probs",
    f"state chain(scores(), {running}): ((), {{'mean': (), 'weight': ()}})",
    "params ref <- frozen()",
    "ema <- ema(decay=0.5, every=1)",
    "sampled greedy() by ema",
    "then nll(completions) until kl_max <= 0.25, at most 7 passes",
  ]
  minimal = methods_core.Method(PPO, SCORES, name="plain")
  assert _lines(minimal) == [
    "plain",
    "advantage scores() sample",
    "center() sample",
    f"loss {ppo} token_mean",
    "passes old: log_probs",
    "policy: log_probs",
  ]
  for change, end in (
    ({"sampler": samplers.greedy()}, "sampled greedy() by policy"),
    ({"behavior": "ema", "parameter_sets": (EMA,)}, "sampled once() by ema"),
  ):
    assert _lines(dataclasses.replace(minimal, **change))[-1] == end


def test_transforms_of_a_method_are_found_by_the_names_of_their_states():
  weight = transforms.probe(scoring.provided("task", "weight"), "scalar")
  loss = PPO + (weight * terms.kl()).of(None, transforms.finished())
  m = methods_core.Method(
    loss + PPO.of(SCORES),
    SCORES,
    loss_filter=transforms.finished(),
    prepared=(("copy", SCORES),),
    reward=Reward((("length", transforms.scores()),), None),
  )
  assert sorted(m.transforms) == [
    *("advantage", "loss_filter", "prepared/copy", "reward/length"),
    *("term1/loss_filter", "term1/weight", "term2/signal"),
  ]
  assert sorted(m.init()) == sorted(m.transforms)
  assert set(map(str, m.signal_needs)) == {"task/weight"}
  reads_weight = methods_core.Method(
    terms.kl(), chain(transforms.probe(scoring.Need("ref", scoring.log_probs)))
  )
  # A need of a transform is not one of the terms.
  assert set(map(str, reads_weight.signal_needs)) == {"ref/log_probs"}
  assert set(map(str, reads_weight.term_needs)) == {"policy/log_probs"}


def test_levels_of_signals_are_checked():
  by_token = chain(transforms.scores(), transforms.place_last())
  # A sample signal may be copied to tokens, and not the other way round.
  methods_core.Method(PPO, SCORES)
  methods_core.Method(PPO, by_token)

  @terms.term(gives="sample")
  def per_sample(signal, policy, rollout):
    return signal

  methods_core.Method(per_sample(), SCORES)
  message = r"per_sample\(\) reads a sample signal but .* gives a token signal"
  with pytest.raises(LevelError, match=message):
    methods_core.Method(per_sample(), by_token)
  with pytest.raises(LevelError, match=r"insert sum_tokens\(\) or mean_tokens"):
    methods_core.Method(per_sample().of(by_token), SCORES)
  # A term without a signal reads no advantage.
  methods_core.Method(terms.nll(), by_token)
  view = terms.nll("answer")
  methods_core.Method(view, by_token, loss_filter=transforms.finished())
  reads = dataclasses.replace(per_sample(), view="answer", needs=frozenset())
  methods_core.Method(reads, SCORES)
  with pytest.raises(LevelError, match="whose tokens are not the rollout's"):
    methods_core.Method(dataclasses.replace(PPO, view="answer"), by_token)


def test_what_is_no_transform_is_refused():
  with pytest.raises(UsageError, match="sample_filter must be a function with"):
    methods_core.Method(PPO, SCORES, sample_filter=lambda rollout: True)


def test_a_factory_without_a_return_is_named(monkeypatch):
  monkeypatch.setattr(methods, "factory", lambda name: lambda k=1: None)
  with pytest.raises(
    UsageError, match=r"mine\(k=2\) must return a Method, not"
  ):
    methods.get("mine", k=2)


def test_the_behavior_policy_is_one_of_the_parameters():
  m = methods_core.Method(PPO, SCORES, parameter_sets=(EMA,), behavior="ema")
  assert m.behavior == "ema"
  with pytest.raises(ValueError, match=r"unknown behavior 'emma'.*policy, ema"):
    dataclasses.replace(m, behavior="emma")
  assert m.optimizer("adam") == "adam"
  assert m.sampler.name == "once()"
  assert FURTHER.as_method().loss.terms[0].name == "nll(completions)"
  for value in (m, FURTHER):
    with pytest.raises(dataclasses.FrozenInstanceError):
      value.loss = None
