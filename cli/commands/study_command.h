// volador study create | ask | tell | report | list | show | delete: studies that the head stores for any program.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/query_commands.h"

namespace volador::cli {

class StudyCommand final : public CommandGroup {
 public:
  StudyCommand();
  CLI::App* declare(CLI::App& root) override;
};

class StudyCreateCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string name_, space_, searcher_, scheduler_, request_;
  std::vector<std::string> objectives_;
  uint64_t seed_ = 0;
  int64_t max_trials_ = 0;
  std::optional<int64_t> max_retries_;
  std::string lease_;
  bool load_ = false;
};

class StudyAskCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string study_, worker_, request_;
  int64_t count_ = 1;
};

class StudyTellCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string study_, state_, reason_, request_;
  int64_t number_ = 0;
  std::vector<std::string> values_;
};

class StudyReportCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string study_, value_, request_;
  int64_t number_ = 0, step_ = 0;
};

class StudyListCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;
};

class StudyShowCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string study_, state_;
  int limit_ = 50;
};

class StudyDeleteCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string study_, request_;
};

}  // namespace volador::cli
