/* SPDX-License-Identifier: MIT */

/**
 * @file
 * cuDNN's version, by the path of AMD's header for it.
 */
#pragma once

#include "../../cudnn.h"
