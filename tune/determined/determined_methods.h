// Determined's search methods other than ASHA.
#pragma once

#include <unordered_map>

#include "tune/determined/determined_search.h"

namespace volador::tune::determined {

// Random trials of full length, for the searchers `random` and `single`. A trial's Close stands right behind its
// ValidateAfter. When an invalid trial of `random` is closed, another one begins in its place.
class RandomMethod final : public Method {
 public:
  explicit RandomMethod(const SearchOptions& options) : options_(options), single_(options.name == "single") {}

  Operations initial_operations(Creator& creator) override;
  Operations validated(Creator&, const RequestId&, double) override { return {}; }
  Operations closed(Creator& creator, const RequestId& request) override;
  Operations exited(Creator& creator, const RequestId& request, ExitReason reason) override;
  double progress(const TrialRecords& trials) const override;
  Config state() const override;
  void read(const Config& state) override;

 private:
  void begin(Operations& operations, Creator& creator);
  int64_t trials() const { return single_ ? 1 : options_.max_trials; }

  const SearchOptions options_;
  const bool single_;
  int64_t created_ = 0;
};

// Trials of full length, one per grid point; the last point starts first.
class GridMethod final : public Method {
 public:
  GridMethod(const SearchOptions& options, std::vector<Config> points)
      : options_(options), total_(points.size()), left_(std::move(points)) {}

  Operations initial_operations(Creator& creator) override;
  Operations validated(Creator&, const RequestId&, double) override { return {}; }
  Operations closed(Creator& creator, const RequestId& request) override;
  Operations exited(Creator&, const RequestId&, ExitReason) override { return {}; }
  double progress(const TrialRecords& trials) const override;
  Config state() const override;
  void read(const Config& state) override;

 private:
  void begin(Operations& operations, Creator& creator);

  const SearchOptions options_;
  const size_t total_;
  std::vector<Config> left_;  // Next one last.
};

// Several methods in parallel; each trial belongs to the method that created it.
class TournamentMethod final : public Method {
 public:
  explicit TournamentMethod(std::vector<std::unique_ptr<Method>> methods) : methods_(std::move(methods)) {}

  Operations initial_operations(Creator& creator) override;
  void created(const RequestId& request) override;
  Operations validated(Creator& creator, const RequestId& request, double metric) override;
  Operations reported(Creator& creator, const RequestId& request, int64_t units, double metric) override;
  Operations closed(Creator& creator, const RequestId& request) override;
  Operations exited(Creator& creator, const RequestId& request, ExitReason reason) override;
  double progress(const TrialRecords& trials) const override;
  std::vector<SearchRung> rungs() const override;
  Config state() const override;
  void read(const Config& state) override;

 private:
  Operations owned(size_t method, Operations operations);
  template <class F>
  Operations ask(const RequestId& request, F&& ask);

  const std::vector<std::unique_ptr<Method>> methods_;
  std::unordered_map<RequestId, size_t> owners_;
};

}  // namespace volador::tune::determined
