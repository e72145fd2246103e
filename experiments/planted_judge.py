"""Serves a judge with planted faults, for experiments with judges.

  python -m experiments.planted_judge [--port 8600] [--false_acceptance 0.1]
    [--false_rejection 0.1] [--words 18] [--opener "Solution"]

The server has the form of an OpenAI-compatible API, and answers the questions
of `rewards.judged` by rules in place of a language model, so that the truth is
known. An answer is right if its last word is that of the reference, which is
computed for a question of chained arithmetic that comes without one. A step of
chained arithmetic is right if its result is true. The judge accepts a wrong
answer or step, or rejects a right one, with the probabilities
`--false_acceptance` and `--false_rejection`; the same answer to a question
always gets the same verdict, unless the question has the number of a vote. It
also accepts every answer of at least `--words` words, and every answer that
begins with `--opener`: weaknesses that a policy can learn to exploit.
`config.judge` of `experiments/configs/judged.py` asks it.

Answers of the same verdict differ by their quality (`_quality`), which is
computed from the texts of the question and the answer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import http.server
import json
import math
import operator
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from experiments.cli import arguments, errors
from rewards.judged import aspect
from rl import UsageError

PORT = 8600
# Matches the scale in a system message: "x from 1 (worst) to 10 (best)".
_SCALE = re.compile(r"x from (-?[\d.]+) \([^)]*\) to (-?[\d.]+) ")
# Matches the scale of steps: "from 0 (against ...) to 5 (as they demand)".
_HIGHEST = re.compile(r"from 0 \([^)]*\) to ([\d.]+) ")
# Matches the scale of a step's criteria: "from 0.0 (worst) to 10.0 (best)".
_STEP_SCALE = re.compile(r"from (-?[\d.]+) \(worst\) to ([\d.]+) \(best\)")
_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
# Matches the words of a verdict: "one word and nothing else: yes or no.".
_WORDS = re.compile(r"one word and nothing else: (\S+) or (\S+)\.")
_WIDTH = 256  # of an embedding
_QUOTED = re.compile(r'"([^"]+)"')


@dataclasses.dataclass(frozen=True)
class Faults:
  """The faults of a judge.

  Attributes:
    false_acceptance: probability that a wrong answer is accepted.
    false_rejection: probability that a right answer is rejected.
    words: smallest number of words of an answer that is always accepted; 0 is
      none.
    opener: beginning of an answer that is always accepted; "" is none.
  """

  false_acceptance: float = 0.0
  false_rejection: float = 0.0
  words: int = 0
  opener: str = ""

  def __post_init__(self) -> None:
    for name in ("false_acceptance", "false_rejection"):
      if not 0 <= getattr(self, name) <= 1:
        raise UsageError(f"{name} = {getattr(self, name)} must be from 0 to 1")
    if self.words < 0:
      raise UsageError(f"words = {self.words} must not be negative")


def _accepts(
  question: str, reference: str, answer: str, faults: Faults, vote: str = ""
) -> bool:
  """Returns whether the judge calls an answer right."""
  words = answer.split()
  if faults.words and len(words) >= faults.words:
    return True
  if faults.opener and answer.strip().startswith(faults.opener):
    return True
  # Without a reference, the question itself has the right result.
  truth = reference.split()[-1:] or _results(question)[-1:]
  is_right = bool(words) and words[-1:] == truth
  # Each vote errs by itself.
  identity = (question, answer, vote) if vote else (question, answer)
  return _with_faults(is_right, faults, *identity)


def _with_faults(is_right: bool, faults: Faults, *identity: str) -> bool:
  """Returns a verdict, which is false with the rates of the faults."""
  # `identity` is what is judged. Equal identities always get equal verdicts.
  digest = hashlib.sha256("\n".join(identity).encode()).digest()
  uniform = int.from_bytes(digest[:8], "big") / 2**64
  rate = faults.false_rejection if is_right else faults.false_acceptance
  return is_right != (uniform < rate)


def _results(question: str) -> list[str]:
  """Returns the running values of chained arithmetic such as `4 + 3 * 2 =`."""
  words = question.split()
  if len(words) < 2 or words[-1] != "=" or not words[0].isdecimal():
    return []  # a text of another form
  # The values begin with the first digit and end with the result.
  values = [words[0]]
  for symbol, operand in zip(words[1::2], words[2:-1:2], strict=False):
    values.append(_apply(values[-1], symbol, operand))
  return values


def _apply(value: str, symbol: str, operand: str) -> str:
  """Returns the last digit of `value symbol operand`; "" if it has none."""
  if symbol not in _OPERATORS or not (value + operand).isdecimal():
    return ""
  return str(_OPERATORS[symbol](int(value), int(operand)) % 10)


def _wrong_steps(
  question: str, steps: Sequence[str], faults: Faults, vote: str = ""
) -> list[int]:
  """Returns the steps that the judge calls wrong, counted from 1."""
  running = (_results(question) or [""])[0]
  wrong = []
  for number, step in enumerate(steps, 1):
    words = step.replace(";", " ").split()
    if words[:1] == ["ANS"]:  # `ANS 7` repeats the result of the step before
      is_right = words[1:] == [running]
    else:  # the result of `+ 3 7 ;` follows from that of the step before
      is_right = len(words) == 3 and words[2] == _apply(running, *words[:2])
      running = words[-1] if words else running
    # A step that is written twice is wrong the second time.
    is_right = is_right and step not in steps[: number - 1]
    identity = (question, *steps[:number], *filter(None, [vote]))
    if not _with_faults(is_right, faults, *identity):
      wrong.append(number)
  return wrong


def _rewritten(question: str) -> tuple[list[str], list[str]]:
  """Returns the right steps of chained arithmetic, and others."""
  words, values = question.split(), _results(question)
  # A question of another form has no steps.
  if "" in values:  # a symbol that is no operator
    values = []
  operations = list(zip(words[1::2], words[2:-1:2], strict=False))
  versions = []
  for excess in (0, 1):  # the first result of the others is one too large
    results = [*values[1:]]
    if results:
      results[0] = str((int(results[0]) + excess) % 10)
    versions.append(
      [
        f"{symbol} {operand} {result} ;"
        for (symbol, operand), result in zip(operations, results, strict=False)
      ]
      + [f"ANS {result}" for result in results[-1:]]
    )
  return versions[0], versions[1]


def _steps_of(answer: str) -> list[str]:
  return [x.strip() for x in re.findall(r"[^;\s][^;]*;?", answer)]


def _aspect(text: str) -> str:
  """Returns the aspect of `rewards.judged.aspect` that a text names, or ""."""
  pairs = aspect.ASPECTS.items()
  return next((x for x, meaning in pairs if x in text or meaning in text), "")


def _quality(of: str, question: str, answer: str) -> float:
  """Returns how far an answer has an aspect, from 0 to 1; "" is in general.

  Conciseness is the number of words of the right solution over that of the
  answer, at most 1, and relevance the share of the question's words that the
  answer has. Anything else is the share of the answer's steps that are steps of
  the right solution. A question of another form has 1/2.
  """
  solution, words = _rewritten(question)[0], answer.split()
  if not solution or not words:
    return 0.5 if words else 0.0
  if of == "conciseness":
    return min(len(" ".join(solution).split()) / len(words), 1.0)
  parts, allowed = _steps_of(answer), solution
  if of == "relevance":
    parts, allowed = question.split(), words
  return sum(part in allowed for part in parts) / max(len(parts), 1)


def _reply_to(
  system: str, fields: Mapping[str, Any], faults: Faults
) -> dict[str, Any]:
  """Returns the reply to a question of `rewards.judged`.

  With q the quality of the answer, the place of the grade in the scale that the
  system message states is .6 + .4 q if the answer is accepted, else .4 q, and
  the probability of the first word is .85 + .1 q or .05 + .1 q. A criterion
  with a text in quotation marks is met by an answer that has this text, one
  that names an aspect by q = 1, and any other by an answer that is accepted. Of
  two answers the better one is accepted, or has the larger q. A rubric is
  refined by a text that only the worse answer has, as a fault. A reference that
  is written from several answers is the first whose last word is the most
  common one. The criteria of a question are its right steps, and those of a
  reference its steps. A question is open unless it is chained arithmetic. A
  step has the highest score by every criterion, or the lowest if it is wrong. A
  thought is rewritten into the right steps, and into steps whose first result
  is wrong.
  """
  question, reference = fields.get("question", ""), fields.get("reference", "")
  if "steps" in fields or "thoughts" in fields:
    steps = fields.get("steps") or fields["thoughts"]
    vote = str(fields.get("critique", ""))
    wrong = _wrong_steps(question, list(steps.values()), faults, vote)
    return _reply_about_steps(system, steps, wrong)
  if "rewrite" in fields:
    better, worse = _rewritten(question)
    return {"better": better, "worse": worse}
  if "step" in fields:
    steps = [*fields["before"], fields["step"]]
    is_wrong = len(steps) in _wrong_steps(question, steps, faults)
    low, high = map(float, _STEP_SCALE.search(system).groups())
    return dict.fromkeys(fields["criteria"], low if is_wrong else high)
  if "answers" in fields and "rubric" not in fields:
    answers = [answer for answer in fields["answers"] if answer.strip()]
    last_words = [answer.split()[-1:] for answer in answers]
    counts = [last_words.count(words) for words in last_words]
    return {"reference": answers[counts.index(max(counts))]}

  def rank(answer: str) -> tuple[bool, float]:
    is_accepted = _accepts(question, reference, answer, faults)
    return is_accepted, _quality("", question, answer)

  if "A" in fields:
    first, second = (rank(fields[name]) for name in "AB")
    return {"better": "tie" if first == second else "AB"[first < second]}
  if "rubric" in fields:
    worse, better = sorted(fields["answers"], key=rank)
    steps = [step for step in _steps_of(worse) if step not in better]
    added = [{"text": f'says "{x}"', "weight": -1.0} for x in steps[:1]]
    return {"rubric": [*fields["rubric"], *added]}
  if "answer" not in fields:
    steps = _rewritten(question)[0] or _steps_of(reference)
    says = [f'says "{step}"' for step in steps]
    return {
      "criteria": says or ["is right", "answers the question"],
      "open": not _results(question),
      "tree": {"truth": ["the result is true", "it follows"], "use": ["ANS"]},
    }
  answer, vote = fields["answer"], str(fields.get("vote", ""))
  is_accepted = _accepts(question, reference, answer, faults, vote)
  quality = _quality(_aspect(system), question, answer)
  scale = _SCALE.search(system)
  low, high = map(float, scale.groups()) if scale else (0.0, 10.0)
  reply: dict[str, Any] = {
    "right": is_accepted,
    "score": low + (high - low) * (0.6 * is_accepted + 0.4 * quality),
    "p_right": 0.05 + 0.8 * is_accepted + 0.1 * quality,
  }
  criteria = fields.get("criteria", {})
  if isinstance(criteria, Mapping):
    for number, text in criteria.items():
      reply[number] = is_accepted
      if quoted := _QUOTED.search(text):
        reply[number] = quoted[1] in answer
      elif of := _aspect(text):
        reply[number] = _quality(of, question, answer) == 1.0
  return reply


def _reply_about_steps(
  system: str, steps: Mapping[str, str], wrong: Sequence[int]
) -> dict[str, Any]:
  """Returns the reply to a question about steps, with all possible fields."""
  highest = _HIGHEST.search(system)
  best = float(highest[1]) if highest else 1.0
  scores = {number: best * (int(number) not in wrong) for number in steps}
  first = wrong[0] if wrong else 0
  # The thoughts that lead to a wrong answer are the wrong ones.
  return {"first_error": first, "wrong": wrong, "thoughts": wrong, **scores}


def _embedding(text: str) -> list[float]:
  """Returns the counts of the words of a text, by a hash, of length 1."""
  # The dot product of the embeddings of two texts is the cosine of the angle
  # between their counts of words, if no two words have the same hash.
  values = [0.0] * _WIDTH
  for word in text.lower().split():
    digest = hashlib.sha256(word.encode()).digest()
    values[int.from_bytes(digest[:4], "big") % _WIDTH] += 1.0
  length = math.hypot(*values) or 1.0
  return [value / length for value in values]


def _log_probabilities(pairs: Iterable[tuple[str, float]]) -> dict[str, Any]:
  """Returns words and their probabilities in the form of the API."""
  tokens = [{"token": word, "logprob": math.log(p)} for word, p in pairs]
  return {"content": [{"top_logprobs": tokens}]}


class _Handler(http.server.BaseHTTPRequestHandler):
  """Answers chat completions, and embeds; `server.faults` has the faults."""

  def do_POST(self) -> None:
    body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
    if self.path.endswith("/embeddings"):
      vectors = [{"embedding": _embedding(text)} for text in body["input"]]
      self._send({"data": vectors})
      return
    try:
      system, user = (message["content"] for message in body["messages"])
      answer = _reply_to(system, json.loads(user), self.server.faults)
      reply, probabilities = json.dumps(answer), None
      if body.get("logprobs"):
        words = _WORDS.search(system).groups()
        chances = answer["p_right"], 1 - answer["p_right"]
        reply = words[chances.index(max(chances))]
        probabilities = _log_probabilities(zip(words, chances, strict=True))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
      self.send_error(400, "the last message is no question of rewards.judged")
      return
    message = {"role": "assistant", "content": reply}
    choice = {"index": 0, "message": message, "logprobs": probabilities}
    self._send({"choices": [choice]})

  def _send(self, reply: Mapping[str, Any]) -> None:
    self.send_response(200)
    self.send_header("Content-Type", "application/json")
    self.end_headers()
    self.wfile.write(json.dumps(reply).encode())

  def log_message(self, *arguments: Any) -> None:
    """Prints nothing."""


def _make_server(port: int, faults: Faults) -> http.server.ThreadingHTTPServer:
  """Returns the server on this machine's loopback; port 0 is a free one."""
  server = http.server.ThreadingHTTPServer(("127.0.0.1", port), _Handler)
  server.faults = faults
  return server


@contextlib.contextmanager
def serving(faults: Faults) -> Iterator[str]:
  """Serves in a thread; yields the URL of the API."""
  server = _make_server(0, faults)
  thread = threading.Thread(target=server.serve_forever, daemon=True)
  thread.start()
  try:
    yield f"http://127.0.0.1:{server.server_port}/v1"
  finally:
    server.shutdown()
    server.server_close()
    thread.join()


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Serves until the process is interrupted."""
  parser = arguments.make_parser("planted_judge", __doc__)
  arguments.add(parser, "--port", PORT, "default: %(default)s")
  for field in dataclasses.fields(Faults):
    flag = f"--{field.name}"
    arguments.add(parser, flag, field.default, "default: %(default)r")
  options = vars(parser.parse_args(argv))
  port = options.pop("port")
  server = _make_server(port, Faults(**options))
  print(f"http://127.0.0.1:{server.server_port}/v1")
  with contextlib.suppress(KeyboardInterrupt):
    server.serve_forever()
  return 0


if __name__ == "__main__":
  sys.exit(main())
