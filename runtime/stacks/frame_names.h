// Describes code addresses of this process: "Store::load(std::string)+0x4c in my_program".
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace volador::stacks {

// Reads each loaded file once and caches it. One thread.
class FrameNames {
 public:
  FrameNames();
  ~FrameNames();
  FrameNames(const FrameNames&) = delete;
  FrameNames& operator=(const FrameNames&) = delete;

  // `is_return`: the address is a return address, which may be in the line after the call.
  std::string name_of(uintptr_t address, bool is_return);

 private:
  struct Module;
  const Module* module_at(uintptr_t address);

  std::map<uintptr_t, std::unique_ptr<Module>> modules_;  // By load offset.
};

}  // namespace volador::stacks
