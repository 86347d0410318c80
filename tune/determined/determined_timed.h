// The ASHA of Determined 0.38, one bracket: trials report validations when they like, and the search stops them.
#pragma once

#include <unordered_map>

#include "tune/determined/determined_asha.h"

namespace volador::tune::determined {

// A report ranks in every rung whose length it has reached, until the trial is not among the best of one: then it is
// closed, as at the top. Determined counts the reports of a trial that it has stopped again, and does not replace a
// trial that ends before its search closes it; here such reports have no effect, and a new trial begins in both cases.
class TimedAshaMethod final : public Method {
 public:
  explicit TimedAshaMethod(AshaBracket options);

  Operations initial_operations(Creator& creator) override;
  void created(const RequestId& request) override;
  Operations validated(Creator&, const RequestId&, double) override { return {}; }
  Operations reported(Creator& creator, const RequestId& request, int64_t units, double metric) override;
  Operations closed(Creator& creator, const RequestId& request) override;
  Operations exited(Creator& creator, const RequestId& request, ExitReason reason) override;
  double progress(const TrialRecords& trials) const override;
  std::vector<SearchRung> rungs() const override;
  Config state() const override;
  void read(const Config& state) override;

 private:
  struct Trial {
    RequestId request;
    size_t rung = 0;    // The one it is on the way to.
    bool over = false;  // Closed, or exited.
  };
  struct Rung {
    int64_t length = 0;
    RankedEntries entries;
  };
  bool passes(Rung& rung, uint32_t number, double metric) const;
  void begin(Operations& operations, Creator& creator);
  void begin_if_left(Operations& operations, Creator& creator);
  Trial* find(const RequestId& request);

  const AshaBracket options_;
  std::vector<Rung> rungs_;
  std::vector<Trial> trials_;  // In order of creation.
  std::unordered_map<RequestId, uint32_t> numbers_;
  int64_t requested_ = 0, completed_ = 0, invalid_ = 0;
};

}  // namespace volador::tune::determined
