"""A retriever says how near a completion is to the question or a reference."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from rewards.judged import base
from rewards.verifiers import Item, Outcome, llm_judge
from rl import UsageError, registry

TARGETS = ("question", "reference")


def relevance(to: str = "question") -> base.Question:
  """Asks for embeddings; the score is M(target) . M(completion).

  M is the embedding of the server, which must have the path `/embeddings`. A
  text without words has no embedding, and the score 0. The target is embedded
  once for all samples of a prompt by a judge that keeps its replies.
  Source: Kim & Seo 2024, Rethinking the Role of Proxy Rewards in Language Model
  Alignment (R^3: the question for open questions, the reference for others).

  Args:
    to: "question" or "reference".

  Raises:
    UsageError: the target is unknown.
  """
  if to not in TARGETS:
    raise UsageError(registry.describe_unknown("target", to, TARGETS))

  def verify(items, complete, workers):
    def score(item: Item) -> Outcome:
      target = str(item.prompt if to == "question" else item.reference)
      texts = target, str(item.completion)
      if not all(text.strip() for text in texts):
        return Outcome(0.0, 1, "", -1)
      product = float(np.dot(*map(complete.embed, texts)))
      if not math.isfinite(product):
        raise llm_judge.JudgeError(
          "judge: an embedding has a value that is not finite"
        )
      return Outcome(product, 1, "", -1)

    return llm_judge.each(score, items, workers)

  return dataclasses.replace(base.of_samples(verify), embeds=True)
