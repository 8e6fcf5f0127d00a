/* Loads the backend at run time: a folder without it is skipped, and the folder cannot be changed after the first call. */

#define HIPDNN_FRONTEND_RUNTIME_LOAD_BACKEND
#include <hipdnn/hipdnn.hpp>

#include "check.hpp"

int main()
{
#ifdef _WIN32
    CHECK(hipdnn::set_backend_library_path("C:\\nonexistent"));
#else
    CHECK(hipdnn::set_backend_library_path("/nonexistent"));
#endif
    hipdnn::HandlePtr handle;
    CHECK_GOOD(hipdnn::create_handle(handle));
#ifdef _WIN32
    /* It lies beside the program. */
    static const char here = 0;
    const std::string path = hipdnn::backend_library_path();
    CHECK(path == hipdnn::detail::modules::folder_of(&here) + "\\hipdnn_backend.dll");
#else
    /* This program is linked with the library, so the loader has it. */
    CHECK(hipdnn::backend_library_path() == "libhipdnn_backend.so");
#endif
    CHECK(!hipdnn::set_backend_library_path("/tmp"));
    hipdnn::Graph graph;
    graph.set_io_data_type(hipdnn::DataType::FLOAT).set_compute_data_type(hipdnn::DataType::FLOAT);
    auto x = graph.tensor(hipdnn::Tensor().set_uid(1).set_dim({4}).set_stride({1}));
    graph.pointwise(x, hipdnn::PointwiseAttributes().set_mode(hipdnn::PointwiseMode::ABS))->set_uid(2).set_output(true);
    CHECK_GOOD(graph.build(*handle));
    alignas(16) float in[] = {-1, 2, -3, 4}, out[4] = {};
    CHECK_GOOD(graph.execute(*handle, {{1, in}, {2, out}}, nullptr));
    CHECK(out[0] == 1 && out[2] == 3);
    /* A function that the library lacks returns that status, whatever its arguments. */
    hipdnn::detail::Functions none;
    CHECK(none.hipdnnCreate(nullptr) == HIPDNN_STATUS_VERSION_MISMATCH);
    CHECK(none.hipdnnGetErrorString(HIPDNN_STATUS_VERSION_MISMATCH) == std::string("HIPDNN_STATUS_VERSION_MISMATCH"));
    std::puts("right");
}
