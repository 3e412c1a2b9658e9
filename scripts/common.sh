# Shared by the scripts: --help, timed steps, quiet commands, and the counts of the last line. Sourced, never run.
# shellcheck shell=bash

# --help prints the comment at the top of the script, before anything is installed or built.
case " $* " in
  *' --help '* | *' -h '*) sed -n '2,/^[^#]/s/^# //p' "$0"; exit 0 ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

jobs=$(nproc)
passed=0 failed=0 skipped=0

# Uses ccache if it is installed; CMake reads the launcher only when it creates a build folder. CCACHE_BASEDIR makes
# paths below this folder relative, so that another clone shares the cache; the sloppiness lets it cache precompiled
# headers.
use_ccache() {
  command -v ccache >/dev/null || return 0
  export CMAKE_CXX_COMPILER_LAUNCHER="${CMAKE_CXX_COMPILER_LAUNCHER-ccache}"
  export CMAKE_CUDA_COMPILER_LAUNCHER="${CMAKE_CUDA_COMPILER_LAUNCHER-ccache}"
  export CCACHE_BASEDIR="${CCACHE_BASEDIR-$PWD}" CCACHE_NOHASHDIR=1
  export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS-pch_defines,time_macros}"
}
use_ccache

# Times of this run's steps, one line each; finish() makes build/logs/times.json of them. A script that another one runs
# adds to the same file.
times=build/logs/times.tsv
times_part=start
mkdir -p build/logs
[ -n "${TERN_TIMES_OF_ONE_RUN-}" ] || : >"$times"
now() { printf '%s' "${EPOCHREALTIME/,/.}"; }
# note_time STEP START: the seconds since START, which now() gave.
note_time() { printf '%s\t%s\t%s\t%s\n' "$times_part" "$1" "$2" "$(now)" >>"$times"; }

# set_up [tests | deep]: installs what is missing, and then uses ccache if it was just installed.
set_up() {
  local from
  from=$(now)
  TERN_TIMES_OF_ONE_RUN=yes scripts/setup "$@" || exit 1
  note_time setup "$from"
  use_ccache
}

# no_arguments "$@": refuses arguments, for scripts that take none.
no_arguments() {
  [ $# -eq 0 ] && return
  echo "usage: $0, without '$*'" >&2
  exit 2
}

# heading TEXT: begins a part of a script; the first word is the part's name in the times.
heading() {
  times_part=${1%% *}
  printf '\n== %s\n' "$*"
}

# quiet LOG COMMAND...: runs the command with its output in LOG; shows the output only when it fails.
quiet() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 && return 0
  local status=$?
  grep -v '^\[[0-9]*/[0-9]*\] ' "$log"  # without ninja's progress lines
  return $status
}

# check NAME COMMAND...: one test, which passes when the command succeeds. Shows the last line of the command's output,
# or all of it when it failed.
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

# with_progress LOG COMMAND...: like quiet, but shows ninja's progress: on a terminal in one line that is overwritten,
# elsewhere in a new line every ten seconds.
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

# build PRESET [TARGET...]: configures if needed and builds; a failed build counts as one failed test. With nvcc but no
# GPU, release is configured without CUDA: its kernels would take most of the build time and could not run.
build() {
  local preset=$1 start=$SECONDS from targets=() options=()
  from=$(now)
  shift
  [ $# -gt 0 ] && targets=(--target "$@")
  if [ ! -f "build/$preset/build.ninja" ]; then
    if [ "$preset" = release ] && nvcc_here && ! gpu_here; then
      options=(-DTERN_CUDA=OFF)
      echo "  nvcc is here, but no NVIDIA GPU: building without CUDA (with it: cmake --preset release -DTERN_CUDA=ON)"
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

# add_counts "PASSED FAILED SKIPPED": adds the counts of another program; any other text counts as one failure.
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

# beside NAME COMMAND...: runs checks of single-core commands in the background. join waits for all of them, shows what
# they printed and adds their counts.
# shellcheck disable=SC2030,SC2031  # each subshell has its own counts, which join adds
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

# run_ctest PRESET [ctest option...]: runs a build's tests and adds their results to the counts.
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
  # ctest may fail without a failed test, for instance when a fixture could not start; count that as a failure.
  if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then
    tail -n 20 "build/logs/ctest-$preset.log"
    f=1
  fi
  printf '  tested  %-22s %d passed, %d failed, %d skipped (%d s)\n' "$preset" "$p" "$f" "$s" $((SECONDS - start))
  add_counts "$p $f $s"
}

# Prints the last line, with the counts; the exit status is 0 only if nothing failed.
finish() {
  python3 tools/step_times.py "$times" --write build/logs/times.json
  printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [ "$failed" -eq 0 ]
}
