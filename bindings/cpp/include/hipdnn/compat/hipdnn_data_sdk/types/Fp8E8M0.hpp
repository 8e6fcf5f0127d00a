/* SPDX-License-Identifier: MIT */

/**
 * @file
 * For programs that include one of AMD's types by its path: includes all of them.
 */
#pragma once

#include "../types.hpp"
