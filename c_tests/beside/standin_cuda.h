/* SPDX-License-Identifier: MIT */

/* What the stand-ins for NVIDIA's libraries have in common. */
#ifndef STANDIN_CUDA_H
#define STANDIN_CUDA_H

#include <stddef.h>
#include <stdint.h>

/* Work that reads and writes device memory. The data is its own copy of what was queued. */
typedef void (*standin_work)(void* data);

/* Puts work on a stream: it is done at once, or becomes part of the graph that is captured. Answers as the driver does. */
int standin_cuda_queue(void* stream, standin_work work, const void* data, size_t size);

/* How many captured graphs were started. */
size_t standin_cuda_graph_launches(void);

#endif
