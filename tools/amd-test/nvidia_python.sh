#!/bin/sh
# Runs the Python package's tests of arrays on GPUs, and trains networks beside PyTorch, with the library in the folder lib beside this one.
# nvidia.sh calls it. Files go into the folder OUT. The exit status is 1 where something is wrong; what is left out is said.
here=$(cd "$(dirname "$0")" && pwd) || exit 2
mkdir -p "${OUT:=$here/out}" || exit 2
OUT=$(cd "$OUT" && pwd)
cd "$here/tests" || exit 2
export PYTHONPATH="$here:$here/site" PYTHONDONTWRITEBYTECODE=1 HIPDNN_BACKEND_LIBRARY_PATH="${HIPDNN_BACKEND_LIBRARY_PATH:-$here/../lib}"
export HIPDNN_DISABLE_CACHE=1
status=0

if ! why=$(python3 -c 'import torch; assert torch.cuda.is_available(), "PyTorch finds no GPU"' 2>&1); then
  echo "left out: $(echo "$why" | tail -n 1)"
  exit 0
fi
timeout 60 python3 -m hipdnn || status=1

# Each in a process of its own: after a fault of the device nothing works in the one that made it.
tests() {
  name=$1 limit=$2
  shift 2
  began=$(date +%s)
  timeout "$limit" python3 -X faulthandler -m pytest -q -rxs -p no:cacheprovider --tb=short "$@" > "$OUT/python_$name.txt" 2>&1
  ended=$?
  [ "$ended" -eq 0 ] || status=1
  echo "$name: exit status $ended after $(($(date +%s) - began)) s: $(tail -n 1 "$OUT/python_$name.txt")"
  grep -E '^(FAILED|ERROR|execute |\{)' "$OUT/python_$name.txt" | cut -c1-300
  # What no engine takes, by reason.
  sed -n 's/^XFAIL [^ ]* - //p' "$OUT/python_$name.txt" | cut -c1-160 | sort | uniq -c | sort -rn | head -n 12
}
tests arrays 120 test_cuda.py -k "not test_methods"
tests methods 120 test_cuda.py -k test_methods
tests torch 200 test_cuda_torch.py

train() {
  echo "-- $*"
  timeout 100 python3 "$@" > "$OUT/training.txt" 2>&1 || { status=1; tail -n 5 "$OUT/training.txt"; }
  cat "$OUT/training.txt" >> "$OUT/python_training.txt"
  grep -e '^loss' -e '^a step' -e 'in PyTorch [0-9]' "$OUT/training.txt" | cut -c1-250
}
cd "$here" || exit 2
rm -f "$OUT/python_training.txt"
for more in "" --graph --compile; do
  train examples_python/train_resnet.py --device cuda --dtype float16 --images 128 --size 32 --steps 60 $more
  train examples_python/train_gpt.py --device cuda --dtype bfloat16 --size 512 --heads 8 --length 512 --texts 16 --steps 60 $more
done
rm -f "$OUT/training.txt"
exit "$status"
