#include "head/shell/plain_peer.h"

namespace volador::head {

std::string plain_peer(std::string_view peer) {
  if (const size_t colon = peer.find(':'); colon != std::string_view::npos) peer.remove_prefix(colon + 1);
  std::string out;
  for (size_t at = 0; at < peer.size(); ++at) {
    const std::string_view escape = peer.substr(at, 3);
    if (escape == "%5B" || escape == "%5b" || escape == "%5D" || escape == "%5d") {
      out += (escape[2] | 0x20) == 'b' ? '[' : ']';
      at += 2;
    } else {
      out += peer[at];
    }
  }
  return out;
}

std::string peer_host(std::string_view peer) {
  const size_t from = peer.find(':');
  const size_t to = peer.rfind(':');
  return std::string(from == std::string_view::npos || to <= from ? peer : peer.substr(from + 1, to - from - 1));
}

}  // namespace volador::head
