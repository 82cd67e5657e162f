#pragma once

/// comm is written in C++20. The headers that need no other header of comm include this one, so that an
/// older language is told in one line, before anything else goes wrong.

#if __cplusplus < 202002L
#error "comm needs C++20: compile with -std=c++20 (Bazel: --cxxopt=-std=c++20)"
#endif
