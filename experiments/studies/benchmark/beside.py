"""What the comparisons with peers share: their settings, rows and proofs."""

from __future__ import annotations

import dataclasses
import pathlib
import statistics
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import rich.console

from experiments.cli import errors
from experiments.studies.benchmark import machine, outcome, rounds, sides, sizes
from experiments.studies.benchmark.outcome import Outcome, Row
from experiments.studies.benchmark.peers import PEERS
from rl import registry

NONE = "none"  # ours alone
PROOF_PROMPTS, PROOF_TOKENS = 4, 32


def over_shapes(
  console: rich.console.Console,
  shape: str,
  known: Mapping[str, sizes.Shape],
  starts: Sequence[Callable[[Mapping[str, Any]], sides.Launch | None]],
  write: Callable[[sizes.Shape, pathlib.Path], Mapping[str, Any]],
  rows: Callable[..., Iterable[Row]],
) -> Outcome:
  """Ours beside peers at one shape or all, on this machine as measured now.

  Args:
    console: where progress goes.
    shape: one of `known`; "" takes all.
    known: shapes by name.
    starts: of each peer, from the job to its side, as `launch`.
    write: puts what a shape's sides read into a folder; gives their job.
    rows: `(name, job, launches, limits=, tell=)` to the rows of one shape.

  Returns:
    All rows, and the machine.

  Raises:
    UsageError: unknown shape, or what `starts`, `write` and `rows` raise.
  """
  if shape and shape not in known:
    raise errors.UsageError(registry.describe_unknown("shape", shape, known))
  for start in starts:
    start({})  # refuses before anything is measured

  def tell(text: str) -> None:
    console.print(text, soft_wrap=True, highlight=False)

  limits = machine.measure(tell)
  tell(f"this machine: {limits}")
  found: list[Row] = []
  for name in [shape] if shape else known:
    with tempfile.TemporaryDirectory() as folder:
      tell(f"{name}: writing what all sides read")
      job = write(known[name], pathlib.Path(folder))
      launches = [start(job) for start in starts]
      found += rows(name, job, launches, limits=limits, tell=tell)
  return outcome.of_rows(found, machine=limits._asdict())


def launch(
  peer: str,
  allowed: Sequence[str],
  pythons: Mapping[str, str],
  job: Mapping[str, Any],
) -> sides.Launch | None:
  """A peer's side, once it was found installed; None for "none".

  Args:
    peer: its name.
    allowed: of the benchmark; "none" may be among them.
    pythons: interpreters of peers that have one of their own.
    job: what it is told.

  Raises:
    UsageError: unknown peer, or its packages are missing.
  """
  for name in (peer, *pythons):
    if name not in allowed:
      raise errors.UsageError(registry.describe_unknown("peer", name, allowed))
  if peer == NONE:
    return None
  known = PEERS[peer]
  made = sides.Launch(peer, known.program, job)
  if peer in pythons:
    made = sides.Launch(peer, known.program, job, pythons[peer])
  sides.check_installed(peer, made.python, known.needs, known.install)
  return made


def prove_greedy(
  ours: sides.Side, peer: sides.Side, folder: str, tell: sides.Tell
) -> None:
  """Both sides compute the same: their greedy tokens are equal.

  Args:
    ours, peer: float32, and both can be asked for "greedy".
    folder: weights in which nothing ends a completion.
    tell: where progress goes.

  Raises:
    UsageError: they differ, and where first; or they never change, which proves
      nothing.
  """
  asked = {"prompts": PROOF_PROMPTS, "tokens": PROOF_TOKENS}
  found = {
    side: side.ask("greedy", folder=folder, **asked)["tokens"]
    for side in (ours, peer)
  }
  rows = zip(found[ours], found[peer], strict=True)
  for number, (own, other) in enumerate(rows):
    same = [a == b for a, b in zip(own, other, strict=True)]
    if not all(same):
      place = same.index(False)
      raise errors.UsageError(
        f"{peer.launch} computes something else: greedy token {place} of prompt "
        f"{number} is {other[place]}, ours is {own[place]}"
      )
  kinds = {token for row in found[ours] for token in row}
  if len(kinds) < PROOF_TOKENS // 2:
    raise errors.UsageError(
      f"{len(kinds)} different greedy tokens in {PROOF_PROMPTS} completions "
      "prove nothing; use weights with larger layers"
    )
  tell(
    f"proved: {PROOF_PROMPTS} x {PROOF_TOKENS} greedy tokens of {peer.launch} "
    f"are ours, {len(kinds)} different ones"
  )


def row(
  name: str,
  shape: object,
  ours: sides.Side,
  peer: sides.Side | None,
  calls: int,
  bound: Callable[[sides.Call], float],
  tell: sides.Tell,
  *,
  work: Callable[[sides.Call], dict[str, float]] = lambda _: {},
  prove: Callable[[sides.Call, sides.Call], None] = lambda *_: None,
  limit: float | None = None,
  bound_limit: float | None = None,
) -> Row:
  """Runs the calls and says what came of them, in tokens per second.

  Args:
    name, shape: of the row.
    ours, peer: the sides; `peer` None measures ours alone.
    calls: of each side that count.
    bound: the least seconds that a call of ours could take.
    tell: where progress goes.
    work: of a call of ours, for the row.
    prove: refuses a pair of calls that did not do the same.
    limit, bound_limit: of the row.
  """
  if peer is None:
    own = list(rounds.alone(ours, calls, tell))
  else:
    pairs = []
    for pair in rounds.pairs(ours, peer, calls, tell):
      prove(*pair)
      pairs.append(pair)
    own = [pair[0] for pair in pairs]
  middle = sorted(own, key=lambda call: call.seconds / call.tokens)
  found = Row(
    name=name,
    shape=str(shape),
    unit="tokens/s",
    ours=statistics.median(call.tokens / call.seconds for call in own),
    bound_fraction=statistics.median(
      bound(call) / call.seconds for call in own
    ),
    bound_limit=bound_limit,
    work=work(middle[len(own) // 2]),
    settings={"ours": ours.launch.setting},
  )
  if peer is None:
    return found
  compared = rounds.compare(pairs)
  return dataclasses.replace(
    found,
    peer=compared.peer,
    ratio=compared.ratio,
    cpu_ratio=compared.cpu_ratio,
    settings=found.settings | {"peer": peer.launch.setting},
    limit=limit,
  )
