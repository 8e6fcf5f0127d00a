#!/bin/sh
# build.sh CLONE OUT [JOBS]: compiles the C++ samples of a clone of cudnn-frontend with our headers, in OUT/samples_cpu and OUT/samples_gpu.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
clone=$1 out=$2
mkdir -p "$out/o"
export here root clone out
export flags="-std=c++17 -O0 -w -I$out/o -I$here -I$root/bindings/cpp/include/hipdnn/compat -I$root/bindings/cpp/include -I$root/include -I$root/include/hipdnn/backend"
[ -f "$out/o/all.h.gch" ] || { cp "$here/all.h" "$out/o/all.h" && g++ $flags -x c++-header "$out/o/all.h" -o "$out/o/all.h.gch"; } || exit 1
for part in main host gpu; do g++ -std=c++17 -O1 -I"$here" -c "$here/$part.cpp" -o "$out/o/$part.part" || exit 1; done
cd "$clone/samples/cpp" || exit 1
find . -name '*.cpp' | sort | xargs -P "${3:-2}" -I{} sh -c '
    object=$out/o/$(echo {} | tr -d . | tr / _).o
    [ -f "$object" ] && exit 0
    g++ $flags -include "$out/o/all.h" -c {} -o "$object" 2> "$object.log" && echo "compiles {}" || echo "fails {}: $(grep -m1 error "$object.log")"'
for device in cpu gpu; do
    part=host; [ $device = gpu ] && part=gpu
    g++ "$out"/o/*.o "$out/o/main.part" "$out/o/$part.part" -o "$out/samples_$device" -L"${LIB:-$root/target/stage/lib}" -lhipdnn_backend -ldl -lpthread || exit 1
done
