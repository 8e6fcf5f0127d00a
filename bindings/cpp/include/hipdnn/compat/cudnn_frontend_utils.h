/* SPDX-License-Identifier: MIT */

/**
 * @file
 * For programs that include a part of NVIDIA's frontend: all of it.
 */
#pragma once

#include "cudnn_frontend.h"
