"""The packing of samples into a page, on a few records."""

import base64
import json
import math
import zlib

import pytest
from helpers import untrained_runs

from experiments.report import samples


def unpack(packed):
  return json.loads(zlib.decompress(base64.b64decode(packed.text)))


def record(prompt=0, **changes):
  return {"prompt_id": prompt, "prompt": f"p{prompt}", "completion": "x"} | {
    "score": 1.0,
    **changes,
  }


def test_numbers_of_tokens_are_rounded():
  """Log-probs above -.1 have a digit more than the others."""
  columns = samples._columns(
    3,
    7,
    [
      [
        record(
          advantages=[0.12345, -12.345],
          log_probs=[-0.0123456, -0.1, -0.15349, -1.23456],
          entropies=[0.126, math.nan],
          step_ids=[0, 1],
        )
      ]
    ],
  )
  assert (columns["run"], columns["step"]) == (3, 7)
  assert columns["advantages"] == [[0.123, -12.3]]
  assert columns["log_probs"] == [[-0.012, -0.1, -0.15, -1.23]]
  assert columns["entropies"] == [[0.13, None]]
  assert columns["step_ids"] == [[0, 1]]
  # As -0.0996, whose third digit counts.
  (values,) = samples._columns(0, 0, [[record(log_probs=[-0.0996, -1])]])[
    "log_probs"
  ]
  assert values == [-0.1, -1]


def test_a_record_of_few_values_has_the_usual_ones():
  """It is finished, and nothing is known of its verdict and its tokens."""
  columns = samples._columns(
    0,
    0,
    [
      [record(4), record(4, correct=0, finished=False, tokens=[1, 2])],
      [record(9, score=math.inf, terms={"a": 1.234567}), record(9, score=None)],
    ],
  )
  assert columns["prompts"] == [[4, "p4"], [9, "p9"]]
  assert columns["group"] == [0, 0, 1, 1]
  assert columns["correct"] == [-1, 0, -1, -1]
  assert columns["finished"] == [1, 0, 1, 1]
  assert columns["length"] == [0, 2, 0, 0]
  assert columns["score"] == [1, 1, None, None]
  assert columns["terms"] == [["a", [None, None, 1.2346, None]]]
  for name in ("cuts", "advantages", "log_probs", "step_scores"):
    assert columns[name] is None


def test_values_of_one_sample_are_enough_for_a_column():
  groups = [[record(step_scores=[0.5, math.nan]), record(advantages=[2, 2])]]
  columns = samples._columns(0, 0, groups)
  assert columns["step_scores"] == [[0.5, None], None]
  assert columns["advantages"] == [None, 2]
  columns = samples._columns(0, 0, [[record(advantages=[3], pieces=["a😀"])]])
  assert columns["advantages"] == [3]
  assert columns["cuts"] == [[3]]  # the second letter is two in JavaScript


def test_texts_stay_short_without_escapes():
  """Pi has 2 bytes in UTF-8, and 6 as an escape."""
  text = zlib.decompress(samples._compress({"a": "π"})).decode()
  assert text == '{"a":"π"}'


def test_a_page_without_samples_has_no_steps(tmp_path):
  assert samples.pack([tmp_path]) == samples.Packed("", "", False)


@pytest.mark.parametrize(
  ("scores", "has_steps"),
  [([[0.0], [0.5, 0.0]], True), ([None, None], False), ([None, [1.0]], True)],
)
def test_step_scores_of_one_sample_of_one_file_are_shown(
  tmp_path, scores, has_steps
):
  for step, values in enumerate(scores):
    untrained_runs.write(tmp_path, step, [record(step_scores=values)])
  # The oldest file has a group without step scores, too.
  packed = samples.pack([tmp_path])
  assert packed.has_steps == has_steps


def test_files_are_cut_where_the_limit_is_reached(tmp_path):
  """Runs have half of the limit each: 5 samples, in groups of 2."""
  for name, steps in (("a", 3), ("b", 2)):
    for step in range(steps):
      untrained_runs.write(
        tmp_path / name, step, [record(i // 2) for i in range(4)]
      )
  packed = samples.pack([tmp_path / "a", tmp_path / "b"], max_samples=11)
  files = unpack(packed)
  assert [(file["run"], file["step"]) for file in files] == [(0, 2), (1, 1)]
  assert [len(file["group"]) for file in files] == [4, 4]
  ending = "all are in rollouts/."
  assert packed.note == (
    "a: of step 1, 0 of 4 samples are shown, and none of 1 older file; "
    f"{ending} b: of step 0, 0 of 4 samples are shown; {ending}"
  )
  packed = samples.pack([tmp_path / "a"], max_samples=6)
  assert [len(file["group"]) for file in unpack(packed)] == [4, 2]
  assert "of step 1, 2 of 4 samples are shown, and none of 1" in packed.note
  assert samples.pack([tmp_path / "a"], max_samples=12).note == ""


def test_groups_fill_the_bytes_that_there_are(tmp_path):
  """A file fits into as many bytes as it has, and not into one less."""
  groups = [[record(i, completion=str(i**9))] for i in range(6)]
  sizes = [
    len(samples._compress(samples._columns(0, 0, groups[:count])))
    for count in range(7)
  ]
  for count in range(1, 7):
    file, size = samples._pack_file(0, 0, groups, 6, sizes[count])
    assert size == sizes[len(file["group"])] <= sizes[count]
    assert file["completion"] == [str(i**9) for i in range(len(file["group"]))]
  assert len(samples._pack_file(0, 0, groups, 6, sizes[6])[0]["group"]) == 6
  assert len(samples._pack_file(0, 0, groups, 6, sizes[6] - 1)[0]["group"]) == 5
  # Without room for one group the file has none, whatever its size.
  file, size = samples._pack_file(0, 0, groups, 6, 1)
  assert (file["group"], size) == ([], sizes[0])


def test_bytes_are_divided_among_the_files_of_a_run(tmp_path):
  room = 0
  for step in range(2):
    untrained_runs.write(tmp_path, step, [record(0)])
    room += samples._pack_file(0, step, [[record(0)]], 9, 9999)[1]
  packed = samples.pack([tmp_path], max_bytes=room)
  assert [file["step"] for file in unpack(packed)] == [1, 0]
  packed = samples.pack([tmp_path], max_bytes=room - 1)
  assert [file["step"] for file in unpack(packed)] == [1]


def test_a_file_without_samples_takes_no_room(tmp_path):
  """It is the newer one."""
  untrained_runs.write(tmp_path, 0, [record(0)])
  untrained_runs.write(tmp_path, 1, [])
  _, size = samples._pack_file(0, 0, [[record(0)]], 9, 9999)
  packed = samples.pack([tmp_path], max_bytes=size)
  assert [file["step"] for file in unpack(packed)] == [0]
