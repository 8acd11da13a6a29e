// What nvcc makes visible in every .cu file through the host's headers, for a compiler that has no host.
// Included before the first line of the author's file.
#pragma once
#include "stdint.h"
#include "stddef.h"
#include "math.h"
#include "assert.h"
// Short names that the host's <sys/types.h> brings in.
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
namespace std {}
