#include "runtime/security/openssl_memory.h"

#include <openssl/crypto.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace volador::security {
namespace {

constexpr size_t kBufferBytes = 16 * 1024;  // Allocations from this size on are connection buffers.

void* allocate(size_t bytes, const char* /*file*/, int /*line*/) {
  void* block = std::malloc(bytes);
  if (bytes < kBufferBytes || block == nullptr) return block;
  static const auto kPage = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(block);
  const uintptr_t begin = (address + kPage - 1) / kPage * kPage, end = (address + bytes) / kPage * kPage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  return block;
}

void* reallocate(void* block, size_t bytes, const char* /*file*/, int /*line*/) { return std::realloc(block, bytes); }
void release(void* block, const char* /*file*/, int /*line*/) { std::free(block); }

}  // namespace

bool keep_idle_buffers_small() { return CRYPTO_set_mem_functions(allocate, reallocate, release) == 1; }

}  // namespace volador::security
