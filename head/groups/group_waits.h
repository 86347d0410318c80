// Clients that wait for a placement group to become ready. Their requests get a later reply; clients may leave before.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "head/clients/client_table.h"
#include "runtime/ids.h"

namespace volador::head {

class GroupWaits {
 public:
  using Waiter = std::pair<ClientRef, std::string>;  // The client and its request id.

  // Idempotent.
  void add(GroupId group, const Waiter& waiter) {
    if (!groups_[group].insert(waiter).second) return;
    clients_[waiter.first].emplace(group, waiter.second);
    ++size_;
  }
  // Removes and returns the waiters of the group.
  std::vector<Waiter> take(GroupId group) {
    const auto found = groups_.find(group);
    if (found == groups_.end()) return {};
    std::vector<Waiter> waiters(found->second.begin(), found->second.end());
    groups_.erase(found);
    for (const auto& [client, request] : waiters) {
      const auto of_client = clients_.find(client);
      of_client->second.erase({group, request});
      if (of_client->second.empty()) clients_.erase(of_client);
    }
    size_ -= waiters.size();
    return waiters;
  }
  void client_gone(const ClientRef& client) {
    const auto found = clients_.find(client);
    if (found == clients_.end()) return;
    for (const auto& [group, request] : found->second) {
      const auto of_group = groups_.find(group);
      of_group->second.erase({client, request});
      if (of_group->second.empty()) groups_.erase(of_group);
    }
    size_ -= found->second.size();
    clients_.erase(found);
  }
  size_t size() const { return size_; }

 private:
  std::map<GroupId, std::set<Waiter>> groups_;
  std::map<ClientRef, std::set<std::pair<GroupId, std::string>>> clients_;
  size_t size_ = 0;
};

}  // namespace volador::head
