// Computes a model with hipDNN's execution provider and with ONNX Runtime's own, and compares results and times.
//
//   hipdnn_onnxruntime_example libonnxruntime_ep_hipdnn.so model.onnx [OPTION=VALUE ...]
//
// Inputs are float tensors; unknown dimensions become 1.

#include <onnxruntime_c_api.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// The first version that loads execution providers as libraries; newer versions have its functions, too.
constexpr uint32_t VERSION = 23;

const OrtApi* api = OrtGetApiBase()->GetApi(VERSION);

void check(OrtStatus* status)
{
    if (status == nullptr)
        return;
    std::string text = api->GetErrorMessage(status);
    api->ReleaseStatus(status);
    throw std::runtime_error(text);
}

// RAII for ONNX Runtime's objects, with the functions that release them.
template <typename T>
using Owned = std::unique_ptr<T, std::function<void(T*)>>;

template <typename T, typename Make, typename Release>
Owned<T> own(Make make, Release release)
{
    T* made = nullptr;
    check(make(&made));
    return Owned<T>(made, release);
}

struct Tensor {
    std::string name;
    std::vector<int64_t> dims;
    std::vector<float> values;
};

using Getter = OrtStatus* (*)(const OrtSession*, size_t, OrtAllocator*, char**);

std::string name_of(const OrtSession* session, size_t at, Getter get)
{
    OrtAllocator* allocator = nullptr;
    check(api->GetAllocatorWithDefaultOptions(&allocator));
    char* text = nullptr;
    check(get(session, at, allocator, &text));
    std::string name = text;
    check(api->AllocatorFree(allocator, text));
    return name;
}

// The inputs of a model, filled with a wave.
std::vector<Tensor> inputs_of(const OrtSession* session)
{
    size_t count = 0;
    check(api->SessionGetInputCount(session, &count));
    std::vector<Tensor> inputs(count);
    for (size_t at = 0; at < count; ++at) {
        Tensor& tensor = inputs[at];
        tensor.name = name_of(session, at, api->SessionGetInputName);
        auto type = own<OrtTypeInfo>([&](auto to) { return api->SessionGetInputTypeInfo(session, at, to); },
                                     api->ReleaseTypeInfo);
        const OrtTensorTypeAndShapeInfo* info = nullptr;
        check(api->CastTypeInfoToTensorInfo(type.get(), &info));
        ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
        if (info != nullptr)
            check(api->GetTensorElementType(info, &element));
        if (element != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT)
            throw std::runtime_error("input " + tensor.name + " is not a tensor of float");
        size_t rank = 0;
        check(api->GetDimensionsCount(info, &rank));
        tensor.dims.resize(rank);
        check(api->GetDimensions(info, tensor.dims.data(), rank));
        size_t elements = 1;
        for (int64_t& size : tensor.dims) {
            size = std::max<int64_t>(size, 1);
            elements *= static_cast<size_t>(size);
        }
        for (size_t element = 0; element < elements; ++element)
            tensor.values.push_back(std::sin(0.37f * static_cast<float>(element % 9973)));
    }
    return inputs;
}

// Runs a session once and returns the elements of its first output.
std::vector<float> run(OrtSession* session, std::vector<Tensor>& inputs)
{
    auto memory =
        own<OrtMemoryInfo>([](auto to) { return api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, to); },
                           api->ReleaseMemoryInfo);
    std::vector<Owned<OrtValue>> owned;
    std::vector<const OrtValue*> values;
    std::vector<const char*> names;
    for (Tensor& tensor : inputs) {
        auto make = [&](OrtValue** to) {
            return api->CreateTensorWithDataAsOrtValue(memory.get(), tensor.values.data(), 4 * tensor.values.size(),
                                                       tensor.dims.data(), tensor.dims.size(),
                                                       ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, to);
        };
        owned.push_back(own<OrtValue>(make, api->ReleaseValue));
        values.push_back(owned.back().get());
        names.push_back(tensor.name.c_str());
    }
    std::string output = name_of(session, 0, api->SessionGetOutputName);
    const char* output_name = output.c_str();
    auto result = own<OrtValue>(
        [&](auto to) {
            return api->Run(session, nullptr, names.data(), values.data(), values.size(), &output_name, 1, to);
        },
        api->ReleaseValue);
    auto info = own<OrtTensorTypeAndShapeInfo>([&](auto to) { return api->GetTensorTypeAndShape(result.get(), to); },
                                               api->ReleaseTensorTypeAndShapeInfo);
    ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    check(api->GetTensorElementType(info.get(), &element));
    if (element != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT)
        throw std::runtime_error("output " + output + " is not a tensor of float");
    size_t elements = 0;
    check(api->GetTensorShapeElementCount(info.get(), &elements));
    void* data = nullptr;
    check(api->GetTensorMutableData(result.get(), &data));
    const float* first = static_cast<const float*>(data);
    return std::vector<float>(first, first + elements);
}

double milliseconds(OrtSession* session, std::vector<Tensor>& inputs)
{
    constexpr int RUNS = 10;
    auto begun = std::chrono::steady_clock::now();
    for (int at = 0; at < RUNS; ++at)
        run(session, inputs);
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count() / RUNS;
}

Owned<OrtSessionOptions> new_options()
{
    return own<OrtSessionOptions>([](auto to) { return api->CreateSessionOptions(to); }, api->ReleaseSessionOptions);
}

// Registers the library, chooses its devices and passes on options NAME=VALUE.
Owned<OrtSessionOptions> options_of(OrtEnv* env, const char* library, const std::vector<std::string>& settings)
{
    check(api->RegisterExecutionProviderLibrary(env, "hipdnn", library));
    const OrtEpDevice* const* devices = nullptr;
    size_t count = 0;
    check(api->GetEpDevices(env, &devices, &count));
    std::vector<const OrtEpDevice*> chosen;
    std::copy_if(devices, devices + count, std::back_inserter(chosen), [](const OrtEpDevice* device) {
        return std::strcmp(api->EpDevice_EpName(device), "HipDNNExecutionProvider") == 0;
    });
    std::vector<std::string> words;
    for (const std::string& setting : settings) {
        size_t at = setting.find('=');
        if (at == std::string::npos)
            throw std::runtime_error("option " + setting + ", expected NAME=VALUE");
        words.insert(words.end(), {setting.substr(0, at), setting.substr(at + 1)});
    }
    std::vector<const char*> keys, values;
    for (size_t at = 0; at < words.size(); at += 2) {
        keys.push_back(words[at].c_str());
        values.push_back(words[at + 1].c_str());
    }
    auto options = new_options();
    check(api->SessionOptionsAppendExecutionProvider_V2(options.get(), env, chosen.data(), chosen.size(), keys.data(),
                                                        values.data(), keys.size()));
    return options;
}

int compare(const char* library, const char* model, const std::vector<std::string>& settings)
{
    auto env =
        own<OrtEnv>([](auto to) { return api->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "example", to); }, api->ReleaseEnv);
    auto session_of = [&](const OrtSessionOptions* options) {
        return own<OrtSession>([&](auto to) { return api->CreateSession(env.get(), model, options, to); },
                               api->ReleaseSession);
    };
    double worst = 0;
    {
        auto session = session_of(options_of(env.get(), library, settings).get());
        auto plain = session_of(new_options().get());
        auto inputs = inputs_of(session.get());
        auto have = run(session.get(), inputs), want = run(plain.get(), inputs);
        if (have.size() != want.size())
            throw std::runtime_error("the outputs have different shapes");
        double largest = 1e-30;
        for (float value : want)
            largest = std::max(largest, std::fabs(static_cast<double>(value)));
        for (size_t at = 0; at < want.size(); ++at) {
            double difference = std::fabs(static_cast<double>(have[at]) - want[at]) / largest;
            // A NaN difference must not be lost.
            if (!std::isnan(worst) && !(difference <= worst))
                worst = difference;
        }
        std::printf("%zu elements, largest difference %.1e; %.2f ms, CPUExecutionProvider %.2f ms\n", want.size(),
                    worst, milliseconds(session.get(), inputs), milliseconds(plain.get(), inputs));
    }
    // Sessions are released before the library that computes for them.
    check(api->UnregisterExecutionProviderLibrary(env.get(), "hipdnn"));
    return worst < 1e-3 ? 0 : 1;
}

} // namespace

int main(int count, char** words)
{
    if (count < 3) {
        std::fprintf(stderr, "usage: %s LIBRARY MODEL [OPTION=VALUE ...]\n", words[0]);
        return 2;
    }
    if (api == nullptr) {
        std::fprintf(stderr, "ONNX Runtime %s is too old, expected 1.23 or newer\n",
                     OrtGetApiBase()->GetVersionString());
        return 1;
    }
    try {
        return compare(words[1], words[2], {words + 3, words + count});
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
