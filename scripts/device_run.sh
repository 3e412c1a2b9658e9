#!/usr/bin/env bash
# run OUT [tests selftest quantize linear gemm gpu gpu_large gpu_linear gpu_shapes gpu_wide gpu_wide_many gpu_gemm
# gpu_ternary_tests gpu_linear_tests gpu_linear_sanitizer gpu_affine_tests gpu_affine_sanitizer gpu_affine golden
# sanitizer]: runs these parts of the bundle, or all; each takes minutes. OUT then has proof.txt (machine, commit, each
# part's results; to be committed with the figures) and, by part, cpu.json, gpu.json, torch_affine.json and PyTorch's
# golden files. `tests` includes those of a GPU. A program whose tests were all skipped is counted as skipped.
set -euo pipefail
cd "$(dirname "$0")"
if [ $# -lt 1 ] || [ "$1" = --help ] || [ "$1" = -h ]; then
  sed -n '2,6s/^# //p' "${0##*/}"
  [ $# -ge 1 ] || exit 2
  exit 0
fi
out=$1
shift
mkdir -p "$out"
parts=("$@")
all=(tests selftest quantize linear gemm gpu gpu_large gpu_linear gpu_shapes gpu_wide gpu_wide_many gpu_gemm
  gpu_ternary_tests gpu_linear_tests gpu_linear_sanitizer gpu_affine_tests gpu_affine_sanitizer gpu_affine golden
  sanitizer)
[ ${#parts[@]} -gt 0 ] || parts=("${all[@]}")
for part in "${parts[@]}"; do
  case " ${all[*]} " in
    *" $part "*) ;;
    *) printf "there is no part '%s', only %s\n" "$part" "${all[*]}" >&2; exit 2 ;;
  esac
done
[ -d tests ] || python3 -m tarfile -e tests.tar.xz .
cores=$(nproc)
counts=1
for n in 2 4 8 16 32 64; do
  if [ "$n" -le "$cores" ]; then counts+=",$n"; fi
done
status=0
proof=$out/proof.txt

# header: describes the machine and the commit; written once, however many calls share OUT.
header() {
  local commit dirty
  commit=$(cat commit) dirty=$(cat dirty)
  printf 'commit %s\ndirty %s\ndate %s\ncpu %s, %d threads\n' "$commit" "$dirty" "$(date -u +%FT%TZ)" \
    "$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)" "$cores"
  bin/tern devices --json | python3 -c '
import json, sys
gpus = [d for d in json.load(sys.stdin)["devices"] if d.get("gpu")]
for d in gpus:
    print("gpu {}, {}, driver {}".format(d["name"], d["architecture"], d["gpu"]["driver"]))
if not gpus:
    print("gpu none")'
}
[ -s "$proof" ] || header >"$proof"
if compgen -G '/dev/nvidia[0-9]*' >/dev/null && grep -qx 'gpu none' "$proof"; then
  echo "this machine has a GPU, but the bundle finds none: bin/tern devices says why" >&2
  exit 1
fi
say() { printf '%s\n' "$*" | tee -a "$proof"; }  # to the screen and to the proof

# bench NAME ARGUMENTS...: runs `tern bench`, adds its report to OUT/NAME.json and prints a line for each kernel.
bench() {
  printf '  tern bench %s\n' "${*:2}"
  bin/tern bench "${@:2}" --json >"$out/report" || { status=1; return; }
  python3 - "$out/report" "$out/$1.json" <<'PYTHON'
import json, pathlib, sys

report = json.loads(pathlib.Path(sys.argv[1]).read_text())
report["machine"]["commit"] = pathlib.Path("commit").read_text().strip()
report["machine"]["dirty"] = pathlib.Path("dirty").read_text().strip() != "no"
path = pathlib.Path(sys.argv[2])
all = json.loads(path.read_text()) if path.exists() else {"machine": report["machine"], "records": []}
all["records"] += report["records"]
if "models" in report:
    all["models"] = all.get("models", []) + report["models"]
path.write_text(json.dumps(all, indent=1) + "\n")
for r in report["records"]:
    limit = r.get("limit")
    share = f"{100 * limit['share']:6.1f} % of {limit['name']}" if limit else ""
    problem = r["problem"]
    shape = problem.get("model") or f"{problem['rows']}x{problem['cols']}"
    print(f"    {r['kernel']:34} {shape:12} {r['threads']:3} threads {r['median_us']:12.2f} us {share}")
    for b in r.get("baselines", []):
        print(f"      {b['speedup']:6.2f} times {b['name']}")
for m in report.get("models", []):
    print(f"    {m['name']}, {m['x_dtype']} in: {m['threads']:3} threads {m['tokens_per_s']:8.1f} tokens/s"
          f" {100 * m['share']:6.1f} % of {m['limit']}")
PYTHON
  rm -f "$out/report"
}

gpu() { bench gpu "$@" --device cuda:0; }
gpu_linear() { gpu linear --baselines "$@"; }  # also times cuBLAS

# tests PROGRAM FILTER [VARIABLE=VALUE...]: runs some of a program's tests; reports them in one line, then each failure.
programs_passed=0 programs_failed=0 programs_skipped=0
tests() {
  local result code=0
  rm -f "$out/report"
  env "${@:3}" "tests/test_$1" --gtest_brief=1 --gtest_output="json:$out/report" --gtest_filter="$2" >"$out/log" 2>&1 ||
    code=$?
  result=$(python3 - "$out/report" "$code" <<'PYTHON'
import json, pathlib, sys

path, code = pathlib.Path(sys.argv[1]), int(sys.argv[2])
cases = [t for suite in json.loads(path.read_text())["testsuites"] for t in suite["testsuite"]] if path.exists() else []
ran = [t for t in cases if t.get("status") == "RUN"]
failed = [t for t in ran if t.get("failures")]
skipped = [t for t in ran if t.get("result") == "SKIPPED" and not t.get("failures")]
passed = len(ran) - len(failed) - len(skipped)
word = "FAILED" if code or failed or not ran else "skipped" if not passed else "passed"
ended = f", ended with {code}" if code else ""
print(f"{word} {passed} passed, {len(failed)} failed, {len(skipped)} skipped{ended}")
for t in failed:
    lines = t["failures"][0]["failure"].splitlines()
    print(f"    {t['classname']}.{t['name']}: {' | '.join(line.strip() for line in lines[:6])[:400]}")
PYTHON
)
  case $result in
    passed*) programs_passed=$((programs_passed + 1)) ;;
    skipped*) programs_skipped=$((programs_skipped + 1)) ;;
    *) programs_failed=$((programs_failed + 1)) status=1; tail -n 60 "$out/log" ;;
  esac
  say "  ${result%% *} $1 $2${3:+ ${*:3}}: ${result#* }"
  rm -f "$out/log" "$out/report"
}

# sanitizer TOOL PROGRAM:FILTER...: runs tests under a tool of compute-sanitizer; reports a line for each.
sanitizer() {
  local options=() result test  # tests provoke failed allocations; those are no errors
  if [ "$1" = memcheck ]; then options=(--report-api-errors no); fi
  for test in "${@:2}"; do
    result=clean
    if ! compute-sanitizer --tool "$1" "${options[@]}" --error-exitcode 99 "tests/test_${test%%:*}" \
      --gtest_filter="${test#*:}" >"$out/log" 2>&1; then
      result=FAILED status=1
      tail -n 30 "$out/log"
    elif ! grep -q '^\[       OK \]' "$out/log"; then
      result=skipped  # no test ran
    fi
    say "  $result $1 $test: $(grep ' SUMMARY' "$out/log" | tail -n 1)"
    rm -f "$out/log"
  done
}

for part in "${parts[@]}"; do
  say "== $part"
  case $part in
    tests)
      for program in tests/test_*; do
        [ "$program" = tests/test_slow ] || tests "${program#tests/test_}" '*'
      done
      ;;
    selftest)
      bin/tern selftest | tee -a "$proof" | tail -n 1 || status=1
      if [ -e /dev/nvidiactl ]; then
        bin/tern selftest --device cuda:0 | tee -a "$proof" | tail -n 1 || status=1
      fi
      ;;
    quantize)
      bench cpu ternary_quantize --scheme absmax --granularity group:128 --threads "$counts"
      bench cpu ternary_quantize --scheme absmean --granularity row --threads "$counts"
      bench cpu ternary_quantize --dtype bf16 --scheme absmean --granularity row --threads "1,$cores"
      bench cpu ternary_dequantize --granularity group:128 --threads "$counts"
      bench cpu activation_quantize --shape 1x2560 --warm --threads 1
      ;;
    linear)
      for format in i2 b3; do bench cpu linear --model bitnet-2b --format $format --threads "$counts"; done
      for shape in 13824x2560 4096x14336 55296x5120; do  # packed to 8 MB and more
        for format in i2 b3; do bench cpu linear --shape $shape --format $format --threads "$counts"; done
      done
      ;;
    gemm)
      for shape in 2560x2560 13824x2560 2560x6912; do
        for m in 8 128 512; do
          for isa in i2.x86_amx_int8 b3.x86_amx_int8 i2.x86_avx512vnni i2.x86_avx2 \
            s8.x86_amx_int8 s8.x86_avx512vnni s4.x86_amx_int8 s4.x86_avx512vnni; do
            if [ $m -lt 16 ] && [[ $isa == s?.x86_amx_int8 ]]; then continue; fi  # not chosen for so few tokens
            bench cpu linear --shape $shape --m $m --warm --format ${isa%%.*} --threads "1,$cores" --kernel linear.$isa
          done
        done
      done
      ;;
    gpu)  # 2^30 elements; then every size, also on the CPU
      shape=262144x4096
      for dtype in f32 bf16 f16; do
        gpu ternary_quantize --dtype $dtype --shape $shape --scheme absmax --granularity group:128
        gpu ternary_quantize --dtype $dtype --shape $shape --granularity row
        gpu ternary_quantize --dtype $dtype --shape $shape --granularity tensor
        gpu ternary_dequantize --dtype $dtype --shape $shape --granularity group:128
      done
      gpu ternary_quantize --shape $shape --granularity group:128
      gpu ternary_quantize --shape $shape --scheme mse --granularity row
      gpu ternary_quantize --shape $shape --scheme int2 --granularity group:128
      gpu ternary_quantize --shape $shape --scheme absmax --granularity group:100
      gpu activation_quantize --dtype bf16 --shape 4096x4096
      gpu activation_quantize --dtype bf16 --shape 1x2560 --warm
      for size in 8x128 80x128 800x128 8000x128 65536x4096 262144x4096; do
        gpu ternary_quantize --shape $size --scheme absmax --granularity group:128
        bench gpu ternary_quantize --shape $size --scheme absmax --granularity group:128
      done
      ;;
    gpu_large)  # 16 GiB from host memory through 256 MiB of the GPU; tensors of more than 2^31 elements
      for from in pinned pageable; do
        gpu ternary_quantize --shape 1048576x4096 --scheme absmax --granularity group:128 --from $from
        gpu ternary_quantize --shape 1048576x4096 --granularity row --from $from
      done
      tests slow 'GpuQuantize*'
      ;;
    gpu_linear)  # all layers of a model as one graph: int8 and bf16 in
      for m in 1 8 32 512; do
        gpu_linear --model bitnet-2b --m $m --dtype i8 --y bf16
        gpu_linear --model bitnet-2b --m $m --dtype bf16 --y bf16
      done
      ;;
    gpu_shapes)  # one token and a few, for the shapes of Microsoft's kernel and for round ones
      for shape in 2560x2560 3840x2560 13824x2560 2560x6912 3200x3200 4800x3200 3200x10240 20480x3200 55296x5120 \
        5120x27648 1024x4096 4096x16384 8192x32768; do
        gpu_linear --shape $shape --y bf16
      done
      for shape in 2560x2560 13824x2560 55296x5120; do
        gpu_linear --shape $shape --dtype bf16 --y bf16
        for m in 2 8 16 32 64; do gpu_linear --shape $shape --m $m --y bf16; done
      done
      for kernel in cuda_sm80 cuda_sm75 cuda_simple; do
        gpu_linear --shape 13824x2560 --y bf16 --kernel linear.i2.$kernel
      done
      ;;
    gpu_wide)  # weights of 8 and 4 bits: a model's output head, its layers, few tokens and many
      for format in s8 s4; do
        for shape in 128256x2560 13824x2560 2560x6912; do
          gpu_linear --shape $shape --y bf16 --format $format
          gpu_linear --shape $shape --y bf16 --format $format --granularity group:128
        done
        for shape in 13824x2560 4096x4096; do
          for m in 2 8 16 32 64 128 1024; do gpu_linear --shape $shape --y bf16 --format $format --m $m; done
        done
        for kernel in cuda_sm80 cuda_sm75; do
          gpu_linear --shape 13824x2560 --y bf16 --format $format --kernel linear.$format.$kernel
        done
      done
      ;;
    gpu_wide_many)  # 182 problems of 8- and 4-bit weights with 9 to 1024 tokens
      for m in 128 16 1024 64 9 256 32 512 24 96 48 192 384; do
        for shape in 2560x2560 3840x2560 13824x2560 2560x6912 4096x4096 14336x4096 4096x14336; do
          for format in s8 s4; do gpu_linear --shape $shape --y bf16 --format $format --m $m; done
        done
      done
      ;;
    gpu_gemm)  # many tokens: quantization and product, the product alone, and float activations (w2_float)
      for shape in 2560x2560 13824x2560 2560x6912 4096x4096 14336x4096; do
        for m in 1024 4096; do
          for dtype in bf16 i8; do gpu_linear --shape $shape --m $m --dtype $dtype --y bf16; done
        done
      done
      for dtype in bf16 f16 f32; do
        gpu_linear --shape 4096x4096 --m 1024 --dtype $dtype --y bf16 --math w2_float --granularity group:128
      done
      for kernel in cuda_sm80 cuda_sm75; do
        gpu_linear --shape 4096x4096 --m 1024 --y bf16 --kernel linear.i2.$kernel
      done
      ;;
    gpu_ternary_tests)  # every kernel of the ternary ops, plans, memory and the conveniences
      for program in ternary_quantize ternary_dequantize activation_quantize plan memory; do tests $program '*'; done
      tests api '*Gpu*:*GPU*-LinearOnGpu.*:LoadOnGpu.*:ChainOnGpu.*:COnAGpu.*'
      ;;
    gpu_linear_tests)  # every kernel; layers with the kernels of older GPUs; 100,000 problems; 2^31 elements
      tests linear '*'
      tests plan 'PackingOnGpu.*'
      tests api 'LinearOnGpu.*:LoadOnGpu.*:ChainOnGpu.*:Precisions.*:COnAGpu.*'
      for kernel in cuda_sm80 cuda_sm75 cuda_simple; do
        # TERN_FORCE_KERNEL must also name the CPU kernels that the results are compared with.
        forced=linear.i2.x86_avx2,linear.b3.scalar,linear.s8.x86_avx2,linear.s4.x86_avx2
        for format in i2 b3 s8 s4; do forced+=,linear.$format.$kernel; done
        tests api 'LinearOnGpu.*' TERN_FORCE_KERNEL=$forced
      done
      tests slow '*GpuLinear*:LargeLinear.*'
      ;;
    gpu_linear_sanitizer)  # few problems, but every kernel with few and many tokens
      for tool in memcheck racecheck; do
        for format in i2 s8 s4; do
          sanitizer $tool \
            "linear:*SeveralMatrices*/$format:*FewerTokens*/$format:*ResidualMayBe*/$format:*NoColumns*/$format"
        done
        sanitizer $tool 'linear:*RefusesNonFinite*/i2:*SmallProblemsOfWiderWeights' \
          'api:LinearOnGpu.W2a8Gemv:*CodesThatAreNoTrits*:*NonFiniteTokens*'
      done
      ;;
    gpu_affine_tests)  # every kernel of the family against the references
      for op in affine affine_quantize affine_dequantize fake_quantize fake_quantize_backward choose_qparams \
        dynamic_quantize; do
        tests $op '*'
      done
      ;;
    gpu_affine_sanitizer)  # few problems, but every kernel; kernels with shared memory also for races
      sanitizer memcheck 'affine:*' 'affine_quantize:*AnyStrides*:*LongLines*' \
        'affine_dequantize:*AnyStrides*' 'fake_quantize:*AnyStrides*' 'fake_quantize_backward:*AnyStrides*' \
        'choose_qparams:*AnyStrides*' 'dynamic_quantize:*AnyStrides*:*EveryLength*'
      for tool in racecheck synccheck; do
        sanitizer $tool 'fake_quantize_backward:*LongRanges*' 'choose_qparams:*AnyStrides*' \
          'dynamic_quantize:*EveryLength*'
      done
      ;;
    gpu_affine)  # 2^28 elements; also times PyTorch
      affine() { gpu "$1" --dtype $dtype "${@:2}"; }
      for dtype in f32 bf16; do
        for format in s8 s4; do
          for granularity in group:128 row; do
            affine affine_quantize --format $format --granularity $granularity
            affine dynamic_quantize --format $format --granularity $granularity
          done
          affine affine_dequantize --format $format --granularity group:128
        done
        for granularity in group:128 row tensor; do affine fake_quantize --granularity $granularity; done
        for granularity in group:128 tensor; do affine choose_qparams --granularity $granularity; done
        affine fake_quantize_backward
      done
      if python3 -c 'import torch' 2>/dev/null; then python3 torch_affine.py | tee "$out/torch_affine.json"; fi
      ;;
    golden)  # PyTorch's results on this GPU, for tests/golden
      python3 golden_torch.py "$out" cuda || status=1
      ls "$out"/*.torch_cuda.txt || status=1
      ;;
    sanitizer)
      for tool in memcheck racecheck initcheck synccheck; do
        sanitizer $tool 'plan:QuantizeOnGpu.Given*:*OnTheDevice*' 'plan:OnAGpu.*-*TenThousand*:*Replay*' \
          'ternary_quantize:QuantizeLayout.*:QuantizeF64.*:*OrderOfSums*:*GivenScale*' \
          'ternary_dequantize:*StridedRows*' 'activation_quantize:*'
      done
      ;;
  esac
done
say "programs: $programs_passed passed, $programs_failed failed, $programs_skipped skipped"
exit $status
