#pragma once

/// The header of a NCCL from before windows, ncclCommShrink and ncclAlltoAll, as far as comm can tell:
/// the one that is installed, under an older number. docs/nccl.md says which version brought what.

#pragma GCC system_header
#include_next <nccl.h>

#undef NCCL_VERSION_CODE
#define NCCL_VERSION_CODE 22605
