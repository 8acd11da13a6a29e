// `assert` as under NDEBUG: a check that never fires has no effect, and one that fires is the author's to debug.
#pragma once
#ifndef assert
#define assert(condition) ((void)0)
#endif
