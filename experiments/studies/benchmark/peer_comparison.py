"""Functions shared by the benchmarks that compare this project with peers.

They start the processes of both sides (`sides`), check that both sides do the
same work, time their calls alternately, and make the rows of the table.
"""

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

NONE = "none"  # value of `peer` with which only this project is measured
# Number of prompts, and of greedy tokens per prompt, that both sides generate
# to show that they compute the same model.
PROOF_PROMPTS, PROOF_TOKENS = 4, 32


def compare_over_shapes(
  console: rich.console.Console,
  shape: str,
  shapes: Mapping[str, sizes.Shape],
  make_launches: Sequence[Callable[[Mapping[str, Any]], sides.Launch | None]],
  write: Callable[[sizes.Shape, pathlib.Path], Mapping[str, Any]],
  measure_shape: Callable[..., Iterable[Row]],
) -> Outcome:
  """Measures this project and peers, at one shape or at all shapes.

  The limits of the machine (`machine.measure`) are measured first.

  Args:
    console: console for progress.
    shape: name of one of `shapes`; "" measures all.
    shapes: shapes by name.
    make_launches: one function `job -> launch` for each peer, such as
      `make_launch` with the other arguments bound.
    write: writes the files that all sides read into a folder and returns the
      job of all sides.
    measure_shape: function `(name, job, launches, limits=, report=)` that
      yields the rows of one shape.

  Returns:
    The rows of all shapes, and the limits of the machine.

  Raises:
    UsageError: the shape is unknown, or one of the functions passed here raises
      this error.
  """
  if shape and shape not in shapes:
    raise errors.UsageError(registry.describe_unknown("shape", shape, shapes))
  for make_launch in make_launches:
    make_launch({})  # raises if the peer is missing, before a measurement

  def report(text: str) -> None:
    console.print(text, soft_wrap=True, highlight=False)

  limits = machine.measure(report)
  report(f"this machine: {limits}")
  table_rows: list[Row] = []
  for name in [shape] if shape else shapes:
    with tempfile.TemporaryDirectory() as folder:
      report(f"{name}: writing the weights and prompts of all sides")
      job = write(shapes[name], pathlib.Path(folder))
      launches = [make_launch(job) for make_launch in make_launches]
      table_rows += measure_shape(
        name, job, launches, limits=limits, report=report
      )
  return outcome.from_rows(table_rows, machine=limits._asdict())


def make_launch(
  peer: str,
  allowed: Sequence[str],
  pythons: Mapping[str, str],
  job: Mapping[str, Any],
) -> sides.Launch | None:
  """Returns the launch of a peer's side, or None for the peer "none".

  Args:
    peer: name of the peer.
    allowed: names that the benchmark accepts; "none" may be one of them.
    pythons: Python interpreters by peer, for peers that are installed in an
      environment of their own.
    job: JSON values that tell the side what to run (`peers`).

  Raises:
    UsageError: the peer is unknown, or its packages are not installed.
  """
  for name in (peer, *pythons):
    if name not in allowed:
      raise errors.UsageError(registry.describe_unknown("peer", name, allowed))
  if peer == NONE:
    return None
  spec = PEERS[peer]
  side_launch = sides.Launch(peer, spec.program, job)
  if peer in pythons:
    side_launch = sides.Launch(peer, spec.program, job, pythons[peer])
  sides.check_installed(peer, side_launch.python, spec.needs, spec.install)
  return side_launch


def check_same_greedy_tokens(
  ours: sides.Side, peer: sides.Side, folder: str, report: sides.Report
) -> None:
  """Checks that both sides generate the same greedy tokens.

  Args:
    ours: side of this project.
    peer: side of the peer. Both sides must compute in float32 and answer the
      question "greedy".
    folder: folder of weights whose completions never end.
    report: function that prints a line of progress.

  Raises:
    UsageError: the tokens of the sides differ, or too few distinct tokens occur
      to show that the models are equal.
  """
  settings = {"prompts": PROOF_PROMPTS, "tokens": PROOF_TOKENS}
  completions = {
    side: side.ask("greedy", folder=folder, **settings)["tokens"]
    for side in (ours, peer)
  }
  pairs = zip(completions[ours], completions[peer], strict=True)
  for number, (our_tokens, peer_tokens) in enumerate(pairs):
    equal = [
      our_token == peer_token
      for our_token, peer_token in zip(our_tokens, peer_tokens, strict=True)
    ]
    if not all(equal):
      position = equal.index(False)
      raise errors.UsageError(
        f"{peer.launch} computes something else: greedy token {position} "
        f"of prompt {number} is {peer_tokens[position]}, ours is "
        f"{our_tokens[position]}"
      )
  distinct = {token for tokens in completions[ours] for token in tokens}
  if len(distinct) < PROOF_TOKENS // 2:
    raise errors.UsageError(
      f"{len(distinct)} different greedy tokens in {PROOF_PROMPTS} completions "
      "prove nothing; use weights with larger layers"
    )
  report(
    f"proved: {PROOF_PROMPTS} x {PROOF_TOKENS} greedy tokens of {peer.launch} "
    f"are ours, {len(distinct)} different ones"
  )


def measure_row(
  name: str,
  shape: object,
  ours: sides.Side,
  peer: sides.Side | None,
  calls: int,
  least_seconds: Callable[[sides.Call], float],
  report: sides.Report,
  *,
  work: Callable[[sides.Call], dict[str, float]] = lambda _: {},
  check_pair: Callable[[sides.Call, sides.Call], None] = lambda *_: None,
  limit: float | None = None,
  bound_limit: float | None = None,
) -> Row:
  """Times calls of one side or of two sides, and returns the table's row.

  Args:
    name: name of the row.
    shape: shape of the model and the batch, for the row.
    ours: side of this project.
    peer: side of the peer; None measures this project alone.
    calls: number of timed calls of each side.
    least_seconds: function from a call of `ours` to the least time that the
      machine's limits allow for this call.
    report: function that prints a line of progress.
    work: function from a call of `ours` to `Row.work`.
    check_pair: function that raises an error if two calls did different work.
    limit: least allowed ratio; None for no limit.
    bound_limit: least allowed `Row.bound_fraction`; None for no limit.
  """
  if peer is None:
    our_calls = list(rounds.run_alone(ours, calls, report))
  else:
    pairs = []
    for pair in rounds.run_pairs(ours, peer, calls, report):
      check_pair(*pair)
      pairs.append(pair)
    our_calls = [pair[0] for pair in pairs]
  by_speed = sorted(our_calls, key=lambda call: call.seconds / call.tokens)
  table_row = Row(
    name=name,
    shape=str(shape),
    unit="tokens/s",
    ours=statistics.median(call.tokens / call.seconds for call in our_calls),
    bound_fraction=statistics.median(
      least_seconds(call) / call.seconds for call in our_calls
    ),
    bound_limit=bound_limit,
    work=work(by_speed[len(our_calls) // 2]),
    settings={"ours": ours.launch.setting},
  )
  if peer is None:
    return table_row
  compared = rounds.compare(pairs)
  return dataclasses.replace(
    table_row,
    peer=compared.peer,
    ratio=compared.ratio,
    cpu_ratio=compared.cpu_ratio,
    settings=table_row.settings | {"peer": peer.launch.setting},
    limit=limit,
  )
