// volador apply | get | describe | delete | watch: resources in the form of Kubernetes and Katib, with kubectl's words and
// output. `volador logs trial/NAME` is in query_commands.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/commands/query_commands.h"
#include "runtime/protocol/volador/v1/katib.pb.h"

namespace volador::cli {

class ApplyCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  // A file of resources that was read and is valid here.
  struct Given {
    std::string name, text;
    v1::ApplyKatibResourcesReply client_reply;  // What a dry run without the cluster says.
  };
  [[nodiscard]] tl::expected<std::vector<Given>, Failure> read_files(const Context& context) const;
  void print_reply(const Context& context, const v1::ApplyKatibResourcesReply& reply, std::string_view suffix) const;

  std::vector<std::string> files_;
  std::string namespace_, dry_run_ = "none", code_;
};

// KIND [NAME…], KIND/NAME…, -n, -A and -l, as the commands share them.
class ResourceSelection {
 public:
  void declare(CLI::App& app, bool is_required);
  void declare_all_namespaces(CLI::App& app);
  // One request for each kind and name. kUsage: there is no such kind, or no name.
  [[nodiscard]] tl::expected<std::vector<v1::ListKatibResourcesRequest>, Failure> requests() const;
  bool is_empty() const { return words_.empty(); }
  bool all_namespaces() const { return all_namespaces_; }
  const std::string& name_space() const { return namespace_; }

 private:
  std::vector<std::string> words_, labels_;
  std::string namespace_;
  bool all_namespaces_ = false;
};

class GetCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  ResourceSelection selection_;
  std::string output_;
  bool watch_ = false;
};

// The same as get --watch.
class WatchCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  ResourceSelection selection_;
  std::string output_;
};

class DescribeCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  ResourceSelection selection_;
};

class DeleteCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  [[nodiscard]] tl::expected<std::vector<v1::DeleteKatibResourceRequest>, Failure> requests() const;

  ResourceSelection selection_;
  std::vector<std::string> files_;
  bool ignore_not_found_ = false;
};

// The resource that "trial/NAME" names. No value: the text has no kind before a slash, or there is no such resource.
[[nodiscard]] tl::expected<std::optional<v1::KatibResource>, Failure> find_resource(control::ClusterApi& api,
                                                                                    const std::string& text,
                                                                                    const std::string& name_space);

}  // namespace volador::cli
