"""Losses and gradients that functions of verl and TRL returned, against ours.

`helpers/peer_values.json` has the arguments, settings and results of each call,
with the repository, commit, file and function. The functions were imported
unchanged and called in float64 with the stored arrays; gradients are those of
PyTorch in each log-prob of the policy. `test_peers.py` compares with equations
that are written again in numpy instead.

Where a function has other defaults than a method here (advantages, aggregate,
policy in the denominator), the loss is composed of the same parts.
"""

import json
import pathlib

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl import masked, types
from rl.losses import aggregates, ratios, surrogates, terms
from rl.method import Method
from rl.methods.group import optimal_token_baseline
from rl.methods.surrogates import dppo, gmpo, off_policy_mask, vespo
from rl.parameter_sets import frozen
from rl.transforms import chain, returns_to_go, transform

PATH = pathlib.Path(__file__).parents[2] / "helpers" / "peer_values.json"
STORED = json.loads(PATH.read_text())
INPUTS = {name: np.array(x, float) for name, x in STORED["inputs"].items()}
MASK = INPUTS["mask"] > 0
TOKEN_MEAN = aggregates.token_mean()
GRPO_MEAN = aggregates.seq_mean_token_mean()


@transform(takes="none", gives="token")
def stored_array(_, rollout, *, name):
  """Returns an array of the file, on the tokens of each sample."""
  del rollout
  return jnp.float32(on_tokens(name))


def on_tokens(name):
  array = INPUTS[name]
  array = array if array.ndim == 3 else array[..., None]
  return np.broadcast_to(array, MASK.shape)


def rollout(mask=MASK, **fields):
  """Returns a rollout with the stored masks and log-probs."""
  P, S, T = mask.shape
  result = worked_example.rollout(np.zeros((P, S)), np.full((P, S), T))
  tokens = result.tokens.replace(mask=jnp.asarray(mask))
  return result.replace(tokens=tokens, **fields)


def evaluate(loss, advantages, *, behavior="behavior", prefix=""):
  """Returns the loss and the gradient at the stored log-probs.

  Args:
    loss: a term or a sum of terms.
    advantages: name of the advantages, or a transform.
    behavior: name of the log-probs of the behavior policy.
    prefix: "extreme_" for other log-probs of the policy and the old policy.
  """
  if isinstance(advantages, str):
    advantages = stored_array(advantages)
  m = Method(loss, advantages, parameter_sets=(("ref", frozen()),))
  return worked_example.loss(
    m,
    rollout(behavior_log_probs=jnp.float32(INPUTS[f"{behavior}_log_probs"])),
    INPUTS[f"{prefix}log_probs"],
    INPUTS[f"{prefix}old_log_probs"],
    other={"ref": INPUTS["ref_log_probs"]},
  )


def metrics(surrogate, advantages, denominator="old"):
  """Returns the metrics of a policy gradient, averaged over its tokens."""
  term = terms.policy_gradient(surrogate)
  log_probs, old = (
    jnp.float32(INPUTS[name])
    for name in ("log_probs", f"{denominator}_log_probs")
  )
  extras = types.Named({"old/log_probs": old})
  _, by_token = term.fn(
    jnp.float32(on_tokens(advantages)),
    types.Named({"log_probs": log_probs}),
    rollout(extras=extras),
  )
  every_axis = (0, 1, 2)
  return {
    name: float(masked.mean(value, MASK, every_axis))
    for name, value in by_token.items()
  }


def close(actual, expected):
  """Compares to 1e-5 of the largest magnitude."""
  scale = np.abs(expected).max()
  assert scale > 1e-6
  np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * scale)


def divergence_mask(kind, threshold, cap, aggregate=TOKEN_MEAN):
  """Returns the loss of DPPO."""
  return terms.policy_gradient(
    dppo.divergence_mask(kind, threshold, cap),
    aggregate=aggregate,
    denominator="behavior",
  )


def gamma_weights(positive=(2.0, 3.0), negative=(3.0, 2.0)):
  """Returns the loss of VESPO, as an average over tokens."""
  return terms.policy_gradient(
    vespo.gamma_weighted(positive, negative),
    ratio=ratios.sequence,
    aggregate=TOKEN_MEAN,
    denominator="behavior",
  )


def masked_clip(aggregate):
  """Returns PPO-clip with the off-policy sequence mask."""
  surrogate = off_policy_mask.mask_off_policy_samples(
    surrogates.ppo_clip(), 0.1
  )
  return terms.policy_gradient(surrogate, aggregate=aggregate)


@transform(takes="none", gives="token")
def advantages_times_weights(_, rollout):
  """The rollout weights of TRL multiply a loss that is proportional to |A|."""
  del rollout
  weights = INPUTS["rollout_is_weights"]
  return jnp.float32(on_tokens("sample_advantages") * weights)


def kl(ratio, aggregate):
  """Returns k3 times a ratio."""
  return terms.kl("k3", aggregate=aggregate, ratio=ratio)


CLIP = terms.policy_gradient(surrogates.ppo_clip(), aggregate=GRPO_MEAN)
CLIP_OF_SAMPLES = terms.policy_gradient(
  surrogates.ppo_clip(), ratio=ratios.sequence_mean, aggregate=GRPO_MEAN
)
NORM = aggregates.seq_mean_token_sum_norm()
TOKEN, SAMPLE = "advantages", "sample_advantages"
# Name in the file -> arguments of `evaluate`. verl has the old policy where
# DPPO has the behavior policy, and VESPO in TRL as well.
CASES = {
  "verl_dppo_tv": (divergence_mask("tv", 0.15, 20.0), TOKEN, "old"),
  "verl_dppo_kl": (divergence_mask("kl", 0.05, 20.0), TOKEN, "old"),
  "verl_dppo_tv_norm": (divergence_mask("tv", 0.15, 1e4, NORM), TOKEN, "old"),
  "trl_dppo_tv": (divergence_mask("tv", 0.15, 20.0), TOKEN),
  "trl_dppo_kl": (divergence_mask("kl", 0.05, 20.0), TOKEN),
  "trl_vespo": (gamma_weights(), SAMPLE, "old"),
  "trl_vespo_other_parameters": (
    gamma_weights((1.0, 1.0), (0.5, 1.5)),
    SAMPLE,
    "old",
  ),
  "trl_opsm_grpo": (masked_clip(GRPO_MEAN), SAMPLE),
  "trl_opsm_dapo": (masked_clip(TOKEN_MEAN), SAMPLE),
  "trl_opsm_weights_and_kl": (
    masked_clip(GRPO_MEAN) + 0.04 * terms.kl("k3", aggregate=GRPO_MEAN),
    advantages_times_weights(),
  ),
  "trl_kl_only_token_times_ratio": (kl(ratios.token, TOKEN_MEAN), SAMPLE),
  "trl_grpo_kl_token_times_ratio": (
    CLIP + 0.04 * kl(ratios.token, GRPO_MEAN),
    SAMPLE,
  ),
  "trl_kl_only_sequence_times_ratio": (
    kl(ratios.shared_sequence_mean, TOKEN_MEAN),
    SAMPLE,
  ),
  "trl_grpo_kl_sequence_times_ratio": (
    CLIP_OF_SAMPLES + 0.04 * kl(ratios.shared_sequence_mean, GRPO_MEAN),
    SAMPLE,
  ),
  "verl_kl_k1+": (terms.kl("k1+"), SAMPLE),
}


@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradient(name):
  loss, advantages, *behavior = CASES[name]
  settings = {"behavior": behavior[0]} if behavior else {}
  actual, slopes = evaluate(loss, advantages, **settings)
  case = STORED["cases"][name]
  close(actual, case["loss"])
  close(slopes, np.array(case["gradient"]))


def test_extreme_ratios_of_samples():
  """TRL also clamps the ratio of each token, which two samples reach."""
  _, slopes = evaluate(
    gamma_weights(), SAMPLE, behavior="extreme_old", prefix="extreme_"
  )
  far = np.abs(INPUTS["extreme_log_probs"] - INPUTS["extreme_old_log_probs"])
  near = (np.where(MASK, far, 0) < 20).all(-1)
  assert (~near).sum() == 2
  expected = np.array(STORED["cases"]["trl_vespo_extreme"]["gradient"])
  close(slopes[near], expected[near])


@pytest.mark.parametrize(
  ("name", "rewards", "mask"),
  [
    ("verl_otb", "outcome_rewards", "mask"),
    ("verl_otb_dense", "token_rewards", "mask"),
    ("verl_tir_otb_gaps", "token_rewards", "mask_with_gaps"),
  ],
)
def test_advantages_of_the_optimal_token_baseline(name, rewards, mask):
  """Also of returns that differ from token to token, and of masks with gaps."""
  example = rollout(
    INPUTS[mask] > 0,
    extras=types.Named(
      {
        "old/log_probs": jnp.float32(INPUTS["old_log_probs"]),
        "old/sum_squared_probs": jnp.float32(INPUTS["sum_pi_squared"]),
      }
    ),
  )
  advantage = chain(
    stored_array(rewards),
    returns_to_go(),
    optimal_token_baseline.minus_optimal_baseline(),
  )
  expected = np.array(STORED["cases"][name]["advantages"])
  close(worked_example.apply(advantage, example), expected)


@pytest.mark.parametrize(
  ("kind", "threshold", "name"),
  [("tv", 0.15, "verl_dppo_tv"), ("kl", 0.05, "verl_dppo_kl")],
)
def test_metrics_of_dppo(kind, threshold, name):
  surrogate = dppo.divergence_mask(kind, threshold, 20.0)
  ours, theirs = metrics(surrogate, TOKEN), STORED["cases"][name]["metrics"]
  close(ours["policy/ppo_kl"], theirs["ppo_kl"])
  dropped = ours["policy/clip_frac_low"] + ours["policy/clip_frac_high"]
  close(dropped, theirs["pg_clipfrac"])
  close(ours["policy/clip_frac_cap"], theirs["pg_clipfrac_lower"])


def test_metrics_of_the_dual_clip():
  ours = metrics(surrogates.ppo_clip(0.2, 0.28, 3.0), TOKEN)
  theirs = STORED["cases"]["verl_vanilla"]["metrics"]
  close(ours["policy/ppo_kl"], theirs["ppo_kl"])
  clipped = ours["policy/clip_frac_low"] + ours["policy/clip_frac_high"]
  close(clipped, theirs["pg_clipfrac"])
  close(ours["policy/clip_frac_cap"], theirs["pg_clipfrac_lower"])


def test_metrics_of_gmpo():
  """TRL has another bound on each side."""
  theirs = STORED["cases"]["trl_gmpo"]["metrics"]
  for side, bound in (("low", 0.3), ("high", 0.4)):
    ours = metrics(gmpo.geometric_mean(bound), SAMPLE)
    close(ours[f"policy/clip_frac_{side}"], theirs[f"clip_ratio/{side}_mean"])


def test_the_mean_weight_of_vespo():
  log_ratio = INPUTS["log_probs"] - INPUTS["old_log_probs"]
  log_ratio = np.where(MASK, log_ratio, 0).sum(-1, keepdims=True)
  _, by_sample = vespo.gamma_weighted((2.0, 3.0), (3.0, 2.0)).fn(
    jnp.float32(np.broadcast_to(log_ratio, MASK.shape)),
    jnp.float32(on_tokens(SAMPLE)),
    types.Named({"log_probs": jnp.float32(INPUTS["log_probs"])}),
    rollout(),
  )
  theirs = STORED["cases"]["trl_vespo"]["metrics"]["vespo/phi_seq_mean"]
  close(by_sample["policy/weight_mean"].mean(), theirs)


def test_every_stored_case_is_compared():
  compared = {*CASES, "trl_vespo_extreme", "verl_vanilla", "trl_gmpo"}
  compared |= {"verl_otb", "verl_otb_dense", "verl_tir_otb_gaps"}
  assert compared == set(STORED["cases"])
  for case in STORED["cases"].values():
    assert STORED["sources"][case["source"]].keys() >= {"repository", "commit"}
