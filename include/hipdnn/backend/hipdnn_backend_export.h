/* SPDX-License-Identifier: MIT */

/* How the functions of the library are declared. Written by hand. */

#ifndef HIPDNN_BACKEND_EXPORT_H
#define HIPDNN_BACKEND_EXPORT_H

/* C has no empty file, and this header declares nothing of its own. */
#include <stddef.h>

#ifdef HIPDNN_BACKEND_STATIC_DEFINE
#define HIPDNN_BACKEND_EXPORT
#define HIPDNN_BACKEND_NO_EXPORT
#elif defined(_WIN32)
#define HIPDNN_BACKEND_EXPORT __declspec(dllimport)
#define HIPDNN_BACKEND_NO_EXPORT
#else
#define HIPDNN_BACKEND_EXPORT __attribute__((visibility("default")))
#define HIPDNN_BACKEND_NO_EXPORT __attribute__((visibility("hidden")))
#endif

#ifdef _WIN32
#define HIPDNN_BACKEND_DEPRECATED __declspec(deprecated)
#else
#define HIPDNN_BACKEND_DEPRECATED __attribute__((__deprecated__))
#endif

#define HIPDNN_BACKEND_DEPRECATED_EXPORT HIPDNN_BACKEND_EXPORT HIPDNN_BACKEND_DEPRECATED
#define HIPDNN_BACKEND_DEPRECATED_NO_EXPORT HIPDNN_BACKEND_NO_EXPORT HIPDNN_BACKEND_DEPRECATED

#endif
