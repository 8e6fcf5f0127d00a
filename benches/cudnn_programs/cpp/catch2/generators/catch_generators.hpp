#pragma once
#include "../catch_test_macros.hpp"

template <class T>
std::vector<T> range(T from, T to)
{
    std::vector<T> made;
    for (; from < to; ++from) {
        made.push_back(from);
    }
    return made;
}
template <class T>
std::vector<T> values(std::initializer_list<T> list)
{
    return list;
}
template <class... T>
std::vector<std::tuple<T...>> table(std::initializer_list<std::tuple<T...>> list)
{
    return list;
}
namespace Catch::Generators {
using ::range;
}
