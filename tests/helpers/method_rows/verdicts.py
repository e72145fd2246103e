"""Rows of the contract test for the family `verdicts`."""

from helpers.method_contract import Row

VERDICTS = ("correct",)
ROWS = {
  "noisy_appeals": Row(
    {"appeals": "format"},
    breaks={"no_signal": "a score of 0 is a rejection, and weighs r1 - 1"},
  ),
  "noisy_backward": Row(),
  "noisy_forward": Row(
    breaks={"no_signal": "a score of 0 is a rejection, and weighs r1 - 1"}
  ),
  "nsr": Row({}, VERDICTS),
  "psr": Row({}, VERDICTS),
  "w_reinforce": Row({}, VERDICTS),
}
