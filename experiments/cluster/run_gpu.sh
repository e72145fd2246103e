#!/usr/bin/env bash
# Sets GPU machines up and runs an experiment there: here, by ssh, or by Slurm.
set -euo pipefail
# shellcheck source=experiments/cluster/launch.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"

COMMANDS="setup run status stop slurm wheels check"
VALUED="hosts port nodes gpus repo commit python wheels out"
SWITCHES="dry-run"
HOSTS=${HOSTS:-} PORT=${PORT:-8476} NODES=${NODES:-1} GPUS=${GPUS:-8}
WHEELS=${WHEELS:-} OUT=${OUT:-}
# What the benchmark `accelerator` imports besides JAX and its requirements.
KIT=(absl-py etils flax fsspec importlib_resources markdown-it-py mdurl
  ml-collections msgpack optax pygments pyyaml rich typing_extensions zipp)

usage() {
  cat <<'END'
Sets GPU machines up and runs an experiment there: here, by ssh, or by Slurm.

  experiments/cluster/run_gpu.sh COMMAND [FLAGS] [-- RUN]

COMMAND
  setup    installs: this checkout here; with --hosts what is committed, there
  run      runs RUN here; with --hosts starts one process on each and follows
           the first. Where it runs already it only follows. The same again
           after a break resumes
  status   the last lines of every host
  stop     ends the run on every host
  slurm    prints a batch script for sbatch, to be run from this checkout
  wheels   downloads the packages that `check` needs besides JAX
  check    runs the benchmark `accelerator` with the machine's own JAX and the
           downloaded packages, without a network; writes its results to --out

FLAGS, the same for every command; HOSTS=... in the environment is --hosts=...
  --hosts="a b c"       machines that ssh reaches; the others reach the first
  --port=8476           of the first, where they meet
  --nodes=1 --gpus=8    of slurm: how many, and how many GPUs each has
  --repo=URL --commit=REF   fetches these, instead of what is committed here
  --python=3.11         of the environment; of wheels: that of the other machine
  --wheels=DIR          of wheels and check: folder of the packages
  --out=DIR             of check: folder for the results
  --dry-run             prints the commands and does nothing

RUN is for experiments.run: --config FILE --workdir DIR --config.key=value ...
The workdir is one that all hosts see.
END
}

on_host() { # HOST SCRIPT
  execute ssh "$1" "$2"
}

everywhere() { # SCRIPT
  local host
  needs hosts
  for host in $HOSTS; do
    on_host "$host" "$1"
  done
}

set_up() {
  local host
  if [[ -z $HOSTS ]]; then
    execute bash -c "cd $(quote "$ROOT") && $(install_script cuda)"
    return
  fi
  if [[ -z $REPO ]]; then
    pack
    for host in $HOSTS; do
      execute scp "$BUNDLE" "$host:extremum.bundle"
    done
  fi
  everywhere "$(setup_script cuda)"
}

run_here() {
  execute cd "$ROOT"
  execute .venv/bin/python -m experiments.run "${RUN[@]}"
}

run_on_hosts() {
  local host first count process=0 flags=()
  read -r first _ <<<"$HOSTS"
  count=$(wc -w <<<"$HOSTS")
  for host in $HOSTS; do
    # A single node needs no meeting.
    ((count == 1)) || flags=(--coordinator="${first#*@}:$PORT"
      --processes="$((count))" --process="$process")
    on_host "$host" "$(start_script ${flags[@]+"${flags[@]}"} "${RUN[@]}")"
    process=$((process + 1))
  done
  on_host "$first" "$(follow_script)"
}

slurm_script() {
  cat <<END
#!/bin/bash
#SBATCH --job-name=extremum
#SBATCH --nodes=$NODES
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=$GPUS
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --requeue
#SBATCH --open-mode=append
# One process for all GPUs of a node: of itself JAX takes one GPU a process.
export JAX_LOCAL_DEVICE_IDS=$(seq -s, 0 $((GPUS - 1)))
cd $(quote "$ROOT")
srun --kill-on-bad-exit=1 --cpu-bind=none \\
  .venv/bin/python -m experiments.run --distributed $(quote "${RUN[@]}")
END
}

gather_wheels() {
  needs wheels
  execute python3 -m pip download --quiet --dest "$WHEELS" --no-deps \
    --only-binary=:all: --python-version="$PYTHON" \
    --constraint="$ROOT/constraints.txt" "${KIT[@]}"
}

check_here() {
  local packages=$ROOT/runs/wheels
  needs wheels out
  WHEELS=$(cd "$WHEELS" && pwd) # the benchmark is started in the checkout
  mkdir -p "$OUT"
  OUT=$(cd "$OUT" && pwd)
  execute python3 -m pip install --quiet --no-index --no-deps --upgrade \
    --target="$packages" "$WHEELS"/*.whl
  execute cd "$ROOT"
  execute env PYTHONPATH="$packages" \
    python3 -m experiments.studies.benchmark accelerator --out "$OUT"
}

main() {
  read_command "$COMMANDS" "${1:-}"
  read_flags "$VALUED" "$SWITCHES" "${@:2}"
  [[ $ACTION != run && $ACTION != slurm ]] || needs_run
  numbers port nodes gpus
  case $ACTION in
    setup) set_up ;;
    run) if [[ $HOSTS ]]; then run_on_hosts; else run_here; fi ;;
    status) everywhere "$(status_script)" ;;
    stop) everywhere "$(stop_script)" ;;
    slurm) slurm_script ;;
    wheels) gather_wheels ;;
    check) check_here ;;
  esac
}

numbers() { # NAME...
  local name variable
  for name; do
    variable=$(variable_of "$name")
    [[ ${!variable} =~ ^[1-9][0-9]*$ ]] ||
      mistake "--$name=${!variable} must be a whole number from 1"
  done
}

main "$@"
