// The dashboard over results on disk, with no cluster: a head's core without nodes, to which every run is a driver that tells of its
// experiment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "runtime/clock.h"
#include "runtime/random.h"
#include "runtime/result.h"

namespace volador::cli {

class ResultsView {
 public:
  // `folder` is a run, or holds runs right below it; new ones that appear there are shown as well. Serves on the loopback when it returns;
  // reads what there is, and what is added, on a thread of its own. kNotFound: no such folder, or no run in it; kUnavailable: the port.
  // `clock` and `random` outlive it.
  [[nodiscard]] static Result<std::unique_ptr<ResultsView>> start(const std::filesystem::path& folder, uint16_t port, const Clock& clock, Random& random);
  // As stop().
  ~ResultsView();

  size_t runs() const;  // Found at the start.
  std::string url() const;
  // Signs a browser in once, to look only.
  std::string login_link();
  void stop();

 private:
  struct Impl;
  explicit ResultsView(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::cli
