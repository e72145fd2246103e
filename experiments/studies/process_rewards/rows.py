"""The rows of the tables: a label source, a loss, or a run that is paid.

All start from the same base policy, one for each seed. A row of labels fits the
loss `bce` to the labels of a source. A row of losses fits a loss to the hard
Monte-Carlo labels. A row of noise fits `bce` to exact labels, some of which are
flipped. A row of runs trains the base policy with a config of
`experiments/configs/fitted_reward.py` and the model of the row `two_class`. A
row of texts has a base policy that thinks in words, and a model that reads its
words or its maths alone and guides a search.
"""

from __future__ import annotations

import dataclasses

from experiments.configs import fitted_reward
from rewards.process import label_sources, step_losses

TASK = "chain(operations=3)"
MONTE_CARLO = "monte_carlo(least=2)"
# Second labels, which the loss `dual_head` reads.
POTENTIALS = "monte_carlo(soft=True)"
PAID_BY = "two_class"
NOISE = 0.05  # share of flipped labels
SAMPLES = 4  # samples of a problem that is labelled
NARRATED_TASK = "narrated_chain(operations=3)"
# At each step the best of five is taken.
SEARCH = "step_beam(width=1, candidates=5)"


@dataclasses.dataclass(frozen=True)
class Row:
  """A unit of work for each seed.

  Attributes:
    kind: "labels", "loss", "noise", "run" or "text".
    source: label source of the model.
    loss: loss of the model.
    problems: number of problems whose samples are labelled.
    config: name in `fitted_reward`, of the kind "run".
    text: what the model reads, a key of `experiments.prm.fit.TEXTS`.
  """

  kind: str
  source: str = MONTE_CARLO
  loss: str = "bce"
  problems: int = 1024
  config: str = ""
  text: str = "all"

  @property
  def task(self) -> str:
    """The task of the base policy."""
    return NARRATED_TASK if self.kind == "text" else TASK

  @property
  def judged_task(self) -> str:
    """The task whose checker the model is compared with.

    A step of true arithmetic is right, also if it does not lead to the answer.
    """
    return self.task.replace(")", ", prm='filler')")


# Settings of sources and losses whose defaults do not fit.
_SOURCES = {
  "monte_carlo": MONTE_CARLO,
  "binary_search": "binary_search(least=2)",
}
# The first three ask a model on a server, and the last one needs a task with
# changes of steps, which chain has not.
_WITHOUT_ROW = ("consensus", "judge", "mixture", "mutation")
ROWS = {
  **{
    f"labels_{name}": Row("labels", source=_SOURCES.get(name, name))
    for name in label_sources.names()
    if name not in _WITHOUT_ROW
  },
  "labels_monte_carlo_soft": Row("labels", source="monte_carlo(soft=True)"),
  **{name: Row("loss", loss=name) for name in step_losses.names()},
  "implicit_dpo": Row("loss", loss="implicit(kind='dpo')"),
  "implicit_nca": Row("loss", loss="implicit(kind='nca')"),
  **{
    f"noise_{samples}": Row(
      "noise", source=f"checker(noise={NOISE})", problems=samples // SAMPLES
    )
    for samples in (200, 2000)
  },
  **{f"paid_{name}": Row("run", config=name) for name in fitted_reward.names()},
  **{
    f"text_{text}": Row("text", "best_first", loss="preference", text=text)
    for text in ("all", "maths")
  },
}
