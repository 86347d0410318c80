// Copy of a rank's state, taken while the next batch is computed: forward and backward passes only read parameters and
// the state of optimizers. What is not copied when a step begins is copied by the thread that steps.
//
//   RankLoop::copy_state() ──▶ write(), on another thread    copies piece by piece, then adds checksums
//                          └─▶ finish(), before the step     copies the pieces that write() has not taken
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "train/optim/state_dict.h"

namespace volador::train {

class StateCopy {
 public:
  // `parameters`: those whose memory `value` shares. Empty: the value shares no memory, and finish() has nothing to do.
  // `changes_early` is set if one of them changes before finish(), which makes the copy useless.
  StateCopy(c10::IValue value, std::vector<at::Tensor> parameters, std::shared_ptr<std::atomic<bool>> changes_early);
  StateCopy(const StateCopy&) = delete;
  StateCopy& operator=(const StateCopy&) = delete;

  // The functions of the thread that writes, once each.
  size_t size();  // Bytes of the copy, as to_bytes().
  // kApplication: a parameter changed before finish().
  void write(std::span<char> out);
  // The parts of write(), for tests: any number of copy_piece() comes between. It returns false if no piece is left.
  void begin(std::span<char> out);
  bool copy_piece();
  void end();

  // Returns when changes of the tensors do not reach the copy. Thread of the steps, at any time.
  void finish();

 private:
  PackedState& packed();
  void wait_for_pieces();

  c10::IValue value_;
  const std::vector<at::Tensor> parameters_;
  std::vector<int64_t> versions_;  // Those of the parameters at the start.
  const std::shared_ptr<std::atomic<bool>> changes_early_;
  std::optional<PackedState> packed_;
  std::vector<ArchivePlace> pieces_;
  std::atomic<size_t> taken_{0};  // Pieces that a thread has begun to copy.

  std::mutex mutex_;  // Guards the rest.
  std::condition_variable all_done_;
  size_t done_ = 0;                     // Pieces.
  bool is_damaged_ = false;             // A parameter changed before all pieces were copied.
  std::span<char> out_;                 // Given to begin().
  std::unique_ptr<char[]> own_;         // Memory of finish() that came before begin().
  std::atomic<char*> memory_{nullptr};  // One of both: where the pieces go.
};

}  // namespace volador::train
