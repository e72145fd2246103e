"""Compares the numbers and names in rl/README.md with the code."""

import importlib
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl import masked, method_loss, methods, scoring, types
from rl.losses import surrogates, terms
from rl.update_plan import Plan

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = (ROOT / "rl" / "README.md").read_text()
CLIP, BETA = 0.2, 0.04
LENGTHS = np.array([2, 2, 1])
MASK = np.arange(2) < LENGTHS[:, None]  # [S, T]


def readme_numbers():
  """`{name: [numbers]}` of the block with the rollout."""
  (block,) = re.findall(r"^```text\n(.*?)^```", TEXT, re.M | re.S)
  numbers = {}
  for line in block.splitlines():
    match = re.match(r"(\w+)\s+((?:-?[\d.]+\s*)+)(?:#|$)", line)
    if match:
      numbers[match[1]] = match[2].split()
  return numbers


NUMBERS = readme_numbers()


def inputs(name):
  """Probabilities of the tokens, `[1, S, T]`, with 0.5 at the padding."""
  probabilities = np.full(MASK.shape, 0.5)
  probabilities[MASK] = [float(x) for x in NUMBERS[name]]
  return jnp.asarray(probabilities[None], jnp.float32)


def logits(log_probs):
  """Logits of a vocabulary of two tokens, of which token 0 has `log_probs`.

  Their derivative is such that d log pi(token 0) / d log_probs = 1.
  """
  log_probs = log_probs[..., 0]
  return jnp.stack([log_probs, jnp.log(-jnp.expm1(log_probs))], -1)


# The parameters of this policy are the log-probs of the sampled tokens.
POLICY = types.Policy(
  score=lambda params, tokens: types.Scored(
    params[..., None], {"logits": logits}
  ),
  prefill=None,
  decode=None,
)


def rollout():
  """The rollout of the README."""
  return types.Rollout(
    tokens=types.Tokens(
      prompts=jnp.zeros((1, 1), jnp.int32),
      prompt_mask=jnp.ones((1, 1), bool),
      completions=jnp.zeros((1, 3, 2), jnp.int32),
      lengths=jnp.asarray(LENGTHS[None]),
      mask=jnp.asarray(MASK[None]),
    ),
    sample_mask=jnp.ones((1, 3), bool),
    behavior_log_probs=jnp.log(inputs("pi_old")),
    finished=jnp.ones((1, 3), bool),
    scores=jnp.asarray([[float(x) for x in NUMBERS["R"]]]),
    correct=jnp.asarray([[1, 0, 0]], jnp.int8),
    prompt_ids=jnp.zeros(1, jnp.int32),
    keys=jax.random.split(jax.random.key(0), 1),
    step=jnp.zeros((), jnp.int32),
  )


@pytest.fixture(scope="module")
def computed():
  """The numbers of the README, computed by rl, by name."""
  method = methods.get("grpo", clip=CLIP, beta=BETA)
  log_probs = {
    name: jnp.log(inputs(name)) for name in ("pi", "pi_old", "pi_ref")
  }
  parameters = {"old": log_probs["pi_old"], "ref": log_probs["pi_ref"]}
  needs = method_loss.required(method, updates=2)
  scored = scoring.passes(POLICY, parameters, needs, rollout())
  batch, term_weights, _ = method_loss.prepare(method, scored, method.init())

  def gradient(term_weights):
    grads, tally = method_loss.gradient(
      method, POLICY, log_probs["pi"], batch, term_weights, Plan()
    )
    return grads, tally.merge()

  grad, metrics = gradient(term_weights)
  grad_pg, _ = gradient((term_weights[0], 0 * term_weights[1]))
  grad_kl, _ = gradient((0 * term_weights[0], term_weights[1]))

  # The pieces of the loss, by the functions that the method names.
  policy = types.Named({"log_probs": log_probs["pi"]})
  log_ratio = log_probs["pi"] - log_probs["pi_old"]
  advantages = batch.signals[0]  # [1, S, T]
  surrogate, _ = surrogates.ppo_clip(CLIP, CLIP).fn(
    log_ratio, advantages, policy, scored
  )
  k3, _ = terms.kl("k3").fn(None, policy, scored)
  rho = surrogates.ratio(log_ratio)
  scores, exists = scored.scores, scored.sample_mask

  def at_tokens(x):
    return np.asarray(x)[0][MASK]

  return {
    "mean": masked.mean(scores, exists),
    "std": masked.std(scores, exists, ddof=1),
    "A": advantages[0, :, 0],
    "log_pi": at_tokens(log_probs["pi"]),
    "rho": at_tokens(rho),
    "clipped": at_tokens(jnp.clip(rho, 1 - CLIP, 1 + CLIP)),
    "surrogate": at_tokens(surrogate),
    "k3": at_tokens(k3),
    "weight": at_tokens(method_loss.aggregation_weights(method, batch)[0]),
    "loss_pg": metrics["loss/policy_gradient"],
    "loss_kl": metrics["loss/kl"],
    "loss": metrics["loss/total"],
    "grad_pg": at_tokens(grad_pg),
    "grad_kl": at_tokens(grad_kl),
    "grad": at_tokens(grad),
  }


def test_every_number_is_an_input_or_computed(computed):
  assert set(NUMBERS) == {"R", "pi", "pi_old", "pi_ref", *computed}


@pytest.mark.parametrize(
  "name", sorted({*NUMBERS} - {"R", "pi", "pi_old", "pi_ref"})
)
def test_numbers_are_those_of_the_code(name, computed):
  shown = [float(x) for x in NUMBERS[name]]
  digits = {len(x.partition(".")[2]) for x in NUMBERS[name]}
  assert digits == {4}
  # Half a unit of the last digit, and the rounding of float32.
  np.testing.assert_allclose(
    shown, np.atleast_1d(computed[name]), rtol=0, atol=0.5e-4 + 1e-6
  )


def test_hyper_parameters_in_the_text_are_those_of_the_numbers():
  assert f"grpo(clip={CLIP}, beta={BETA})" in TEXT


def test_named_files_have_the_named_functions():
  rows = re.findall(r"\| `([\w/]+)\.py` \| `(\w+)` \|", TEXT)
  assert len(rows) == 11
  for path, function in rows:
    assert f"def {function}(" in (ROOT / f"{path}.py").read_text(), path
  crossed = re.findall(r"^\d+\. `([\w/]+)\.py`: `(\w+)`", TEXT, re.M)
  assert len(crossed) == 8
  for path, function in crossed:
    text = (ROOT / f"{path}.py").read_text()
    assert re.search(rf"^\s*def {function}\(", text, re.M), path


def test_levels_are_those_of_the_code():
  rows = dict(re.findall(r"^\| `(\w+)` \| `(\[.*?\])`", TEXT, re.M))
  assert rows == {k: v for k, v in types.AXES.items() if k != "none"}


def test_the_method_of_the_readme_traces_on_the_rollout(tmp_path, monkeypatch):
  (code,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)
  assert len([line for line in code.splitlines() if line]) <= 12
  (tmp_path / "centered.py").write_text(code)
  monkeypatch.syspath_prepend(tmp_path)
  method = importlib.import_module("centered").centered(beta=0.02)
  params = jnp.log(inputs("pi"))
  method_loss.check(
    method, POLICY, {"policy": params, "ref": params}, rollout()
  )


def test_links_lead_to_files():
  for target in re.findall(r"\]\(([^)\s]+)\)", TEXT):
    assert (ROOT / "rl" / target).exists(), target
