// The emulator's runtime, one translation unit. Compiled to LLVM IR text when the package is built and to
// machine code once per process.
#include "access.h"
#include "arith.h"
#include "atomics.h"
#include "collectives.h"
#include "copies.h"
#include "mbarrier.h"
#include "scheduler.h"
#include "shadow.h"
#include "tensor.h"
