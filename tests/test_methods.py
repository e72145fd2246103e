"""The contract that every method inherits by adding one row."""

import dataclasses
import functools
import inspect
import itertools
import pathlib

import free
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from rl import method as methods_core
from rl import methods, objectives, probes, ratios, slots, step, terms, types
from rl.method import prepare


@dataclasses.dataclass(frozen=True)
class Row:
  """One method under contract.

  Attributes:
    hyper: what it is built with.
    signal: the rollout fields whose vanishing leaves nothing to learn: scores
      of 0, unknown verdicts.
    breaks: properties that its definition does not have, each with the reason.
  """

  hyper: dict = dataclasses.field(default_factory=dict)
  signal: tuple[str, ...] = ("scores",)
  breaks: dict = dataclasses.field(default_factory=dict)


_STEPS = ("step_scores", "correct")
_VERDICTS = ("correct",)
ROWS = {
  "grpo": Row({"beta": 0.1}),
  "dr_grpo": Row(),
  "rloo": Row(),
  "reinforce": Row(),
  "dapo": Row(),
  "pass_at_k": Row({"k": 2}),
  "pass_at_k_exceeding": Row({"k": 2}),
  "pass_at_k_combination": Row({"k": 2}),
  "pass_at_k_adaptive": Row({"k": 2}),
  "max_at_k": Row({"k": 2}),
  "max_at_k_off_policy": Row({"k": 2}),
  "bon_mean": Row({"k": 2, "beta": 0.1}),
  "min_form": Row({"verifiable": 0.5}, _STEPS),
  "sum_form": Row({"verifiable": 0.5}, _STEPS),
  "strict_min_form": Row({"verifiable": 0.5}, _STEPS),
  "pure_verl": Row({"verifiable": 0.5}, _STEPS),
  "pure_openrlhf": Row({"verifiable": 0.5}, _STEPS),
  "clip_delta": Row({}, _STEPS),
  "psr": Row({}, _VERDICTS),
  "nsr": Row({}, _VERDICTS),
  "w_reinforce": Row({}, _VERDICTS),
  "noisy_backward": Row(),
  "noisy_forward": Row(
    breaks={"no_signal": "a score of 0 is a rejection, and weighs r1 - 1"}
  ),
}
every_method = pytest.mark.parametrize("name", sorted(ROWS))


def test_every_method_has_its_row_and_its_documentation():
  """Or, where several networks learn, tests of its own."""
  several = [n for n in methods.names() if isinstance(methods.get(n), dict)]
  assert sorted([*ROWS, *several]) == methods.names()
  for name in several:
    assert pathlib.Path(__file__).with_name(f"test_{name}.py").exists()
  for name in methods.names():
    make = getattr(__import__(f"rl.methods.{name}", fromlist=[name]), name)
    doc = inspect.getdoc(make)
    assert "Source:" in doc, name
    for parameter in inspect.signature(make).parameters.values():
      assert parameter.default is not parameter.empty, (name, parameter)


@functools.cache
def compiled(name, microbatches=1):
  """(params, slots, rollout) -> (gradient, advantages), compiled once."""
  m = methods.get(name, **ROWS[name].hyper)
  plan = step.Plan(microbatches=microbatches)

  def run(params, slots, rollout):
    needs = {n for n in m.signal_needs | m.term_needs if n.source != "policy"}
    rollout = probes.passes(
      free.policy, {"old": params, **slots}, needs, rollout
    )
    batch, scales, _ = prepare(m, rollout, m.init())
    found, metrics = step.gradients(m, free.policy, params, batch, scales, plan)
    return found["hidden"], batch.signals[0], metrics

  return jax.jit(run)


def slots_of(name):
  m = methods.get(name, **ROWS[name].hyper)
  return {slot: free.params(9) for slot, _ in m.slots}


def run(name, rollout, params=None, **kwargs):
  params = free.params() if params is None else params
  out = compiled(name, **kwargs)(params, slots_of(name), rollout)
  return jax.tree.map(np.asarray, out)


@every_method
def test_padding_and_invalid_slots_have_exactly_zero_gradient(name):
  clean, dirty = free.rollout(), free.rollout(garbage=np.nan)
  g, a, _ = run(name, clean)
  assert np.abs(g).max() > 0
  outside = ~np.asarray(clean.valid("token"))
  assert not g[outside].any()
  # Far from the reference and from the old policy where nothing is scored.
  far = jnp.asarray(outside)[..., None]
  params = {"hidden": jnp.where(far, 300.0, free.params()["hidden"])}
  g_dirty, a_dirty, _ = run(name, dirty, params)
  np.testing.assert_array_equal(g_dirty, g)
  np.testing.assert_array_equal(a_dirty, a)


@every_method
def test_permuting_the_samples_permutes_everything(name):
  rollout, params = free.rollout(), free.params()
  order = np.random.default_rng(0).permutation(free.S)

  def permute(x):
    is_sampled = jnp.ndim(x) >= 2 and x.shape[:2] == (free.P, free.S)
    return x[:, order] if is_sampled else x

  g, a, _ = run(name, rollout)
  moved = compiled(name)(
    jax.tree.map(permute, params),
    jax.tree.map(permute, slots_of(name)),
    jax.tree.map(permute, rollout),
  )
  np.testing.assert_allclose(moved[0], g[:, order], atol=1e-6)
  np.testing.assert_allclose(moved[1], a[:, order], atol=2e-6)


@every_method
def test_microbatches_change_nothing(name):
  rollout, params = free.rollout(), free.params()
  m = methods.get(name, **ROWS[name].hyper)
  slots = slots_of(name)
  needs = {n for n in m.signal_needs | m.term_needs if n.source != "policy"}
  rollout = probes.passes(free.policy, {"old": params, **slots}, needs, rollout)

  # A free policy's parameters are cut with the prompts, so each microbatch is
  # a tabular policy's: gradients of shared parameters add up.
  shared = {"table": jax.random.normal(jax.random.key(5), (3, free.V + 1))}

  def score(params, tokens):
    row = tokens.completions % 3
    return types.Scored(
      params["table"][row], free.policy.score({"hidden": 0}, tokens).heads
    )

  policy = dataclasses.replace(free.policy, score=score)

  @jax.jit
  def both(params, rollout):
    batch, scales, _ = prepare(m, rollout, m.init())
    return [
      step.gradients(
        m, policy, params, batch, scales, step.Plan(microbatches=n)
      )
      for n in (1, 2, 4)
    ]

  (whole, metrics), *cut = both(shared, rollout)
  for part, part_metrics in cut:
    np.testing.assert_allclose(part["table"], whole["table"], atol=1e-6)
    for key, want in metrics.items():
      np.testing.assert_allclose(
        part_metrics[key], want, atol=1e-5, err_msg=key
      )


@every_method
def test_no_signal_no_policy_gradient(name):
  m = methods.get(name, **ROWS[name].hyper)
  rollout = free.rollout()
  rollout = rollout.replace(
    **{
      field: jnp.full_like(
        getattr(rollout, field), -1 if field == "correct" else 0
      )
      for field in ROWS[name].signal
    }
  )
  params = free.params()
  slots = {slot: params for slot, _ in m.slots}  # at the reference: no pull
  g, a, _ = compiled(name)(params, slots, rollout)
  if "no_signal" in ROWS[name].breaks:
    assert np.asarray(a).any()
    return
  assert not np.asarray(a).any()
  np.testing.assert_allclose(g, 0, atol=1e-7)


def extremes():
  rollout = free.rollout(ragged=False)
  one, none = jnp.ones_like(rollout.correct), jnp.zeros_like(rollout.correct)
  alone = rollout.sample_mask & (jnp.arange(free.S) == 0)
  yield "all_correct", {"correct": one, "scores": one.astype(jnp.float32)}
  yield "all_wrong", {"correct": none, "scores": none.astype(jnp.float32)}
  yield "one_sample", {"sample_mask": alone}
  yield "no_sample", {"sample_mask": jnp.zeros_like(rollout.sample_mask)}
  yield "truncated", {"finished": jnp.zeros_like(rollout.finished)}
  yield (
    "no_token",
    {
      "tokens": rollout.tokens.replace(mask=jnp.zeros_like(rollout.tokens.mask))
    },
  )


@every_method
def test_extreme_groups_stay_finite(name):
  for case, changes in extremes():
    rollout = free.rollout(ragged=False).replace(**changes)
    g, a, metrics = run(name, rollout)
    assert np.isfinite(g).all(), case
    assert np.isfinite(a).all(), case
    assert all(np.isfinite(m).all() for m in metrics.values()), case
    if case in ("no_sample", "no_token"):
      assert not g.any(), case


@every_method
def test_state_advances_once_per_rollout_and_keeps_its_shape(name):
  m = methods.get(name, **ROWS[name].hyper)
  params = free.params()
  state = step.init(m, params, optax.sgd(0.1), jax.random.key(0))
  strict = any(term.on_policy for term in m.loss.terms)
  plan = step.Plan() if strict else step.Plan(epochs=2, minibatches=2)
  whole_batch = dataclasses.replace(
    free.policy,
    score=lambda params, tokens: types.Scored(
      params["hidden"][: tokens.completions.shape[0]],
      free.policy.score({"hidden": 0}, tokens).heads,
    ),
  )
  traces = []

  def counted(state, rollout):
    traces.append(1)
    return step.make(m, whole_batch, optax.sgd(0.1), plan)(state, rollout)

  train_step = jax.jit(counted)
  new, metrics = train_step(state, free.rollout())
  for seed in range(1, 4):
    new, metrics = train_step(new, free.rollout(seed))
  assert len(traces) == 1, "the step was traced again"
  assert jax.tree.structure(new) == jax.tree.structure(state)
  assert int(new.step) == 4
  for metric in ("loss/total", "optim/grad_norm", "advantage/mean"):
    assert np.isfinite(metrics[metric]), metric
  assert int(metrics["optim/skipped"]) == 0


@every_method
def test_the_same_on_eight_devices(name):
  """P over (data, fsdp): 8 prompts on a 2x2x2 mesh and on one device."""
  rollout = free.rollout(3, p=8)
  params = free.params(3, p=8)
  slots = {slot: free.params(9, p=8) for slot in slots_of(name)}
  mesh = jax.make_mesh(
    (2, 2, 2), ("data", "fsdp", "tensor"), axis_types=(AxisType.Auto,) * 3
  )
  spread = NamedSharding(mesh, PartitionSpec(("data", "fsdp")))
  everywhere = NamedSharding(mesh, PartitionSpec())

  def place(x):
    return jax.device_put(x, spread if jnp.ndim(x) else everywhere)

  g, a, _ = compiled(name)(params, slots, rollout)
  inputs = jax.tree.map(place, (params, slots, rollout))
  g8, a8, _ = compiled(name)(*inputs)
  limit = 1e-5 * np.abs(g).max()
  np.testing.assert_allclose(g8, g, atol=limit)
  np.testing.assert_allclose(a8, a, atol=1e-5)


# Exact equalities between methods and with the true gradient.


LOGITS = np.array([0.3, -0.4, 0.1])
REWARDS = np.array([0.2, 1.0, -0.5])


def expected_gradient(name, n, sampler=LOGITS, **hyper):
  """E over all groups of n one-token samples of - the loss's gradient."""
  m = methods.get(name, **hyper)
  tuples = np.array(list(itertools.product(range(3), repeat=n)))
  p = np.exp(sampler) / np.exp(sampler).sum()
  base = free.rollout(p=1, s=n, t=1, k=1, ragged=False)

  def score(params, tokens):
    hidden = jnp.broadcast_to(params["logits"], (*tokens.completions.shape, 3))
    return types.Scored(hidden, {"logits": lambda h: h})

  policy = dataclasses.replace(free.policy, score=score)

  @jax.jit
  @jax.vmap
  def one(actions):
    rollout = base.replace(
      tokens=base.tokens.replace(
        completions=actions[None, :, None], mask=jnp.ones((1, n, 1), bool)
      ),
      scores=jnp.asarray(REWARDS, jnp.float32)[actions][None],
      behavior_log_probs=jnp.log(jnp.asarray(p, jnp.float32))[
        actions[None, :, None]
      ],
    )
    params = {"logits": jnp.asarray(LOGITS, jnp.float32)}
    batch, scales, _ = prepare(m, rollout, m.init())
    found, _ = step.gradients(m, policy, params, batch, scales, step.Plan())
    return -found["logits"]

  return p[tuples].prod(-1) @ np.asarray(one(jnp.asarray(tuples)))


def true_gradient(k):
  tuples = np.array(list(itertools.product(range(3), repeat=k)))
  p = np.exp(LOGITS) / np.exp(LOGITS).sum()
  score = (np.eye(3)[tuples] - p).sum(1)
  best = REWARDS[tuples].max(-1)
  return np.einsum("g,g,gv->v", p[tuples].prod(-1), best, score)


@pytest.mark.parametrize(
  ("name", "k", "hyper"),
  [
    ("max_at_k", 1, {"k": 1}),
    ("max_at_k", 2, {"k": 2}),
    ("max_at_k", 3, {"k": 3, "baseline": "leave_one_out"}),
    ("max_at_k", 3, {"k": 3, "baseline": "centered"}),
    ("rloo", 1, {}),
    ("reinforce", 1, {}),
  ],
)
def test_the_whole_method_is_unbiased(name, k, hyper):
  """From rollout to parameter gradient, against enumeration."""
  np.testing.assert_allclose(
    expected_gradient(name, 4, **hyper), true_gradient(k), atol=2e-6
  )


@pytest.mark.parametrize("k", [1, 3])
def test_off_policy_max_at_k_is_unbiased_under_another_sampler(k):
  got = expected_gradient(
    "max_at_k_off_policy", 4, np.array([0.1, 0.5, -0.2]), k=k
  )
  np.testing.assert_allclose(got, true_gradient(k), atol=2e-6)


def test_the_bias_of_the_first_order_form_is_of_second_order():
  """Half as far from the sampler: a quarter of its bias, half of zeroth's."""
  exact, away = true_gradient(2), np.array([-0.3, 1.0, -0.4])
  shrinks = {}
  for order in ("first", "zeroth"):
    far, near = (
      np.abs(
        expected_gradient(
          "max_at_k_off_policy", 4, LOGITS + d * away, k=2, order=order
        )
        - exact
      )
      for d in (0.2, 0.1)
    )
    shrinks[order] = far.max() / near.max()
  assert abs(shrinks["first"] - 4) < 0.5
  assert abs(shrinks["zeroth"] - 2) < 0.3


def test_a_sample_beyond_the_bound_rests():
  """Moved up as it is pushed: no gradient. Moved down: it is still pushed."""
  m = methods.get("max_at_k_off_policy", k=2, bound=1.0)
  rollout = free.rollout(p=1, s=3, t=1, k=1, ragged=False).replace(
    scores=jnp.array([[0.0, 1.0, 2.0]])
  )
  (term,) = m.loss.terms

  def gradient(moved):
    now = jnp.zeros((1, 3, 1))
    seen = rollout.replace(behavior_log_probs=now - jnp.array(moved)[:, None])

    def value(log_probs):
      named = types.Named({"log_probs": log_probs})
      return term.fn(rollout.scores, named, seen).sum()

    return np.asarray(jax.grad(value)(now))[0, :, 0]

  inside = gradient([0.0, 0.9, 0.9])
  assert not inside[0]  # the worst of a group adds nothing to any pair
  assert (inside[1:] < 0).all()
  beyond = gradient([0.0, 0.9, 1.1])
  assert beyond[1] < 0 == beyond[2]
  assert (gradient([0.0, 0.9, -1.1])[1:] < 0).all()


def test_the_orders_are_one_at_the_first_update():
  """Sampler and policy agree: every order is max_at_k without a baseline."""
  want = expected_gradient("max_at_k", 4, k=3, baseline="none")
  for order in objectives.ORDERS:
    got = expected_gradient("max_at_k_off_policy", 4, k=3, order=order)
    np.testing.assert_allclose(got, want, atol=2e-6)


def test_bon_mean_turns_the_sign_of_the_second_best():
  """Card values: GRPO rewards both 0.7s, the best of two does not."""
  rollout = free.rollout(p=1, s=4, ragged=False).replace(
    scores=jnp.array([[0.1, 0.7, 0.7, 1.0]])
  )

  def advantage(m):
    return np.asarray(m.advantage.apply(None, rollout, m.advantage.init())[0])

  np.testing.assert_allclose(
    advantage(methods.get("bon_mean", k=2)),
    [[-0.577, -0.577, -0.577, 1.732]],
    atol=1e-3,
  )
  np.testing.assert_allclose(
    advantage(methods.get("grpo", ddof=0)),
    [[-1.606, 0.229, 0.229, 1.147]],
    atol=1e-3,
  )


def test_dr_grpo_is_rloo_scaled_by_the_group_and_the_horizon():
  n, horizon = 4, 5
  np.testing.assert_allclose(
    expected_gradient("dr_grpo", n, horizon=horizon) * horizon,
    expected_gradient("rloo", n) * (n - 1) / n,
    atol=1e-6,
  )


def test_pass_at_1_is_grpo_with_ddof_0():
  rollout = free.rollout()

  def advantage(m):
    return np.asarray(m.advantage.apply(None, rollout, m.advantage.init())[0])

  np.testing.assert_allclose(
    advantage(methods.get("pass_at_k", k=1)),
    advantage(methods.get("grpo", ddof=0, eps=0.0)),
    atol=2e-6,
  )


def test_min_and_sum_form_agree_on_samples_of_one_step():
  rollout = free.rollout(k=1)
  forms = [methods.get(name) for name in ("min_form", "sum_form")]
  a, b = (
    m.advantage.apply(None, rollout, m.advantage.init())[0] for m in forms
  )
  np.testing.assert_allclose(a, b, atol=1e-6)


def test_the_process_advantage_of_pure_worked_by_hand():
  """Card values: lengths 8, 6, 8 of at most 8; temperature 0.1."""
  steps = [[3, 2, 3], [2, 4], [2, 2, 2, 2]]
  scores = [[0.9, 0.2, 0.7], [0.8, 0.6], [-0.5, 0.9, 0.9, 0.9]]
  ids = np.full((1, 3, 8), -1)
  values, exists = np.zeros((1, 3, 4)), np.zeros((1, 3, 4), bool)
  for i, (lengths, s) in enumerate(zip(steps, scores, strict=True)):
    ids[0, i, : sum(lengths)] = np.repeat(np.arange(len(lengths)), lengths)
    values[0, i, : len(s)], exists[0, i, : len(s)] = s, True
  base = free.rollout(p=1, s=3, t=8, k=4, ragged=False)
  rollout = base.replace(
    tokens=base.tokens.replace(mask=jnp.asarray(ids >= 0)),
    step_ids=jnp.asarray(ids),
    step_scores=jnp.asarray(values, jnp.float32),
    step_mask=jnp.asarray(exists),
    correct=jnp.array([[1, 1, 0]], jnp.int8),
  )
  process = [
    [0.056376] * 3 + [0.055562] * 2 + [-0.14292] * 3,
    [0.621821] * 2 + [0.526459] * 4 + [0] * 2,
    [-0.774615] * 2 + [-0.274617] * 6,
  ]
  outcome = [[0.5] * 8, [0.5] * 6 + [0] * 2, [-1] * 8]
  for verifiable in (0.0, 1.0):
    m = methods.get("min_form", verifiable=verifiable)
    got, _ = m.advantage.apply(None, rollout, m.advantage.init())
    want = np.array(process) + verifiable * np.array(outcome)
    np.testing.assert_allclose(got[0], want, atol=2e-6)


def test_dapo_drops_groups_by_verdict_and_truncated_samples():
  rollout = free.rollout()
  g, _, _ = run("dapo", rollout)
  correct = np.asarray(rollout.correct)
  real = np.asarray(rollout.sample_mask)
  for p in range(free.P):
    mixed = len(set(correct[p, real[p]])) == 2
    trained = g[p].any((-2, -1))
    finished = np.asarray(rollout.finished)[p]
    assert not trained[~(finished & real[p] & mixed)].any()


def test_an_unknown_method_or_setting_names_the_nearest():
  with pytest.raises(ValueError, match="'maxk'; did you mean 'max_at_k'"):
    methods.get("maxk")
  with pytest.raises(ValueError, match=r"'kk'; did you mean 'k'.*baseline"):
    methods.get("max_at_k", kk=2)


def test_one_update_needs_no_old_pass():
  """The old policy of a single update is the current one: same numbers."""
  m = methods.get("pass_at_k", k=2)
  policy, rollout, params = free.policy, free.rollout(), free.params()
  old = probes.Need("old", probes.log_probs)
  passed = probes.passes(policy, {"old": params}, {old}, rollout)
  found = []
  for r in (rollout, passed):
    batch, scales, _ = methods_core.prepare(m, r, m.init())
    found.append(
      step.gradients(m, policy, params, batch, scales, step.Plan())[0]
    )
  np.testing.assert_array_equal(found[0]["hidden"], found[1]["hidden"])


@pytest.mark.parametrize("name", ["rloo", "reinforce"])
def test_a_strictly_on_policy_method_refuses_a_second_update(name):
  m, plan = methods.get(name), step.Plan(epochs=2)
  with pytest.raises(ValueError, match=f"{name}.*strictly on-policy"):
    step.make(m, free.policy, optax.sgd(0.1), plan)


def spread_to_top_token():
  """A term whose policy probe reads what a pass found (as SimKO's does)."""
  top = probes.Need(
    "old", probes.Probe("top", lambda logits, ids: jnp.argmax(logits, -1))
  )
  at_top = probes.Need(
    "policy",
    probes.Probe(
      "log_probs_at_top",
      lambda logits, ids, best: jnp.take_along_axis(
        jax.nn.log_softmax(logits), best[:, None], -1
      )[:, 0],
      reads=(top,),
    ),
  )

  @terms.term("none", "token", needs={at_top})
  def spread(_, policy, rollout):
    del rollout
    return -policy["log_probs_at_top"]

  return methods_core.Method(spread())


def test_a_probe_that_reads_a_pass_gets_it_with_one_update_and_with_many():
  """What the needs of a loss read is needed too."""
  m = spread_to_top_token()
  rollout, params = free.rollout(), free.params()
  methods_core.check(m, free.policy, {"policy": params}, rollout)
  logits = params["hidden"][..., : free.V]
  best = jax.nn.log_softmax(logits).max(-1)
  want = -jnp.sum(jnp.where(rollout.valid("token"), best, 0.0))
  for updates in (1, 2):
    needs = methods_core.required(m, updates)
    passed = probes.passes(free.policy, {"old": params}, needs, rollout)
    batch, scales, _ = prepare(m, passed, m.init())
    coefs = methods_core.coefficients(m, batch)
    got, _ = methods_core.loss(m, free.policy, params, batch, coefs, scales)
    np.testing.assert_allclose(
      got, want / rollout.valid("token").sum(), rtol=1e-5
    )


def test_a_moving_average_moves_in_bfloat16_too():
  """200 steps at .999 cover 1 - .999^200 of the way."""
  rule = slots.ema(0.999)
  slot = rule.init({"w": jnp.ones((), jnp.bfloat16)})
  target = {"w": jnp.full((), 2.0, jnp.bfloat16)}
  for i in range(200):
    slot = rule.update(slot, target, jnp.asarray(i))
  np.testing.assert_allclose(slot["w"], 2 - 0.999**200, rtol=1e-4)


def test_slot_rules_follow_when_they_are_due():
  params = {"w": jnp.full((), 5.0)}
  kept = {"w": jnp.zeros(())}
  at = lambda rule, i: float(rule.update(kept, params, jnp.asarray(i))["w"])  # noqa: E731
  assert [at(slots.sync(3), i) for i in range(4)] == [0, 0, 5, 0]
  assert [at(slots.frozen(), i) for i in range(2)] == [0, 0]
  assert [at(slots.ema(0.5, every=2), i) for i in range(2)] == [0, 2.5]


def test_sequence_ratios_carry_the_sequence_and_keep_each_tokens_gradient():
  """GSPO's is the mean, the true ratio the sum; at T = 1 both are the token's."""
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
  """Nothing moves, the running mean included, and the sample is named."""
  rollout = free.rollout(ragged=False)
  rollout = rollout.replace(
    **{field: getattr(rollout, field).at[at].set(value)},
    prompt_ids=10 * rollout.prompt_ids,
  )
  m = methods.get("reinforce")
  tx = optax.adam(0.1)
  state = step.init(m, free.params(), tx, jax.random.key(0))
  train_step = step.make(m, free.policy, tx, step.Plan())
  after, metrics = train_step(state, rollout)
  for part in ("params", "opt_state", "method_state"):
    jax.tree.map(
      np.testing.assert_array_equal, getattr(after, part), getattr(state, part)
    )
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
  """PURE skips where the mean ratio exceeds 10."""
  m, tx, plan = methods.get("grpo", beta=0.0), optax.sgd(0.1), step.Plan(2)
  rollout, params = free.rollout(), free.params()
  state = step.init(m, params, tx, jax.random.key(0))
  assert (
    step.make(m, free.policy, tx, plan)(state, rollout)[1]["optim/skipped"] == 0
  )
  strict = dataclasses.replace(plan, max_mean_ratio=0.5)
  after, metrics = step.make(m, free.policy, tx, strict)(state, rollout)
  assert metrics["optim/skipped"] == 2
  np.testing.assert_array_equal(after.params["hidden"], params["hidden"])
