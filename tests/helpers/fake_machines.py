"""Machines that are folders, for the launch scripts.

A fake gcloud and a fake ssh run what they are sent in the folder of the worker
it is for; a fake uv makes a python that writes down what it was told.
"""

import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "experiments" / "cluster").glob("*.sh"))
# FOLDER/state is the slice's; FOLDER/HOST.ends says how its next runs end.
FAKES = {
  "record": """
    printf -v call '%s\\037' "${0##*/}" "$@"
    printf '%s\\036' "$call" >>"$FOLDER/calls"  # at once: others write too
  """,
  "on": """
    mkdir -p "$FOLDER/$1"; cd "$FOLDER/$1"
    HOME=$PWD exec bash -c "$2"
  """,
  "gcloud": """
    . record
    which= command=
    for word; do
      case $word in
        --worker=all) which="w0 w1" ;;
        --worker=*) which=w${word#*=} ;;
        --command=*) command=${word#*=} ;;
      esac
    done
    case $3-$4 in
      *-create) echo READY >"$FOLDER/state" ;;
      *-delete) rm -r "$FOLDER"/w?; echo GONE >"$FOLDER/state" ;;
      queued-resources-describe) echo ACTIVE ;;
      tpu-vm-describe)
        case $(cat "$FOLDER/state") in
          GONE) echo "ERROR: NOT_FOUND: no such node" >&2; exit 1 ;;
          *) cat "$FOLDER/state" ;;
        esac ;;
      tpu-vm-scp)
        for w in $which; do
          mkdir -p "$FOLDER/$w" && cp "$5" "$FOLDER/$w/${6#*:}"
        done ;;
      tpu-vm-ssh)
        for w in $which; do on "$w" "$command" || exit; done ;;
    esac
  """,
  "ssh": '. record; on "$1" "$2"',
  "scp": '. record; mkdir -p "$FOLDER/${2%:*}"; cp "$1" "$FOLDER/${2/://}"',
  "srun": '. record; "${@:3}"',
  "uv": """
    . record
    [[ $1 == venv ]] || exit 0
    mkdir -p .venv/bin && cp "$(command -v python_of_worker)" .venv/bin/python
  """,
  "python_of_worker": """
    . record
    echo "step 1"
    [[ -s $HOME.ends ]] || exit 0
    read -r end <"$HOME.ends"
    sed -i 1d "$HOME.ends"
    case $end in
      taken) echo PREEMPTED >"$FOLDER/state"; exit 143 ;;
      killed) kill -KILL "$PPID" ;;
      long) exec sleep 60 ;;
      *) exit "$end" ;;
    esac
  """,
}


class World:
  """A checkout, and machines that only the fakes know."""

  def __init__(self, folder):
    self.folder = folder
    self.root = folder / "checkout"
    fakes = folder / "bin"
    for path in (fakes, self.root / "experiments" / "cluster"):
      path.mkdir(parents=True)
    for name, text in FAKES.items():
      (fakes / name).write_text(f"#!/usr/bin/env bash\n{text}")
      (fakes / name).chmod(0o755)
    for script in SCRIPTS:
      shutil.copy(script, self.root / "experiments" / "cluster")
    self.env = {
      "PATH": f"{fakes}:{os.environ['PATH']}",
      "HOME": str(folder),
      "FOLDER": str(folder),
      "PAUSE": "0",
    }
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
      subprocess.run([*git, *words], cwd=self.root, env=self.env, check=True)

  def start(self, *words, **more):
    return subprocess.Popen(
      list(map(str, words)),
      cwd=self.folder,
      env=self.env | more,
      stdin=subprocess.DEVNULL,
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
    )

  def do(self, *words, **more):
    """Exit status, output and errors of a command; waits for it."""
    process = self.start(*words, **more)
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err

  def script(self, name, *words, **more):
    return self.do(self.root / "experiments" / "cluster" / name, *words, **more)

  def runs_end(self, **hosts):
    """Sets the exit statuses of the next runs; later runs exit with 0."""
    for host, ends in hosts.items():
      (self.folder / f"{host}.ends").write_text("".join(f"{e}\n" for e in ends))

  def calls(self):
    """Returns the commands since the previous call, as lists of words."""
    for lock in self.folder.glob("*/extremum.*.lock"):
      self.do("flock", "-s", lock, "true")  # until its run has ended
    path = self.folder / "calls"
    text = path.read_text() if path.exists() else ""
    path.unlink(missing_ok=True)
    return [call.split("\x1f")[:-1] for call in text.split("\x1e")[:-1]]
