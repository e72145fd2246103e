"""The hyper-parameters with which each method is recorded.

A row is `(setting, changes)`: the method is recorded at its defaults, at
`setting`, and at `setting` with each entry of `changes` in turn. The settings
make the hyper-parameters matter on rollouts of 6 samples and 7 tokens. The
values stand here, and are not derived from the defaults, so that a changed
default changes the record at the defaults alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from captured import code


class Each(NamedTuple):
  """Several values of one hyper-parameter, each recorded by itself."""

  values: tuple[Any, ...]


METHODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
  "aco": ({}, {"beta": 0.05, "alpha": 0.5, "most": 1.5}),
  "advantage_model": ({}, {"margin": 0.2, "gamma": 0.5, "clip": 0.1}),
  "aryabhata": ({}, {"pilot": 3, "threshold": 0.6, "ddof": 0}),
  "bon_mean": ({"k": 2, "beta": 0.1}, {"k": 3, "clip": 0.1, "beta": 0.3}),
  "brorl": (
    {"beta": 0.1},
    {"low": 0.1, "high": 0.14, "beta": 0.3, "every": 2, "ddof": 0},
  ),
  "brpo_anytime": (
    {},
    {"budgets": (0.3, 0.6, 1.0), "summaries": 2, "clip": 0.1},
  ),
  "brpo_writing": ({"limit": 1.0}, {"limit": 0.5, "clip": 0.1}),
  "canon": (
    {"horizon": 20},
    {
      "metric": "length",
      "mu": Each((0.5, 0.0, None)),
      "alpha": 0.5,
      "low": 0.1,
      "high": 0.14,
      "horizon": 10,
    },
  ),
  "carl": ({}, {"clip": 0.1}),
  "chi_squared": ({}, {"coef": 0.3, "clip": 0.1}),
  "cispo": ({"high": 0.5}, {"low": 0.2, "high": 0.2, "ddof": 0}),
  "clip_cov": (
    {"fraction": 0.2, "low": 0.1},
    {"fraction": 0.1, "low": 0.3, "high": 0.5, "clip": 0.1, "ddof": 0},
  ),
  "clip_delta": (
    {"horizon": 20, "labelled": 0.5},
    {
      "form": Each(("clip", "delta")),
      "threshold": 0.2,
      "alpha": 0.4,
      "labelled": 1.0,
      "horizon": 10,
      "clip": 0.1,
    },
  ),
  "coba": (
    {},
    {
      "pilot": 3,
      "mean_samples": 4,
      "tau": 0.5,
      "lowest": 0.75,
      "slope": 4.0,
      "decay": 0.45,
      "clip": 0.1,
    },
  ),
  "copo": ({}, {"gamma": 5.0, "rho": 0.2, "clip": 0.1}),
  "dapo": (
    {"max_length": 7, "cache": 3},
    {"low": 0.1, "high": 0.14, "max_length": 6, "cache": 2, "ddof": 0},
  ),
  "dars": (
    {"pilot": 2},
    {
      "schedule": "hardness_weighted",
      "pilot": 3,
      "total": 20,
      "standardized": True,
      "clip": 0.1,
    },
  ),
  "dispo": (
    {"max_length": 7, "cache": 3},
    {
      "positive": (0.1, 0.2),
      "negative": (0.1, 0.2),
      "max_length": 6,
      "cache": 2,
      "ddof": 0,
    },
  ),
  "diver": (
    {},
    {
      "kind": "steps",
      "steps": 200,
      "low": 0.1,
      "high": 0.14,
      "ddof": 0,
    },
  ),
  "dr_grpo": ({}, {"clip": 0.1, "horizon": 10}),
  "duration_aware": (
    {"beta": 0.1},
    {"timeout": 4.0, "clip": 0.1, "beta": 0.3, "ddof": 0, "eps": 0.1},
  ),
  "earl": (
    {"beta": 0.1},
    {
      "rho": 0.5,
      "scope": "batch",
      "beta": 0.3,
      "low": 0.1,
      "high": 0.14,
      "ddof": 0,
    },
  ),
  "eepo": (
    {},
    {"rate": 0.1, "threshold": 1.5, "window": 2, "clip": 0.1, "ddof": 0},
  ),
  "empg": (
    {},
    {"k": 0.5, "k_future": 0.5, "zeta": 0.4, "clip": 0.1, "ddof": 0},
  ),
  "entropy_adv": ({}, {"alpha": 0.2, "kappa": 1.0, "clip": 0.1, "ddof": 0}),
  "erv": (
    {"stride": 2},
    {
      "stride": 3,
      "rate": 0.1,
      "gain": 1.0,
      "kappa": 1.0,
      "clip": 0.1,
      "ddof": 0,
    },
  ),
  "fixpo": (
    {"passes": 4},
    {
      "eps": 0.05,
      "safety": 1.0,
      "rate": 0.3,
      "beta": 0.5,
      "k": 2,
      "passes": 2,
      "ddof": 0,
    },
  ),
  "flex_clip": (
    {"steps": 100},
    {
      "schedule": Each(("did", "od")),
      "steps": 80,
      "upper": (-0.1, 0.2),
      "lower": (-0.1, 0.2),
      "clip": 0.1,
      "ddof": 0,
    },
  ),
  "gdpo": (
    {"names": ("accuracy", "format", "style")},
    {"names": ("accuracy", "format"), "weights": (0.5, 0.3, 0.2), "clip": 0.1},
  ),
  "gmpo": ({}, {"clip": 0.1, "ddof": 0}),
  "gpg": ({}, {"count": "scores"}),
  "grpo": ({"beta": 0.1}, {"clip": 0.1, "beta": 0.3, "ddof": 0, "eps": 0.1}),
  "grpo_care": (
    {},
    {
      "bonus": 0.25,
      "cap": 0.1,
      "margin": 0.3,
      "decay": 0.5,
      "every": 2,
      "clip": 0.1,
      "eps": 0.1,
    },
  ),
  "gspo": ({}, {"low": 0.05, "high": 0.08, "ddof": 0}),
  "hero": (
    {"model": "style"},
    {"low": 0.2, "high": 2.0, "steepness": 3.0, "decay": 0.5, "clip": 0.1},
  ),
  "kimi": ({}, {"tau": 0.5}),
  "kl_cov": ({"fraction": 0.2}, {"fraction": 0.1, "beta": 0.5, "ddof": 0}),
  "ktae": ({}, {"clip": 0.1, "ddof": 0}),
  "less": (
    {"mu": 2, "share": 0.9},
    {
      "mu": 3,
      "share": 0.4,
      "low": 0.1,
      "high": 0.14,
      "cap": 1.2,
      "ddof": 0,
    },
  ),
  "lite_ppo": ({}, {"clip": 0.1, "ddof": 1, "eps": 0.1}),
  "lp_reg": (
    {"kappa": 0.5, "fraction": 0.2},
    {"kappa": 0.3, "fraction": 0.4, "beta": 0.5, "high": 0.2, "ddof": 0},
  ),
  "mah_dpo": ({}, {"objectives": ("accuracy", "style"), "beta": 0.3}),
  "max_at_k": (
    {"k": 2},
    {
      "k": 3,
      "baseline": Each(("none", "leave_one_out", "centered")),
      "clip": 0.1,
    },
  ),
  "max_at_k_off_policy": (
    {"k": 2},
    {"k": 3, "order": Each(("first", "zeroth")), "bound": 0.05},
  ),
  "min_form": (
    {"verifiable": 0.5, "horizon": 20, "labelled": 0.5},
    {
      "temperature": 0.5,
      "verifiable": 2.0,
      "labelled": 1.0,
      "horizon": 10,
      "clip": 0.1,
    },
  ),
  "noisy_appeals": (
    {"appeals": "forecast"},
    {"decay": 0.5, "largest": 0.3, "clip": 0.1},
  ),
  "noisy_backward": (
    {},
    {"false_positive": 0.3, "false_negative": 0.1, "clip": 0.1},
  ),
  "noisy_forward": ({}, {"false_negative": 0.1, "clip": 0.1}),
  "nsr": ({}, {"clip": 0.1}),
  "one_shot": (
    {"beta": 0.1, "entropy_coef": 0.1},
    {"clip": 0.1, "beta": 0.3, "entropy_coef": 0.3, "ddof": 0},
  ),
  "opo": ({}, {}),
  "oprl": ({}, {"beta": 0.3, "process_coef": 0.5, "clip": 0.1}),
  "p3o": (
    {},
    {"beta": 0.3, "clip": 0.1, "clipping": "joint"},
  ),
  "pacs": ({}, {"beta": 0.5, "balanced": False}),
  "pass_at_k": (
    {"k": 2},
    {"k": 3, "form": Each(("bootstrap", "full")), "low": 0.1, "high": 0.14},
  ),
  "pass_at_k_adaptive": (
    {"k": 2},
    {"k": 3, "exploit": 0.25, "low": 0.1, "high": 0.14},
  ),
  "pass_at_k_combination": (
    {"k": 2},
    {"k": 3, "blend": jnp.sqrt, "low": 0.1, "high": 0.14},
  ),
  "pass_at_k_exceeding": (
    {"k": 2},
    {"k": 3, "form": Each(("bootstrap", "full")), "low": 0.1, "high": 0.14},
  ),
  "pf_ppo": ({}, {"rule": Each(("best_random", "power")), "clip": 0.1}),
  "ppo": (
    {"lam": 0.9, "beta": 0.1},
    {
      "gamma": 0.5,
      "lam": 0.5,
      "beta": 0.3,
      "clip": 0.1,
      "value_clip": 0.05,
      "value_coef": 0.25,
    },
  ),
  "prdp": ({}, {"beta": 0.3, "clip": 0.05}),
  "pref_grpo": (
    {"beta": 0.1},
    {"clip": 0.1, "beta": 0.3, "ddof": 0, "eps": 0.1},
  ),
  "prime": (
    {"low": 0.0, "high": 1.0},
    {
      "beta": 0.3,
      "process_coef": 0.5,
      "update": "before",
      "baseline": "paper",
      "low": 0.3,
      "high": 0.6,
      "clip": 0.1,
      "ddof": 0,
    },
  ),
  "prof": (
    {},
    {
      "share": 0.25,
      "penalty": 0.5,
      "most_steps": 2,
      "wrong": "random",
      "clip": 0.1,
    },
  ),
  "progrpo": (
    {},
    {"alpha": 0.6, "share": 0.5, "low": 0.1, "high": 0.14, "ddof": 0},
  ),
  "psr": ({}, {"clip": 0.1}),
  "pure_openrlhf": (
    {"verifiable": 0.5, "labelled": 0.5},
    {
      "temperature": 0.5,
      "baseline": "step",
      "verifiable": 2.0,
      "labelled": 1.0,
      "clip": 0.1,
    },
  ),
  "pure_verl": (
    {"verifiable": 0.5, "horizon": 20, "labelled": 0.5},
    {
      "temperature": 0.5,
      "verifiable": 2.0,
      "labelled": 1.0,
      "horizon": 10,
      "clip": 0.1,
      "ddof": 0,
    },
  ),
  "qae": (
    {},
    {"quantile": 0.7, "low": 0.1, "high": 0.14, "ddof": 0, "eps": 0.1},
  ),
  "reinforce": ({}, {"decay": 0.5}),
  "reinforce_pp": ({"beta": 0.1}, {"beta": 0.3, "gamma": 0.5, "clip": 0.1}),
  "reinforce_pp_baseline": (
    {"beta": 0.1},
    {"beta": 0.3, "over": "sample", "clip": 0.1},
  ),
  "remax": ({}, {}),
  "riskpo": (
    {"bundle": 2},
    {
      "bundle": 4,
      "low": 0.4,
      "high": 0.6,
      "w": 3.0,
      "rate": 0.5,
      "clip": 0.1,
    },
  ),
  "rl_zvp": ({}, {"alpha": 0.3, "clip": 0.1, "ddof": 0}),
  "rlfr": (
    {"size": 6, "blocks": 1, "updates": 2, "frozen_steps": 1},
    {
      "coef": 0.1,
      "threshold": 0.3,
      "max_tokens": 1,
      "time": 0.5,
      "blocks": 2,
      "rate": 1e-3,
      "updates": 7,
      "frozen_steps": 0,
      "clip": 0.1,
      "cap": 1.3,
      "ddof": 0,
      "eps": 0.1,
      "seed": 1,
    },
  ),
  "rloo": ({}, {}),
  "sapo": ({}, {"tau_positive": 0.5, "tau_negative": 2.0, "ddof": 0}),
  "semi_online_dpo": (
    {"nll_coef": 0.1},
    {"every": 2, "beta": 0.3, "nll_coef": 0.5},
  ),
  "semi_online_grpo": (
    {"beta": 0.1},
    {"every": 2, "cap": 1.1, "beta": 0.3, "ddof": 0, "eps": 0.1},
  ),
  "simko": (
    {"alpha": 0.2},
    {
      "k": 2,
      "alpha": 0.5,
      "press": 2.0,
      "quantile": 0.4,
      "clip": 0.1,
      "ddof": 0,
    },
  ),
  "siren": (
    {"coef": 0.1, "horizon": 20},
    {
      "p": 0.5,
      "quantile": 0.4,
      "coef": 0.3,
      "low": 0.1,
      "high": 0.14,
      "horizon": 10,
    },
  ),
  "soft_rl": (
    {"alpha": 0.1},
    {"alpha": 0.3, "target": 2.0, "rate": 0.1, "clip": 0.1},
  ),
  "stable_reinforce": (
    {},
    {
      "bound": 1.1,
      "deviations": 0.5,
      "clip": 0.1,
      "parts": ("format", "accuracy", "style"),
    },
  ),
  "strict_min_form": (
    {"verifiable": 0.5, "horizon": 20, "labelled": 0.5},
    {"verifiable": 2.0, "labelled": 1.0, "horizon": 10, "clip": 0.1},
  ),
  "sum_form": (
    {"verifiable": 0.5, "horizon": 20, "labelled": 0.5},
    {
      "gamma": 0.5,
      "verifiable": 2.0,
      "labelled": 1.0,
      "horizon": 10,
      "clip": 0.1,
    },
  ),
  "superhf": ({"beta": 0.1}, {"beta": 0.5}),
  "ticket_mask": (
    {"keep": 0.5},
    {"keep": 0.2, "seed": 1, "clip": 0.1, "beta": 0.5},
  ),
  "top_minus_second": ({}, {"scaled": True, "clip": 0.1}),
  "topr": (
    {"baseline": 0.2},
    {"baseline": 0.5, "positive": (0.9, 1.1), "negative": (0.5, 0.8)},
  ),
  "treerpo": ({}, {"clip": 0.1}),
  "tulu3": (
    {},
    {
      "alpha": 5.0,
      "no_eos": -5.0,
      "beta": 0.3,
      "lam": 0.5,
      "clip": 0.1,
      "value_clip": 0.05,
      "value_coef": 0.5,
    },
  ),
  "ucas": (
    {},
    {
      "right": 0.5,
      "wrong": 0.6,
      "penalty": 0.3,
      "reduce": "sum",
      "clip": 0.1,
      "ddof": 0,
    },
  ),
  "unlikeliness": ({}, {"beta_rank": 0.5, "clip": 0.1, "beta": 0.3}),
  "vapo": (
    {"alpha": 0.5, "pretraining": 0},
    {
      "alpha": 0.1,
      "mu": 0.5,
      "pretraining": 50,
      "low": 0.1,
      "high": 0.14,
      "value_clip": 0.05,
      "value_coef": 0.25,
    },
  ),
  "w_reinforce": ({}, {"positive": 0.5, "clip": 0.1}),
}


# Methods whose defaults are for a policy of another width than the one that is
# recorded, or name a component that the rollouts lack. Their setting stands for
# the defaults.
NOT_AT_DEFAULTS = ("hero", "noisy_appeals", "rlfr")


def variants(name: str, defined: list[str]) -> dict[str, dict[str, Any]]:
  """Hyper-parameters by the label of the variant.

  Args:
    name: the method.
    defined: its hyper-parameters. One without a row of changes is recorded at
      its default alone, and `missing` names it.
  """
  setting, changes = METHODS.get(name, ({}, {}))
  results = {} if name in NOT_AT_DEFAULTS else {"defaults": {}}
  if setting:
    results["setting"] = setting
  for key, value in changes.items():
    present_key = code.present_setting(key, defined)
    if present_key not in defined:
      continue  # renamed; `code.RENAMED` says how
    for number, one in enumerate(
      value.values if isinstance(value, Each) else (value,)
    ):
      label = key if number == 0 else f"{key}/{number}"
      results[label] = {**setting, present_key: one}
  return results


def missing(name: str, defined: list[str]) -> list[str]:
  """Hyper-parameters of a method that no row changes."""
  changes = {
    code.present_setting(key, defined) for key in METHODS.get(name, ({}, {}))[1]
  }
  return [key for key in defined if key not in changes]
