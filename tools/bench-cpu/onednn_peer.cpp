// Measures primitives of oneDNN.
//
// Every line of standard input is one request, answered with one line of JSON:
//   case KIND key=value ... in=PATH,PATH,... out=PATH,PATH,...
//       makes the primitives, executes them once and writes their results
//   run SECONDS
//       executes them for that time, and returns the mean milliseconds of an execution
// Weights have oneDNN's preferred layout; with images=own, so have the images of convolutions. Other arrays have the caller's layout.

#include "onednn_problems.h"

namespace {

class Case : public Problems {
public:
    explicit Case(std::istringstream& words) : Problems(words)
    {
        if (kind == "conv") {
            convolution();
        } else if (kind == "data_gradient") {
            data_gradient();
        } else if (kind == "filter_gradient") {
            filter_gradient();
        } else if (kind == "matmul") {
            matmul();
        } else if (kind == "batchnorm") {
            batchnorm();
        } else if (kind == "layernorm") {
            layernorm();
        } else if (kind == "softmax") {
            softmax();
        } else if (kind.rfind("images_", 0) == 0) {
            images(kind.substr(7));
        } else if (kind == "pool") {
            pooling();
        } else if (kind == "reduce") {
            reduction();
        } else if (kind == "eltwise") {
            eltwise();
        } else if (kind == "binary") {
            binary();
        } else if (kind == "matmuls") {
            matmuls();
        } else {
            throw std::runtime_error("no such kind: " + kind);
        }
        run();
        write();
    }

private:
    // Sizes of a convolution.
    struct Sizes {
        Dims x, w, y, stride, pad;
        Dims plain_w;
    };

    Sizes sizes() const
    {
        const auto n = number("n"), c = number("c"), h = number("h"), k = number("k"), r = number("r");
        const auto stride = number("stride"), pad = number("pad"), groups = number("groups");
        const auto p = (h + 2 * pad - r) / stride + 1;
        Sizes of;
        of.x = {n, c, h, h};
        of.y = {n, k, p, p};
        of.plain_w = {k, c / groups, r, r};
        of.w = groups == 1 ? of.plain_w : Dims{groups, k / groups, c / groups, r, r};
        of.stride = {stride, stride};
        of.pad = {pad, pad};
        return of;
    }

    dnnl::convolution_forward::primitive_desc forward(const Sizes& of, bool is_training,
                                                      const dnnl::primitive_attr& attributes)
    {
        return {engine,
                is_training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference,
                dnnl::algorithm::convolution_auto,
                image(of.x),
                any(of.w),
                is_training ? memory::desc() : plain({of.y[1]}),
                image(of.y),
                of.stride,
                of.pad,
                of.pad,
                attributes};
    }

    void convolution()
    {
        const auto of = sizes();
        const auto after = values["after"];
        auto attributes = this->attributes();
        dnnl::post_ops behind;
        if (after == "residual") {
            behind.append_binary(dnnl::algorithm::binary_add, any(of.y));
        }
        if (after == "relu6") {
            behind.append_eltwise(dnnl::algorithm::eltwise_clip, 0.0F, 6.0F);
        } else {
            behind.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
        }
        attributes.set_post_ops(behind);
        const auto desc = forward(of, false, attributes);
        Arguments arguments{{DNNL_ARG_SRC, read(of.x, desc.src_desc())}};
        arguments[DNNL_ARG_WEIGHTS] = read(of.w, desc.weights_desc());
        arguments[DNNL_ARG_BIAS] = read({of.y[1]});
        if (after == "residual") {
            arguments[DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1] = read(of.y, desc.dst_desc());
        }
        arguments[DNNL_ARG_DST] = made(desc.dst_desc(), plain(of.y));
        scratch(arguments, desc.scratchpad_desc());
        steps.push_back({dnnl::convolution_forward(desc), arguments});
    }

    void data_gradient()
    {
        const auto of = sizes();
        const dnnl::convolution_backward_data::primitive_desc desc(
            engine, dnnl::algorithm::convolution_auto, image(of.x), any(of.w), image(of.y), of.stride, of.pad, of.pad,
            forward(of, true, attributes()), attributes());
        Arguments arguments{{DNNL_ARG_DIFF_DST, read(of.y, desc.diff_dst_desc())}};
        arguments[DNNL_ARG_WEIGHTS] = read(of.w, desc.weights_desc());
        arguments[DNNL_ARG_DIFF_SRC] = made(desc.diff_src_desc(), plain(of.x));
        scratch(arguments, desc.scratchpad_desc());
        steps.push_back({dnnl::convolution_backward_data(desc), arguments});
    }

    void filter_gradient()
    {
        const auto of = sizes();
        const dnnl::convolution_backward_weights::primitive_desc desc(
            engine, dnnl::algorithm::convolution_auto, image(of.x), any(of.w), image(of.y), of.stride, of.pad, of.pad,
            forward(of, true, attributes()), attributes());
        Arguments arguments{{DNNL_ARG_SRC, read(of.x, desc.src_desc())}};
        arguments[DNNL_ARG_DIFF_DST] = read(of.y, desc.diff_dst_desc());
        arguments[DNNL_ARG_DIFF_WEIGHTS] = made(desc.diff_weights_desc(), plain(of.w));
        scratch(arguments, desc.scratchpad_desc());
        steps.push_back({dnnl::convolution_backward_weights(desc), arguments});
    }

    void matmul()
    {
        const auto m = number("m"), k = number("k"), n = number("n");
        const auto after = values["after"];
        auto attributes = this->attributes();
        if (after == "gelu") {
            dnnl::post_ops behind;
            behind.append_eltwise(dnnl::algorithm::eltwise_gelu_erf, 0.0F, 0.0F);
            attributes.set_post_ops(behind);
        }
        const auto bias = after == "none" ? memory::desc() : plain({1, n});
        const dnnl::matmul::primitive_desc desc(engine, plain({m, k}), any({k, n}), bias, plain({m, n}), attributes);
        Arguments arguments{{DNNL_ARG_SRC, read({m, k})}};
        arguments[DNNL_ARG_WEIGHTS] = read({k, n}, desc.weights_desc());
        if (after != "none") {
            arguments[DNNL_ARG_BIAS] = read({1, n});
        }
        arguments[DNNL_ARG_DST] = made(desc.dst_desc(), plain({m, n}));
        scratch(arguments, desc.scratchpad_desc());
        steps.push_back({dnnl::matmul(desc), arguments});
    }

    void batchnorm()
    {
        const auto c = dims("x")[1];
        const auto image = laid_out(dims("x"));
        const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
        const dnnl::batch_normalization_forward::primitive_desc forward(engine, dnnl::prop_kind::forward_training,
                                                                        image, image, 1e-5F, flags, attributes());
        const dnnl::batch_normalization_backward::primitive_desc backward(
            engine, dnnl::prop_kind::backward, image, image, image, 1e-5F, flags, forward, attributes());
        const auto x = read_as(image), dy = read_as(image), scale = read({c}), shift = read({c});
        const memory mean(forward.mean_desc(), engine), variance(forward.variance_desc(), engine);
        Arguments arguments{{DNNL_ARG_SRC, x},     {DNNL_ARG_SCALE, scale},       {DNNL_ARG_SHIFT, shift},
                            {DNNL_ARG_MEAN, mean}, {DNNL_ARG_VARIANCE, variance}, {DNNL_ARG_DST, made(image, image)}};
        scratch(arguments, forward.scratchpad_desc());
        steps.push_back({dnnl::batch_normalization_forward(forward), arguments});
        const auto channel = plain({c});
        Arguments back{{DNNL_ARG_SRC, x},     {DNNL_ARG_DIFF_DST, dy},       {DNNL_ARG_SCALE, scale},
                       {DNNL_ARG_MEAN, mean}, {DNNL_ARG_VARIANCE, variance}, {DNNL_ARG_DIFF_SRC, made(image, image)}};
        back[DNNL_ARG_DIFF_SCALE] = made(channel, channel);
        back[DNNL_ARG_DIFF_SHIFT] = made(channel, channel);
        scratch(back, backward.scratchpad_desc());
        steps.push_back({dnnl::batch_normalization_backward(backward), back});
    }

    void layernorm()
    {
        const auto m = number("m"), n = number("n");
        const auto rows = plain({m, n});
        const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
        const dnnl::layer_normalization_forward::primitive_desc desc(engine, dnnl::prop_kind::forward_inference, rows,
                                                                     rows, 1e-5F, flags, attributes());
        Arguments arguments{{DNNL_ARG_SRC, read({m, n})}};
        arguments[DNNL_ARG_SCALE] = read({n});
        arguments[DNNL_ARG_SHIFT] = read({n});
        arguments[DNNL_ARG_DST] = made(rows, rows);
        scratch(arguments, desc.scratchpad_desc());
        steps.push_back({dnnl::layer_normalization_forward(desc), arguments});
    }
};

double burst(Case& of, double seconds)
{
    using Clock = std::chrono::steady_clock;
    of.run();
    const auto start = Clock::now();
    for (int count = 1;; count++) {
        of.run();
        const std::chrono::duration<double> passed = Clock::now() - start;
        if (passed.count() >= seconds) {
            return 1000.0 * passed.count() / count;
        }
    }
}

} // namespace

int main()
{
    const auto* version = dnnl_version();
    std::printf("{\"ready\": \"oneDNN %d.%d.%d\"}\n", version->major, version->minor, version->patch);
    std::fflush(stdout);
    std::unique_ptr<Case> open;
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        std::string verb;
        words >> verb;
        try {
            if (verb == "case") {
                open.reset();
                open = std::make_unique<Case>(words);
                std::printf("{\"made\": true}\n");
            } else if (verb == "run" && open) {
                double seconds = 0.0;
                words >> seconds;
                std::printf("{\"ms\": %.9g}\n", burst(*open, seconds));
            } else {
                std::printf("{\"failure\": \"case or run was expected\"}\n");
            }
        } catch (const std::exception& error) {
            // oneDNN's texts need no escaping in JSON.
            std::printf("{\"failure\": \"%s\"}\n", error.what());
        }
        std::fflush(stdout);
    }
    return 0;
}
