#include "worker/resources/health_reader.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/statvfs.h>

#include <cstring>
#include <memory>
#include <set>
#include <sstream>

#include "worker/hosts/cgroup.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAnyAddress4 = "00000000";
constexpr std::string_view kAnyAddress6 = "00000000000000000000000000000000";

// Cards of the default routes: "eth0 00000000 0100000A …" in proc/net/route; in proc/net/ipv6_route the destination and
// its length are first and the card is last.
std::set<std::string> cards_of_default_routes(const fs::path& root) {
  std::set<std::string> cards;
  std::istringstream four(read_small_file(root / "proc/net/route").value_or(""));
  for (std::string line; std::getline(four, line);) {
    std::istringstream words(line);
    std::string card, destination;
    if (words >> card >> destination && destination == kAnyAddress4) cards.insert(card);
  }
  std::istringstream six(read_small_file(root / "proc/net/ipv6_route").value_or(""));
  for (std::string line; std::getline(six, line);) {
    std::istringstream words(line);
    std::string destination, length, word, card;
    words >> destination >> length;
    while (words >> word) card = word;
    if (destination == kAnyAddress6 && length == "00") cards.insert(card);
  }
  cards.erase("lo");
  cards.erase("");
  return cards;
}

}  // namespace

std::string card_with_address(const std::string& address) {
  in_addr four{};
  in6_addr six{};
  const bool is_four = ::inet_pton(AF_INET, address.c_str(), &four) == 1;
  if (!is_four && ::inet_pton(AF_INET6, address.c_str(), &six) != 1) return {};
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, ::freeifaddrs);
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != (is_four ? AF_INET : AF_INET6)) continue;
    const bool same =
        is_four ? std::memcmp(&reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr, &four, sizeof four) == 0
                : std::memcmp(&reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr, &six, sizeof six) == 0;
    if (same) return at->ifa_name;
  }
  return {};
}

HealthReader::HealthReader(const std::string& card, fs::path root) : root_(std::move(root)) {
  std::set<std::string> cards = cards_of_default_routes(root_);
  if (!card.empty() && card != "lo") cards.insert(card);
  for (const std::string& name : cards) {
    if (is_up(name)) cards_.push_back(name);
  }
}

// Drivers of virtual cards report "unknown".
bool HealthReader::is_up(const std::string& card) const {
  const std::string state = read_small_file(root_ / "sys/class/net" / card / "operstate").value_or("");
  return state.starts_with("up") || state.starts_with("unknown");
}

HealthSample HealthReader::read(const protocol::MachineUsage& usage) const {
  HealthSample sample;
  for (const std::string& card : cards_) sample.cards.push_back({.name = card, .up = is_up(card)});
  for (const protocol::FileSystemUsage& row : usage.file_systems()) {
    if (row.uses().empty()) continue;  // The worker does not write to it.
    struct statvfs state {};
    if (::statvfs((root_ / fs::path(row.path()).relative_path()).c_str(), &state) != 0) continue;
    sample.file_systems.push_back(
        {.path = row.path(), .free_bytes = row.free_bytes(), .read_only = (state.f_flag & ST_RDONLY) != 0});
  }
  return sample;
}

}  // namespace volador::worker
