"""Rows of the contract test for the family `sets`."""

from helpers.method_contract import Row

ROWS = {
  "bbg": Row({"k": 4}, ("correct",)),
  "bon_mean": Row({"k": 2, "beta": 0.1}),
  "entropic": Row({}, ("scores",)),
  "from_value": Row(),
  "from_value_off_policy": Row({"degree": 2}),
  "max_at_k": Row({"k": 2}),
  "max_at_k_min_form": Row({"k": 2}, ("step_scores",)),
  "max_at_k_off_policy": Row({"k": 2}),
  "maxpo": Row({"k": 2}),
  "maxrl": Row({}, ("correct",)),
  "pass_at_k": Row({"k": 2}),
  "pass_at_k_adaptive": Row({"k": 2}),
  "pass_at_k_combination": Row({"k": 2}),
  "pass_at_k_exceeding": Row({"k": 2}),
  "rs_grpo": Row(),
  "tail_rl": Row(),
  "top_minus_second": Row(),
  "tsallis": Row({}, ("correct",)),
}
