"""Rows of the contract test for the family `pairs`."""

from helpers.method_contract import Row

_FIRST = "of equal scores the first sample is chosen"
ROWS = {
  "advantage_model": Row(
    breaks={"no_signal": "the policy is paid by its model, not by the scores"}
  ),
  "aco": Row(signal=("behavior_log_probs",)),
  "brpo_writing": Row(
    {"limit": 1.0},  # small groups are lopsided
    breaks={
      "permutation": "the reference is drawn by its place in the group",
      "no_signal": "a tie is a loss, and this limit keeps who only loses",
    },
  ),
  "dpo": Row({"label_smoothing": 0.1}, breaks={"permutation": _FIRST}),
  "duration_aware": Row({"beta": 0.1}),
  "grpo_care": Row(signal=("scores", "correct")),
  "mah_dpo": Row(breaks={"permutation": _FIRST}),
  "p3o": Row(),
  "pacs": Row(signal=("correct",)),
  "prdp": Row(),
  "pref_grpo": Row({"beta": 0.1}),
  "semi_online_dpo": Row({"nll_coef": 0.1}, breaks={"permutation": _FIRST}),
  "semi_online_grpo": Row({"beta": 0.1}),
  "superhf": Row(
    {"beta": 0.1},
    breaks={
      "permutation": _FIRST,
      "no_signal": "the first sample of a group of equal scores is imitated",
    },
  ),
}
