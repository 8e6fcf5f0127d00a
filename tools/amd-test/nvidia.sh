#!/bin/sh
# Runs what `cargo xtask nvidia-test` packed, on a machine with an NVIDIA GPU: each engine against the reference, then times.
# The arguments are words that the names of the cases to run contain.
cd "$(dirname "$0")" || exit 2
backend=$PWD/lib/libhipdnn_backend.so
export HIPDNN_DISABLE_CACHE=1
bin/hipdnn --backend "$backend" device
bin/amd-test "$backend" "$@"
status=$?
[ $status -le 1 ] || exit $status
if command -v compute-sanitizer > /dev/null; then
  compute-sanitizer --tool memcheck --error-exitcode 1 bin/amd-test "$backend" pointwise || status=1
else
  echo "left out: compute-sanitizer is not installed"
fi
for graph in examples_graphs/*.json; do
  bin/hipdnn --backend "$backend" bench "$graph" --no-ranking || true
done
exit $status
