/* SPDX-License-Identifier: MIT */

/* The policies of a handle, and the heuristic's refusals of policy orders. */
#include "../fixture.h"

static hipdnnStatus_t info(hipdnnHandle_t handle, size_t index, int64_t* id, char texts[4][64], size_t lengths[4])
{
    return hipdnnGetHeuristicPolicyInfo_ext(
        handle, index, id, texts == NULL ? NULL : texts[0], &lengths[0], texts == NULL ? NULL : texts[1], &lengths[1],
        texts == NULL ? NULL : texts[2], &lengths[2], texts == NULL ? NULL : texts[3], &lengths[3]);
}

static void test_policies(hipdnnHandle_t handle)
{
    static const char* const names[] = {"SelectionHeuristic::Config", "SelectionHeuristic::StaticOrdering",
                                        "SelectionHeuristic::ModeA", "SelectionHeuristic::ModeB"};
    static const int64_t ids[] = {0x79dac33209e0d5c1, -0x46f46a1c3b64fde3, -0x754fd89842f67629, -0x754fd79842f67476};
    size_t count = 0;
    CHECK_OK(hipdnnGetHeuristicPolicyCount_ext(handle, &count));
    CHECK_EQ(count, COUNT(names));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "handle", hipdnnGetHeuristicPolicyCount_ext(NULL, &count));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "numPolicies", hipdnnGetHeuristicPolicyCount_ext(handle, NULL));
    for (size_t i = 0; i < count; i++) {
        char texts[4][64];
        size_t lengths[4] = {0};
        int64_t id = 0;
        CHECK_OK(info(handle, i, &id, NULL, lengths));
        CHECK_EQ(id, ids[i]);
        CHECK_EQ(lengths[0], strlen(names[i]) + 1);
        CHECK_OK(info(handle, i, NULL, texts, lengths));
        CHECK_STR(texts[0], names[i]);
        CHECK_STR(texts[1], "hipdnn_backend");
        CHECK_STR(texts[2], hipdnnVersionString_ext());
        CHECK_STR(texts[3], "0.1.0");
        for (int k = 0; k < 4; k++) {
            lengths[k]--;
            CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "room", info(handle, i, &id, texts, lengths));
            lengths[k]++;
        }
    }
    size_t lengths[4] = {0};
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "policyIndex", info(handle, count, NULL, NULL, lengths));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "policyIndex", info(handle, SIZE_MAX, NULL, NULL, lengths));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "handle", info(NULL, 0, NULL, NULL, lengths));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "apiVersionLen",
                hipdnnGetHeuristicPolicyInfo_ext(handle, 0, NULL, NULL, &lengths[0], NULL, &lengths[1], NULL,
                                                 &lengths[2], NULL, NULL));
}

static void test_attributes(hipdnnHandle_t handle)
{
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t heuristic = open_heuristic(graph);
    int64_t used[4] = {0};
    int64_t count = 0;
    CHECK_FAILS(
        HIPDNN_STATUS_BAD_PARAM, "expected tflops or time",
        hipdnnBackendSetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_RANKING_METRIC_EXT, HIPDNN_TYPE_CHAR, 4, "fast"));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "finalized",
                hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_POLICY_ORDER_EXT, HIPDNN_TYPE_INT64, 4,
                                          &count, used));
    REQUIRE_OK(hipdnnBackendFinalize(heuristic));
    /* The policies that were asked by default. */
    CHECK_OK(hipdnnBackendGetAttribute(heuristic, HIPDNN_ATTR_ENGINEHEUR_POLICY_ORDER_EXT, HIPDNN_TYPE_INT64, 4, &count,
                                       used));
    CHECK_EQ(count, 2);
    CHECK(used[0] == 0x79dac33209e0d5c1 && used[1] == -0x46f46a1c3b64fde3);
    drop(heuristic);
    drop(graph);
}

static void test_paths(hipdnnHandle_t handle)
{
    const char* const paths[] = {"nowhere", NULL};
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "hipdnnSetHeuristicPluginPaths_ext cannot be called with an active handle",
                hipdnnSetHeuristicPluginPaths_ext(1, paths, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    CHECK_OK(hipdnnDestroy(handle));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "pluginPaths[1]",
                hipdnnSetHeuristicPluginPaths_ext(2, paths, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, "pluginPaths",
                hipdnnSetHeuristicPluginPaths_ext(1, NULL, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    CHECK_FAILS(HIPDNN_STATUS_BAD_PARAM, "loadingMode",
                hipdnnSetHeuristicPluginPaths_ext(1, paths, (hipdnnPluginLoadingMode_ext_t)2));
    CHECK_FAILS(HIPDNN_STATUS_INTERNAL_ERROR, "numPaths",
                hipdnnSetHeuristicPluginPaths_ext(SIZE_MAX, paths, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    CHECK_OK(hipdnnSetHeuristicPluginPaths_ext(1, paths, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
    /* A path to nothing keeps neither handles nor the library's own policies from being there. */
    handle = make_handle();
    test_policies(handle);
    CHECK_OK(hipdnnDestroy(handle));
}

int main(void)
{
    setenv("HIPDNN_DISABLE_CACHE", "1", 1);
    hipdnnHandle_t handle = make_handle();
    test_policies(handle);
    test_attributes(handle);
    test_paths(handle);
    return check_result();
}
