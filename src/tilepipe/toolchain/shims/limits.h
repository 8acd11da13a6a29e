// Limits of the integer types on LP64 systems.
#pragma once
#include <cuda/std/climits>
