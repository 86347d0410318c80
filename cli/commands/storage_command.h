// volador storage check | ls | cp | rm: folders in S3, GCS, Azure Blob or a file system.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace volador::cli {

class StorageCommand final : public CommandGroup {
 public:
  StorageCommand();
  CLI::App* declare(CLI::App& root) override;

 private:
  class Check final : public Command {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string place_;
  };
  class List final : public Command {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string place_;
  };
  class Copy final : public Command {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string from_, to_;
    std::vector<std::string> only_;
  };
  class Remove final : public Command {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string place_;
  };
};

}  // namespace volador::cli
