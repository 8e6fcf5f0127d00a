#!/bin/sh
# Usage: build.sh OUTDIR    (needs g++, readelf, the HIP headers and the real libamdhip64.so.6)
# The real library only provides the names and versions of its functions: those missing in runtime/
# become stubs that report it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: build.sh OUTDIR}
real=${SOFTHIP_REAL:-$(g++ -print-file-name=libamdhip64.so.6)}
mkdir -p "$out/obj"
flags="-std=c++17 -O2 -g -fPIC -Wall -Wno-deprecated-declarations -Wno-array-bounds -Wno-dangling-pointer"

# Two files at a time; the list of those that failed is empty.
compile() { g++ $flags "$@" || touch "$out/obj/failed"; }
rm -f "$out"/obj/*
for file in "$here"/runtime/*.cpp; do
  compile -c "$file" -o "$out/obj/$(basename "$file" .cpp).o"
done &
for file in "$here"/emulator/*.cpp; do
  compile -march=native -ffp-contract=off -fno-strict-aliasing -fwrapv -c "$file" -o "$out/obj/emulator_$(basename "$file" .cpp).o"
done
wait
[ ! -e "$out/obj/failed" ]

readelf -W --dyn-syms "$real" |
  awk '$4 == "FUNC" && $7 != "UND" { split($8, n, "@+"); if (n[2] ~ /^hip_/ && n[1] ~ /^(__)?hip[A-Z]/) print n[1], n[2] }' |
  sort -u > "$out/obj/names"
nm --defined-only -g "$out"/obj/*.o | awk '$2 == "T" { print $3 }' | sort > "$out/obj/have"

{
  echo 'int softhip_missing(const char *);'
  awk 'NR == FNR { have[$1]; next } !($1 in have) && !seen[$1]++ { printf "int %s() { return softhip_missing(\"%s\"); }\n", $1, $1 }' \
    "$out/obj/have" "$out/obj/names"
} > "$out/obj/stubs.c"
gcc -std=gnu11 -O1 -fPIC -w -c "$out/obj/stubs.c" -o "$out/obj/stubs.o"

sort -k2V "$out/obj/names" | awk '
  $2 != v { if (v) { printf "}%s;\n", up; up = " " v } v = $2; printf "%s { global:\n", v }
  { printf "  %s;\n", $1 }
  END { printf "local: *; }%s;\n", up }' > "$out/obj/versions"
g++ -shared -Wl,-soname,libamdhip64.so.6 -Wl,--version-script="$out/obj/versions" \
  "$out"/obj/*.o -ldl -o "$out/libamdhip64.so.6"
ln -sf libamdhip64.so.6 "$out/libamdhip64.so"
echo "built $out/libamdhip64.so.6: $(wc -l < "$out/obj/names") functions, $(grep -c '^int hip\|^int __hip' "$out/obj/stubs.c") of them stubs"
