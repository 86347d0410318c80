#include "experiments/metrics/metric_store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "tests/temporary_directory.h"

namespace volador::experiments {
namespace {

namespace fs = std::filesystem;

// What a store should have: rows by experiment, trial, group and batches.
struct ModelRow {
  int64_t time_ms = 0;
  std::map<std::string, double> values;
};
using Model = std::map<int64_t, std::map<int64_t, std::map<std::string, std::map<int64_t, ModelRow>>>>;
using Point = std::tuple<int64_t, int64_t, uint64_t>;  // Batches, time, bits of the value.

void append_to(Model& model, const MetricReport& report) {
  ModelRow row{.time_ms = report.time_ms};
  for (const auto& [name, value] : report.values) row.values[name] = value;
  model[report.experiment][report.trial][report.group][report.batches] = row;
}
void rewind_in(Model& model, const MetricRewind& rewind) {
  for (auto& [group, rows] : model[rewind.experiment][rewind.trial]) {
    if (rewind.group.empty() || rewind.group == group) rows.erase(rows.upper_bound(rewind.batches), rows.end());
  }
}

std::map<std::string, std::vector<Point>> series_in(const Model& model, int64_t experiment, int64_t trial,
                                                    const std::string& group, int64_t from, int64_t to) {
  std::map<std::string, std::vector<Point>> series;
  const auto trials = model.find(experiment);
  if (trials == model.end() || !trials->second.contains(trial)) return series;
  const auto& groups = trials->second.at(trial);
  if (!groups.contains(group)) return series;
  for (const auto& [batches, row] : groups.at(group)) {
    if ((from != 0 && batches < from) || (to != 0 && batches > to)) continue;
    for (const auto& [name, value] : row.values)
      series[name].emplace_back(batches, row.time_ms, std::bit_cast<uint64_t>(value));
  }
  return series;
}

class MetricStores : public ::testing::Test {
 protected:
  void open(size_t log_bytes = size_t{8} << 20, bool sync = false) {
    store_.reset();
    auto store = MetricStore::open({.folder = folder(), .sync = sync, .log_bytes = log_bytes});
    ASSERT_TRUE(store.has_value()) << store.error().message;
    store_.emplace(std::move(*store));
  }
  fs::path folder() const { return directory_.path() / "metrics"; }

  // Trials of experiment e have the ids 100 e to 100 e + 99.
  static std::optional<int64_t> experiment_of(int64_t trial) { return trial / 100; }

  v1::GetMetricsReply query(const v1::GetMetricsRequest& request) {
    auto reply = store_->query(request, experiment_of);
    EXPECT_TRUE(reply.has_value());
    return reply ? *reply : v1::GetMetricsReply();
  }
  v1::GetMetricsReply query(int64_t trial, const std::string& group, int points = -1, int64_t from = 0,
                            int64_t to = 0) {
    v1::GetMetricsRequest request;
    request.add_trials(trial);
    request.set_group(group);
    request.set_max_points(points);
    request.set_from_batch(from);
    request.set_to_batch(to);
    return query(request);
  }
  static std::vector<Point> points_of(const v1::TrialMetricSeries& series) {
    std::vector<Point> points;
    for (int i = 0; i < series.batches_size(); ++i)
      points.emplace_back(series.batches(i), series.times_ms(i), std::bit_cast<uint64_t>(series.values(i)));
    return points;
  }
  void expect_series(const Model& model, int64_t trial, const std::string& group, int64_t from = 0, int64_t to = 0) {
    std::map<std::string, std::vector<Point>> found;
    const auto reply = query(trial, group, -1, from, to);
    for (const auto& series : reply.series()) {
      EXPECT_EQ(series.trial(), trial);
      EXPECT_EQ(series.group(), group);
      found[series.metric()] = points_of(series);
    }
    EXPECT_EQ(found, series_in(model, *experiment_of(trial), trial, group, from, to))
        << trial << " " << group << " " << from << " " << to;
  }
  void append(const std::vector<MetricReport>& reports) {
    const auto done = store_->append(reports);
    EXPECT_TRUE(done.has_value()) << done.error().message;
  }
  static MetricReport report(int64_t trial, int64_t batches, double loss, const std::string& group = "validation") {
    return {trial / 100, trial, group, batches, 1000 + batches, {{"loss", loss}}};
  }

  TemporaryDirectory directory_;
  std::optional<MetricStore> store_;
};

TEST_F(MetricStores, KeepReports) {
  open();
  append({{1, 100, "validation", 10, 5, {{"loss", 0.5}, {"accuracy", 0.25}}},
          {1, 100, "training", 10, 6, {{"loss", 0.75}}},
          {1, 101, "validation", 10, 7, {{"loss", 2}}}});
  for (int round = 0; round < 3; ++round) {
    v1::GetMetricsRequest request;
    for (const int64_t trial : {101, 100, 155}) request.add_trials(trial);
    const auto reply = query(request);
    ASSERT_EQ(reply.series_size(), 3);
    EXPECT_EQ(reply.series(0).ShortDebugString(),
              "trial: 101 group: \"validation\" metric: \"loss\" batches: 10 values: 2 times_ms: 7");
    EXPECT_EQ(reply.series(1).metric(), "accuracy");
    EXPECT_EQ(reply.series(2).metric(), "loss");
    request.add_metrics("loss");
    EXPECT_EQ(query(request).series_size(), 2);
    EXPECT_EQ(*store_->names(1, 100), (std::vector<MetricStore::Name>{
                                          {"training", "loss"}, {"validation", "accuracy"}, {"validation", "loss"}}));
    EXPECT_TRUE(store_->names(9, 900)->empty());
    if (round == 0) open();
    if (round == 1) {
      ASSERT_TRUE(store_->flush().has_value());
    }
  }
}

TEST_F(MetricStores, LastOfEqualNamesCounts) {
  open();
  append({{1, 100, "validation", 1, 0, {{"loss", 1}, {"accuracy", 2}, {"loss", 3}}}});
  const auto reply = query(100, "validation");
  ASSERT_EQ(reply.series_size(), 2);
  EXPECT_EQ(reply.series(1).values(0), 3);
}

TEST_F(MetricStores, SyncWhatTheyWrite) {
  open(1, true);
  for (int64_t i = 1; i <= 3; ++i) append({report(100, i, 1)});
  ASSERT_TRUE(store_->rewind({1, 100, 1}).has_value());
  append({report(100, 2, 7)});
  ASSERT_TRUE(store_->flush().has_value());
  open();
  ASSERT_EQ(query(100, "").series_size(), 1);
  EXPECT_EQ(query(100, "").series(0).values(1), 7);
  ASSERT_TRUE(store_->remove(1).has_value());
  EXPECT_EQ(query(100, "").series_size(), 0);
  open();
  EXPECT_EQ(query(100, "").series_size(), 0);
}

TEST_F(MetricStores, RefuseTooManyTrials) {
  open();
  v1::GetMetricsRequest request;
  for (int64_t i = 0; i < 1001; ++i) request.add_trials(i);
  const auto reply = store_->query(request, experiment_of);
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(MetricStores, ThinOutLongSeries) {
  open();
  std::vector<MetricReport> reports;
  constexpr int64_t kCount = 50'000;
  for (int64_t i = 1; i <= kCount; ++i) {
    double value = std::sin(static_cast<double>(i) / 1000);
    if (i == 31'234) value = 99;
    if (i == 12'345) value = -99;
    if (i == 20'000) value = std::nan("");
    reports.push_back(report(100, i, value));
  }
  append(reports);
  for (int round = 0; round < 2; ++round) {
    for (const int points : {0, 5, 20, 1000, 49'999}) {
      const auto reply = query(100, "", points);
      ASSERT_EQ(reply.series_size(), 1);
      const auto& series = reply.series(0);
      EXPECT_LE(series.batches_size(), points == 0 ? 1000 : points);
      EXPECT_GE(series.batches_size(), points == 0 ? 600 : points / 2);
      EXPECT_EQ(series.batches(0), 1);
      EXPECT_EQ(series.batches(series.batches_size() - 1), kCount);
      std::set<int64_t> batches(series.batches().begin(), series.batches().end());
      EXPECT_EQ(batches.size(), static_cast<size_t>(series.batches_size()));
      EXPECT_TRUE(std::is_sorted(series.batches().begin(), series.batches().end()));
      for (const int64_t extreme : {31'234, 12'345, 20'000}) EXPECT_TRUE(batches.contains(extreme)) << points;
    }
    EXPECT_EQ(query(100, "", 10, 31'234, 31'236).series(0).batches_size(), 3);
    ASSERT_TRUE(store_->flush().has_value());
  }
}

// Random calls, with random moments at which the log is flushed and the store is opened again.
TEST_F(MetricStores, AreLikeTheirModel) {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t limit) { return static_cast<int64_t>(random() % limit); };
    Model model;
    fs::remove_all(folder());
    const size_t log_bytes = std::vector<size_t>{1, 2000, 100'000}[seed % 3];
    open(log_bytes);
    std::map<int64_t, int64_t> batches;
    const std::vector<std::string> groups{"training", "validation", "other"}, names{"loss", "accuracy", "rate"};
    for (int step = 0; step < (log_bytes == 1 ? 60 : 300); ++step) {
      const int64_t trial = 100 * (1 + below(2)) + below(3);
      switch (below(20)) {
        case 0:
          open(log_bytes);
          break;
        case 1:
          ASSERT_TRUE(store_->flush().has_value());
          break;
        case 2: {
          MetricRewind rewind{trial / 100, trial, batches[trial] - below(40)};
          if (below(2) == 0) {
            rewind.group = groups[static_cast<size_t>(below(3))];
          } else {
            batches[trial] = rewind.batches;
          }
          ASSERT_TRUE(store_->rewind(rewind).has_value());
          rewind_in(model, rewind);
          break;
        }
        case 3:
          if (below(5) == 0) {
            ASSERT_TRUE(store_->remove(trial / 100).has_value());
            model.erase(trial / 100);
          }
          break;
        case 4: {
          const int64_t from = below(500), to = below(500);
          expect_series(model, trial, groups[static_cast<size_t>(below(3))], from, to);
          break;
        }
        default: {
          std::vector<MetricReport> reports;
          for (int64_t left = below(seed % 2 == 0 ? 20 : 1000); left >= 0; --left) {
            batches[trial] += below(3);
            MetricReport made{trial / 100, trial, groups[static_cast<size_t>(below(3))], batches[trial],
                              below(100'000)};
            if (below(30) == 0) made.batches = below(static_cast<uint32_t>(std::max<int64_t>(1, batches[trial])));
            for (const std::string& name : names) {
              if (below(3) != 0)
                made.values.emplace_back(name, below(2) == 0 ? 0.1 * static_cast<double>(below(100)) : 0.5);
            }
            append_to(model, made);
            reports.push_back(std::move(made));
          }
          append(reports);
        }
      }
      if (step % 10 == 0) expect_series(model, trial, "training");
    }
    for (const auto& [experiment, trials] : model) {
      for (const auto& [trial, rows] : trials) {
        for (const std::string& group : groups) expect_series(model, trial, group);
      }
    }
    if (HasFailure()) break;
  }
}

TEST_F(MetricStores, MergeSmallBlocks) {
  open();
  Model model;
  for (int64_t i = 1; i <= 300; ++i) {
    append_to(model, report(100, i, 1.5));
    append({report(100, i, 1.5)});
    ASSERT_TRUE(store_->flush().has_value());
  }
  expect_series(model, 100, "validation");
  // A block for every report would take more than 100 bytes each.
  EXPECT_LE(fs::file_size(folder() / "trials/1/100.metrics"), 300 * 12 + 32 * 250);
}

TEST_F(MetricStores, DropATornEndOfTheLog) {
  open();
  append({report(100, 1, 1)});
  append({report(100, 2, 2)});
  const auto size = fs::file_size(folder() / "log");
  store_.reset();
  fs::resize_file(folder() / "log", size - 3);
  open();
  EXPECT_EQ(query(100, "").series(0).batches_size(), 1);
  append({report(100, 3, 3)});
  open();
  const auto reply = query(100, "");
  ASSERT_EQ(reply.series(0).batches_size(), 2);
  EXPECT_EQ(reply.series(0).batches(1), 3);
}

// The process ends while the log is being flushed: some trials' files have the reports that the log has too.
TEST_F(MetricStores, SurviveACrashBetweenFilesAndLog) {
  Model model;
  open();
  const auto add = [&](const std::vector<MetricReport>& reports) {
    append(reports);
    for (const auto& one : reports) append_to(model, one);
  };
  add({report(100, 1, 1), report(100, 2, 2), report(101, 1, 1)});
  ASSERT_TRUE(store_->flush().has_value());
  add({report(100, 3, 3), report(100, 4, 4), report(101, 2, 2)});
  ASSERT_TRUE(store_->rewind({1, 100, 2}).has_value());
  rewind_in(model, {1, 100, 2});
  add({report(100, 3, 30), report(101, 3, 3)});
  fs::copy_file(folder() / "log", folder() / "copy");
  ASSERT_TRUE(store_->flush().has_value());
  store_.reset();
  fs::rename(folder() / "copy", folder() / "log");
  // What was being written to one of the files.
  std::ofstream(folder() / "trials/1/101.metrics", std::ios::app) << "VMB1 torn";
  open();
  for (int round = 0; round < 2; ++round) {
    expect_series(model, 100, "validation");
    expect_series(model, 101, "validation");
    ASSERT_TRUE(store_->flush().has_value());
  }
}

// The process ends while a thread moves the old log to the files: some of them have its reports already.
TEST_F(MetricStores, SurviveACrashWhileTheOldLogIsMoved) {
  Model model;
  open();
  const auto add = [&](const std::vector<MetricReport>& reports) {
    append(reports);
    for (const auto& one : reports) append_to(model, one);
  };
  add({report(100, 1, 1), report(100, 2, 2), report(101, 1, 1)});
  fs::copy_file(folder() / "log", folder() / "copy");
  ASSERT_TRUE(store_->flush().has_value());
  fs::remove(folder() / "trials/1/101.metrics");
  add({report(100, 2, 20), report(101, 2, 2)});
  store_.reset();
  fs::rename(folder() / "copy", folder() / "log.old");
  open();
  EXPECT_FALSE(fs::exists(folder() / "log.old"));
  expect_series(model, 100, "validation");
  expect_series(model, 101, "validation");
}

TEST_F(MetricStores, ShowWhatAThreadMovesToTheFiles) {
  Model model;
  open(400);
  for (int64_t i = 1; i <= 400; ++i) {
    const MetricReport one = report(100 + i % 3, i, 0.5 * static_cast<double>(i));
    append({one});
    append_to(model, one);
    if (i % 7 == 0) expect_series(model, 100 + i % 3, "validation");
  }
  for (int64_t trial = 100; trial < 103; ++trial) expect_series(model, trial, "validation");
  open();
  for (int64_t trial = 100; trial < 103; ++trial) expect_series(model, trial, "validation");
}

TEST_F(MetricStores, KeepReportsThatAThreadCannotMove) {
  open(1);
  append({report(100, 1, 1)});
  std::ofstream(folder() / "trials/1") << "a file in place of a folder";
  append({report(100, 2, 2)});  // Its log begins while the thread fails.
  const std::vector<MetricReport> third{report(100, 3, 3)};
  const auto refused = store_->append(third);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("trials/1"), std::string::npos) << refused.error().message;
  fs::remove(folder() / "trials/1");
  EXPECT_EQ(query(100, "").series(0).batches_size(), 2);
  append(third);
  EXPECT_EQ(query(100, "").series(0).batches_size(), 3);
  open();
  EXPECT_EQ(query(100, "").series(0).batches_size(), 3);
}

// Cuts and flips bytes of each file: the store opens, gives only what was reported, and takes new reports.
TEST_F(MetricStores, SkipDamage) {
  Model model;
  open();
  std::vector<MetricReport> reports;
  for (int64_t i = 1; i <= 60; ++i)
    reports.push_back(report(100, i, 0.1 * static_cast<double>(i), i % 2 ? "training" : "validation"));
  for (size_t part = 0; part < 3; ++part) {
    for (size_t i = part * 20; i < part * 20 + 20; ++i) {
      append({reports[i]});
      append_to(model, reports[i]);
    }
    if (part < 2) {
      ASSERT_TRUE(store_->flush().has_value());
    }
  }
  store_.reset();
  const fs::path good = directory_.path() / "good";
  fs::rename(folder(), good);
  size_t complete = 0, rounds = 0;
  for (const char* name : {"log", "trials/1/100.metrics"}) {
    const size_t size = fs::file_size(good / name);
    for (size_t at = 0; at < size; at += 7) {
      for (const bool cut : {true, false}) {
        for (const char* file : {"log", "trials/1/100.metrics"}) {
          fs::create_directories((folder() / file).parent_path());
          fs::copy_file(good / file, folder() / file, fs::copy_options::overwrite_existing);
        }
        if (cut) {
          fs::resize_file(folder() / name, at);
        } else {
          std::fstream file(folder() / name, std::ios::in | std::ios::out | std::ios::binary);
          file.seekg(static_cast<std::streamoff>(at));
          const int byte = file.get();
          file.seekp(static_cast<std::streamoff>(at));
          file.put(static_cast<char>(byte ^ (1 << at % 8)));
        }
        open();
        size_t points = 0;
        for (const std::string group : {"training", "validation"}) {
          auto expected = series_in(model, 1, 100, group, 0, 0)["loss"];
          const auto reply = query(100, group);
          for (const auto& series : reply.series()) {
            ASSERT_EQ(series.metric(), "loss");
            for (const Point& point : points_of(series)) {
              ASSERT_TRUE(std::find(expected.begin(), expected.end(), point) != expected.end()) << name << " " << at;
              ++points;
            }
          }
        }
        ++rounds;
        complete += points == 60 ? 1 : 0;
        append({report(100, 1000, 5)});
        if (rounds % 8 == 0) {
          ASSERT_TRUE(store_->flush().has_value());
        }
        const auto reply = query(100, "");
        ASSERT_GE(reply.series_size(), 1);
        ASSERT_EQ(reply.series(0).batches(reply.series(0).batches_size() - 1), 1000) << name << " " << at;
      }
    }
  }
  EXPECT_LT(complete, rounds / 20);
}

TEST_F(MetricStores, NameTheFileThatCannotBeWritten) {
  open();
  append({report(100, 1, 1)});
  std::ofstream(folder() / "trials/1") << "a file in place of a folder";
  const auto done = store_->flush();
  ASSERT_FALSE(done.has_value());
  EXPECT_NE(done.error().message.find("trials/1"), std::string::npos) << done.error().message;
  // Nothing is lost.
  fs::remove(folder() / "trials/1");
  ASSERT_TRUE(store_->flush().has_value());
  EXPECT_EQ(query(100, "").series(0).batches_size(), 1);
}

}  // namespace
}  // namespace volador::experiments
