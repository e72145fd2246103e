"""Rows of the contract test for the family `surrogates`."""

from helpers.method_contract import Row

ROWS = {
  "chi_squared": Row(),
  "cispo": Row(),
  "clip_cov": Row(
    {"fraction": 0.05},
    breaks={"permutation": "the dropped tokens are drawn by their place"},
  ),
  "dapo": Row(),
  "dispo": Row(),
  "dppo": Row(),
  "fixpo": Row(),
  "flex_clip": Row({"schedule": "od"}),
  "gmpo": Row(),
  "gspo": Row(),
  "kimi": Row(),
  "kl_cov": Row({"fraction": 0.05}),
  "lp_reg": Row({"kappa": 0.5, "fraction": 0.2}),
  "off_policy_mask": Row({"beta": 0.1}),
  "sapo": Row(),
  "simko": Row({"alpha": 0.2}),
  "siren": Row(),
  "stable_reinforce": Row(),
  "topr": Row({"baseline": 0.5}, ("correct",)),
  "vespo": Row(),
}
