// The function by which a program that is linked without CUDA gets NCCL from the library libvolador_nccl.so.
#pragma once

#include <cstddef>
#include <cstdint>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace volador::train {

struct NcclRequest {
  const char* torch_version = nullptr;  // TORCH_VERSION of the program; the library's must be equal.
  c10d::Store* store = nullptr;         // Shared with the backend, which uses it from threads of its own.
  int rank = 0;
  int world = 1;
  int64_t timeout_ms = 0;  // Limit of an operation.
  char* error = nullptr;   // Receives a message that ends with a zero byte.
  size_t error_bytes = 0;  // At least 1.
};

// Returns a backend, of which the caller owns one reference, or null with a message in request.error.
using MakeNcclBackend = c10d::Backend* (*)(const NcclRequest* request);
constexpr const char* kMakeNcclBackend = "volador_make_nccl_backend";

}  // namespace volador::train
