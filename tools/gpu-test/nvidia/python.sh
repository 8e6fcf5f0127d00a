#!/bin/sh
# Runs the Python package's tests of GPU arrays, and trains networks in comparison with PyTorch, with the library in the folder lib beside this one.
# nvidia.sh calls it. SECTIONS selects functions below (cases, figures, cpu); by default all run.
# Files go into the folder OUT. The exit status is 1 if something failed; skipped parts are reported.
here=$(cd "$(dirname "$0")" && pwd) || exit 2
mkdir -p "${OUT:=$here/out}" || exit 2
OUT=$(cd "$OUT" && pwd)
cd "$here" || exit 2
export PYTHONPATH="$here:$here/site" PYTHONDONTWRITEBYTECODE=1 HIPDNN_BACKEND_LIBRARY_PATH="${HIPDNN_BACKEND_LIBRARY_PATH:-$here/../lib}"
export HIPDNN_DISABLE_CACHE=1
status=0

if ! why=$(python3 -c 'import torch' 2>&1); then
  echo "left out: $(echo "$why" | tail -n 1)"
  exit 0
fi
on_gpu() {
  why=$(python3 -c 'import torch; assert torch.cuda.is_available(), "PyTorch finds no GPU"' 2>&1) && return
  echo "left out: $(echo "$why" | tail -n 1)"
  return 1
}
timeout 60 python3 -m hipdnn || status=1

# Each in its own process, since a device fault makes the process unusable.
tests() {
  name=$1 limit=$2
  shift 2
  began=$(date +%s)
  (cd tests && timeout "$limit" python3 -X faulthandler -m pytest -q -rxs -p no:cacheprovider --tb=short "$@" > "$OUT/python_$name.txt" 2>&1)
  ended=$?
  [ "$ended" -eq 0 ] || status=1
  echo "$name: exit status $ended after $(($(date +%s) - began)) s: $(tail -n 1 "$OUT/python_$name.txt")"
  grep -E '^(FAILED|ERROR|execute |\{)' "$OUT/python_$name.txt" | cut -c1-300
  # Graphs that no engine accepts, by reason.
  sed -n 's/^XFAIL [^ ]* - //p' "$OUT/python_$name.txt" | cut -c1-160 | sort | uniq -c | sort -rn | head -n 12
}

arrays() {
  on_gpu || return
  echo "== the package's tests of arrays on GPUs"
  tests arrays 120 test_cuda.py -k "not test_methods"
}

methods() {
  on_gpu || return
  echo "== every operation of a graph on the GPU"
  tests methods 200 test_cuda.py -k test_methods
}

functions() {
  on_gpu || return
  echo "== PyTorch's functions and their gradients on the GPU"
  tests torch 240 test_cuda_torch.py
}

cases() {
  arrays
  methods
  functions
}

train() {
  limit=$1
  shift
  echo "-- $*"
  # shellcheck disable=SC2086 # Words.
  timeout "$limit" $PINNED python3 "examples_python/$@" > "$OUT/training.txt" 2>&1 || { status=1; tail -n 5 "$OUT/training.txt"; }
  cat "$OUT/training.txt" >> "$OUT/python_training.txt"
  grep -e '^loss' -e 'moved by one ulp' -e '^a step' -e '^hipDNN computed' -e 'in PyTorch [0-9]' "$OUT/training.txt" | cut -c1-250
}

# A benchmark's output is saved and shown.
bench() {
  limit=$1 name=$2
  shift 2
  # shellcheck disable=SC2086 # Words.
  timeout "$limit" $PINNED python3 "benches/$@" > "$OUT/$name.txt" || status=1
  cat "$OUT/$name.txt"
}

# The same network three ways: call by call, a step captured in a graph, compiled.
three_ways() {
  limit_of_each=$1
  shift
  for more in "" --graph --compile; do
    # shellcheck disable=SC2086 # No word where there is none.
    train "$limit_of_each" "$@" $more
  done
}

resnet() {
  on_gpu || return
  echo "== ResNet-18 trained on the GPU beside PyTorch, whose convolutions are timed first"
  three_ways 140 train_resnet.py --device cuda --dtype float16 --images 128 --size 32 --steps 40
}

large_resnet() {
  on_gpu || return
  echo "== the same of images of 224 x 224"
  three_ways 160 train_resnet.py --device cuda --dtype float16 --images 64 --size 224 --steps 12
}

gpt() {
  on_gpu || return
  echo "== a GPT trained on the GPU beside PyTorch, and what small calls cost"
  three_ways 60 train_gpt.py --device cuda --dtype bfloat16 --size 512 --heads 8 --length 512 --texts 16 --steps 60
  three_ways 60 train_gpt.py --device cuda --dtype bfloat16 --size 1024 --heads 16 --length 1024 --texts 8 --steps 30
  bench 40 python_calls_gpu pytorch_calls.py --device cuda --dtype bfloat16 --seconds 0.1
}

figures() {
  resnet
  large_resnet
  gpt
}

cpu() {
  echo "== on two threads of the CPU: an execution, small calls, and training beside PyTorch"
  export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=PASSIVE
  if command -v taskset > /dev/null; then PINNED="taskset -c 0,1"; fi
  bench 30 python_execute python_execute.py --rounds 100
  bench 30 python_calls pytorch_calls.py --seconds 0.1
  train 90 train_gpt.py --steps 200 --rounding --check
  train 100 train_resnet.py --steps 200 --rounding
  unset OMP_NUM_THREADS OMP_WAIT_POLICY
  PINNED=
}

PINNED=
rm -f "$OUT/python_training.txt"
for section in ${SECTIONS:-cases figures cpu}; do
  "$section"
done
rm -f "$OUT/training.txt"
exit "$status"
