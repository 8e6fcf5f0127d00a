#!/bin/sh
# Links for the glibc of HIPDNN_LINK_TARGET by zig, with the unwinder of this system's programs.
for argument; do
    shift
    case $argument in
    -lgcc_s) argument=$HIPDNN_LINK_UNWINDER ;;
    esac
    set -- "$@" "$argument"
done
# That unwinder is this system's, and names functions of a newer glibc; an older system has its own.
exec "$HIPDNN_LINK_PYTHON" -m ziglang cc -target "$HIPDNN_LINK_TARGET" -Wl,--allow-shlib-undefined "$@"
