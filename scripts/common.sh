# What the scripts share: --help, steps with a time, quiet commands, and the counts of the last line. Sourced, never run.
# shellcheck shell=bash

# --help: the script's first lines, before it installs or builds anything.
case " $* " in
  *' --help '* | *' -h '*) sed -n '2,/^[^#]/s/^# //p' "$0"; exit 0 ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

jobs=$(nproc)
passed=0 failed=0 skipped=0

# A compiler cache, where there is one; which launcher it is only matters when a build folder is made. Paths below this
# folder are relative in the cache, so that another clone finds what this one compiled; precompiled headers are in it.
use_ccache() {
  command -v ccache >/dev/null || return 0
  export CMAKE_CXX_COMPILER_LAUNCHER="${CMAKE_CXX_COMPILER_LAUNCHER-ccache}"
  export CMAKE_CUDA_COMPILER_LAUNCHER="${CMAKE_CUDA_COMPILER_LAUNCHER-ccache}"
  export CCACHE_BASEDIR="${CCACHE_BASEDIR-$PWD}" CCACHE_NOHASHDIR=1
  export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS-pch_defines,time_macros}"
}
use_ccache

# The times of this run's steps: build/logs/times.json, from a line each. A run that is part of another adds to its.
times=build/logs/times.tsv
times_part=start
mkdir -p build/logs
[ -n "${TERN_TIMES_OF_ONE_RUN-}" ] || : >"$times"
now() { printf '%s' "${EPOCHREALTIME/,/.}"; }
# note_time STEP START: the seconds since START, which now() gave.
note_time() { printf '%s\t%s\t%s\t%s\n' "$times_part" "$1" "$2" "$(now)" >>"$times"; }

# set_up [tests | deep]: installs what is missing, and uses the compiler cache if it was among it.
set_up() {
  local from
  from=$(now)
  TERN_TIMES_OF_ONE_RUN=yes scripts/setup "$@" || exit 1
  note_time setup "$from"
  use_ccache
}

# no_arguments "$@": for scripts that take none.
no_arguments() {
  [ $# -eq 0 ] && return
  echo "usage: $0, without '$*'" >&2
  exit 2
}

# heading TEXT: begins a part of a script; its first word names it among the times.
heading() {
  times_part=${1%% *}
  printf '\n== %s\n' "$*"
}

# quiet LOG COMMAND...: runs it with its output in LOG; shows the output only when it fails.
quiet() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 && return 0
  local status=$?
  grep -v '^\[[0-9]*/[0-9]*\] ' "$log"  # without the steps of ninja that went well
  return $status
}

# check NAME COMMAND...: one test that passes when the command does; its output is shown either way when it has some.
check() {
  local name=$1 start=$SECONDS from status=0
  from=$(now)
  shift
  mkdir -p build/logs
  "$@" >"build/logs/$name.log" 2>&1 || status=$?
  note_time "$name" "$from"
  if [ "$status" -eq 0 ]; then
    passed=$((passed + 1))
    printf '  passed  %-22s %s (%d s)\n' "$name" "$(tail -n 1 "build/logs/$name.log")" $((SECONDS - start))
  else
    failed=$((failed + 1))
    cat "build/logs/$name.log"
    printf '  FAILED  %-22s (%d s)\n' "$name" $((SECONDS - start))
    return 1
  fi
}

# skip NAME WHY: one test that cannot run here.
skip() {
  skipped=$((skipped + 1))
  printf '  skipped %-22s %s\n' "$1" "$2"
}

# gpu_here: there is an NVIDIA GPU. nvcc_here: there is a CUDA compiler.
gpu_here() { compgen -G '/dev/nvidia[0-9]*' >/dev/null || nvidia-smi -L >/dev/null 2>&1; }
nvcc_here() { command -v "${CUDACXX:-nvcc}" >/dev/null || [ -x "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc" ]; }

# with_progress LOG COMMAND...: as quiet, but says how far ninja is: on a terminal in one line that is written again
# and again, elsewhere in a line every ten seconds.
with_progress() {
  local log=$1 start=$SECONDS next=10 step pid
  shift
  quiet "$log" "$@" &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    step=$(tail -n 1 "$log" 2>/dev/null | grep -o '^\[[0-9]*/[0-9]*\]') || continue
    if [ -t 1 ]; then
      printf '\r  building %s %d s ' "$step" $((SECONDS - start))
    elif [ $((SECONDS - start)) -ge $next ]; then
      printf '  building %s %d s\n' "$step" $((SECONDS - start))
      next=$((SECONDS - start + 10))
    fi
  done
  [ -t 1 ] && printf '\r%40s\r' ''
  wait "$pid"
}

# build PRESET [TARGET...]: configures when needed and builds; a build that fails is one failed test. A release that is
# configured here leaves CUDA out where nvcc is but no GPU: its kernels would take most of the time, and could not run.
build() {
  local preset=$1 start=$SECONDS from targets=() options=()
  from=$(now)
  shift
  [ $# -gt 0 ] && targets=(--target "$@")
  if [ ! -f "build/$preset/build.ninja" ]; then
    if [ "$preset" = release ] && nvcc_here && ! gpu_here; then
      options=(-DTERN_CUDA=OFF)
      echo "  nvcc is here, but no NVIDIA GPU: build/release is without CUDA (to have it: cmake --preset release -DTERN_CUDA=ON)"
    fi
  fi
  if quiet "build/logs/configure-$preset.log" cmake --preset "$preset" "${options[@]}" &&
     with_progress "build/logs/build-$preset.log" cmake --build "build/$preset" -j "$jobs" "${targets[@]}"; then
    note_time "build $preset" "$from"
    printf '  built   %-22s (%d s)\n' "$preset" $((SECONDS - start))
  else
    failed=$((failed + 1))
    printf '  FAILED  %-22s does not build\n' "$preset"
    return 1
  fi
}

# add_counts "PASSED FAILED SKIPPED": adds what another program counted; anything else is one failure.
add_counts() {
  local p f s
  if [[ $1 =~ ^[0-9]+\ [0-9]+\ [0-9]+$ ]]; then
    read -r p f s <<<"$1"
  else
    p=0 f=1 s=0
  fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  [ "$f" -eq 0 ]
}

# beside NAME COMMAND...: checks of a command that uses one core, at the same time as others; join waits for all of them.
# shellcheck disable=SC2030,SC2031  # counts of its own, which join adds
besides=()
beside() {
  mkdir -p build/logs
  besides+=("build/logs/beside-$1.txt")
  (passed=0 failed=0 skipped=0; "${@:2}"; echo "$passed $failed $skipped") >"${besides[-1]}" 2>&1 &
}
join() {
  local log
  wait
  for log in "${besides[@]}"; do
    head -n -1 "$log"
    add_counts "$(tail -n 1 "$log")"
  done
  besides=()
}

# run_ctest PRESET [ctest option...]: runs a build's tests and adds them to the counts.
run_ctest() {
  local preset=$1 start=$SECONDS from counts status=0
  from=$(now)
  shift
  local junit="$PWD/build/logs/ctest-$preset.xml"
  mkdir -p build/logs
  rm -f "$junit"
  ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure --output-junit "$junit" "$@" \
    >"build/logs/ctest-$preset.log" 2>&1 || status=$?
  note_time "ctest $preset" "$from"
  if ! counts=$(python3 tools/junit_counts.py "$junit"); then
    tail -n 40 "build/logs/ctest-$preset.log"
    failed=$((failed + 1))
    printf '  FAILED  %-22s ctest left no results\n' "$preset"
    return 1
  fi
  local p f s
  read -r p f s <<<"$counts"
  # Failing without a failed test (a fixture that could not start, say) must not look like success.
  if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then
    tail -n 20 "build/logs/ctest-$preset.log"
    f=1
  fi
  printf '  tested  %-22s %d passed, %d failed, %d skipped (%d s)\n' "$preset" "$p" "$f" "$s" $((SECONDS - start))
  add_counts "$p $f $s"
}

# The last line, and the exit status that goes with it.
finish() {
  python3 tools/step_times.py "$times" --write build/logs/times.json
  printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [ "$failed" -eq 0 ]
}
