/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Operations of NVIDIA's frontend that are several here, and those that hipDNN does not have.
 */
#pragma once

#include "attributes.hpp"

namespace cudnn_frontend
{
namespace graph
{

/** Makes operations of others. */
template <typename Self>
class Compositions : public ::hipdnn::detail::GraphSettings<Self>
{
    using Base = ::hipdnn::detail::GraphSettings<Self>;
    using Dims = ::hipdnn::Dims;

protected:
    template <size_t Count>
    using List = std::array<Tensor, Count>;

public:
    using Base::tensor;

    /** Sums and sums of squares of each channel: a product and two reductions. */
    List<2> genstats(Tensor x, const Genstats_attributes& attributes)
    {
        Dims dims(shape_of(*x).size(), 1);
        if (dims.size() > 1)
        {
            dims[1] = x->get_dim()[1];
        }
        const Part part{attributes.name, attributes.compute_data_type};
        const Tensor plain = reduce(part, "SUM", ReductionMode_t::ADD, x, dims);
        return {plain, reduce(part, "SQ_SUM", ReductionMode_t::ADD, combine(part, "SQUARE", PointwiseMode_t::MUL, x, x),
                              dims)};
    }

    /** y, and in training mean and inv_variance (else null). */
    List<3> instancenorm(Tensor x, Tensor scale, Tensor bias, const Instancenorm_attributes& attributes)
    {
        return normalize(x, scale, bias, attributes, of_instances(*x));
    }
    /** dx, dscale, dbias. */
    List<3> instancenorm_backward(Tensor dy, Tensor x, Tensor scale, const Instancenorm_backward_attributes& attributes)
    {
        return normalize_backward(dy, x, scale, attributes, of_instances(*x));
    }
    /** y, and in training mean and inv_variance (else null); scale and bias have the batch and the last dimensions of x. */
    List<3> adalayernorm(Tensor x, Tensor scale, Tensor bias, const AdaLayernorm_attributes& attributes)
    {
        return normalize(x, scale, bias, attributes, of_last(*x, *scale));
    }
    List<3> adalayernorm_backward(Tensor dy, Tensor x, Tensor scale, const AdaLayernorm_backward_attributes& attributes)
    {
        return normalize_backward(dy, x, scale, attributes, of_last(*x, *scale));
    }

    /** c = a b descale_a descale_b scale_c, and the largest magnitude before scale_c. */
    List<2> matmul_fp8(Tensor a, Tensor b, Tensor descale_a, Tensor descale_b, Tensor scale_c,
                       const Matmul_fp8_attributes& attributes)
    {
        const Part part{attributes.name, attributes.compute_data_type};
        Matmul_attributes how;
        how.set_name(part.word("MATMUL")).set_compute_data_type(part.compute);
        const Dims ones(std::max(a->get_dim().size(), b->get_dim().size()), 1);
        Tensor c = Base::matmul(std::move(a), std::move(b), how);
        c = combine(part, "DESCALE_A", PointwiseMode_t::MUL, c, std::move(descale_a));
        c = combine(part, "DESCALE_B", PointwiseMode_t::MUL, c, std::move(descale_b));
        const Tensor amax = reduce(part, "AMAX_C", ReductionMode_t::AMAX, c, ones);
        return {combine(part, "SCALE_C", PointwiseMode_t::MUL, c, std::move(scale_c)), amax};
    }

    /* Operations that hipDNN does not have: their tensors can be used, and the graph is refused. */
    List<6> bn_finalize(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, BN_finalize_attributes)
    {
        return refuse<6>("bn_finalize");
    }
    List<5> dbn_weight(Tensor, Tensor, Tensor, Tensor, Tensor, DBN_weight_attributes)
    {
        return refuse<5>("dbn_weight");
    }
    Tensor concatenate(std::vector<Tensor>, Concatenate_attributes) { return refuse<1>("concatenate")[0]; }
    Tensor rng(Tensor, Tensor, Rng_attributes) { return refuse<1>("rng")[0]; }
    Tensor rope(Tensor, Tensor, RoPE_attributes) { return refuse<1>("rope")[0]; }
    Tensor rope_backward(Tensor, Tensor, RoPE_backward_attributes) { return refuse<1>("rope_backward")[0]; }
    /** Attention with scales of blocks. */
    List<3> sdpa_fp8(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, SDPA_fp8_attributes)
    {
        return refuse<3>("sdpa_fp8 with scales of blocks");
    }
    /** q, k, v, o, do, stats and twelve scales. */
    List<7> sdpa_fp8_backward(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor,
                              Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, SDPA_fp8_backward_attributes)
    {
        return refuse<7>("sdpa_fp8_backward");
    }
    /** The same with scales of blocks. */
    List<6> sdpa_fp8_backward(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor,
                              Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, SDPA_fp8_backward_attributes)
    {
        return refuse<6>("sdpa_fp8_backward with scales of blocks");
    }

protected:
    std::string _refused;

    /** The operation that is composed: its name, which those that it is made of begin with, and their type. */
    struct Part
    {
        std::string name;
        DataType_t compute;

        std::string word(const char* step) const { return name.empty() ? std::string() : name + "::" + step; }
    };

    Tensor combine(const Part& part, const char* word, PointwiseMode_t mode, Tensor a, Tensor b)
    {
        return Base::pointwise(std::move(a), std::move(b), how(part, word, mode));
    }
    Tensor change(const Part& part, const char* word, PointwiseMode_t mode, Tensor a)
    {
        return Base::pointwise(std::move(a), how(part, word, mode));
    }
    Tensor reduce(const Part& part, const char* word, ReductionMode_t mode, Tensor x, const Dims& dims)
    {
        Reduction_attributes how;
        how.set_name(part.word(word)).set_mode(mode).set_compute_data_type(part.compute);
        const Tensor made = Base::reduction(std::move(x), std::move(how));
        made->set_dim(dims).set_stride(::hipdnn::packed_strides(dims));
        return made;
    }

    template <size_t Count>
    List<Count> refuse(const char* operation)
    {
        _refused += (_refused.empty() ? "" : ", ") + std::string(operation);
        List<Count> made;
        for (Tensor& one : made)
        {
            one = std::make_shared<Tensor_attributes>();
            one->set_is_virtual(true);
        }
        return made;
    }

private:
    static Pointwise_attributes how(const Part& part, const char* word, PointwiseMode_t mode)
    {
        Pointwise_attributes made;
        made.set_name(part.word(word)).set_mode(mode).set_compute_data_type(part.compute);
        return made;
    }

    /** The shape of a tensor, which follows from the operations before it where it is a result without one. */
    const Dims& shape_of(const Tensor_attributes& x)
    {
        if (x.get_dim().empty() && Base::validate().is_bad() && x.get_dim().empty())
        {
            refuse<1>("the composition of a result without a shape (expected set_dim of it, or the types of the graph "
                      "before)");
        }
        return x.get_dim();
    }
    /** The shape of statistics of each channel of each image. */
    Dims of_instances(const Tensor_attributes& x)
    {
        Dims dims = shape_of(x);
        std::fill(dims.begin() + std::min<std::ptrdiff_t>(2, static_cast<std::ptrdiff_t>(dims.size())), dims.end(), 1);
        return dims;
    }
    /** The shape of statistics over the dimensions that the scale has behind the batch. */
    Dims of_last(const Tensor_attributes& x, const Tensor_attributes& scale)
    {
        Dims dims = shape_of(x);
        bool scaled = false;
        for (size_t i = 1; i < dims.size(); i++)
        {
            scaled = scaled || i + 1 == dims.size() || (i < scale.get_dim().size() && scale.get_dim()[i] != 1);
            dims[i] = scaled ? 1 : dims[i];
        }
        return dims;
    }

    /** (x - mean) / sqrt(variance + epsilon) scale + bias. */
    template <typename Attributes>
    List<3> normalize(const Tensor& x, Tensor scale, Tensor bias, const Attributes& attributes, const Dims& stats)
    {
        const Part part{attributes.name, attributes.compute_data_type};
        const Tensor mean = reduce(part, "MEAN", ReductionMode_t::AVG, x, stats);
        const Tensor centered = combine(part, "CENTERED", PointwiseMode_t::SUB, x, mean);
        const Tensor squared = combine(part, "SQUARED", PointwiseMode_t::MUL, centered, centered);
        const Tensor variance = reduce(part, "VARIANCE", ReductionMode_t::AVG, squared, stats);
        const Tensor shifted = combine(part, "SHIFTED", PointwiseMode_t::ADD, variance, attributes.epsilon);
        const Tensor inverse = change(part, "INV_VARIANCE", PointwiseMode_t::RSQRT, shifted);
        Tensor y = combine(part, "NORMALIZED", PointwiseMode_t::MUL, centered, inverse);
        y = combine(part, "SCALED", PointwiseMode_t::MUL, y, std::move(scale));
        y = bias == nullptr ? y : combine(part, "Y", PointwiseMode_t::ADD, y, std::move(bias));
        const bool trains = attributes.forward_phase == NormFwdPhase_t::TRAINING;
        return {y, trains ? mean : nullptr, trains ? inverse : nullptr};
    }

    /** The gradients of what normalize() computes. */
    template <typename Attributes>
    List<3> normalize_backward(const Tensor& dy, const Tensor& x, const Tensor& scale, const Attributes& attributes,
                               const Dims& stats)
    {
        const Part part{attributes.name, attributes.compute_data_type};
        const Tensor centered = combine(part, "CENTERED", PointwiseMode_t::SUB, x, attributes.mean);
        const Tensor normalized = combine(part, "NORMALIZED", PointwiseMode_t::MUL, centered, attributes.inv_variance);
        const Tensor weighted = combine(part, "WEIGHTED", PointwiseMode_t::MUL, dy, normalized);
        const Tensor dscale = reduce(part, "DSCALE", ReductionMode_t::ADD, weighted, scale->get_dim());
        const Tensor dbias = reduce(part, "DBIAS", ReductionMode_t::ADD, dy, scale->get_dim());
        const Tensor scaled = combine(part, "SCALED", PointwiseMode_t::MUL, dy, scale);
        const Tensor along = combine(part, "ALONG", PointwiseMode_t::MUL, scaled, normalized);
        const Tensor first = reduce(part, "FIRST", ReductionMode_t::AVG, scaled, stats);
        const Tensor second = reduce(part, "SECOND", ReductionMode_t::AVG, along, stats);
        Tensor rest = combine(part, "LESS_FIRST", PointwiseMode_t::SUB, scaled, first);
        const Tensor projected = combine(part, "PROJECTED", PointwiseMode_t::MUL, normalized, second);
        rest = combine(part, "LESS_SECOND", PointwiseMode_t::SUB, rest, projected);
        return {combine(part, "DX", PointwiseMode_t::MUL, rest, attributes.inv_variance), dscale, dbias};
    }
};

} // namespace graph
} // namespace cudnn_frontend
