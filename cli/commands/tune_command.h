// volador tune list | show | export | compare | why: reads runs from their directories, without a cluster.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"

namespace volador::cli {

// The failure, with exit code, for a missing or unreadable run.
tl::unexpected<Failure> refuse_run(Error error);
// The index of a flag's value among the known words; an error names the nearest word.
tl::expected<size_t, Failure> choice_of(std::string_view flag, const std::string& word,
                                        const std::vector<std::string>& known);

class TuneCommand final : public CommandGroup {
 public:
  TuneCommand();
  CLI::App* declare(CLI::App& root) override;
};

class TuneListCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string folder_;
};

class TuneShowCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string directory_;
  size_t limit_ = 50;
};

class TuneExportCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  bool wants_json() const override { return false; }  // --json names a file here.
  Outcome run(const Context& context) override;

 private:
  std::string directory_, csv_file_, json_file_;
};

class TuneWhyCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string directory_, trial_;
  size_t others_ = 10;
};

class TuneCompareCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::vector<std::string> directories_;
  std::string metric_, mode_, scope_ = "last";
};

}  // namespace volador::cli
