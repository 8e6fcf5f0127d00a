/* SPDX-License-Identifier: MIT */

/* A child of a process whose CPU engine has threads: it inherits plans and handles but not the threads, and still computes. */
#include "../fixture.h"

#include <sys/wait.h>
#include <unistd.h>

/* Large enough for every thread to get a part. */
enum { BATCH = 4, DEPTH = 32, EDGE = 32, COUNT_X = BATCH * DEPTH * EDGE * EDGE, COUNT_W = DEPTH * DEPTH };

int main(void)
{
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t x = make_tensor(UID_X, BATCH, DEPTH, EDGE, EDGE, false);
    hipdnnBackendDescriptor_t w = make_tensor(UID_W, DEPTH, DEPTH, 1, 1, false);
    hipdnnBackendDescriptor_t y = make_tensor(UID_Y, BATCH, DEPTH, EDGE, EDGE, false);
    hipdnnBackendDescriptor_t graph = graph_of_one(handle, convolution_of(x, w, y, 0));
    hipdnnBackendDescriptor_t plan = make_plan(graph);

    float* const data_x = aligned_alloc(64, COUNT_X * sizeof(float));
    float* const data_w = aligned_alloc(64, COUNT_W * sizeof(float));
    float* const data_y = aligned_alloc(64, COUNT_X * sizeof(float));
    void* const workspace = aligned_alloc(64, ((size_t)plan_workspace(plan) + 64) / 64 * 64);
    REQUIRE(data_x != NULL && data_w != NULL && data_y != NULL && workspace != NULL);
    for (int i = 0; i < COUNT_X; i++) {
        data_x[i] = 1.0f;
    }
    for (int i = 0; i < COUNT_W; i++) {
        data_w[i] = 0.5f;
    }
    const int64_t uids[] = {UID_X, UID_W, UID_Y};
    void* const pointers[] = {data_x, data_w, data_y};
    hipdnnBackendDescriptor_t pack = make(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 3, uids);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 3, pointers);
    put(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &workspace);
    REQUIRE_OK(hipdnnBackendFinalize(pack));
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));

    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        alarm(60);
        memset(data_y, 0, COUNT_X * sizeof(float));
        bool good = hipdnnBackendExecute(handle, plan, pack) == HIPDNN_STATUS_SUCCESS;
        for (int i = 0; i < COUNT_X; i++) {
            good = good && data_y[i] == 0.5f * DEPTH;
        }
        _exit(good ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    CHECK(data_y[COUNT_X - 1] == 0.5f * DEPTH);

    hipdnnBackendDescriptor_t all[] = {pack, plan, graph};
    for (int64_t i = 0; i < COUNT(all); i++) {
        drop(all[i]);
    }
    CHECK_OK(hipdnnDestroy(handle));
    free(data_x);
    free(data_w);
    free(data_y);
    free(workspace);
    return check_result();
}
