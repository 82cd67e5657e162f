// A library that NVTX loads, as it would a profiler's: keeps what it is told, a line for each call.

#include <nvtx3/nvToolsExt.h>

#include <mutex>
#include <string>

namespace {

std::mutex mutex;
std::string lines;  // NOLINT: as long as the process, as a profiler is.

void add(const std::string& line) {
  const std::lock_guard lock(mutex);
  lines += line + "\n";
}

nvtxDomainHandle_t on_create(const char* name) {
  add("domain " + std::string(name));
  return reinterpret_cast<nvtxDomainHandle_t>(0x40);
}

int on_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  add("push " + std::string(event->message.ascii) + " " + std::to_string(event->payload.ullValue) +
      (domain == reinterpret_cast<nvtxDomainHandle_t>(0x40) ? "" : " in another domain"));
  return 0;
}

int on_pop(nvtxDomainHandle_t) {
  add("pop");
  return 0;
}

template <class Function>
void set(NvtxFunctionTable table, int at, Function function) {
  *table[at] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0 ||
      size <= NVTX_CBID_CORE2_DomainCreateA)
    return 0;
  set(table, NVTX_CBID_CORE2_DomainCreateA, on_create);
  set(table, NVTX_CBID_CORE2_DomainRangePushEx, on_push);
  set(table, NVTX_CBID_CORE2_DomainRangePop, on_pop);
  return 1;
}

extern "C" const char* nvtx_recorder_lines() {
  const std::lock_guard lock(mutex);
  return lines.c_str();
}
