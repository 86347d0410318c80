// volador tune list | show | export | compare | why: runs read from their directories. No cluster is asked.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"

namespace volador::cli {

// What stands in the way of reading a run, with its exit code: it is not there, or cannot be read.
tl::unexpected<Failure> refuse_run(Error error);
// Which of the known words the value of a flag is; names the nearest one where it is none.
tl::expected<size_t, Failure> choice_of(std::string_view flag, const std::string& word, const std::vector<std::string>& known);

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
  bool wants_json() const override { return false; }  // Here --json names a file.
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
