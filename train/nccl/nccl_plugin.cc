// Library libvolador_nccl.so: NCCL for programs that are linked with the CPU part of LibTorch. It needs libtorch_cuda,
// NCCL and the headers of CUDA.
#define USE_C10D_NCCL 1

#include "train/nccl/nccl_plugin.h"

#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

extern "C" __attribute__((visibility("default"))) c10d::Backend* volador_make_nccl_backend(
    const volador::train::NcclRequest* request) {
  const auto fail = [&](const std::string& message) -> c10d::Backend* {
    const size_t size = std::min(message.size(), request->error_bytes - 1);
    std::memcpy(request->error, message.data(), size);
    request->error[size] = '\0';
    return nullptr;
  };
  if (std::strcmp(request->torch_version, TORCH_VERSION) != 0) {
    return fail(std::string("libvolador_nccl.so is built for LibTorch " TORCH_VERSION ", the program for ") +
                request->torch_version + ": build both with the same LibTorch");
  }
  // By default NCCL's watchdogs end the process after a timeout. Here they only give up the communicator (2).
  ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2", 0);
  ::setenv("TORCH_NCCL_ENABLE_MONITORING", "0", 0);
  try {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = std::chrono::milliseconds(request->timeout_ms);
    auto store = c10::intrusive_ptr<c10d::Store>::reclaim_copy(request->store);
    c10::intrusive_ptr<c10d::Backend> backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(
        std::move(store), request->rank, request->world, std::move(options));
    return backend.release();
  } catch (const std::exception& e) {
    return fail(e.what());
  }
}
