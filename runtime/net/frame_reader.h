// Reads frames from a stream in batches. Loop thread.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "runtime/net/frame.h"
#include "runtime/net/stream.h"

namespace volador::net {

// Reads and decodes the frames of one stream.
class FrameReader {
 public:
  static constexpr size_t kBatch = 32;

  struct Batch {
    std::array<Frame, kBatch> frames;
    size_t count = 0;
  };

  // Result of a read.
  struct Outcome {
    bool more = false;    // The budget is used up: call again soon, after other connections.
    bool paused = false;  // `take` pauses reading.
    bool ended = false;   // The stream ended, the peer violated the protocol, or `take` returned an error.
    Error why;
    size_t bytes = 0;
  };

  // See FrameDecoder.
  void set_rooms(FrameDecoder::Rooms rooms) { decoder_.set_rooms(std::move(rooms)); }

  // Passes batches of frames to `take`, a Result<bool>(Batch&), until the stream blocks or the budget is used up. After
  // `take` returned false, it still gets the frames already read, and nothing more is read.
  template <class Take>
  Outcome read(Stream& stream, std::span<char> buffer, Take&& take) {
    Outcome outcome;
    thread_local Batch batch;  // Large, therefore reused. Its contents are consumed when read() returns.
    for (size_t round = 0; round < kRoundsMax; ++round) {
      const std::span<char> room = decoder_.room_left();
      // A body with a room is probably followed by another one: read as little of it as possible into the buffer.
      const std::span<char> into = !room.empty()         ? room.first(std::min(room.size(), buffer.size()))
                                   : decoder_.has_room() ? buffer.first(std::min(kHeadBytes, buffer.size()))
                                                         : buffer;
      const StreamResult got = stream.read(into);
      outcome.bytes += got.bytes;
      if (room.empty()) {
        decoder_.feed({into.data(), got.bytes});
      } else {
        decoder_.count_in_room(got.bytes);
      }
      for (bool full = true; full;) {
        Error broken;
        full = fill(batch, broken);
        Result<bool> taken = true;
        if (batch.count > 0) taken = take(batch);
        if (taken && !broken.message.empty()) taken = make_error(broken);
        if (!taken) return fail(outcome, std::move(taken).error());
        outcome.paused = !*taken;
      }
      if (got.ended) return fail(outcome, {ErrorCode::kUnavailable, got.error});
      if (got.blocked || outcome.paused || got.bytes < into.size()) return outcome;
    }
    outcome.more = true;
    return outcome;
  }

 private:
  static constexpr size_t kRoundsMax = 8;
  static constexpr size_t kHeadBytes = 4096;

  static Outcome fail(Outcome outcome, Error why) {
    outcome.ended = true;
    outcome.why = std::move(why);
    return outcome;
  }

  // True if the batch is full and more frames may follow.
  bool fill(Batch& batch, Error& broken) {
    batch.count = 0;
    while (batch.count < kBatch) {
      auto got = decoder_.next(batch.frames[batch.count]);
      if (!got) {
        broken = std::move(got).error();
        return false;
      }
      if (!*got) return false;
      ++batch.count;
    }
    return true;
  }

  FrameDecoder decoder_;
};

}  // namespace volador::net
