/* SPDX-License-Identifier: MIT */

/*
 * A host for one engine plugin, written from what is known of the plugin interface alone: it includes no header of this
 * project's and links none of its libraries.
 *
 *   plugin_host [--device] FILE GRAPH=COUNT...
 *
 * loads the plugin in FILE and, for each GRAPH ("convolution", "biased", which adds a bias to one, "earlier", which is that in the
 * layout of 2025, "pointwise", or "unmarked", whose result is virtual and bound), expects COUNT of its engines to compute it.
 * Each of these describes itself, makes a plan, executes it, and executes it again after the plan was saved and loaded; the
 * result is compared with plain loops. Where no engine is expected, a reason must come to the log. With --device the tensors
 * are in the memory of the HIP device and the work goes to a stream.
 */
#define _POSIX_C_SOURCE 200809L

#include "../flatbuffer_writer.h"
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

/* Graphs: float, at most four dimensions, without gaps */

enum { MOST_TENSORS = 8, MOST_ELEMENTS = 1024, MOST_ENGINES = 32 };
enum { FLOAT = 1, CROSS_CORRELATION = 2, POINTWISE = 2, CONVOLUTION_FWD = 5, ADD = 2, RELU_FWD = 34 };

typedef struct tensor {
    int64_t uid;
    int64_t dims[4];
    bool is_virtual, is_output;
    float values[MOST_ELEMENTS]; /* what goes in, or is expected to come out */
} tensor;

typedef struct graph {
    const char* name;
    tensor tensors[MOST_TENSORS];
    int tensor_count;
    flatbuffer builder;
    uint32_t nodes[4];
    uint32_t node_count;
    constant_data bytes;
} graph;

static size_t elements(const tensor* t) { return (size_t)(t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3]); }

static tensor* add_tensor(graph* g, int64_t n, int64_t c, int64_t h, int64_t w)
{
    tensor* t = &g->tensors[g->tensor_count++];
    const int64_t dims[4] = {n, c, h, w};
    memcpy(t->dims, dims, sizeof dims);
    t->uid = 100 + g->tensor_count;
    for (size_t i = 0; i < elements(t); i++) {
        t->values[i] = (float)((int)(i * 37 + (size_t)t->uid * 11) % 17 - 8) / 8.0f;
    }
    return t;
}

/* A node of a table that is finished, with the number of its kind; in 2025 it had no type to compute with before that. */
static void add_node(graph* g, int kind, uint32_t table)
{
    flatbuffer* fb = &g->builder;
    const uint32_t name = fb_text(fb, "node");
    const bool earlier = strcmp(g->name, "earlier") == 0;
    fb_begin(fb);
    fb_reference(fb, 0, name);
    fb_reference(fb, earlier ? 2 : 3, table);
    fb_byte(fb, 1, earlier ? kind : FLOAT);
    if (!earlier) {
        fb_byte(fb, 2, kind);
    }
    g->nodes[g->node_count++] = fb_end(fb);
}

static void add_pointwise(graph* g, int mode, const tensor* a, const tensor* b, const tensor* out)
{
    flatbuffer* fb = &g->builder;
    fb_begin(fb);
    fb_long(fb, 5, a->uid);
    if (b != NULL) {
        fb_long(fb, 6, b->uid);
    }
    fb_long(fb, 8, out->uid);
    fb_byte(fb, 0, mode);
    add_node(g, POINTWISE, fb_end(fb));
}

static void add_convolution(graph* g, const tensor* x, const tensor* w, const tensor* y, int64_t padding)
{
    flatbuffer* fb = &g->builder;
    const int64_t paddings[2] = {padding, padding}, ones[2] = {1, 1};
    const uint32_t before = fb_longs(fb, 2, paddings), after = fb_longs(fb, 2, paddings);
    const uint32_t stride = fb_longs(fb, 2, ones), dilation = fb_longs(fb, 2, ones);
    fb_begin(fb);
    fb_long(fb, 0, x->uid);
    fb_long(fb, 1, w->uid);
    fb_long(fb, 2, y->uid);
    fb_reference(fb, 3, before);
    fb_reference(fb, 4, after);
    fb_reference(fb, 5, stride);
    fb_reference(fb, 6, dilation);
    fb_byte(fb, 7, CROSS_CORRELATION);
    add_node(g, CONVOLUTION_FWD, fb_end(fb));
}

static void finish(graph* g)
{
    flatbuffer* fb = &g->builder;
    uint32_t tensors[MOST_TENSORS];
    for (int i = 0; i < g->tensor_count; i++) {
        const tensor* t = &g->tensors[i];
        const int64_t strides[4] = {t->dims[1] * t->dims[2] * t->dims[3], t->dims[2] * t->dims[3], t->dims[3], 1};
        const uint32_t stride = fb_longs(fb, 4, strides), dims = fb_longs(fb, 4, t->dims);
        fb_begin(fb);
        fb_long(fb, 0, t->uid);
        fb_reference(fb, 3, stride);
        fb_reference(fb, 4, dims);
        fb_byte(fb, 2, FLOAT);
        fb_byte(fb, 5, t->is_virtual);
        tensors[i] = fb_end(fb);
    }
    const uint32_t all_tensors = fb_offsets(fb, (uint32_t)g->tensor_count, tensors);
    const uint32_t all_nodes = fb_offsets(fb, g->node_count, g->nodes);
    const uint32_t name = fb_text(fb, g->name);
    fb_begin(fb);
    fb_reference(fb, 0, name);
    fb_reference(fb, 4, all_tensors);
    fb_reference(fb, 5, all_nodes);
    fb_byte(fb, 1, FLOAT);
    fb_byte(fb, 2, FLOAT);
    fb_byte(fb, 3, FLOAT);
    g->bytes.ptr = fb_finish(fb, fb_end(fb), &g->bytes.size);
}

/* relu(a + b), with the sum as a virtual tensor; the result may be one, too, which is bound all the same */
static void make_pointwise(graph* g, bool unmarked)
{
    const tensor* a = add_tensor(g, 2, 3, 4, 5);
    const tensor* b = add_tensor(g, 2, 3, 4, 5);
    tensor* sum = add_tensor(g, 2, 3, 4, 5);
    tensor* y = add_tensor(g, 2, 3, 4, 5);
    sum->is_virtual = true;
    y->is_output = true;
    y->is_virtual = unmarked;
    for (size_t i = 0; i < elements(y); i++) {
        y->values[i] = fmaxf(a->values[i] + b->values[i], 0.0f);
    }
    add_pointwise(g, ADD, a, b, sum);
    add_pointwise(g, RELU_FWD, sum, NULL, y);
    finish(g);
}

/* A 3x3 convolution with zero padding, optionally with a bias */
static void make_convolution(graph* g, bool biased)
{
    enum { N = 2, C = 3, K = 4, H = 6, W = 5 };
    const tensor* x = add_tensor(g, N, C, H, W);
    const tensor* w = add_tensor(g, K, C, 3, 3);
    const tensor* bias = biased ? add_tensor(g, 1, K, 1, 1) : NULL;
    tensor* product = biased ? add_tensor(g, N, K, H, W) : NULL;
    tensor* y = add_tensor(g, N, K, H, W);
    y->is_output = true;
    for (int i = 0; i < N * K * H * W; i++) {
        const int n = i / (K * H * W), k = i / (H * W) % K, row = i / W % H, column = i % W;
        float sum = biased ? bias->values[k] : 0.0f;
        for (int j = 0; j < C * 9; j++) {
            const int c = j / 9, h = row + j / 3 % 3 - 1, v = column + j % 3 - 1;
            if (h >= 0 && h < H && v >= 0 && v < W) {
                sum += x->values[((n * C + c) * H + h) * W + v] * w->values[k * C * 9 + j];
            }
        }
        y->values[i] = sum;
    }
    add_convolution(g, x, w, biased ? product : y, 1);
    if (biased) {
        product->is_virtual = true;
        add_pointwise(g, ADD, product, bias, y);
    }
    finish(g);
}

/* Execution */

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
        if (!t->is_virtual || t->is_output) {
            const size_t size = elements(t) * sizeof(float);
            buffers[count].uid = t->uid;
            buffers[count].ptr = memory_new(size);
            if (!t->is_output) {
                memory_write(buffers[count].ptr, t->values, size);
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
            memory_read(values, buffers[i].ptr, elements(t) * sizeof(float));
            for (size_t j = 0; j < elements(t); j++) {
                /* Written so that a NaN fails. */
                if (!(fabsf(values[j] - t->values[j]) <= 1e-4f)) {
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

static void run_graph(handle handle, const char* name, long expected)
{
    static graph g;
    memset(&g, 0, sizeof g);
    g.name = name;
    if (strcmp(name, "convolution") == 0) {
        make_convolution(&g, false);
    } else if (strcmp(name, "biased") == 0 || strcmp(name, "earlier") == 0) {
        make_convolution(&g, true);
    } else if (strcmp(name, "pointwise") == 0) {
        make_pointwise(&g, false);
    } else if (strcmp(name, "unmarked") == 0) {
        make_pointwise(&g, true);
    } else {
        check(false, "a graph is convolution, biased, earlier, pointwise or unmarked");
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
            if (CHECK(sscanf(*word, "%31[a-z]=%ld", name, &expected) == 2)) {
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
