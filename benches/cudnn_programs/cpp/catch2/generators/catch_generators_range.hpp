#pragma once
#include "catch_generators.hpp"
