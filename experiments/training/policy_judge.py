"""A judge in the same process: a policy from a model folder or of a run.

A run is one that was trained on the lines of `experiments.judge_lines`: it
reads the user's message of a question alone, in the form of its own prompts.

It has the interface of `rewards.verifiers.llm_judge`: text in, text out, and
the probabilities of the first word. Several threads ask at a time. One of them
computes all questions that wait, as one batch, while the others wait for their
answers, so that no thread is needed besides.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import pathlib
import threading
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from experiments.data import padding, pretrained
from experiments.tasks.text import free_prompts
from experiments.training import (
  decoder,
  drawing,
  initial_state,
  placement,
  prng_keys,
  workdirs,
)
from experiments.training.experiment import Experiment
from models import checkpoint_reader, hf, policy
from rewards.verifiers import llm_judge
from rl import UsageError, types

# Padded lengths of prompts, besides the largest one that the policy reads; each
# is compiled when it is first needed.
_LENGTHS = (64, 256, 512, 1024)
_WORDS = 100  # most likely tokens whose texts `next_words` returns


# The function `experiments.training.build.build`. This module cannot import it,
# because `build` imports the module that makes judges.
Build = Callable[[ml_collections.ConfigDict, Sequence[jax.Device]], Experiment]


class _Request(NamedTuple):
  """A question that waits."""

  ids: Sequence[int]  # tokens of the prompt
  # Whether it asks for the probabilities of the first word, not for a reply.
  reads_words: bool
  answer: futures.Future  # where the answer goes


class PolicyJudge:
  """A judge that is a policy; its parameters are loaded by the first question.

  The random numbers of a reply depend on its prompt alone.

  Attributes:
    identity: the folder, and when its parameters were last changed.
  """

  def __init__(
    self,
    folder: str,
    temperature: float = 0.0,
    max_tokens: int = 256,
    batch: int = 8,
    *,
    build: Build | None = None,
  ) -> None:
    """Checks that the folder has a model.

    Args:
      folder: workdir of a run; a folder with Hugging Face files, whose
        tokenizer has a chat template; or a name in `pretrained.MODELS`.
      temperature: sampling temperature; 0 is greedy decoding.
      max_tokens: largest number of tokens of a reply.
      batch: number of questions that are computed together.
      build: `experiments.training.build.build`, for the workdir of a run.

    Raises:
      UsageError: the folder has no model, or its tokenizer no chat template.
    """
    self._folder = pathlib.Path(pretrained.resolve(folder))
    if build and workdirs.is_run(self._folder):
      self._open_run(build)
    else:
      self._open_folder(folder)
    self._sampling = self._task.sampling(1, max_tokens, temperature=temperature)
    self._batch = batch
    self._computes = threading.Lock()  # held by the thread that computes
    self._waiting: collections.deque[_Request] = collections.deque()
    self._params: types.PyTree = None

  def _open_folder(self, name: str) -> None:
    """Reads the shape and the tokenizer of a model folder."""
    model = decoder.choose_fast_forms(hf.load_config(self._folder, "float32"))
    self._task = free_prompts.make_task(str(self._folder), model)
    if self._task.encode_turns is None:
      raise UsageError(
        f"judge: the tokenizer of {name} has no chat template; a judge is "
        "asked by a system message and a user's message"
      )
    self._policy = policy.bind(model)
    self._encode = self._task.encode_turns
    self._load = lambda: hf.load(self._folder, dtype="float32")[1]
    times = [file.stat().st_mtime_ns for file in self._folder.iterdir()]
    self.identity = f"{self._folder} {max(times)}"

  def _open_run(self, build: Build) -> None:
    """Reads the shape and the prompts of a run."""
    checkpoints = self._folder / checkpoint_reader.FOLDER
    step = checkpoint_reader.latest_step(checkpoints)
    if step is None:
      raise UsageError(
        f"judge: the run {self._folder} has no checkpoint; train it first"
      )
    changed = (checkpoints / str(step)).stat().st_mtime_ns
    self.identity = f"{self._folder} {step} {changed}"
    config = workdirs.read_config(self._folder)
    # The policy is read without what has paid its run, and on one device.
    for name in ("models", "judge", "trip_wires"):
      config[name] = ml_collections.ConfigDict()
    config.mesh.update(
      {"replica": None, "data": -1, "fsdp": None, "tensor": None, "context": 1}
    )
    if "inference" in config:
      config.inference.devices = config.inference.ahead = 0
    e = build(config, jax.local_devices()[:1])
    self._task, self._policy = e.task, e.policy
    self._encode = lambda messages: e.task.prompt_ids(messages[-1]["content"])
    self._load = lambda: types.join(
      checkpoint_reader.restore_params(
        checkpoints, placement.abstract_state(e).params, step
      ),
      initial_state.frozen_params(e, self._folder),
    )

  def __call__(self, messages: list[llm_judge.Message]) -> str:
    """Returns the reply to messages.

    Raises:
      JudgeError: the messages are too long.
    """
    return self._ask(messages, reads_words=False)

  def next_words(self, messages: list[llm_judge.Message]) -> dict[str, float]:
    """Returns the probabilities of the first token of the reply, by its text.

    They are read from one forward pass. Tokens that differ only by blanks count
    together; the most likely ones are returned.

    Raises:
      JudgeError: the messages are too long.
    """
    return self._ask(messages, reads_words=True)

  def _ask(self, messages: list[llm_judge.Message], *, reads_words: bool):
    ids = self._encode(messages)
    if len(ids) > self._task.prompt_length:
      raise llm_judge.JudgeError(
        f"judge: the question has {len(ids)} tokens, and the judge reads up to "
        f"{self._task.prompt_length}"
      )
    request = _Request(ids, reads_words, futures.Future())
    self._waiting.append(request)
    while not request.answer.done():
      with self._computes:
        if not request.answer.done():
          self._answer_some()
    return request.answer.result()

  def _answer_some(self) -> None:
    """Answers the questions of one kind that have waited longest."""
    # Other threads only append, so that the first question stays the first.
    kind = self._waiting[0].reads_words
    requests: list[_Request] = []
    while len(requests) < self._batch and self._waiting:
      if self._waiting[0].reads_words != kind:
        break
      requests.append(self._waiting.popleft())
    try:
      answers = self._compute([request.ids for request in requests], kind)
    except Exception as error:  # raised where the answers are read
      for request in requests:
        request.answer.set_exception(error)
      return
    for request, answer in zip(requests, answers, strict=True):
      request.answer.set_result(answer)

  def _compute(
    self, prompts: Sequence[Sequence[int]], reads_words: bool
  ) -> list[str] | list[dict[str, float]]:
    """Returns the answers to at most `batch` prompts."""
    if self._params is None:
      self._params = self._load()
    longest = max(map(len, prompts))
    lengths = sorted({*_LENGTHS, self._task.prompt_length})
    length = next(n for n in lengths if n >= longest)
    # Rows without a question repeat the first one.
    rows = [*prompts, *[prompts[0]] * (self._batch - len(prompts))]
    ids, mask = padding.on_left(rows, length, self._task.pad_id)
    if reads_words:
      p, tokens = jax.device_get(
        _first_tokens(self._policy, self._params, ids, mask)
      )
      return [
        llm_judge.sum_by_text(
          (self._task.decode([token]), float(chance))
          for token, chance in zip(tokens[i], p[i], strict=True)
        )
        for i in range(len(prompts))
      ]
    identities = np.array(
      [_identity(row[in_row]) for row, in_row in zip(ids, mask, strict=True)]
    )
    samples = jax.device_get(
      drawing.generate(
        self._policy,
        self._params,
        ids,
        mask,
        *(_keys(identities), self._sampling),
      )
    )
    return [
      self._task.text_of(samples.completions[i, 0, : samples.lengths[i, 0]])
      for i in range(len(prompts))
    ]


def _identity(ids: np.ndarray) -> int:
  """Returns a number from 0 to 2^31 - 1 by which prompts differ."""
  digest = hashlib.blake2b(ids.astype(np.int32).tobytes(), digest_size=4)
  return int.from_bytes(digest.digest(), "big") & 0x7FFFFFFF


@jax.jit
def _keys(identities: np.ndarray) -> jax.Array:
  """Returns the PRNG keys of prompts, `[P]`, from their identities."""
  seed_key = prng_keys.from_seed(0)
  return jax.vmap(jax.random.fold_in, (None, 0))(seed_key, identities)


@functools.partial(jax.jit, static_argnames="bound")
def _first_tokens(bound, params, prompts, mask):
  """Returns the chances and ids of the likeliest first tokens, `[P, W]`."""
  logits, _ = bound.prefill(params, prompts, mask, 1, 1)
  chances = jax.nn.softmax(logits.astype(jnp.float32), -1)
  return jax.lax.top_k(chances, min(_WORDS, chances.shape[-1]))
