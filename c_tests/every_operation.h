/* SPDX-License-Identifier: MIT */

/* A graph of every operation in several types, planned and executed by every engine that applies. */
#ifndef EVERY_OPERATION_H
#define EVERY_OPERATION_H

#include "json_text.h"

enum { TEXT = 8 << 10, MOST_TENSORS = 16 };

typedef struct {
    const char* type;
    const char* fields;
    /* uid=dims; an i after the dims makes it a tensor of int32, an e a small number in the graph, an s one of fp8_e8m0 */
    const char* tensors;
} row;

#define UIDS(a) "_tensor_uid\":" #a
#define CONVOLUTION                                                                                                    \
    "\"parameters\":{\"conv_mode\":\"CROSS_CORRELATION\",\"pre_padding\":[1,1],\"post_padding\":[1,1],"                \
    "\"stride\":[1,1],\"dilation\":[1,1]}"
#define WINDOW                                                                                                         \
    "\"pre_padding\":[0,0],\"post_padding\":[0,0],\"stride\":[2,2],\"window\":[2,2],\"padding_mode\":\"neg_inf_pad\""

static const row ROWS[] = {
    {"ConvolutionFwdAttributes", "\"inputs\":{\"x" UIDS(1) ",\"w" UIDS(2) "},\"outputs\":{\"y" UIDS(3) "}," CONVOLUTION,
     "1=16,32,6,6 2=32,32,3,3 3=16,32,6,6"},
    {"ConvolutionFwdAttributes", "\"inputs\":{\"x" UIDS(1) ",\"w" UIDS(2) "},\"outputs\":{\"y" UIDS(3) "}," CONVOLUTION,
     "1=2,32,14,14 2=32,1,3,3 3=2,32,14,14"},
    {"ConvolutionBwdAttributes",
     "\"inputs\":{\"dy" UIDS(1) ",\"w" UIDS(2) "},\"outputs\":{\"dx" UIDS(3) "}," CONVOLUTION,
     "1=16,32,6,6 2=32,32,3,3 3=16,32,6,6"},
    {"ConvolutionWrwAttributes",
     "\"inputs\":{\"x" UIDS(1) ",\"dy" UIDS(2) "},\"outputs\":{\"dw" UIDS(3) "}," CONVOLUTION,
     "1=2,32,14,14 2=2,32,14,14 3=32,32,3,3"},
    {"PointwiseAttributes",
     "\"inputs\":{\"operation\":\"add\",\"in_0" UIDS(1) ",\"in_1" UIDS(2) "},\"outputs\":{\"out_0" UIDS(3) "}",
     "1=4,5,6 2=1,5,1 3=4,5,6"},
    {"BatchnormAttributes",
     "\"inputs\":{\"x" UIDS(1) ",\"scale" UIDS(2) ",\"bias" UIDS(3) ",\"epsilon" UIDS(4) "},\"outputs\":{\"y" UIDS(
         5) ",\"mean" UIDS(6) ",\"inv_variance" UIDS(7) "}",
     "1=4,8,5,5 2=1,8,1,1 3=1,8,1,1 4=1e 5=4,8,5,5 6=1,8,1,1 7=1,8,1,1"},
    {"BatchnormBackwardAttributes",
     "\"inputs\":{\"dy" UIDS(1) ",\"x" UIDS(2) ",\"scale" UIDS(3) "},\"outputs\":{\"dx" UIDS(4) ",\"dscale" UIDS(
         5) ",\"dbias" UIDS(6) "}",
     "1=4,8,5,5 2=4,8,5,5 3=1,8,1,1 4=4,8,5,5 5=1,8,1,1 6=1,8,1,1"},
    {"BatchnormInferenceAttributes",
     "\"inputs\":{\"x" UIDS(1) ",\"mean" UIDS(2) ",\"inv_variance" UIDS(3) ",\"scale" UIDS(4) ",\"bias" UIDS(
         5) "},\"outputs\":{\"y" UIDS(6) "}",
     "1=4,8,5,5 2=1,8,1,1 3=1,8,1,1 4=1,8,1,1 5=1,8,1,1 6=4,8,5,5"},
    {"BatchnormInferenceAttributesVarianceExt",
     "\"inputs\":{\"x" UIDS(1) ",\"mean" UIDS(2) ",\"variance" UIDS(3) ",\"scale" UIDS(4) ",\"bias" UIDS(
         5) ",\"epsilon" UIDS(7) "},\"outputs\":{\"y" UIDS(6) "}",
     "1=4,8,5,5 2=1,8,1,1 3=1,8,1,1 4=1,8,1,1 5=1,8,1,1 6=4,8,5,5 7=1e"},
    {"MatmulAttributes", "\"inputs\":{\"a" UIDS(1) ",\"b" UIDS(2) "},\"outputs\":{\"c" UIDS(3) "}",
     "1=2,33,40 2=2,40,50 3=2,33,50"},
    {"LayernormAttributes",
     "\"inputs\":{\"x" UIDS(1) ",\"scale" UIDS(2) ",\"bias" UIDS(3) ",\"epsilon" UIDS(4) "},\"outputs\":{\"y" UIDS(
         5) ",\"mean" UIDS(6) ",\"inv_variance" UIDS(7) "},\"normalized_dim_count\":1",
     "1=6,10,64 2=1,1,64 3=1,1,64 4=1e 5=6,10,64 6=6,10,1 7=6,10,1"},
    {"LayernormBackwardAttributes",
     "\"inputs\":{\"dy" UIDS(1) ",\"x" UIDS(2) ",\"scale" UIDS(3) ",\"mean" UIDS(4) ",\"inv_variance" UIDS(
         5) "},\"outputs\":{\"dx" UIDS(6) ",\"dscale" UIDS(7) ",\"dbias" UIDS(8) "},\"normalized_dim_count\":1",
     "1=6,10,64 2=6,10,64 3=1,1,64 4=6,10,1 5=6,10,1 6=6,10,64 7=1,1,64 8=1,1,64"},
    {"RMSNormAttributes",
     "\"inputs\":{\"x" UIDS(1) ",\"scale" UIDS(2) ",\"epsilon" UIDS(3) "},\"outputs\":{\"y" UIDS(4) ",\"inv_rms" UIDS(
         5) "}",
     "1=6,10,64 2=1,1,64 3=1e 4=6,10,64 5=6,10,1"},
    {"RMSNormBackwardAttributes",
     "\"inputs\":{\"dy" UIDS(1) ",\"x" UIDS(2) ",\"scale" UIDS(3) ",\"inv_rms" UIDS(4) "},\"outputs\":{\"dx" UIDS(
         5) ",\"dscale" UIDS(6) "}",
     "1=6,10,64 2=6,10,64 3=1,1,64 4=6,10,1 5=6,10,64 6=1,1,64"},
    {"SdpaAttributes",
     "\"inputs\":{\"q" UIDS(1) ",\"k" UIDS(2) ",\"v" UIDS(3) ",\"seq_len_q" UIDS(6) ",\"seq_len_kv" UIDS(
         7) "},\"outputs\":{\"o" UIDS(4) ",\"stats" UIDS(5) "},\"attributes\":{\"padding_mask\":true,\"attn_scale_"
                                                            "value\":0.125}",
     "1=2,4,32,32 2=2,2,48,32 3=2,2,48,32 4=2,4,32,32 5=2,4,32,1 6=2,1,1,1i 7=2,1,1,1i"},
    {"SdpaBackwardAttributes",
     "\"inputs\":{\"q" UIDS(1) ",\"k" UIDS(2) ",\"v" UIDS(3) ",\"o" UIDS(4) ",\"do" UIDS(5) ",\"stats" UIDS(
         6) "},\"outputs\":{\"dq" UIDS(7) ",\"dk" UIDS(8) ",\"dv" UIDS(9) "},\"parameters\":{\"attn_scale_value\":0."
                                                                          "125}",
     "1=2,4,32,32 2=2,2,48,32 3=2,2,48,32 4=2,4,32,32 5=2,4,32,32 6=2,4,32,1 7=2,4,32,32 8=2,2,48,32 9=2,2,48,32"},
    {"BlockScaleQuantizeAttributes",
     "\"inputs\":{\"x" UIDS(1) "},\"outputs\":{\"y" UIDS(2) ",\"scale" UIDS(3) "},\"block_size\":32",
     "1=4,64 2=4,64 3=4,2s"},
    {"BlockScaleDequantizeAttributes",
     "\"inputs\":{\"x" UIDS(1) ",\"scale" UIDS(2) "},\"outputs\":{\"y" UIDS(3) "},\"block_size\":[32]",
     "1=4,64 2=4,2s 3=4,64"},
    {"MoeGroupedMatmulAttributes",
     "\"inputs\":{\"token" UIDS(1) ",\"weight" UIDS(2) ",\"first_token_offset" UIDS(3) "},\"outputs\":{\"output" UIDS(
         4) "},\"mode\":\"none\",\"top_k\":1",
     "1=1,16,8 2=4,8,24 3=4,1,1i 4=1,16,24"},
    {"MoeGroupedMatmulBwdAttributes",
     "\"inputs\":{\"doutput" UIDS(1) ",\"token" UIDS(2) ",\"first_token_offset" UIDS(3) "},\"outputs\":{\"dweight" UIDS(
         4) "}",
     "1=1,16,24 2=1,16,8 3=4,1,1i 4=4,8,24"},
    {"ReductionAttributes", "\"in" UIDS(1) ",\"out" UIDS(2) ",\"mode\":\"add\"", "1=4,50,20 2=4,1,20"},
    {"ResampleFwdAttributes",
     "\"x" UIDS(1) ",\"y" UIDS(2) ",\"index" UIDS(3) ",\"resample_mode\":\"maxpool\",\"generate_index\":true," WINDOW,
     "1=2,8,12,12 2=2,8,6,6 3=2,8,6,6i"},
    {"ResampleBwdAttributes",
     "\"dy" UIDS(1) ",\"dx" UIDS(2) ",\"index" UIDS(3) ",\"resample_mode\":\"maxpool\"," WINDOW,
     "1=2,8,6,6 2=2,8,12,12 3=2,8,6,6i"},
};

static const char* const TYPES[] = {"float", "half", "bfloat16", "double", "int8", "fp8_e4m3"};

/* A graph and the memory of its tensors. */
typedef struct {
    hipdnnHandle_t handle;
    char text[TEXT];
    int64_t uids[MOST_TENSORS];
    void* pointers[MOST_TENSORS];
    int64_t count;
    bool only_plan;
    /* How many plans were made, and executed unless they are only planned. */
    int64_t executed;
} trial;

/* Writes the row's tensors after `at`, and allocates memory for them. */
static inline char* write_tensors(trial* t, char* at, const char* from)
{
    t->count = 0;
    while (*from != '\0') {
        char* end = NULL;
        int64_t dims[8];
        int64_t rank = 0;
        int64_t size = 1;
        const long uid = strtol(from, &end, 10);
        do {
            dims[rank] = strtol(end + 1, &end, 10);
            size *= dims[rank++];
        } while (*end == ',');
        const char kind = strchr("ies", *end) != NULL && *end != '\0' ? *end++ : ' ';
        from = end + strspn(end, " ");
        at += sprintf(at, "%s{\"uid\":%ld,\"dims\":[", at[-1] == '[' ? "" : ",", uid);
        for (int64_t i = 0; i < rank; i++) {
            at += sprintf(at, "%s%lld", i == 0 ? "" : ",", (long long)dims[i]);
        }
        at += sprintf(at, "],\"strides\":[");
        int64_t stride = size;
        for (int64_t i = 0; i < rank; i++) {
            stride /= dims[i];
            at += sprintf(at, "%s%lld", i == 0 ? "" : ",", (long long)stride);
        }
        at += sprintf(at, "]%s}",
                      kind == 'i'   ? ",\"data_type\":\"int32\""
                      : kind == 's' ? ",\"data_type\":\"fp8_e8m0\""
                      : kind == 'e' ? ",\"data_type\":\"float\",\"value_type\":\"Float32Value\",\"value\":1e-05"
                                    : "");
        if (kind != 'e') {
            t->uids[t->count] = uid;
            t->pointers[t->count] = aligned_alloc(64, ((size_t)size * 8 + 63) / 64 * 64);
            REQUIRE(t->count < MOST_TENSORS && t->pointers[t->count] != NULL);
            memset(t->pointers[t->count++], 0, (size_t)size * 8);
        }
    }
    return at;
}

static inline void begin_trial(trial* t, const row* r, const char* type)
{
    char* at = t->text;
    at += sprintf(at, "{\"io_data_type\":\"%s\",\"intermediate_data_type\":\"float\",\"compute_data_type\":\"%s\",",
                  type, strcmp(type, "double") == 0 ? "double" : "float");
    at += sprintf(at, "\"nodes\":[{\"type\":\"%s\",\"name\":\"\",%s}],\"tensors\":[", r->type, r->fields);
    at = write_tensors(t, at, r->tensors);
    sprintf(at, "]}");
}

static inline void end_trial(trial* t)
{
    for (int64_t i = 0; i < t->count; i++) {
        free(t->pointers[i]);
    }
}

static inline void plan_and_execute(trial* t, hipdnnBackendDescriptor_t config, bool constant_weights)
{
    if (constant_weights) {
        const int64_t one = 1;
        const char id[] = "constant_weights";
        hipdnnBackendDescriptor_t choice = make(HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        put(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, HIPDNN_TYPE_CHAR, (int64_t)strlen(id), id);
        put(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, HIPDNN_TYPE_INT64, 1, &one);
        REQUIRE_OK(hipdnnBackendFinalize(choice));
        put(config, HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &choice);
        drop(choice);
    }
    if (hipdnnBackendFinalize(config) != HIPDNN_STATUS_SUCCESS) {
        CHECK(constant_weights); /* a knob that this engine does not have */
        return;
    }
    hipdnnBackendDescriptor_t plan = make(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    put_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    CHECK_OK(hipdnnBackendFinalize(plan));
    t->executed++;
    if (t->only_plan) {
        drop(plan);
        return;
    }
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    void* const workspace = malloc((size_t)plan_workspace(plan) + 1);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, t->count, t->pointers);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, t->count, t->uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &workspace);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    CHECK_OK(hipdnnBackendExecute(t->handle, plan, pack));
    free(workspace);
    drop(pack);
    drop(plan);
}

/* Reads the graph, and plans and executes it with every engine, with weights that may change and with constant ones. */
static inline void use_graph(trial* t)
{
    enum { MOST = 8 };
    hipdnnBackendDescriptor_t graph = NULL;
    CHECK_OK(read_json(&graph, t->text));
    if (graph == NULL) {
        return;
    }
    put(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &t->handle);
    CHECK_OK(hipdnnBackendFinalize(graph));
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    /* Some operations have no such type. */
    const bool applies = hipdnnBackendFinalize(heuristic) == HIPDNN_STATUS_SUCCESS;
    for (int constant = 0; applies && constant < 2; constant++) {
        hipdnnBackendDescriptor_t configs[MOST];
        int64_t count = count_results(heuristic);
        REQUIRE(count <= MOST);
        for (int64_t i = 0; i < count; i++) {
            configs[i] = make(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        }
        REQUIRE_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                             count, &count, configs));
        for (int64_t i = 0; i < count; i++) {
            plan_and_execute(t, configs[i], constant != 0);
            drop(configs[i]);
        }
    }
    drop(heuristic);
    drop(graph);
}

#endif
