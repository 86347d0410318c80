// Experiment journals: any contents give records or an error; parsed records round-trip.
#include "tune/results/experiment_journal.h"

#include <cstdlib>

#include "tests/fuzz/driver.h"
#include "tune/results/experiment_resume.h"

namespace {

std::string written(const volador::tune::JournalContents& contents) {
  std::string bytes = "VLJRNL01";
  append_journal_record(bytes, contents.header);
  for (const auto& record : contents.records) append_journal_record(bytes, record);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace volador::tune;
  const auto contents = parse_journal({reinterpret_cast<const char*>(data), size});
  if (!contents) return 0;
  (void)effective_events(contents->records);
  (void)recorded_suggestions(contents->records);
  const std::string bytes = written(*contents);
  const auto again = parse_journal(bytes);
  if (!again || written(*again) != bytes || !again->torn.empty()) abort();
  return 0;
}

std::vector<std::string> volador::fuzz::seeds() {
  using namespace volador::tune;
  const TrialId trial(0x3f2a90c1);
  JournalContents contents;
  contents.header = {.name = "digits", .metric = "accuracy", .mode = "max", .total = 4};
  std::vector<std::string> seeds = {written(contents)};
  contents.records = {JournalSuggestion{0, Config{{"lr", 0.1}}},
                      JournalEvent{{}, {}, TrialStarted{trial, 1, "heron"}},
                      JournalEvent{{}, {}, ResultReported{trial, 1, 1, {{"accuracy", 0.5}}}},
                      JournalEvent{{}, {}, Interrupt{}},
                      JournalEvent{{}, {}, CheckpointSaved{trial, 1, 1, "3f2a90c1/checkpoint_000001"}},
                      JournalEnding{2, "interrupted"}};
  seeds.push_back(written(contents));
  return seeds;
}
