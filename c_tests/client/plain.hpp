/* SPDX-License-Identifier: MIT */

/* References for the flows: operations as plain loops, in double precision. */
#pragma once

#include "frontend.hpp"

namespace client
{

/* A convolution with steps of 1 of images with any strides; the result has no gaps. */
inline std::vector<float> convolve(const Dims& x_dims, const Dims& x_strides, const std::vector<float>& x,
                                   const Dims& w_dims, const std::vector<float>& w, int64_t padding)
{
    const int64_t rows = x_dims[2] + 2 * padding - w_dims[2] + 1;
    const int64_t columns = x_dims[3] + 2 * padding - w_dims[3] + 1;
    std::vector<float> y;
    for (int64_t at = 0; at < x_dims[0] * w_dims[0] * rows * columns; at++)
    {
        const int64_t column = at % columns;
        const int64_t row = at / columns % rows;
        const int64_t filter = at / columns / rows % w_dims[0];
        const int64_t image = at / columns / rows / w_dims[0];
        double sum = 0;
        for (int64_t tap = 0; tap < w_dims[1] * w_dims[2] * w_dims[3]; tap++)
        {
            const int64_t i = row + tap / w_dims[3] % w_dims[2] - padding;
            const int64_t j = column + tap % w_dims[3] - padding;
            const int64_t channel = tap / w_dims[3] / w_dims[2];
            if (i >= 0 && i < x_dims[2] && j >= 0 && j < x_dims[3])
            {
                sum += static_cast<double>(x[static_cast<size_t>(image * x_strides[0] + channel * x_strides[1] +
                                                                 i * x_strides[2] + j * x_strides[3])]) *
                       static_cast<double>(w[static_cast<size_t>(filter * w_dims[1] * w_dims[2] * w_dims[3] + tap)]);
            }
        }
        y.push_back(static_cast<float>(sum));
    }
    return y;
}

/* Elements of a tensor with any strides, in the order of their dimensions. */
inline std::vector<float> gathered(const Dims& dims, const Dims& strides, const std::vector<float>& memory)
{
    std::vector<float> all;
    for (size_t at = 0; at < elements(dims); at++)
    {
        auto rest = static_cast<int64_t>(at);
        int64_t place = 0;
        for (size_t i = dims.size(); i > 0; i--)
        {
            place += rest % dims[i - 1] * strides[i - 1];
            rest /= dims[i - 1];
        }
        all.push_back(memory[static_cast<size_t>(place)]);
    }
    return all;
}

/* A convolution, a bias for each channel, and RELU. */
struct Layer
{
    Dims x_dims;
    Dims w_dims;
    std::vector<float> x, w, bias;

    explicit Layer(const Dims& images, int64_t filters = 4)
        : x_dims(images), w_dims{filters, images[1], 3, 3}, x(numbers(elements(images), 1)),
          w(numbers(elements(w_dims), 2)), bias(numbers(static_cast<size_t>(filters), 3))
    {
    }

    Dims y_dims() const { return {x_dims[0], w_dims[0], x_dims[2], x_dims[3]}; }

    /* Its tensors have the uids from `first` on: x, w, bias, two in between, y. */
    Descriptor graph(const Session& session, int64_t first = 0, const std::string& name = "layer") const
    {
        GraphMaker maker(session);
        const Tensor sums = Tensor(first + 3, y_dims()).between();
        const Tensor biased = Tensor(first + 4, y_dims()).between();
        add_convolution(maker, Tensor(first, x_dims), Tensor(first + 1, w_dims), sums, {1, 1});
        add_pointwise(maker, HIPDNN_POINTWISE_ADD, {sums, Tensor(first + 2, {1, w_dims[0], 1, 1})}, biased);
        add_pointwise(maker, HIPDNN_POINTWISE_RELU_FWD, {biased}, Tensor(first + 5, y_dims()));
        return maker.finish(name);
    }

    Bindings bindings(std::vector<float>& y, int64_t first = 0)
    {
        return {{first, x.data()}, {first + 1, w.data()}, {first + 2, bias.data()}, {first + 5, y.data()}};
    }

    std::vector<float> empty() const { return std::vector<float>(elements(y_dims()), UNTOUCHED); }

    std::vector<float> result() const
    {
        auto y = convolve(x_dims, packed(x_dims), x, w_dims, w, 1);
        const size_t plane = static_cast<size_t>(x_dims[2] * x_dims[3]);
        for (size_t i = 0; i < y.size(); i++)
        {
            y[i] = std::max(0.0F, y[i] + bias[i / plane % bias.size()]);
        }
        return y;
    }
};

/* Rows of the heads of one sequence. */
struct Rows
{
    const float* first;
    int64_t of_head;
    int64_t of_row;

    double at(int64_t head, int64_t row, int64_t i) const
    {
        return static_cast<double>(first[head * of_head + row * of_row + i]);
    }
};

/* The attention of one sequence. */
struct OneAttention
{
    int64_t heads, queries, keys, width;
    double scale = 1;
    bool causal = false;
    /* Whether a query sees a key besides, and the factor of a probability. */
    std::function<bool(int64_t, int64_t, int64_t)> sees = {};
    std::function<double(int64_t, int64_t, int64_t)> factor = {};

    /* Results [head][query][width]; and for each row the logarithm of its sum. */
    std::vector<float> compute(const Rows& q, const Rows& k, const Rows& v, std::vector<float>* stats = nullptr) const
    {
        std::vector<float> o;
        for (int64_t row = 0; row < heads * queries; row++)
        {
            const int64_t head = row / queries;
            const int64_t query = row % queries;
            std::vector<double> weights(static_cast<size_t>(keys), 0.0);
            double sum = 0;
            for (int64_t key = 0; key < keys; key++)
            {
                if ((causal && key > query) || (sees && !sees(head, query, key)))
                {
                    continue;
                }
                double score = 0;
                for (int64_t i = 0; i < width; i++)
                {
                    score += q.at(head, query, i) * k.at(head, key, i);
                }
                weights[static_cast<size_t>(key)] = std::exp(score * scale);
                sum += weights[static_cast<size_t>(key)];
            }
            for (int64_t i = 0; i < width; i++)
            {
                double value = 0;
                for (int64_t key = 0; key < keys; key++)
                {
                    const double kept = factor ? factor(head, query, key) : 1.0;
                    value += sum == 0 ? 0 : weights[static_cast<size_t>(key)] / sum * kept * v.at(head, key, i);
                }
                o.push_back(static_cast<float>(value));
            }
            if (stats != nullptr)
            {
                stats->push_back(static_cast<float>(std::log(sum)));
            }
        }
        return o;
    }
};

} // namespace client
