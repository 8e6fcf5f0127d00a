/* SPDX-License-Identifier: MIT */

/*
 * How engines are ranked.
 *
 * Generated from src/ffi/heuristic_type.rs by `cargo xtask generate`.
 */

#ifndef HIPDNN_BACKEND_HEURISTIC_TYPE_H
#define HIPDNN_BACKEND_HEURISTIC_TYPE_H

#ifdef __cplusplus
extern "C" {
#endif

/// The mode of an engine heuristic.
typedef enum
{
    /// Every engine that can run the graph, in the library's order. The only mode.
    HIPDNN_HEUR_MODE_FALLBACK = 0,
} hipdnnBackendHeurMode_t;

#ifdef __cplusplus
}
#endif

#endif
