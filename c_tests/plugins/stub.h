/* SPDX-License-Identifier: MIT */

/*
 * Shared by the files of the stub plugin. See stub_plugin.c.
 */

#ifndef STUB_H
#define STUB_H

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>

/* A plugin of November 2025 includes the headers under their older names. */
#ifdef OLDER_NAMES
#include <hipdnn_sdk/plugin/EnginePluginApi.h>
#include <hipdnn_sdk/plugin/PluginApi.h>
#else
#include <hipdnn_plugin_sdk/EnginePluginApi.h>
#include <hipdnn_plugin_sdk/engine_api_version.h>
#endif

#define OK HIPDNN_PLUGIN_STATUS_SUCCESS

/* Appends a line to the log, if there is one. */
void record(const char* format, ...);

/* Describes a graph: the layout, the numbers of tensors and nodes, and the operation numbers. */
const char* describe_graph(const hipdnnPluginConstData_t* graph, char* text, size_t room);

/* The engine that a configuration chooses. */
int64_t chosen(const hipdnnPluginConstData_t* config);

/* The knobs that a configuration sets, after a blank; empty if none. */
const char* describe_knobs(const hipdnnPluginConstData_t* config, char* text, size_t room);

/* The details of an engine, to be freed; null if out of memory. */
unsigned char* details_of(int64_t engine_id, size_t* size);

/* Returns a status; a failure has a text. */
hipdnnPluginStatus_t answer(int status, const char* function);

/* The serial numbers of handles and contexts. */
unsigned serial_of_handle(hipdnnEnginePluginHandle_t handle);
unsigned serial_of_context(hipdnnEnginePluginExecutionContext_t context);

/* The engine of a context. */
int64_t engine_of_context(hipdnnEnginePluginExecutionContext_t context);

/* A new context of an engine, null if out of memory. */
hipdnnEnginePluginExecutionContext_t new_context(int64_t engine);

/* Tells the host of a step, if it wants to know. */
void tell_step(void);

/* Sends the line of LOGS to the host, if there is one. */
void log_reason(void);

#endif
