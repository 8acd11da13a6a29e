// What nvcc makes visible in every .cu file through the host's headers, for a compiler that has no host.
// Included before the first line of the author's file; macros are left alone where the command line set them.
#pragma once
#include "stdint.h"
#include "stddef.h"
#include "math.h"
#include "assert.h"
namespace std {}
