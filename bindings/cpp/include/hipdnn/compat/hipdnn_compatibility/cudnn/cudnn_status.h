/* SPDX-License-Identifier: MIT */

/**
 * @file
 * cuDNN's statuses, by the path of AMD's header for them.
 */
#pragma once

#include "../../cudnn.h"
