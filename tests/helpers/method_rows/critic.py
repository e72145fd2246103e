"""Rows of the contract test for the family `critic`."""

from helpers.method_contract import Row

_CRITIC = "where no reward comes, what the critic expected is an advantage"
ROWS = {
  "ppo": Row({"lam": 0.9, "beta": 0.1}, breaks={"no_signal": _CRITIC}),
  "ppo_process": Row(signal=("step_scores",), breaks={"no_signal": _CRITIC}),
  "prlcoder": Row(
    signal=("scores", "step_scores"), breaks={"no_signal": _CRITIC}
  ),
  "tulu3": Row(signal=("correct",), breaks={"no_signal": _CRITIC}),
  "vapo": Row(
    {"alpha": 0.5, "pretraining": 0},
    ("scores", "correct"),
    {"no_signal": _CRITIC},
  ),
}
