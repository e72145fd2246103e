"""Scores of steps: what a process reward model reads, and where."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from models import heads, transformer
from models import policy as policies
from models.config import ModelConfig
from rewards.process import model
from rl import types

model = compiled.functions(model)

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


@pytest.fixture(scope="module")
def scored():
  """(model, parameters, tokens, jitted scorer) of an untrained decoder."""
  scorer = model.ProcessModel(
    policies.bind(CONFIG), heads.linear, heads.two_class_score
  )
  params = {
    "decoder": transformer.init(CONFIG, jax.random.key(0)),
    "head": heads.init_linear(
      jax.random.key(1), CONFIG.width + model.SURPRISES, 2
    ),
  }
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
    lambda params, tokens, ids: model.score_steps(
      scorer, params, tokens, ids, 4
    )
  )
  return scorer, params, tokens, run


@pytest.mark.worked_example("function:model.step_ends")
def test_step_ends_are_the_last_tokens():
  ends, exists = model.step_ends(jnp.asarray(STEP_IDS), 4)
  for p, s, k in np.ndindex(2, 2, 4):
    (at,) = np.nonzero(STEP_IDS[p, s] == k)
    assert exists[p, s, k] == (at.size > 0)
    assert not at.size or ends[p, s, k] == at[-1]


@pytest.mark.worked_example(
  "function:model.score_steps", "function:model.step_features"
)
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
  read_through = jax.jit(model.read_through, static_argnums=0)
  tokens = tokens.replace(mask=chosen)
  reading = read_through(scorer.policy, params["decoder"], tokens)
  assert (reading.log_probs[~chosen] == 0).all()
  assert (reading.log_probs[chosen] < 0).all()
  features = model.step_features(reading, jnp.asarray(STEP_IDS), 4)
  largest, total = jnp.moveaxis(features[0, 0, 0, -model.SURPRISES :], -1, 0)
  assert largest == total == -reading.log_probs[0, 0, 0]


def test_all_states_of_a_packed_rollout_are_read(scored):
  scorer, params, tokens, _ = scored
  read_through = jax.jit(model.read_through, static_argnums=0)
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


@pytest.mark.worked_example("function:model.step_features")
def test_features_of_two_steps_and_of_one_that_does_not_exist():
  """Surprises 1, 2 | 4, 3 and one token outside of steps; states 0 to 5."""
  hidden = jnp.stack([jnp.arange(6.0), 10 + jnp.arange(6.0)], -1)
  log_probs = -jnp.array([1.0, 2, 7, 4, 3])
  reading = model.Reading(hidden[None, None], log_probs[None, None])
  step_ids = jnp.array([[[0, 0, -1, 1, 1]]])
  result = model.step_features(reading, step_ids, 3)
  # The state after the last token, the largest surprise, and their sum.
  expected = [[2, 12, 2, 3], [5, 15, 4, 7]]
  np.testing.assert_array_equal(result[0, 0, :2], expected)
  np.testing.assert_array_equal(result[0, 0, 2, 2:], [0, 0])


def test_the_scores_of_a_rollout_are_those_of_its_steps():
  """Two, one and two steps; the features have factors 1, 10, 100 and 1000."""
  nan = jnp.nan
  rollout = worked_example.rollout(
    [1, 2, 3], steps=[[2, 1], [1], [1, 1]], step_scores=[[7, 7], [7], [7, 7]]
  )
  # The hidden states are the log-prob of the next token and a value.
  decoder = {
    "log_probs": jnp.array(
      [[[-1, -2, -0.5, -8], [-4, -0.25, nan, nan], [-1.5, -0.5, -3, nan]]]
    ),
    "values": jnp.array([[[1.0, 2, 3, 4], [5, 6, nan, nan], [7, 8, 9, nan]]]),
  }
  scorer = model.ProcessModel(
    worked_example.POLICY,
    head=lambda params, features: params * features,
    read=lambda outputs: outputs.sum(-1),
  )
  params = {"decoder": decoder, "head": jnp.array([1.0, 10, 100, 1000])}
  result = jax.jit(model.score_rollout, static_argnums=0)(
    scorer, params, rollout
  )
  # State -0.5, 3 and surprises 1, 2; state -8, 4 and surprise 0.5; and so on.
  expected = [
    [-0.5 + 30 + 200 + 3000, -8 + 40 + 50 + 500],
    [-0.25 + 60 + 400 + 4000, 0],
    [-0.5 + 80 + 150 + 1500, -3 + 90 + 50 + 500],
  ]
  np.testing.assert_allclose(result.step_scores[0], expected, rtol=1e-6)
  slope = jax.grad(
    lambda head: model.score_rollout(
      scorer, {**params, "head": head}, rollout
    ).step_scores.sum()
  )(params["head"])
  np.testing.assert_array_equal(slope, 0)
  for field in ("step_ids", "step_mask"):
    with pytest.raises(ValueError, match="a process reward model needs steps"):
      model.score_rollout(scorer, params, rollout.replace(**{field: None}))


def test_equal_models_are_equal_as_static_arguments():
  scorer = model.ProcessModel(worked_example.POLICY, heads.linear, jnp.sum)
  assert hash(scorer) == hash(dataclasses.replace(scorer))
