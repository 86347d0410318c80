// Words for addresses of code in this process: "Store::load(std::string)+0x4c in my_program".
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace volador::stacks {

// Reads the files that are loaded, each once, and keeps them while it lives. One thread.
class FrameNames {
 public:
  FrameNames();
  ~FrameNames();
  FrameNames(const FrameNames&) = delete;
  FrameNames& operator=(const FrameNames&) = delete;

  // `is_return`: where a function goes on after a call, which may be the line after its end.
  std::string name_of(uintptr_t address, bool is_return);

 private:
  struct Module;
  const Module* module_at(uintptr_t address);

  std::map<uintptr_t, std::unique_ptr<Module>> modules_;  // By what they were moved by.
};

}  // namespace volador::stacks
