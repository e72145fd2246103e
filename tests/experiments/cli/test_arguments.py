"""Seeds, counts, folders and files are refused before anything is written."""

import jax
import pytest
from helpers import small_run

from experiments import evaluate, replay, run, sample, sweep
from experiments.cli import arguments, errors, spec
from experiments.configs import chain, smoke
from experiments.prm import __main__ as prm
from experiments.report import command as report
from experiments.studies import arms
from experiments.studies.bakeoff import __main__ as bakeoff
from experiments.studies.claims import __main__ as claims
from experiments.studies.faults import __main__ as faults
from experiments.training import prng_keys
from experiments.training_run import validate

SMOKE = f"--config={smoke.__file__}"
BAD_SEEDS = (-1, 2**32, 99999999999999999999)
SEED_MESSAGE = "must be a whole number from 0 to 4294967295 (2^32 - 1)"
POLICY = ["--policy", "folder", "--task", "countdown"]


def refusal(capsys, main, words):
  """Returns the one line with which a command refuses its words."""
  assert main(list(map(str, words))) == errors.USAGE
  error = capsys.readouterr().err
  assert error.startswith("error: ")
  assert error.count("\n") == 1
  return error


@pytest.mark.parametrize("seed", BAD_SEEDS)
@pytest.mark.parametrize("key", ["seed", "evaluation.seed", "base.seed"])
def test_a_config_with_a_seed_that_jax_would_cut_is_refused(
  key, seed, tmp_path, capsys
):
  workdir = tmp_path / "run"
  words = ["run", SMOKE, f"--config.{key}={seed}", f"--workdir={workdir}"]
  assert SEED_MESSAGE in refusal(capsys, run.main, words)
  assert not workdir.exists()


@pytest.mark.parametrize("seed", [-1, 2**32])
@pytest.mark.parametrize(
  ("main", "words"),
  [
    (evaluate.main, [*POLICY, "--seed"]),
    (evaluate.main, ["--workdir", "folder", "--seed"]),
    (sample.main, [*POLICY, "--seed"]),
    (faults.main, ["--seed"]),
  ],
)
def test_the_seed_flag_of_a_command_is_checked(main, words, seed, capsys):
  assert SEED_MESSAGE in refusal(capsys, main, [*words, seed])


def test_the_seed_of_a_process_model_is_checked(tmp_path, capsys):
  words = ["fit", "--workdir", tmp_path / "prm", "--seed", -1]
  assert SEED_MESSAGE in refusal(capsys, prm.main, words)
  assert not list(tmp_path.iterdir())


def test_seeds_of_a_sweep_are_checked(tmp_path, capsys):
  words = [SMOKE, f"--workdir={tmp_path / 'sweep'}"]
  line = refusal(capsys, sweep.main, [*words, "--product", "seed=0,-1"])
  assert SEED_MESSAGE in line
  line = refusal(capsys, sweep.main, [*words, "--seeds", 2**32 + 1])
  assert SEED_MESSAGE in line
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("main", [claims.main, bakeoff.main])
def test_the_last_seed_of_a_study_is_checked(main, capsys):
  words = ["--seeds", 2**32 + 1]
  if main is bakeoff.main:
    words += ["--task", "countdown"]
  assert SEED_MESSAGE in refusal(capsys, main, words)


def test_several_seeds_are_checked_before_the_first_is_trained(tmp_path):
  config = chain.base()
  store = arms.Store(tmp_path)
  with pytest.raises(ValueError, match="must be a whole number from 0 to"):
    store.outcome(arms.Arm(config), [0, 2**32])
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seed", [*BAD_SEEDS, 1.0, True, "1"])
def test_a_seed_within_a_spec_and_a_key_are_checked(seed):
  with pytest.raises(
    ValueError, match=r"ticket_mask: seed = .* must be a whol"
  ):
    spec.parse(f"ticket_mask(seed={seed!r})", "method")
  with pytest.raises(ValueError, match="must be a whole number"):
    prng_keys.from_seed(seed)


def test_the_smallest_and_the_largest_seed_are_accepted():
  for seed in (0, 2**32 - 1):
    assert spec.parse(f"ticket_mask(seed={seed})")[1] == {"seed": seed}
    assert (prng_keys.from_seed(seed) == jax.random.key(seed)).all()
    config = small_run.config(steps=1)
    config.seed = config.evaluation.seed = seed
    validate.check_and_build(config)


@pytest.mark.parametrize(
  ("text", "repeated"),
  [
    ("countdown(count=3,count=4)", "count"),
    ("grpo(beta=0.0, clip=0.2, beta=0.0)", "beta"),
    ("majority(threshold=0.5, threshold=0.4)", "threshold"),
    ("gym(options={'a': 1, 'a': 2})", "a"),
  ],
)
def test_a_setting_that_stands_twice_is_refused(text, repeated):
  with pytest.raises(ValueError, match=f"sets {repeated} twice") as error:
    spec.parse(text, "task")
  assert text in str(error.value)


@pytest.mark.parametrize("count", [-1, 0])
@pytest.mark.parametrize(
  ("main", "flag"),
  [
    (sample.main, "problems"),
    (sample.main, "samples"),
    (sample.main, "max_tokens"),
    (evaluate.main, "problems"),
    (evaluate.main, "samples"),
    (evaluate.main, "batch"),
    (evaluate.main, "max_tokens"),
  ],
)
def test_a_count_below_one_is_refused(main, flag, count, capsys):
  line = refusal(capsys, main, [*POLICY, f"--{flag}", count])
  assert f"--{flag} {count} must be at least 1" in line


def test_a_number_below_zero_is_refused(capsys):
  line = refusal(capsys, evaluate.main, [*POLICY, "--rows", -1])
  assert "--rows -1 must be at least 0" in line
  for main in (evaluate.main, sample.main, replay.main):
    line = refusal(capsys, main, ["--workdir", "folder", "--step", -1])
    assert "--step -1 must be at least 0" in line
  words = ["--task", "countdown", "--steps", 0]
  assert "--steps 0 must be at least 1" in refusal(capsys, bakeoff.main, words)


@pytest.mark.parametrize("workdir", ["", " "])
@pytest.mark.parametrize(
  ("main", "words"),
  [
    (run.main, ["run", SMOKE, "--workdir"]),
    (sweep.main, [SMOKE, "--workdir"]),
    (evaluate.main, ["--workdir"]),
    (evaluate.main, ["--task", "countdown", "--policy"]),
    (sample.main, ["--workdir"]),
    (replay.main, ["--workdir"]),
    (report.main, []),
    (prm.main, ["evaluate", "--workdir"]),
    (claims.main, ["--workdir"]),
    (bakeoff.main, ["--task", "countdown", "--workdir"]),
  ],
)
def test_an_empty_folder_is_not_the_current_one(
  main, words, workdir, tmp_path, monkeypatch, capsys
):
  monkeypatch.chdir(tmp_path)
  line = refusal(capsys, main, [*words, workdir])
  assert "is empty; name a folder, or '.' for the current folder" in line
  assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_refused_first(tmp_path, capsys):
  (tmp_path / "file").write_text("")
  (tmp_path / "folder.json").mkdir()
  for out, reason in (
    (tmp_path / "file" / "a.json", "Not a directory"),
    ("/proc/nowhere/a.json", "cannot be written"),
    (tmp_path / "folder.json", "is a folder"),
  ):
    line = refusal(capsys, evaluate.main, [*POLICY, "--out", out])
    assert f"--out {out}" in line
    assert reason in line
    line = refusal(capsys, faults.main, ["--json", out])
    assert reason in line
  out = tmp_path / "file" / "a.html"
  line = refusal(capsys, report.main, [tmp_path, "--out", out])
  assert "--out" in line
  assert "Not a directory" in line


def test_the_check_of_a_file_leaves_nothing_behind(tmp_path):
  arguments.check_writable("--out", tmp_path / "new" / "deeper" / "a.json")
  assert not list(tmp_path.iterdir())
  (tmp_path / "a.json").write_text("{}")
  arguments.check_writable("--out", tmp_path / "a.json")
  assert (tmp_path / "a.json").read_text() == "{}"
