/* SPDX-License-Identifier: MIT */

/*
 * PyTorch's usage: per-thread handles that are never destroyed, a support query before every call, uids from 0, half-precision
 * tensors with float statistics, dropout by a seed and an offset, boolean masks, and an unknown engine name.
 */
#include "plain.hpp"

#include <mutex>
#include <thread>

namespace client
{

namespace
{

using Narrow = std::vector<uint16_t>;

uint16_t to_bfloat16(float number)
{
    uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float to_float(uint16_t narrow)
{
    const uint32_t bits = static_cast<uint32_t>(narrow) << 16;
    float number = 0;
    std::memcpy(&number, &bits, sizeof number);
    return number;
}

Narrow narrowed(const std::vector<float>& all)
{
    Narrow made;
    std::transform(all.begin(), all.end(), std::back_inserter(made), to_bfloat16);
    return made;
}

std::vector<float> widened(const Narrow& all)
{
    std::vector<float> made;
    std::transform(all.begin(), all.end(), std::back_inserter(made), to_float);
    return made;
}

/* A pool of handles that threads borrow and that lives until the process exits. */
class Pool
{
public:
    explicit Pool(const Library& library) : _library(library) {}

    const Session& take()
    {
        const std::lock_guard<std::mutex> guard(_lock);
        if (_free.empty())
        {
            _all.push_back(new Session(_library, _all.empty() ? Handle::First : Handle::Further));
            _free.push_back(_all.back());
        }
        const Session* taken = _free.back();
        _free.pop_back();
        return *taken;
    }

    void give_back(const Session& session)
    {
        const std::lock_guard<std::mutex> guard(_lock);
        _free.push_back(&session);
    }

private:
    const Library& _library;
    std::mutex _lock;
    std::vector<const Session*> _all;
    std::vector<const Session*> _free;
};

using MakeGraph = std::function<Descriptor(const Session&)>;

/* A plan of the first engine that makes one, all from the beginning. Nothing where no engine applies. */
std::optional<Descriptor> build(const Session& session, const MakeGraph& make, int64_t engine = 0)
{
    const Descriptor graph = make(session);
    auto configs = offered(session, graph);
    for (auto& config : configs)
    {
        config.finalize();
        if (engine == 0 || engine_of(config) == engine)
        {
            return plan_of(session, config);
        }
    }
    return std::nullopt;
}

/* The support query before every call is discarded; then everything is made again and executed. */
void call(const Session& session, const MakeGraph& make, const Bindings& bindings, int64_t engine)
{
    require(build(session, make, engine).has_value(), "not supported");
    const auto plan = build(session, make, engine);
    require(plan.has_value(), "supported and not built");
    run(session, *plan, bindings);
}

void run_convolution(const Session& session, int64_t engine)
{
    const Dims x_dims = {2, 4, 5, 5}, w_dims = {6, 4, 3, 3}, y_dims = {2, 6, 5, 5};
    /* Channels last, as PyTorch hands them over. */
    const auto last = [](const Dims& dims) { return Dims{dims[1] * dims[2] * dims[3], 1, dims[3] * dims[1], dims[1]}; };
    const auto x_wide = numbers(elements(x_dims), 1), w_wide = numbers(elements(w_dims), 2);
    Narrow x = narrowed(x_wide), w = narrowed(w_wide), y(elements(y_dims), 0x7fc0);
    call(
        session,
        [&](const Session& on) {
            GraphMaker maker(on);
            add_convolution(maker, Tensor(0, x_dims, HIPDNN_DATA_BFLOAT16).with_strides(last(x_dims)),
                            Tensor(1, w_dims, HIPDNN_DATA_BFLOAT16),
                            Tensor(2, y_dims, HIPDNN_DATA_BFLOAT16).with_strides(last(y_dims)), {1, 1});
            return maker.finish("convolution");
        },
        {{0, x.data()}, {1, w.data()}, {2, y.data()}}, engine);
    compare(gathered(y_dims, last(y_dims), widened(y)), convolve(x_dims, last(x_dims), x_wide, w_dims, w_wide, 1),
            0.004F, name_of(session, engine) + ", convolution");
}

/* Training, in bfloat16 with statistics of floats; running statistics are updated where they lie. */
void run_batchnorm(const Session& session, int64_t engine)
{
    const Dims dims = {3, 2, 4, 4}, channels = {1, 2, 1, 1}, one = {1, 1, 1, 1};
    const size_t count = elements(dims);
    const auto x_wide = numbers(count, 3);
    Narrow x = narrowed(x_wide), y(count, 0x7fc0);
    std::vector<float> scale = {1.5F, -0.5F}, bias = {0.25F, 1}, mean(2, UNTOUCHED), inverse(2, UNTOUCHED);
    std::vector<float> running_mean = {0.5F, -1}, running_variance = {1, 2};
    const auto old_mean = running_mean, old_variance = running_variance;
    const float epsilon = 1e-3F, momentum = 0.25F;
    call(
        session,
        [&](const Session& on) {
            GraphMaker maker(on);
            Descriptor operation = maker.begin(HIPDNN_BACKEND_OPERATION_BATCHNORM_DESCRIPTOR_EXT);
            maker.put(operation, HIPDNN_ATTR_OPERATION_BATCHNORM_X_EXT, Tensor(0, dims, HIPDNN_DATA_BFLOAT16));
            maker.put(operation, HIPDNN_ATTR_OPERATION_BATCHNORM_SCALE_EXT, Tensor(1, channels));
            maker.put(operation, HIPDNN_ATTR_OPERATION_BATCHNORM_BIAS_EXT, Tensor(2, channels));
            maker.put(operation, HIPDNN_ATTR_OPERATION_BATCHNORM_EPSILON_EXT, Tensor(3, one).constant(epsilon));
            maker.put(operation, HIPDNN_ATTR_OPERATION_BATCHNORM_Y_EXT, Tensor(4, dims, HIPDNN_DATA_BFLOAT16));
            maker.put(operation, HIPDNN_ATTR_OPERATION_BATCHNORM_PREV_RUNNING_MEAN_EXT, Tensor(5, channels));
            maker.put(operation, HIPDNN_ATTR_OPERATION_BATCHNORM_PREV_RUNNING_VARIANCE_EXT, Tensor(6, channels));
            maker.put(operation, HIPDNN_ATTR_OPERATION_BATCHNORM_MOMENTUM_EXT, Tensor(7, one).constant(momentum));
            maker.put(operation, HIPDNN_ATTR_OPERATION_BATCHNORM_MEAN_EXT, Tensor(8, channels));
            maker.put(operation, HIPDNN_ATTR_OPERATION_BATCHNORM_INV_VARIANCE_EXT, Tensor(9, channels));
            maker.put(operation, HIPDNN_ATTR_OPERATION_BATCHNORM_NEXT_RUNNING_MEAN_EXT, Tensor(10, channels));
            maker.put(operation, HIPDNN_ATTR_OPERATION_BATCHNORM_NEXT_RUNNING_VARIANCE_EXT, Tensor(11, channels));
            operation.set_float(HIPDNN_ATTR_BATCHNORM_COMP_TYPE_EXT);
            maker.end(std::move(operation), "batchnorm");
            return maker.finish("batchnorm");
        },
        {{0, x.data()},
         {1, scale.data()},
         {2, bias.data()},
         {4, y.data()},
         {5, running_mean.data()},
         {6, running_variance.data()},
         {8, mean.data()},
         {9, inverse.data()},
         {10, running_mean.data()},
         {11, running_variance.data()}},
        engine);
    const std::string name = name_of(session, engine) + ", batchnorm";
    std::vector<float> want(count), want_mean, want_inverse, want_running_mean, want_running_variance;
    for (size_t c = 0; c < 2; c++)
    {
        std::vector<size_t> places;
        for (size_t i = 0; i < count; i++)
        {
            if (i / 16 % 2 == c)
            {
                places.push_back(i);
            }
        }
        const auto terms = static_cast<double>(places.size());
        double sum = 0, squares = 0;
        for (const size_t i : places)
        {
            sum += static_cast<double>(x_wide[i]);
            squares += static_cast<double>(x_wide[i]) * static_cast<double>(x_wide[i]);
        }
        const double average = sum / terms;
        const double variance = squares / terms - average * average;
        const double factor = 1 / std::sqrt(variance + static_cast<double>(epsilon));
        for (const size_t i : places)
        {
            want[i] =
                static_cast<float>((static_cast<double>(x_wide[i]) - average) * factor * static_cast<double>(scale[c]) +
                                   static_cast<double>(bias[c]));
        }
        want_mean.push_back(static_cast<float>(average));
        want_inverse.push_back(static_cast<float>(factor));
        want_running_mean.push_back(static_cast<float>(0.75 * static_cast<double>(old_mean[c]) + 0.25 * average));
        want_running_variance.push_back(
            static_cast<float>(0.75 * static_cast<double>(old_variance[c]) + 0.25 * variance * terms / (terms - 1)));
    }
    compare(widened(y), want, 0.004F, name);
    compare(mean, want_mean, 1e-5F, name + ", mean");
    compare(inverse, want_inverse, 1e-5F, name + ", inverse of the deviation");
    compare(running_mean, want_running_mean, 1e-5F, name + ", running mean");
    compare(running_variance, want_running_variance, 1e-5F, name + ", running variance");
}

/* One 32-bit word of Philox 4x32-10. */
uint32_t philox(uint64_t seed, uint64_t offset, uint64_t index)
{
    uint32_t counter[4] = {static_cast<uint32_t>(index / 4), static_cast<uint32_t>(index / 4 >> 32),
                           static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32)};
    uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
    for (int round = 0; round < 10; round++)
    {
        const uint64_t a = static_cast<uint64_t>(0xd2511f53U) * counter[0];
        const uint64_t b = static_cast<uint64_t>(0xcd9e8d57U) * counter[2];
        const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
                                  static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
        std::copy(next, next + 4, counter);
        key[0] += 0x9e3779b9U;
        key[1] += 0xbb67ae85U;
    }
    return counter[index % 4];
}

/* Attention in training: a mask of booleans for all heads, dropout, the scale by value, and statistics for the gradients. */
void run_attention(const Session& session, int64_t engine, float dropout)
{
    constexpr int64_t sequences = 2, heads = 2, length = 6, width = 8;
    const Dims dims = {sequences, heads, length, width};
    const size_t count = elements(dims);
    auto q = numbers(count, 4), k = numbers(count, 5), v = numbers(count, 6);
    std::vector<float> o(count, UNTOUCHED), stats(elements({sequences, heads, length, 1}), UNTOUCHED);
    std::vector<uint8_t> mask;
    for (int64_t at = 0; at < sequences * length * length; at++)
    {
        /* Each query sees itself. */
        mask.push_back(at % 3 != 1 || at / length % length == at % length ? 1 : 0);
    }
    alignas(16) int64_t seed = -1234567890123;
    alignas(16) int64_t offset = int64_t{7} << 33;
    float scale = 0.3F;
    Bindings bindings = {{0, q.data()},    {1, k.data()}, {2, v.data()},    {3, o.data()},
                         {4, mask.data()}, {5, &scale},   {8, stats.data()}};
    if (dropout > 0)
    {
        bindings[6] = &seed;
        bindings[7] = &offset;
    }
    call(
        session,
        [&](const Session& on) {
            Attention attention{Tensor(0, dims), Tensor(1, dims), Tensor(2, dims), Tensor(3, dims)};
            attention.mask = Tensor(4, {sequences, 1, length, length}, HIPDNN_DATA_BOOLEAN);
            attention.scale = Tensor(5, {1, 1, 1, 1}).by_value();
            if (dropout > 0)
            {
                attention.seed = Tensor(6, {1, 1, 1, 1}, HIPDNN_DATA_INT64);
                attention.offset = Tensor(7, {1, 1, 1, 1}, HIPDNN_DATA_INT64);
            }
            attention.stats = Tensor(8, {sequences, heads, length, 1});
            attention.dropout = dropout;
            GraphMaker maker(on);
            add_attention(maker, attention);
            return maker.finish("attention");
        },
        bindings, engine);
    std::vector<float> want, want_stats;
    for (int64_t sequence = 0; sequence < sequences; sequence++)
    {
        const auto rows = [&](const std::vector<float>& of) {
            return Rows{of.data() + sequence * heads * length * width, length * width, width};
        };
        OneAttention plain{heads, length, length, width, static_cast<double>(scale)};
        plain.sees = [&](int64_t, int64_t query, int64_t key) {
            return mask[static_cast<size_t>((sequence * length + query) * length + key)] != 0;
        };
        plain.factor = [&](int64_t head, int64_t query, int64_t key) {
            const auto place = static_cast<uint64_t>(((sequence * heads + head) * length + query) * length + key);
            const double uniform =
                philox(static_cast<uint64_t>(seed), static_cast<uint64_t>(offset), place) / 4294967296.0;
            return dropout == 0                             ? 1
                   : uniform < static_cast<double>(dropout) ? 0
                                                            : 1 / (1 - static_cast<double>(dropout));
        };
        const auto part = plain.compute(rows(q), rows(k), rows(v), &want_stats);
        want.insert(want.end(), part.begin(), part.end());
    }
    const std::string name = name_of(session, engine) + ", attention" + (dropout > 0 ? " with dropout" : "");
    compare(o, want, 1e-5F, name);
    compare(stats, want_stats, 1e-5F, name + ", statistics");
}

/* A missing engine requested by name: the refusal says so, and others take its place. */
void run_absent(const Session& session)
{
    const int64_t absent = id_of("MIOPEN_ENGINE_DETERMINISTIC");
    require(absent == static_cast<int64_t>(0xa258541a6daa1de3U), "the id of a name is another one");
    Layer layer({1, 2, 4, 4});
    const MakeGraph make = [&](const Session& on) { return layer.graph(on); };
    require(!build(session, make, absent).has_value(), "an engine that is not there was offered");
    const Descriptor graph = layer.graph(session);
    require_failure([&] { engine_by_id(session, graph, absent); }, {"not in a valid range"},
                    "an engine that is not there");
    require_failure([&] { name_of(session, absent); }, {std::to_string(absent)},
                    "the name of an engine that is not there");
    const auto plan = build(session, make);
    require(plan.has_value(), "no other engine takes its place");
    auto y = layer.empty();
    run(session, *plan, layer.bindings(y));
    compare(y, layer.result(), 1e-5F, "the engine that takes its place");
}

} // namespace

void run_habits(const Library& library)
{
    /* Neither the pool nor its handles are destroyed. */
    static Pool* const pool = new Pool(library);
    std::mutex lock;
    std::string failure;
    for (int generation = 0; generation < 3; generation++)
    {
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; i++)
        {
            threads.emplace_back([&] {
                try
                {
                    const Session& session = pool->take();
                    for (const char* name : {"CPU_ENGINE", "CPU_REFERENCE_ENGINE"})
                    {
                        run_convolution(session, id_of(name));
                        run_batchnorm(session, id_of(name));
                        run_attention(session, id_of(name), 0);
                        run_attention(session, id_of(name), 0.25F);
                    }
                    run_absent(session);
                    pool->give_back(session);
                } catch (const std::exception& error)
                {
                    const std::lock_guard<std::mutex> guard(lock);
                    failure = error.what();
                }
            });
        }
        for (auto& thread : threads)
        {
            thread.join();
        }
        require(failure.empty(), failure);
    }
}

} // namespace client
