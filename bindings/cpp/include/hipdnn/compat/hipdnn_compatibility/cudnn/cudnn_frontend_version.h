/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The version of NVIDIA's frontend, by the path of AMD's header for it.
 */
#pragma once

#include "../../cudnn_frontend_version.h"
