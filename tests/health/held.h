#pragma once

/// What a process holds: to be flat from one reconnect to the next.

#include <dirent.h>
#include <unistd.h>

#include <cstdio>

namespace comm::test {

struct Held {
  long descriptors = 0;
  long threads = 0;
  long kilobytes = 0;  ///< Resident.
  long mappings = 0;

  static Held now() {
    Held held;
    held.descriptors = entries("/proc/self/fd");
    held.threads = entries("/proc/self/task");
    if (std::FILE* file = std::fopen("/proc/self/statm", "r"); file != nullptr) {
      long total = 0;
      if (std::fscanf(file, "%ld %ld", &total, &held.kilobytes) != 2) held.kilobytes = 0;
      held.kilobytes *= sysconf(_SC_PAGESIZE) / 1024;
      std::fclose(file);
    }
    if (std::FILE* file = std::fopen("/proc/self/maps", "r"); file != nullptr) {
      for (int c = 0; (c = std::fgetc(file)) != EOF;) held.mappings += c == '\n';
      std::fclose(file);
    }
    return held;
  }

 private:
  static long entries(const char* folder) {
    long count = 0;
    DIR* dir = opendir(folder);
    if (dir == nullptr) return -1;
    while (readdir(dir) != nullptr) ++count;
    closedir(dir);
    return count - 2;
  }
};

}  // namespace comm::test
