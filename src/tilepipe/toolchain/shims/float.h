// Limits of IEEE 754 binary32 and binary64.
#pragma once
#include <cuda/std/cfloat>
