// The dashboard over results on disk without a cluster: a head core without nodes, for which every run acts as a driver
// that reports its experiment.
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
  // `folder` is a run, or contains runs directly; runs that are added later are shown as well. Serves on the loopback
  // interface when it returns; reads existing and new data on its own thread. kNotFound: no such folder, or no run in
  // it; kUnavailable: the port. `clock` and `random` must outlive the object.
  [[nodiscard]] static Result<std::unique_ptr<ResultsView>> start(const std::filesystem::path& folder, uint16_t port,
                                                                  const Clock& clock, Random& random);
  // As stop().
  ~ResultsView();

  size_t runs() const;  // Number found at the start.
  std::string url() const;
  // Returns a link that signs a browser in once, read-only.
  std::string login_link();
  void stop();

 private:
  struct Impl;
  explicit ResultsView(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::cli
