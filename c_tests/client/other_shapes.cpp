/* SPDX-License-Identifier: MIT */

/*
 * Plans made once and executed with several shapes: each result matches plain loops, and bit for bit a plan made for the shape.
 */
#include "plain.hpp"

#include <thread>

namespace client
{

namespace
{

enum Uid : int64_t { X, W, Y, K = W, V = 3, O = Y, BETWEEN = 4 };

/* Whether a graph is made for one shape or for others as well. */
enum class Made { ForOne, ForOthers };

Descriptor finish(GraphMaker& maker, Made made, const std::string& name)
{
    if (made == Made::ForOthers)
    {
        maker.allow_other_shapes();
    }
    return maker.finish(name);
}

/* One shape of a computation: its graph, its tensors that have other shapes than those of another one, and its numbers. */
struct Shape
{
    std::string name;
    std::vector<Tensor> tensors;
    std::map<int64_t, std::vector<float>> inputs;
    std::vector<float> want;
    std::function<Descriptor(const Session&, Made)> graph;

    const Tensor& output() const { return tensors.back(); }

    std::vector<float> execute(const Session& session, const Descriptor& plan, bool as_other)
    {
        const Tensor& to = output();
        size_t room = 1;
        for (size_t i = 0; i < to.dims.size(); i++)
        {
            room += static_cast<size_t>((to.dims[i] - 1) * to.strides[i]);
        }
        std::vector<float> y(room, UNTOUCHED);
        Bindings bindings = {{to.uid, y.data()}};
        for (auto& input : inputs)
        {
            bindings[input.first] = input.second.data();
        }
        std::vector<OtherShape> others;
        for (const auto& tensor : tensors)
        {
            others.push_back({tensor.uid, tensor.dims, tensor.strides});
            if (tensor.is_virtual && as_other)
            {
                /* What lies in between has its shape replaced as well, and is named by the pack without memory. */
                bindings[tensor.uid] = nullptr;
            }
        }
        run(session, plan, bindings, as_other ? others : std::vector<OtherShape>());
        auto made = gathered(to.dims, to.strides, y);
        const auto written =
            static_cast<size_t>(std::count_if(y.begin(), y.end(), [](float one) { return one != UNTOUCHED; }));
        require(written == made.size(), name + ": gaps of the output were written");
        return made;
    }
};

Shape convolution(int64_t images, int64_t side, bool channels_last)
{
    const Dims w = {4, 3, 3, 3};
    const auto strides = [&](int64_t channels) {
        const Dims last = {channels * side * side, 1, channels * side, channels};
        return channels_last ? last : packed({images, channels, side, side});
    };
    const Tensor from = Tensor(X, {images, 3, side, side}).with_strides(strides(3));
    const Tensor to = Tensor(Y, {images, 4, side, side}).with_strides(strides(4));
    Shape shape;
    shape.name = "convolution of " + std::to_string(images) + " images of " + std::to_string(side) +
                 (channels_last ? ", channels last" : "");
    shape.tensors = {from, to};
    shape.inputs = {{X, numbers(elements(from.dims), 4)}, {W, numbers(elements(w), 5)}};
    shape.want = convolve(from.dims, from.strides, shape.inputs[X], w, shape.inputs[W], 1);
    shape.graph = [=](const Session& session, Made made) {
        GraphMaker maker(session);
        add_convolution(maker, from, Tensor(W, w), to, {1, 1});
        return finish(maker, made, "convolution");
    };
    return shape;
}

/* The same, packed, with RELU behind and nothing to bind in between. */
Shape fused(int64_t images, int64_t side)
{
    Shape shape = convolution(images, side, false);
    const Tensor from = shape.tensors[0], to = shape.tensors[1];
    const Tensor between = Tensor(BETWEEN, to.dims).between();
    shape.name = "fused " + shape.name;
    shape.tensors = {from, between, to};
    for (float& one : shape.want)
    {
        one = std::max(one, 0.0F);
    }
    shape.graph = [=](const Session& session, Made made) {
        GraphMaker maker(session);
        add_convolution(maker, from, Tensor(W, {4, 3, 3, 3}), between, {1, 1});
        add_pointwise(maker, HIPDNN_POINTWISE_RELU_FWD, {between}, to);
        return finish(maker, made, "fused");
    };
    return shape;
}

/* Rows of tokens, perhaps with a gap behind each, times a matrix that stays. */
Shape matmul(int64_t rows, int64_t gap)
{
    const int64_t inner = 5;
    const int64_t columns = 7;
    const Tensor a = Tensor(X, {1, rows, inner}).with_strides({rows * (inner + gap), inner + gap, 1});
    const Tensor c = Tensor(Y, {1, rows, columns}).with_strides({rows * (columns + gap), columns + gap, 1});
    const Tensor b(W, {1, inner, columns});
    Shape shape;
    shape.name = "matmul of " + std::to_string(rows) + " rows with gaps of " + std::to_string(gap);
    shape.tensors = {a, c};
    shape.inputs = {{X, numbers(static_cast<size_t>(rows * (inner + gap)), 6)}, {W, numbers(elements(b.dims), 7)}};
    for (int64_t at = 0; at < rows * columns; at++)
    {
        float sum = 0;
        for (int64_t i = 0; i < inner; i++)
        {
            sum += shape.inputs[X][static_cast<size_t>(at / columns * (inner + gap) + i)] *
                   shape.inputs[W][static_cast<size_t>(i * columns + at % columns)];
        }
        shape.want.push_back(sum);
    }
    shape.graph = [=](const Session& session, Made made) {
        GraphMaker maker(session);
        add_matmul(maker, a, b, c);
        return finish(maker, made, "matmul");
    };
    return shape;
}

/* Sequences that grow. */
Shape attention(int64_t sequences, int64_t length)
{
    const Dims dims = {sequences, 2, length, 8};
    const Tensor q(X, dims), k(K, dims), v(V, dims), o(O, dims);
    Shape shape;
    shape.name = "attention of " + std::to_string(sequences) + " sequences of " + std::to_string(length);
    shape.tensors = {q, k, v, o};
    const size_t count = elements(dims);
    shape.inputs = {{X, numbers(count, 8)}, {K, numbers(count, 9)}, {V, numbers(count, 10)}};
    const OneAttention one{2, length, length, 8, 1, true};
    for (int64_t sequence = 0; sequence < sequences; sequence++)
    {
        const auto rows = [&](int64_t uid) {
            return Rows{shape.inputs[uid].data() + sequence * 2 * length * 8, length * 8, 8};
        };
        const auto part = one.compute(rows(X), rows(K), rows(V));
        shape.want.insert(shape.want.end(), part.begin(), part.end());
    }
    shape.graph = [=](const Session& session, Made made) {
        GraphMaker maker(session);
        Attention all{q, k, v, o};
        all.causal = true;
        add_attention(maker, all);
        return finish(maker, made, "attention");
    };
    return shape;
}

/* One plan for all shapes, several times in turn, and by several threads at once. */
void run_shapes(const Session& session, std::vector<Shape> shapes, int64_t engine)
{
    const Descriptor graph = shapes[0].graph(session, Made::ForOthers);
    const Descriptor plan = plan_of(session, graph, engine);
    bool allows = false;
    CLIENT_CHECK(session, hipdnnBackendGetAttribute, plan.raw(),
                 HIPDNN_ATTR_EXECUTION_PLAN_IS_OVERRIDE_SHAPE_ENABLED_EXT, HIPDNN_TYPE_BOOLEAN, 1, nullptr, &allows);
    require(allows, "a plan for other shapes does not say so");
    std::vector<std::vector<float>> made;
    for (auto& shape : shapes)
    {
        const std::string name = name_of(session, engine) + ", " + shape.name;
        made.push_back(shape.execute(session, plan, true));
        compare(made.back(), shape.want, 1e-5F, name);
        const Descriptor own = plan_of(session, shape.graph(session, Made::ForOne), engine);
        require(shape.execute(session, own, false) == made.back(), name + ": a plan for this shape gives other bits");
        /* That plan allows no other shapes, not even its own. */
        require_failure([&] { shape.execute(session, own, true); }, {"hipdnnBackendExecute"}, name);
    }
    compare(shapes[0].execute(session, plan, false), shapes[0].want, 1e-5F, "the shape of the graph");
    std::vector<std::thread> threads;
    std::vector<std::string> failures(shapes.size());
    for (size_t i = 0; i < shapes.size(); i++)
    {
        threads.emplace_back([&, i] {
            try
            {
                for (int round = 0; round < 10; round++)
                {
                    require(shapes[i].execute(session, plan, true) == made[i],
                            shapes[i].name + ": other bits in a thread");
                }
            } catch (const std::exception& error)
            {
                failures[i] = error.what();
            }
        });
    }
    for (auto& thread : threads)
    {
        thread.join();
    }
    for (const auto& failure : failures)
    {
        require(failure.empty(), failure);
    }
}

/* Packs that make no sense are not finalized. */
void refuse_packs(const Session& session)
{
    float number = 0;
    const Bindings bindings = {{X, &number}, {W, &number}, {Y, &number}};
    const Dims dims = {1, 3, 4, 4};
    require_failure([&] { pack_of(session, bindings, nullptr, {{77, dims, packed(dims)}}); }, {"77"},
                    "a uid that is not bound");
    require_failure([&] { pack_of(session, bindings, nullptr, {{X, dims, packed(dims)}, {X, dims, packed(dims)}}); },
                    {"0"}, "two shapes for one tensor");
    require_failure([&] { pack_of(session, bindings, nullptr, {{X, dims, {1, 1}}}); }, {"hipdnnBackendFinalize"},
                    "fewer strides than dimensions");
    require_failure([&] { pack_of(session, bindings, nullptr, {{X, {}, {}}}); }, {"hipdnnBackend"}, "no dimensions");
}

} // namespace

void run_other_shapes(const Library& library)
{
    const Session session(library);
    refuse_packs(session);
    const std::vector<std::vector<Shape>> all = {
        {convolution(2, 6, false), convolution(1, 6, false), convolution(5, 9, false), convolution(3, 7, true),
         convolution(1, 1, false), convolution(2, 12, false)},
        {fused(2, 6), fused(1, 6), fused(4, 11), fused(1, 3)},
        {matmul(4, 0), matmul(1, 0), matmul(9, 3), matmul(33, 0), matmul(2, 1)},
        {attention(2, 5), attention(1, 1), attention(3, 17), attention(1, 9)},
    };
    for (const auto& shapes : all)
    {
        for (const int64_t engine : both_engines(session, shapes[0].graph(session, Made::ForOthers)))
        {
            run_shapes(session, shapes, engine);
        }
    }
}

} // namespace client
