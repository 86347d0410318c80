// volador model create | list | describe | …: the model registry. The commands are those of Determined's `det model`, and
// those for aliases.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/commands/query_commands.h"
#include "cli/experiment_calls.h"
#include "runtime/protocol/volador/v1/models.pb.h"

namespace volador::cli {

class ModelCommand final : public CommandGroup {
 public:
  ModelCommand();
  CLI::App* declare(CLI::App& root) override;

 private:
  class Create final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    v1::Model model_;
    std::vector<std::string> labels_;
  };
  class List final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string name_, user_, workspace_, sort_by_ = "changed", order_by_ = "desc";
    std::vector<std::string> labels_;
    bool all_ = false;
    int limit_ = 1000;
  };
  class Describe final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string model_;
  };
  class ListVersions final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string model_;
    int limit_ = 1000;
  };
  class Register final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string model_;
    v1::ModelVersion version_;
    std::vector<std::string> labels_, aliases_;
  };
  class DescribeVersion final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string model_, version_;
  };
  class Edit final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    CLI::App* app_ = nullptr;
    std::string model_, name_, description_, notes_, metadata_, workspace_;
    std::vector<std::string> add_labels_, remove_labels_, remove_aliases_;
  };
  class EditVersion final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    CLI::App* app_ = nullptr;
    std::string model_, version_, name_, comment_, notes_, metadata_;
    std::vector<std::string> add_labels_, remove_labels_;
  };
  class Archive final : public ClusterCommand {
   public:
    explicit Archive(bool archives) : archives_(archives) {}
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    const bool archives_;
    std::vector<std::string> models_;
  };
  class Delete final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string model_;
  };
  class DeleteVersion final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string model_, version_;
  };
  class Promote final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string model_, version_, alias_;
  };
  class Download final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string model_, target_;
  };
};

}  // namespace volador::cli
