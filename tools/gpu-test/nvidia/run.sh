#!/bin/sh
# Runs what `cargo xtask nvidia-test` packed, on a machine with an NVIDIA GPU: each engine against the reference, each call of NVIDIA's
# libraries made to fail, captured graphs, streams, threads and devices, some of that under compute-sanitizer and beside a HIP runtime, and times
# against cuDNN alone and PyTorch. Before that, what many processor cores show. The arguments are words that the names of the cases to run contain.
# SECTIONS selects functions below, PYTHON_SECTIONS those of python/run.sh; by default all run. Files go into the folder OUT, else into out beside this script.
# The exit status is 1 if something failed, 2 if nothing ran.
here=$(cd "$(dirname "$0")" && pwd) || exit 2
mkdir -p "${OUT:=$here/out}" || exit 2
OUT=$(cd "$OUT" && pwd)
cd "$here" || exit 2
backend=$PWD/lib/libhipdnn_backend.so
export HIPDNN_DISABLE_CACHE=1

# NVIDIA's libraries in pip's folders: the plugins look beside VIRTUAL_ENV; what cuDNN opens itself needs the loader's path.
if prefix=$(python3 -c 'import sys; print(sys.prefix)' 2> /dev/null); then
  export VIRTUAL_ENV="${VIRTUAL_ENV:-$prefix}"
  folders=$(python3 -c 'import glob, nvidia; print(":".join(f for p in nvidia.__path__ for f in glob.glob(p + "/*/lib")))' 2> /dev/null)
  [ -z "$folders" ] || export LD_LIBRARY_PATH="$folders${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
parts=$(nproc)
[ "$parts" -le 14 ] || parts=14
status=0
# A line of a case that passed.
passed=' error [^ ]*  *[0-9.]* s$'

cores() {
  echo "== planning and executing with threads, and a small convolution beside busy ones; no GPU is used"
  HIPDNN_BENCH_LIBRARY=$backend HIPDNN_BENCH_PLUGIN=$PWD/bench/libhipdnn_null_plugin.so timeout 100 bin/scaling | tee "$OUT/scaling.csv"
  timeout 60 bin/bench-cpu --backend "$backend" --data "$OUT/bench-cpu" --busy 16 --threads 16 | tee "$OUT/busy.txt"
}

cases() {
  echo "== each engine against the reference, in $parts processes"
  rm -f "$OUT"/part*
  for part in $(seq "$parts"); do
    {
      timeout 600 bin/gpu-test "$backend" --part="$part/$parts" "$@" > "$OUT/part$part.txt" 2> "$OUT/part$part.log"
      echo "$?" > "$OUT/part$part.status"
    } &
  done
  wait
  for part in $(seq "$parts"); do
    ended=$(cat "$OUT/part$part.status")
    [ "$ended" -eq 0 ] || status=1
    # 1 is a wrong result, which is reported below.
    [ "$ended" -le 1 ] || echo "part $part: exit status $ended: $(tail -n 1 "$OUT/part$part.log")"
  done
  cat "$OUT"/part*.txt | grep -e "$passed" -e ' refused: ' -e ' FAILED: ' | sort > "$OUT/cases.txt"
  [ -s "$OUT/cases.txt" ] || exit 2
  rm -f "$OUT"/part*.txt "$OUT"/part*.status
  failed=$(grep -c ' FAILED: ' "$OUT/cases.txt")
  echo "passed $(grep -c "$passed" "$OUT/cases.txt"), refused $(grep -c ' refused: ' "$OUT/cases.txt"), failed $failed"
  grep ' FAILED: ' "$OUT/cases.txt" | tr -s ' ' | cut -c1-300
  if grep -q ' refused: ' "$OUT/cases.txt"; then
    echo "refused, by reason:"
    sed -n 's/.* refused: //p' "$OUT/cases.txt" | cut -c1-110 | sort | uniq -c | sort -rn
  fi
}

calls() {
  echo "== each call of NVIDIA's libraries made to fail, in $parts processes"
  for part in $(seq "$parts"); do
    {
      timeout 200 bin/gpu-test --nvidia-calls "$backend" --part="$part/$parts" > "$OUT/calls$part.txt" 2> "$OUT/calls$part.log"
      echo "part $part: exit status $?" >> "$OUT/calls$part.txt"
      grep '^gpu-test: ' "$OUT/calls$part.log" >> "$OUT/calls$part.txt"
      rm -f "$OUT/calls$part.log"
    } &
  done
  wait
  cat "$OUT"/calls[0-9]*.txt > "$OUT/calls.txt" && rm -f "$OUT"/calls[0-9]*.txt
  grep -e ' FAILED: ' -e 'gpu-test: ' "$OUT/calls.txt" | tr -s ' ' | cut -c1-400
  grep '^failing calls: .* calls of part ' "$OUT/calls.txt" | sed 's/ of part.*//' | awk '{ calls = $(NF - 1); NF -= 2; sum[$0] += calls }
    END { for (name in sum) print name ": " sum[name] " calls" }'
  [ "$(grep -c '^part [0-9]*: exit status 0$' "$OUT/calls.txt")" -eq "$parts" ] || status=1
}

checks() {
  echo "== captured graphs, streams, threads, devices, memory"
  timeout 300 bin/gpu-test --nvidia "$backend" > "$OUT/checks.txt" 2>&1 || status=1
  grep -e ' FAILED: ' -e ' left out: ' -e 'gpu-test: ' -e '^[0-9]* checks passed' "$OUT/checks.txt" | tr -s ' ' | cut -c1-400
}

mixed() {
  echo "== the same of threads and memory in a process that has a HIP runtime (a stand-in), too"
  LD_LIBRARY_PATH="$PWD/standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    timeout 100 bin/gpu-test --nvidia "$backend" "threads:" "memory:" > "$OUT/mixed.txt" 2>&1 || status=1
  grep -e ' FAILED: ' -e 'gpu-test: ' -e '^beside ' -e '^[0-9]* checks passed' "$OUT/mixed.txt" | tr -s ' ' | cut -c1-400
  grep -q '^beside the HIP runtime' "$OUT/mixed.txt" || { echo "the stand-in for the HIP runtime cannot be opened"; status=1; }
}

# One part of the cases under memcheck, unless time is up.
memcheck_part() {
  part=$1 parts=$2 until=$3 log=$OUT/memcheck$1.txt
  left=$((until - $(date +%s)))
  [ "$left" -ge 10 ] || { echo "part $part is left out: the time is up" > "$log"; return; }
  timeout "$left" compute-sanitizer --tool memcheck --error-exitcode 99 bin/gpu-test "$backend" --part="$part/$parts" > "$log" 2>&1
  echo "part $part: exit status $?" >> "$log"
}

# MEMCHECK_PARTS=1-24/48 has the first half of the parts run, in MEMCHECK_SECONDS at most. Another GPU than that of other sections, named by
# CUDA_VISIBLE_DEVICES, can do it meanwhile, into another folder OUT.
memcheck() {
  wanted=${MEMCHECK_PARTS:-1-48/48}
  all=${wanted#*/} from=${wanted%%-*} to=${wanted%%/*}
  to=${to#*-}
  echo "== every case under memcheck: parts $from to $to of $all"
  if ! command -v compute-sanitizer > /dev/null; then
    echo "left out: compute-sanitizer is not installed"
    return
  fi
  until=$(($(date +%s) + ${MEMCHECK_SECONDS:-600})) workers=$((($(nproc) + 1) / 2))
  rm -f "$OUT"/memcheck[0-9]*.txt "$OUT/memcheck.txt"
  for worker in $(seq "$workers"); do
    {
      part=$((from + worker - 1))
      while [ "$part" -le "$to" ]; do
        memcheck_part "$part" "$all" "$until"
        part=$((part + workers))
      done
    } &
  done
  wait
  clean=$(grep -l '^========= ERROR SUMMARY: 0 errors$' "$OUT"/memcheck[0-9]*.txt | wc -l)
  cat "$OUT"/memcheck[0-9]*.txt > "$OUT/memcheck.txt" && rm -f "$OUT"/memcheck[0-9]*.txt
  grep -e ' FAILED: ' -e 'gpu-test: ' -e ' is left out: ' -e ': exit status [^0]' "$OUT/memcheck.txt" | tr -s ' ' | cut -c1-300
  grep 'ERROR SUMMARY' "$OUT/memcheck.txt" | sort | uniq -c
  echo "passed $(grep -c "$passed" "$OUT/memcheck.txt"), refused $(grep -c ' refused: ' "$OUT/memcheck.txt"), parts without errors $clean of $((to - from + 1))"
  [ "$clean" -eq $((to - from + 1)) ] && ! grep -q -e ' FAILED: ' -e ': exit status [^0]' "$OUT/memcheck.txt" || status=1
}

# Not unless it is named: what CUDA refuses in a check is an error for memcheck, too.
memcheck_checks() {
  echo "== captured graphs, streams, threads and memory under memcheck"
  timeout 500 compute-sanitizer --tool memcheck --error-exitcode 99 bin/gpu-test --nvidia "$backend" capture streams: threads: memory: \
    > "$OUT/memcheck_checks.txt" 2>&1 || status=1
  grep -e ' FAILED: ' -e 'gpu-test: ' -e '^[0-9]* checks passed' -e 'ERROR SUMMARY' "$OUT/memcheck_checks.txt" | tr -s ' ' | cut -c1-400
}

# One graph for invariance, and what was found.
invariant_graph() {
  found=$(timeout 120 bin/hipdnn --backend "$2" run "$3" --invariant --engine "$1" --knob batch_invariant=1 2>&1 | tail -n 1)
  printf '%s: %s\n' "$(basename "$3" .json)" "$found"
}

invariance() {
  echo "== the bits of each item of a batch with the knob batch_invariant, and what that costs"
  rm -rf "$OUT/invariance"
  bin/gpu-test --graphs "$OUT/invariance" HIPRTC_ENGINE || status=1
  cp examples_graphs/*.json "$OUT/invariance"
  for engine in ${INVARIANT_ENGINES:-NVRTC_ENGINE CPU_ENGINE}; do
    for part in $(seq "$parts"); do
      find "$OUT/invariance" -name '*.json' | sort | awk -v part="$part" -v parts="$parts" 'NR % parts == part - 1' |
        while read -r graph; do invariant_graph "$engine" "$backend" "$graph"; done > "$OUT/invariance$part.txt" &
    done
    wait
    cat "$OUT"/invariance[0-9]*.txt | sort > "$OUT/invariance_$engine.txt" && rm -f "$OUT"/invariance[0-9]*.txt
    equal=$(grep -c 'same bits in every run$' "$OUT/invariance_$engine.txt")
    differ=$(grep -c 'does not compute items alike' "$OUT/invariance_$engine.txt")
    whole=$(grep -c 'the batch cannot be told' "$OUT/invariance_$engine.txt")
    echo "$engine: $equal graphs with equal bits, $differ that differ, $whole without a batch, of $(wc -l < "$OUT/invariance_$engine.txt")"
    grep 'does not compute items alike' "$OUT/invariance_$engine.txt" | cut -c1-200
    [ "$differ" -eq 0 ] && [ "$equal" -gt 0 ] || status=1
  done
  for graph in examples_graphs/*.json; do
    for knob in 0 1; do
      HIPDNN_BATCH_INVARIANT=$knob bin/hipdnn --backend "$backend" bench "$graph" --engine NVRTC_ENGINE --no-ranking --values 1 |
        awk -v graph="$(basename "$graph" .json)" -v knob="$knob" '/^NVRTC_ENGINE/ { print graph ", batch_invariant " knob ": " $0; exit }'
    done
  done > "$OUT/invariance_times.txt"
  cat "$OUT/invariance_times.txt"
}

train() {
  echo "== a network trained on the device, and the parts of its graphs"
  # The parts are those of the graphs that the program writes.
  rm -rf "$OUT/graphs"
  HIPDNN_LOG_GRAPH_DIR="$OUT/graphs" timeout 100 bin/train_digits --device digits.csv > "$OUT/train.txt" 2>&1 || status=1
  cat "$OUT/train.txt"
  for graph in "$OUT"/graphs/*.json; do
    [ -e "$graph" ] || continue
    sed -n 's/.*"name":"\([^"]*\)","nodes":.*/\1/p' "$graph"
    bin/hipdnn --backend "$backend" explain "$graph" |
      awk '/^[A-Z_]*_ENGINE / { engine = $1 } /^  nodes? / && engine !~ /^CPU/ { print "  " engine ":" substr($0, 2) }'
  done > "$OUT/parts.txt"
  cat "$OUT/parts.txt"
}

examples() {
  echo "== times of the example graphs"
  for graph in examples_graphs/*.json; do
    bin/hipdnn --backend "$backend" bench "$graph" --no-ranking || true
  done
}

peer() {
  echo "== beside a program on cuDNN alone, and the first handle of a process"
  if [ -x bin/cudnn_peer ]; then
    timeout 400 bin/cudnn_peer "$backend" > "$OUT/peer.csv" || status=1
    # The second time the files are warm.
    for _ in 1 2; do timeout 60 bin/cudnn_peer "$backend" --first > "$OUT/first.csv" || status=1; done
    cat "$OUT/peer.csv" "$OUT/first.csv"
  else
    echo "left out: NVIDIA's headers were not there when this was packed"
  fi
}

fallback() {
  echo "== CPU_ENGINE with memory of the GPU"
  if python3 -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null; then
    timeout 60 python3 nvidia_fallback.py "$backend" || status=1
  else
    echo "left out: PyTorch, which finds a GPU"
  fi
}

first_use() {
  echo "== plans of attention that NVRTC_ENGINE has not seen"
  if python3 -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null; then
    timeout 200 python3 nvidia_first_use.py "$backend" "$OUT/first_use.csv" || status=1
  else
    echo "left out: PyTorch, which finds a GPU"
  fi
}

# Groups of cases of nvidia_bench.py, into files of a name.
against_pytorch() {
  name=$1
  shift
  if why=$(python3 -c 'import torch; assert torch.cuda.is_available(), "PyTorch finds no GPU"' 2>&1); then
    if ! timeout 600 python3 nvidia_bench.py "$backend" "$OUT/$name.csv" --groups "$@" --picture "$OUT/$name.svg" 2> "$OUT/$name.log"; then
      status=1
      grep -v '^\[' "$OUT/$name.log" | tail -n 5
    fi
  else
    echo "left out: $(echo "$why" | tail -n 1)"
  fi
}

pytorch() {
  echo "== times against PyTorch"
  against_pytorch figures matmuls attention convolutions memory
}

rows() {
  echo "== times of few long rows against PyTorch, shared by workgroups and not"
  against_pytorch rows rows
}

python() {
  echo "== Python: arrays on the GPU, PyTorch's functions, training beside PyTorch"
  SECTIONS=${PYTHON_SECTIONS:-} sh python/run.sh || status=1
}

bin/hipdnn --backend "$backend" device
bin/hipdnn --backend "$backend" engines
for section in ${SECTIONS:-cores cases calls checks mixed memcheck invariance train examples peer fallback first_use pytorch rows python}; do
  began=$(date +%s)
  "$section" "$@"
  echo "== $section took $(($(date +%s) - began)) s"
done
exit $status
