/* SPDX-License-Identifier: MIT */

/**
 * @file
 * For programs that include a part of AMD's header: includes all of it.
 */
#pragma once

#include "../cudnn_frontend.h"
