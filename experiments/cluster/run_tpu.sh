#!/usr/bin/env bash
# Creates a TPU slice, sets it up, and runs an experiment on all its workers.
set -euo pipefail
# shellcheck source=experiments/cluster/launch.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"

COMMANDS="create setup run status stop delete all"
VALUED="name zone project type version repo commit python"
SWITCHES="spot queued keep dry-run"
NAME=${NAME:-} ZONE=${ZONE:-} PROJECT=${PROJECT:-} TYPE=${TYPE:-}
VERSION=${VERSION:-} SPOT=${SPOT:-} QUEUED=${QUEUED:-} KEEP=${KEEP:-}
PAUSE=${PAUSE:-60} # seconds between two looks at a slice

usage() {
  cat <<'END'
Creates a TPU slice, sets it up, and runs an experiment on all its workers.

  experiments/cluster/run_tpu.sh COMMAND --name=NAME --zone=ZONE [FLAGS] [-- RUN]

COMMAND
  create   makes the slice, of --type
  setup    sends what is committed here, and installs it on every worker
  run      starts RUN on every worker and follows the first; where it runs
           already it only follows. The same again after a break resumes
  status   the slice's state and the last lines of every worker
  stop     ends the run; the slice stays, and costs
  delete   removes the slice
  all      create, setup, run

FLAGS, the same for every command; NAME=... in the environment is --name=...
  --project=ID          where it is not gcloud's own
  --type=v5litepod-16   or v4-N, v5p-N, v6e-N
  --version=IMAGE       of the workers; follows from the type
  --queued              waits in the queue until there is such a slice
  --spot                queued, cheap, and may be taken away
  --keep                with run and all: when the slice is taken away, makes
                        it again and goes on; the workdir must be in gs://
  --repo=URL --commit=REF   fetches these, instead of what is committed here
  --python=3.11         of the environment
  --dry-run             prints the commands and does nothing

RUN is for experiments.run: --config FILE --workdir DIR --config.key=value ...
The workdir is one that all workers see: gs://BUCKET/FOLDER.
END
}

# tpus GROUP VERB ARGS...: a gcloud command about this slice.
tpus() {
  execute gcloud compute tpus "$1" "$2" "$NAME" "${PLACE[@]}" "${@:3}"
}

on_worker() { # WHICH SCRIPT
  tpus tpu-vm ssh --worker="$1" --command="$2"
}

image() {
  case $TYPE in
    v4-*) echo tpu-ubuntu2204-base ;;
    v5litepod-*) echo v2-alpha-tpuv5-lite ;;
    v5p-*) echo v2-alpha-tpuv5 ;;
    v6e-*) echo v2-alpha-tpuv6e ;;
    *) mistake "unknown type '$TYPE'; types: v4-N, v5litepod-N, v5p-N, v6e-N" \
      "(others with their --version)" ;;
  esac
}

create_slice() {
  if [[ $QUEUED ]]; then
    tpus queued-resources create --node-id="$NAME" --accelerator-type="$TYPE" \
      --runtime-version="$VERSION" ${SPOT:+--spot} && await_slice
  else
    tpus tpu-vm create --accelerator-type="$TYPE" --version="$VERSION"
  fi
}

await_slice() {
  local state
  note "until it says ACTIVE:"
  while true; do
    state=$(tpus queued-resources describe --format='value(state.state)') ||
      state=UNKNOWN
    printf '%s\n' "$state"
    [[ -z $DRY_RUN && $state != ACTIVE ]] || return 0
    [[ $state != FAILED && $state != SUSPEND* ]] || return 1
    sleep "$PAUSE"
  done
}

set_up() {
  if [[ -z $REPO ]]; then
    pack && execute gcloud compute tpus tpu-vm scp "$BUNDLE" \
      "$NAME:extremum.bundle" "${PLACE[@]}" --worker=all || return
  fi
  on_worker all "$(setup_script tpu,gcs)"
}

run_once() {
  on_worker all "$(start_script --distributed "${RUN[@]}")" &&
    on_worker 0 "$(follow_script)"
}

delete_slice() {
  if [[ $QUEUED ]]; then
    tpus queued-resources delete --force --quiet
  else
    tpus tpu-vm delete --quiet
  fi
}

# READY, PREEMPTED, ...; GONE where there is none, UNKNOWN where nobody answers.
slice_state() {
  local said
  if said=$(tpus tpu-vm describe --format='value(state)' 2>&1); then
    printf '%s\n' "${said##*$'\n'}"
  elif [[ $said == *NOT_FOUND* ]]; then
    echo GONE
  else
    note "${said##*$'\n'}"
    echo UNKNOWN
  fi
}

# READY if it stays so for some minutes: a slice that is taken away ends its
# processes before its state says so.
settled_state() {
  local state
  for _ in 1 2 3 4 5; do
    state=$(slice_state)
    [[ $state == READY ]] || break
    sleep "$PAUSE"
  done
  printf '%s\n' "$state"
}

# Runs until the run itself ends: whatever happens to slice or connection.
keep_running() {
  local status outcome state
  note "should the slice be taken away: delete, create, setup, and run again"
  while true; do
    run_once && return
    status=$?
    outcome=$(on_worker 0 "$(outcome_script)" 2>/dev/null) || outcome=unknown
    case $outcome in
      stopped | running | unknown) state=$(slice_state) ;;
      *) state=$(settled_state) ;;
    esac
    note "the run: $outcome; the slice: $state"
    case $state-$outcome in
      *-stopped | READY-[0-9]*) return "$status" ;;
      PREEMPTED-* | TERMINATED-* | STOPPED-* | GONE-*) replace_slice ;;
      # A worker that was restarted alone: the others wait for it in vain.
      READY-killed) on_worker all "$(stop_script)" || sleep "$PAUSE" ;;
      *) sleep "$PAUSE" ;;
    esac
  done
}

replace_slice() {
  while true; do
    delete_slice || note "there was nothing to delete"
    create_slice && set_up && return
    note "trying again in $PAUSE s"
    sleep "$PAUSE"
  done
}

run_slice() {
  if [[ $KEEP ]]; then keep_running; else run_once; fi
}

main() {
  read_command "$COMMANDS" "${1:-}"
  read_flags "$VALUED" "$SWITCHES" "${@:2}"
  needs name zone
  PLACE=(--zone="$ZONE" ${PROJECT:+--project="$PROJECT"})
  QUEUED=$QUEUED$SPOT
  if [[ $ACTION == create || $ACTION == all || $KEEP ]]; then
    needs type
    VERSION=${VERSION:-$(image)}
  fi
  if [[ $ACTION == run || $ACTION == all ]]; then
    needs_run
    [[ -z $KEEP || " ${RUN[*]} " == *" --workdir"[=\ ]gs://* ]] ||
      mistake "--keep needs a workdir that outlives the slice: gs://..."
  fi
  case $ACTION in
    create) create_slice ;;
    setup) set_up ;;
    run) run_slice ;;
    status) tpus tpu-vm describe --format='value(state)' &&
      on_worker all "$(status_script)" ;;
    stop) on_worker all "$(stop_script)" ;;
    delete) delete_slice ;;
    all) create_slice && set_up && run_slice ;;
  esac
}

main "$@"
