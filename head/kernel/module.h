// A module of the cluster's state machine that the kernel does not know by name: it owns its tables and takes part in
// each event.
#pragma once

#include <string_view>

namespace volador::head {

class Module {
 public:
  virtual ~Module() = default;
  // A row of the journal, before the start. False: the table is another module's. A row of its own table that cannot be
  // read goes to Context::bad_rows.
  virtual bool load(std::string_view table, std::string_view key, std::string_view value) = 0;
  // Once, after the rows of all modules were loaded and the kernel's modules were restored.
  virtual void start() {}
  // Every 200 ms.
  virtual void on_tick() {}
  // At the end of each event, before the messages of the actors leave.
  virtual void settle() {}
  // Aborts where its tables disagree.
  virtual void check_invariants() const {}
};

}  // namespace volador::head
