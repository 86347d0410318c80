// volador experiment run-trial | run-gc: what the jobs of experiments run on their nodes. Not in the help.
#pragma once

#include <memory>
#include <string>

#include "cli/commands/query_commands.h"
#include "runtime/result.h"

namespace google::protobuf {
class Message;
}

namespace volador::cli {

class HeadCalls;

// A command of a job. It finds the head and its token in the environment, and asks a head that is away again.
class NodeCommand : public ClusterCommand {
 protected:
  // Calls for as long as the context lives.
  std::unique_ptr<HeadCalls> head_calls(const Context& context) const;
  // Calls the operation until the head answers, for at most 10 minutes. Errors as ClusterApi::call().
  [[nodiscard]] tl::expected<void, Failure> ask(const Context& context, const char* operation,
                                                const google::protobuf::Message& request,
                                                google::protobuf::Message& reply) const;
};

// Begins the run of a trial and replaces this process by the trial's; of one of kind Trial it stays as its parent and
// collects its metrics.
class RunTrialCommand final : public NodeCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;
};

// Deletes the checkpoints that an experiment no longer keeps.
class RunGarbageCommand final : public NodeCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;
};

}  // namespace volador::cli
