"""Rows of the contract test for the family `process`."""

from helpers.method_contract import Row

STEPS = ("step_scores", "correct")
ROWS = {
  "capo": Row({}, STEPS),
  "clip_delta": Row({}, STEPS),
  "igpo": Row({}, ("step_scores",)),
  "min_form": Row({"verifiable": 0.5}, STEPS),
  "oprl": Row(),
  "papo": Row({}, STEPS),
  "prime": Row({"low": 0.0, "high": 1.0}, ("correct",)),
  "progress": Row({}, ("step_scores", "scores")),
  "pure_openrlhf": Row({"verifiable": 0.5}, STEPS),
  "pure_verl": Row({"verifiable": 0.5}, STEPS),
  "spark": Row({}, ("step_scores", "scores")),
  "strict_min_form": Row({"verifiable": 0.5}, STEPS),
  "sum_form": Row({"verifiable": 0.5}, STEPS),
  "tp_grpo": Row({}, STEPS),
}
