#!/bin/sh
# Runs what `cargo xtask nvidia-test` packed, on a machine with an NVIDIA GPU: each engine against the reference, some of that
# under compute-sanitizer, and times against PyTorch. The arguments are words that the names of the cases to run contain.
# Files go into the folder OUT, else into out beside this script. The exit status is 1 where something is wrong, 2 where nothing ran.
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
bin/hipdnn --backend "$backend" device

parts=$(nproc)
[ "$parts" -le 14 ] || parts=14
echo "== each engine against the reference, in $parts processes"
rm -f "$OUT"/part*
for part in $(seq "$parts"); do
  {
    timeout 600 bin/amd-test "$backend" --part="$part/$parts" "$@" > "$OUT/part$part.txt" 2> "$OUT/part$part.log"
    echo "$?" > "$OUT/part$part.status"
  } &
done
wait
status=0
for part in $(seq "$parts"); do
  ended=$(cat "$OUT/part$part.status")
  [ "$ended" -eq 0 ] || status=1
  # 1 is a wrong result, which is told below.
  [ "$ended" -le 1 ] || echo "part $part: exit status $ended: $(tail -n 1 "$OUT/part$part.log")"
done
passed=' error [^ ]*  *[0-9.]* s$'
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

echo "== memcheck"
if command -v compute-sanitizer > /dev/null; then
  timeout 600 compute-sanitizer --tool memcheck --error-exitcode 1 bin/amd-test "$backend" "pointwise modes" "sdpa Causal [1" \
    "CUBLASLT_ENGINE: matmul, bias" "batchnorm training, kept 3 half" > "$OUT/memcheck.txt" 2>&1 || status=1
  grep -e ' FAILED: ' -e '^[0-9]* passed' -e 'ERROR SUMMARY' "$OUT/memcheck.txt"
else
  echo "left out: compute-sanitizer is not installed"
fi

echo "== a network trained on the device, and the parts of its graphs"
# The parts are told by graphs that the program writes down.
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

echo "== times of the example graphs"
for graph in examples_graphs/*.json; do
  bin/hipdnn --backend "$backend" bench "$graph" --no-ranking || true
done

echo "== times against PyTorch"
if why=$(python3 -c 'import torch; assert torch.cuda.is_available(), "PyTorch finds no GPU"' 2>&1); then
  if ! timeout 600 python3 nvidia_bench.py "$backend" "$OUT/figures.csv" 2> "$OUT/figures.log"; then
    status=1
    grep -v '^\[' "$OUT/figures.log" | tail -n 5
  fi
else
  echo "left out: $(echo "$why" | tail -n 1)"
fi

echo "== Python: arrays on the GPU, PyTorch's functions, training beside PyTorch"
sh python/run.sh || status=1
exit $status
