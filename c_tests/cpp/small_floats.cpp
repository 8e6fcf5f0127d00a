/* Floats of 16 bits and fewer: every code, rounding, and the members that AMD's types have. */

#include <hipdnn/compat/cudnn_frontend.h>
#include <hipdnn/compat/hipdnn_data_sdk/types.hpp>

#include <sstream>

#include "check.hpp"

namespace types = hipdnn_data_sdk::types;

namespace
{

/** Each code becomes a float and comes back, and halfway values go to the even neighbour. */
template <typename Type>
void every_code(int codes)
{
    for (int code = 0; code < codes; code++)
    {
        const Type one = Type::from_bits(static_cast<decltype(one.data)>(code));
        const auto value = static_cast<float>(one);
        const Type back(value);
        const bool is_infinite = std::isinf(value);
        CHECK(isnan(one) == std::isnan(value) && isinf(one) == is_infinite);
        CHECK(std::isnan(value) ? isnan(back) : is_infinite || back.data == one.data);
    }
    const auto largest = static_cast<int>(std::numeric_limits<Type>::max().data);
    for (int code = 0; code < largest; code++)
    {
        const Type low = Type::from_bits(static_cast<decltype(low.data)>(code));
        const Type high = Type::from_bits(static_cast<decltype(high.data)>(code + 1));
        const float a = static_cast<float>(low), b = static_cast<float>(high), middle = a + (b - a) / 2;
        CHECK(a < b);
        CHECK(Type(middle).data == (code % 2 == 0 ? low.data : high.data));
        CHECK(Type(std::nextafter(middle, a)).data == low.data && Type(std::nextafter(middle, b)).data == high.data);
        CHECK(Type(-a).data == Type(-1.0F * a).data);
    }
}

/** Beyond the largest: the largest where nothing else was asked for. */
template <typename Type>
void saturates(float largest)
{
    CHECK(static_cast<float>(std::numeric_limits<Type>::max()) == largest);
    CHECK(static_cast<float>(std::numeric_limits<Type>::lowest()) == -largest);
    CHECK(static_cast<float>(Type(largest * 1.2F)) == largest && static_cast<float>(Type(-INFINITY)) == -largest);
}

void members()
{
    const types::half one = types::half::from_bits(0x3c00);
    CHECK(static_cast<float>(one) == 1 && one.data == 0x3c00 && static_cast<double>(one) == 1);
    const types::half three = one + types::half(2);
    CHECK(three == types::half(3.0F) && -three == types::half(-3) && three > one && (three * three).data == 0x4880);
    types::half sum;
    sum += three;
    CHECK(sum.data == three.data && types::fabs(-1.5) == 1.5 && abs(-three) == three &&
          fma(one, three, three).data == 0x4600);
    CHECK(max(three, std::numeric_limits<types::half>::quiet_NaN()) == three);
    CHECK(std::numeric_limits<types::half>::max().data == 0x7bff &&
          std::numeric_limits<types::half>::epsilon().data == 0x1400);
    CHECK(static_cast<float>(std::numeric_limits<types::bfloat16>::epsilon()) == 0x1p-7F);
    const types::bfloat16 wide(three);
    CHECK(wide.data == 0x4040 && types::fp8_e4m3(wide).data == types::fp8_e4m3(3.0F).data);
    using namespace hipdnn_data_sdk::types;
    CHECK((1.5_h).data == 0x3e00 && (2.0_e4m3).data == 0x40 && (1.0_e5m2).data == 0x3c && (1.0_bf).data == 0x3f80);
    CHECK(types::fp8_e8m0(5.0F).data == 129 && static_cast<float>(types::fp8_e8m0::from_bits(0)) == 0x1p-127F);
    CHECK(isnan(types::fp8_e8m0(NAN)) && types::fp8_e8m0(-1).data == 0);
    CHECK(types::fp8_e4m3_fnuz(-0.0F).data == 0 && isnan(types::fp8_e4m3_fnuz(NAN)));
    CHECK(types::fp4_e2m1(NAN).data == 0 && types::fp4_e2m1::from_bits(0xf7).data == 7);
    std::ostringstream text;
    text << three << ' ' << types::fp8_e5m2(0.25F);
    CHECK(text.str() == "3 0.25");
    CHECK(hipdnn::getDataTypeEnumFromType<types::fp8_e4m3>() == hipdnn::DataType::FP8_E4M3);
    CHECK(hipdnn::Tensor(types::half(2.0F)).get_data_type() == hipdnn::DataType::HALF);
}

/** The raw bits by CUDA's names. */
void raw()
{
    __half_raw bits = __float2half(1.0F);
    CHECK(bits.x == 0x3c00);
    bits.x = 0x4000;
    const __half two(bits);
    CHECK(__half2float(two) == 2 && static_cast<__half_raw>(two).x == 0x4000);
    CHECK(__nv_bfloat16_raw(__float2bfloat16(1.0F)).x == 0x3f80);
}

} // namespace

int main()
{
    every_code<types::half>(0x10000);
    every_code<types::bfloat16>(0x10000);
    every_code<types::fp8_e4m3>(256);
    every_code<types::fp8_e5m2>(256);
    every_code<types::fp8_e4m3_fnuz>(256);
    every_code<types::fp8_e5m2_fnuz>(256);
    every_code<types::fp6_e2m3>(64);
    every_code<types::fp6_e3m2>(64);
    every_code<types::fp4_e2m1>(16);
    saturates<types::fp8_e4m3>(448);
    saturates<types::fp8_e5m2>(57344);
    saturates<types::fp8_e4m3_fnuz>(240);
    saturates<types::fp8_e5m2_fnuz>(57344);
    saturates<types::fp6_e2m3>(7.5F);
    saturates<types::fp6_e3m2>(28);
    saturates<types::fp4_e2m1>(6);
    members();
    raw();
    std::puts("right");
}
