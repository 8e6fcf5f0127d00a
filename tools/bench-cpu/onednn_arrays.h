// Arrays, primitives and results of a case of the program that measures oneDNN.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include <dnnl.hpp>

using dnnl::memory;
using Arguments = std::unordered_map<int, memory>;
using Dims = memory::dims;
using tag = memory::format_tag;

namespace {

constexpr auto F32 = memory::data_type::f32;

struct Step {
    dnnl::primitive primitive;
    Arguments arguments;
};

struct Result {
    memory from;
    memory::desc plain;
};

class Arrays {
public:
    void run()
    {
        for (auto& step : steps) {
            step.primitive.execute(stream, step.arguments);
        }
        stream.wait();
    }

protected:
    explicit Arrays(std::istringstream& words) : engine(dnnl::engine::kind::cpu, 0), stream(engine)
    {
        words >> kind;
        for (std::string word; words >> word;) {
            const auto at = word.find('=');
            if (at == std::string::npos) {
                throw std::runtime_error("expected key=value: " + word);
            }
            values[word.substr(0, at)] = word.substr(at + 1);
        }
        inputs = split(values["in"]);
        outputs = split(values["out"]);
    }

    static std::vector<std::string> split(const std::string& text)
    {
        std::vector<std::string> parts;
        std::istringstream stream(text);
        for (std::string part; std::getline(stream, part, ',');) {
            parts.push_back(part);
        }
        return parts;
    }

    memory::dim number(const std::string& key) const
    {
        const auto found = values.find(key);
        if (found == values.end()) {
            throw std::runtime_error("missing: " + key);
        }
        return std::stoll(found->second);
    }

    static memory::desc plain(const Dims& dims)
    {
        Dims strides(dims.size(), 1);
        for (size_t axis = dims.size() - 1; axis > 0; axis--) {
            strides[axis - 1] = strides[axis] * dims[axis];
        }
        return {dims, F32, strides};
    }

    /// Images of a convolution: in the caller's layout, or in oneDNN's preferred one.
    memory::desc image(const Dims& dims) const
    {
        return values.count("images") != 0 && values.at("images") == "own" ? any(dims) : plain(dims);
    }

    /// Numbers separated by x.
    Dims dims(const std::string& key) const
    {
        const auto found = values.find(key);
        if (found == values.end()) {
            throw std::runtime_error("missing: " + key);
        }
        Dims parts;
        std::istringstream stream(found->second);
        for (std::string part; std::getline(stream, part, 'x');) {
            parts.push_back(std::stoll(part));
        }
        return parts;
    }

    /// Images in the caller's layout: channels first or last.
    memory::desc laid_out(const Dims& dims) const
    {
        const auto layout = values.find("layout");
        if (layout == values.end() || layout->second != "last") {
            return plain(dims);
        }
        Dims strides(dims.size(), 1);
        memory::dim stride = dims[1];
        for (size_t axis = dims.size() - 1; axis > 1; axis--) {
            strides[axis] = stride;
            stride *= dims[axis];
        }
        strides[0] = stride;
        return {dims, F32, strides};
    }

    static memory::desc any(const Dims& dims) { return {dims, F32, tag::any}; }

    /// The next array, in the caller's layout.
    memory read(const Dims& dims) { return read_as(plain(dims)); }

    memory read_as(const memory::desc& as)
    {
        memory array(as, engine);
        if (next >= inputs.size()) {
            throw std::runtime_error("too few arrays");
        }
        std::ifstream file(inputs[next++], std::ios::binary);
        const auto size = static_cast<std::streamsize>(array.get_desc().get_size());
        if (!file.read(static_cast<char*>(array.get_data_handle()), size)) {
            throw std::runtime_error("cannot read an array");
        }
        return array;
    }

    /// The next array, in the layout that a primitive requires.
    memory read(const Dims& dims, const memory::desc& as) { return moved(read(dims), as); }

    memory moved(memory from, const memory::desc& as)
    {
        if (from.get_desc() == as) {
            return from;
        }
        memory to(as, engine);
        dnnl::reorder(from, to).execute(stream, from, to);
        stream.wait();
        return to;
    }

    memory made(const memory::desc& as, const memory::desc& like)
    {
        memory array(as, engine);
        results.push_back({array, like});
        return array;
    }

    void write()
    {
        for (size_t i = 0; i < outputs.size() && i < results.size(); i++) {
            const memory array = moved(results[i].from, results[i].plain);
            std::ofstream file(outputs[i], std::ios::binary);
            file.write(static_cast<const char*>(array.get_data_handle()),
                       static_cast<std::streamsize>(array.get_desc().get_size()));
        }
    }

    void scratch(Arguments& arguments, const memory::desc& as)
    {
        if (as.get_size() > 0) {
            arguments[DNNL_ARG_SCRATCHPAD] = memory(as, engine);
        }
    }

    dnnl::primitive_attr attributes()
    {
        dnnl::primitive_attr made;
        made.set_scratchpad_mode(dnnl::scratchpad_mode::user);
        return made;
    }

    template <typename Primitive, typename Desc>
    void add(const Primitive& primitive, const Desc& desc, Arguments arguments)
    {
        scratch(arguments, desc.scratchpad_desc());
        steps.push_back({primitive, arguments});
    }

    std::string kind;
    dnnl::engine engine;
    dnnl::stream stream;
    std::map<std::string, std::string> values;
    std::vector<std::string> inputs, outputs;
    size_t next = 0;
    std::vector<Step> steps;
    std::vector<Result> results;
};

} // namespace
