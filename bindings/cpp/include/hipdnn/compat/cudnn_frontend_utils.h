/* SPDX-License-Identifier: MIT */

/**
 * @file
 * For programs that include only a part of NVIDIA's frontend: includes all of it.
 */
#pragma once

#include "cudnn_frontend.h"
