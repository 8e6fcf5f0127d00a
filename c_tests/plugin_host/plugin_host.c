/* SPDX-License-Identifier: MIT */

/*
 * A host for one engine plugin, written from what is known of the plugin interface alone: it includes no header of this
 * project's and links none of its libraries.
 *
 *   plugin_host [--device] FILE GRAPH=COUNT...
 *
 * loads the plugin in FILE and, for each GRAPH ("convolution", "biased", which adds a bias to one, "earlier", which is that in the
 * layout of 2025, "pointwise", "unmarked", whose result is virtual and bound, or one of batchnorm.h), expects COUNT of its engines
 * to compute it.
 * Each of these describes itself, makes a plan, executes it, and executes it again after the plan was saved and loaded; the
 * result is compared with plain loops. Where no engine is expected, a reason must come to the log. With --device the tensors
 * are in the memory of the HIP device and the work goes to a stream.
 */
#define _POSIX_C_SOURCE 200809L

#include "batchnorm.h"
#include "graphs.h"
#include "interface.h"
#include "memory.h"

#include <math.h>
#include <stdbool.h>

/* Checks */

static int failures = 0;
/* The plugin, for its error text. */
static interface plugin;

static const char* last_error(void)
{
    const char* text = NULL;
    plugin.GetLastErrorString(&text);
    return text != NULL ? text : "(null)";
}

static bool check(bool passed, const char* what)
{
    if (!passed) {
        fprintf(stderr, "FAILED: %s\n", what);
        failures++;
    }
    return passed;
}

static bool check_call(status got, const char* what)
{
    if (got != SUCCESS) {
        fprintf(stderr, "FAILED: %s answers %d: %s\n", what, (int)got, last_error());
        failures++;
    }
    return got == SUCCESS;
}

#define CALL(call) check_call((call), #call)
#define CHECK(condition) check((condition), #condition)

/* A status other than success, with a text that says why. */
static void check_refused(status got, const char* what)
{
    if (got == SUCCESS || strlen(last_error()) == 0) {
        fprintf(stderr, "FAILED: %s answers %d with the text \"%s\"\n", what, (int)got, last_error());
        failures++;
    }
}

/* The log */

static int lines = 0;

static void log_line(severity severity, const char* message)
{
    static const char* const names[] = {"info", "warn", "error", "fatal"};
    const bool known = severity >= 0 && severity < 4;
    printf("  %s: %s\n", known ? names[severity] : "log", message);
    lines++;
    check(known && message[0] != '\0' && strchr(message, '\n') == NULL, "a log line is one line of a known severity");
}

/* Execution */

enum { MOST_ENGINES = 32 };

/* With a workspace as large as the plan asks for, or with a null pointer. */
static void execute_in(handle handle, context context, const graph* g, bool with_workspace)
{
    device_buffer buffers[MOST_TENSORS];
    uint32_t count = 0;
    size_t workspace_size = 0;
    if (!CALL(plugin.GetWorkspaceSizeFromExecutionContext(handle, context, &workspace_size))) {
        return;
    }
    for (int i = 0; i < g->tensor_count; i++) {
        const tensor* t = &g->tensors[i];
        if ((!t->is_virtual || t->is_output) && !t->is_scalar) {
            const size_t size = elements(t) * element_size(t);
            unsigned char packed[sizeof t->values];
            buffers[count].uid = t->uid;
            buffers[count].ptr = memory_new(size);
            if (!t->is_output) {
                pack(t, packed);
                memory_write(buffers[count].ptr, packed, size);
            }
            count++;
        }
    }
    void* const workspace = with_workspace && workspace_size > 0 ? memory_new(workspace_size) : NULL;
    if (CALL(plugin.ExecuteOpGraph(handle, context, workspace, buffers, count))) {
        memory_wait();
        for (uint32_t i = 0; i < count; i++) {
            const tensor* t = g->tensors;
            while (t->uid != buffers[i].uid) {
                t++;
            }
            float values[MOST_ELEMENTS];
            unsigned char packed[sizeof values];
            memory_read(packed, buffers[i].ptr, elements(t) * element_size(t));
            unpack(t, packed, values);
            const float tolerance = t->stored == FLOAT ? 1e-4f : t->stored == HALF ? 4e-3f : 3e-2f;
            for (size_t j = 0; j < elements(t); j++) {
                /* Written so that a NaN fails. */
                if (!(fabsf(values[j] - t->values[j]) <= tolerance * fmaxf(1.0f, fabsf(t->values[j])))) {
                    fprintf(stderr, "FAILED: tensor %" PRId64 "[%zu] is %g, expected %g\n", t->uid, j, values[j],
                            t->values[j]);
                    failures++;
                    break;
                }
            }
        }
    }
    /* Without its tensors nothing can be executed, and nothing may be touched. */
    check_refused(plugin.ExecuteOpGraph(handle, context, workspace, NULL, 0), "an execution without tensors");
    for (uint32_t i = 0; i < count; i++) {
        memory_free(buffers[i].ptr);
    }
    if (workspace != NULL) {
        memory_free(workspace);
    }
}

static void execute(handle handle, context context, const graph* g)
{
    execute_in(handle, context, g, true);
    execute_in(handle, context, g, false);
    execute_in(handle, context, g, false);
}

/* A plan that goes through bytes, where the plugin can do that. */
static void save_and_execute(handle handle, int64_t engine, context context, const graph* g)
{
    constant_data saved = {NULL, 0};
    if (plugin.SerializeExecutionContextWithEngineId != NULL) {
        if (!CALL(plugin.SerializeExecutionContextWithEngineId(handle, engine, context, &saved))) {
            return;
        }
    } else if (plugin.SerializeExecutionContext != NULL) {
        if (!CALL(plugin.SerializeExecutionContext(handle, context, &saved))) {
            return;
        }
    } else {
        return;
    }
    struct context_* loaded = NULL;
    if (CHECK(saved.ptr != NULL && saved.size > 0) &&
        CALL(plugin.CreateExecutionContextFromSerialized(handle, &saved, &loaded))) {
        execute(handle, loaded, g);
        CALL(plugin.DestroyExecutionContext(handle, loaded));
    }
    CALL(plugin.DestroySerializedExecutionContext(handle, &saved));
}

/* The first field of a table that is the root: the engine id of details. */
static int64_t first_long(constant_data bytes)
{
    const unsigned char* const start = bytes.ptr;
    uint32_t root;
    int32_t back;
    uint16_t slot;
    int64_t value;
    memcpy(&root, start, sizeof root);
    memcpy(&back, start + root, sizeof back);
    memcpy(&slot, start + root - back + 4, sizeof slot);
    memcpy(&value, start + root + slot, sizeof value);
    return value;
}

static void run_engine(handle handle, int64_t engine, const graph* g)
{
    constant_data details = {NULL, 0};
    if (CALL(plugin.GetEngineDetails(handle, engine, &g->bytes, &details))) {
        CHECK(details.ptr != NULL && details.size > 0 && first_long(details) == engine);
        CALL(plugin.DestroyEngineDetails(handle, &details));
    }
    static flatbuffer fb;
    memset(&fb, 0, sizeof fb);
    fb_begin(&fb);
    fb_long(&fb, 0, engine);
    constant_data config;
    config.ptr = fb_finish(&fb, fb_end(&fb), &config.size);
    size_t workspace_size = 0;
    CALL(plugin.GetWorkspaceSize(handle, &config, &g->bytes, &workspace_size));
    struct context_* context = NULL;
    if (CALL(plugin.CreateExecutionContext(handle, &config, &g->bytes, &context))) {
        execute(handle, context, g);
        save_and_execute(handle, engine, context, g);
        CALL(plugin.DestroyExecutionContext(handle, context));
    }
}

/* Makes the graph of this name; returns false if no graph has it. */
static bool make(graph* g, const char* name)
{
    memset(g, 0, sizeof *g);
    g->name = name;
    g->is_earlier = strcmp(name, "earlier") == 0;
    if (strcmp(name, "convolution") == 0) {
        make_convolution(g, false);
    } else if (strcmp(name, "biased") == 0 || g->is_earlier) {
        make_convolution(g, true);
    } else if (strcmp(name, "pointwise") == 0) {
        make_pointwise(g, false);
    } else if (strcmp(name, "unmarked") == 0) {
        make_pointwise(g, true);
    } else {
        return make_batchnorm(g, name);
    }
    return true;
}

static void run_graph(handle handle, const char* name, long expected)
{
    static graph g;
    if (!make(&g, name)) {
        check(false, "a graph is one of those named above");
        return;
    }
    int64_t engines[MOST_ENGINES];
    uint32_t count = 0;
    lines = 0;
    printf("%s\n", name);
    if (!CALL(plugin.GetApplicableEngineIds(handle, &g.bytes, engines, MOST_ENGINES, &count))) {
        return;
    }
    if ((long)count != expected) {
        fprintf(stderr, "FAILED: %u engines compute %s, expected %ld\n", count, name, expected);
        failures++;
    }
    check(expected > 0 || lines > 0, "where no engine applies, the log says why");
    for (uint32_t i = 0; i < count; i++) {
        const char* engine = "without a name";
        if (plugin.GetEngineName != NULL) {
            CALL(plugin.GetEngineName(engines[i], &engine));
        }
        printf("  computed by %s\n", engine);
        run_engine(handle, engines[i], &g);
    }
}

/* Loading */

/* What every host looks at before it takes a plugin. */
static bool accept(void)
{
    const char *name = NULL, *version = NULL, *api = "1.0.0";
    int kind = -1;
    unsigned major = 0, minor = 0, patch = 0;
    CALL(plugin.GetName(&name));
    CALL(plugin.GetVersion(&version));
    CALL(plugin.GetType(&kind));
    if (plugin.GetApiVersion != NULL) {
        CALL(plugin.GetApiVersion(&api));
    }
    if (failures != 0) {
        return false;
    }
    printf("plugin %s %s, interface %s\n", name, version, api);
    CHECK(name[0] != '\0' && version[0] != '\0');
    check(kind == 1, "it is an engine plugin");
    check(sscanf(api, "%u.%u.%u", &major, &minor, &patch) == 3 && major == 1, "its interface is of major version 1");

    int64_t ids[MOST_ENGINES];
    uint32_t count = 0, again = 0;
    CALL(plugin.GetAllEngineIds(NULL, 0, &count));
    CHECK(count > 0 && count <= MOST_ENGINES);
    if (failures != 0) {
        return false;
    }
    CALL(plugin.GetAllEngineIds(ids, count, &again));
    check(again == count, "the number of engines stays");
    for (uint32_t i = 0; i < count && plugin.GetEngineName != NULL; i++) {
        const char* engine = NULL;
        if (CALL(plugin.GetEngineName(ids[i], &engine))) {
            uint64_t hash = UINT64_C(0xcbf29ce484222325);
            for (const char* c = engine; *c != '\0'; c++) {
                hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
            }
            check((uint64_t)ids[i] == hash, "the id of an engine is the hash of its name");
        }
    }
    return failures == 0;
}

int main(int argument_count, char** arguments)
{
    const bool on_device = argument_count > 1 && strcmp(arguments[1], "--device") == 0;
    char** const rest = arguments + (on_device ? 2 : 1);
    if (argument_count - (on_device ? 2 : 1) < 2) {
        fprintf(stderr, "usage: plugin_host [--device] FILE GRAPH=COUNT...\n");
        return 2;
    }
    void* const library = dlopen(rest[0], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "FAILED: %s\n", dlerror());
        return 1;
    }
    if (!interface_read(&plugin, library) || !accept()) {
        return 1;
    }
    if (plugin.SetLoggingCallback != NULL) {
        CALL(plugin.SetLoggingCallback(log_line));
    }
    if (plugin.SetLogLevel != NULL) {
        CALL(plugin.SetLogLevel(0));
    }
    memory_begin(on_device);
    struct handle_* handle = NULL;
    if (CALL(plugin.Create(&handle)) && CHECK(handle != NULL)) {
        CALL(plugin.SetStream(handle, memory_stream()));
        for (char** word = rest + 1; *word != NULL; word++) {
            char name[32] = "";
            long expected = 0;
            if (CHECK(sscanf(*word, "%31[a-z0-9-]=%ld", name, &expected) == 2)) {
                run_graph(handle, name, expected);
            }
        }
        check_refused(plugin.GetApplicableEngineIds(handle, NULL, NULL, 0, NULL), "a question without a graph");
        CALL(plugin.Destroy(handle));
    }
    if (plugin.SetLoggingCallback != NULL) {
        CALL(plugin.SetLoggingCallback(NULL));
    }
    memory_end();
    CHECK(dlclose(library) == 0);
    printf("%d checks failed\n", failures);
    return failures == 0 ? 0 : 1;
}
