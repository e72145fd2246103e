"""Features of steps and tokens, and the outputs and scores of a model."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from models import heads, transformer
from models import policy as policies
from models.config import ModelConfig
from rewards.process import step_data, step_features, step_losses, step_model
from rl import types

model = compiled.functions(step_features)

CONFIG = ModelConfig(
  vocab_size=11,
  width=16,
  layers=1,
  heads=2,
  kv_heads=2,
  head_dim=8,
  mlp_width=32,
)
# Steps of 2, 3 and 1 tokens, one of 6, and a sample cut after 2 steps.
STEP_IDS = np.array(
  [[[0, 0, 1, 1, 1, 2], [0] * 6], [[0, 1, -1, -1, -1, -1], [0, 0, 0, 1, 2, 3]]]
)


def make_model(loss):
  """Returns a model with an untrained decoder, and its parameters."""
  loss = step_losses.get(loss)
  decoder = transformer.init(CONFIG, jax.random.key(0))
  width = CONFIG.width + step_features.SURPRISES
  params = {
    "decoder": decoder,
    "head": heads.init_linear(jax.random.key(1), width, loss.outputs),
    "reference": decoder,
  }
  return (
    step_model.StepModel(policies.bind(CONFIG), heads.linear, loss),
    params,
  )


def examples_of(tokens, step_ids, steps=4):
  """Returns samples without labels."""
  nothing = jnp.zeros((*step_ids.shape[:2], steps))
  return step_data.StepData(
    tokens=tokens,
    step_ids=jnp.asarray(step_ids),
    values=nothing,
    weights=nothing,
    potentials=nothing,
    potential_weights=nothing,
    correct=jnp.zeros(step_ids.shape[:2], jnp.int8),
    problems=jnp.arange(len(step_ids)),
  )


@pytest.fixture(scope="module")
def scored():
  """(model, parameters, tokens, jitted scorer) of an untrained decoder."""
  scorer, params = make_model("two_class")
  rng = np.random.default_rng(0)
  prompts = jnp.asarray(rng.integers(1, 11, (2, 4)))
  mask = jnp.array([[True] * 4, [False, True, True, True]])
  real = jnp.asarray(STEP_IDS >= 0)
  tokens = types.Tokens(
    prompts=jnp.where(mask, prompts, 0),
    prompt_mask=mask,
    completions=jnp.where(real, rng.integers(1, 11, STEP_IDS.shape), 0),
    lengths=real.sum(-1),
    mask=real,
  )
  run = jax.jit(
    lambda params, tokens, ids: (
      scorer.outputs(params, examples_of(tokens, ids))[0].steps
    )
  )
  return scorer, params, tokens, run


@pytest.mark.worked_example("function:step_features.step_ends")
def test_step_ends_are_the_last_tokens():
  ends, exists = step_features.step_ends(jnp.asarray(STEP_IDS), 4)
  for p, s, k in np.ndindex(2, 2, 4):
    (at,) = np.nonzero(STEP_IDS[p, s] == k)
    assert exists[p, s, k] == (at.size > 0)
    assert not at.size or ends[p, s, k] == at[-1]


@pytest.mark.worked_example("function:step_features.step_features")
def test_a_score_is_the_head_of_the_state_after_the_step_and_its_surprises(
  scored,
):
  """Both by hand, from the plain forward pass over prompt and completion."""
  _, params, tokens, run = scored
  result = run(params, tokens, STEP_IDS)
  sequences = jnp.concatenate(
    [jnp.repeat(tokens.prompts[:, None], 2, 1), tokens.completions], -1
  ).reshape(4, 10)
  mask = jnp.concatenate(
    [jnp.repeat(tokens.prompt_mask[:, None], 2, 1), tokens.mask], -1
  ).reshape(4, 10)
  reference = transformer.logits(CONFIG, params["decoder"], sequences, mask)
  law = jax.nn.log_softmax(reference, -1).reshape(2, 2, 10, 11)
  # With the identity as unembedding, the logits are the hidden states.
  open_ = dataclasses.replace(CONFIG, vocab_size=CONFIG.width)
  table = jnp.pad(params["decoder"]["embed"]["table"], ((0, 5), (0, 0)))
  decoder = {
    **params["decoder"],
    "embed": {"table": table},
    "unembed": {"kernel": jnp.eye(CONFIG.width)},
  }
  hidden = transformer.logits(open_, decoder, sequences, mask)
  hidden = hidden.reshape(2, 2, 10, CONFIG.width)
  for p, s, k in np.ndindex(2, 2, 4):
    (at,) = np.nonzero(STEP_IDS[p, s] == k)
    if at.size:
      surprises = [-law[p, s, 3 + t, tokens.completions[p, s, t]] for t in at]
      features = [*hidden[p, s, 4 + at[-1]], max(surprises), sum(surprises)]
      want = heads.linear(params["head"], jnp.array(features))
      np.testing.assert_allclose(result[p, s, k], want, atol=1e-5)


def test_what_the_policy_did_not_choose_surprises_nobody(scored):
  """A tool's token in a step is read, but is no evidence of an error."""
  scorer, params, tokens, _ = scored
  chosen = tokens.mask.at[0, 0, 1].set(False)
  read_through = jax.jit(step_features.read_through, static_argnums=0)
  tokens = tokens.replace(mask=chosen)
  reading = read_through(scorer.policy, params["decoder"], tokens)
  assert (reading.log_probs[~chosen] == 0).all()
  assert (reading.log_probs[chosen] < 0).all()
  features = step_features.step_features(reading, jnp.asarray(STEP_IDS), 4)
  largest, total = jnp.moveaxis(
    features[0, 0, 0, -step_features.SURPRISES :], -1, 0
  )
  assert largest == total == -reading.log_probs[0, 0, 0]


def test_all_states_of_a_packed_rollout_are_read(scored):
  scorer, params, tokens, _ = scored
  read_through = jax.jit(step_features.read_through, static_argnums=0)
  readings = [
    read_through(scorer.policy, params["decoder"], tokens.replace(room=room))
    for room in (0, 100)
  ]
  jax.tree.map(np.testing.assert_array_equal, *readings)


def test_a_token_moves_its_own_step_and_no_earlier_one(scored):
  _, params, tokens, run = scored
  before = run(params, tokens, STEP_IDS)
  for t in range(6):
    changed = tokens.completions.at[0, 0, t].add(1) % 11
    after = run(params, tokens.replace(completions=changed), STEP_IDS)
    step = STEP_IDS[0, 0, t]
    np.testing.assert_array_equal(after[0, 0, :step], before[0, 0, :step])
    for later in range(step, 3):
      assert jnp.abs(after[0, 0, later] - before[0, 0, later]).max() > 1e-6
    np.testing.assert_array_equal(after[1], before[1])
    np.testing.assert_array_equal(after[0, 1], before[0, 1])


@pytest.mark.worked_example("function:step_features.step_features")
def test_features_of_two_steps_and_of_one_that_does_not_exist():
  """Surprises 1, 2 | 4, 3 and one token outside of steps; states 0 to 5."""
  hidden = jnp.stack([jnp.arange(6.0), 10 + jnp.arange(6.0)], -1)
  log_probs = -jnp.array([1.0, 2, 7, 4, 3])
  reading = step_features.Reading(hidden[None, None], log_probs[None, None])
  step_ids = jnp.array([[[0, 0, -1, 1, 1]]])
  result = step_features.step_features(reading, step_ids, 3)
  # The state after the last token, the largest surprise, and their sum.
  expected = [[2, 12, 2, 3], [5, 15, 4, 7]]
  np.testing.assert_array_equal(result[0, 0, :2], expected)
  np.testing.assert_array_equal(result[0, 0, 2, 2:], [0, 0])


def test_the_outputs_of_tokens_are_those_of_steps_at_their_ends():
  """For a step of one token; the sum of surprises grows inside of a step."""
  scorer = step_model.StepModel(
    worked_example.POLICY, heads.linear, step_losses.get("bce")
  )
  # The hidden states are the log-prob of the next token and a value.
  decoder = {
    "log_probs": jnp.array([[[-1, -2, -0.5, -8, -1.0]]]),
    "values": jnp.array([[[1.0, 2, 3, 4, 5]]]),
  }
  kernel = jnp.array([[1.0], [10], [100], [1000]])
  params = {
    "decoder": decoder,
    "head": {"kernel": kernel, "bias": jnp.zeros(1)},
  }
  rollout = worked_example.rollout([1], steps=[[2, 1, 1]])
  data = step_model.of_rollout(rollout)
  outputs, log_probs = scorer.outputs(params, data)
  np.testing.assert_allclose(log_probs[0, 0], [-1, -2, -0.5, -8], rtol=1e-6)
  # State -0.5, 3 and surprises 1, 2; then one token in each step.
  steps = [
    -0.5 + 30 + 200 + 3000,
    -8 + 40 + 50 + 500,
    -1 + 50 + 800 + 8000,
  ]
  np.testing.assert_allclose(outputs.steps[0, 0, :, 0], steps, rtol=1e-6)
  tokens = [-2 + 20 + 100 + 1000, -0.5 + 30 + 200 + 3000, *steps[1:]]
  np.testing.assert_allclose(outputs.tokens[0, 0, :, 0], tokens, rtol=1e-6)
  assert outputs.reversed_steps is None
  assert outputs.log_ratios is None
  slope = jax.grad(lambda p: scorer.scores(p, data).sum())(params)
  jax.tree.map(lambda x: np.testing.assert_array_equal(x, 0), slope)
  for field in ("step_ids", "step_mask"):
    with pytest.raises(ValueError, match="a process reward model needs steps"):
      step_model.of_rollout(rollout.replace(**{field: None}))


def test_steps_that_do_not_exist_score_0(scored):
  scorer, params, tokens, _ = scored
  data = examples_of(tokens, STEP_IDS)
  scores = np.asarray(jax.jit(scorer.scores)(params, data))
  exists = np.arange(4) <= STEP_IDS.max(-1)[..., None]
  assert not scores[~exists].any()
  assert scores[exists].all()


def test_the_reversed_pass_reads_the_steps_from_the_last_one(scored):
  """Its output of step k is that of step n - 1 - k of the reversed text."""
  _, _, tokens, _ = scored
  scorer, params = make_model("bidirectional")
  data = examples_of(tokens, STEP_IDS)
  outputs, _ = scorer.outputs(params, data)
  ids = step_data.reverse_ids(data.step_ids)
  backward = examples_of(step_data.reverse_steps(tokens, data.step_ids), ids)
  expected, _ = scorer.outputs(params, backward)
  for p, s in np.ndindex(2, 2):
    n = STEP_IDS[p, s].max() + 1
    np.testing.assert_allclose(
      outputs.reversed_steps[p, s, :n],
      expected.steps[p, s, :n][::-1],
      atol=1e-5,
    )


def test_log_ratios_are_0_at_the_start_and_move_with_the_decoder(scored):
  _, _, tokens, _ = scored
  scorer, params = make_model("implicit")
  data = examples_of(tokens, STEP_IDS)
  outputs, log_probs = scorer.outputs(params, data)
  assert not outputs.log_ratios.any()
  other = jax.tree.map(lambda x: 1.5 * x, params["decoder"])
  moved, moved_log_probs = scorer.outputs({**params, "decoder": other}, data)
  np.testing.assert_allclose(
    moved.log_ratios, moved_log_probs - log_probs, atol=1e-5
  )
  assert moved.log_ratios.any()


def test_equal_models_are_equal_as_static_arguments():
  scorer = step_model.StepModel(
    worked_example.POLICY, heads.linear, step_losses.get("bce")
  )
  assert hash(scorer) == hash(dataclasses.replace(scorer))
