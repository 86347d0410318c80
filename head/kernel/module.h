// Interface of a cluster state machine module that the kernel does not depend on; it owns its tables and takes part in
// each event.
#pragma once

#include <string_view>

namespace volador::head {

class Module {
 public:
  virtual ~Module() = default;
  // Loads a journal row before start(). Returns false if the table belongs to another module. Unreadable rows of its
  // own tables are added to Context::bad_rows.
  virtual bool load(std::string_view table, std::string_view key, std::string_view value) = 0;
  // Called once, after the rows of all modules are loaded and the kernel's modules are restored.
  virtual void start() {}
  // Called every 200 ms.
  virtual void on_tick() {}
  // Called at the end of each event, before actor messages are sent.
  virtual void settle() {}
  // Aborts if its tables are inconsistent.
  virtual void check_invariants() const {}
};

}  // namespace volador::head
