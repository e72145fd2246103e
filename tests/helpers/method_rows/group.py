"""Rows of the contract test for the family `group`."""

from helpers.method_contract import Row

ROWS = {
  "canon": Row(),
  "copo": Row(),
  "dr_grpo": Row(),
  "gdpo": Row(signal=("scores", "components")),
  "gpg": Row(),
  "grpo": Row({"beta": 0.1}),
  "hero": Row({"model": "format"}, ("scores", "components")),
  "lambda_grpo": Row(),
  "lite_ppo": Row(),
  "one_shot": Row(breaks={"no_signal": "the entropy bonus needs no reward"}),
  "opo": Row(),
  "optimal_token_baseline": Row(),
  "qae": Row(),
  "reinforce": Row(),
  "reinforce_pp": Row({"beta": 0.1}),
  "reinforce_pp_baseline": Row({"beta": 0.1}),
  "remax": Row(signal=("scores", "sampler/greedy_scores")),
  "riskpo": Row({"bundle": 2}),
  "rloo": Row(),
  "setpo": Row(
    breaks={"no_signal": "a rare sample is paid whatever its score"}
  ),
  "ucpo": Row({"beta": 0.1}),
  "unlikeliness": Row(),
  "verifree": Row(),
}
