#include "runtime/control/run_file_transfers.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/protocol/error_info.h"
#include "runtime/quantities.h"

namespace volador::control {

std::optional<protocol::RunFilesAnswer> RunFileTransfers::answer(BootTime now, const protocol::ReadRunFiles& question) {
  expire(now);
  if (question.end()) {
    transfers_.erase(question.transfer());
    return std::nullopt;
  }
  protocol::RunFilesAnswer answer;
  const Result<void> done = question.transfer() != 0  ? go_on(now, question.transfer(), answer)
                            : question.name().empty() ? list(question, answer)
                                                      : begin(now, question, answer);
  if (!done) {
    answer.Clear();
    fill(*answer.mutable_error(), done.error());
  }
  answer.set_request(question.request());
  return answer;
}

std::optional<BootTime> RunFileTransfers::expire(BootTime now) {
  std::optional<BootTime> next;
  std::erase_if(transfers_, [&](const auto& entry) {
    const BootTime ends = entry.second.asked + limits_.idle;
    if (ends <= now) return true;
    next = next ? std::min(*next, ends) : ends;
    return false;
  });
  return next;
}

Result<void> RunFileTransfers::list(const protocol::ReadRunFiles& question, protocol::RunFilesAnswer& answer) const {
  const auto entries = RunFiles(question.directory()).list(question.trial());
  if (!entries) return make_error(entries.error());
  for (const RunFiles::Entry& entry : *entries) {
    protocol::RunFilesAnswer::Entry& sent = *answer.add_entries();
    sent.set_name(entry.name);
    sent.set_kind(entry.kind);
    sent.set_bytes(entry.bytes);
    sent.set_modified_ms(entry.modified_ms);
  }
  return {};
}

Result<void> RunFileTransfers::begin(BootTime now, const protocol::ReadRunFiles& question,
                                     protocol::RunFilesAnswer& answer) {
  if (transfers_.size() >= limits_.open) {
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format("{} way from this machine already, which is the limit; ask again when some have arrived",
                    counted(limits_.open, "file is on its", "files are on their")));
  }
  auto opened = RunFiles(question.directory()).open(question.trial(), question.name());
  if (!opened) return make_error(opened.error());
  answer.set_file_name(opened->file_name);
  answer.set_content_type(opened->content_type);
  if (const auto length = opened->pieces->length()) answer.set_length(static_cast<int64_t>(*length));
  if (next_ == 0) ++next_;  // 0 means no transfer.
  const uint64_t transfer = next_++;
  transfers_[transfer] = {.pieces = std::move(opened->pieces), .asked = now};
  return go_on(now, transfer, answer);
}

Result<void> RunFileTransfers::go_on(BootTime now, uint64_t transfer, protocol::RunFilesAnswer& answer) {
  const auto found = transfers_.find(transfer);
  if (found == transfers_.end())
    return make_error(ErrorCode::kNotFound,
                      "this transfer has ended: its reader paused for too long, or the process that sent it is another "
                      "one now; ask for the file again");
  Transfer& one = found->second;
  auto piece = one.pieces->next();
  if (!piece) {
    transfers_.erase(found);
    return make_error(piece.error());
  }
  one.asked = now;
  one.sent += piece->size();
  const auto length = one.pieces->length();
  answer.set_transfer(transfer);
  answer.set_last(piece->empty() || (length && one.sent == *length));
  answer.set_piece(std::move(*piece));
  if (answer.last()) transfers_.erase(found);
  return {};
}

}  // namespace volador::control
