/* A program that uses the C++ classes of the installed package: a matrix product. */

#include <hipdnn/hipdnn.hpp>

#include <cstdio>

int main()
{
    try {
        hipdnn::HandlePtr handle;
        hipdnn::check(hipdnn::create_handle(handle));
        hipdnn::Graph graph;
        graph.set_io_data_type(hipdnn::DataType::FLOAT).set_compute_data_type(hipdnn::DataType::FLOAT);
        auto a = graph.tensor(hipdnn::Tensor().set_dim({1, 1, 2}).set_stride({2, 2, 1}));
        auto b = graph.tensor(hipdnn::Tensor().set_dim({1, 2, 1}).set_stride({2, 1, 1}));
        auto c = graph.matmul(a, b, hipdnn::MatmulAttributes());
        c->set_output(true);
        hipdnn::check(graph.build(*handle));
        alignas(16) float x[] = {1, 2}, y[] = {3, 4}, z = 0;
        int64_t bytes = 0;
        hipdnn::check(graph.get_workspace_size(bytes));
        std::vector<char> workspace(static_cast<size_t>(bytes));
        hipdnn::check(
            graph.execute(*handle, {{a->get_uid(), x}, {b->get_uid(), y}, {c->get_uid(), &z}}, workspace.data()));
        return z == 11.0F ? 0 : (std::fprintf(stderr, "%g, expected 11\n", static_cast<double>(z)), 1);
    } catch (const hipdnn::Exception& error) {
        return std::fprintf(stderr, "%s\n", error.what()), 1;
    }
}
