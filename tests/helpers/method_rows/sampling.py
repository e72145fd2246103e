"""Rows of the contract test for the family `sampling`."""

from helpers.method_contract import Row

VERDICTS_TOO = ("scores", "correct")
ROWS = {
  "aryabhata": Row(),
  "brorl": Row(),
  "brpo_anytime": Row({}, ("scores", "step_scores")),
  "carl": Row(
    breaks={"permutation": "the branches of a tree name samples by number"}
  ),
  "coba": Row(),
  "dars": Row(),
  "diver": Row({}, VERDICTS_TOO),
  "eepo": Row(),
  "pf_ppo": Row(
    breaks={"permutation": "samples are drawn by their place in the group"}
  ),
  "prof": Row({}, VERDICTS_TOO),
  "soft_rl": Row(
    breaks={"no_signal": "surprise is a reward whatever the score"}
  ),
  "ticket_mask": Row(
    {"keep": 0.5},
    breaks={
      "permutation": "the mask lies on places, and so do parameters here"
    },
  ),
  "treerpo": Row(
    breaks={"permutation": "the branches of a tree name samples by number"}
  ),
}
