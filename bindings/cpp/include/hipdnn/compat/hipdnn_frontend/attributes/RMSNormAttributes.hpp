/* SPDX-License-Identifier: MIT */

/**
 * @file
 * For programs that include a part of AMD's frontend by its path: includes all of it.
 */
#pragma once

#include "../../hipdnn_frontend.hpp"
