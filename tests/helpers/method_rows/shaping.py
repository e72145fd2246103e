"""Rows of the contract test for the family `shaping`."""

from helpers.method_contract import Row

_VERDICTS = ("scores", "correct")
ROWS = {
  "earl": Row({"beta": 0.1}),
  "empg": Row(
    breaks={"no_signal": "the clarity of the next step is paid without reward"}
  ),
  "entropy_adv": Row(),
  "erv": Row({"stride": 2}),
  "ktae": Row({}, _VERDICTS),
  "less": Row({"mu": 2, "share": 0.9}),
  "progrpo": Row({}, _VERDICTS),
  "rlfr": Row(
    {"size": 6, "blocks": 1, "updates": 1, "frozen_steps": 0, "coef": 0.5},
    breaks={
      "permutation": "the noise of a sample depends on its place in the group",
      "no_signal": "unlikely states are charged whatever the reward",
    },
  ),
  "rl_zvp": Row({}, _VERDICTS),
  "ucas": Row(
    breaks={"no_signal": "sure tokens are penalised whatever the reward"}
  ),
}
