"""Tests that a sample dump has the texts and numbers of its rollout."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from helpers import small_run

from experiments.tasks import chain, countdown
from experiments.training import rollouts
from experiments.training_run import sample_dump
from rl import scoring


def read_bytes(ids):
  """Decodes bytes; a character that is cut decodes to U+FFFD."""
  return bytes(ids).decode(errors="replace")


def read_words(decode):
  return lambda ids: decode(np.array(ids, np.int32))


@pytest.mark.parametrize(
  ("decode", "ids"),
  [
    (read_bytes, list("1 + 2 = π, 😀 é\n".encode())),
    (read_bytes, list("cut in π".encode()[:-1])),
    (read_bytes, [0x61, 0xFF, 0x62]),  # which is no text at all
    (read_words(countdown.decode), [5, 3, 6, 0, 0, 4, 1]),  # padding inside
    (read_words(chain.decode), [5, 11, 15, 3, 4, 15, 1]),
    (read_bytes, []),
  ],
)
def test_pieces_make_up_the_text(decode, ids):
  result = sample_dump.split_text(decode, ids)
  assert len(result) == len(ids)
  assert "".join(result) == decode(ids)


def test_a_letter_of_several_tokens_belongs_to_the_last():
  result = sample_dump.split_text(read_bytes, list("aπ😀b".encode()))
  assert result == ["a", "", "π", "", "", "", "😀", "b"]


@pytest.mark.parametrize("has_steps", [False, True])
def test_a_record_has_the_values_of_its_tokens(has_steps):
  """One prompt with a sample of two tokens, and one that does not exist.

  The policy did not write the second token.
  """
  is_token = np.array([[[True, False, False], [True] * 3]])
  values = np.array([[[0.123456789, 2.0, 3.0], [4.0, 5.0, 6.0]]])
  rollout = SimpleNamespace(
    tokens=SimpleNamespace(
      prompts=np.array([[9, 3, 4]]),
      prompt_mask=np.array([[False, True, True]]),
      completions=np.array([[[5, 6, 9], [7, 7, 7]]]),
      lengths=np.array([[2, 3]]),
      mask=is_token,
    ),
    sample_mask=np.array([[True, False]]),
    prompt_ids=np.array([8]),
    scores=np.array([[0.5, 1.0]]),
    components={"part": np.array([[0.25, 1.0]])},
    correct=np.array([[-1, 1]]),
    finished=np.array([[False, True]]),
    behavior_log_probs=-values,
    step_ids=np.array([[[0, 1, -1], [0, 0, 0]]]),
    step_scores=np.array([[[0.5, 0.25, 9], [0, 0, 0]]]) if has_steps else None,
    step_mask=np.array([[[True, True, False], [True] * 3]]),
  )
  e = SimpleNamespace(
    task=SimpleNamespace(decode=lambda ids: "".join(map(str, ids)))
  )
  (record,) = sample_dump._to_records(e, rollout, values, values)
  assert record == {
    "prompt_id": 8,
    "prompt": "34",
    "completion": "56",
    "score": 0.5,
    "terms": {"part": 0.25},
    "correct": -1,
    "finished": False,
    "tokens": [5, 6],
    "pieces": ["5", "6"],
    "advantages": [0.1234568, 2.0],
    "log_probs": [-0.1235, None],
    "entropies": [0.1235, None],
    "step_ids": [0, 1] if has_steps else None,
    "step_scores": [0.5, 0.25] if has_steps else None,
  }
  (record,) = sample_dump._to_records(e, rollout, None, values)
  assert record["advantages"] is None


@pytest.fixture(scope="module")
def recorded():
  """The records of a rollout with reasoning steps, and the rollout."""
  e = small_run.on_one_device(
    small_run.build.build(
      small_run.config(method="sum_form", task="chain(operations=2)")
    )
  )
  gather = jax.jit(
    rollouts.make_rollout_fn(
      e.task, e.policy, e.sampling, small_run.PROMPTS, None, e.method
    )
  )
  state = e.init()
  rollout = gather(state)
  result = sample_dump.make_recorder(e, lambda state: (gather(state), {}))(
    state
  )
  need = scoring.Need("old", scoring.entropy)
  scored = scoring.passes(e.policy, {"old": state.params}, [need], rollout)
  return e, result, jax.device_get(rollout), np.asarray(scored.extras[need])


def test_every_token_has_its_numbers(recorded):
  e, result, rollout, entropies = recorded
  assert len(result) == small_run.PROMPTS * small_run.SAMPLES
  places = np.ndindex(rollout.tokens.lengths.shape)
  for record, (p, s) in zip(result, places, strict=True):
    length = rollout.tokens.lengths[p, s]
    assert record["tokens"] == rollout.completions[p, s, :length].tolist()
    assert "".join(record["pieces"]) == record["completion"]
    for name, values in (
      ("log_probs", rollout.behavior_log_probs),
      ("entropies", entropies),
      ("step_ids", rollout.step_ids),
    ):
      np.testing.assert_allclose(
        record[name], values[p, s, :length], rtol=1e-3, atol=1e-6
      )
    np.testing.assert_allclose(
      record["step_scores"],
      rollout.step_scores[p, s][rollout.step_mask[p, s]],
      rtol=1e-3,
    )
    assert len(record["advantages"]) == length
    assert 0 < max(record["entropies"]) <= np.log(e.model.vocab_size)


def test_what_others_wrote_has_no_numbers_of_the_policy(recorded):
  e, _, rollout, entropies = recorded
  mask = np.array(rollout.mask)
  mask[:, :, 0] = False
  other = rollout.replace(tokens=rollout.tokens.replace(mask=mask))
  for record in sample_dump._to_records(e, other, None, entropies):
    assert record["log_probs"][0] is None
    assert record["entropies"][0] is None
    assert record["advantages"] is None
    assert None not in record["log_probs"][1:]
