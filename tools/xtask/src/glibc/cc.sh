#!/bin/sh
# Links with zig for the glibc of HIPDNN_LINK_TARGET, with this system's unwinder.
for argument; do
    shift
    case $argument in
    -lgcc_s) argument=$HIPDNN_LINK_UNWINDER ;;
    esac
    set -- "$@" "$argument"
done
# That unwinder uses functions of a newer glibc; an older system has its own.
exec "$HIPDNN_LINK_PYTHON" -m ziglang cc -target "$HIPDNN_LINK_TARGET" -Wl,--allow-shlib-undefined "$@"
