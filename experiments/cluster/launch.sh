# What run_tpu.sh and run_gpu.sh share: their manners, and what they have a
# machine do. Sourced by them; it runs nothing.
# shellcheck shell=bash

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
PYTHON=${PYTHON:-3.11} REPO=${REPO:-} COMMIT=${COMMIT:-HEAD}
DRY_RUN=${DRY_RUN:-}
RUN=() # what experiments.run is told

mistake() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 2
}

note() {
  printf '# %s\n' "$1" >&2
}

# Prints words so that any shell reads back exactly these.
quote() {
  local word mark="'\\''" between=""
  for word; do
    if [[ -z $word || $word =~ [^A-Za-z0-9_./:=,@%+-] ]]; then
      word="'${word//\'/$mark}'"
    fi
    printf '%s%s' "$between" "$word"
    between=" "
  done
}

# Does a command, or in a dry run prints it.
execute() {
  if [[ $DRY_RUN ]]; then
    quote "$@"
    printf '\n'
  else
    "$@"
  fi
}

# read_command COMMANDS WORD: the word is one of them, and becomes ACTION.
read_command() {
  ACTION=$2
  if [[ $ACTION == --help || $ACTION == -h ]]; then
    usage
    exit
  fi
  if [[ -z $ACTION || " $1 " != *" $ACTION "* ]]; then
    mistake "unknown command '$ACTION'; commands: $1 (and --help)"
  fi
}

# read_flags VALUED SWITCHES WORDS...: --some-flag=x is SOME_FLAG=x, a switch
# is 1, and what stands after -- is RUN.
read_flags() {
  local valued=$1 switches=$2 name
  shift 2
  while (($#)); do
    name=${1%%=*} name=${name#--}
    if [[ $1 == -- ]]; then
      shift
      RUN=("$@")
      return
    elif [[ $1 == --*=* && " $valued " == *" $name "* ]]; then
      set_flag "$name" "${1#*=}"
    elif [[ $1 == --* && " $valued " == *" $name "* ]]; then
      (($# > 1)) || mistake "--$name needs a value"
      set_flag "$name" "$2"
      shift
    elif [[ " $switches " == *" ${1#--} "* ]]; then
      set_flag "$name" 1
    else
      name="$valued $switches"
      mistake "unknown flag '$1'; flags: --${name// / --};" \
        "what experiments.run is told stands after --"
    fi
    shift
  done
}

set_flag() {
  printf -v "$(variable_of "$1")" %s "$2"
}

variable_of() {
  printf %s "$1" | tr 'a-z-' 'A-Z_'
}

# needs NAME...: each of these flags was given.
needs() {
  local name variable
  for name; do
    variable=$(variable_of "$name")
    [[ ${!variable} ]] || mistake "--$name is missing (or $variable=...)"
  done
}

needs_run() {
  local name
  for name in config workdir; do
    [[ " ${RUN[*]-} " == *" --$name"[=\ ]* ]] ||
      mistake "--$name is missing after --: what experiments.run is told"
  done
}

# --- What a machine does. Each is one line for its shell, in its home folder.
# Machines may share a home: what is of one of them has its name.

# Makes the environment of a checkout, or brings it up to date; the TPU images
# and many others have no Python that is new enough, so uv finds one.
install_script() { # EXTRA
  # shellcheck disable=SC2016 # the machine's variables, not ours
  printf '%s' 'export PATH="$HOME/.local/bin:$PATH" && ' \
    '{ command -v uv >/dev/null || PIP_BREAK_SYSTEM_PACKAGES=1 ' \
    'python3 -m pip install --quiet --user uv; } && ' \
    "uv venv --quiet --allow-existing --python=$(quote "$PYTHON") .venv && " \
    'uv pip install --quiet --python=.venv/bin/python ' \
    "--constraint=constraints.txt --editable='.[$1]'"
}

# Fetches the code into ~/extremum, and installs it.
setup_script() { # EXTRA
  local origin=../extremum.bundle ref=HEAD
  [[ -z $REPO ]] || origin=$REPO ref=$COMMIT
  printf '%s' 'git init --quiet extremum && cd extremum && ' \
    "git fetch --quiet $(quote "$origin" "$ref") && " \
    'git checkout --quiet --force FETCH_HEAD && ' "$(install_script "$1")"
}

# A run outlives the connection, and holds a lock as long as it lives: a second
# start finds it taken.
start_script() { # FLAGS of experiments.run
  # shellcheck disable=SC2016
  printf '%s' 'cd extremum && own=~/extremum.$HOSTNAME && ' \
    'exec 9>>$own.lock && if flock -n 9; then rm -f $own.exit $own.stopped; ' \
    '(trap "" HUP; .venv/bin/python -m experiments.run ' "$(quote "$@")" \
    ' 9>&-; echo $? >$own.exit) >>$own.log 2>&1 </dev/null & ' \
    'echo $! >$own.pid; else echo "already running"; fi'
}

# Shows what a run writes until it ends, and ends as it did.
follow_script() {
  # shellcheck disable=SC2016
  printf '%s' 'own=~/extremum.$HOSTNAME; tail -n 50 -f $own.log & ' \
    'flock -s $own.lock sleep .1; kill $!; exit "$(cat $own.exit || echo 1)"'
}

# Prints how a run is: "running", its exit status, "stopped" or "killed".
outcome_script() {
  # shellcheck disable=SC2016
  printf '%s' 'own=~/extremum.$HOSTNAME; ' \
    'if [ -e $own.stopped ]; then echo stopped; ' \
    'elif ! flock -n -s $own.lock true; then echo running; ' \
    'else cat $own.exit 2>/dev/null || echo killed; fi'
}

status_script() {
  # shellcheck disable=SC2016
  printf '%s' 'own=~/extremum.$HOSTNAME; if flock -n -s $own.lock true; ' \
    'then echo "$HOSTNAME: not running, $(cat $own.exit 2>&1)"; ' \
    'else echo "$HOSTNAME: running"; fi; tail -n 3 $own.log'
}

stop_script() {
  # shellcheck disable=SC2016
  printf '%s' 'own=~/extremum.$HOSTNAME; if flock -n -s $own.lock true; ' \
    'then echo "$HOSTNAME: nothing is running"; ' \
    'else touch $own.stopped; pkill -TERM -P "$(cat $own.pid)"; ' \
    'flock -w 60 -s $own.lock true; fi'
}

# Packs what is committed here into BUNDLE, which setup_script fetches.
pack() {
  local folder
  folder=$(git -C "$ROOT" rev-parse --absolute-git-dir 2>/dev/null) ||
    mistake "setup sends what is committed, and $ROOT is no git checkout;" \
      "say --repo=URL and --commit=REF"
  git -C "$ROOT" diff --quiet HEAD ||
    note "changes that are not committed are not sent"
  BUNDLE=$folder/extremum.bundle
  execute git -C "$ROOT" bundle create --quiet "$BUNDLE" HEAD
}
