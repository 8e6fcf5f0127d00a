/* The overhead of executing through the C++ classes over the same C calls, in nanoseconds: medians of alternating rounds. Fails
 * above a microsecond, which even a busy machine does not explain. */

#include <hipdnn/hipdnn.hpp>

#include "check.hpp"

#include <algorithm>
#include <chrono>

int main()
{
    hipdnn::HandlePtr handle;
    CHECK_GOOD(hipdnn::create_handle(handle));
    hipdnn::Graph graph;
    graph.set_io_data_type(hipdnn::DataType::FLOAT).set_compute_data_type(hipdnn::DataType::FLOAT);
    auto a = graph.tensor(hipdnn::Tensor().set_uid(1).set_dim({1, 2, 2}).set_stride({4, 2, 1}));
    auto b = graph.tensor(hipdnn::Tensor().set_uid(2).set_dim({1, 2, 2}).set_stride({4, 2, 1}));
    graph.matmul(a, b, hipdnn::MatmulAttributes())->set_uid(3).set_output(true);
    CHECK_GOOD(graph.build(*handle));
    std::vector<uint8_t> saved;
    CHECK_GOOD(graph.serialize_compiled_plan(saved));
    hipdnnBackendDescriptor_t plan = nullptr;
    CHECK(hipdnnBackendCreateAndDeserializeExecutionPlan_ext(*handle, &plan, saved.data(), saved.size()) ==
          HIPDNN_STATUS_SUCCESS);

    alignas(16) float x[] = {1, 2, 3, 4}, y[] = {5, 6, 7, 8}, z[4] = {}, w[4] = {};
    int64_t bytes = 0;
    CHECK_GOOD(graph.get_workspace_size(bytes));
    std::vector<char> workspace(static_cast<size_t>(bytes) + 1);
    void* room = workspace.data();
    const hipdnn::VariantPack pack = {{1, x}, {2, y}, {3, z}};
    const auto classes = [&] { CHECK(graph.execute(*handle, pack, room).is_good()); };
    const auto calls = [&] {
        int64_t uids[] = {1, 2, 3};
        void* pointers[] = {x, y, w};
        hipdnnBackendDescriptor_t bound = nullptr;
        CHECK(hipdnnBackendCreateDescriptor(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &bound) == HIPDNN_STATUS_SUCCESS);
        CHECK(hipdnnBackendSetAttribute(bound, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 3,
                                        pointers) == HIPDNN_STATUS_SUCCESS);
        CHECK(hipdnnBackendSetAttribute(bound, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 3, uids) ==
              HIPDNN_STATUS_SUCCESS);
        CHECK(hipdnnBackendSetAttribute(bound, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &room) ==
              HIPDNN_STATUS_SUCCESS);
        CHECK(hipdnnBackendFinalize(bound) == HIPDNN_STATUS_SUCCESS);
        CHECK(hipdnnBackendExecute(*handle, plan, bound) == HIPDNN_STATUS_SUCCESS);
        CHECK(hipdnnBackendDestroyDescriptor(bound) == HIPDNN_STATUS_SUCCESS);
    };
    const auto time = [](const auto& once) {
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < 200; i++)
        {
            once();
        }
        return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / 200;
    };
    std::vector<double> with, without;
    for (int round = 0; round < 301; round++)
    {
        with.push_back(time(classes));
        without.push_back(time(calls));
    }
    const auto middle = [](std::vector<double>& times) {
        std::nth_element(times.begin(), times.begin() + 150, times.end());
        return times[150];
    };
    const double slow = middle(with), fast = middle(without);
    std::printf("%.0f ns through the classes, %.0f ns by the calls, %.0f ns above\n", slow, fast, slow - fast);
    CHECK(z[0] == 19.0F && w[3] == 50.0F && slow - fast < 1000);
    CHECK(hipdnnBackendDestroyDescriptor(plan) == HIPDNN_STATUS_SUCCESS);
}
