/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Operations of NVIDIA's frontend that are composed of several here, and those that hipDNN lacks.
 */
#pragma once

#include "attributes.hpp"

namespace hipdnn_frontend::compatibility::cudnn_frontend
{
namespace graph
{

/** Composes operations. */
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

    /**
     * From sums and sums of squares of each channel over `count` elements: eq_scale and eq_bias, by which y = eq_scale x + eq_bias,
     * mean, inv_variance, and the new running mean and variance (null if no running ones are given).
     */
    List<6> bn_finalize(Tensor sum, Tensor sq_sum, Tensor scale, Tensor bias, Tensor epsilon, Tensor count,
                        const BN_finalize_attributes& attributes)
    {
        const Part part{attributes.name, attributes.compute_data_type};
        const Tensor mean = combine(part, "MEAN", PointwiseMode_t::DIV, std::move(sum), count);
        const Tensor square = combine(part, "SQUARE", PointwiseMode_t::MUL, mean, mean);
        const Tensor mean_of_squares = combine(part, "SQ_MEAN", PointwiseMode_t::DIV, std::move(sq_sum), count);
        const Tensor variance = combine(part, "VARIANCE", PointwiseMode_t::SUB, mean_of_squares, square);
        const Tensor shifted = combine(part, "SHIFTED", PointwiseMode_t::ADD, variance, std::move(epsilon));
        const Tensor inverse = change(part, "INV_VARIANCE", PointwiseMode_t::RSQRT, shifted);
        const Tensor eq_scale = combine(part, "EQ_SCALE", PointwiseMode_t::MUL, std::move(scale), inverse);
        const Tensor moved = combine(part, "MOVED", PointwiseMode_t::MUL, mean, eq_scale);
        const Tensor eq_bias = combine(part, "EQ_BIAS", PointwiseMode_t::SUB, std::move(bias), moved);
        List<6> made = {eq_scale, eq_bias, mean, inverse, nullptr, nullptr};
        if (attributes.running_mean != nullptr)
        {
            const auto one = std::make_shared<Tensor_attributes>(1.0F);
            const Tensor fewer = combine(part, "FEWER", PointwiseMode_t::SUB, count, one);
            const Tensor wide = combine(part, "WIDE", PointwiseMode_t::MUL, variance, std::move(count));
            const Tensor unbiased = combine(part, "UNBIASED", PointwiseMode_t::DIV, wide, fewer);
            made[4] = towards(part, "NEXT_MEAN", attributes.running_mean, mean, attributes.momentum);
            made[5] = towards(part, "NEXT_VARIANCE", attributes.running_variance, unbiased, attributes.momentum);
        }
        return made;
    }
    /** dscale, dbias, and eq_scale_dy, eq_scale_x and eq_bias, by which dx = eq_scale_dy dy + eq_scale_x x + eq_bias. */
    List<5> dbn_weight(Tensor dy, Tensor x, Tensor mean, Tensor inverse, Tensor scale,
                       const DBN_weight_attributes& attributes)
    {
        const Part part{attributes.name, attributes.compute_data_type};
        float count = 1;
        const Dims& dims = shape_of(*x);
        for (size_t i = 0; i < dims.size(); i++)
        {
            count *= i == 1 ? 1.0F : static_cast<float>(dims[i]);
        }
        const auto fraction = std::make_shared<Tensor_attributes>(-1 / count);
        const Tensor centered = combine(part, "CENTERED", PointwiseMode_t::SUB, std::move(x), mean);
        const Tensor normalized = combine(part, "NORMALIZED", PointwiseMode_t::MUL, centered, inverse);
        const Tensor weighted = combine(part, "WEIGHTED", PointwiseMode_t::MUL, dy, normalized);
        const Tensor dscale = reduce(part, "DSCALE", ReductionMode_t::ADD, weighted, mean->get_dim());
        const Tensor dbias = reduce(part, "DBIAS", ReductionMode_t::ADD, std::move(dy), mean->get_dim());
        const Tensor of_dy = combine(part, "EQ_SCALE_DY", PointwiseMode_t::MUL, std::move(scale), inverse);
        const Tensor share = combine(part, "SHARE", PointwiseMode_t::MUL, of_dy, fraction);
        const Tensor slope = combine(part, "SLOPE", PointwiseMode_t::MUL, share, std::move(inverse));
        const Tensor of_x = combine(part, "EQ_SCALE_X", PointwiseMode_t::MUL, slope, dscale);
        const Tensor level = combine(part, "LEVEL", PointwiseMode_t::MUL, share, dbias);
        const Tensor moved = combine(part, "MOVED", PointwiseMode_t::MUL, of_x, std::move(mean));
        return {dscale, dbias, of_dy, of_x, combine(part, "EQ_BIAS", PointwiseMode_t::SUB, level, moved)};
    }

    /* Operations that hipDNN lacks: their tensors can be used, but the graph is rejected. */
    Tensor concatenate(std::vector<Tensor>, Concatenate_attributes) { return refuse<1>("concatenate")[0]; }
    Tensor rng(Tensor, Tensor, Rng_attributes) { return refuse<1>("rng")[0]; }
    Tensor rope(Tensor, Tensor, RoPE_attributes) { return refuse<1>("rope")[0]; }
    Tensor rope_backward(Tensor, Tensor, RoPE_backward_attributes) { return refuse<1>("rope_backward")[0]; }
    /** Attention with block scales. */
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
    /** The same with block scales. */
    List<6> sdpa_fp8_backward(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor,
                              Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, SDPA_fp8_backward_attributes)
    {
        return refuse<6>("sdpa_fp8_backward with scales of blocks");
    }

    /** Minus each row's share of the sink times the sum of do o, summed over rows; rows beyond the lengths are skipped. */
    void sink_gradient(const Tensor& o, const Tensor& d_o, const Tensor& stats, const SDPA_backward_attributes& of)
    {
        const Part part{of.name.empty() ? "sdpa_backward" : of.name, of.compute_data_type};
        if (of.sink_token == nullptr || o->get_ragged_offset() != nullptr || shape_of(*o).size() != 4)
        {
            refuse<1>("set_dsink_token without set_sink_token, or beside ragged offsets");
            return;
        }
        Dims rows = o->get_dim();
        rows[3] = 1;
        const Tensor product = combine(part, "DO_O", PointwiseMode_t::MUL, d_o, o);
        const Tensor below = combine(part, "LESS_STATS", PointwiseMode_t::SUB, of.sink_token, stats);
        const Tensor share = change(part, "SHARE", PointwiseMode_t::EXP, below);
        Tensor each = combine(part, "EACH", PointwiseMode_t::MUL,
                              reduce(part, "ROWS", ReductionMode_t::ADD, product, rows), share);
        each = change(part, "NEGATED", PointwiseMode_t::NEG, each);
        if (of.padding_mask && of.get_seq_len_q() != nullptr)
        {
            const Tensor place = Base::pointwise(each, how(part, "PLACE", PointwiseMode_t::GEN_INDEX).set_axis(2));
            const Tensor inside = combine(part, "INSIDE", PointwiseMode_t::CMP_LT, place, of.get_seq_len_q());
            inside->set_data_type(DataType_t::BOOLEAN);
            each = Base::pointwise(each, std::make_shared<Tensor_attributes>(0.0F), inside,
                                   how(part, "SELECTED", PointwiseMode_t::BINARY_SELECT));
        }
        Reduction_attributes sum;
        sum.set_name(part.word("DSINK")).set_mode(ReductionMode_t::ADD).set_compute_data_type(part.compute);
        Base::reduction(each, of.dsink_token, std::move(sum));
    }

protected:
    std::string _refused;

    /** A composed operation: its name, which prefixes the names of its parts, and their compute type. */
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

    /** before + rate (value - before). */
    Tensor towards(const Part& part, const char* word, const Tensor& before, const Tensor& value, const Tensor& rate)
    {
        const Tensor step = combine(part, (std::string(word) + "_STEP").c_str(), PointwiseMode_t::SUB, value, before);
        const Tensor part_of = combine(part, (std::string(word) + "_PART").c_str(), PointwiseMode_t::MUL, step, rate);
        return combine(part, word, PointwiseMode_t::ADD, before, part_of);
    }

    /** cuDNN's compute type of a comparison is its result's; here it is the compared type, by default the graph's. */
    static Pointwise_attributes compared(Pointwise_attributes attributes)
    {
        switch (attributes.get_mode())
        {
        case PointwiseMode_t::CMP_EQ:
        case PointwiseMode_t::CMP_NEQ:
        case PointwiseMode_t::CMP_GT:
        case PointwiseMode_t::CMP_GE:
        case PointwiseMode_t::CMP_LT:
        case PointwiseMode_t::CMP_LE:
            attributes.compute_data_type = attributes.compute_data_type == DataType_t::BOOLEAN
                                               ? DataType_t::NOT_SET
                                               : attributes.compute_data_type;
            break;
        default: break;
        }
        return attributes;
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

    /** The shape of a tensor, inferred from the operations before it if it is a result without one. */
    const Dims& shape_of(const Tensor_attributes& x)
    {
        if (x.get_dim().empty() && Base::validate().is_bad() && x.get_dim().empty())
        {
            refuse<1>("the composition of a result without a shape (expected set_dim of it, or the types of the graph "
                      "before)");
        }
        return x.get_dim();
    }
    /** The shape of per-channel, per-image statistics. */
    Dims of_instances(const Tensor_attributes& x)
    {
        Dims dims = shape_of(x);
        std::fill(dims.begin() + std::min<std::ptrdiff_t>(2, static_cast<std::ptrdiff_t>(dims.size())), dims.end(), 1);
        return dims;
    }
    /** The shape of statistics over the scale's dimensions other than the batch. */
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
} // namespace hipdnn_frontend::compatibility::cudnn_frontend
